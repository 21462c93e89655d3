//! Packs of WAL: what holds on every store.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{AsideLabel, PackName, PutOutcome, RepoError, Repository, copy_repository};

use crate::{CLUSTER, new_repository, patterned};

const FIRST: &str = "000000010000000A000000FE";
const SECOND: &str = "000000010000000A000000FF";
const THIRD: &str = "000000010000000A00000100";

fn name(count: usize) -> PackName {
    let archived = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_072_000);
    PackName::new(FIRST, count, archived).unwrap()
}

fn mark_key(mark: &str) -> Path {
    Path::from(format!("wal/{}/{mark}", CLUSTER.name()))
}

async fn has(store: &Arc<dyn ObjectStore>, key: &Path) -> bool {
    match store.head(key).await {
        Ok(_) => true,
        Err(object_store::Error::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

pub async fn a_pack_is_put_once_listed_read_and_removed(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let packs = repository.packs();
    assert_eq!(packs.list().await.unwrap(), []);
    let object = patterned("a pack", 100_000);
    let put = repository.put_pack(&name(2), object.clone()).await;
    assert_eq!(put.unwrap(), PutOutcome::Created);
    let put = repository
        .put_pack(&name(2), Bytes::from_static(b"other"))
        .await;
    assert_eq!(put.unwrap(), PutOutcome::Exists);
    let listed = packs.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].size_bytes), (1, 100_000));
    assert_eq!(listed[0].name, name(2));
    assert_eq!(packs.with(SECOND).await.unwrap(), listed);
    for other in [THIRD, "000000020000000A000000FE", "00000002.history"] {
        assert_eq!(packs.with(other).await.unwrap(), []);
    }
    let range = packs.read_range(&name(2), 70_000..90_000).await.unwrap();
    assert_eq!(range.unwrap(), object.slice(70_000..90_000));
    assert_eq!(packs.read(&name(2)).await.unwrap(), Some(object));
    let beyond = packs.read_range(&name(2), 99_999..100_001).await;
    assert!(matches!(beyond, Err(RepoError::Corrupt { .. })));
    repository.remove_pack(&name(2)).await.unwrap();
    repository.remove_pack(&name(2)).await.unwrap();
    assert_eq!(packs.read_range(&name(2), 0..5).await.unwrap(), None);
    assert_eq!(packs.list().await.unwrap(), []);
}

pub async fn what_is_packed_is_listed_with_the_rest(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    for single in [SECOND, THIRD, "00000002.history"] {
        repository
            .put_wal(single, patterned(single, 30))
            .await
            .unwrap();
    }
    repository
        .put_pack(&name(2), patterned("a pack", 1001))
        .await
        .unwrap();
    let listed = repository.list_wal().await.unwrap();
    let names: Vec<_> = listed
        .iter()
        .map(|entry| {
            (
                entry.name.as_str(),
                entry.size_bytes,
                entry.packed.is_some(),
            )
        })
        .collect();
    let expected = [
        (FIRST, 501, true),
        (SECOND, 30, false),
        (THIRD, 30, false),
        ("00000002.history", 30, false),
    ];
    assert_eq!(names, expected);
    assert_eq!(listed[0].modified, name(2).archived());
    let survey = repository.survey_wal().await.unwrap();
    assert_eq!(survey.timelines.into_iter().collect::<Vec<_>>(), [1]);
    repository
        .remove_wal(&[SECOND.to_owned(), THIRD.to_owned()])
        .await
        .unwrap();
    let found = repository.find_wal(SECOND).await.unwrap().unwrap();
    assert!(found.packed.is_some());
    assert_eq!(repository.find_wal(THIRD).await.unwrap(), None);
    let survey = repository.survey_wal().await.unwrap();
    assert_eq!(survey.timelines.into_iter().collect::<Vec<_>>(), [1]);
}

pub async fn an_older_reader_finds_no_mark_before_the_first_pack(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    let (old, new) = (mark_key("cluster.json"), mark_key("packed.json"));
    let mark = store.get(&old).await.unwrap().bytes().await.unwrap();
    assert!(!has(&store, &new).await);
    repository
        .put_pack(&name(1), patterned("a pack", 5))
        .await
        .unwrap();
    // Where the mark is missing, a reader that knows of no packs refuses.
    assert!(!has(&store, &old).await);
    assert_eq!(store.get(&new).await.unwrap().bytes().await.unwrap(), mark);
    assert_eq!(repository.get_wal(THIRD).await.unwrap(), None);
    // Neither an initialisation nor another pack brings it back.
    Repository::init(Arc::clone(&store), CLUSTER).await.unwrap();
    repository
        .put_pack(&name(2), patterned("a pack", 5))
        .await
        .unwrap();
    assert!(!has(&store, &old).await);
    store.delete(&Path::from("repository.json")).await.unwrap();
    let again = Repository::init(Arc::clone(&store), CLUSTER)
        .await
        .unwrap()
        .0;
    assert!(!has(&store, &old).await);
    assert_eq!(again.list_wal().await.unwrap().len(), 2);
    store.delete(&new).await.unwrap();
    let missed = again.get_wal(THIRD).await;
    assert!(matches!(missed, Err(RepoError::NotInPlace { .. })));
}

pub async fn packs_are_set_aside_and_put_back(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let object = patterned("a pack", 5000);
    repository.put_pack(&name(2), object.clone()).await.unwrap();
    let label = AsideLabel::first(1);
    let (packs, aside) = (repository.packs(), repository.packs_aside(label));
    for (from, to) in [(&packs, &aside), (&aside, &packs)] {
        for _ in 0..2 {
            repository.copy_pack(from, to, &name(2)).await.unwrap();
        }
        for _ in 0..2 {
            repository
                .remove_copied_pack(from, to, &name(2))
                .await
                .unwrap();
        }
        assert_eq!(from.list().await.unwrap(), []);
        assert_eq!(to.read(&name(2)).await.unwrap(), Some(object.clone()));
    }
    assert_eq!(repository.list_aside_labels().await.unwrap(), []);
}

#[tokio::test]
async fn a_repository_without_a_mark_gets_no_pack() {
    let store = memory_store();
    let json = format!(
        r#"{{"format": 1, "system_identifier": "{}", "major": {}, "created": "2026-11-21T22:01:30Z"}}"#,
        CLUSTER.system_id, CLUSTER.major
    );
    let key = Path::from("repository.json");
    store.put(&key, json.into_bytes().into()).await.unwrap();
    let repository = Repository::open(store).await.unwrap();
    let put = repository.put_pack(&name(2), patterned("a pack", 5)).await;
    assert!(matches!(put, Err(RepoError::NotPackable { .. })));
    assert_eq!(repository.packs().list().await.unwrap(), []);
}

/// What is begun as a copy of a repository without packs is one with packs later.
#[tokio::test]
async fn a_copy_gets_the_packs_and_the_mark_of_packs() {
    let from = new_repository(memory_store()).await;
    for single in [FIRST, SECOND] {
        from.put_wal(single, patterned(single, 30)).await.unwrap();
    }
    let to = memory_store();
    let options = walzip_repo::CopyRepositoryOptions {
        parallel: 2,
        compare: false,
    };
    for _ in 0..2 {
        copy_repository(&from, to.as_ref(), options, &|_| ())
            .await
            .unwrap();
        from.put_pack(&name(2), patterned("a pack", 5))
            .await
            .unwrap();
    }
    assert!(!has(&to, &mark_key("cluster.json")).await);
    let copy = Repository::open(to).await.unwrap();
    let listing = copy.list_wal_objects().await.unwrap();
    assert_eq!((listing.single.len(), listing.packs.len()), (2, 1));
}

/// As it is after `timeline set-aside --from`: the pack is aside, and what stays of it has an object.
async fn split(store: Arc<dyn ObjectStore>) -> Repository {
    let repository = new_repository(store).await;
    let object = patterned("a pack", 100);
    repository.put_pack(&name(2), object).await.unwrap();
    let aside = repository.packs_aside(AsideLabel::first(1));
    let packs = repository.packs();
    let copied = repository.copy_pack(&packs, &aside, &name(2)).await;
    copied.unwrap();
    repository.put_wal(FIRST, "x".into()).await.unwrap();
    repository.remove_pack(&name(2)).await.unwrap();
    repository
}

/// Opens what was split on a store that is slow, and finds nothing where it looks after the mark first.
async fn found_late(latency_ms_max: u64, before: u64) -> Repository {
    let store = memory_store();
    split(Arc::clone(&store)).await;
    let faults = Faults {
        latency_ms_max,
        find_nothing_at_call: Some(before + 1),
        ..Faults::default()
    };
    let faulty = FaultyStore::new(store, faults);
    Repository::open(Arc::new(faulty)).await.unwrap()
}

/// How many calls an open makes, and a look for the mark.
async fn calls() -> (u64, u64) {
    let store = memory_store();
    split(Arc::clone(&store)).await;
    let faulty = FaultyStore::new(store, Faults::default());
    let repository = Repository::open(Arc::new(faulty.clone())).await.unwrap();
    let opened = faulty.calls();
    repository.check_wal().await.unwrap();
    (opened, faulty.calls())
}

#[tokio::test(start_paused = true)]
async fn what_stays_of_a_pack_that_is_split_meanwhile_is_found() {
    let (opened, checked) = calls().await;
    let repository = found_late(0, opened).await;
    let found = repository.find_wal(FIRST).await.unwrap();
    assert_eq!(found.unwrap().size_bytes, 1);
    assert_eq!(repository.find_wal(SECOND).await.unwrap(), None);
    for (latency_ms_max, is_listed) in [(0, false), (100_000, true)] {
        let repository = found_late(latency_ms_max, checked).await;
        // What is found at once was not split meanwhile.
        let listed = repository.list_wal().await.unwrap();
        assert_eq!(listed.len(), usize::from(is_listed));
    }
}

#[tokio::test]
async fn a_copy_has_what_stays_of_a_pack_that_is_split_meanwhile() {
    let (from, to) = (memory_store(), memory_store());
    let repository = new_repository(Arc::clone(&from)).await;
    let object = patterned("a pack", 100);
    repository.put_pack(&name(2), object).await.unwrap();
    let options = walzip_repo::CopyRepositoryOptions {
        parallel: 1,
        compare: false,
    };
    let store = Arc::clone(&from);
    let begun = move |step| {
        if let walzip_repo::CopyStep::Begin(_) = step {
            let repository = repository.clone();
            let split = async move {
                repository.put_wal(FIRST, "x".into()).await.unwrap();
                repository.remove_pack(&name(2)).await.unwrap();
            };
            futures::executor::block_on(split);
        }
    };
    let repository = Repository::open(store).await.unwrap();
    let copied = copy_repository(&repository, to.as_ref(), options, &begun).await;
    assert_eq!(copied.unwrap().damaged, []);
    let copy = Repository::open(to).await.unwrap();
    assert_eq!(copy.get_wal(FIRST).await.unwrap(), Some("x".into()));
}
