//! Servers that archive where they should not: a copy with the system identifier of production, and
//! the old primary after a failover.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::clusters::server::Server;
use crate::clusters::set_aside::{follow, restore};
use crate::clusters::site::{Site, said, succeed};

const ROWS: &str = "SELECT string_agg(body, ' ' ORDER BY body) FROM note";

fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text); INSERT INTO note VALUES ('1-common')");
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();
    primary
}

/// A copy of a server that is stopped, with its system identifier.
pub fn copy_of<'a>(site: &'a Site, server: &Server<'_>) -> Server<'a> {
    let copy = Server::on(site, "copy");
    let mut command = Command::new("cp");
    succeed(command.arg("-a").args([server.data(), copy.data()]));
    copy
}

/// What a restored server has.
fn restored_rows(site: &Site) -> String {
    let restored = Server::on(site, "restored");
    let mut command = restored.walzip(&["restore", "-D"]);
    succeed(command.arg(restored.data()));
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = restored.sql(ROWS);
    restored.stop();
    fs::remove_dir_all(restored.data()).expect("removed");
    rows
}

#[test]
fn a_copy_that_has_archived_first_is_found_and_put_away() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.stop();
    let copy = copy_of(&site, &primary);
    primary.start(&[]);
    copy.start(&[]);
    for number in 0..6 {
        copy.sql(&format!("INSERT INTO note VALUES ('copy-{number}')"));
        copy.archive_everything();
    }
    primary.sql("INSERT INTO note VALUES ('2-production'); SELECT pg_switch_wal()");
    primary.wait_until("SELECT last_failed_wal IS NOT NULL FROM pg_stat_archiver");
    let first = primary.sql("SELECT last_failed_wal FROM pg_stat_archiver");

    // A segment of the name is there, and is the copy's.
    for command in [&["check", "--archive-timeout", "20"][..], &["backup"]] {
        let output = primary.walzip(command).output().expect("walzip runs");
        assert_eq!(output.status.code(), Some(45), "{}", said(&output));
        let told = said(&output);
        assert!(told.contains("is not what this server wrote"), "{told}");
    }
    let info = succeed(&mut primary.walzip(&["info"]));
    assert_eq!(info.matches("unfinished:").count(), 1, "{info}");
    // Nobody but the copy has made a backup lately.
    let file = site.path("expire.toml");
    fs::write(&file, format!("pgdata = {:?}\n", primary.data())).expect("written");
    let mut expire = site.walzip(&["expire", "--retention-full", "1", "--config"]);
    let output = expire.arg(&file).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(45), "{}", said(&output));
    assert!(said(&output).contains("nothing is expired as long as"));

    copy.stop();
    let set_aside = ["timeline", "set-aside", "1", "--from", first.as_str()];
    let told = succeed(&mut site.walzip(&set_aside));
    assert!(told.contains("nothing was done"), "{told}");
    succeed(site.walzip(&set_aside).arg("--confirm"));
    primary.archive_everything();
    // What has the names now is production's.
    let refused = site.walzip(&set_aside).arg("--confirm").output();
    let refused = refused.expect("walzip runs");
    assert_eq!(refused.status.code(), Some(31), "{}", said(&refused));
    assert!(said(&refused).contains("was set aside before, as 00000001"));
    succeed(&mut primary.walzip(&["check"]));
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("INSERT INTO note VALUES ('3-production')");
    primary.archive_everything();
    succeed(&mut primary.walzip(&["verify"]));
    assert_eq!(restored_rows(&site), "1-common 2-production 3-production");
    let put_back = ["timeline", "put-back", "1", "--confirm"];
    let refused = site.walzip(&put_back).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(45), "{}", said(&refused));

    // A backup now needs it.
    let refused = site.walzip(&set_aside).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(31), "{}", said(&refused));
    assert!(said(&refused).contains("need the WAL of timeline 1 from"));
}

/// All that is left may be the copy's, whose WAL cannot be set aside as long as its backup is there.
#[test]
fn the_last_backup_goes_only_by_force() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let info = succeed(&mut primary.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let label = info["backups"][0]["label"].as_str().expect("a backup");
    let expire = ["expire", "--set", label, "--confirm"];
    let refused = site.walzip(&expire).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(75), "{}", said(&refused));
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    succeed(site.walzip(&expire).arg("--force"));
}

/// Nothing of the copy's has the names of what the primary has archived.
#[test]
fn a_copy_that_goes_on_where_the_primary_has_ended_is_refused() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.sql("SELECT pg_switch_wal()");
    primary.archive_everything();
    let parted = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.stop();
    let copy = copy_of(&site, &primary);
    primary.start(&[]);
    copy.start(&["archive_command=true"]);
    for number in 0..3 {
        primary.sql(&format!("INSERT INTO note VALUES ('first-{number}')"));
        primary.archive_everything();
    }
    let last = primary.sql("SELECT last_archived_wal FROM pg_stat_archiver");
    primary.crash();
    let mut current = parted;
    while current < last {
        copy.sql("SELECT txid_current(); SELECT pg_switch_wal()");
        current = copy.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    }
    copy.sql("INSERT INTO note VALUES ('2-other')");
    // It ends its segment.
    copy.stop();
    copy.start(&[]);
    copy.sql("INSERT INTO note VALUES ('3-other'); SELECT pg_switch_wal()");
    copy.wait_until("SELECT last_failed_wal IS NOT NULL FROM pg_stat_archiver");
    let log = copy.log();
    assert!(log.contains(&format!("does not continue {last}")), "{log}");

    // The copy is the one to keep.
    let set_aside = ["timeline", "set-aside", "1", "--from", &last, "--confirm"];
    succeed(&mut site.walzip(&set_aside));
    copy.wait_until("SELECT last_archived_time > last_failed_time FROM pg_stat_archiver");
    succeed(&mut copy.walzip(&["backup"]));
    copy.archive_everything();
    assert_eq!(restored_rows(&site), "1-common 2-other 3-other");
}

/// A standby writes no WAL by which its own could be told.
#[test]
fn a_standby_is_not_backed_up_with_the_wal_of_a_copy() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let standby = restore(&site, "standby", &["--archive-mode", "preserve"]);
    follow(&site, &standby, &primary);
    standby.start(&[]);
    primary.stop();
    let copy = copy_of(&site, &primary);
    copy.start(&[]);
    for number in 0..8 {
        copy.sql(&format!("INSERT INTO note VALUES ('copy-{number}')"));
        copy.archive_everything();
    }
    copy.stop();
    primary.start(&[]);
    standby.sql("CHECKPOINT");
    for number in 0..3 {
        primary.sql(&format!(
            "INSERT INTO note VALUES ('production-{number}'); SELECT pg_switch_wal()"
        ));
    }
    primary.sql("INSERT INTO note VALUES ('production-last')");
    standby.wait_until("SELECT count(*) = 1 FROM note WHERE body = 'production-last'");
    let output = standby
        .walzip(&["backup", "--archive-timeout", "20"])
        .output();
    let output = output.expect("walzip runs");
    assert_eq!(output.status.code(), Some(45), "{}", said(&output));
    let told = said(&output);
    assert!(told.contains("that this standby replayed last"), "{told}");
    let info = succeed(&mut primary.walzip(&["info"]));
    assert_eq!(info.matches("F  full  ").count(), 1, "{info}");
}

#[test]
fn what_the_old_primary_archives_after_a_failover_is_put_away_by_the_hint() {
    let Some(site) = Site::new(15) else { return };
    let old = primary(&site);
    // WAL says to the second when a timeline was born.
    std::thread::sleep(Duration::from_millis(1100));
    let new = Server::on(&site, "new");
    let mut command = new.walzip(&["restore", "--archive-mode", "preserve", "-D"]);
    succeed(command.arg(new.data()));
    new.start(&[]);
    new.wait_until("SELECT NOT pg_is_in_recovery()");
    new.sql("INSERT INTO note VALUES ('2-production')");
    new.archive_everything();
    std::thread::sleep(Duration::from_millis(1100));
    for number in 0..3 {
        old.sql(&format!("INSERT INTO note VALUES ('old-{number}')"));
        old.archive_everything();
    }
    old.stop();
    new.sql("INSERT INTO note VALUES ('3-production')");
    new.archive_everything();

    let restored = Server::on(&site, "refused");
    let mut command = restored.walzip(&["restore", "-D"]);
    let refused = command.arg(restored.data()).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(110), "{}", said(&refused));
    let told = said(&refused);
    let check = new.walzip(&["check"]).output().expect("walzip runs");
    assert_eq!(check.status.code(), Some(104), "{}", said(&check));
    let of_check = said(&check);
    assert!(
        of_check.contains("\"walzip timeline set-aside 1 --from "),
        "{of_check}"
    );
    let from = told.split("timeline set-aside 1 --from ").nth(1);
    let from = from
        .and_then(|rest| rest.split('"').next())
        .expect("a way out");
    let set_aside = ["timeline", "set-aside", "1", "--from", from, "--confirm"];
    succeed(&mut site.walzip(&set_aside));
    succeed(&mut new.walzip(&["check"]));
    assert_eq!(restored_rows(&site), "1-common 2-production 3-production");

    let put_back = ["timeline", "put-back", "1", "--confirm"];
    succeed(&mut site.walzip(&put_back));
    let mut command = restored.walzip(&["restore", "-D"]);
    let refused = command.arg(restored.data()).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(110), "{}", said(&refused));
}

/// A user who may not create restore points finds the WAL of an abandoned state at the same positions.
#[test]
fn a_server_that_was_set_back_is_not_backed_up_with_the_wal_of_before() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("autovacuum = off");
    primary.start(&[]);
    primary.sql(
        "CREATE TABLE note (body text); INSERT INTO note VALUES ('1-common');
         CREATE ROLE limited LOGIN REPLICATION;
         GRANT pg_read_all_settings TO limited;
         GRANT EXECUTE ON FUNCTION pg_backup_start, pg_backup_stop TO limited;",
    );
    let backup = || {
        let mut backup = primary.walzip(&["backup", "--archive-timeout", "20"]);
        backup.env("WALZIP_USER", "limited");
        backup
    };
    primary.archive_everything();
    primary.stop();
    let copy = copy_of(&site, &primary);
    let write = |what: &str| {
        primary.sql(&format!(
            "INSERT INTO note VALUES ('2-{what}'); CHECKPOINT; SELECT pg_switch_wal();"
        ));
    };
    primary.start(&[]);
    write("before");
    succeed(&mut backup());
    primary.archive_everything();
    // The time of a checkpoint has whole seconds.
    primary.sql("SELECT pg_sleep(1.1)");
    primary.stop();

    fs::remove_dir_all(primary.data()).expect("removed");
    let mut command = Command::new("cp");
    succeed(command.arg("-a").args([copy.data(), primary.data()]));
    primary.start(&["archive_command=true"]);
    write("beyond");
    let output = backup().output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(45), "{}", said(&output));
}
