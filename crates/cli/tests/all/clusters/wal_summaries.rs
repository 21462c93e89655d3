//! Incremental backups that read only what the server's WAL summaries name: they are restored to the
//! same bytes, and all is read where the summaries cannot tell.

use std::fs;
use std::process::Command;

use crate::clusters::incremental::{
    FIRST_CHANGES, Files, SECOND_CHANGES, THIRD_CHANGES, assert_restored, primary_with,
    settled_files,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// Bits that are no change by themselves are logged, so that restored files are the same to the byte.
const SUMMARIES: &str = "summarize_wal = on\nwal_log_hints = on";

#[test]
fn a_chain_of_17_is_restored_exactly() {
    a_chain_is_restored_exactly(17);
}

#[test]
fn a_chain_of_18_is_restored_exactly() {
    a_chain_is_restored_exactly(18);
}

/// Takes a backup; returns its label, and what was said.
fn backup(primary: &Server, kind: &str, more: &[&str]) -> (String, String) {
    let mut command = primary.walzip(&["-v", "backup", "--type", kind]);
    let output = command.args(more).output().expect("walzip runs");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let label = printed.split_whitespace().nth(1).expect("a label");
    (label.trim_end_matches(':').to_owned(), told)
}

/// The part of the files' bytes that was not read.
#[track_caller]
fn unread_part(told: &str) -> f64 {
    let line = told.lines().find(|line| line.ends_with("were not read"));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || -> f64 { numbers.next().expect("bytes") };
    next() / next()
}

#[track_caller]
fn assert_all_read(told: &str, why: &str) {
    assert!(told.contains("all blocks are read"), "{told}");
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("were not read"), "{told}");
}

fn a_chain_is_restored_exactly(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary_with(&site, SUMMARIES);
    let mut taken: Vec<(String, Files)> = Vec::new();
    for (kind, changes) in [
        ("full", "SELECT 1"),
        ("incr", FIRST_CHANGES),
        ("incr", SECOND_CHANGES),
        ("incr", THIRD_CHANGES),
        // Where nothing has changed but what a database brings with it.
        ("incr", "CREATE DATABASE copied STRATEGY file_copy"),
        ("incr", "ALTER DATABASE copied SET TABLESPACE place"),
    ] {
        primary.sql(changes);
        let files = settled_files(&primary);
        let (label, told) = backup(&primary, kind, &[]);
        if kind == "incr" {
            let part = unread_part(&told);
            assert!(part > 0.3 && part < 0.99, "{part}: {told}");
        }
        assert_restored(&site, &label, &files);
        taken.push((label, files));
    }
    // The server has the history file of the last one only, which names the full one.
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "diff", &[]);
    let part = unread_part(&told);
    assert!(part > 0.1 && part < 0.99, "{part}: {told}");
    assert_restored(&site, &label, &files);
    taken.push((label, files));
    // Of another program, which does not say what the server had seen.
    primary.sql("SELECT pg_backup_start('other', true); SELECT lsn FROM pg_backup_stop(false);");
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "no history file");
    assert_restored(&site, &label, &settled_files(&primary));
    let (label, told) = backup(&primary, "incr", &["--delta"]);
    assert_all_read(&told, "that is what was asked for");
    taken.push((label, settled_files(&primary)));
    let (_, told) = backup(&primary, "incr", &["--manifest-checksums", "sha256"]);
    assert_all_read(&told, "CRC32C");
    for (label, files) in &taken {
        assert_restored(&site, label, files);
    }
    succeed(&mut site.walzip(&["verify"]));
}

#[test]
fn under_load_a_restored_cluster_is_the_same_after_replay() {
    let Some(site) = Site::new(18) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("summarize_wal = on");
    primary.start(&[]);
    primary.pgbench(&["-i", "-q", "-s", "8"]);
    backup(&primary, "full", &[]);
    let load = primary.start_pgbench(&["-c", "2", "-T", "600", "-R", "100"]);
    let mut labels = Vec::new();
    for round in 0..3 {
        primary.sql(&format!(
            "SELECT pg_sleep(0.5); VACUUM pgbench_history, pgbench_tellers;
             CREATE TABLE round_{round} AS SELECT generate_series(1, 5000) i;
             DROP TABLE IF EXISTS round_{};
             TRUNCATE pgbench_history;",
            (round + 2) % 3
        ));
        let (label, told) = backup(&primary, "incr", &[]);
        assert!(unread_part(&told) > 0.1, "{told}");
        labels.push(label);
    }
    drop(load);
    primary.archive_everything();
    let expected = primary.fingerprint();
    primary.stop();
    for label in labels {
        let restored = Server::on(&site, "restored");
        let mut restore = restored.walzip(&["restore", "--backup", &label, "-D"]);
        succeed(restore.arg(restored.data()));
        restored.start(&["archive_mode=off"]);
        restored.wait_until("SELECT NOT pg_is_in_recovery()");
        assert_eq!(restored.fingerprint(), expected, "{label}");
        restored.check_structures();
        restored.stop();
        fs::remove_dir_all(restored.data()).expect("remove what was restored");
    }
}

#[test]
fn all_is_read_where_the_summaries_cannot_tell() {
    let Some(site) = Site::new(17) else { return };
    let primary = primary_with(&site, SUMMARIES);
    backup(&primary, "full", &[]);
    // A summary that is gone, and one that is damaged.
    primary.sql("UPDATE updated SET n = n + 1 WHERE i < 100; CHECKPOINT;");
    primary.sql("UPDATE updated SET n = n + 1 WHERE i > 29000; CHECKPOINT;");
    let summaries = primary.data().join("pg_wal/summaries");
    primary.wait_until(
        "SELECT count(*) > 0 FROM pg_available_wal_summaries()
         WHERE end_lsn = (SELECT redo_lsn FROM pg_control_checkpoint())",
    );
    let mut names: Vec<_> = fs::read_dir(&summaries).expect("summaries").collect();
    names.sort_by_key(|name| name.as_ref().expect("a name").file_name());
    let last = names.pop().expect("a summary").expect("a name").path();
    let content = fs::read(&last).expect("a summary");
    let mut damaged = content.clone();
    damaged[20] ^= 1;
    fs::write(&last, damaged).expect("written");
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "its checksum is wrong");
    assert_restored(&site, &label, &files);
    primary.sql("UPDATE updated SET n = n + 1 WHERE i < 100; CHECKPOINT;");
    let files = settled_files(&primary);
    primary.sql("SELECT pg_sleep(0.2)");
    for name in fs::read_dir(&summaries).expect("summaries") {
        fs::remove_file(name.expect("a name").path()).expect("removed");
    }
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "no summaries of its WAL");
    assert_restored(&site, &label, &files);

    // Nothing but its CRC would be known of a block that is not read: byte 11 is the last one of the first.
    let hashes = site.repository().join("backup").join(&label);
    let hashes = hashes.join("block_hashes.0000");
    let content = fs::read(&hashes).expect("block hashes");
    let mut damaged = content.clone();
    damaged[11] ^= 1;
    fs::write(&hashes, damaged).expect("written");
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "block_hashes.0000");
    assert_restored(&site, &label, &files);
    fs::write(&hashes, content).expect("written");

    // Every page gets a checksum, and no WAL says so.
    primary.stop();
    let mut checksums = site.command(site.program("pg_checksums"));
    succeed(checksums.args(["--enable", "-D"]).arg(primary.data()));
    primary.start(&[]);
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "data checksums were switched on or off");
    assert_restored(&site, &label, &files);
    let (_, told) = backup(&primary, "incr", &[]);
    assert!(unread_part(&told) > 0.8, "{told}");

    primary.stop();
    primary.start(&["summarize_wal=off"]);
    let (_, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "makes no WAL summaries");
    primary.stop();
    primary.start(&[]);
    let (_, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "the server made no WAL summaries then");
}

/// What a server's summaries say does not hold for a backup that was taken of what it was set back
/// from.
#[test]
fn a_server_that_was_set_back_does_not_trust_its_summaries() {
    let Some(site) = Site::new(17) else { return };
    let primary = primary_with(&site, SUMMARIES);
    backup(&primary, "full", &[]);
    primary.sql("UPDATE updated SET n = n + 1 WHERE i < 100");
    primary.stop();
    let snapshot = site.path("snapshot");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let mut copy = Command::new("cp");
        succeed(copy.arg("-a").arg(from).arg(to));
    };
    copy(&primary.data(), &snapshot);
    primary.start(&[]);
    primary.sql("UPDATE updated SET n = -1 WHERE i % 3 = 0; UPDATE placed SET t = 'abandoned'");
    let (abandoned, told) = backup(&primary, "incr", &[]);
    assert!(unread_part(&told) > 0.1, "{told}");
    primary.stop();

    fs::remove_dir_all(primary.data()).expect("removed");
    copy(&snapshot, &primary.data());
    // It goes on with other WAL under the same names, which nobody archives until it is past those
    // that are there.
    let reached = |label: &str| {
        let text = fs::read_to_string(
            site.repository()
                .join("backup")
                .join(label)
                .join("backup.json"),
        );
        let json: serde_json::Value = serde_json::from_str(&text.expect("read")).expect("JSON");
        json["stop"]["lsn"].as_str().expect("a position").to_owned()
    };
    let stop = reached(&abandoned);
    primary.start(&["archive_command=true"]);
    primary.sql("UPDATE updated SET n = -2 WHERE i % 5 = 0");
    for _ in 0..40 {
        primary.sql("SELECT pg_create_restore_point('on'); SELECT pg_switch_wal(); CHECKPOINT;");
    }
    let is_past = primary.sql(&format!(
        "SELECT pg_current_wal_lsn() > '{stop}'::pg_lsn + 4194304"
    ));
    assert_eq!(is_past, "t");
    primary.stop();
    primary.start(&[]);
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "incr", &[]);
    assert_all_read(&told, "no history file");
    assert_restored(&site, &label, &files);
    // It has seen the full one, and nothing of what was abandoned is in this one.
    primary.sql("UPDATE updated SET n = -3 WHERE i % 7 = 0");
    let files = settled_files(&primary);
    let (label, told) = backup(&primary, "diff", &[]);
    assert!(unread_part(&told) > 0.1, "{told}");
    assert_restored(&site, &label, &files);
}
