//! `walzip restore --standby`: a standby that has the archive.

use std::fs;

use crate::clusters::server::Server;
use crate::clusters::set_aside::follow;
use crate::clusters::site::{Site, said, succeed};

/// `archive-timeout`.
const ARCHIVE_TIMEOUT: i32 = 82;

fn signals(server: &Server) -> Vec<&'static str> {
    let names = ["recovery.signal", "standby.signal"];
    let is_there = |name: &&str| server.data().join(name).exists();
    names.into_iter().filter(is_there).collect()
}

fn restore(server: &Server, arguments: &[&str]) -> String {
    let mut command = server.walzip(&["restore", "-D"]);
    succeed(command.arg(server.data()).args(arguments))
}

#[test]
fn a_standby_of_13_replays_until_it_is_promoted() {
    replays_until_it_is_promoted(13);
}

#[test]
fn a_standby_of_15_replays_until_it_is_promoted() {
    replays_until_it_is_promoted(15);
}

#[test]
fn a_standby_of_18_replays_until_it_is_promoted() {
    replays_until_it_is_promoted(18);
}

fn replays_until_it_is_promoted(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = Server::backed_up(&site);
    let standby = Server::on(&site, "standby");
    let report = restore(&standby, &["--standby", "--archive-mode", "preserve"]);
    assert!(report.contains("it starts as a standby"), "{report}");
    assert_eq!(signals(&standby), ["standby.signal"]);
    standby.start(&["wal_retrieve_retry_interval=100ms"]);
    let note = |text: &str| {
        primary.sql(&format!("INSERT INTO note VALUES ('{text}')"));
        primary.archive_everything();
    };
    note("one");
    standby.wait_until("SELECT count(*) = 1 FROM note");
    // Trouble ends a recovery. A standby outlasts it.
    let away = site.path("away");
    fs::rename(site.repository(), &away).expect("moved away");
    while !standby.log().contains("walzip: error") {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    fs::rename(&away, site.repository()).expect("moved back");
    note("two");
    standby.wait_until("SELECT count(*) = 2 FROM note");
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()"), "t");
    primary.stop();
    standby.sql("SELECT pg_promote()");
    standby.sql("INSERT INTO note VALUES ('three')");
    standby.archive_everything();
    let info = succeed(&mut standby.walzip(&["info"]));
    assert!(info.contains("timeline 2 left timeline 1"), "{info}");
    assert_eq!(standby.sql("SELECT count(*) FROM note"), "3");
}

#[test]
fn a_directory_becomes_what_it_was_restored_as_last() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    primary.archive_everything();
    primary.stop();
    let copy = Server::on(&site, "copy");
    for (arguments, signal, timeline) in [
        (&["--standby"][..], "standby.signal", "latest"),
        (&["--delta"], "recovery.signal", "1"),
        (&["--delta", "--standby"], "standby.signal", "latest"),
        (
            &["--delta", "--standby", "--target-timeline", "1"],
            "standby.signal",
            "1",
        ),
    ] {
        restore(&copy, arguments);
        assert_eq!(signals(&copy), [signal], "{arguments:?}");
        let settings = fs::read_to_string(copy.data().join("postgresql.auto.conf"));
        let settings = settings.expect("readable");
        let line = format!("recovery_target_timeline = '{timeline}'\n");
        assert!(settings.contains(&line), "{arguments:?}: {settings}");
        let stops = settings.contains("exit $r");
        assert_eq!(stops, signal == "recovery.signal", "{settings}");
    }
    let mut command = copy.walzip(&["restore", "--standby", "--target-lsn", "0/3000000", "-D"]);
    let output = command.arg(site.path("other")).output().expect("walzip");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_backup_that_an_idle_primary_keeps_waiting_names_the_primary() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    let standby = Server::on(&site, "standby");
    restore(&standby, &["--archive-mode", "preserve"]);
    follow(&site, &standby, &primary);
    standby.start(&[]);
    // Nothing finishes the segment that this is in.
    primary.sql("INSERT INTO note VALUES ('last')");
    standby.wait_until("SELECT count(*) = 1 FROM note WHERE body = 'last'");
    let mut backup = standby.walzip(&["backup", "--archive-timeout", "2"]);
    let output = backup.output().expect("walzip runs");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(ARCHIVE_TIMEOUT), "{told}");
    let expected = [
        "whose primary finishes and archives it",
        "SELECT pg_switch_wal() on the primary",
    ];
    assert!(expected.iter().all(|part| told.contains(part)), "{told}");
    assert!(!told.contains("archive_command"), "{told}");
    primary.sql("SELECT pg_switch_wal()");
    succeed(&mut standby.walzip(&["backup", "--archive-timeout", "60"]));
}

/// A server sees that it has come to a target by the record after that.
#[test]
fn a_backup_that_ends_where_a_segment_does_is_restored_before_anything_follows() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    let standby = Server::on(&site, "standby");
    restore(&standby, &["--archive-mode", "preserve"]);
    follow(&site, &standby, &primary);
    standby.start(&[]);
    primary.sql("INSERT INTO note VALUES ('last')");
    primary.sql("CHECKPOINT");
    let end = primary.sql("SELECT pg_walfile_name(pg_switch_wal())");
    primary.wait_until(&format!(
        "SELECT coalesce(last_archived_wal >= '{end}', false) FROM pg_stat_archiver"
    ));
    standby.wait_until(
        "SELECT mod(pg_last_wal_replay_lsn() - '0/0', 1048576) = 0
         AND EXISTS (SELECT FROM note WHERE body = 'last')",
    );
    succeed(&mut standby.walzip(&["backup"]));
    primary.stop();
    let restored = Server::on(&site, "restored");
    let mut at_once = restored.walzip(&["restore", "--target-immediate", "-D"]);
    let output = at_once.arg(restored.data()).output().expect("runs");
    assert_eq!(output.status.code(), Some(112), "{}", said(&output));
    restore(&restored, &[]);
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = restored.sql("SELECT count(*) FROM note WHERE body = 'last'");
    assert_eq!(rows, "1");
}
