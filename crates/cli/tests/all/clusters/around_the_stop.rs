//! What happens to databases while a backup ends: the WAL up to its stop is what counts, and not what the server lists
//! a moment later.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::clusters::made_meanwhile::{
    FILES, OPTION_INVALID, SERVER, create_databases, primary, start_backup, wait_until_it_copies,
};
use crate::clusters::server::Server;
use crate::clusters::set_aside::follow;
use crate::clusters::site::{Site, said, succeed};

const SLOWLY: [&str; 2] = ["--max-rate", "6M"];

/// A process that does nothing until this goes.
struct Paused(Pid);

impl Paused {
    fn checkpointer(server: &Server) -> Paused {
        let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
        let pid = server.sql(sql).parse().expect("a number");
        let pid = Pid::from_raw(pid).expect("a process");
        kill_process(pid, Signal::STOP).expect("it runs");
        Paused(pid)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

pub fn start_sql(server: &Server, sql: &str) -> Child {
    let mut psql = server.client("psql");
    psql.args([
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        "postgres",
        "-c",
        sql,
    ]);
    psql.stdout(Stdio::piped()).stderr(Stdio::piped());
    psql.spawn().expect("psql starts")
}

fn strategy(major: u32) -> &'static str {
    if major < 15 { "" } else { "STRATEGY file_copy" }
}

pub fn restore_of(server: &Server, database: &str) -> Output {
    let mut restore = server.walzip(&["restore", "--database", database, "-D"]);
    restore.arg(server.data()).output().expect("runs")
}

#[test]
fn a_copy_whose_template_is_being_dropped_at_the_end_makes_no_backup_13() {
    a_copy_whose_template_is_being_dropped_at_the_end(13, FILES);
}

#[test]
fn a_copy_whose_template_is_being_dropped_at_the_end_makes_no_backup_18() {
    a_copy_whose_template_is_being_dropped_at_the_end(18, SERVER);
}

/// The record of a drop comes after it has removed all files. It waits for a checkpoint here, before the first.
fn a_copy_whose_template_is_being_dropped_at_the_end(major: u32, method: &str) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["tpl"]);
    let backup = start_backup(&primary, &["--copy-method", method, SLOWLY[0], SLOWLY[1]]);
    wait_until_it_copies(&primary, method);
    let strategy = strategy(major);
    primary.sql(&format!("CREATE DATABASE dn TEMPLATE tpl {strategy}"));
    let paused = Paused::checkpointer(&primary);
    let mut drop_database = start_sql(&primary, "DROP DATABASE tpl");
    primary.wait_until(
        "SELECT count(*) = 1 FROM pg_stat_activity
         WHERE query ~ '^DROP DATABASE' AND wait_event ~ '^Checkpoint'",
    );
    let output = backup.wait_with_output().expect("ended");
    drop(paused);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
    let why = "database \"dn\" was made as a copy of \"tpl\"";
    assert!(told.contains(why), "{told}");
    assert!(drop_database.wait().expect("ended").success());
    primary.stop();
}

/// The list of after waits until the new name is there, though the backup has ended before. It might have had a third
/// name at the end.
#[test]
fn a_database_that_is_renamed_after_the_end_is_named_by_its_oid() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["shop"]);
    let oid = oid_of(&primary, "shop");
    let backup = start_backup(&primary, &["--copy-method", FILES, SLOWLY[0], SLOWLY[1]]);
    wait_until_it_copies(&primary, FILES);
    // Nobody can connect as long as the lock is held: it has seen that archiving works.
    primary
        .wait_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'walzip'");
    primary.sql(
        "BEGIN;
         LOCK TABLE pg_database IN ACCESS EXCLUSIVE MODE;
         DO $$ BEGIN LOOP
           PERFORM pg_stat_clear_snapshot();
           EXIT WHEN EXISTS (
             SELECT FROM pg_stat_get_activity(NULL) a JOIN pg_locks l ON l.pid = a.pid
             WHERE NOT l.granted AND a.application_name = 'walzip' AND a.query ~ 'dattablespace, xmin');
           PERFORM pg_sleep(0.05);
         END LOOP; END $$;
         ALTER DATABASE shop RENAME TO later;
         COMMIT;",
    );
    let output = backup.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    assert_named_by_oids(&restored, &["later", "shop"], &[&oid]);
    let output = restore_of(&restored, &format!("oid:{oid}"));
    assert!(output.status.success(), "{}", said(&output));
}

/// Each of the names is refused, with the OIDs of the databases that may have it.
pub fn assert_named_by_oids(restored: &Server, names: &[&str], oids: &[&str]) {
    for name in names {
        let output = restore_of(restored, name);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
        assert!(told.contains("by its OID"), "{told}");
        for oid in oids {
            assert!(told.contains(&format!("oid:{oid}")), "{told}");
        }
    }
}

/// Two databases get each other's names.
pub const SWAP: &str = "ALTER DATABASE shop RENAME TO swapped;
    ALTER DATABASE next RENAME TO shop;
    ALTER DATABASE swapped RENAME TO next";

pub fn oid_of(server: &Server, database: &str) -> String {
    server.sql(&format!(
        "SELECT oid FROM pg_database WHERE datname = '{database}'"
    ))
}

#[test]
fn a_prepared_transaction_that_is_committed_meanwhile_gives_names_13() {
    a_prepared_transaction_gives_names(13);
}

#[test]
fn a_prepared_transaction_that_is_committed_meanwhile_gives_names_18() {
    a_prepared_transaction_gives_names(18);
}

fn a_prepared_transaction_gives_names(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off", "max_prepared_transactions=5"]);
    create_databases(&primary, ["shop", "next"]);
    let was_shop = oid_of(&primary, "shop");
    let backup = start_backup(&primary, &["--copy-method", FILES, SLOWLY[0], SLOWLY[1]]);
    wait_until_it_copies(&primary, FILES);
    primary.sql(&format!("BEGIN; {SWAP}; PREPARE TRANSACTION 'swap'"));
    primary.sql("COMMIT PREPARED 'swap'");
    let output = backup.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    primary.archive_everything();
    primary.stop();

    let output = restore_of(&Server::on(&site, "restored"), "shop");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(&format!("oid IN ({was_shop})")), "{told}");
}

/// Of each database that a backup names it knows what it is a copy of, whatever is made when it ends.
#[test]
fn what_is_made_after_the_end_is_not_in_the_backup() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["shop"]);
    let mut backup = start_backup(&primary, &["--copy-method", FILES]);
    let mut number = 0;
    while backup.try_wait().expect("asked").is_none() {
        number += 1;
        let strategy = strategy(15);
        primary.sql(&format!(
            "CREATE DATABASE made{number} TEMPLATE shop {strategy}"
        ));
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = backup.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let told = said(&restore_of(&restored, "unknown"));
    let names = told.split_once("It has ").expect("names").1;
    let names = names.split(". ").next().expect("a list").split(", ");
    let made = names.filter(|name| name.starts_with("made")).last();
    // Where none was made in time, there is nothing to see.
    if let Some(last) = made {
        let told = said(&restore_of(&restored, last));
        let why = format!("\"{last}\" was made as a copy of \"shop\"");
        assert!(told.contains(&why), "{told}");
    }
}

#[test]
fn a_drop_that_a_standby_of_13_is_replaying_at_the_end_makes_no_backup() {
    a_drop_that_a_standby_is_replaying_at_the_end(13);
}

#[test]
fn a_drop_that_a_standby_of_15_is_replaying_at_the_end_makes_no_backup() {
    a_drop_that_a_standby_is_replaying_at_the_end(15);
}

/// The commit of a drop moves the position up to which a standby's files need the WAL, and with it the end of the
/// backup. It is delayed here: the files are gone then, and the WAL up to the end does not tell.
fn a_drop_that_a_standby_is_replaying_at_the_end(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    succeed(&mut primary.walzip(&["backup"]));
    let standby = Server::on(&site, "standby");
    let mut restore = standby.walzip(&["restore", "--archive-mode", "preserve", "-D"]);
    succeed(restore.arg(standby.data()));
    follow(&site, &standby, &primary);
    // Nothing else that the standby writes moves it.
    standby.start(&["bgwriter_lru_maxpages=0", "checkpoint_timeout=1h"]);
    create_databases(&primary, ["victim"]);
    let replayed = primary.sql("SELECT pg_current_wal_lsn()");
    standby.wait_until(&format!("SELECT pg_last_wal_replay_lsn() >= '{replayed}'"));
    let oid = oid_of(&primary, "victim");

    let mut backup = start_backup(&standby, &SLOWLY);
    wait_until_it_copies(&standby, SERVER);
    standby.sql("ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
    standby.sql("SELECT pg_reload_conf()");
    std::thread::sleep(Duration::from_millis(500));
    primary.sql("DROP DATABASE victim");
    let directory = standby.data().join("base").join(oid);
    while directory.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(backup.try_wait().expect("asked").is_none(), "it has ended");
    while backup.try_wait().expect("asked").is_none() {
        primary.sql("SELECT pg_create_restore_point('more'), pg_switch_wal()");
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = backup.wait_with_output().expect("ended");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
    assert!(told.contains("\"victim\" was being dropped"), "{told}");
}
