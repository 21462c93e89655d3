//! What is removed is gone, and nothing else is.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::browse::{self, Meaning, meaning};
use walzip_repo::testing::memory_store;
use walzip_repo::{BackupLabel, Interrupted, LocalStore, RepoError, Repository};

use crate::{CLUSTER, SEGMENT, new_repository, patterned};

async fn keys(store: &Arc<dyn ObjectStore>) -> Vec<String> {
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    listed
        .iter()
        .map(|meta| meta.location.to_string())
        .collect()
}

async fn finished(repository: &Repository) -> BackupLabel {
    let writer = repository.start_backup().await.unwrap();
    let mut object = writer.create_object("pack.0000").await.unwrap();
    object.write(&b"data"[..]).await.unwrap();
    object.finish().await.unwrap();
    writer.finish("{}".into()).await.unwrap()
}

/// On every store.
pub async fn a_label_of_two_attempts_is_given_free(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    let before = keys(&store).await;
    let first = repository.start_backup().await.unwrap();
    let interrupted = Interrupted {
        label: first.label().clone(),
        attempts: 1,
        objects: BTreeMap::new(),
    };
    let second = repository.continue_backup(&interrupted).await.unwrap();
    let second = second.expect("nobody else goes on with it");
    for writer in [&first, &second] {
        let mut object = writer
            .create_object(&writer.name("pack.0000"))
            .await
            .unwrap();
        object.write(&b"data"[..]).await.unwrap();
        object.finish().await.unwrap();
    }
    let label = first.label();
    repository.mark_expiring(label, None).await.unwrap();
    let listed = repository.list_labels_with_objects().await.unwrap();
    let all = listed[label].keys().cloned();
    repository.remove_backup_objects(label, all).await.unwrap();
    for _ in 0..2 {
        repository.remove_backup_claim(label).await.unwrap();
    }
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
    assert_eq!(keys(&store).await, before);
}

async fn removes_backups_and_wal(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    let before = keys(&store).await;
    let label = finished(&repository).await;
    let other = finished(&repository).await;
    repository
        .put_wal(SEGMENT, patterned("a", 99))
        .await
        .unwrap();
    let with_other = keys(&store).await;
    let listed = repository.list_labels_with_objects().await.unwrap();
    let names: BTreeMap<&str, u64> = listed[&label]
        .iter()
        .map(|(name, object)| (name.as_str(), object.size_bytes))
        .collect();
    assert_eq!(
        names.keys().copied().collect::<Vec<_>>(),
        ["backup.json", "pack.0000", "started"]
    );
    assert_eq!(names["pack.0000"], 4);

    repository
        .mark_expiring(&label, Some(CLUSTER))
        .await
        .unwrap();
    repository.mark_expiring(&label, None).await.unwrap();
    assert!(!repository.stays(&label).await.unwrap());
    assert!(repository.stays(&other).await.unwrap());
    // All of it twice: the first time may have been killed.
    for _ in 0..2 {
        repository.remove_backup_json(&label).await.unwrap();
        assert_eq!(
            repository.list_backups().await.unwrap(),
            std::slice::from_ref(&other)
        );
        let all = listed[&label].keys().cloned();
        repository.remove_backup_objects(&label, all).await.unwrap();
        // The label is claimed still.
        let key = format!("backup/{label}/started");
        assert!(browse::find(store.as_ref(), &key).await.is_ok());
        let wal = [SEGMENT.to_owned(), "000000010000000A000000FF".to_owned()];
        repository.remove_wal(&wal).await.unwrap();
    }
    assert_eq!(
        repository.list_unfinished_backups().await.unwrap(),
        std::slice::from_ref(&label)
    );
    for _ in 0..2 {
        repository.remove_backup_claim(&label).await.unwrap();
    }
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
    let left = with_other
        .iter()
        .filter(|key| key.contains(other.as_str()) || before.contains(key));
    assert_eq!(keys(&store).await, left.cloned().collect::<Vec<_>>());
}

#[tokio::test]
async fn removes_from_memory() {
    removes_backups_and_wal(memory_store()).await;
}

#[tokio::test]
async fn removes_from_a_disk_and_leaves_no_directory_of_a_label() {
    let directory = tempfile::tempdir().unwrap();
    removes_backups_and_wal(Arc::new(LocalStore::new(directory.path()))).await;
    let labels = std::fs::read_dir(directory.path().join("backup")).unwrap();
    assert_eq!(labels.count(), 1);
}

#[tokio::test]
async fn objects_are_found_by_their_keys() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(directory.path()));
    let repository = new_repository(Arc::clone(&store)).await;
    let label = finished(&repository).await;
    let store = store.as_ref();
    let level = browse::list(store, "", false).await.unwrap();
    let found: Vec<&str> = level.iter().map(|listed| listed.key.as_str()).collect();
    assert_eq!(found, ["backup/", "repository.json", "wal/"]);
    let below = browse::list(store, "backup/", true).await.unwrap();
    assert_eq!(below.len(), 3);
    let key = format!("backup/{label}/pack.0000");
    let one = browse::list(store, &key, false).await.unwrap();
    assert_eq!(one[0].size_bytes, Some(4));
    let mut reader = browse::read(store, &key).await.unwrap();
    assert_eq!(reader.next().await.unwrap().as_deref(), Some(&b"data"[..]));
    for absent in ["backup", "backup/x", ""] {
        let error = browse::find(store, absent).await.unwrap_err();
        assert!(
            matches!(
                error,
                RepoError::NotFound { .. } | RepoError::Unavailable { .. }
            ),
            "{error}"
        );
    }
    for wrong in ["../x", "a//b", "/../x"] {
        let error = browse::remove(store, wrong).await.unwrap_err();
        assert!(matches!(error, RepoError::InvalidName { .. }), "{error}");
    }
    // A directory is no object, not even an empty one.
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    browse::remove(store, "empty").await.unwrap_err();
    assert!(directory.path().join("empty").exists());
    browse::remove(store, &key).await.unwrap();
    browse::find(store, &key).await.unwrap_err();
}

#[test]
fn keys_say_what_their_objects_are() {
    let of = CLUSTER.name();
    let wal = Meaning::Wal(CLUSTER, SEGMENT.to_owned());
    for (key, expected) in [
        ("repository.json".to_owned(), Meaning::Record),
        ("cluster/2.json".to_owned(), Meaning::Record),
        (format!("wal/{of}/cluster.json"), Meaning::Record),
        (format!("wal/{of}/000000010000000A/{SEGMENT}.wz"), wal),
        (format!("wal/{of}/{SEGMENT}.wz"), Meaning::Other),
        ("aside/x".to_owned(), Meaning::Other),
        (
            "backup/20261121-220130F/x".to_owned(),
            Meaning::Backup("20261121-220130F".parse().unwrap()),
        ),
        ("backup/notes".to_owned(), Meaning::Other),
    ] {
        assert_eq!(meaning(&key), expected, "{key}");
    }
}

/// It leaves nothing, and what another one has left is no reason to fail.
#[tokio::test]
async fn a_repository_that_can_be_written_is_as_it_was_after_that_was_tried() {
    let store = memory_store();
    let repository = new_repository(Arc::clone(&store)).await;
    let before = keys(&store).await;
    repository.try_writing().await.unwrap();
    assert_eq!(keys(&store).await, before);
    let left = format!("wal/{}/probe", CLUSTER.name());
    store
        .put(
            &object_store::path::Path::from(left.as_str()),
            "left".into(),
        )
        .await
        .unwrap();
    assert_eq!(repository.list_wal().await.unwrap(), []);
    repository.try_writing().await.unwrap();
    assert_eq!(keys(&store).await, before);
}

#[tokio::test]
async fn what_keeps_a_repository_from_being_written_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(directory.path().join("r")));
    let repository = new_repository(Arc::clone(&store)).await;
    std::fs::remove_dir_all(directory.path().join("r/wal")).unwrap();
    let refused = repository.try_writing().await;
    assert!(
        matches!(refused, Err(RepoError::NotInPlace { .. })),
        "{refused:?}"
    );
}
