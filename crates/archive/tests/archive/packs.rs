//! Packs of WAL: what is packed stays archived, whatever happens.

use std::collections::BTreeSet;
use std::sync::Arc;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_archive::ArchiveError;
use walzip_archive::get::{GetOptions, Got, get};
use walzip_archive::info::info;
use walzip_archive::pack::{PackOptions, Packing, pack};
use walzip_archive::progress::Progress;
use walzip_archive::push::PushOutcome;
use walzip_archive::sync::{SyncOptions, sync};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_codec::Level;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{Repository, WalListing};

use crate::wal::{
    CLUSTER, PgWal, SEGMENT_SIZE, push_content, repository, repository_on, segment_name,
    valid_segment,
};

pub fn options() -> PackOptions {
    PackOptions {
        level: Level::MIN,
        newest: 0,
        segments: 256,
        all: true,
        dry_run: false,
        scratch: std::env::temp_dir(),
        progress: Progress::default(),
    }
}

/// An archive of these segments.
pub async fn archive(store: Arc<dyn ObjectStore>, numbers: std::ops::Range<u64>) -> Repository {
    let repository = repository_on(store).await;
    for number in numbers {
        let content = valid_segment(number, number as u8);
        let pushed = push_content(&repository, &segment_name(number), &content).await;
        pushed.expect("pushed");
    }
    repository
}

pub async fn pack_all(repository: &Repository) -> Packing {
    let mut packed = pack(repository, &options()).await.expect("packed");
    packed.pop().expect("a cluster")
}

pub async fn objects(repository: &Repository) -> WalListing {
    repository.list_wal_objects().await.expect("listed")
}

pub async fn got(repository: &Repository, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
    let pg_wal = PgWal::new();
    let destination = pg_wal.path().join("RECOVERYXLOG");
    match get(repository, name, &destination, &GetOptions::default()).await? {
        Got::Found { .. } => Ok(Some(std::fs::read(&destination).expect("a file"))),
        Got::NotFound => Ok(None),
    }
}

pub async fn assert_all_there(repository: &Repository, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let found = got(repository, &segment_name(number)).await.expect("got");
        let expected = valid_segment(number, number as u8);
        assert!(found == Some(expected), "segment {number}");
    }
}

/// One by hand beside one on a schedule, with other options.
#[tokio::test(start_paused = true)]
async fn two_that_pack_at_the_same_time_do_not_store_segments_twice() {
    let repository = archive(memory_store(), 1..13).await;
    let of = |segments| PackOptions {
        segments,
        ..options()
    };
    let (fours, sixes) = (of(4), of(6));
    let (fours, sixes) = tokio::join!(pack(&repository, &fours), pack(&repository, &sixes));
    for packed in [fours, sixes] {
        assert_eq!(packed.expect("packed")[0].problems, []);
    }
    let packs = objects(&repository).await.packs;
    let stored: Vec<String> = packs.iter().flat_map(|pack| pack.name.segments()).collect();
    let distinct: BTreeSet<&String> = stored.iter().collect();
    assert!(
        !packs.is_empty() && distinct.len() == stored.len(),
        "{packs:?}"
    );
    assert_all_there(&repository, 1..13).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_packed_is_got_in_any_order() {
    let repository = archive(memory_store(), 1..12).await;
    let before = repository.list_wal().await.expect("listed");
    let packing = pack_all(&repository).await;
    assert_eq!((packing.packs.len(), packing.problems.len()), (1, 0));
    assert_eq!(packing.packs[0].segments, 11);
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (0, 1));
    let names = |entries: &[walzip_repo::WalEntry]| -> Vec<String> {
        entries.iter().map(|entry| entry.name.clone()).collect()
    };
    assert_eq!(names(&listing.entries()), names(&before));
    assert_all_there(&repository, (1..12).chain([3, 9, 9, 2, 11])).await;
    assert_eq!(
        got(&repository, &segment_name(12)).await.expect("got"),
        None
    );
    assert_eq!(got(&repository, &segment_name(0)).await.expect("got"), None);
    let again = pack_all(&repository).await;
    assert_eq!((again.packs.len(), again.settled.len()), (0, 0));
    let verified = verify(&repository, &VerifyOptions::default()).await;
    let verified = verified.expect("verified");
    assert_eq!((verified.wal_objects, verified.findings.len()), (11, 0));
}

/// Full packs only, and not the newest.
#[tokio::test(start_paused = true)]
async fn packs_what_no_more_can_follow() {
    let repository = archive(memory_store(), 60..70).await;
    let rules = |newest, dry_run| PackOptions {
        newest,
        segments: 4,
        all: false,
        dry_run,
        ..options()
    };
    for (newest, expected) in [(7, 0), (6, 1)] {
        let planned = pack(&repository, &rules(newest, true))
            .await
            .expect("planned");
        assert_eq!(planned[0].packs.len(), expected);
        assert_eq!(objects(&repository).await.packs.len(), 0);
    }
    let packed = pack(&repository, &rules(6, false)).await.expect("packed");
    assert_eq!(packed[0].packs[0].segments, 4);
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (6, 1));
    assert_all_there(&repository, 60..70).await;
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_is_packed_is_compared_when_it_is_pushed() {
    let repository = archive(memory_store(), 1..5).await;
    pack_all(&repository).await;
    let same = push_content(&repository, &segment_name(3), &valid_segment(3, 3)).await;
    assert_eq!(same.expect("pushed").outcome, PushOutcome::AlreadyStored);
    let other = push_content(&repository, &segment_name(3), &valid_segment(3, 9)).await;
    assert!(
        matches!(other, Err(ArchiveError::Duplicate { .. })),
        "{other:?}"
    );
    assert_eq!(objects(&repository).await.single.len(), 0);
    assert_all_there(&repository, 1..5).await;
}

/// Whichever call of the store is the last one of a process, or has an answer that is lost.
#[tokio::test(start_paused = true)]
async fn each_segment_is_there_whenever_it_is_interrupted() {
    let mut interrupted = 0;
    for lost_answer in [false, true] {
        for call in 1.. {
            let store = memory_store();
            let direct = archive(Arc::clone(&store), 1..4).await;
            let faults = Faults {
                fail_call: (!lost_answer).then_some(call),
                lose_answer_of_call: lost_answer.then_some(call),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(&store), faults);
            let over: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
            let packed = match Repository::open(over).await {
                Ok(repository) => pack(&repository, &options()).await,
                Err(error) => Err(error.into()),
            };
            assert_all_there(&direct, 1..4).await;
            let is_beyond = faulty.calls() < call;
            interrupted += u32::from(packed.is_err());
            let again = pack_all(&direct).await;
            assert_eq!(again.problems, []);
            let listing = objects(&direct).await;
            assert_eq!((listing.single.len(), listing.packs.len()), (0, 1));
            assert_all_there(&direct, 1..4).await;
            if is_beyond {
                break;
            }
        }
    }
    assert!(interrupted > 20, "{interrupted}");
}

#[tokio::test]
async fn packs_beside_others() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..9).await;
    let work = async {
        let both = futures::future::join(pack_all(&repository), pack_all(&repository)).await;
        assert_eq!((both.0.problems.len(), both.1.problems.len()), (0, 0));
    };
    let readers = async {
        for round in 0..40_u64 {
            let number = 1 + round % 8;
            assert_all_there(&repository, number..number + 1).await;
            let content = valid_segment(number, number as u8);
            let pushed = push_content(&repository, &segment_name(number), &content).await;
            assert_eq!(pushed.expect("pushed").outcome, PushOutcome::AlreadyStored);
            let listed = repository.list_wal().await.expect("listed");
            assert_eq!(listed.len(), 8);
            tokio::time::sleep(std::time::Duration::from_millis(350)).await;
        }
    };
    futures::future::join(work, readers).await;
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (0, 1));
}

/// Changes a byte of the first pack.
pub async fn damage(store: &Arc<dyn ObjectStore>, repository: &Repository, at: u64) {
    change(store, repository, |pack| pack[at as usize] ^= 1).await;
}

async fn first_pack(repository: &Repository) -> Key {
    let pack = objects(repository).await.packs.remove(0);
    let directory = &segment_name(1)[..16];
    Key::from(format!(
        "wal/{}/pack/{directory}/{}",
        CLUSTER.name(),
        pack.name
    ))
}

/// Changes the first pack; returns its key and what it was.
async fn change(
    store: &Arc<dyn ObjectStore>,
    repository: &Repository,
    change: impl FnOnce(&mut Vec<u8>),
) -> (Key, Vec<u8>) {
    let key = first_pack(repository).await;
    let object = store.get(&key).await.expect("there").bytes().await;
    let object = object.expect("read").to_vec();
    let mut changed = object.clone();
    change(&mut changed);
    store.put(&key, changed.into()).await.expect("put");
    (key, object)
}

/// A store that gives an empty object works: it is the pack that is damaged.
#[tokio::test(start_paused = true)]
async fn a_pack_of_a_size_that_none_has_is_damaged() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..5).await;
    pack_all(&repository).await;
    for len in [0, 1, 183] {
        let (key, object) = change(&store, &repository, |pack| pack.truncate(len)).await;
        let found = got(&repository, &segment_name(2)).await;
        assert!(
            matches!(found, Err(ArchiveError::Damaged { .. })),
            "{found:?}"
        );
        let verified = verify(&repository, &VerifyOptions::default()).await;
        assert_eq!(verified.expect("verified").findings.len(), 4);
        info(&repository).await.expect("information");
        store.put(&key, object.into()).await.expect("put");
    }
    assert_all_there(&repository, 1..5).await;
}

/// Two packs have the same segments: what is damaged in one comes from the other, and so does what is
/// damaged as an object of its own.
#[tokio::test(start_paused = true)]
async fn what_is_damaged_in_one_place_is_taken_from_another() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..5).await;
    pack_all(&repository).await;
    let other = archive(memory_store(), 1..4).await;
    pack_all(&other).await;
    let pack = objects(&other).await.packs.remove(0).name;
    let object = other.packs().read(&pack).await.expect("read");
    let object = object.expect("there");
    repository.put_pack(&pack, object).await.expect("put");
    let size = objects(&repository).await.packs[0].size_bytes;
    for at in [20, size / 4, size - 30] {
        damage(&store, &repository, at).await;
        assert_all_there(&repository, [2, 1, 3].into_iter()).await;
        damage(&store, &repository, at).await;
    }
    let name = segment_name(2);
    repository
        .put_wal(&name, "no walzip file".into())
        .await
        .expect("put");
    assert_all_there(&repository, 1..5).await;
}

/// What is stored twice is whole, but a pack that cannot be read is none.
#[tokio::test(start_paused = true)]
async fn a_damaged_pack_is_told_of_where_its_segments_are_stored_by_themselves_too() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..5).await;
    pack_all(&repository).await;
    let singles = archive(memory_store(), 1..5).await;
    for number in 1..5 {
        let name = segment_name(number);
        let object = singles.get_wal(&name).await.expect("read").expect("there");
        repository.put_wal(&name, object).await.expect("put");
    }
    let whole = verify(&repository, &VerifyOptions::default()).await;
    assert_eq!(whole.expect("verified").findings, []);
    change(&store, &repository, |pack| pack.truncate(300)).await;
    let verified = verify(&repository, &VerifyOptions::default()).await;
    let findings = verified.expect("verified").findings;
    let pack = objects(&repository).await.packs.remove(0).name.to_string();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].object, pack);
    assert_all_there(&repository, 1..5).await;
}

/// The names of these segments cannot be of 16 MB.
#[tokio::test(start_paused = true)]
async fn a_damaged_pack_does_not_hide_the_size_of_segments() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 300..312).await;
    pack_all(&repository).await;
    for number in 320..324 {
        let content = valid_segment(number, number as u8);
        let pushed = push_content(&repository, &segment_name(number), &content).await;
        pushed.expect("pushed");
    }
    pack_all(&repository).await;
    assert_eq!(objects(&repository).await.packs.len(), 2);
    change(&store, &repository, |pack| pack.truncate(300)).await;
    let information = info(&repository).await.expect("information");
    let size = information.newest.segment_size_bytes;
    assert_eq!(size, Some(SEGMENT_SIZE as u32));
}

/// What expires while it is packed is no problem.
#[tokio::test(start_paused = true)]
async fn a_pack_that_expires_while_it_is_proven_is_no_problem() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..5).await;
    let faults = Faults {
        seed: 5,
        latency_ms_max: 5000,
        ..Faults::default()
    };
    let slow = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
    let packing = async {
        let slow = Repository::open(slow).await.expect("open");
        pack_all(&slow).await
    };
    let expiring = async {
        while objects(&repository).await.packs.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let pack = first_pack(&repository).await;
        store.delete(&pack).await.expect("removed");
    };
    let (packing, ()) = futures::future::join(packing, expiring).await;
    assert_eq!(packing.problems, []);
    assert_all_there(&repository, 1..5).await;
}

/// Each case has segments of its own: a process keeps some that it has decoded, and gives those out without
/// another look at their pack.
#[tokio::test(start_paused = true)]
async fn damage_is_told_of_each_segment_and_never_delivered() {
    const SEGMENTS: u64 = 5;
    // In the third segment, the index, the trailer and the header: how many segments are whole.
    type Place = fn(u64) -> u64;
    let places: [(Place, u64); 4] = [
        (|size| 16 + (size - SEGMENTS * 120 - 56 - 16) / 2, 2),
        (|size| size - 400, 0),
        (|size| size - 60, 0),
        (|_| 5, 0),
    ];
    for (case, (place, whole)) in (1..).zip(places) {
        let numbers = case * 1000..case * 1000 + SEGMENTS;
        let first_lost = numbers.start + whole;
        let store = memory_store();
        let repository = archive(Arc::clone(&store), numbers.clone()).await;
        pack_all(&repository).await;
        let at = place(objects(&repository).await.packs[0].size_bytes);
        damage(&store, &repository, at).await;
        let verified = verify(&repository, &VerifyOptions::default()).await;
        let findings = verified.expect("verified").findings;
        let lost: Vec<String> = findings.iter().map(|of| of.object.clone()).collect();
        let expected: Vec<String> = (first_lost..numbers.end).map(segment_name).collect();
        assert_eq!(lost, expected, "byte {at}: {findings:?}");
        assert_all_there(&repository, numbers.start..first_lost).await;
        for number in first_lost..numbers.end {
            let found = got(&repository, &segment_name(number)).await;
            assert!(found.is_err(), "byte {at}, segment {number}");
        }
        let last = numbers.end - 1;
        let content = valid_segment(last, last as u8);
        let pushed = push_content(&repository, &segment_name(last), &content).await;
        assert_eq!(pushed.expect("put again").outcome, PushOutcome::Stored);
        assert_all_there(&repository, last..last + 1).await;
        damage(&store, &repository, at).await;
        assert_all_there(&repository, numbers).await;
    }
}

/// These segments have nothing in common, so that the 129th begins anew.
#[tokio::test(start_paused = true)]
async fn damage_ends_where_a_segment_begins_anew() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..133).await;
    pack_all(&repository).await;
    let size = objects(&repository).await.packs[0].size_bytes;
    let segment_len = (size - 16 - 132 * 120 - 56) / 132;
    damage(&store, &repository, 16 + segment_len * 5 / 2).await;
    let verified = verify(&repository, &VerifyOptions::default()).await;
    let findings = verified.expect("verified").findings;
    let lost: Vec<String> = findings.iter().map(|of| of.object.clone()).collect();
    let expected: Vec<String> = (3..129).map(segment_name).collect();
    assert_eq!(lost, expected);
    assert_all_there(&repository, [130, 2, 129, 132, 1].into_iter()).await;
    for number in [3, 4, 128] {
        let found = got(&repository, &segment_name(number)).await;
        assert!(found.is_err(), "segment {number}");
    }
}

/// Nothing is removed where pack and object are not the same.
#[tokio::test(start_paused = true)]
async fn a_segment_that_is_not_the_one_in_the_pack_stays() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..4).await;
    pack_all(&repository).await;
    let other = archive(memory_store(), 1..2).await;
    let content = valid_segment(2, 77);
    push_content(&other, &segment_name(2), &content)
        .await
        .expect("pushed");
    let object = other
        .get_wal(&segment_name(2))
        .await
        .expect("read")
        .expect("there");
    // As a writer would that knows of no packs.
    repository
        .put_wal(&segment_name(2), object)
        .await
        .expect("put");
    let packing = pack_all(&repository).await;
    assert_eq!((packing.problems.len(), packing.settled.len()), (1, 0));
    assert_eq!(objects(&repository).await.single.len(), 1);
    let findings = verify(&repository, &VerifyOptions::default())
        .await
        .expect("verified")
        .findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].object, segment_name(2));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_segment_is_not_packed_and_keeps_nobody_else_back() {
    let repository = archive(memory_store(), 1..5).await;
    let name = segment_name(6);
    repository
        .put_wal(&name, "no walzip file".into())
        .await
        .expect("put");
    for number in [7, 64, 65] {
        let content = valid_segment(number, number as u8);
        push_content(&repository, &segment_name(number), &content)
            .await
            .expect("pushed");
    }
    let packing = pack_all(&repository).await;
    assert_eq!((packing.packs.len(), packing.problems.len()), (2, 1));
    assert_eq!(packing.problems[0].first, name);
    let listing = objects(&repository).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (2, 2));
}

/// A pack that appears when its segments have just been moved says so: it would stay behind.
#[tokio::test(start_paused = true)]
async fn a_pack_that_came_too_late_is_a_problem() {
    let store = memory_store();
    let repository = archive(Arc::clone(&store), 1..5).await;
    let faults = Faults {
        seed: 3,
        latency_ms_max: 5000,
        ..Faults::default()
    };
    let slow = Arc::new(FaultyStore::new(store, faults));
    let packing = async {
        let slow = Repository::open(slow).await.expect("open");
        pack_all(&slow).await
    };
    let moving = async {
        while objects(&repository).await.packs.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let names: Vec<String> = (1..5).map(segment_name).collect();
        repository.remove_wal(&names).await.expect("removed");
    };
    let (packing, ()) = futures::future::join(packing, moving).await;
    let detail = &packing.problems[0].detail;
    assert!(detail.contains("walzip timeline set-aside"), "{detail}");
    assert_all_there(&repository, 1..5).await;
}

#[tokio::test(start_paused = true)]
async fn a_repository_is_brought_the_packs_that_it_lacks() {
    let from = archive(memory_store(), 1..8).await;
    pack_all(&from).await;
    let to = repository().await;
    for number in [1, 7] {
        let content = valid_segment(number, number as u8);
        push_content(&to, &segment_name(number), &content)
            .await
            .expect("pushed");
    }
    let options = SyncOptions {
        parallel: 2,
        pinned: false,
        progress: Progress::default(),
    };
    let synced = sync(&from, &to, &options).await.expect("synchronized");
    assert_eq!(
        (synced[0].wal_files, synced[0].problems.len()),
        (5, 0),
        "{synced:?}"
    );
    assert_all_there(&to, 1..8).await;
    let listing = objects(&to).await;
    assert_eq!((listing.single.len(), listing.packs.len()), (2, 1));
    let again = sync(&from, &to, &options).await.expect("synchronized");
    assert_eq!(again[0].wal_files, 0);
    let packing = pack_all(&to).await;
    assert_eq!((packing.settled.len(), packing.problems.len()), (1, 0));
    assert_eq!(objects(&to).await.single.len(), 0);
    assert_all_there(&to, 1..8).await;
}
