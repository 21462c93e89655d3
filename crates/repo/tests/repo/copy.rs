//! Repositories that are copied to another store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{
    CopiedRepository, CopyRepositoryOptions, CopyStep, PART_BYTES, Pin, RepoError, Repository,
    copy_repository,
};

use crate::encryption::encrypted;
use crate::{CLUSTER, SEGMENT, new_repository, patterned};

const OPTIONS: CopyRepositoryOptions = CopyRepositoryOptions {
    parallel: 3,
    compare: false,
};

/// Two segments, a history, a finished backup with a long object, and one that was given up.
async fn source() -> Repository {
    source_on(memory_store()).await
}

async fn source_on(store: Arc<dyn ObjectStore>) -> Repository {
    let repository = new_repository(store).await;
    for name in [SEGMENT, "000000010000000A000000FF", "00000002.history"] {
        repository
            .put_wal(name, patterned(name, 5000))
            .await
            .unwrap();
    }
    let writer = repository.start_backup().await.unwrap();
    for (name, size) in [("pack/1", PART_BYTES + 5), ("index", 100)] {
        let mut object = writer.create_object(name).await.unwrap();
        object.write(patterned(name, size)).await.unwrap();
        object.finish().await.unwrap();
    }
    writer.finish(Bytes::from_static(b"{}")).await.unwrap();
    drop(repository.start_backup().await.unwrap());
    repository
}

async fn copy(from: &Repository, to: &Arc<dyn ObjectStore>) -> Result<CopiedRepository, RepoError> {
    copy_repository(from, to.as_ref(), OPTIONS, &|_| ()).await
}

async fn objects(store: &Arc<dyn ObjectStore>) -> Vec<(String, Bytes)> {
    let mut all = Vec::new();
    for meta in store.list(None).try_collect::<Vec<_>>().await.unwrap() {
        let content = store
            .get(&meta.location)
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
        all.push((meta.location.to_string(), content));
    }
    all.retain(|(key, _)| !key.starts_with("keys/"));
    all.sort();
    all
}

/// All but the backup that was given up.
async fn expected(from: &Repository) -> Vec<(String, Bytes)> {
    let unfinished = from.list_unfinished_backups().await.unwrap().pop().unwrap();
    let mut all = objects(from.store()).await;
    all.retain(|(key, _)| !key.contains(unfinished.as_str()));
    all
}

#[tokio::test]
async fn a_copy_has_the_same_objects() {
    let from = source().await;
    for to in [memory_store(), encrypted(memory_store())] {
        let copied = copy(&from, &to).await.unwrap();
        assert_eq!((copied.objects, copied.there), (9, 0));
        assert_eq!(copied.left_out.len(), 1);
        assert_eq!(objects(&to).await, expected(&from).await);
        // Once more, with something new.
        let name = "000000010000000B00000000";
        let _ = from.put_wal(name, patterned(name, 10)).await.unwrap();
        let copied = copy(&from, &to).await.unwrap();
        assert_eq!(copied.objects + copied.there, 10);
        assert_eq!(objects(&to).await, expected(&from).await);
        from.store().delete(&key_of(name)).await.unwrap();
    }
}

/// An object that walzip does not know and a backup that was given up are not counted.
#[tokio::test]
async fn the_progress_of_a_copy_ends_at_what_it_began_with() {
    let from = source().await;
    let label = from.list_backups().await.unwrap().pop().unwrap();
    let pin = Pin {
        pinned: jiff::Timestamp::now(),
        reason: None,
    };
    from.pin(&label, &pin).await.unwrap();
    let unknown = Path::from("lost+found/x");
    from.store().put(&unknown, "x".into()).await.unwrap();
    let to = memory_store();
    for _ in 0..2 {
        let (total, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let tell = |step| match step {
            CopyStep::Begin(bytes) => total.store(bytes, Ordering::Relaxed),
            CopyStep::Done(bytes) => drop(done.fetch_add(bytes, Ordering::Relaxed)),
        };
        let copied = copy_repository(&from, to.as_ref(), OPTIONS, &tell).await;
        assert_eq!(copied.unwrap().unknown, 1);
        assert!(done.load(Ordering::Relaxed) > PART_BYTES as u64);
        assert_eq!(done.into_inner(), total.into_inner());
    }
}

fn key_of(name: &str) -> Path {
    Path::from(format!("wal/{}/{}/{name}.wz", CLUSTER.name(), &name[..16]))
}

#[tokio::test]
async fn an_interrupted_copy_shows_nothing_that_is_not_whole() {
    let from = source().await;
    for lost_answer in [false, true] {
        for call in 1.. {
            let to = memory_store();
            let faults = Faults {
                fail_call: (!lost_answer).then_some(call),
                lose_answer_of_call: lost_answer.then_some(call),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(&to), faults);
            let over: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
            let copied = copy(&from, &over).await;
            if let Ok(repository) = Repository::open(Arc::clone(&to)).await {
                assert_eq!(repository.list_backups().await.unwrap().len(), 1);
                assert_eq!(objects(&to).await, expected(&from).await);
            }
            copy(&from, &to).await.unwrap();
            assert_eq!(objects(&to).await, expected(&from).await, "call {call}");
            if faulty.calls() < call {
                assert!(copied.is_ok() && call > 20);
                break;
            }
        }
    }
}

/// What a store has made of an object is not taken for a copy of before, whichever object it is.
#[tokio::test]
async fn what_did_not_come_right_comes_again() {
    let from = source().await;
    let mut changed = 0;
    for call in 1.. {
        let to = memory_store();
        let faults = Faults {
            change_bytes_of_call: Some(call),
            ..Faults::default()
        };
        let faulty = FaultyStore::new(Arc::clone(&to), faults);
        let over: Arc<dyn ObjectStore> = Arc::new(faulty.clone());
        changed += copy(&from, &over).await.unwrap().damaged.len();
        copy(&from, &to).await.unwrap();
        assert_eq!(objects(&to).await, expected(&from).await, "call {call}");
        if faulty.calls() < call {
            break;
        }
    }
    // The long object comes in two parts.
    assert_eq!(changed, 10);
}

/// A copy that was killed between the put of an object and the look at it.
#[tokio::test]
async fn what_a_killed_copy_has_left_of_a_backup_is_compared() {
    let from = source().await;
    let whole = memory_store();
    copy(&from, &whole).await.unwrap();
    let to = memory_store();
    for (key, content) in objects(&whole).await {
        if key.contains("/pack/") {
            let other = patterned("other", content.len());
            to.put(&Path::from(key), other.into()).await.unwrap();
        }
    }
    let copied = copy(&from, &to).await.unwrap();
    assert_eq!(copied.conflicts.len(), 1);
    assert_eq!(copied.incomplete.len(), 1);
    assert!(Repository::open(to).await.is_err());
}

/// Together they would be the WAL of no server.
#[tokio::test]
async fn nothing_is_copied_behind_a_segment_that_is_another_one() {
    let from = source().await;
    let [before, behind, of_another] = [
        "000000010000000A00000000",
        "000000010000000F00000000",
        "000000020000000F00000000",
    ];
    for name in [before, behind, of_another] {
        let _ = from.put_wal(name, patterned(name, 5000)).await.unwrap();
    }
    let to = memory_store();
    // As long as it is, the other one of the source is behind it.
    to.put(&key_of(SEGMENT), patterned("other", 4000).into())
        .await
        .unwrap();
    let copied = copy(&from, &to).await.unwrap();
    assert_eq!(copied.conflicts, [key_of(SEGMENT).to_string()]);
    let is_there = async |name| to.head(&key_of(name)).await.is_ok();
    assert!(is_there(of_another).await);
    let all = ["000000010000000A000000FF", before, behind];
    let expected = all.map(|name| name < SEGMENT);
    for (name, expected) in all.into_iter().zip(expected) {
        assert_eq!(is_there(name).await, expected, "{name}");
    }
    assert_eq!(
        copied.behind_conflicts,
        expected.iter().filter(|is| !**is).count() as u64
    );
}

#[tokio::test]
async fn what_differs_is_left_alone_and_told() {
    let from = source().await;
    let to = memory_store();
    let other = patterned("other", 5000);
    to.put(&key_of(SEGMENT), other.clone().into())
        .await
        .unwrap();
    let compare = CopyRepositoryOptions {
        compare: true,
        ..OPTIONS
    };
    let copied = copy_repository(&from, to.as_ref(), compare, &|_| ())
        .await
        .unwrap();
    assert_eq!(copied.conflicts, [key_of(SEGMENT).to_string()]);
    let kept = to
        .get(&key_of(SEGMENT))
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert_eq!(kept, other);
    // It does not become a repository so.
    let opened = Repository::open(Arc::clone(&to)).await;
    assert!(
        matches!(opened, Err(RepoError::NotARepository { .. })),
        "{opened:?}"
    );
}

#[tokio::test]
async fn another_repository_is_not_mixed_with() {
    let from = source().await;
    let to = memory_store();
    new_repository(Arc::clone(&to)).await;
    let copied = copy(&from, &to).await;
    assert!(
        matches!(copied, Err(RepoError::AnotherRepository { .. })),
        "{copied:?}"
    );
}

/// Two histories of one timeline often have the same length. The WAL after them is another one's.
#[tokio::test]
async fn a_history_that_differs_keeps_all_wal_out() {
    let from = source().await;
    let to = memory_store();
    copy(&from, &to).await.unwrap();
    let history = Path::from(format!("wal/{}/00000002.history.wz", CLUSTER.name()));
    from.store()
        .put(&history, patterned("another", 5000).into())
        .await
        .unwrap();
    for name in ["000000020000000A000000FF", "000000010000000B00000000"] {
        from.put_wal(name, patterned(name, 10)).await.unwrap();
    }
    let copied = copy(&from, &to).await.unwrap();
    assert_eq!(copied.conflicts, [history.to_string()]);
    assert_eq!(copied.objects, 0);
    let other = to.get(&key_of("000000020000000A000000FF")).await;
    assert!(matches!(other, Err(object_store::Error::NotFound { .. })));
}

/// An interrupted copy of another repository of the same cluster.
#[tokio::test]
async fn half_a_copy_of_another_repository_is_not_completed() {
    let (one, other) = (source().await, source().await);
    let to = memory_store();
    copy(&one, &to).await.unwrap();
    to.delete(&Path::from("repository.json")).await.unwrap();
    let before = objects(&to).await;
    let mark = Path::from(format!("wal/{}/cluster.json", CLUSTER.name()));
    let its_own = other
        .store()
        .get(&mark)
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    let same = to.get(&mark).await.unwrap().bytes().await.unwrap() == its_own;
    assert!(!same, "both repositories have the same mark");
    let copied = copy(&other, &to).await;
    assert!(
        matches!(copied, Err(RepoError::AnotherRepository { .. })),
        "{copied:?}"
    );
    assert_eq!(objects(&to).await, before);
}

/// An expiry of the full backup was interrupted: an incremental one may still need it.
#[tokio::test]
async fn a_backup_that_is_about_to_be_removed_is_copied() {
    let from = source().await;
    let label = from.list_backups().await.unwrap().pop().unwrap();
    let mark = Path::from(format!("backup/{label}/expiring"));
    from.store().put(&mark, Bytes::new().into()).await.unwrap();
    let to = memory_store();
    let copied = copy(&from, &to).await.unwrap();
    assert!(copied.incomplete.is_empty());
    let there = Repository::open(Arc::clone(&to)).await.unwrap();
    assert_eq!(there.list_backups().await.unwrap(), [label]);
}

/// Changes a byte of an object, below the encryption that notices it; returns how it was.
async fn damage(store: &Arc<dyn ObjectStore>, key: &Path) -> Bytes {
    let whole = store.get(key).await.unwrap().bytes().await.unwrap();
    let mut changed = whole.to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    store.put(key, changed.into()).await.unwrap();
    whole
}

/// What the source cannot give is told by its key. It is not in the copy, nor is a backup that needs
/// it, and everything else is.
#[tokio::test]
async fn a_damaged_object_is_told_and_keeps_nothing_else_back() {
    let stored = memory_store();
    let from = source_on(encrypted(Arc::clone(&stored))).await;
    let label = from.list_backups().await.unwrap().pop().unwrap();
    let pack = Path::from(format!("backup/{label}/pack/1"));
    let before = [
        damage(&stored, &key_of(SEGMENT)).await,
        damage(&stored, &pack).await,
    ];
    let to = memory_store();
    let copied = copy(&from, &to).await.unwrap();
    let mut damaged: Vec<&str> = copied.damaged.iter().map(|(key, _)| key.as_str()).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, [pack.as_ref(), key_of(SEGMENT).as_ref()]);
    assert_eq!(copied.incomplete, [label.to_string()]);
    let there = Repository::open(Arc::clone(&to)).await.unwrap();
    assert_eq!(there.list_backups().await.unwrap(), []);
    let names = there.list_wal().await.unwrap().into_iter();
    let names: Vec<String> = names.map(|entry| entry.name).collect();
    assert_eq!(names, ["000000010000000A000000FF", "00000002.history"]);
    for key in [&pack, &key_of(SEGMENT)] {
        let found = to.get(key).await;
        assert!(matches!(found, Err(object_store::Error::NotFound { .. })));
    }
    // Mended, it is completed.
    for (key, whole) in [key_of(SEGMENT), pack].iter().zip(before) {
        stored.put(key, whole.into()).await.unwrap();
    }
    let copied = copy(&from, &to).await.unwrap();
    assert!(copied.damaged.is_empty() && copied.incomplete.is_empty());
    assert_eq!(objects(&to).await, expected(&from).await);
}

/// A pin that was removed and made again is another object under the same key: the copy has its own,
/// and is no worse for it.
#[tokio::test]
async fn a_pin_that_was_renewed_is_no_conflict() {
    let from = source().await;
    let label = from.list_backups().await.unwrap().pop().unwrap();
    let pin = |reason: &str| Pin {
        pinned: jiff::Timestamp::now(),
        reason: Some(reason.to_owned()),
    };
    let to = memory_store();
    copy(&from, &to).await.unwrap();
    // A backup that was pinned since is pinned in the copy, too.
    from.pin(&label, &pin("the first one")).await.unwrap();
    assert_eq!(copy(&from, &to).await.unwrap().objects, 1);
    let there = Repository::open(Arc::clone(&to)).await.unwrap();
    let kept = there.read_pin(&label).await.unwrap();
    assert_eq!(kept, from.read_pin(&label).await.unwrap());
    // Of another length, and of the same one.
    for reason in ["for the audit of the last year", "the other one"] {
        assert!(from.unpin(&label).await.unwrap());
        from.pin(&label, &pin(reason)).await.unwrap();
        let compare = CopyRepositoryOptions {
            compare: true,
            ..OPTIONS
        };
        for options in [OPTIONS, compare] {
            let copied = copy_repository(&from, to.as_ref(), options, &|_| ()).await;
            let copied = copied.unwrap();
            assert_eq!(copied.conflicts, [""; 0], "{reason}");
            assert!(copied.incomplete.is_empty(), "{reason}");
        }
        assert_eq!(there.read_pin(&label).await.unwrap(), kept, "{reason}");
    }
}
