//! Times as servers write them, and as they read them.

use std::fs;

use walzip_archive::restore::RecoveryTarget;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, majors_with_servers, succeed};

/// The moment that walzip takes a text for, in microseconds, if it takes it.
fn moment(text: &str) -> Option<i64> {
    match RecoveryTarget::time(text) {
        Ok(RecoveryTarget::Time(time)) => Some(time.as_microsecond()),
        Ok(other) => panic!("{text} became {other:?}"),
        Err(_) => None,
    }
}

#[test]
fn a_time_is_copied_from_the_servers_log() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("log_line_prefix = '%m '\nlog_timezone = 'Europe/Berlin'");
    primary.start(&[]);
    primary.sql("CREATE TABLE t AS SELECT 1 AS a");
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("INSERT INTO t VALUES (2)");
    let expected = primary.fingerprint();
    // A line of the log tells milliseconds.
    primary.sql(
        "SELECT pg_sleep(0.01); DO $$ BEGIN RAISE LOG 'all is well'; END $$; SELECT pg_sleep(0.01)",
    );
    primary.sql("DELETE FROM t");
    primary.archive_everything();
    let log = primary.log();
    let line = log.lines().find(|line| line.ends_with("all is well"));
    let time = line
        .and_then(|line| line.split_once(" LOG:"))
        .expect(&log)
        .0;
    assert!(time.ends_with(" CET") || time.ends_with(" CEST"), "{time}");
    let utc = primary.sql(&format!(
        "SELECT to_char('{time}'::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    ));
    primary.stop();

    let restored = Server::on(&site, "restored");
    let mut restore = restored.walzip(&["restore", "--target-time", time, "-D"]);
    succeed(restore.arg(restored.data()));
    let settings = fs::read_to_string(restored.data().join("postgresql.auto.conf"));
    let line = format!("recovery_target_time = '{utc}+00'");
    let settings = settings.expect("readable");
    assert!(settings.contains(&line), "{line} is not in\n{settings}");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}

/// Whatever walzip takes, every server takes for the same moment: all abbreviations and zones
/// that it knows, in both seasons, and other forms.
#[test]
fn servers_read_every_time_that_is_taken_alike() {
    for major in majors_with_servers() {
        let Some(site) = Site::new(major) else {
            continue;
        };
        let server = Server::create(&site, "server", 1);
        server.start(&[]);
        let names = server
            .sql("SELECT abbrev FROM pg_timezone_abbrevs UNION SELECT name FROM pg_timezone_names");
        let offsets = ["+00", "-05", "+05:30", "-0330", "+00:53:28", "Z", "+15:59"];
        let zones: Vec<&str> = names.lines().chain(offsets).collect();
        let days = ["2023-01-15 12:30:45.678901", "2023-07-15T23:59:59"];
        let texts = days
            .iter()
            .flat_map(|day| zones.iter().map(move |zone| format!("{day} {zone}")));
        let taken: Vec<(String, i64)> = texts
            .filter_map(|text| moment(&text).map(|moment| (text, moment)))
            .collect();
        assert!(taken.len() > 800, "{major}: only {} are taken", taken.len());
        let rows: Vec<String> = taken
            .iter()
            .map(|(text, moment)| format!("('{text}', {moment})"))
            .collect();
        let differing = server.sql(&format!(
            "SELECT t, m, t::timestamptz FROM (VALUES {}) AS v (t, m)
             WHERE (extract(epoch FROM t::timestamptz) * 1000000)::bigint <> m",
            rows.join(", ")
        ));
        assert_eq!(differing, "", "PostgreSQL {major}");
    }
}

/// Whether a later transaction comes long before the target is seen when the recovery asks for its segment: what
/// `restore` writes is given a time an hour earlier, as if the clock had been ahead all the time.
#[test]
fn a_recovery_stops_where_a_clock_was_ahead() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE t AS SELECT 0 AS a, ''::text AS b");
    succeed(&mut primary.walzip(&["backup"]));
    let now = |and: &str| {
        primary.sql(&format!(
            "SELECT to_char((clock_timestamp() {and}) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
        ))
    };
    let early = now("- interval '1 hour'");
    for _ in 0..12 {
        primary.sql("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 12000) i");
    }
    let (target, expected) = (now(""), primary.fingerprint());
    primary.sql("SELECT pg_sleep(0.01)");
    primary.sql("DELETE FROM t");
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let restore = |flags: &[&str]| {
        let mut restore = restored.walzip(&["restore", "-D"]);
        succeed(restore.arg(restored.data()).args(flags));
    };
    let target = format!("{target}+00");
    restore(&["--target-time", &target]);
    let path = restored.data().join("postgresql.auto.conf");
    let settings = fs::read_to_string(&path).expect("readable");
    let own = format!("--target-time \"{target}\" --expected-end ");
    let (before, after) = settings.split_once(&own).expect(&settings);
    let lsn = after.split_whitespace().next().expect("a position");
    let changed = format!("{before}--target-time \"{early}+00\" --expected-end {after}");
    fs::write(&path, changed).expect("written");
    // It may take connections before, which read.
    restored.try_start(&["archive_mode=off"]);
    restored.wait_until_stopped();
    let log = restored.log();
    assert!(log.contains("by a clock that was ahead"), "{log}");
    let way_out = format!("--target-lsn {lsn} --target-exclusive to have them");
    assert!(log.contains(&way_out), "{log}");

    restore(&["--delta", "--target-lsn", lsn, "--target-exclusive"]);
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}
