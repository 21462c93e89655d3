//! A repository that is kept through upgrades: each cluster has its record and its WAL, and a
//! record that is lost, damaged or exchanged never makes another cluster the newest.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{
    AsideLabel, ClusterIdentity, Initialised, LocalStore, PutOutcome, RepoError, Repository,
};

use crate::{CLUSTER, SEGMENT, new_repository};

pub const UPGRADED: ClusterIdentity = ClusterIdentity {
    system_id: 7_301_234_567_890_999_999,
    major: 16,
};
/// The same upgrade, done again.
const AGAIN: ClusterIdentity = ClusterIdentity {
    system_id: 7_301_234_567_891_000_000,
    major: 16,
};
const NEWEST: ClusterIdentity = ClusterIdentity {
    system_id: 7_301_234_567_892_000_000,
    major: 18,
};

async fn register(store: &Arc<dyn ObjectStore>, cluster: ClusterIdentity) -> Repository {
    let repository = Repository::open(Arc::clone(store)).await.unwrap();
    let registered = repository.register(cluster, false).await;
    let (part, outcome) = registered.unwrap();
    assert_eq!((part.cluster(), outcome), (cluster, Initialised::Created));
    part
}

/// A repository of three clusters, each with a segment of its own under the same name.
async fn of_three(store: &Arc<dyn ObjectStore>) -> [Repository; 3] {
    let first = new_repository(Arc::clone(store)).await;
    let second = register(store, UPGRADED).await;
    let third = register(store, NEWEST).await;
    let parts = [first, second, third];
    for part in &parts {
        let object = part.cluster().name();
        part.put_wal(SEGMENT, object.into()).await.unwrap();
    }
    parts
}

async fn read(store: &Arc<dyn ObjectStore>, key: &str) -> Bytes {
    let found = store.get(&Path::from(key)).await.unwrap();
    found.bytes().await.unwrap()
}

async fn write(store: &Arc<dyn ObjectStore>, key: &str, object: Bytes) {
    store.put(&Path::from(key), object.into()).await.unwrap();
}

async fn remove(store: &Arc<dyn ObjectStore>, key: &str) {
    store.delete(&Path::from(key)).await.unwrap();
}

/// What the repository says of its newest cluster.
async fn newest(store: &Arc<dyn ObjectStore>) -> Result<ClusterIdentity, RepoError> {
    let repository = Repository::open(Arc::clone(store)).await?;
    let newest = repository.read_clusters().await?.newest()?;
    Ok(newest.cluster())
}

#[track_caller]
fn assert_not_in_place<T: std::fmt::Debug>(outcome: Result<T, RepoError>, expected: &str) {
    let error = outcome.unwrap_err();
    let RepoError::NotInPlace { place, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(place, expected, "{error}");
}

#[tokio::test]
async fn each_cluster_has_its_own_wal_on_every_store() {
    let directory = tempfile::tempdir().unwrap();
    let local: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(directory.path()));
    for store in [memory_store(), local] {
        let parts = of_three(&store).await;
        assert_eq!(newest(&store).await.unwrap(), NEWEST);
        let opened = Repository::open(Arc::clone(&store)).await.unwrap();
        for (number, part) in (1..).zip(&parts) {
            let cluster = part.cluster();
            let found = opened.of(cluster).await.unwrap();
            assert_eq!((found.number(), found.created()), (number, part.created()));
            let name = cluster.name();
            let own = found.get_wal(SEGMENT).await.unwrap();
            assert_eq!(own, Some(name.clone().into()));
            found
                .copy_aside(AsideLabel::first(1), SEGMENT)
                .await
                .unwrap();
            let labels = found.list_aside_labels().await.unwrap();
            assert_eq!(labels.len(), 1);
            assert_eq!(found.list_wal().await.unwrap().len(), 1);
            let mark = read(&store, &format!("wal/{name}/cluster.json")).await;
            assert_eq!(mark, read(&store, &found.record_key()).await);
        }
        let stranger = opened.of(AGAIN).await.unwrap_err().to_string();
        assert!(stranger.contains(&NEWEST.to_string()), "{stranger}");
        assert!(stranger.contains(&AGAIN.to_string()), "{stranger}");
    }
}

#[tokio::test]
async fn the_first_cluster_costs_no_request_and_another_a_listing_and_its_record() {
    let store = memory_store();
    of_three(&store).await;
    let counting = FaultyStore::new(Arc::clone(&store), Faults::default());
    let repository = Repository::open(Arc::new(counting.clone())).await.unwrap();
    for (cluster, expected) in [(CLUSTER, 0), (NEWEST, 2), (UPGRADED, 3)] {
        let before = counting.calls();
        repository.of(cluster).await.unwrap();
        assert_eq!(counting.calls() - before, expected, "{cluster}");
    }
}

#[tokio::test]
async fn only_a_newer_major_version_is_an_upgrade() {
    let store = memory_store();
    let repository = new_repository(Arc::clone(&store)).await;
    let (known, outcome) = repository.register(CLUSTER, false).await.unwrap();
    assert_eq!((known.number(), outcome), (1, Initialised::Existed));
    register(&store, UPGRADED).await;
    let older = ClusterIdentity {
        major: 14,
        ..NEWEST
    };
    for (cluster, same_major) in [(older, false), (older, true), (AGAIN, false)] {
        let refused = repository.register(cluster, same_major).await.unwrap_err();
        let is_told = matches!(
            refused,
            RepoError::NotAnUpgrade {
                newest: UPGRADED,
                ..
            }
        );
        assert!(is_told, "{refused}");
    }
    let (again, outcome) = repository.register(AGAIN, true).await.unwrap();
    assert_eq!((again.number(), outcome), (3, Initialised::Created));
    for known in [CLUSTER, UPGRADED, AGAIN] {
        let (_, outcome) = repository.register(known, false).await.unwrap();
        assert_eq!(outcome, Initialised::Existed);
    }
    assert_eq!(newest(&store).await.unwrap(), AGAIN);
}

#[tokio::test]
async fn an_upgrade_survives_a_failure_of_each_call_in_turn() {
    for lose_answer in [false, true] {
        for call in 1.. {
            let store = memory_store();
            let first = new_repository(Arc::clone(&store)).await;
            first.put_wal(SEGMENT, "old".into()).await.unwrap();
            let faults = Faults {
                fail_call: Some(call).filter(|_| !lose_answer),
                lose_answer_of_call: Some(call).filter(|_| lose_answer),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(&store), faults);
            let outcome = match Repository::open(Arc::new(faulty.clone())).await {
                Ok(repository) => repository.register(UPGRADED, false).await,
                Err(error) => Err(error),
            };
            // Either it is registered or it is not: nothing looks damaged.
            let is_registered = newest(&store).await.unwrap() == UPGRADED;
            assert_eq!(first.of(UPGRADED).await.is_ok(), is_registered);
            assert!(outcome.is_err() || is_registered, "call {call}");
            let (second, _) = first.register(UPGRADED, false).await.unwrap();
            let put = second.put_wal(SEGMENT, "new".into()).await.unwrap();
            assert_eq!(put, PutOutcome::Created);
            assert_eq!(first.get_wal(SEGMENT).await.unwrap(), Some("old".into()));
            let clusters = first.read_clusters().await.unwrap();
            assert_eq!(clusters.complete().unwrap().len(), 2);
            if faulty.calls() < call {
                outcome.unwrap();
                assert!(call > 5, "the upgrade took {call} calls only");
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_upgrade_that_was_killed_between_its_puts_is_taken_up() {
    let store = memory_store();
    let first = new_repository(Arc::clone(&store)).await;
    let second = register(&store, UPGRADED).await;
    remove(&store, "cluster/2.json").await;
    // There is a mark alone: nothing was ever accepted.
    assert_eq!(newest(&store).await.unwrap(), CLUSTER);
    let refused = first.of(UPGRADED).await.unwrap_err();
    assert!(matches!(refused, RepoError::Mismatch { .. }), "{refused}");
    let (again, outcome) = first.register(UPGRADED, false).await.unwrap();
    assert_eq!(outcome, Initialised::Created);
    assert_eq!(again.created(), second.created());
    again.put_wal(SEGMENT, "x".into()).await.unwrap();
}

#[tokio::test]
async fn upgrades_at_the_same_time_agree() {
    for seed in 0..20 {
        let store = memory_store();
        new_repository(Arc::clone(&store)).await;
        let faults = Faults {
            seed,
            latency_ms_max: 3,
            ..Faults::default()
        };
        let slow: Arc<dyn ObjectStore> = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let both = [UPGRADED, AGAIN];
        let attempts = (0..6).map(|n| {
            let slow = Arc::clone(&slow);
            async move {
                let repository = Repository::open(slow).await?;
                repository.register(both[n % 2], false).await
            }
        });
        let outcomes = join_all(attempts).await;
        let winner = newest(&store).await.unwrap();
        let mut created = 0;
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok((part, outcome)) => {
                    assert_eq!((part.cluster(), part.number()), (winner, 2));
                    created += usize::from(outcome == Initialised::Created);
                }
                Err(error) => {
                    assert!(both[n % 2] != winner, "{error}");
                    assert!(matches!(error, RepoError::NotAnUpgrade { .. }), "{error}");
                }
            }
        }
        assert_eq!(created, 1);
    }
}

#[tokio::test]
async fn a_lost_record_does_not_make_an_older_cluster_the_newest() {
    let store = memory_store();
    let [first, second, third] = of_three(&store).await;
    // The last one: its WAL shows it.
    remove(&store, "cluster/3.json").await;
    let place = format!("wal/{}", NEWEST.name());
    assert_not_in_place(newest(&store).await, &place);
    let other = ClusterIdentity {
        system_id: 1,
        major: 19,
    };
    assert_not_in_place(first.register(other, false).await, &place);
    assert_eq!(first.of(UPGRADED).await.unwrap().number(), 2);
    let (again, outcome) = first.register(NEWEST, false).await.unwrap();
    assert_eq!((again.number(), outcome), (3, Initialised::Created));
    assert_eq!(again.created(), third.created());

    // One before others: the gap shows it.
    remove(&store, "cluster/2.json").await;
    assert_not_in_place(newest(&store).await, "cluster/2.json");
    assert_not_in_place(first.of(UPGRADED).await, "cluster/2.json");
    assert_not_in_place(first.register(UPGRADED, false).await, "cluster/2.json");
    for cluster in [CLUSTER, NEWEST] {
        first.of(cluster).await.unwrap();
    }
    // Its copy is the one to put in its place.
    let mark = read(&store, &format!("wal/{}/cluster.json", UPGRADED.name())).await;
    write(&store, "cluster/2.json", mark).await;
    assert_eq!(newest(&store).await.unwrap(), NEWEST);
    let found = first.of(UPGRADED).await.unwrap();
    assert_eq!(found.created(), second.created());
    found.list_wal().await.unwrap();
}

#[tokio::test]
async fn a_lost_first_record_is_not_made_anew_for_another_cluster() {
    let store = memory_store();
    let [first, ..] = of_three(&store).await;
    remove(&store, "repository.json").await;
    let error = Repository::open(Arc::clone(&store)).await.unwrap_err();
    assert!(matches!(error, RepoError::NotARepository { .. }), "{error}");
    for cluster in [UPGRADED, NEWEST, AGAIN] {
        let made = Repository::init(Arc::clone(&store), cluster).await;
        assert_not_in_place(made, "repository.json");
    }
    let made = Repository::init(Arc::clone(&store), CLUSTER).await;
    let (again, outcome) = made.unwrap();
    assert_eq!(outcome, Initialised::Created);
    assert_eq!(again.created(), first.created());
    assert_eq!(newest(&store).await.unwrap(), NEWEST);
}

#[tokio::test]
async fn damaged_and_exchanged_records_are_found() {
    let store = memory_store();
    let [first, ..] = of_three(&store).await;
    let (two, three) = (
        read(&store, "cluster/2.json").await,
        read(&store, "cluster/3.json").await,
    );
    let one = read(&store, "repository.json").await;
    let bad = Bytes::from_static(b"{");
    for (second, third, damaged) in [
        (&three, &two, "cluster/3.json"),
        (&two, &two, "cluster/3.json"),
        (&one, &three, "cluster/2.json"),
        (&bad, &three, "cluster/2.json"),
        (&two, &bad, "cluster/3.json"),
    ] {
        write(&store, "cluster/2.json", second.clone()).await;
        write(&store, "cluster/3.json", third.clone()).await;
        let error = newest(&store).await.unwrap_err();
        let RepoError::Corrupt { key, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(key, damaged, "{error}");
        let stranger = first.of(AGAIN).await;
        assert!(stranger.is_err());
        first.of(CLUSTER).await.unwrap();
    }
    write(&store, "cluster/3.json", r#"{"format": 2}"#.into()).await;
    let error = newest(&store).await.unwrap_err();
    assert!(
        matches!(error, RepoError::NewerFormat { found: 2, .. }),
        "{error}"
    );
    let error = first.of(NEWEST).await.unwrap_err();
    assert!(
        matches!(error, RepoError::NewerFormat { found: 2, .. }),
        "{error}"
    );
    // Whoever does not need it goes on.
    assert_eq!(first.of(UPGRADED).await.unwrap().number(), 2);
}

/// The record of the same cluster in another repository.
#[tokio::test]
async fn a_record_of_another_repository_is_found_by_the_mark() {
    let (store, other) = (memory_store(), memory_store());
    let [first, ..] = of_three(&store).await;
    of_three(&other).await;
    write(
        &store,
        "cluster/2.json",
        read(&other, "cluster/2.json").await,
    )
    .await;
    let part = first.of(UPGRADED).await.unwrap();
    let place = format!("{}/wal/{}", store, UPGRADED.name());
    assert_not_in_place(part.list_wal().await, &place);
    assert_not_in_place(part.get_wal("00000002.history").await, &place);
    assert_not_in_place(first.register(UPGRADED, false).await, &place);
}

#[tokio::test]
async fn what_is_no_record_is_passed_over() {
    let store = memory_store();
    of_three(&store).await;
    for name in [
        "1.json", "0.json", "04.json", "+4.json", "4", "4.json/x", "x.json",
    ] {
        write(&store, &format!("cluster/{name}"), "stray".into()).await;
    }
    assert_eq!(newest(&store).await.unwrap(), NEWEST);
    let keys: BTreeSet<String> = Repository::open(Arc::clone(&store))
        .await
        .unwrap()
        .read_clusters()
        .await
        .unwrap()
        .parts
        .iter()
        .map(Repository::record_key)
        .collect();
    let expected = ["cluster/2.json", "cluster/3.json", "repository.json"];
    assert_eq!(keys, expected.map(str::to_owned).into());
}
