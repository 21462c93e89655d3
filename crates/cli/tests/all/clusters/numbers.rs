//! Numbers of timelines that are taken: by a history without WAL, and by what was set aside.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::clusters::branches::{primary, restore, restored_rows};
use crate::clusters::forks::{objects, promoted, rows, write};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const MAJOR: u32 = 15;
pub(super) const PRESERVE: [&str; 2] = ["--archive-mode", "preserve"];

#[track_caller]
pub(super) fn refused(site: &Site, target: &[&str]) -> String {
    let output = restore(site, "refused", target);
    assert_eq!(output.status.code(), Some(110), "{}", said(&output));
    said(&output)
}

/// A server of a timeline of which no segment is full yet.
pub(super) fn begun<'a>(site: &'a Site, name: &'a str, timeline: u32) -> Server<'a> {
    let history = format!("{timeline:08X}.history");
    let server = promoted(
        site,
        name,
        &[&PRESERVE[..], &["--target-timeline", "1"]].concat(),
    );
    while objects(site, &history).is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

/// A stray copy has timeline 2, its original's successor timeline 3, and 2 is put away.
fn with_a_gap(site: &Site) -> Server<'_> {
    let primary = primary(site);
    write(&primary, "1-common");
    primary.archive_everything();
    let stray = promoted(site, "stray", &PRESERVE);
    write(&stray, "2-stray");
    stray.archive_everything();
    stray.stop();
    primary.stop();
    let successor = begun(site, "successor", 3);
    write(&successor, "3-production");
    successor.archive_everything();
    succeed(&mut site.walzip(&["timeline", "set-aside", "2", "--confirm"]));
    successor
}

/// Of the timelines before, the archive has nothing, and needs nothing.
#[test]
fn an_archive_that_begins_with_a_later_timeline_is_restored() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    for _ in 0..2 {
        primary.stop();
        fs::write(primary.data().join("standby.signal"), "").expect("written");
        site.hand_over(&primary.data().join("standby.signal"));
        primary.start(&[]);
        primary.sql("SELECT pg_promote()");
        primary.wait_until("SELECT NOT pg_is_in_recovery()");
    }
    primary.stop();
    // What is left of them would be archived, too.
    for entry in fs::read_dir(primary.data().join("pg_wal")).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_file() && name.is_some_and(|name| !name.starts_with("00000003")) {
            fs::remove_file(path).expect("removed");
        }
    }
    primary.archive_with_walzip();
    primary.start(&[]);
    succeed(&mut primary.walzip(&["check"]));
    succeed(&mut primary.walzip(&["backup"]));
    let then = write(&primary, "1-third");
    write(&primary, "2-third");
    primary.archive_everything();
    let of_third = objects(&site, "0000000300000000");
    assert!(!of_third.is_empty(), "timeline 3");
    assert_eq!(objects(&site, "00000002"), Vec::<PathBuf>::new());

    succeed(&mut site.walzip(&["verify"]));
    assert_eq!(restored_rows(&site, &[]), "1-third 2-third");
    assert_eq!(restored_rows(&site, &["--target-time", &then]), "1-third");
    let next = promoted(&site, "next", &PRESERVE);
    write(&next, "3-fourth");
    next.archive_everything();
    primary.stop();
    assert_eq!(restored_rows(&site, &[]), "1-third 2-third 3-fourth");
}

/// Production was promoted, and a copy of what was before it archives, with a higher number.
#[test]
fn production_with_a_history_only_is_not_passed_over_for_a_copy() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    write(&primary, "2-common");
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    let after = write(&production, "3-production");
    let copy = begun(&site, "copy", 3);
    write(&copy, "4-copy");
    copy.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));

    let told = refused(&site, &[]);
    assert!(told.contains("--target-timeline 2"), "{told}");
    let output = restore(&site, "refused", &["--target-time", &after]);
    assert_eq!(output.status.code(), Some(112), "{}", said(&output));
    let at = ["--target-time", &before];
    assert_eq!(restored_rows(&site, &at), "1-common");
    let info = succeed(&mut copy.walzip(&["info"]));
    assert!(info.contains("timelines 2 and 3 went on"), "{info}");

    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let output = site.walzip(&expire).output().expect("walzip runs");
    assert!(
        said(&output).contains("removed: backups 0"),
        "{}",
        said(&output)
    );
    production.archive_everything();
    let of_production = ["--target-timeline", "2"];
    assert_eq!(
        restored_rows(&site, &of_production),
        "1-common 2-common 3-production"
    );
}

/// Two failovers within one segment, and the first server is still there.
#[test]
fn a_timeline_that_was_left_within_its_first_segment_is_not_taken_for_its_parent() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let second = begun(&site, "second", 2);
    let then = write(&second, "2-second");
    second.sql("ALTER SYSTEM SET recovery_target_timeline = 'latest'");
    second.crash();
    fs::write(second.data().join("standby.signal"), "").expect("written");
    site.hand_over(&second.data().join("standby.signal"));
    second.start(&[]);
    second.sql("SELECT pg_promote()");
    second.wait_until("SELECT NOT pg_is_in_recovery()");
    write(&second, "3-third");
    second.archive_everything();
    let of_second = objects(&site, "0000000200000000");
    let is_partial = |path: &PathBuf| path.to_string_lossy().contains(".partial");
    assert!(of_second.iter().all(is_partial), "{of_second:?}");
    write(&primary, "4-of-the-first");
    primary.archive_everything();

    let told = refused(&site, &["--target-time", &then]);
    assert!(
        told.contains("--target-timeline 3 or --target-timeline 1;"),
        "{told}"
    );
    let at = ["--target-timeline", "3", "--target-time", &then];
    assert_eq!(restored_rows(&site, &at), "1-common 2-second");
    primary.stop();
    let hint = told.split("--from ").nth(1).expect("a hint");
    let aside = [
        "timeline",
        "set-aside",
        "1",
        "--from",
        &hint[..24],
        "--confirm",
    ];
    succeed(&mut site.walzip(&aside));
    let at = ["--target-time", &then];
    assert_eq!(restored_rows(&site, &at), "1-common 2-second");
}

#[test]
fn a_number_that_was_set_aside_is_in_nobodys_way() {
    let Some(site) = Site::new(MAJOR) else { return };
    let successor = with_a_gap(&site);
    let all = "1-common 3-production";
    assert_eq!(restored_rows(&site, &[]), all);
    assert_eq!(restored_rows(&site, &["--target-timeline", "latest"]), all);
    let output = restore(&site, "waiting", &["--standby"]);
    assert!(output.status.success(), "{}", said(&output));
    let waiting = Server::on(&site, "waiting");
    waiting.start(&[]);
    waiting.wait_until("SELECT count(*) = 2 FROM note");
    write(&successor, "4-later");
    successor.archive_everything();
    waiting.wait_until("SELECT count(*) = 3 FROM note");
    waiting.stop();
    successor.stop();

    // PostgreSQL takes the first number without a history.
    let undone = begun(&site, "undone", 2);
    assert_eq!(rows(&undone), "1-common");
    refused(&site, &[]);
}

/// One server was given up, and the next ones took their turn.
#[test]
fn one_timeline_that_was_given_up_is_beside_the_newest_one_alone() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    begun(&site, "given-up", 2).crash();
    let third = begun(&site, "third", 3);
    write(&third, "3-third");
    third.archive_everything();
    third.stop();
    let follows = [&PRESERVE[..], &["--target-timeline", "3"]].concat();
    let fourth = promoted(&site, "fourth", &follows);
    write(&fourth, "4-fourth");
    fourth.archive_everything();
    let told = refused(&site, &[]);
    assert!(
        told.contains("--target-timeline 4 or --target-timeline 2;"),
        "{told}"
    );
    succeed(&mut site.walzip(&["timeline", "set-aside", "2", "--confirm"]));
    assert_eq!(restored_rows(&site, &[]), "1-common 3-third 4-fourth");
}

/// The old primary comes back, and commits nothing: its WAL has production's positions.
#[test]
fn a_position_after_a_fork_is_not_taken_from_an_older_server() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    write(&production, "2-production");
    primary.start(&[]);
    primary.sql("SELECT pg_create_restore_point('of the old one')");
    primary.archive_everything();
    let lsn = primary.sql("SELECT pg_current_wal_lsn() - 2 * 1024 * 1024");
    let fork = fs::read_to_string(production.data().join("pg_wal/00000002.history"));
    let fork = fork.expect("there");
    let fork = fork.split_whitespace().nth(1).expect("a position");
    let after = primary.sql(&format!("SELECT greatest('{lsn}', pg_lsn '{fork}' + 200)"));
    for target in [
        ["--target-lsn", &after],
        ["--target-name", "of the old one"],
    ] {
        let told = refused(&site, &target);
        assert!(
            told.contains("Of timeline 2 only the history is archived"),
            "{told}"
        );
    }
    let before = primary.sql(&format!("SELECT pg_lsn '{fork}' - 2000"));
    let output = restore(
        &site,
        "restored",
        &["--target-lsn", &before, "--target-exclusive"],
    );
    assert!(output.status.success(), "{}", said(&output));
}

/// What is not archived yet is no reason to put production away.
#[test]
fn a_transaction_that_is_not_archived_after_a_failover_is_only_not_there() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    production.sql("SELECT pg_create_restore_point('new')");
    for target in [["--target-name", "new"], ["--target-xid", "999999"]] {
        let output = restore(&site, "refused", &target);
        assert_eq!(output.status.code(), Some(112), "{}", said(&output));
    }
    production.archive_everything();
    assert_eq!(restored_rows(&site, &["--target-name", "new"]), "1-common");
}

/// The stray's history is all that a standby knew of its timeline.
#[test]
fn a_standby_goes_on_when_the_timeline_is_set_aside_that_it_waited_for() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let stray = begun(&site, "stray", 2);
    stray.crash();
    let output = restore(&site, "waiting", &["--standby"]);
    assert!(
        said(&output).contains("timeline 2 left timeline 1 at"),
        "{}",
        said(&output)
    );
    write(&primary, "2-production");
    primary.archive_everything();
    succeed(&mut site.walzip(&["timeline", "set-aside", "2", "--confirm"]));
    let waiting = Server::on(&site, "waiting");
    waiting.start(&[]);
    waiting.wait_until("SELECT count(*) = 2 FROM note");
    assert_eq!(rows(&waiting), "1-common 2-production");
}

/// What comes before the fork in its segment is nowhere else.
#[test]
fn the_only_copy_of_what_was_before_a_promotion_is_not_set_aside() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.sql("SELECT pg_create_restore_point('fork')");
    write(&primary, "2-of-the-old-one");
    primary.archive_everything();
    let name = ["--target-name", "fork"];
    let production = promoted(&site, "production", &[&PRESERVE[..], &name].concat());
    write(&production, "3-production");
    while objects(&site, "00000002.history").is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = refused(&site, &[]);
    assert!(
        told.contains("can be put away once 0000000200000000"),
        "{told}"
    );
    let expire = site.walzip(&["expire", "--retention-full", "1"]).output();
    let expire = said(&expire.expect("walzip runs"));
    assert!(
        expire.contains("timeline 1 once 0000000200000000"),
        "{expire}"
    );
    let history = fs::read_to_string(production.data().join("pg_wal/00000002.history"));
    let history = history.expect("there");
    let lsn = history.split_whitespace().nth(1).expect("a position");
    let segment = production.sql(&format!(
        "SELECT '00000001' || substr(pg_walfile_name('{lsn}'), 9)"
    ));
    let aside = [
        "timeline",
        "set-aside",
        "1",
        "--from",
        &segment,
        "--confirm",
    ];
    let output = site.walzip(&aside).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(31), "{}", said(&output));
    assert!(said(&output).contains("nowhere else"), "{}", said(&output));
    production.archive_everything();
    primary.stop();
    succeed(&mut site.walzip(&aside));
    assert_eq!(restored_rows(&site, &[]), "1-common 3-production");
}

/// A backup that was asked for says nothing of what comes after it.
#[test]
fn a_target_after_a_backup_that_was_asked_for_is_looked_for_like_any_other() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.sql("SELECT pg_create_restore_point('twice')");
    primary.archive_everything();
    let info = succeed(&mut primary.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let label = info["backups"][0]["label"].as_str().expect("a label");
    let backup = ["--backup", label];
    let once = [&backup[..], &["--target-name", "twice"]].concat();
    assert_eq!(restored_rows(&site, &once), "1-common");
    for (target, code) in [
        (["--target-name", "nowhere"], 112),
        (["--target-xid", "999999"], 112),
    ] {
        let output = restore(&site, "refused", &[backup, target].concat());
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    }
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("SELECT pg_create_restore_point('twice')");
    primary.archive_everything();
    let output = restore(&site, "refused", &once);
    assert!(
        said(&output).contains("more than once"),
        "{}",
        said(&output)
    );

    write(&primary, "2-last");
    primary.archive_everything();
    let info = succeed(&mut primary.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let last = info["wal"][0]["restorable_to"]["last_transaction"].as_str();
    let at = ["--target-time", last.expect("a time"), "--target-exclusive"];
    assert_eq!(restored_rows(&site, &at), "1-common");
}
