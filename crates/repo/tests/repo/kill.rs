//! A process that puts objects is killed at random moments, hundreds of times.
//!
//! The power cuts that go with it are tried on a simulated disk, in the local store's
//! own tests; here real processes die on a real one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use jiff::Timestamp;
use walzip_repo::{BackupLabel, LocalStore, PutOutcome, Repository};

use crate::{new_repository, patterned};

const KILLS: u64 = 300;
/// How far the names of one round reach into those of the next.
const NAMES_PER_ROUND: u64 = 3;
/// This test, which starts itself again as the process to be killed.
const TEST: &str = "kill::killed_puts_leave_whole_objects_or_none";
/// Given to that process: where it puts objects.
const DIRECTORY_VARIABLE: &str = "WALZIP_REPO_TEST_ROOT";
const ROUND_VARIABLE: &str = "WALZIP_REPO_TEST_ROUND";
const BACKUP_OBJECTS: [&str; 2] = ["base/1.tar", "base/2.tar"];

/// Sizes that differ, so that kills meet short and long writes.
fn object_of(name: &str) -> Bytes {
    let sum: usize = name.bytes().map(usize::from).sum();
    patterned(name, (sum % 7) * 150_000 + sum)
}

/// The process that is killed: puts segments and backups, and says which puts were
/// acknowledged. A round begins with names that the last one may have put already, as
/// PostgreSQL does after a crash.
async fn put_until_killed(store_directory: OsString) {
    let round: u64 = std::env::var(ROUND_VARIABLE).unwrap().parse().unwrap();
    let repository = Repository::open(Arc::new(LocalStore::new(store_directory)))
        .await
        .unwrap();
    // Not print!, whose output the test harness keeps to itself.
    let mut acknowledgements = std::io::stdout().lock();
    for number in round * NAMES_PER_ROUND.. {
        let name = format!("00000001{:08X}{:08X}", number / 64, number % 64);
        let object = object_of(&name);
        if repository.put_wal(&name, object.clone()).await.unwrap() == PutOutcome::Exists {
            let stored = repository.get_wal(&name).await.unwrap();
            assert!(stored == Some(object), "{name} differs");
        }
        acknowledgements
            .write_all(format!("ACK {name}\n").as_bytes())
            .unwrap();
        acknowledgements.flush().unwrap();
        if number % 4 == 0 {
            let label = back_up(&repository, number).await;
            acknowledgements
                .write_all(format!("ACK {label}\n").as_bytes())
                .unwrap();
            acknowledgements.flush().unwrap();
        }
    }
}

/// A label has the second in it, and a fast machine makes more backups than there are seconds:
/// each number has a time of its own.
async fn back_up(repository: &Repository, number: u64) -> BackupLabel {
    let seconds = 1_700_000_000 + 1_000 * i64::try_from(number).unwrap();
    let started = Timestamp::from_second(seconds).unwrap();
    let writer = repository.start_backup_at(started).await.unwrap();
    for name in BACKUP_OBJECTS {
        let mut object = writer.create_object(name).await.unwrap();
        for piece in object_of(name).chunks(100_000) {
            object.write(piece.to_vec()).await.unwrap();
        }
        object.finish().await.unwrap();
    }
    writer.finish(Bytes::from_static(b"{}")).await.unwrap()
}

#[tokio::test]
async fn killed_puts_leave_whole_objects_or_none() {
    if let Some(store_directory) = std::env::var_os(DIRECTORY_VARIABLE) {
        return put_until_killed(store_directory).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let store_directory = directory.path().join("repository");
    let repository = new_repository(Arc::new(LocalStore::new(&store_directory))).await;
    let mut acknowledged = BTreeSet::new();
    for round in 0..KILLS {
        acknowledged.extend(put_and_kill(&store_directory, round));
        check_newest_segments(&repository).await;
    }
    let listed = repository.list_wal().await.unwrap();
    for entry in &listed {
        let stored = repository.get_wal(&entry.name).await.unwrap().unwrap();
        assert!(
            stored == object_of(&entry.name),
            "{} is damaged",
            entry.name
        );
    }
    let backups = repository.list_backups().await.unwrap();
    for label in &backups {
        check_backup(&repository, label).await;
    }
    let present: BTreeSet<String> = listed
        .iter()
        .map(|entry| entry.name.clone())
        .chain(backups.iter().map(BackupLabel::to_string))
        .collect();
    let lost: Vec<_> = acknowledged.difference(&present).collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    assert!(acknowledged.len() > 100, "{} only", acknowledged.len());
    // Otherwise no kill met a put, and nothing was shown.
    let debris = fs::read_dir(store_directory.join(".incoming"))
        .unwrap()
        .count();
    assert!(debris > 10, "{debris} kills only left a temporary file");
}

/// Runs the process and kills it after a time that differs from round to round.
/// Returns what it had acknowledged.
fn put_and_kill(store_directory: &Path, round: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(DIRECTORY_VARIABLE, store_directory)
        .env(ROUND_VARIABLE, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_micros(8_000 + (round * 7_919) % 40_000));
    let was_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    let mut output = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    child.wait().unwrap();
    assert!(
        was_running,
        "the process ended by itself in round {round}: {output}"
    );
    output
        .lines()
        .filter_map(|line| Some(line.split_once("ACK ")?.1.to_owned()))
        .collect()
}

async fn check_newest_segments(repository: &Repository) {
    let listed = repository.list_wal().await.unwrap();
    for entry in listed.iter().rev().take(4) {
        let stored = repository.get_wal(&entry.name).await.unwrap().unwrap();
        assert!(
            stored == object_of(&entry.name),
            "{} is damaged",
            entry.name
        );
    }
}

async fn check_backup(repository: &Repository, label: &BackupLabel) {
    assert_eq!(repository.read_backup_json(label).await.unwrap(), "{}");
    for name in BACKUP_OBJECTS {
        let stream = repository.open_backup_object(label, name).await.unwrap();
        let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert!(
            pieces.concat() == object_of(name),
            "{label}/{name} is damaged"
        );
    }
}
