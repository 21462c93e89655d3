//! Tablespaces and databases that are made while a backup begins or runs, and which the replay makes again: what it
//! makes of them has to be what the server has, or there is no backup.

use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use crate::clusters::server::Server;
use crate::clusters::set_aside::follow;
use crate::clusters::site::{Site, said, succeed};

/// `option-invalid`.
pub const OPTION_INVALID: i32 = 31;

pub const FILES: &str = "files";
pub const SERVER: &str = "server";

/// A server of which a spread checkpoint takes long.
pub fn primary<'s>(site: &'s Site, settings: &[&str]) -> Server<'s> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(settings);
    primary.sql(
        "CREATE TABLE big AS SELECT i, repeat('x', 500) AS b FROM generate_series(1, 20000) i",
    );
    primary
}

pub fn start_backup(primary: &Server, arguments: &[&str]) -> Child {
    let mut backup = primary.walzip(&["backup", "-v"]);
    backup.args(arguments);
    backup.stdout(Stdio::piped()).stderr(Stdio::piped());
    backup.spawn().expect("walzip starts")
}

/// The data directory has a part of the copy's files, at least; others come later.
pub fn wait_until_it_copies(primary: &Server, method: &str) {
    primary.wait_until(match method {
        FILES => {
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'walzip'
             AND state = 'idle' AND query ~ 'pg_tablespace_location'"
        }
        _ => {
            "SELECT count(*) = 1 FROM pg_stat_progress_basebackup
             WHERE phase = 'streaming database files'"
        }
    });
}

#[test]
fn a_tablespace_that_is_made_while_a_backup_begins_is_restored_to_another_place_13() {
    a_tablespace_that_is_made_while_a_backup_begins(13, SERVER);
}

#[test]
fn a_tablespace_that_is_made_while_a_backup_begins_is_restored_to_another_place_15() {
    a_tablespace_that_is_made_while_a_backup_begins(15, FILES);
}

#[test]
fn a_tablespace_that_is_made_while_a_backup_begins_is_restored_to_another_place_18() {
    a_tablespace_that_is_made_while_a_backup_begins(18, SERVER);
}

fn a_tablespace_that_is_made_while_a_backup_begins(major: u32, method: &str) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    let place = site.create_directory("place");
    let mut backup = start_backup(
        &primary,
        &["--checkpoint", "spread", "--copy-method", method],
    );
    primary.wait_until(match method {
        FILES => {
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'walzip'
             AND state = 'active' AND query ~ 'backup_start'"
        }
        _ => {
            "SELECT count(*) = 1 FROM pg_stat_progress_basebackup
             WHERE phase = 'waiting for checkpoint to finish'"
        }
    });
    // The checkpoint has begun, and with it the WAL that the backup needs.
    std::thread::sleep(Duration::from_millis(500));
    primary.sql(&format!(
        "CREATE TABLESPACE place LOCATION '{}'",
        place.display()
    ));
    primary.sql("CREATE TABLE in_place TABLESPACE place AS SELECT generate_series(1, 1000) i");
    while backup.try_wait().expect("asked").is_none() {
        primary.sql("CHECKPOINT");
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = backup.wait_with_output().expect("ended");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("begins once more"), "{told}");
    primary.sql("INSERT INTO in_place SELECT generate_series(1, 1000)");
    primary.archive_everything();
    primary.stop();

    // As on another machine.
    fs::rename(&place, site.path("place.aside")).expect("moved away");
    let restored = Server::on(&site, "restored");
    let elsewhere = site.path("elsewhere");
    let map = format!("place={}", elsewhere.display());
    let mut restore = restored.walzip(&["restore", "-T", &map, "-D"]);
    succeed(restore.arg(restored.data()));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.sql("SELECT count(*) FROM in_place"), "2000");
    let location = "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'place'";
    assert_eq!(restored.sql(location), elsewhere.display().to_string());
    assert!(!place.exists());
}

#[test]
fn what_the_replay_would_copy_otherwise_makes_no_backup_of_13() {
    what_the_replay_would_copy_otherwise_makes_no_backup(13, ["full", FILES]);
}

#[test]
fn what_the_replay_would_copy_otherwise_makes_no_backup_of_15() {
    what_the_replay_would_copy_otherwise_makes_no_backup(15, ["incr", FILES]);
}

#[test]
fn what_the_replay_would_copy_otherwise_makes_no_backup_of_18() {
    what_the_replay_would_copy_otherwise_makes_no_backup(18, ["full", SERVER]);
}

fn what_the_replay_would_copy_otherwise_makes_no_backup(major: u32, way: [&str; 2]) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary_with_templates(&site);
    if way[0] != "full" {
        succeed(&mut primary.walzip(&["backup"]));
    }
    let strategy = if major < 15 { "" } else { "STRATEGY file_copy" };
    let create =
        |new: &str, template: &str| format!("CREATE DATABASE {new} TEMPLATE {template} {strategy}");
    let copied = |new: &str, template: &str| {
        format!("database \"{new}\" was made as a copy of \"{template}\"")
    };
    let moved = |name: &str| format!("database \"{name}\" was moved to another tablespace");
    let write = "\\c written\nUPDATE copied SET b = md5(b) WHERE i % 7 = 0; CHECKPOINT";
    let cases = [
        (
            [create("one", "written"), write.to_owned()],
            copied("one", "written"),
        ),
        (
            [create("two", "dropped"), "DROP DATABASE dropped".to_owned()],
            copied("two", "dropped"),
        ),
        (
            ["place", "pg_default"].map(|to| format!("ALTER DATABASE there SET TABLESPACE {to}")),
            moved("there"),
        ),
        (
            [
                create("new", "kept"),
                "ALTER DATABASE new SET TABLESPACE place".to_owned(),
            ],
            moved("new"),
        ),
    ];
    for (meanwhile, why) in cases {
        let output = back_up_while(&primary, way, &meanwhile);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
        assert!(told.contains(&why), "{told}");
        assert!(told.contains("ake the backup again"), "{told}");
    }

    // What is altered, dropped, copied and left alone, or copied and dropped again, makes a backup.
    let meanwhile = [
        create("three", "kept"),
        "ALTER DATABASE two RENAME TO renamed".to_owned(),
        "DROP DATABASE one".to_owned(),
        create("four", "written"),
        write.to_owned(),
        "DROP DATABASE four".to_owned(),
    ];
    let output = back_up_while(&primary, way, &meanwhile);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("is searched for databases that were copied"),
        "{told}"
    );
    primary.archive_everything();
    let contents = |server: &Server, name: &str| {
        server.sql(&format!("\\c {name}\nSELECT count(*), max(b) FROM copied"))
    };
    let names = ["three", "kept", "written", "renamed"];
    let expected = names.map(|name| contents(&primary, name));
    primary.stop();
    let restored = Server::on(&site, "restored");
    let map = format!("place={}", site.path("elsewhere").display());
    let mut restore = restored.walzip(&["restore", "-T", &map, "-D"]);
    succeed(restore.arg(restored.data()));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(names.map(|name| contents(&restored, name)), expected);
    restored.check_structures();
}

/// A server with databases that are copied, and do not change by themselves.
fn primary_with_templates(site: &Site) -> Server<'_> {
    let primary = primary(site, &["autovacuum=off"]);
    let place = site.create_directory("place");
    primary.sql(&format!(
        "CREATE TABLESPACE place LOCATION '{}'",
        place.display()
    ));
    for name in ["written", "dropped", "there", "kept"] {
        primary.sql(&format!("CREATE DATABASE {name}"));
        primary.sql(&format!(
            "\\c {name}
             CREATE TABLE copied AS SELECT i, md5(i::text) AS b FROM generate_series(1, 3000) i;
             CREATE INDEX copied_b ON copied (b);
             VACUUM (FREEZE, ANALYZE);
             CHECKPOINT;"
        ));
    }
    primary
}

/// A backup during whose copy these commands are run.
fn back_up_while(primary: &Server, [kind, method]: [&str; 2], commands: &[String]) -> Output {
    let rate = ["--max-rate", "6M"];
    let arguments = ["--type", kind, "--copy-method", method, rate[0], rate[1]];
    let backup = start_backup(primary, &arguments);
    wait_until_it_copies(primary, method);
    for command in commands {
        primary.sql(command);
    }
    backup.wait_with_output().expect("ended")
}

#[test]
fn a_copy_that_is_made_meanwhile_is_restored_with_what_it_is_copied_from_13() {
    a_copy_is_restored_with_what_it_is_copied_from(13, FILES);
}

#[test]
fn a_copy_that_is_made_meanwhile_is_restored_with_what_it_is_copied_from_18() {
    a_copy_is_restored_with_what_it_is_copied_from(18, SERVER);
}

fn a_copy_is_restored_with_what_it_is_copied_from(major: u32, method: &str) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["original", "other"]);
    let strategy = if major < 15 { "" } else { "STRATEGY file_copy" };
    let meanwhile = [
        format!("CREATE DATABASE middle TEMPLATE original {strategy}"),
        format!("CREATE DATABASE shop TEMPLATE middle {strategy}"),
    ];
    let output = back_up_while(&primary, ["full", method], &meanwhile);
    assert!(output.status.success(), "{}", said(&output));
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let told = restore_and_drop(&restored, "shop");
    for (copy, source) in [("shop", "middle"), ("middle", "original")] {
        let why = format!("\"{copy}\" was made as a copy of \"{source}\"");
        assert!(told.contains(&why), "{told}");
    }
    assert_eq!(
        databases_of_users(&restored),
        ["middle", "original", "shop"]
    );
    for name in ["shop", "middle"] {
        assert_eq!(whose(&restored, name), "original");
    }
}

#[test]
fn a_database_is_restored_by_the_name_that_it_has_at_the_end_of_the_backup() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["shop", "shop_next", "gone"]);
    let meanwhile = [
        "ALTER DATABASE shop RENAME TO shop_old",
        "ALTER DATABASE shop_next RENAME TO shop",
        "DROP DATABASE gone",
    ];
    let output = back_up_while(&primary, ["full", FILES], &meanwhile.map(str::to_owned));
    assert!(output.status.success(), "{}", said(&output));
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let mut restore = restored.walzip(&["restore", "--database", "gone", "-D"]);
    let output = restore.arg(restored.data()).output().expect("runs");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
    assert!(
        told.contains("it was dropped while the backup ran"),
        "{told}"
    );
    restore_and_drop(&restored, "shop");
    assert_eq!(databases_of_users(&restored), ["shop"]);
    assert_eq!(whose(&restored, "shop"), "shop_next");
}

/// Each has the name that it was made with in a table.
pub fn create_databases<const N: usize>(server: &Server, names: [&str; N]) {
    for name in names {
        server.sql(&format!("CREATE DATABASE {name}"));
        server.sql(&format!(
            "\\c {name}
             CREATE TABLE whose AS SELECT '{name}'::text AS name FROM generate_series(1, 3000);
             VACUUM (FREEZE, ANALYZE);
             CHECKPOINT;"
        ));
    }
}

fn whose(server: &Server, database: &str) -> String {
    let sql = "SELECT name FROM whose GROUP BY name HAVING count(*) = 3000";
    server.sql(&format!("\\c {database}\n{sql}"))
}

fn databases_of_users(server: &Server) -> Vec<String> {
    let sql = "SELECT datname FROM pg_database WHERE oid >= 16384 ORDER BY datname";
    server.sql(sql).lines().map(str::to_owned).collect()
}

/// Restores a database, starts the server, and runs the SQL that the restore has printed. What it has said.
fn restore_and_drop(restored: &Server, database: &str) -> String {
    let mut restore = restored.walzip(&["restore", "--database", database, "-D"]);
    let output = restore.arg(restored.data()).output().expect("runs");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let printed = String::from_utf8(output.stdout).expect("text");
    let sql: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("  "))
        .collect();
    assert!(sql[0].contains("SET datallowconn = false"), "{told}");
    restored.sql(&sql.join("\n"));
    told
}

/// A standby's backup begins with a checkpoint of before, and a tablespace may have been made since.
#[test]
fn a_tablespace_that_a_standby_replays_again_makes_no_backup() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    let standby = Server::on(&site, "standby");
    let mut restore = standby.walzip(&["restore", "--archive-mode", "preserve", "-D"]);
    succeed(restore.arg(standby.data()));
    follow(&site, &standby, &primary);
    standby.start(&[]);
    let place = site.create_directory("place");
    primary.sql(&format!(
        "CREATE TABLESPACE place LOCATION '{}'",
        place.display()
    ));
    standby.wait_until("SELECT count(*) = 1 FROM pg_tablespace WHERE spcname = 'place'");
    let back_up = || {
        let mut backup = start_backup(&standby, &[]);
        while backup.try_wait().expect("asked").is_none() {
            primary.sql("SELECT pg_create_restore_point('more'), pg_switch_wal()");
            std::thread::sleep(Duration::from_millis(200));
        }
        backup.wait_with_output().expect("ended")
    };
    let output = back_up();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
    assert!(told.contains("was made after the checkpoint"), "{told}");

    primary.sql("CHECKPOINT");
    let replayed = primary.sql("SELECT pg_current_wal_lsn()");
    standby.wait_until(&format!("SELECT pg_last_wal_replay_lsn() >= '{replayed}'"));
    let output = back_up();
    assert!(output.status.success(), "{}", said(&output));
}
