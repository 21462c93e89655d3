//! A store that fails at any call: success is only ever reported for a complete object.

use std::collections::BTreeSet;
use std::sync::Arc;

use walzip_archive::get::{GetOptions, Got, get};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_repo::Repository;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};

use crate::wal::{PgWal, push_content, repository_on, segment_name, valid_segment};

/// More calls than one push makes.
const CALLS: u64 = 8;

#[tokio::test]
async fn a_push_over_a_failing_store_succeeds_only_with_the_object_complete() {
    for call in 1..=CALLS {
        for lose_answer in [false, true] {
            for taken in [false, true] {
                let store = memory_store();
                let healthy = repository_on(Arc::clone(&store)).await;
                let content = valid_segment(5, 1);
                if taken {
                    push_content(&healthy, &segment_name(5), &content)
                        .await
                        .expect("first push");
                }
                let faults = if lose_answer {
                    Faults {
                        lose_answer_of_call: Some(call + 1),
                        ..Faults::default()
                    }
                } else {
                    Faults {
                        fail_call: Some(call + 1),
                        ..Faults::default()
                    }
                };
                // The first call reads repository.json.
                let faulty = Arc::new(FaultyStore::new(store, faults));
                let repository = Repository::open(faulty.clone()).await.expect("opened");
                let pushed = push_content(&repository, &segment_name(5), &content).await;
                if pushed.is_ok() {
                    assert_holds(&healthy, 5, &content).await;
                } else {
                    assert_holds_or_lacks(&healthy, 5, &content).await;
                }
                // PostgreSQL retries, and when there are no more faults it is there. The one
                // fault may have been left for the first retry.
                if push_content(&repository, &segment_name(5), &content)
                    .await
                    .is_err()
                {
                    let retried = push_content(&repository, &segment_name(5), &content).await;
                    retried.expect("the fault is over");
                }
                assert_holds(&healthy, 5, &content).await;
            }
        }
    }
}

#[tokio::test]
async fn pushes_over_a_store_that_fails_now_and_then_lose_nothing() {
    for seed in 0..20 {
        let store = memory_store();
        let healthy = repository_on(Arc::clone(&store)).await;
        let faults = Faults {
            seed,
            failures_per_1000: 200,
            lost_answers_per_1000: 200,
            broken_reads_per_1000: 200,
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(store, faults));
        let repository = loop {
            if let Ok(repository) = Repository::open(faulty.clone()).await {
                break repository;
            }
        };
        for number in 1..=4 {
            let content = valid_segment(number, seed as u8);
            while push_content(&repository, &segment_name(number), &content)
                .await
                .is_err()
            {}
            assert_holds(&healthy, number, &content).await;
        }
        assert!(faulty.calls() >= 5, "the store was used");
    }
}

#[tokio::test]
async fn gets_over_a_store_that_breaks_off_deliver_all_or_nothing() {
    let store = memory_store();
    let healthy = repository_on(Arc::clone(&store)).await;
    let content = valid_segment(5, 1);
    push_content(&healthy, &segment_name(5), &content)
        .await
        .expect("pushed");
    let (mut delivered, mut failed) = (0, 0);
    for seed in 0..50 {
        let faults = Faults {
            seed,
            broken_reads_per_1000: 400,
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let Ok(repository) = Repository::open(faulty).await else {
            continue;
        };
        let pg_wal = PgWal::new();
        let destination = pg_wal.path().join("RECOVERYXLOG");
        match get(
            &repository,
            &segment_name(5),
            &destination,
            &GetOptions::default(),
        )
        .await
        {
            Ok(Got::Found { .. }) => {
                assert!(std::fs::read(&destination).expect("written") == content);
                delivered += 1;
            }
            Ok(Got::NotFound) => panic!("a fault was taken for an answer"),
            Err(_) => {
                assert!(pg_wal.files().is_empty());
                failed += 1;
            }
        }
    }
    assert!(
        delivered > 0 && failed > 0,
        "{delivered} delivered, {failed} failed"
    );
}

async fn assert_holds(repository: &Repository, number: u64, content: &[u8]) {
    let object = repository
        .get_wal(&segment_name(number))
        .await
        .expect("readable");
    let object = object.expect("in the repository");
    assert!(walzip_codec::decode(&object).expect("decodable") == content);
}

async fn assert_holds_or_lacks(repository: &Repository, number: u64, content: &[u8]) {
    if repository
        .get_wal(&segment_name(number))
        .await
        .expect("readable")
        .is_some()
    {
        assert_holds(repository, number, content).await;
    }
}

#[tokio::test]
async fn verify_tells_of_each_object_that_cannot_be_read_and_goes_on() {
    let store = memory_store();
    let repository = repository_on(Arc::clone(&store)).await;
    let names = [5, 6, 7].map(segment_name);
    for (name, number) in names.iter().zip(5..) {
        push_content(&repository, name, &valid_segment(number, 1))
            .await
            .expect("pushed");
    }
    let (mut told, mut failed) = (BTreeSet::new(), 0);
    for call in 2..14 {
        let faults = Faults {
            fail_call: Some(call),
            ..Faults::default()
        };
        let faulty = Arc::new(FaultyStore::new(store.clone(), faults));
        let repository = Repository::open(faulty).await.expect("the first call");
        match verify(&repository, &VerifyOptions::default()).await {
            Ok(verification) => {
                assert_eq!(verification.wal_objects, 3);
                told.extend(verification.findings.into_iter().map(|found| found.object));
            }
            // Nothing can be looked at that is not listed.
            Err(_) => failed += 1,
        }
    }
    let mark = "the mark of its WAL".to_owned();
    assert_eq!(told, names.into_iter().chain([mark]).collect());
    let why = "backups, clusters and their WAL are listed, the mark is looked for, WAL and packs are \
               listed, and backups again";
    assert_eq!(failed, 7, "{why}");
}
