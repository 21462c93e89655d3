//! Timelines that leave one another while the archive has not caught up, and clocks that disagree about when.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::clusters::branches::{primary, restore, restored_rows};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const MAJOR: u32 = 15;

/// Commits a row, and says when.
pub fn write(server: &Server, body: &str) -> String {
    server.sql(&format!("INSERT INTO note VALUES ('{body}')"));
    let time = server.sql("SELECT clock_timestamp()");
    // WAL says to the second when a timeline was born.
    server.sql("SELECT pg_sleep(1.1)");
    time
}

pub fn promoted<'a>(site: &'a Site, name: &'a str, arguments: &[&str]) -> Server<'a> {
    let output = restore(site, name, arguments);
    assert!(output.status.success(), "{}", said(&output));
    let server = Server::on(site, name);
    server.start(&[]);
    server.wait_until("SELECT NOT pg_is_in_recovery()");
    server
}

pub fn rows(server: &Server) -> String {
    server.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note")
}

/// The objects of the WAL whose names begin so.
pub fn objects(site: &Site, prefix: &str) -> Vec<PathBuf> {
    let mut directories = vec![site.repository().join("wal")];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("readable") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            if path.is_dir() {
                directories.push(path);
            } else if name.is_some_and(|name| name.starts_with(prefix)) {
                found.push(path);
            }
        }
    }
    found
}

/// The clock of the copy was ahead: by it, production's last commit was before the copy began.
#[test]
fn a_copy_whose_clock_was_ahead_does_not_win_over_production() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    primary.archive_everything();
    let stored = SystemTime::now();
    write(&primary, "2-production");
    primary.archive_everything();
    let copy = ["--archive-mode", "preserve", "--target-time", &before];
    let copy = promoted(&site, "copy", &copy);
    write(&copy, "3-copy");
    copy.archive_everything();
    // A failover: what the old server wrote is lost, and was before.
    assert_eq!(restored_rows(&site, &[]), "1-common 3-copy");

    let of_copy = objects(&site, "00000002");
    assert!(of_copy.len() > 1, "{of_copy:?}");
    for object in &of_copy {
        let object = File::options().append(true).open(object).expect("opened");
        object.set_modified(stored).expect("set");
    }
    let output = restore(&site, "refused", &[]);
    assert_eq!(output.status.code(), Some(110), "{}", said(&output));
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let output = site.walzip(&expire).output().expect("walzip runs");
    let told = said(&output);
    assert!(
        told.contains("timelines 1 and 2 went on at the same time"),
        "{told}"
    );
}

/// A server was promoted, and lost before its first segment was full: what it wrote is in its pg_wal alone.
#[test]
fn a_timeline_of_which_only_the_history_is_archived_is_not_passed_over() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    primary.sql("SELECT pg_create_restore_point('common')");
    write(&primary, "2-undone");
    primary.sql("SELECT pg_create_restore_point('undone')");
    primary.archive_everything();
    primary.stop();
    let in_place = ["--archive-mode", "preserve", "--target-time", &before];
    let successor = promoted(&site, "successor", &in_place);
    write(&successor, "3-after");
    let is_archived = || !objects(&site, "00000002.history").is_empty();
    while !is_archived() {
        std::thread::sleep(Duration::from_millis(50));
    }
    successor.crash();
    assert_eq!(objects(&site, "0000000200000000"), Vec::<PathBuf>::new());

    for target in [&[][..], &["--target-name", "undone"]] {
        let output = restore(&site, "refused", target);
        assert_eq!(output.status.code(), Some(110), "{}", said(&output));
    }
    assert_eq!(
        restored_rows(&site, &["--target-name", "common"]),
        "1-common"
    );
    let output = restore(&site, "restored", &["--target-timeline", "2"]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("timeline 2 left timeline 1 at"), "{told}");
    let restored = Server::on(&site, "restored");
    restored.try_start(&[]);
    restored.wait_until_stopped();
    let log = restored.log();
    assert!(log.contains("is not on the way to timeline 2"), "{log}");
    // As the warning says.
    let pg_wal = successor.data().join("pg_wal");
    for entry in fs::read_dir(&pg_wal).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if name.to_string_lossy().starts_with("0000000200000000") {
            let mut copy = Command::new("cp");
            copy.arg("-p").arg(&path);
            succeed(copy.arg(restored.data().join("pg_wal").join(name)));
        }
    }
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(rows(&restored), "1-common 3-after");
    restored.stop();

    let word = told.split("--target-lsn ").nth(1).expect("a position");
    let lsn = word.split_whitespace().next().expect("a position");
    fs::remove_dir_all(restored.data()).expect("removed");
    let to_the_point = [
        "--target-timeline",
        "1",
        "--target-lsn",
        lsn,
        "--target-exclusive",
    ];
    assert_eq!(restored_rows(&site, &to_the_point), "1-common");
}

/// The fork is where a segment begins, and the old server came back: all that it wrote then has names that a recovery
/// along the new timeline asks for.
#[test]
fn a_recovery_gets_no_segment_of_an_older_timeline_after_the_fork() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let successor = promoted(&site, "successor", &["--archive-mode", "preserve"]);
    while objects(&site, "00000002.history").is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    successor.crash();
    write(&primary, "2-of-the-old-one");
    primary.archive_everything();
    write(&primary, "3-of-the-old-one");
    primary.archive_everything();

    let output = restore(&site, "refused", &[]);
    assert_eq!(output.status.code(), Some(110), "{}", said(&output));
    let output = restore(&site, "restored", &["--target-timeline", "2"]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = Server::on(&site, "restored");
    restored.try_start(&[]);
    restored.wait_until_stopped();
    let log = restored.log();
    assert!(log.contains("is not on the way to timeline 2"), "{log}");
    fs::remove_dir_all(restored.data()).expect("removed");

    let output = restore(&site, "waiting", &["--target-timeline", "2", "--standby"]);
    assert!(output.status.success(), "{}", said(&output));
    let waiting = Server::on(&site, "waiting");
    waiting.start(&[]);
    waiting.wait_until("SELECT count(*) = 1 FROM note");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(rows(&waiting), "1-common");
}

/// A recovery to an earlier time that took the place of the original has not what was undone.
#[test]
fn a_time_after_what_was_undone_is_not_taken_for_the_point_before_it() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    write(&primary, "2-undone");
    primary.archive_everything();
    primary.stop();
    std::thread::sleep(Duration::from_millis(1100));
    let after = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S+00");
    let after = after.to_string();
    std::thread::sleep(Duration::from_millis(1100));
    let in_place = ["--archive-mode", "preserve", "--target-time", &before];
    let successor = promoted(&site, "successor", &in_place);
    write(&successor, "3-after");
    successor.archive_everything();
    let output = restore(&site, "refused", &["--target-time", &after]);
    assert_eq!(output.status.code(), Some(112), "{}", said(&output));
}

/// What the old server wrote last is only in the first segment of the new one.
#[test]
fn a_time_before_a_promotion_is_reached_through_the_new_timeline() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-archived");
    primary.archive_everything();
    let before = write(&primary, "2-in-the-last-segment");
    primary.configure("archive_mode = off");
    primary.stop();
    let mut copy = Command::new("cp");
    succeed(copy.arg("-a").arg(primary.data()).arg(site.path("standby")));
    let standby = Server::on(&site, "standby");
    standby.configure("archive_mode = on");
    fs::write(standby.data().join("standby.signal"), "").expect("written");
    site.hand_over(&standby.data().join("standby.signal"));
    standby.start(&[]);
    standby.sql("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    write(&standby, "3-after");
    standby.archive_everything();

    let expected = "1-archived 2-in-the-last-segment";
    let at = ["--target-time", &before];
    assert_eq!(restored_rows(&site, &at), expected);
    assert_eq!(restored_rows(&site, &[]), format!("{expected} 3-after"));
}

/// A copy of the server has taken a backup: what is compared with that would have to go with it.
#[test]
fn an_incremental_backup_is_compared_with_one_of_the_servers_own_history() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &["--archive-mode", "preserve"]);
    write(&copy, "2-copy");
    copy.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));
    write(&primary, "3-production");
    let incremental = primary.walzip(&["backup", "--type", "incr"]).output();
    let incremental = incremental.expect("walzip runs");
    assert!(incremental.status.success(), "{}", said(&incremental));
    let info = succeed(&mut primary.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let backups = info["backups"].as_array().expect("backups");
    let newest = backups.last().expect("three");
    let references = newest["references"].as_array().expect("references");
    assert_eq!(references.len(), 1, "{newest}");
    assert_eq!(references[0], backups[0]["label"], "{newest}");
}
