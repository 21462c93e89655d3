//! Verifications that take over what earlier ones have found whole.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_archive::verify::{Verification, VerifyOptions, verify};
use walzip_repo::testing::memory_store;
use walzip_repo::{LocalStore, Repository};

use crate::wal::{push_content, repository_on, segment_name, valid_segment};

async fn archive(segments: u64) -> (Arc<dyn ObjectStore>, Repository) {
    let store = memory_store();
    let repository = repository_on(store.clone()).await;
    for number in 1..=segments {
        push(&repository, number).await;
    }
    (store, repository)
}

async fn push(repository: &Repository, number: u64) {
    let pushed = push_content(repository, &segment_name(number), &valid_segment(number, 7)).await;
    pushed.expect("pushed");
}

async fn verified(repository: &Repository, within_days: Option<i64>) -> Verification {
    let options = VerifyOptions {
        verified_within: within_days.map(|days| SignedDuration::from_hours(24 * days)),
        notes: true,
        ..VerifyOptions::default()
    };
    verify(repository, &options).await.expect("looked at")
}

#[tokio::test]
async fn what_was_found_whole_is_not_read_again_for_a_time() {
    let (store, repository) = archive(4).await;
    let first = verified(&repository, Some(30)).await;
    assert_eq!((first.wal_objects, first.verified_before), (4, 0));
    // Something new, and the second segment anew.
    push(&repository, 5).await;
    let key = Path::from(key_of(&repository, 2));
    let object = store
        .get(&key)
        .await
        .expect("there")
        .bytes()
        .await
        .expect("read");
    store
        .put(&key, object.slice(..9).into())
        .await
        .expect("damaged");
    let second = verified(&repository, Some(30)).await;
    assert_eq!((second.wal_objects, second.verified_before), (2, 3));
    assert_eq!(second.findings.len(), 1, "{:?}", second.findings);
    // What is damaged stays so, and the rest is taken over from both.
    let third = verified(&repository, Some(30)).await;
    assert_eq!((third.wal_objects, third.verified_before), (1, 4));
    assert_eq!(third.findings, second.findings);
    // Without a time, or after it, everything is read.
    for within in [None, Some(0)] {
        let whole = verified(&repository, within).await;
        assert_eq!((whole.wal_objects, whole.verified_before), (5, 0));
    }
}

fn key_of(repository: &Repository, number: u64) -> String {
    let name = segment_name(number);
    format!(
        "wal/{}/{}/{name}.wz",
        repository.cluster().name(),
        &name[..16]
    )
}

/// What fills a hole was not there, however old it says that it is.
#[tokio::test]
async fn a_hole_that_was_filled_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(directory.path().join("r")));
    let repository = repository_on(store).await;
    for number in 1..=5 {
        push(&repository, number).await;
    }
    let filled = directory.path().join("r").join(key_of(&repository, 3));
    std::fs::remove_file(&filled).expect("removed");
    let first = verified(&repository, Some(30)).await;
    assert_eq!((first.wal_objects, first.verified_before), (4, 0));
    std::fs::write(&filled, b"damaged").expect("written");
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(&filled);
    let made = file.expect("there").set_modified(an_hour_ago);
    made.expect("its time is set");
    let second = verified(&repository, Some(30)).await;
    assert_eq!((second.wal_objects, second.verified_before), (1, 4));
    assert_eq!(second.findings.len(), 1, "{:?}", second.findings);
}

#[tokio::test]
async fn a_sample_reads_a_part_each_time() {
    let (_, repository) = archive(40).await;
    let (mut read, mut runs) = (0, 0);
    while read < 40 {
        let options = VerifyOptions {
            sample: Some(25),
            ..VerifyOptions::default()
        };
        let verification = verify(&repository, &options).await.expect("looked at");
        assert_eq!(verification.wal_objects + verification.not_in_sample, 40);
        read += verification.wal_objects;
        runs += 1;
    }
    assert!(runs > 1, "a quarter was all");
    let all = VerifyOptions {
        sample: Some(100),
        ..VerifyOptions::default()
    };
    let verification = verify(&repository, &all).await.expect("looked at");
    assert_eq!(verification.wal_objects, 40);
}

/// Notes are a convenience: what is no note, or of another format, counts for nothing.
#[tokio::test]
async fn a_note_that_cannot_be_read_is_none() {
    let (store, repository) = archive(2).await;
    verified(&repository, None).await;
    let notes = store
        .list_with_delimiter(Some(&Path::from("verified")))
        .await;
    let note = notes
        .expect("listed")
        .objects
        .pop()
        .expect("a note")
        .location;
    for content in [
        &b"{"[..],
        b"{\"format\":4,\"began\":\"2026-11-24T00:00:00Z\",\"wal\":{},\"backups\":[]}",
    ] {
        store
            .put(&note, content.to_vec().into())
            .await
            .expect("put");
        let options = VerifyOptions {
            verified_within: Some(SignedDuration::from_hours(24)),
            ..VerifyOptions::default()
        };
        let verification = verify(&repository, &options).await.expect("looked at");
        assert_eq!(verification.verified_before, 0);
        store.delete(&note).await.expect("removed");
    }
}
