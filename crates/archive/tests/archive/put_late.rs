//! Segments' own objects that come after a pack of the same segments: a put that the store was late with, and what is
//! pushed again since its pack is damaged.
//!
//! Each test has segments of its own: a process keeps some that it has decoded out of packs.

use walzip_archive::ArchiveError;
use walzip_archive::expire::{OnlyCopies, only_copies, protection};
use walzip_archive::progress::Progress;
use walzip_archive::push::PushOutcome;
use walzip_archive::sync::{SyncOptions, sync};
use walzip_archive::verify::{FindingKind, VerifyOptions, verify};
use walzip_repo::Repository;
use walzip_repo::testing::memory_store;

use crate::packs::{archive, assert_all_there, damage, got, objects, pack_all};
use crate::wal::{CLUSTER, push_content, repository, segment_name, valid_segment};

/// As a put that was on its way since before the segment was packed.
async fn put_late(repository: &Repository, number: u64, seed: u8) {
    let other = archive(memory_store(), 0..0).await;
    let name = segment_name(number);
    let content = valid_segment(number, seed);
    push_content(&other, &name, &content).await.expect("pushed");
    let object = other.get_wal(&name).await.expect("read").expect("there");
    repository.put_wal(&name, object).await.expect("put");
}

/// What was acknowledged is in the pack. A stray copy of the server has put its own late.
#[tokio::test(start_paused = true)]
async fn what_a_pack_has_counts_before_what_was_put_late() {
    let repository = archive(memory_store(), 600..604).await;
    pack_all(&repository).await;
    put_late(&repository, 601, 77).await;
    assert_all_there(&repository, 600..604).await;
    let name = segment_name(601);
    for (seed, is_same) in [(601_u64 as u8, true), (77, false)] {
        let pushed = push_content(&repository, &name, &valid_segment(601, seed)).await;
        match is_same {
            true => assert_eq!(pushed.expect("there").outcome, PushOutcome::AlreadyStored),
            false => assert!(matches!(pushed, Err(ArchiveError::Duplicate { .. }))),
        }
    }
    let key = format!("wal/{}/{}/{name}.wz", CLUSTER.name(), &name[..16]);
    let remedy = format!("\"walzip repo rm {key} --confirm\"");
    let packing = pack_all(&repository).await;
    assert_eq!((packing.problems.len(), packing.settled.len()), (1, 0));
    let detail = &packing.problems[0].detail;
    assert!(detail.contains(&remedy), "{detail}");
    assert!(!detail.contains("damaged"), "{detail}");
    let verified = verify(&repository, &VerifyOptions::default()).await;
    let findings = verified.expect("verified").findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, FindingKind::WalPutLate);
    assert_eq!(findings[0].object, name);
    assert!(findings[0].detail.contains(&remedy), "{findings:?}");
    assert_eq!(protection(&repository, &key).await.expect("asked"), None);
    repository.remove_wal(&[name]).await.expect("removed");
    assert_all_there(&repository, 600..604).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_nowhere_but_in_a_pack_is_told() {
    let store = memory_store();
    let repository = archive(store.clone(), 640..644).await;
    pack_all(&repository).await;
    let pack = objects(&repository).await.packs.remove(0).name;
    let key = format!(
        "wal/{}/pack/{}/{pack}",
        CLUSTER.name(),
        &segment_name(640)[..16]
    );
    let only = async || only_copies(&store, &key).await.expect("asked");
    let lost = |segments, first, last| {
        Some(OnlyCopies {
            segments,
            first: segment_name(first),
            last: segment_name(last),
        })
    };
    assert_eq!(only().await, lost(4, 640, 643));
    for number in [640, 641, 643] {
        put_late(&repository, number, number as u8).await;
    }
    // Another content is no copy.
    put_late(&repository, 642, 77).await;
    assert_eq!(only().await, lost(1, 642, 642));
    let name = segment_name(642);
    repository.remove_wal(&[name]).await.expect("removed");
    put_late(&repository, 642, 642_u64 as u8).await;
    assert_eq!(only().await, None);
    let of_another = only_copies(&store, "repository.json").await;
    assert_eq!(of_another.expect("asked"), None);
}

#[tokio::test(start_paused = true)]
async fn a_repository_is_brought_what_the_pack_has() {
    let from = archive(memory_store(), 610..613).await;
    pack_all(&from).await;
    put_late(&from, 611, 77).await;
    let to = repository().await;
    let options = SyncOptions {
        parallel: 2,
        pinned: false,
        progress: Progress::default(),
    };
    let synced = sync(&from, &to, &options).await.expect("synchronized");
    assert_eq!(synced[0].problems, []);
    assert_all_there(&to, 610..613).await;
}

/// An object that came late is all there is, where the pack is damaged.
#[tokio::test(start_paused = true)]
async fn what_was_put_late_counts_where_the_pack_is_damaged() {
    let store = memory_store();
    let repository = archive(store.clone(), 620..624).await;
    pack_all(&repository).await;
    let size = objects(&repository).await.packs[0].size_bytes;
    damage(&store, &repository, size / 4).await;
    let lost = segment_name(623);
    assert!(got(&repository, &lost).await.is_err());
    put_late(&repository, 623, 623_u64 as u8).await;
    assert_all_there(&repository, 623..624).await;
    damage(&store, &repository, size / 4).await;
    assert_all_there(&repository, 620..624).await;
}

/// The server has it still. What another server has under its name is refused.
#[tokio::test(start_paused = true)]
async fn a_segment_that_its_pack_has_lost_is_put_again() {
    let store = memory_store();
    let repository = archive(store.clone(), 630..634).await;
    pack_all(&repository).await;
    let size = objects(&repository).await.packs[0].size_bytes;
    damage(&store, &repository, size / 4).await;
    let name = segment_name(632);
    let other = push_content(&repository, &name, &valid_segment(632, 9)).await;
    assert!(
        matches!(other, Err(ArchiveError::Duplicate { .. })),
        "{other:?}"
    );
    let own = valid_segment(632, 632_u64 as u8);
    for outcome in [PushOutcome::Stored, PushOutcome::AlreadyStored] {
        let pushed = push_content(&repository, &name, &own).await;
        assert_eq!(pushed.expect("pushed").outcome, outcome);
    }
    assert_all_there(&repository, 632..633).await;
}
