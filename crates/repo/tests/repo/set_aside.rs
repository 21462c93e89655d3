//! An object that moves is never absent from both places, whatever fails.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{AsideLabel, LocalStore, RepoError, Repository};

use crate::{CLUSTER, new_repository, patterned};

const NAME: &str = "000000020000000000000001";
const SIZE: usize = 5000;

fn label() -> AsideLabel {
    AsideLabel::first(2)
}

async fn with_object(store: &Arc<dyn ObjectStore>) -> Repository {
    let repository = new_repository(Arc::clone(store)).await;
    let object = patterned(NAME, SIZE);
    repository.put_wal(NAME, object).await.expect("put");
    repository
}

async fn there_and_back(repository: &Repository) -> Result<(), RepoError> {
    if repository.find_wal(NAME).await?.is_some() {
        repository.copy_aside(label(), NAME).await?;
        repository.remove_copied_aside(label(), NAME).await?;
    }
    repository.copy_back(label(), NAME).await?;
    repository.remove_copied_back(label(), NAME).await
}

#[tokio::test]
async fn moves_an_object_on_every_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let local: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(directory.path()));
    for store in [memory_store(), local] {
        let repository = with_object(&store).await;
        let object = patterned(NAME, SIZE);
        repository.copy_aside(label(), NAME).await.expect("copied");
        let removed = repository.remove_copied_aside(label(), NAME).await;
        removed.expect("removed");
        assert_eq!(repository.get_wal(NAME).await.expect("read"), None);
        let aside = repository.get_aside(label(), NAME).await.expect("read");
        assert_eq!(aside, Some(object.clone()));
        let labels = repository.list_aside_labels().await.expect("listed");
        assert_eq!(labels, [label()]);
        let key = format!("aside/{}/00000002/{NAME}.wz", CLUSTER.name());
        store.head(&Path::from(key)).await.expect("under its key");
        let listed = repository.list_aside(label()).await.expect("listed");
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].name.as_str(), listed[0].size_bytes),
            (NAME, 5000)
        );

        repository.copy_back(label(), NAME).await.expect("copied");
        let removed = repository.remove_copied_back(label(), NAME).await;
        removed.expect("removed");
        let back = repository.get_wal(NAME).await.expect("read");
        assert_eq!(back, Some(object));
        let labels = repository.list_aside_labels().await.expect("listed");
        assert!(labels.is_empty(), "{labels:?}");
    }
}

#[tokio::test]
async fn nothing_is_copied_over_or_removed_for_another_object() {
    let repository = with_object(&memory_store()).await;
    repository.copy_aside(label(), NAME).await.expect("copied");
    repository
        .remove_copied_aside(label(), NAME)
        .await
        .expect("removed");
    let other = patterned("other", SIZE);
    repository
        .put_wal(NAME, other.clone())
        .await
        .expect("the name is free");
    for outcome in [
        repository.copy_aside(label(), NAME).await,
        repository.copy_back(label(), NAME).await,
        repository.remove_copied_aside(label(), NAME).await,
        repository.remove_copied_back(label(), NAME).await,
    ] {
        let error = outcome.expect_err("another object");
        assert!(matches!(error, RepoError::AlreadyExists { .. }), "{error}");
    }
    let wal = repository.get_wal(NAME).await.expect("read");
    assert_eq!(wal, Some(other));
    let aside = repository.get_aside(label(), NAME).await.expect("read");
    assert_eq!(aside, Some(patterned(NAME, SIZE)));
}

#[tokio::test]
async fn a_move_survives_a_failure_of_each_call_in_turn() {
    for lose_answer in [false, true] {
        for call in 1.. {
            let store = memory_store();
            let direct = with_object(&store).await;
            let faults = Faults {
                fail_call: Some(call).filter(|_| !lose_answer),
                lose_answer_of_call: Some(call).filter(|_| lose_answer),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(&store), faults);
            let outcome = match Repository::open(Arc::new(faulty.clone())).await {
                Ok(repository) => there_and_back(&repository).await,
                Err(error) => Err(error),
            };
            let wal = direct.get_wal(NAME).await.expect("read");
            let aside = direct.get_aside(label(), NAME).await.expect("read");
            let object = Some(patterned(NAME, SIZE));
            assert!(wal == object || aside == object, "call {call}");
            assert!(wal.is_none() || wal == object, "call {call}");
            if faulty.calls() < call {
                outcome.expect("nothing failed");
                assert!(call > 12, "the moves took {call} calls only");
                break;
            }
        }
    }
}
