//! Tablespaces and databases that are made while a backup begins or runs, and which the replay makes again: what it
//! makes of them has to be what the server has, or there is no backup.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const FILES: &str = "files";
const SERVER: &str = "server";

/// A server of which a spread checkpoint takes long.
fn primary<'s>(site: &'s Site, settings: &[&str]) -> Server<'s> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(settings);
    primary.sql(
        "CREATE TABLE big AS SELECT i, repeat('x', 500) AS b FROM generate_series(1, 20000) i",
    );
    primary
}

fn start_backup(primary: &Server, arguments: &[&str]) -> Child {
    let mut backup = primary.walzip(&["backup", "-v"]);
    backup.args(arguments);
    backup.stdout(Stdio::piped()).stderr(Stdio::piped());
    backup.spawn().expect("walzip starts")
}

/// The data directory has a part of the copy's files, at least; others come later.
fn wait_until_it_copies(primary: &Server, method: &str) {
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
