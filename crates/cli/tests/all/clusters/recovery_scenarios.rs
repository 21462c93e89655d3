//! What PostgreSQL's own recovery tests try (src/test/recovery/t, PostgreSQL 18), with walzip as the
//! archive, in the background: 020_archive_status, 023_pitr_prepared_xact, 025_stuck_on_old_timeline,
//! 026_overwrite_contrecord.

use std::fs;

use crate::clusters::asynchronous::{configure, walzip};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

fn backed_up<'s>(site: &'s Site, settings: &str) -> Server<'s> {
    let primary = Server::create(site, "primary", 1);
    configure(site, &primary);
    primary.configure(settings);
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut walzip(&primary, site, &["backup"]));
    primary
}

fn restored<'s>(site: &'s Site, name: &'s str, arguments: &[&str]) -> Server<'s> {
    let server = Server::on(site, name);
    let mut restore = walzip(&server, site, &["restore", "-D"]);
    succeed(restore.arg(server.data()).args(arguments));
    server
}

/// A restored cluster whose recovery has ended.
fn recovered<'s>(site: &'s Site, arguments: &[&str]) -> Server<'s> {
    let copy = restored(site, "restored", arguments);
    copy.start(&["archive_mode=off"]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    copy
}

fn rows(server: &Server) -> String {
    server.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note")
}

/// 020_archive_status: what could not be archived before a crash is archived after it.
#[test]
fn what_waits_to_be_archived_survives_a_crash() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "");
    let away = site.path("away");
    fs::rename(site.repository(), &away).expect("renamed");
    for number in 0..5 {
        primary.sql(&format!(
            "INSERT INTO note VALUES ('{number}'); SELECT pg_switch_wal()"
        ));
    }
    primary.wait_until("SELECT failed_count > 0 FROM pg_stat_archiver");
    primary.crash();
    let ready = || {
        let entries = fs::read_dir(primary.data().join("pg_wal/archive_status"));
        let names = entries
            .expect("readable")
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".ready"))
            .count()
    };
    assert!(ready() >= 5, "{}", ready());
    fs::rename(&away, site.repository()).expect("renamed");
    primary.start(&[]);
    primary.archive_everything();
    succeed(&mut walzip(&primary, &site, &["verify"]));
    primary.stop();
    let copy = recovered(&site, &[]);
    assert_eq!(rows(&copy), "0 1 2 3 4");
}

/// 023_pitr_prepared_xact: a transaction that was prepared before the target can still be committed.
#[test]
fn a_prepared_transaction_is_there_after_a_restore_to_a_point_behind_it() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "max_prepared_transactions = 4");
    primary.sql("BEGIN; INSERT INTO note VALUES ('prepared'); PREPARE TRANSACTION 'one'");
    primary.sql("SELECT pg_create_restore_point('here')");
    primary.sql("ROLLBACK PREPARED 'one'; INSERT INTO note VALUES ('later')");
    primary.archive_everything();
    primary.stop();
    let copy = recovered(&site, &["--target-name", "here"]);
    assert_eq!(copy.sql("SELECT count(*) FROM note"), "0");
    copy.sql("COMMIT PREPARED 'one'");
    assert_eq!(rows(&copy), "prepared");
}

/// 025_stuck_on_old_timeline: a standby that has the archive alone follows a promotion.
#[test]
fn a_standby_of_the_archive_alone_follows_a_promotion() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "");
    let follower = restored(&site, "follower", &[]);
    let signal = follower.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    // A restore is for one timeline; a standby follows.
    follower.start(&[
        "archive_mode=off",
        "recovery_target_timeline=latest",
        "wal_retrieve_retry_interval=100ms",
    ]);
    primary.sql("INSERT INTO note VALUES ('one')");
    primary.archive_everything();
    primary.stop();

    let next = restored(&site, "next", &["--archive-mode", "preserve"]);
    next.start(&[]);
    next.wait_until("SELECT NOT pg_is_in_recovery()");
    next.sql("INSERT INTO note VALUES ('two')");
    next.archive_everything();
    follower.wait_until("SELECT count(*) = 2 FROM note");
    assert_eq!(rows(&follower), "one two");
    let timeline = "SELECT received_tli FROM pg_stat_wal_receiver";
    assert_eq!(follower.sql(timeline), "", "it has no other source");
    follower.stop();
    next.stop();
}

/// 026_overwrite_contrecord: a crash leaves the first part of a record at the end of a segment, and
/// the server writes over the rest of it.
#[test]
fn a_record_that_a_crash_cut_short_is_replayed_past() {
    let Some(site) = Site::new(15) else { return };
    let primary = backed_up(&site, "checkpoint_timeout = 1h\nautovacuum = off");
    primary.sql("INSERT INTO note VALUES ('before')");
    primary.sql("CHECKPOINT");
    // Up to the last bytes of a segment, and then a record that crosses its end.
    primary.sql(
        "DO $$
         DECLARE place bigint;
         BEGIN
             LOOP
                 place := (pg_current_wal_insert_lsn() - '0/0') % (1024 * 1024);
                 EXIT WHEN place > 1024 * 1024 - 4096 AND place < 1024 * 1024 - 512;
                 PERFORM pg_logical_emit_message(false, 'fill', repeat('x', 256));
             END LOOP;
         END $$",
    );
    let cut = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.sql("SELECT pg_logical_emit_message(true, 'long', repeat('y', 100000))");
    let last = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    assert!(last > cut, "{cut}, {last}");
    primary.crash();
    for entry in fs::read_dir(primary.data().join("pg_wal"))
        .expect("pg_wal")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.len() == 24 && name > cut {
            fs::remove_file(entry.path()).expect("removed");
        }
    }
    primary.start(&[]);
    primary.sql("INSERT INTO note VALUES ('behind')");
    primary.archive_everything();
    succeed(&mut walzip(&primary, &site, &["verify"]));
    primary.stop();
    let copy = recovered(&site, &[]);
    assert_eq!(rows(&copy), "before behind");
    assert!(
        copy.log()
            .contains("successfully skipped missing contrecord"),
        "no record was written over:\n{}",
        copy.log()
    );
}
