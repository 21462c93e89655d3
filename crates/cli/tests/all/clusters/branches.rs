//! Several clusters in one archive, and WAL that is not there: a restore ends in the right data or
//! in a refusal that names the way out.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const MAJOR: u32 = 15;
const SEGMENT_MEGABYTES: u32 = 1;

/// A primary that archives, with a table and a backup.
pub(super) fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", SEGMENT_MEGABYTES);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut primary.walzip(&["backup"]));
    primary
}

/// Commits a row, and says when.
fn write(server: &Server, body: &str) -> String {
    server.sql(&format!("INSERT INTO note VALUES ('{body}')"));
    let time = server.sql("SELECT clock_timestamp()");
    // The next commit must be later by more than a microsecond.
    server.sql("SELECT pg_sleep(0.01)");
    time
}

pub(super) fn restore(site: &Site, name: &str, arguments: &[&str]) -> Output {
    let server = Server::on(site, name);
    let mut command = server.walzip(&["restore", "-D"]);
    command.arg(server.data()).args(arguments);
    command.output().expect("walzip runs")
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

/// Restores, starts and returns what the table holds.
#[track_caller]
pub(super) fn restored_rows(site: &Site, arguments: &[&str]) -> String {
    let output = restore(site, "restored", arguments);
    assert!(output.status.success(), "{}", said(&output));
    let server = Server::on(site, "restored");
    server.start(&[]);
    server.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(server.sql("SHOW archive_mode"), "off");
    let rows = server.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note");
    server.stop();
    fs::remove_dir_all(server.data()).expect("removed");
    rows
}

/// A copy of the cluster, restored to a moment and promoted; it archives beside the original.
///
/// WAL says to the second when a timeline was born. What was written within that second could be of
/// before or after, and is asked about: so a second passes first.
fn archiving_copy<'a>(site: &'a Site, name: &'a str, arguments: &[&str]) -> Server<'a> {
    std::thread::sleep(Duration::from_millis(1100));
    let copy = Server::on(site, name);
    let mut preserve = vec!["--archive-mode", "preserve"];
    preserve.extend_from_slice(arguments);
    let output = restore(site, name, &preserve);
    assert!(output.status.success(), "{}", said(&output));
    copy.start(&[]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    copy
}

/// Whether timelines 1 and 2 went on at the same time, as `info` and the metrics say.
#[track_caller]
fn two_have_archived(server: &Server) -> bool {
    let info = succeed(&mut server.walzip(&["info"]));
    let found = info.contains("timelines 1 and 2 went on at the same time");
    let metrics = succeed(&mut server.walzip(&["metrics"]));
    let count = if found { 2 } else { 0 };
    let expected = format!("walzip_competing_timelines{{repo=\"1\"}} {count}\n");
    assert!(metrics.contains(&expected), "{info}{metrics}");
    found
}

fn object(site: &Site, name: &str) -> PathBuf {
    let wal = site.repository().join("wal");
    let cluster = fs::read_dir(wal).expect("readable").next().expect("one");
    let cluster = cluster.expect("an entry").path();
    match name.len() {
        24 => cluster.join(&name[..16]).join(format!("{name}.wz")),
        _ => cluster.join(format!("{name}.wz")),
    }
}

#[test]
fn a_copy_that_archives_does_not_hijack_the_restore_of_its_original() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    write(&primary, "2-mistake");
    primary.archive_everything();
    let copy = archiving_copy(&site, "copy", &["--target-time", &before]);
    write(&copy, "3-copy");
    let on_both = write(&primary, "4-production");
    primary.sql("SELECT pg_create_restore_point('of production')");
    write(&primary, "5-production");
    primary.archive_everything();
    succeed(&mut primary.walzip(&["backup"]));
    write(&primary, "6-production");
    primary.archive_everything();
    write(&copy, "7-copy");
    copy.archive_everything();

    let names = ["timeline 1 went on", "timeline 2", "--target-timeline"];
    refused(&restore(&site, "refused", &[]), 110, &names);
    let at = ["--target-time", &on_both];
    refused(&restore(&site, "refused", &at), 110, &names);
    // It is not on the timeline that was born last, and may be on another one.
    let at = ["--target-name", "of production"];
    refused(&restore(&site, "refused", &at), 110, &names);
    assert!(!site.path("refused").exists(), "nothing was written");

    // Before the copy was born there was only one cluster.
    assert_eq!(
        restored_rows(&site, &["--target-time", &before]),
        "1-common"
    );
    let production = "1-common 2-mistake 4-production 5-production 6-production";
    assert_eq!(
        restored_rows(&site, &["--target-timeline", "1"]),
        production
    );
    let copied = "1-common 3-copy 7-copy";
    assert_eq!(restored_rows(&site, &["--target-timeline", "2"]), copied);
    // A backup after the fork says by itself which cluster is meant.
    let newest = succeed(&mut primary.walzip(&["info", "--json"]));
    let newest: serde_json::Value = serde_json::from_str(&newest).expect("JSON");
    let label = newest["backups"][1]["label"].as_str().expect("two backups");
    assert_eq!(restored_rows(&site, &["--backup", label]), production);
}

#[test]
fn a_cluster_that_took_its_originals_place_is_followed_and_the_rest_is_named() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    let lost = write(&primary, "2-undone");
    primary.sql("SELECT pg_create_restore_point('undone')");
    write(&primary, "3-undone");
    primary.archive_everything();
    primary.stop();
    let successor = archiving_copy(&site, "successor", &["--target-time", &before]);
    write(&successor, "4-after");
    successor.archive_everything();

    let output = restore(&site, "looked-at", &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("timeline 1 has commits up to"),
        "{}",
        said(&output)
    );
    assert!(!two_have_archived(&successor));
    assert_eq!(restored_rows(&site, &[]), "1-common 4-after");
    refused(
        &restore(&site, "refused", &["--target-name", "undone"]),
        112,
        &["timeline 1 was given up", "--target-timeline"],
    );
    // The moment that was undone lies on the timeline that was alive then.
    write(&successor, "5-later");
    successor.archive_everything();
    assert_eq!(
        restored_rows(&site, &["--target-time", &lost]),
        "1-common 2-undone"
    );
}

/// Production archives nothing while a copy of it takes a backup, which an expiry then counts.
#[test]
fn an_expiry_keeps_both_of_two_that_may_be_meant() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let copy = archiving_copy(&site, "copy", &["--target-immediate"]);
    write(&primary, "1-production");
    primary.archive_everything();
    write(&copy, "2-copy");
    copy.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));
    refused(
        &restore(&site, "refused", &[]),
        110,
        &["timeline 1 went on"],
    );

    assert!(two_have_archived(&primary));
    let left = "timeline 2 left this server's timeline 1 at";
    for (server, is_left) in [(&primary, true), (&copy, false)] {
        let checked = server.walzip(&["check"]).output().expect("walzip runs");
        refused(&checked, 104, &["timelines 1 and 2 went on"]);
        assert_eq!(said(&checked).contains(left), is_left);
    }

    let expire = ["expire", "--retention-full", "1", "--confirm"];
    for _ in 0..2 {
        let output = site.walzip(&expire).output().expect("walzip runs");
        let told = said(&output);
        assert!(
            told.contains("timelines 1 and 2 went on at the same time"),
            "{told}"
        );
        assert!(
            told.contains("timeline set-aside 1 --from 0000000100"),
            "{told}"
        );
        assert!(told.contains("removed: backups 0"), "{told}");
    }
    refused(
        &restore(&site, "refused", &[]),
        110,
        &["timeline 1 went on"],
    );
    let production = ["--target-timeline", "1"];
    assert_eq!(restored_rows(&site, &production), "1-production");

    // Once it is said that production is timeline 2, the retention is that one's.
    let from = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.stop();
    let first = format!("00000001{}", &from[8..22]);
    let refusal = said(&restore(&site, "refused", &[]));
    let hint = refusal.split("--from ").nth(1).expect("a hint");
    let segment = &hint[..24];
    assert!(segment.starts_with(&first[..16]), "{refusal}");
    let aside = ["timeline", "set-aside", "1", "--from", segment, "--confirm"];
    succeed(&mut site.walzip(&aside));
    assert!(!two_have_archived(&copy));
    let told = succeed(&mut site.walzip(&expire));
    assert!(told.contains("removed: backups 1"), "{told}");
    assert_eq!(restored_rows(&site, &[]), "2-copy");
}

/// PostgreSQL hands the history over when a server is promoted, and never to one that did not archive then.
#[test]
fn a_restored_server_that_archives_later_archives_the_history_of_its_timeline() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let output = restore(&site, "successor", &[]);
    assert!(output.status.success(), "{}", said(&output));
    let successor = Server::on(&site, "successor");
    successor.start(&[]);
    successor.wait_until("SELECT NOT pg_is_in_recovery()");
    let mut refusal = successor.walzip(&["backup"]);
    let refusal = refusal.output().expect("walzip runs");
    refused(&refusal, 31, &["ALTER SYSTEM SET archive_mode = on"]);
    successor.sql("ALTER SYSTEM SET archive_mode = on");
    successor.stop();
    successor.start(&[]);
    write(&successor, "2-after");
    successor.archive_everything();
    assert!(object(&site, "00000002.history").exists());
    succeed(&mut successor.walzip(&["check"]));
    succeed(&mut successor.walzip(&["backup"]));
    write(&successor, "3-later");
    successor.archive_everything();
    succeed(&mut successor.walzip(&["verify"]));
    assert_eq!(restored_rows(&site, &[]), "1-common 2-after 3-later");
    // What the segment in which timeline 1 was left has of before is in it too.
    let output = restore(&site, "looked-at", &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        !said(&output).contains("has commits up to"),
        "{}",
        said(&output)
    );

    // Without the history a backup would be none, and no server could be promoted.
    fs::remove_file(object(&site, "00000002.history")).expect("removed");
    let beside = successor.data().join("pg_wal/00000002.history");
    fs::rename(&beside, site.path("kept")).expect("moved");
    let mut backup = successor.walzip(&["backup"]);
    let backup = backup.output().expect("walzip runs");
    refused(&backup, 26, &["timeline 2"]);
    let info = succeed(&mut successor.walzip(&["info"]));
    assert!(info.contains("timeline 2: CANNOT BE RESTORED: its history is missing"));
    assert!(!info.contains("timeline 2 can be restored"), "{info}");
    for arguments in [
        &["--target-timeline", "1"][..],
        &["--target-immediate"],
        &["--target-timeline", "current"],
    ] {
        refused(&restore(&site, "refused", arguments), 26, &["timeline 2"]);
        assert!(!site.path("refused").exists(), "nothing was written");
    }
    fs::rename(site.path("kept"), &beside).expect("moved back");
    write(&successor, "4-healed");
    successor.archive_everything();
    let expected = "1-common 2-after 3-later 4-healed";
    assert_eq!(restored_rows(&site, &[]), expected);
}

#[test]
fn a_lost_history_is_damage_everywhere_and_may_come_back() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let second = archiving_copy(&site, "second", &[]);
    write(&second, "2-second");
    second.archive_everything();
    second.stop();
    let third = archiving_copy(&site, "third", &[]);
    write(&third, "3-third");
    third.archive_everything();

    let history = object(&site, "00000002.history");
    let content = fs::read(third.data().join("pg_wal/00000002.history"));
    let kept = site.path("kept");
    fs::rename(&history, &kept).expect("moved");
    let verified = third.walzip(&["verify"]).output().expect("runs");
    assert_eq!(verified.status.code(), Some(104), "{}", said(&verified));
    assert!(
        said(&verified).contains("00000002.history"),
        "{}",
        said(&verified)
    );
    let info = succeed(&mut third.walzip(&["info"]));
    assert!(info.contains("history is missing"), "{info}");
    for target in [&[][..], &["--target-timeline", "3"]] {
        refused(
            &restore(&site, "refused", target),
            26,
            &["timeline 2", "history"],
        );
    }
    let checked = third.walzip(&["check"]).output().expect("runs");
    refused(&checked, 26, &["timeline 2", "rebuild-history N"]);
    // Production would go with it.
    let aside = ["timeline", "set-aside", "2", "--confirm"];
    let aside = third.walzip(&aside).output().expect("runs");
    refused(&aside, 31, &["rebuild-history 2", "timeline 3"]);
    let mut get = third.walzip(&["archive-get", "00000002.history"]);
    let got = get.arg(site.path("got")).output().expect("runs");
    assert_eq!(got.status.code(), Some(26), "{}", said(&got));
    // The next number is free, as PostgreSQL wants to hear.
    let mut get = third.walzip(&["archive-get", "00000004.history"]);
    let got = get.arg(site.path("got")).output().expect("runs");
    assert_eq!(got.status.code(), Some(1), "{}", said(&got));

    let push = |content: &str| {
        let directory = site.path("elsewhere");
        fs::create_dir_all(&directory).expect("made");
        site.hand_over(&directory);
        let path = directory.join("00000002.history");
        fs::write(&path, content).expect("written");
        site.hand_over(&path);
        let mut push = third.walzip(&["archive-push"]);
        push.arg(path).output().expect("runs")
    };
    let other = push("1\t0/700000\tanother cluster's\n");
    assert_eq!(other.status.code(), Some(45), "{}", said(&other));
    let content = String::from_utf8(content.expect("in pg_wal")).expect("text");
    // What no server has any more is made of a later history, or of the WAL.
    let rebuild = |timeline| ["timeline", "rebuild-history", timeline];
    let told = succeed(&mut third.walzip(&rebuild("2")));
    let switch = content.split('\t').nth(1).expect("a position");
    assert!(
        told.contains(&format!("left timeline 1 at {switch}\n")),
        "{told}"
    );
    assert!(told.contains("nothing was done"), "{told}");
    let history_of_third = object(&site, "00000003.history");
    fs::remove_file(&history_of_third).expect("removed");
    let both = third.walzip(&rebuild("3")).output().expect("runs");
    assert_eq!(both.status.code(), Some(31), "{}", said(&both));
    assert!(said(&both).contains("timeline 2, whose history is lost too"));
    for timeline in ["2", "3"] {
        succeed(third.walzip(&rebuild(timeline)).arg("--confirm"));
    }
    succeed(&mut third.walzip(&["verify"]));
    assert_eq!(restored_rows(&site, &[]), "1-common 2-second 3-third");
    let there = third.walzip(&rebuild("2")).output().expect("runs");
    assert_eq!(there.status.code(), Some(31), "{}", said(&there));
    let other = push(&content.replacen(switch, "0/700000", 1));
    assert_eq!(other.status.code(), Some(45), "{}", said(&other));
    let own = push(&content);
    assert!(own.status.success(), "{}", said(&own));
    fs::remove_file(&history).expect("removed");

    let own = push(&content);
    assert!(own.status.success(), "{}", said(&own));
    succeed(&mut third.walzip(&["verify"]));
    assert_eq!(restored_rows(&site, &[]), "1-common 2-second 3-third");
}

#[test]
fn a_hole_before_the_target_is_refused_with_the_last_moment_before_it() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let early = write(&primary, "1-early");
    write(&primary, "2-before");
    primary.archive_everything();
    let hole = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    let late = write(&primary, "3-in-the-hole");
    primary.archive_everything();
    write(&primary, "4-after");
    primary.archive_everything();
    fs::remove_file(object(&site, &hole)).expect("removed");

    let output = restore(&site, "refused", &[]);
    refused(
        &output,
        111,
        &[&hole, "last transaction at", "--target-lsn"],
    );
    refused(
        &restore(&site, "refused", &["--target-time", &late]),
        111,
        &[&hole],
    );
    assert!(!site.path("refused").exists(), "nothing was written");
    assert_eq!(restored_rows(&site, &["--target-time", &early]), "1-early");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let end = text.split("no further than ").nth(1).expect("the end");
    let end = end.split(' ').next().expect("a position");
    assert_eq!(
        restored_rows(&site, &["--target-lsn", end]),
        "1-early 2-before"
    );
}

#[test]
fn a_target_beyond_the_archive_is_refused_until_it_is_archived() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let moment = write(&primary, "1-wanted");
    write(&primary, "2-mistake");
    let not_archived = restore(&site, "refused", &["--target-time", &moment]);
    refused(&not_archived, 112, &["walzip check"]);
    let far = ["--target-time", "2099-01-01 00:00:00+00"];
    refused(&restore(&site, "refused", &far), 112, &["2099"]);
    refused(
        &restore(&site, "refused", &["--target-lsn", "FF/0"]),
        112,
        &["FF/0"],
    );
    refused(
        &restore(&site, "refused", &["--target-name", "nowhere"]),
        112,
        &["nowhere"],
    );
    succeed(&mut primary.walzip(&["check"]));
    assert_eq!(
        restored_rows(&site, &["--target-time", &moment]),
        "1-wanted"
    );
}

#[test]
fn a_transaction_and_a_name_are_reached_from_the_backup_before_them() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let xid = primary
        .sql("BEGIN; INSERT INTO note VALUES ('1-transaction'); SELECT txid_current(); COMMIT;");
    primary.sql("SELECT pg_create_restore_point('a point')");
    write(&primary, "2-later");
    succeed(&mut primary.walzip(&["backup"]));
    write(&primary, "3-last");
    primary.archive_everything();
    assert_eq!(
        restored_rows(&site, &["--target-xid", &xid]),
        "1-transaction"
    );
    assert_eq!(
        restored_rows(&site, &["--target-name", "a point"]),
        "1-transaction"
    );
    primary.sql("SELECT pg_create_restore_point('twice'), pg_create_restore_point('twice')");
    primary.archive_everything();
    refused(
        &restore(&site, "refused", &["--target-name", "twice"]),
        31,
        &["more than once"],
    );
}

#[test]
fn an_older_backup_is_taken_only_by_its_name() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-first");
    succeed(&mut primary.walzip(&["backup"]));
    write(&primary, "2-second");
    primary.archive_everything();
    let labels = fs::read_dir(site.repository().join("backup")).expect("readable");
    let mut labels: Vec<PathBuf> = labels.map(|entry| entry.expect("one").path()).collect();
    labels.sort();
    let [older, newest] = [0, 1].map(|of: usize| {
        let label = labels[of].file_name().expect("a label");
        label.to_string_lossy().into_owned()
    });
    // Nothing is written before it is known that all objects are there.
    let (pack, aside) = (labels[1].join("pack.0000"), site.path("aside"));
    fs::rename(&pack, &aside).expect("moved");
    let words = ["pack.0000", "is missing", "--backup"];
    refused(&restore(&site, "refused", &[]), 75, &words);
    let named = restore(&site, "refused", &["--backup", &newest]);
    refused(&named, 26, &words[..2]);
    let content = fs::read(&aside).expect("readable");
    fs::write(&pack, &content[..content.len() - 1]).expect("written");
    let cut_short = ["pack.0000", "bytes, ", "were written", "--backup"];
    refused(&restore(&site, "refused", &[]), 75, &cut_short);
    assert!(!site.path("refused").exists(), "nothing was written");
    fs::rename(&aside, &pack).expect("moved back");

    fs::write(labels[1].join("backup.json"), "{").expect("damaged");
    refused(
        &restore(&site, "refused", &[]),
        75,
        &["cannot be read", "--backup"],
    );
    assert_eq!(
        restored_rows(&site, &["--backup", &older]),
        "1-first 2-second"
    );
}
