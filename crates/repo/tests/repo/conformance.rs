//! What holds on every store. A new store joins with one line at the end.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStore;
use walzip_repo::{ClusterIdentity, Initialised, PutOutcome, RepoError, Repository};

pub(crate) const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7_301_234_567_890_123_456,
    major: 15,
};
const SEGMENT: &str = "000000010000000A000000FE";

pub(crate) async fn new_repository(store: Arc<dyn ObjectStore>) -> Repository {
    let (repository, outcome) = Repository::init(store, CLUSTER).await.unwrap();
    assert_eq!(outcome, Initialised::Created);
    repository
}

async fn gets_back_what_was_put(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let object = Bytes::from_static(b"encoded segment");
    let outcome = repository.put_wal(SEGMENT, object.clone()).await.unwrap();
    assert_eq!(outcome, PutOutcome::Created);
    assert_eq!(repository.get_wal(SEGMENT).await.unwrap(), Some(object));
    let names: Vec<_> = repository.list_wal().await.unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].name, SEGMENT);
    let outcome = repository
        .put_wal(SEGMENT, Bytes::from_static(b"x"))
        .await
        .unwrap();
    assert_eq!(outcome, PutOutcome::Exists);
}

async fn keeps_backups(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let writer = repository.start_backup().await.unwrap();
    let label = writer.label().clone();
    let mut object = writer.create_object("base/1.tar.zst").await.unwrap();
    object.write(b"hello ").await.unwrap();
    object.write(b"world").await.unwrap();
    assert_eq!(object.finish().await.unwrap(), 11);
    assert!(repository.list_backups().await.unwrap().is_empty());
    assert_eq!(
        repository.list_unfinished_backups().await.unwrap(),
        [label.clone()]
    );
    writer.finish(Bytes::from_static(b"{}")).await.unwrap();
    assert_eq!(repository.list_backups().await.unwrap(), [label.clone()]);
    let read: Vec<Bytes> = repository
        .open_backup_object(&label, "base/1.tar.zst")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read.concat(), b"hello world");
    assert!(matches!(
        repository.open_backup_object(&label, "nothing").await,
        Err(RepoError::NotFound { .. })
    ));
}

#[tokio::test]
async fn smoke() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let path = directory.path().join(name).join("deep");
        let location = walzip_repo::Location::parse(path.to_str().unwrap()).unwrap();
        let store = walzip_repo::open_store(&location).unwrap();
        match name {
            "a" => gets_back_what_was_put(store).await,
            _ => keeps_backups(store).await,
        }
    }
    gets_back_what_was_put(walzip_repo::testing::memory_store()).await;
    keeps_backups(walzip_repo::testing::memory_store()).await;
}
