//! Stores that fail: at one call in turn, at every n-th, at random, with and without
//! an effect.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStore;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{BackupLabel, PART_BYTES, PutOutcome, RepoError, Repository};

use crate::{CLUSTER, new_repository, patterned};

const NAMES: [&str; 3] = [
    "000000010000000000000001",
    "000000010000000000000002",
    "00000002.history",
];
const OBJECT: &str = "base/1.tar";
const OBJECT_BYTES: usize = 100_000;

/// What an archiver does from the first day on.
async fn work(store: Arc<dyn ObjectStore>) -> Result<BackupLabel, RepoError> {
    let (repository, _) = Repository::init(store, CLUSTER).await?;
    for name in NAMES {
        repository.put_wal(name, patterned(name, 5000)).await?;
    }
    let writer = repository.start_backup().await?;
    let mut object = writer.create_object(OBJECT).await?;
    object.write(patterned(OBJECT, OBJECT_BYTES)).await?;
    object.finish().await?;
    let label = writer.finish(Bytes::from_static(b"{}")).await?;
    repository.list_wal().await?;
    repository.list_backups().await?;
    Ok(label)
}

/// Whatever happened, what can be seen is whole.
async fn check_what_is_there(store: Arc<dyn ObjectStore>) {
    let repository = match Repository::open(store).await {
        Ok(repository) => repository,
        Err(RepoError::NotARepository { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    for entry in repository.list_wal().await.unwrap() {
        let stored = repository.get_wal(&entry.name).await.unwrap().unwrap();
        assert_eq!(stored, patterned(&entry.name, 5000));
    }
    for label in repository.list_backups().await.unwrap() {
        assert_eq!(repository.read_backup_json(&label).await.unwrap(), "{}");
        let stream = repository.open_backup_object(&label, OBJECT).await.unwrap();
        let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert!(pieces.concat() == patterned(OBJECT, OBJECT_BYTES));
    }
}

async fn fails_once(faults_at: impl Fn(u64) -> Faults) {
    for call in 1.. {
        let store = memory_store();
        let faulty = FaultyStore::new(Arc::clone(&store), faults_at(call));
        let outcome = work(Arc::new(faulty.clone())).await;
        if let Err(error) = &outcome {
            let is_told = matches!(error, RepoError::Unavailable { .. });
            assert!(is_told, "call {call}: {error}");
        }
        check_what_is_there(Arc::clone(&store)).await;
        let label = work(Arc::clone(&store)).await.unwrap();
        let repository = Repository::open(store).await.unwrap();
        assert_eq!(repository.list_wal().await.unwrap().len(), NAMES.len());
        assert!(repository.list_backups().await.unwrap().contains(&label));
        if faulty.calls() < call {
            assert!(outcome.is_ok());
            assert!(call > 12, "the work took {call} calls only");
            return;
        }
    }
}

#[tokio::test]
async fn survives_a_failure_of_each_call_in_turn() {
    fails_once(|call| Faults {
        fail_call: Some(call),
        ..Faults::default()
    })
    .await;
}

#[tokio::test]
async fn survives_a_lost_answer_of_each_call_in_turn() {
    fails_once(|call| Faults {
        lose_answer_of_call: Some(call),
        ..Faults::default()
    })
    .await;
}

#[tokio::test]
async fn every_segment_arrives_when_every_nth_call_fails() {
    for nth in 2..10 {
        let store = memory_store();
        new_repository(Arc::clone(&store)).await;
        let faults = Faults {
            fail_every: Some(nth),
            ..Faults::default()
        };
        archive_with_retries(store, faults).await;
    }
}

#[tokio::test]
async fn every_segment_arrives_over_a_store_that_fails_at_random() {
    for seed in 0..30 {
        let store = memory_store();
        new_repository(Arc::clone(&store)).await;
        let faults = Faults {
            seed,
            failures_per_1000: 300,
            lost_answers_per_1000: 300,
            latency_ms_max: 1,
            ..Faults::default()
        };
        archive_with_retries(store, faults).await;
    }
}

/// Puts segments as PostgreSQL does: each again and again until it is acknowledged.
async fn archive_with_retries(store: Arc<dyn ObjectStore>, faults: Faults) {
    let faulty: Arc<dyn ObjectStore> = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
    let direct = Repository::open(store).await.unwrap();
    let repository = loop {
        match Repository::open(Arc::clone(&faulty)).await {
            Ok(repository) => break repository,
            Err(error) => assert!(matches!(error, RepoError::Unavailable { .. }), "{error}"),
        }
    };
    for number in 0..20 {
        let name = format!("0000000100000000000000{number:02X}");
        let object = patterned(&name, 5000);
        let mut failures = 0;
        loop {
            match repository.put_wal(&name, object.clone()).await {
                Ok(PutOutcome::Created | PutOutcome::Exists) => break,
                Err(RepoError::Unavailable { key, .. }) => {
                    assert!(key.contains(&name), "{key}");
                    failures += 1;
                    assert!(failures < 100);
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(direct.get_wal(&name).await.unwrap(), Some(object));
    }
}

#[tokio::test]
async fn an_object_that_breaks_off_is_an_error() {
    let store = memory_store();
    let repository = new_repository(Arc::clone(&store)).await;
    let name = NAMES[0];
    repository
        .put_wal(name, patterned(name, 5000))
        .await
        .unwrap();
    let (mut whole, mut errors, mut short) = (0, 0, 0);
    for seed in 0..200 {
        let faults = Faults {
            seed,
            broken_reads_per_1000: 500,
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let outcome = match Repository::open(faulty).await {
            Ok(repository) => repository.get_wal(name).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(object) => {
                assert_eq!(object, Some(patterned(name, 5000)));
                whole += 1;
            }
            Err(RepoError::Unavailable { .. }) => errors += 1,
            Err(RepoError::Corrupt { detail, .. }) => {
                assert!(detail.contains("bytes could be read"), "{detail}");
                short += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        whole > 10 && errors > 10 && short > 10,
        "{whole} {errors} {short}"
    );
}

#[tokio::test]
async fn a_backup_object_that_breaks_off_is_an_error() {
    let store = memory_store();
    let label = work(Arc::clone(&store)).await.unwrap();
    let mut broken = 0;
    for seed in 0..100 {
        let faults = Faults {
            seed,
            broken_reads_per_1000: 500,
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let Ok(repository) = Repository::open(faulty).await else {
            continue;
        };
        let stream = repository.open_backup_object(&label, OBJECT).await.unwrap();
        match stream.try_collect::<Vec<Bytes>>().await {
            Ok(pieces) => assert!(pieces.concat() == patterned(OBJECT, OBJECT_BYTES)),
            Err(RepoError::Unavailable { .. } | RepoError::Corrupt { .. }) => broken += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(broken > 10, "{broken}");
}

#[tokio::test]
async fn an_object_that_lost_a_part_cannot_be_finished() {
    let store = memory_store();
    new_repository(Arc::clone(&store)).await;
    // One to open the repository, two to look for labels of the same second and one for the label
    // being expired, one to claim it and one to begin the object, then the parts.
    for call in 7..11 {
        let faults = Faults {
            fail_call: Some(call),
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let repository = Repository::open(faulty).await.unwrap();
        // A label that is taken would cost calls.
        let started = format!("2026-11-21T22:01:{call:02}Z").parse().unwrap();
        let writer = repository.start_backup_at(started).await.unwrap();
        let label = writer.label().clone();
        let mut object = writer.create_object(OBJECT).await.unwrap();
        let mut failures = 0;
        for _ in 0..4 {
            failures += u32::from(object.write(vec![1; PART_BYTES]).await.is_err());
        }
        let error = object.finish().await.unwrap_err();
        assert!(matches!(error, RepoError::Unavailable { .. }), "{error}");
        assert!(failures <= 1, "{failures}");
        let error = writer.finish(Bytes::from_static(b"{}")).await.unwrap_err();
        assert!(
            matches!(error, RepoError::IncompleteBackup { .. }),
            "{error}"
        );
        let stored = repository.list_backup_objects(&label).await.unwrap();
        assert!(stored.is_empty(), "{stored:?}");
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let run = |seed| async move {
        let faults = Faults {
            seed,
            failures_per_1000: 500,
            ..Faults::default()
        };
        let store: Arc<dyn ObjectStore> = Arc::new(FaultyStore::new(memory_store(), faults));
        let mut outcomes = Vec::new();
        for _ in 0..64 {
            outcomes.push(Repository::init(Arc::clone(&store), CLUSTER).await.is_ok());
        }
        outcomes
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}
