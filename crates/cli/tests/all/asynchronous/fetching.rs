//! `archive-get` with a worker in the background: a segment is given out as the archive has it, whoever fetched it.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, SystemTime};

use super::{kill_workers, name, object, ready, spooled, wait_until};
use crate::sandbox::{SEGMENT_SIZE, SYSTEM_ID, Sandbox, control_file, segment};

fn get(sandbox: &Sandbox, number: u64) {
    let output = get_output(sandbox, number);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{number}: {said}");
    assert_eq!(said, "");
    assert!(
        sandbox.read("data/pg_wal/RECOVERYXLOG") == segment(number),
        "{number} differs"
    );
}

fn get_output(sandbox: &Sandbox, number: u64) -> Output {
    get_named(sandbox, &name(number))
}

fn get_named(sandbox: &Sandbox, name: &str) -> Output {
    let mut command = sandbox.command();
    command.current_dir(sandbox.path("data"));
    let repo = sandbox.path("repo");
    let spool = sandbox.path("spool");
    command
        .args(["archive-get", "--archive-async", "--spool-path"])
        .arg(spool);
    command
        .arg("--repo")
        .arg(repo)
        .args([name, "pg_wal/RECOVERYXLOG"]);
    command.output().expect("walzip starts")
}

fn archived(count: u64) -> Sandbox {
    let sandbox = ready(count);
    for number in 1..=count {
        sandbox.ok(&[
            "archive-push",
            "--repo",
            "repo",
            &format!("data/pg_wal/{}", name(number)),
        ]);
    }
    sandbox
}

fn ahead(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(spooled(sandbox, "get/ahead")).expect("a spool");
    entries
        .map(|entry| entry.expect("readable").path())
        .collect()
}

#[test]
fn segments_are_fetched_before_they_are_asked_for() {
    let sandbox = archived(12);
    get(&sandbox, 1);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 11);
    for number in 2..=12 {
        // From the spool: the repository has it no longer.
        fs::remove_file(object(&sandbox, "repo", &name(number))).expect("removed");
        get(&sandbox, number);
    }
}

/// A server that begins a recovery asks which timelines there are before it asks for its first segment.
#[test]
fn a_recovery_finds_its_first_segments() {
    let sandbox = archived(6);
    write_label(&sandbox, "backup_label", 3);
    let output = get_named(&sandbox, "00000002.history");
    assert_eq!(output.status.code(), Some(1));
    wait_until("all from the first on are fetched", || {
        ahead(&sandbox).len() == 4
    });
    for number in 3..=6 {
        fs::remove_file(object(&sandbox, "repo", &name(number))).expect("removed");
        get(&sandbox, number);
    }
    assert_eq!(get_output(&sandbox, 7).status.code(), Some(1));
}

/// A standby that follows asks which timelines there are every five seconds.
#[test]
fn a_server_that_has_begun_its_recovery_is_not_expected_to_begin() {
    let sandbox = archived(6);
    write_label(&sandbox, "backup_label.old", 3);
    get_named(&sandbox, "00000002.history");
    assert_eq!(kill_workers(&sandbox), 0, "no worker is started");
    assert!(ahead(&sandbox).is_empty());
}

/// The label of a backup that begins in the segment with this number.
fn write_label(sandbox: &Sandbox, file: &str, number: u64) {
    let start = number * SEGMENT_SIZE as u64;
    let label = format!(
        "START WAL LOCATION: 0/{:X} (file {})\nCHECKPOINT LOCATION: 0/{:X}\nBACKUP METHOD: streamed\n\
         BACKUP FROM: primary\nSTART TIME: 2026-11-30 12:00:00 UTC\nLABEL: walzip\nSTART TIMELINE: 1\n",
        start + 0x28,
        name(number),
        start + 0x60,
    );
    sandbox.write(&format!("data/{file}"), label.as_bytes());
}

/// As pg_rewind asks: neither a worker that is there nor a call fetches what nobody will ask for.
#[test]
fn nothing_is_fetched_ahead_of_calls_that_go_back() {
    let sandbox = archived(12);
    get(&sandbox, 10);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 2);
    for number in (5..=8).rev() {
        get(&sandbox, number);
        assert!(ahead(&sandbox).is_empty(), "{number}");
    }
    kill_workers(&sandbox);
    get(&sandbox, 4);
    assert_eq!(kill_workers(&sandbox), 0, "no worker is started");
    get(&sandbox, 5);
    wait_until("a recovery goes on", || ahead(&sandbox).len() == 7);
}

#[test]
fn what_was_fetched_ahead_and_is_not_right_is_not_given_out() {
    let sandbox = archived(8);
    get(&sandbox, 1);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 7);
    for path in ahead(&sandbox) {
        let mut content = fs::read(&path).expect("readable");
        content[5000] ^= 1;
        fs::write(&path, content).expect("written");
    }
    for number in 2..=8 {
        get(&sandbox, number);
    }
}

#[test]
fn another_clusters_segments_are_not_given_out() {
    let sandbox = archived(6);
    get(&sandbox, 1);
    get(&sandbox, 2);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 4);
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID + 1));
    let output = get_output(&sandbox, 3);
    assert_eq!(output.status.code(), Some(44));
}

/// What a timeline is may have become something else since: a recovery that begins again asks anew.
#[test]
fn a_recovery_that_begins_again_asks_the_archive() {
    let sandbox = archived(6);
    get(&sandbox, 1);
    get(&sandbox, 2);
    wait_until("the rest is fetched", || ahead(&sandbox).len() == 4);
    get(&sandbox, 1);
    fs::remove_file(object(&sandbox, "repo", &name(3))).expect("removed");
    let output = get_output(&sandbox, 3);
    assert_eq!(
        output.status.code(),
        Some(1),
        "it is not in the archive any more"
    );
}

/// Each restored server has a spool of its own, and may be gone the next day.
#[test]
fn the_spool_of_a_data_directory_that_is_gone_is_removed_after_a_day() {
    let sandbox = archived(2);
    let spool = |name: &str, data_directory: PathBuf, seen_gone: Option<u64>| {
        let path = sandbox.path("spool").join(name);
        fs::create_dir_all(path.join("get/ahead")).expect("a directory");
        let text = data_directory.as_os_str().as_encoded_bytes();
        fs::write(path.join("data-directory"), text).expect("written");
        if let Some(hours) = seen_gone {
            let mark = fs::File::create(path.join("gone")).expect("a file");
            let time = SystemTime::now() - Duration::from_secs(hours * 60 * 60);
            mark.set_modified(time).expect("set");
        }
        path
    };
    let gone = spool("gone-0123456789abcdef", sandbox.path("gone"), Some(25));
    let new = spool("new-0123456789abcdef", sandbox.path("gone"), Some(23));
    let unseen = spool("unseen-0123456789abcdef", sandbox.path("gone"), None);
    let there = spool("there-0123456789abcdef", sandbox.path("data"), Some(25));
    get(&sandbox, 1);
    assert!(!gone.exists());
    // It may be mounted again: from now on it is gone.
    assert!(new.exists() && unseen.join("gone").exists());
    assert!(there.exists() && !there.join("gone").exists());
}

#[test]
fn a_recovery_goes_on_without_a_spool() {
    let sandbox = archived(1);
    fs::remove_dir(sandbox.path("spool")).expect("removed");
    let output = get_output(&sandbox, 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nothing is fetched ahead"), "{said}");
}

/// Its destination is that of a call which has ended, and may be another one's by now.
#[test]
fn a_worker_that_may_not_work_gets_nothing() {
    let sandbox = archived(3);
    let work = || {
        let mut worker = sandbox.command();
        worker.current_dir(sandbox.path("data")).args([
            "archive-get",
            "--worker",
            "--repo",
            "../repo",
            &name(2),
            "pg_wal/RECOVERYXLOG",
        ]);
        let output = worker
            .env("TMPDIR", sandbox.path("tmp"))
            .write_stdin("")
            .output()
            .expect("walzip starts");
        assert!(!output.status.success());
        assert!(!sandbox.path("data/pg_wal/RECOVERYXLOG").exists());
    };
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    work();
    // A spool that it cannot use, and a cluster that cannot be told.
    fs::remove_dir_all(sandbox.path("tmp")).expect("removed");
    fs::write(sandbox.path("tmp"), "a file").expect("written");
    work();
    fs::remove_file(sandbox.path("tmp")).expect("removed");
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    let control_file = sandbox.path("data/global/pg_control");
    fs::remove_file(control_file).expect("removed");
    work();
}
