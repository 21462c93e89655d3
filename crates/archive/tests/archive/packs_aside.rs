//! Packs of timelines that are set aside and put back.

use std::sync::Arc;

use walzip_archive::ArchiveError;
use walzip_archive::pack::pack;
use walzip_archive::progress::Progress;
use walzip_archive::set_aside::{
    plan_put_back, plan_set_aside, plan_set_aside_from, put_back, set_aside,
};
use walzip_archive::sync::{SyncOptions, sync};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_pgformat::TimelineId;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{Repository, WalListing};

use crate::packs::{archive, assert_all_there, got, objects, options, pack_all};
use crate::wal::{
    CLUSTER, PAGE_MAGIC_15, SEGMENT_SIZE, push_content, segment, segment_name, valid_segment,
};

/// A segment of timeline 2.
fn second(number: u64) -> String {
    segment_name(number).replacen("00000001", "00000002", 1)
}

/// Timeline 2 leaves 1 before segment 3, and has three segments.
async fn push_second(repository: &Repository) {
    push_branch(repository, 0).await;
}

/// The same with other content.
async fn push_branch(repository: &Repository, mark: u8) {
    let history = format!("1\t0/{:X}\treason\n", 3 * SEGMENT_SIZE);
    let pushed = push_content(repository, "00000002.history", history.as_bytes()).await;
    pushed.expect("pushed");
    for number in 3..6 {
        let start = number * SEGMENT_SIZE as u64;
        let content = segment(CLUSTER, PAGE_MAGIC_15, 2, start, number as u8 + mark);
        let pushed = push_content(repository, &second(number), &content).await;
        pushed.expect("pushed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pack_moves_with_its_timeline() {
    let repository = archive(memory_store(), 1..4).await;
    push_second(&repository).await;
    pack_all(&repository).await;
    let before = objects(&repository).await;
    assert_eq!((before.single.len(), before.packs.len()), (1, 2));
    let plan = plan_set_aside(&repository, TimelineId(2))
        .await
        .expect("planned");
    assert_eq!((plan.objects(), plan.timelines[0].segments), (2, 3));
    let label = plan.label;
    set_aside(&repository, &plan).await.expect("set aside");
    let aside = objects(&repository).await;
    assert_eq!((aside.single.len(), aside.packs.len()), (0, 1));
    let name = second(4);
    assert_eq!(got(&repository, &name).await.expect("got"), None);
    assert_all_there(&repository, 1..4).await;
    let plan = plan_put_back(&repository, label).await.expect("planned");
    put_back(&repository, &plan).await.expect("put back");
    let names = |listing: &WalListing| -> Vec<_> {
        listing.packs.iter().map(|pack| pack.name.clone()).collect()
    };
    let back = objects(&repository).await;
    assert_eq!((names(&back), back.single.len()), (names(&before), 1));
    assert!(got(&repository, &name).await.expect("got").is_some());
}

/// Two branches may have the same history, where each is of a recovery to the same point. Under one label they would be
/// put back together.
#[tokio::test(start_paused = true)]
async fn each_branch_has_a_label_of_its_own_in_packs_or_not() {
    for are_packed in [[false, false], [false, true], [true, false], [true, true]] {
        let repository = archive(memory_store(), 1..4).await;
        let mut labels = Vec::new();
        for (is_packed, mark) in are_packed.into_iter().zip([0, 100]) {
            push_branch(&repository, mark).await;
            if is_packed {
                pack_all(&repository).await;
            }
            let plan = plan_set_aside(&repository, TimelineId(2)).await;
            let plan = plan.expect("planned");
            set_aside(&repository, &plan).await.expect("set aside");
            labels.push(plan.label);
        }
        assert_ne!(labels[0], labels[1], "{are_packed:?}");
        for (label, mark) in labels.into_iter().zip([0, 100]) {
            let plan = plan_put_back(&repository, label).await.expect("planned");
            put_back(&repository, &plan).await.expect("put back");
            let start = 4 * SEGMENT_SIZE as u64;
            let content = segment(CLUSTER, PAGE_MAGIC_15, 2, start, 4 + mark);
            let found = got(&repository, &second(4)).await.expect("got");
            assert!(found == Some(content), "{are_packed:?}, {label}");
            let plan = plan_set_aside(&repository, TimelineId(2)).await;
            set_aside(&repository, &plan.expect("planned"))
                .await
                .expect("set aside");
        }
    }
}

/// What stays of a pack of which a part moves has objects of its own, and the pack can be put back beside them.
#[tokio::test(start_paused = true)]
async fn what_stays_of_a_pack_that_is_set_aside_stays_archived() {
    let repository = archive(memory_store(), 1..9).await;
    pack_all(&repository).await;
    let from = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&repository, from, false).await;
    let plan = plan.expect("planned");
    assert_eq!((plan.objects(), plan.staying().len()), (1, 4));
    set_aside(&repository, &plan).await.expect("set aside");
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (4, 0));
    assert_all_there(&repository, 1..5).await;
    for number in 5..9 {
        let found = got(&repository, &segment_name(number)).await;
        assert_eq!(found.expect("asked"), None);
    }
    let verified = verify(&repository, &VerifyOptions::default()).await;
    assert_eq!(verified.expect("verified").findings, []);
    // One that moved was pushed again, the same.
    let content = valid_segment(5, 5);
    push_content(&repository, &segment_name(5), &content)
        .await
        .expect("pushed");
    let back = plan_put_back(&repository, plan.label).await;
    put_back(&repository, &back.expect("planned"))
        .await
        .expect("put back");
    assert_all_there(&repository, 1..9).await;
    pack_all(&repository).await;
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (0, 1));
    assert_all_there(&repository, 1..9).await;
}

/// Another server's WAL has come to have the names.
#[tokio::test(start_paused = true)]
async fn a_pack_is_not_put_back_beside_other_content() {
    let repository = archive(memory_store(), 1..9).await;
    pack_all(&repository).await;
    let from = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&repository, from, false).await;
    let plan = plan.expect("planned");
    set_aside(&repository, &plan).await.expect("set aside");
    let other = valid_segment(6, 77);
    push_content(&repository, &segment_name(6), &other)
        .await
        .expect("pushed");
    let refused = plan_put_back(&repository, plan.label).await;
    assert!(matches!(refused, Err(ArchiveError::Duplicate { name }) if name == segment_name(6)));
}

/// Whatever a run of pack that finds the segments' own objects beside their pack removes, they stay archived.
#[tokio::test(start_paused = true)]
async fn what_stays_is_not_lost_to_a_run_of_pack() {
    for seed in 0..12 {
        let store = memory_store();
        let repository = archive(Arc::clone(&store), 1..9).await;
        pack_all(&repository).await;
        let from = segment_name(5).parse().expect("a segment");
        let plan = plan_set_aside_from(&repository, from, false).await;
        let plan = plan.expect("planned");
        let faults = |seed| Faults {
            seed,
            latency_ms_max: 3000,
            ..Faults::default()
        };
        let open = async |seed| {
            let slow = FaultyStore::new(Arc::clone(&store), faults(seed));
            Repository::open(Arc::new(slow)).await.expect("open")
        };
        let (moving, packing) = (open(seed).await, open(100 + seed).await);
        let pack_again = async {
            for _ in 0..6 {
                // What moves while it is read may be called damaged.
                let _ = pack(&packing, &options()).await;
            }
        };
        let (moved, ()) = tokio::join!(set_aside(&moving, &plan), pack_again);
        moved.expect("set aside");
        assert_all_there(&repository, 1..5).await;
        let found = got(&repository, &segment_name(5)).await;
        assert_eq!(found.expect("asked"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_does_not_stay_in_the_place_of_a_pack() {
    let repository = archive(memory_store(), 1..9).await;
    pack_all(&repository).await;
    let name = segment_name(2);
    let damaged = repository.put_wal(&name, "no walzip file".into()).await;
    damaged.expect("put");
    let from = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&repository, from, false).await;
    let refused = set_aside(&repository, &plan.expect("planned")).await;
    assert!(refused.is_err());
    assert_eq!(objects(&repository).await.packs.len(), 1);
    assert_all_there(&repository, 1..9).await;
}

/// What production has archived since a stray server's WAL was set aside is not set aside by doing that again.
#[tokio::test(start_paused = true)]
async fn what_was_archived_and_packed_since_then_moves_only_again() {
    let repository = archive(memory_store(), 1..9).await;
    pack_all(&repository).await;
    let from = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&repository, from, false).await;
    set_aside(&repository, &plan.expect("planned"))
        .await
        .expect("set aside");
    for number in 5..12 {
        let own = valid_segment(number, 77);
        push_content(&repository, &segment_name(number), &own)
            .await
            .expect("pushed");
    }
    pack_all(&repository).await;
    for from in [5, 6, 8] {
        let from = segment_name(from).parse().expect("a segment");
        let refused = plan_set_aside_from(&repository, from, false).await;
        let refused = refused.expect_err("it is another server's");
        assert!(
            refused.to_string().contains("was set aside before"),
            "{refused}"
        );
        assert!(plan_set_aside_from(&repository, from, true).await.is_ok());
    }
    // Nothing of these names is aside.
    let from = segment_name(9).parse().expect("a segment");
    assert!(plan_set_aside_from(&repository, from, false).await.is_ok());
}

/// What is packed between the plan of a move and the move is not lost, and moves the next time.
#[tokio::test(start_paused = true)]
async fn a_timeline_that_is_packed_while_it_is_set_aside_moves_later() {
    let repository = archive(memory_store(), 1..3).await;
    push_second(&repository).await;
    let plan = plan_set_aside(&repository, TimelineId(2))
        .await
        .expect("planned");
    pack_all(&repository).await;
    assert!(set_aside(&repository, &plan).await.is_err());
    for number in 3..6 {
        assert!(
            got(&repository, &second(number))
                .await
                .expect("got")
                .is_some()
        );
    }
    let plan = plan_set_aside(&repository, TimelineId(2))
        .await
        .expect("planned");
    set_aside(&repository, &plan).await.expect("set aside");
    assert_eq!(got(&repository, &second(4)).await.expect("got"), None);
}

/// The same where only a part of a timeline moves: what is packed meanwhile is told from what production archives.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_packed_while_it_is_set_aside_moves_later() {
    let repository = archive(memory_store(), 1..9).await;
    let from = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&repository, from, false).await;
    let plan = plan.expect("planned");
    pack_all(&repository).await;
    for number in 5..9 {
        let content = valid_segment(number, number as u8);
        let path = segment_name(number);
        let object = walzip_codec::encode(&content, walzip_codec::Level::MIN).expect("encoded");
        let put = repository.put_wal(&path, object.into()).await;
        put.expect("put");
    }
    let refused = set_aside(&repository, &plan).await.expect_err("packed");
    assert!(refused.to_string().contains("run this again"), "{refused}");
    let plan = plan_set_aside_from(&repository, from, false).await;
    set_aside(&repository, &plan.expect("planned"))
        .await
        .expect("set aside");
    assert_all_there(&repository, 1..5).await;
    for number in 5..9 {
        let found = got(&repository, &segment_name(number)).await;
        assert_eq!(found.expect("asked"), None);
    }
}

/// What a move has copied and not removed may be packed by the time that it is taken back.
#[tokio::test(start_paused = true)]
async fn what_was_packed_after_an_interrupted_move_is_taken_back() {
    let repository = archive(memory_store(), 1..3).await;
    push_second(&repository).await;
    let plan = plan_set_aside(&repository, TimelineId(2)).await;
    let label = plan.expect("planned").label;
    let copied = repository.copy_aside(label, &second(4)).await;
    copied.expect("copied");
    pack_all(&repository).await;
    let plan = plan_put_back(&repository, label).await.expect("planned");
    put_back(&repository, &plan).await.expect("put back");
    assert_eq!(repository.list_aside_labels().await.expect("listed"), []);
    assert!(got(&repository, &second(4)).await.expect("got").is_some());
}

/// A pack is not brought for a part of it, where another part is not to come.
#[tokio::test(start_paused = true)]
async fn what_was_set_aside_does_not_come_with_its_pack() {
    let to = archive(memory_store(), 1..9).await;
    let from_five = segment_name(5).parse().expect("a segment");
    let plan = plan_set_aside_from(&to, from_five, false).await;
    set_aside(&to, &plan.expect("planned"))
        .await
        .expect("set aside");
    to.remove_wal(&[segment_name(3)]).await.expect("removed");
    let from = archive(memory_store(), 1..9).await;
    pack_all(&from).await;
    let options = SyncOptions {
        parallel: 1,
        pinned: false,
        progress: Progress::default(),
    };
    let synced = sync(&from, &to, &options).await.expect("synchronized");
    assert_eq!(synced[0].wal_files, 1, "{synced:?}");
    assert!(!synced[0].problems.is_empty());
    let listing = objects(&to).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (4, 0));
    assert_all_there(&to, 1..5).await;
}
