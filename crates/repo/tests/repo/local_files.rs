//! The files of a local repository: links, strangers, rights, debris.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::{LocalStore, RepoError, Repository};

use crate::{CLUSTER, SEGMENT, new_repository};

fn cluster_directory(root: &Path) -> std::path::PathBuf {
    root.join(format!("wal/15-{}", CLUSTER.system_id))
}

async fn local_repository(root: &Path) -> Repository {
    new_repository(Arc::new(LocalStore::new(root))).await
}

#[tokio::test]
async fn links_do_not_lead_out_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let (root, outside) = (
        directory.path().join("root"),
        directory.path().join("outside"),
    );
    let repository = local_repository(&root).await;
    repository
        .put_wal("00000002.history", "x".into())
        .await
        .unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join(format!("{SEGMENT}.wz")), "secret").unwrap();
    fs::write(outside.join("history"), "secret").unwrap();
    let cluster = cluster_directory(&root);
    symlink(&outside, cluster.join("000000010000000A")).unwrap();
    symlink(outside.join("history"), cluster.join("00000003.history.wz")).unwrap();

    for name in [SEGMENT, "00000003.history"] {
        let error = repository.get_wal(name).await.unwrap_err();
        assert!(matches!(error, RepoError::NotInPlace { .. }), "{error:?}");
    }
    for name in ["000000010000000A00000001", "00000003.history"] {
        let put = repository.put_wal(name, "x".into()).await;
        assert!(matches!(put, Err(RepoError::NotInPlace { .. })), "{put:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    let names: Vec<_> = repository.list_wal().await.unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.name.as_str()).collect();
    // The link is no history, and whoever reads it is told so.
    assert_eq!(names, ["00000002.history", "00000003.history"]);
    assert_eq!(fs::read(outside.join("history")).unwrap(), b"secret");
}

#[tokio::test]
async fn nothing_is_created_behind_a_link_out_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let (root, outside) = (
        directory.path().join("root"),
        directory.path().join("outside"),
    );
    let repository = local_repository(&root).await;
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(root.join("wal")).unwrap();
    symlink(&outside, root.join("wal")).unwrap();
    symlink(directory.path().join("nowhere"), root.join("backup")).unwrap();
    let put = repository.put_wal(SEGMENT, "x".into()).await;
    assert!(matches!(put, Err(RepoError::NotInPlace { .. })), "{put:?}");
    let backup = repository.start_backup().await.map(|_| ());
    assert!(
        matches!(backup, Err(RepoError::NotInPlace { .. })),
        "{backup:?}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn the_root_may_be_reached_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    let link = directory.path().join("link");
    symlink(&root, &link).unwrap();
    let repository = local_repository(&link).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    assert_eq!(repository.get_wal(SEGMENT).await.unwrap(), Some("x".into()));
    assert_eq!(repository.list_wal().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_files_of_strangers_do_not_disturb() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let hexes = cluster_directory(directory.path()).join("000000010000000A");
    for name in [
        &b"notes.txt~"[..],
        b"a b",
        b"a#1",
        b"\xff\xfe",
        b"..x",
        b".hidden",
        b"100%",
        b"%2E%2E",
        "\u{e9}".as_bytes(),
        b"back\\slash",
        b"new\nline",
    ] {
        fs::write(hexes.join(std::ffi::OsStr::from_bytes(name)), "stray").unwrap();
    }
    symlink(".", hexes.join("loop")).unwrap();
    let listed = repository.list_wal().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, SEGMENT);
}

/// Otherwise the archive would look whole without it, and a recovery end before it.
#[tokio::test]
async fn what_has_the_key_of_wal_and_is_no_file_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let cluster = cluster_directory(directory.path());
    let (hexes, packs) = ("000000010000000A", cluster.join("pack/000000010000000A"));
    fs::create_dir_all(&packs).unwrap();
    let (one, other) = (
        format!("{hexes}00000010-2-1764072000"),
        format!("{hexes}00000020-2-1764072000"),
    );
    let single = cluster.join(hexes);
    fs::create_dir(single.join(format!("{hexes}000000F1.wz"))).unwrap();
    symlink("nowhere", single.join(format!("{hexes}000000F2.wz"))).unwrap();
    fs::create_dir(packs.join(&one)).unwrap();
    symlink("nowhere", packs.join(&other)).unwrap();
    let listed = repository.list_wal_objects().await.unwrap();
    let names: Vec<_> = listed.single.iter().map(|entry| &*entry.name).collect();
    let [first, second] = ["000000F1", "000000F2"].map(|number| format!("{hexes}{number}"));
    assert_eq!(names, [&*first, &*second, SEGMENT]);
    let names = listed.packs.iter().map(|pack| pack.name.to_string());
    assert_eq!(names.collect::<Vec<_>>(), [one, other]);
    for (pack, is_damage) in listed.packs.iter().zip([true, false]) {
        let read = repository.packs().read_range(&pack.name, 0..1).await;
        match (read.unwrap_err(), is_damage) {
            (RepoError::Corrupt { .. }, true) | (RepoError::NotInPlace { .. }, false) => {}
            (error, _) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn keys_cannot_reach_the_temporary_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::new(directory.path());
    fs::create_dir(directory.path().join(".incoming")).unwrap();
    fs::write(directory.path().join(".incoming/1"), "half").unwrap();
    for key in [".incoming/1", ".incoming", "", "a/.b/c"] {
        let key = object_store::path::Path::from(key);
        assert!(store.get(&key).await.is_err(), "{key}");
        assert!(store.put(&key, "x".into()).await.is_err(), "{key}");
        assert!(store.delete(&key).await.is_err(), "{key}");
    }
    let below = object_store::path::Path::from(".incoming");
    for prefix in [None, Some(&below)] {
        let listed: Vec<_> = store.list(prefix).try_collect().await.unwrap();
        assert_eq!(listed, []);
        let level = store.list_with_delimiter(prefix).await.unwrap();
        assert!(level.objects.is_empty() && level.common_prefixes.is_empty());
    }
}

#[tokio::test]
async fn others_can_neither_read_nor_write() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let repository = local_repository(&root).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let hexes = cluster_directory(&root).join("000000010000000A");
    for path in [
        hexes.join(format!("{SEGMENT}.wz")),
        hexes,
        root.join("repository.json"),
        root,
    ] {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{}: {mode:o}", path.display());
    }
}

#[tokio::test]
async fn an_abandoned_temporary_file_is_swept_up_and_a_fresh_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    let staging = directory.path().join(".incoming");
    let minute = std::time::Duration::from_secs(60);
    let day = 24 * 60 * minute;
    for (name, age) in [("old", day + minute), ("fresh", minute)] {
        let file = fs::File::create(staging.join(name)).unwrap();
        let then = std::time::SystemTime::now() - age;
        file.set_modified(then).unwrap();
    }
    // This process has swept; the next one that puts sweeps again.
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    assert_eq!(fs::read_dir(&staging).unwrap().count(), 2);
    let next = Arc::new(LocalStore::new(directory.path()));
    let next = Repository::open(next).await.unwrap();
    next.put_wal("00000002.history", "x".into()).await.unwrap();
    let left: Vec<_> = fs::read_dir(&staging)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["fresh"]);
}

#[tokio::test]
async fn opening_and_reading_create_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("not-mounted");
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(&root));
    let error = Repository::open(store).await.unwrap_err();
    assert!(matches!(error, RepoError::NotARepository { .. }), "{error}");
    assert!(
        error.to_string().contains(root.to_str().unwrap()),
        "{error}"
    );
    assert!(!root.exists());
}
