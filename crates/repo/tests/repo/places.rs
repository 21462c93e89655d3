//! What walzip made is where it was made, or it says so: links, FIFOs, directories and file
//! systems in the place of objects and directories, and WAL that is gone as a whole.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{ClusterIdentity, Initialised, LocalStore, PutOutcome, RepoError, Repository};

use crate::limits::{inside, run_inside};
use crate::{CLUSTER, SEGMENT, new_repository};

const HISTORY: &str = "00000002.history";

async fn local_repository(root: &Path) -> Repository {
    new_repository(Arc::new(LocalStore::new(root))).await
}

fn cluster_directory(root: &Path) -> PathBuf {
    root.join(format!("wal/15-{}", CLUSTER.system_id))
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

#[track_caller]
fn assert_not_in_place<T: std::fmt::Debug>(outcome: Result<T, RepoError>, detail: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, RepoError::NotInPlace { .. }), "{error:?}");
    assert!(error.to_string().contains(detail), "{error}");
}

/// Everything that has to do with WAL says that it is gone.
async fn assert_gone(repository: &Repository, detail: &str) {
    for name in [SEGMENT, HISTORY] {
        assert_not_in_place(repository.get_wal(name).await, detail);
        assert_not_in_place(repository.put_wal(name, "x".into()).await, detail);
    }
    assert_not_in_place(repository.list_wal().await, detail);
    let again = Repository::init(Arc::clone(repository.store()), CLUSTER).await;
    assert_not_in_place(again.map(|_| ()), detail);
}

#[tokio::test]
async fn wal_that_was_removed_or_moved_is_not_an_empty_archive() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let repository = local_repository(&root).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    for moved in [root.join("wal"), cluster_directory(&root)] {
        let aside = directory.path().join("aside");
        fs::rename(&moved, &aside).unwrap();
        assert_gone(
            &repository,
            "cluster.json or packed.json, of which walzip put one there, is gone",
        )
        .await;
        // As of a file system that is not mounted.
        fs::create_dir(&moved).unwrap();
        assert_gone(
            &repository,
            "cluster.json or packed.json, of which walzip put one there, is gone",
        )
        .await;
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 0);
        fs::remove_dir(&moved).unwrap();
        fs::rename(&aside, &moved).unwrap();
        assert_eq!(repository.get_wal(SEGMENT).await.unwrap(), Some("x".into()));
        assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    }
}

#[tokio::test]
async fn wal_of_another_repository_is_not_this_ones() {
    let directory = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| directory.path().join(name));
    let repository = local_repository(&roots[0]).await;
    local_repository(&roots[1]).await;
    fs::remove_dir_all(roots[0].join("wal")).unwrap();
    fs::rename(roots[1].join("wal"), roots[0].join("wal")).unwrap();
    assert_gone(&repository, "of another repository").await;
}

#[tokio::test]
async fn a_link_in_the_place_of_a_directory_is_refused_wherever_it_leads() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let repository = local_repository(&root).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let wal = root.join("wal");
    let (inside, outside) = (root.join("aside"), directory.path().join("aside"));
    fs::rename(&wal, &inside).unwrap();
    for (target, leads_to) in [
        (Path::new("aside"), Some(&inside)),
        (&outside, Some(&outside)),
        (Path::new("/nowhere/at/all"), None),
    ] {
        if leads_to == Some(&outside) {
            fs::rename(&inside, &outside).unwrap();
        }
        symlink(target, &wal).unwrap();
        assert_gone(&repository, "wal is not as walzip made it: it is a link").await;
        fs::remove_file(&wal).unwrap();
    }
    fs::rename(&outside, &wal).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join("backup")).unwrap();
    assert_not_in_place(repository.list_backups().await, "it is a link");
    assert_not_in_place(repository.start_backup().await.map(|_| ()), "it is a link");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_no_file_is_neither_waited_for_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let object = cluster_directory(directory.path()).join(format!("{HISTORY}.wz"));
    type Make = fn(&Path);
    let makes: [(&str, Make); 3] = [
        ("a FIFO", make_fifo),
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ];
    for (kind, make) in makes {
        make(&object);
        for outcome in [
            repository.get_wal(HISTORY).await.map(|_| ()),
            repository.find_wal(HISTORY).await.map(|_| ()),
            repository.put_wal(HISTORY, "x".into()).await.map(|_| ()),
        ] {
            let error = outcome.unwrap_err();
            let RepoError::Corrupt { key, detail } = &error else {
                panic!("{error:?}");
            };
            assert!(key.ends_with("00000002.history.wz"), "{key}");
            assert_eq!(detail, &format!("it is {kind}, not a file"));
        }
        assert_eq!(repository.list_wal().await.unwrap().len(), 2);
        let remove = if object.is_dir() {
            fs::remove_dir
        } else {
            fs::remove_file
        };
        remove(&object).unwrap();
    }
}

#[tokio::test]
async fn a_repository_json_that_is_no_file_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    let json = directory.path().join("repository.json");
    fs::remove_file(&json).unwrap();
    make_fifo(&json);
    let store = Arc::clone(repository.store());
    let error = Repository::open(store).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "repository.json is damaged: it is a FIFO, not a file"
    );
}

/// It is listed, so that its reader says what is wrong with it.
#[tokio::test]
async fn a_backup_json_that_is_no_file_does_not_hide_the_other_backups() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    let mut labels = Vec::new();
    for _ in 0..2 {
        let writer = repository.start_backup().await.unwrap();
        labels.push(writer.finish("{}".into()).await.unwrap());
    }
    let json = directory
        .path()
        .join(format!("backup/{}/backup.json", labels[0]));
    fs::remove_file(&json).unwrap();
    make_fifo(&json);
    assert_eq!(repository.list_backups().await.unwrap(), labels);
    let error = repository.read_backup_json(&labels[0]).await.unwrap_err();
    assert!(matches!(error, RepoError::Corrupt { .. }), "{error}");
    repository.read_backup_json(&labels[1]).await.unwrap();
}

/// Temporary files would come into being elsewhere, and those of others be swept up there.
#[tokio::test]
async fn an_incoming_that_is_not_a_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    local_repository(&root).await;
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let somebodys = fs::File::create(elsewhere.join("somebodys")).unwrap();
    let days = std::time::Duration::from_secs(3 * 24 * 60 * 60);
    let then = std::time::SystemTime::now() - days;
    somebodys.set_modified(then).unwrap();
    let incoming = root.join(".incoming");
    fs::remove_dir(&incoming).unwrap();

    symlink(&elsewhere, &incoming).unwrap();
    let refused = async |what: &str| {
        // Each a process that has not swept yet.
        let store = Arc::new(LocalStore::new(&root));
        let repository = Repository::open(store).await.unwrap();
        let expected = format!(".incoming is not as walzip made it: it is {what}");
        assert_not_in_place(repository.put_wal(SEGMENT, "x".into()).await, &expected);
        let label = repository.start_backup().await.map(|_| ());
        assert_not_in_place(label, &expected);
    };
    refused("a link, not a directory").await;
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    fs::remove_file(&incoming).unwrap();
    make_fifo(&incoming);
    refused("a FIFO, not a directory").await;
    fs::remove_file(&incoming).unwrap();
    local_repository(&root)
        .await
        .put_wal(SEGMENT, "x".into())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_file_system_mounted_over_the_wal_is_told_from_an_empty_archive() {
    let test = "a_file_system_mounted_over_the_wal_is_told_from_an_empty_archive";
    let Some(root) = inside() else {
        let directory = tempfile::tempdir().unwrap();
        local_repository(directory.path()).await;
        run_inside(
            &["-rm"],
            "mount -t tmpfs tmpfs \"$WALZIP_REPO_TEST_ROOT/wal\"",
            &format!("places::{test}"),
            directory.path(),
        );
        assert_eq!(
            fs::read_dir(cluster_directory(directory.path()))
                .unwrap()
                .count(),
            1
        );
        return;
    };
    let repository = Repository::open(Arc::new(LocalStore::new(&root)))
        .await
        .unwrap();
    assert_gone(
        &repository,
        "cluster.json or packed.json, of which walzip put one there, is gone",
    )
    .await;
    assert_eq!(fs::read_dir(root.join("wal")).unwrap().count(), 0);
    // A copy of the archive on a file system of its own can be read; nothing can be moved there.
    fs::create_dir(cluster_directory(&root)).unwrap();
    fs::write(
        cluster_directory(&root).join("cluster.json"),
        fs::read(root.join("repository.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    let put = repository.put_wal(HISTORY, "x".into()).await;
    assert_not_in_place(put, "it is on another file system or mount than .incoming");
}

/// A file system may be unmounted, or a directory moved, while a command writes.
#[tokio::test]
async fn nothing_is_made_where_the_directory_of_the_store_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (root, aside) = (
        directory.path().join("root"),
        directory.path().join("aside"),
    );
    let repository = local_repository(&root).await;
    let store = repository.store();
    let begin = || async {
        let key = Key::from("backup/20261126-000000F/pack.0000");
        let mut upload = store.put_multipart(&key).await.unwrap();
        upload.put_part("content".into()).await.unwrap();
        upload
    };
    let mut upload = begin().await;
    fs::rename(&root, &aside).unwrap();
    let detail = "it is gone";
    assert_store_not_in_place(upload.complete().await, detail);
    let key = Key::from("backup/20261126-000000F/backup.json");
    assert_store_not_in_place(store.put(&key, "{}".into()).await, detail);
    assert_store_not_in_place(store.put_multipart(&key).await.map(|_| ()), detail);
    assert!(!root.exists(), "{root:?} was made");
    fs::rename(&aside, &root).unwrap();
    let mut upload = begin().await;
    fs::rename(&root, &aside).unwrap();
    fs::create_dir(&root).unwrap();
    let detail = "it is another directory than a moment ago";
    assert_store_not_in_place(upload.complete().await, detail);
    assert_store_not_in_place(store.put(&key, "{}".into()).await, detail);
    assert_store_not_in_place(store.delete(&key).await, detail);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    fs::remove_dir(&root).unwrap();
    fs::rename(&aside, &root).unwrap();
    store.put(&key, "{}".into()).await.unwrap();
}

#[track_caller]
fn assert_store_not_in_place<T: std::fmt::Debug>(outcome: object_store::Result<T>, detail: &str) {
    let error = format!("{:?}", outcome.unwrap_err());
    let detail = detail.strip_prefix("it is ").unwrap();
    assert!(error.contains(detail), "{error}");
}

/// What was mounted is gone in the middle of a put: its directory is another one afterwards.
#[tokio::test]
async fn a_put_beside_an_unmount_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let repository = local_repository(&root).await;
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    // The copy that has everything stands for the mount point.
    let aside = directory.path().join("aside");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&root, &aside])
        .status();
    assert!(copied.unwrap().success());
    fs::rename(&root, directory.path().join("unmounted")).unwrap();
    fs::rename(&aside, &root).unwrap();
    let put = repository.put_wal(HISTORY, "x".into()).await;
    assert_not_in_place(put, "it is another directory than a moment ago");
    let has_history = || {
        let entries = fs::read_dir(cluster_directory(&root)).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with(HISTORY))
    };
    assert!(!has_history());
    // Another process has not seen the first one.
    let again = Repository::open(Arc::new(LocalStore::new(&root)))
        .await
        .unwrap();
    again.put_wal(HISTORY, "x".into()).await.unwrap();
    assert!(has_history());
}

/// It is damage, which is found, and no reason to keep the WAL back.
#[tokio::test]
async fn a_damaged_mark_shows_that_the_wal_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let repository = local_repository(directory.path()).await;
    repository.check_wal_mark().await.unwrap();
    let mark = cluster_directory(directory.path()).join("cluster.json");
    fs::write(&mark, "{").unwrap();
    let error = repository.check_wal_mark().await.unwrap_err();
    assert!(matches!(error, RepoError::Corrupt { .. }), "{error}");
    assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    assert_eq!(repository.list_wal().await.unwrap().len(), 1);
}

/// The mark comes first: what `init` left when it was killed is taken up by the next one.
#[tokio::test]
async fn an_init_that_was_killed_is_taken_up() {
    let store = memory_store();
    let faults = Faults {
        // One call looks for a repository, two for what is left of one, one for the mark of packs,
        // and the next puts the mark.
        fail_call: Some(6),
        ..Faults::default()
    };
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
    let error = Repository::init(faulty, CLUSTER)
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, RepoError::Unavailable { .. }), "{error}");
    let mark = Key::from(format!("wal/15-{}/cluster.json", CLUSTER.system_id));
    let mark = store.get(&mark).await.unwrap().bytes().await.unwrap();

    let (repository, outcome) = Repository::init(Arc::clone(&store), CLUSTER).await.unwrap();
    assert_eq!(outcome, Initialised::Created);
    repository.check_wal().await.unwrap();
    let json = store.get(&Key::from("repository.json")).await.unwrap();
    assert_eq!(json.bytes().await.unwrap(), mark);
}

/// What is billed: a request for each object, and the mark only where nothing was found.
#[tokio::test]
async fn the_mark_is_looked_for_only_where_nothing_was_found() {
    let faulty = FaultyStore::new(memory_store(), Faults::default());
    let repository = new_repository(Arc::new(faulty.clone())).await;
    let mut before = faulty.calls();
    let mut calls = || {
        let now = faulty.calls();
        now - std::mem::replace(&mut before, now)
    };
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    assert_eq!(calls(), 1);
    repository.get_wal(SEGMENT).await.unwrap();
    assert_eq!(calls(), 1);
    repository
        .get_wal("000000010000000A000000FF")
        .await
        .unwrap();
    assert_eq!(calls(), 2);
    repository.put_wal(HISTORY, "x".into()).await.unwrap();
    assert_eq!(calls(), 2);
}

/// A copy of a repository that walzip 0.1.0 made, before there were marks.
fn unmarked(to: &Path) -> PathBuf {
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/0.1.0-without-marks"
    );
    let root = to.join("root");
    let copy = std::process::Command::new("cp")
        .arg("-R")
        .arg(golden)
        .arg(&root)
        .status();
    assert!(copy.unwrap().success());
    root
}

const OF_GOLDEN: ClusterIdentity = ClusterIdentity {
    system_id: 7_600_000_000_000_000_001,
    major: 15,
};

#[tokio::test]
async fn a_repository_without_marks_goes_on_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let root = unmarked(directory.path());
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::new(&root));
    let (repository, outcome) = Repository::init(store, OF_GOLDEN).await.unwrap();
    assert_eq!(outcome, Initialised::Existed);
    let listed = repository.list_wal().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(repository.get_wal(&listed[0].name).await.unwrap().is_some());
    assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    for name in [SEGMENT, HISTORY] {
        let outcome = repository.put_wal(name, "x".into()).await.unwrap();
        assert_eq!(outcome, PutOutcome::Created);
    }
    // Nothing was archived yet, and nothing says that it should have been.
    fs::remove_dir_all(root.join("wal")).unwrap();
    assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
}

#[tokio::test]
async fn a_repository_without_marks_that_has_backups_must_have_wal() {
    let directory = tempfile::tempdir().unwrap();
    let root = unmarked(directory.path());
    let repository = Repository::open(Arc::new(LocalStore::new(&root)))
        .await
        .unwrap();
    let writer = repository.start_backup().await.unwrap();
    writer.finish("{}".into()).await.unwrap();
    assert_eq!(repository.get_wal(HISTORY).await.unwrap(), None);
    fs::remove_dir_all(root.join("wal")).unwrap();
    let detail = "there is no WAL, and there are backups";
    assert_not_in_place(repository.get_wal(HISTORY).await, detail);
    assert_not_in_place(repository.put_wal(SEGMENT, "x".into()).await, detail);
    assert_not_in_place(repository.list_wal().await, detail);
}
