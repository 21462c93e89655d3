//! A cluster of each major is archived under load and restored to every kind of target.

use std::fs;
use std::path::PathBuf;

use crate::clusters::server::{Fingerprint, Server};
use crate::clusters::site::{Site, succeed};

/// How many segments a history has at least.
const SEGMENTS_MIN: u64 = 30;

/// What differs between the clusters.
struct Variant {
    major: u32,
    segment_megabytes: u32,
    wal_compression: &'static str,
}

#[test]
fn restores_13_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 13,
        segment_megabytes: 1,
        wal_compression: "on",
    });
}

#[test]
fn restores_14_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 14,
        segment_megabytes: 1,
        wal_compression: "off",
    });
}

#[test]
fn restores_15_with_16_mb_segments_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 15,
        segment_megabytes: 16,
        wal_compression: "lz4",
    });
}

#[test]
fn restores_16_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 16,
        segment_megabytes: 1,
        wal_compression: "pglz",
    });
}

#[test]
fn restores_17_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 17,
        segment_megabytes: 2,
        wal_compression: "zstd",
    });
}

#[test]
fn restores_18_to_every_kind_of_target() {
    restores_to_every_kind_of_target(Variant {
        major: 18,
        segment_megabytes: 1,
        wal_compression: "lz4",
    });
}

/// A moment in a cluster's life: how restore is asked for it, and what must be there then.
struct Moment {
    target: Vec<String>,
    expected: Fingerprint,
}

fn restores_to_every_kind_of_target(variant: Variant) {
    let Some(site) = Site::new(variant.major) else {
        return;
    };
    let primary = archived_primary(&site, &variant);
    let moments = live_through_moments(&primary, &variant);
    let archived = primary.archived_count();
    assert!(
        archived >= SEGMENTS_MIN,
        "only {archived} files were archived"
    );
    primary.stop();

    for moment in &moments {
        let restored = restore(&site, "restored", &moment.target);
        restored.start(&["archive_mode=off"]);
        restored.wait_until("SELECT NOT pg_is_in_recovery()");
        assert_eq!(
            restored.fingerprint(),
            moment.expected,
            "at {:?}",
            moment.target
        );
        restored.check_structures();
        discard(&site, restored);
    }
    restores_the_end_of_the_backup(&site);
    follows_a_timeline_switch(&site, &moments);
    forks_again_before_the_first_fork(&site, &moments);
    succeed(&mut site.walzip(&["verify"]));
}

/// A server that archives with walzip, has a tablespace and some tables, and was backed up
/// while it was written to.
fn archived_primary<'a>(site: &'a Site, variant: &Variant) -> Server<'a> {
    let primary = Server::create(site, "primary", variant.segment_megabytes);
    primary.archive_with_walzip();
    // The targets of an earlier recovery: a running server does not mind, a restored one would.
    primary.configure(&format!(
        "wal_compression = {}\n\
         recovery_target_xid = '3'\n\
         recovery_target_inclusive = off\n\
         recovery_target_action = shutdown\n\
         recovery_target_timeline = current",
        variant.wal_compression
    ));
    primary.start(&[]);
    let elsewhere = site.create_directory("primary.tablespace");
    primary.sql(&format!(
        "CREATE TABLESPACE elsewhere LOCATION '{}';
         CREATE TABLE note (id serial PRIMARY KEY, body text);
         CREATE TABLE moved (id int PRIMARY KEY, body text) TABLESPACE elsewhere;
         INSERT INTO moved SELECT i, md5(i::text) FROM generate_series(1, 5000) i;",
        elsewhere.display()
    ));
    primary.pgbench(&["-i", "-q", "-s", "2"]);
    let load = primary.start_pgbench(&["-c", "2", "-T", "600"]);
    succeed(&mut primary.walzip(&["backup"]));
    drop(load);
    primary
}

/// Load, with a moment of each kind to return to in it.
fn live_through_moments(primary: &Server, variant: &Variant) -> Vec<Moment> {
    let moment = |kind: &str, value: String| Moment {
        target: vec![format!("--target-{kind}"), value],
        expected: primary.fingerprint(),
    };
    // A load that was cut short may still be rolling back.
    primary.wait_until(
        "SELECT count(*) = 0 FROM pg_stat_activity
         WHERE application_name = 'pgbench' AND pid <> pg_backend_pid()",
    );
    let mut moments = Vec::new();
    write_segments(primary, variant, 8);
    let xid = primary.sql(
        "BEGIN; INSERT INTO note (body) VALUES ('a transaction to return to');
         SELECT txid_current(); COMMIT;",
    );
    moments.push(moment("xid", xid));
    write_segments(primary, variant, 8);
    moments.push(moment(
        "lsn",
        primary.sql("SELECT pg_current_wal_insert_lsn()"),
    ));
    write_segments(primary, variant, 8);
    primary.sql("SELECT pg_create_restore_point('before the mistake')");
    moments.push(moment("name", "before the mistake".to_owned()));
    primary.sql("DELETE FROM pgbench_accounts");
    write_segments(primary, variant, 8);
    let time = primary.sql("SELECT clock_timestamp()");
    // The next commit must be later by more than the microsecond that a target can tell.
    primary.sql("SELECT pg_sleep(0.01)");
    moments.push(moment("time", time));
    write_segments(primary, variant, 2);
    primary.archive_everything();
    moments.push(Moment {
        target: Vec::new(),
        expected: primary.fingerprint(),
    });
    moments
}

/// Writes about as many segments as asked for: small transactions, and rows in bulk.
fn write_segments(primary: &Server, variant: &Variant, count: u32) {
    primary.pgbench(&["-c", "2", "-t", "300"]);
    // A row and its index entry take about 170 bytes of WAL, its deletion another 55.
    let rows = count * variant.segment_megabytes * 5000;
    primary.sql(&format!(
        "INSERT INTO note (body) SELECT md5(i::text) FROM generate_series(1, {rows}) i;
         DELETE FROM note WHERE id % 3 = 0;
         VACUUM note;"
    ));
}

/// A new data directory in which the cluster will wake up at the target.
fn restore<'a>(site: &'a Site, name: &'a str, target: &[String]) -> Server<'a> {
    let server = Server::on(site, name);
    let mut command = server.walzip(&["restore", "-D"]);
    command
        .arg(server.data())
        .args(["--archive-mode", "preserve"]);
    command.arg("--tablespace-mapping");
    let directories = (tablespace(site, "primary"), tablespace(site, name));
    command.arg(format!(
        "{}={}",
        directories.0.display(),
        directories.1.display()
    ));
    succeed(command.args(target));
    server
}

fn tablespace(site: &Site, server: &str) -> PathBuf {
    site.path(&format!("{server}.tablespace"))
}

fn discard(site: &Site, server: Server) {
    server.stop();
    fs::remove_dir_all(server.data()).expect("remove the data directory");
    fs::remove_dir_all(tablespace(site, server.name())).expect("remove the tablespace");
}

/// "immediate" is the first consistent moment after the backup: pgbench was running, so what
/// must hold is what each of its transactions keeps.
fn restores_the_end_of_the_backup(site: &Site) {
    let restored = restore(site, "restored", &["--target-immediate".to_owned()]);
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let balanced = restored.sql(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
            AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)
            AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
            AND (SELECT count(*) FROM pgbench_accounts) = 200000
            AND (SELECT count(*) FROM moved) = 5000",
    );
    assert_eq!(balanced, "t");
    restored.check_structures();
    discard(site, restored);
}

/// A restored cluster goes on as a new timeline in the same archive; both ways stay open.
fn follows_a_timeline_switch(site: &Site, moments: &[Moment]) {
    let named = moments
        .iter()
        .find(|moment| moment.target[0] == "--target-name");
    let promoted = restore(site, "promoted", &named.expect("a named moment").target);
    promoted.start(&[]);
    promoted.wait_until("SELECT NOT pg_is_in_recovery()");
    promoted.sql("INSERT INTO note (body) VALUES ('on the second timeline')");
    promoted.pgbench(&["-c", "2", "-t", "200"]);
    promoted.archive_everything();
    let expected = promoted.fingerprint();
    let timeline = promoted.sql("SELECT timeline_id FROM pg_control_checkpoint()");
    assert_eq!(timeline, "2");
    discard(site, promoted);

    let newest = restore(
        site,
        "newest",
        &["--target-timeline".into(), "latest".into()],
    );
    newest.start(&["archive_mode=off"]);
    newest.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(newest.fingerprint(), expected, "along the second timeline");
    newest.check_structures();
    discard(site, newest);

    let first = restore(site, "first", &["--target-timeline".into(), "1".into()]);
    first.start(&["archive_mode=off"]);
    first.wait_until("SELECT NOT pg_is_in_recovery()");
    let end = moments.last().expect("the last moment");
    assert_eq!(
        first.fingerprint(),
        end.expected,
        "along the first timeline"
    );
    discard(site, first);
}

/// A second recovery goes back further than the first. By default it follows the timeline of
/// the first, whose beginning it never reaches: PostgreSQL writes a history whose positions do
/// not rise, and archives nothing before it is in the archive.
fn forks_again_before_the_first_fork(site: &Site, moments: &[Moment]) {
    let earlier = moments.first().expect("a moment before the named one");
    let again = restore(site, "again", &earlier.target);
    again.start(&[]);
    again.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(again.fingerprint(), earlier.expected);
    again.sql("INSERT INTO note (body) VALUES ('on the third timeline')");
    again.pgbench(&["-c", "2", "-t", "200"]);
    again.archive_everything();
    let expected = again.fingerprint();
    let timeline = again.sql("SELECT timeline_id FROM pg_control_checkpoint()");
    assert_eq!(timeline, "3");
    discard(site, again);

    let newest = restore(site, "newest", &[]);
    newest.start(&["archive_mode=off"]);
    newest.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(newest.fingerprint(), expected, "along the third timeline");
    discard(site, newest);
}
