//! A full disk, a read-only one, and a repository of somebody else.
//!
//! The disks are small file systems in memory, mounted in a namespace of their own, so
//! that nothing is left when the process ends and no rights are needed where the
//! kernel permits user namespaces. Each test starts itself again inside. Where that is
//! impossible the test says so, and fails when `CI` is `true`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use walzip_repo::{LocalStore, PutOutcome, RepoError, Repository};
use walzip_testing::not_run;

use crate::{CLUSTER, SEGMENT, new_repository, patterned};

const ROOT_VARIABLE: &str = "WALZIP_REPO_TEST_ROOT";

/// The repository's directory, when this process is the one inside.
pub fn inside() -> Option<PathBuf> {
    std::env::var_os(ROOT_VARIABLE).map(PathBuf::from)
}

/// Runs the test of this name in namespaces of its own, after a shell command.
pub fn run_inside(unshare: &[&str], setup: &str, test: &str, root: &Path) {
    let probe = Command::new("unshare").args(unshare).arg("true").output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        let lack = format!("{test}: no namespaces here (unshare {unshare:?})");
        not_run(&lack);
        return;
    }
    let script = format!("{setup} && exec \"$@\"");
    let output = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROOT_VARIABLE, root)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

/// An error and its causes, as a command line would show them.
fn with_causes(error: &RepoError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

fn temporary_files(root: &Path) -> usize {
    fs::read_dir(root.join(".incoming")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_leaves_no_part_of_an_object() {
    match inside() {
        Some(root) => fill_disk(&root).await,
        None => {
            let directory = tempfile::tempdir().unwrap();
            run_inside(
                &["-rm"],
                "mount -t tmpfs -o size=1m tmpfs \"$WALZIP_REPO_TEST_ROOT\"",
                "limits::a_full_disk_is_an_error_and_leaves_no_part_of_an_object",
                directory.path(),
            );
        }
    }
}

async fn fill_disk(root: &Path) {
    let repository = new_repository(Arc::new(LocalStore::new(root))).await;
    let mut stored = Vec::new();
    let (refused, error) = loop {
        let name = format!("0000000100000000000000{:02X}", stored.len());
        match repository.put_wal(&name, patterned(&name, 150_000)).await {
            Ok(outcome) => assert_eq!(outcome, PutOutcome::Created),
            Err(error) => break (name, error),
        }
        stored.push(name);
    };
    assert!(!stored.is_empty());
    let is_no_space = matches!(&error, RepoError::NoSpace { key, .. } if key.contains(&refused));
    assert!(is_no_space, "{error:?}");
    let text = with_causes(&error);
    assert!(text.contains("No space left on device"), "{text}");
    assert_eq!(text.matches(".incoming").count(), 1, "{text}");

    let writer = repository.start_backup().await;
    if let Ok(writer) = writer {
        let mut object = writer.create_object("base.tar").await.unwrap();
        object
            .write(patterned("base.tar", 2_000_000))
            .await
            .unwrap();
        let error = object.finish().await.unwrap_err();
        assert!(matches!(error, RepoError::NoSpace { .. }), "{error:?}");
        let error = writer.finish(Bytes::from_static(b"{}")).await.unwrap_err();
        assert!(
            matches!(error, RepoError::IncompleteBackup { .. }),
            "{error:?}"
        );
    }

    assert_eq!(repository.get_wal(&refused).await.unwrap(), None);
    let listed: Vec<_> = repository.list_wal().await.unwrap();
    assert_eq!(listed.len(), stored.len());
    for name in &stored {
        let object = repository.get_wal(name).await.unwrap();
        assert!(object == Some(patterned(name, 150_000)), "{name}");
    }
    assert_eq!(temporary_files(root), 0);

    let prefix = format!("wal/15-{}/0000000100000000", CLUSTER.system_id);
    fs::remove_file(root.join(prefix).join(format!("{}.wz", stored[0]))).unwrap();
    let outcome = repository
        .put_wal(&refused, patterned(&refused, 150_000))
        .await;
    assert_eq!(outcome.unwrap(), PutOutcome::Created);
}

#[tokio::test]
async fn a_read_only_repository_can_be_read_and_refuses_puts() {
    match inside() {
        Some(root) => make_disk_read_only(&root).await,
        None => {
            let directory = tempfile::tempdir().unwrap();
            run_inside(
                &["-rm"],
                "mount -t tmpfs tmpfs \"$WALZIP_REPO_TEST_ROOT\"",
                "limits::a_read_only_repository_can_be_read_and_refuses_puts",
                directory.path(),
            );
        }
    }
}

async fn make_disk_read_only(root: &Path) {
    let object = patterned(SEGMENT, 10_000);
    let repository = new_repository(Arc::new(LocalStore::new(root))).await;
    repository.put_wal(SEGMENT, object.clone()).await.unwrap();
    let remount = Command::new("mount")
        .args(["-o", "remount,bind,ro"])
        .arg(root)
        .status();
    assert!(remount.unwrap().success());
    check_refusals(root, "Read-only file system").await;
    // A segment that is there already is acknowledged, as it can be synced.
    let repository = Repository::open(Arc::new(LocalStore::new(root)))
        .await
        .unwrap();
    let outcome = repository.put_wal(SEGMENT, object).await.unwrap();
    assert_eq!(outcome, PutOutcome::Exists);
}

#[tokio::test]
async fn a_repository_without_write_permission_refuses_puts() {
    if let Some(root) = inside() {
        return check_refusals(&root, "Permission denied").await;
    }
    let directory = tempfile::tempdir().unwrap();
    let repository = new_repository(Arc::new(LocalStore::new(directory.path()))).await;
    let object = patterned(SEGMENT, 10_000);
    repository.put_wal(SEGMENT, object).await.unwrap();
    let set_mode = |mode: &str| {
        let mut chmod = Command::new("chmod");
        let status = chmod.args(["-R", mode]).arg(directory.path()).status();
        assert!(status.unwrap().success());
    };
    set_mode("a-w");
    run_inside(
        // A namespace of users takes away root's right to write everywhere.
        &["--user"],
        "true",
        "limits::a_repository_without_write_permission_refuses_puts",
        directory.path(),
    );
    set_mode("u+w");
}

/// Everything can be read, nothing can be put, and the error says why.
async fn check_refusals(root: &Path, reason: &str) {
    let repository = Repository::open(Arc::new(LocalStore::new(root)))
        .await
        .unwrap();
    let stored = repository.get_wal(SEGMENT).await.unwrap();
    assert!(stored == Some(patterned(SEGMENT, 10_000)));
    let other = "000000010000000A000000FF";
    let put = repository.put_wal(other, "x".into()).await.map(|_| ());
    let new_directory = repository.put_wal("000000020000000000000001", "x".into());
    let backup = repository.start_backup().await.map(|_| ());
    for outcome in [put, new_directory.await.map(|_| ()), backup] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, RepoError::Permission { .. }), "{error:?}");
        let text = with_causes(&error);
        assert!(text.contains(reason), "{text}");
    }
    let names: Vec<_> = repository.list_wal().await.unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(temporary_files(root), 0);
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
}
