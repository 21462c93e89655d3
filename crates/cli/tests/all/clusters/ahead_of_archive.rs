//! `restore --delta` over a cluster that has more than the archive.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::clusters::forks::{objects, promoted};
use crate::clusters::numbers::PRESERVE;
use crate::clusters::server::Server;
use crate::clusters::set_aside::{follow, restore};
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::strays::copy_of;

/// The segment that a server writes.
const CURRENT: &str = "SELECT pg_walfile_name(pg_current_wal_insert_lsn())";

fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("wal_keep_size = '64MB'");
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("INSERT INTO note VALUES ('1-archived')");
    primary.archive_everything();
    primary
}

fn restore_over(site: &Site, server: &Server<'_>, flags: &[&str]) -> Output {
    let mut restore = site.walzip(&["restore", "--delta", "-D"]);
    let restore = restore.arg(server.data()).args(flags);
    restore.output().expect("walzip runs")
}

/// Removes the objects of a segment and of those after it.
fn lose_from(directory: &Path, first: &str) -> usize {
    let mut lost = 0;
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name").to_owned();
        if path.is_dir() {
            lost += lose_from(&path, first);
        } else if name.len() == first.len() + ".wz".len() && *first <= *name {
            fs::remove_file(path).expect("removed");
            lost += 1;
        }
    }
    lost
}

/// The server has noted them as archived, and would not push them again.
#[test]
fn wal_that_the_archive_has_lost_is_not_removed_with_the_directory() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let first = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    primary.sql("INSERT INTO note VALUES ('2-lost')");
    primary.archive_everything();
    primary.stop();
    assert!(lose_from(&site.repository().join("wal"), &first) > 0);
    let refused = restore_over(&site, &primary, &[]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&first), "{}", said(&refused));
    let segment = primary.data().join("pg_wal").join(&first);
    succeed(primary.walzip(&["archive-push"]).arg(segment));
    let restored = restore_over(&site, &primary, &[]);
    assert!(restored.status.success(), "{}", said(&restored));
    primary.start(&[]);
    primary.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(primary.sql("SELECT count(*) FROM note"), "2");
}

/// Nobody archived for a while, and what was written then is nowhere any more.
#[test]
fn a_directory_that_has_come_further_than_the_archive_is_kept() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.stop();
    primary.start(&[
        "archive_mode=off",
        "wal_keep_size=0",
        "min_wal_size=2MB",
        "max_wal_size=2MB",
    ]);
    for _ in 0..8 {
        primary
            .sql("INSERT INTO note VALUES ('2-not archived'); SELECT pg_switch_wal(); CHECKPOINT");
    }
    primary.stop();
    let refused = restore_over(&site, &primary, &[]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains("has come to"), "{}", said(&refused));
    let restored = restore_over(&site, &primary, &["--force"]);
    assert!(restored.status.success(), "{}", said(&restored));
}

/// A copy took the number of production's timeline, and was set aside: its segments have the names of production's.
#[test]
fn what_is_set_aside_under_a_name_is_no_copy_of_what_another_server_has() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let copy = promoted(&site, "copy", &PRESERVE);
    for number in 0..5 {
        copy.sql(&format!("INSERT INTO note VALUES ('copy-{number}')"));
        copy.archive_everything();
    }
    copy.stop();
    succeed(&mut site.walzip(&["timeline", "set-aside", "2", "--confirm"]));
    let restored = restore_over(&site, &copy, &[]);
    assert!(restored.status.success(), "{}", said(&restored));

    primary.sql("INSERT INTO note VALUES ('2-archived')");
    primary.archive_everything();
    primary.stop();
    let production = promoted(&site, "production", &PRESERVE);
    production.sql("INSERT INTO note VALUES ('3-archived')");
    production.archive_everything();
    let last = production.sql(CURRENT);
    production.sql("INSERT INTO note VALUES ('4-not archived')");
    production.crash();
    let aside = site.repository().join("aside");
    assert!(has_object(&aside, &last), "{last} is not set aside");
    let refused = restore_over(&site, &production, &[]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&last), "{}", said(&refused));
}

fn has_object(directory: &Path, name: &str) -> bool {
    fs::read_dir(directory).expect("readable").any(|entry| {
        let path = entry.expect("an entry").path();
        let is_it = path
            .file_name()
            .is_some_and(|of| *of == *format!("{name}.wz"));
        is_it || path.is_dir() && has_object(&path, name)
    })
}

/// Both were on the same timeline, and nobody has noted anything of the segment that production was writing.
#[test]
fn what_a_clone_archived_under_a_name_is_no_copy_of_what_production_wrote() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.stop();
    let clone = copy_of(&site, &primary);
    clone.start(&[]);
    clone.sql("INSERT INTO note VALUES ('2-clone')");
    clone.archive_everything();
    clone.stop();
    primary.start(&[]);
    let current = primary.sql(CURRENT);
    primary.sql("INSERT INTO note VALUES ('2-production')");
    primary.crash();
    let refused = restore_over(&site, &primary, &[]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&current), "{}", said(&refused));

    let set_aside = ["timeline", "set-aside", "1", "--from", &current];
    succeed(site.walzip(&set_aside).arg("--confirm"));
    let segment = primary.data().join("pg_wal").join(&current);
    succeed(primary.walzip(&["archive-push"]).arg(segment));
    let restored = restore_over(&site, &primary, &[]);
    assert!(restored.status.success(), "{}", said(&restored));
    primary.start(&[]);
    primary.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = primary.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note");
    assert_eq!(rows, "1-archived 2-production");
}

#[test]
fn what_a_standby_has_of_a_segment_that_is_archived_whole_is_not_lost() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let standby = restore(&site, "standby", &PRESERVE);
    follow(&site, &standby, &primary);
    standby.start(&[]);
    let current = primary.sql(CURRENT);
    primary.sql("INSERT INTO note VALUES ('2-streamed')");
    standby.wait_until("SELECT count(*) = 2 FROM note");
    standby.crash();
    primary.sql("INSERT INTO note VALUES ('3-archived')");
    primary.archive_everything();
    primary.stop();
    assert!(standby.data().join("pg_wal").join(&current).is_file());
    let restored = restore_over(&site, &standby, &[]);
    assert!(restored.status.success(), "{}", said(&restored));
}

/// A primary with two backups, and the name of a segment between them.
fn with_two_backups(site: &Site) -> (Server<'_>, String) {
    let primary = primary(site);
    let between = primary.sql(CURRENT);
    for number in 0..3 {
        primary.sql(&format!("INSERT INTO note VALUES ('between-{number}')"));
        primary.archive_everything();
    }
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();
    (primary, between)
}

/// The archive has lost it, or an archive_command has lied. A newer backup is restored without it, an older one is not.
#[test]
fn a_segment_that_fills_a_hole_after_a_backup_is_not_removed_with_the_directory() {
    let Some(site) = Site::new(15) else { return };
    let (primary, hole) = with_two_backups(&site);
    primary.stop();
    for object in objects(&site, &hole) {
        fs::remove_file(object).expect("removed");
    }
    let refused = restore_over(&site, &primary, &[]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&hole), "{}", said(&refused));
    let segment = primary.data().join("pg_wal").join(&hole);
    succeed(primary.walzip(&["archive-push"]).arg(segment));
    let restored = restore_over(&site, &primary, &[]);
    assert!(restored.status.success(), "{}", said(&restored));
}

#[test]
fn a_segment_that_expired_behind_a_pinned_backup_is_removed_with_the_directory() {
    let Some(site) = Site::new(15) else { return };
    let (primary, expired) = with_two_backups(&site);
    primary.stop();
    pin_first(&site);
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    succeed(&mut site.walzip(&expire));
    assert!(objects(&site, &expired).is_empty(), "{expired} is there");
    assert!(primary.data().join("pg_wal").join(&expired).is_file());
    let restored = restore_over(&site, &primary, &[]);
    assert!(restored.status.success(), "{}", said(&restored));
}

/// A standby that streams, and has its primary's rows.
fn streaming<'a>(site: &'a Site, primary: &Server<'_>) -> Server<'a> {
    let standby = restore(site, "standby", &PRESERVE);
    follow(site, &standby, primary);
    standby.start(&[]);
    standby
}

fn promote(standby: &Server) {
    standby.sql("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    standby.sql("INSERT INTO note VALUES ('promoted')");
    standby.archive_everything();
}

/// A backup of the new primary is the only one that an expiry leaves, and what was pinned.
fn expire_older(site: &Site, production: &Server) {
    succeed(&mut production.walzip(&["backup"]));
    production.sql("INSERT INTO note VALUES ('after the backup')");
    production.archive_everything();
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    succeed(&mut site.walzip(&expire));
}

/// Whether a segment of timeline 1 is archived.
fn has_first_timeline(site: &Site) -> bool {
    let objects = objects(site, "0000000100000000");
    let mut names = objects.iter().filter_map(|path| path.file_name());
    names.any(|name| name.len() == "000000010000000000000001.wz".len())
}

fn pin_first(site: &Site) {
    let info = succeed(&mut site.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let first = info["backups"][0]["label"].as_str().expect("a label");
    succeed(&mut site.walzip(&["pin", first]));
}

/// The old primary went on for a moment. Nothing of its timeline is in the archive any more.
#[test]
fn what_an_old_primary_wrote_after_a_promotion_has_not_expired() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let standby = streaming(&site, &primary);
    primary.sql("INSERT INTO note VALUES ('2-common')");
    standby.wait_until("SELECT count(*) = 2 FROM note");
    standby.sql("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    let current = primary.sql(CURRENT);
    primary.sql("INSERT INTO note VALUES ('3-lost')");
    primary.crash();
    standby.sql("INSERT INTO note VALUES ('promoted')");
    standby.archive_everything();
    expire_older(&site, &standby);
    assert!(!has_first_timeline(&site));
    let refused = restore_over(&site, &primary, &["--standby"]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&current), "{}", said(&refused));
    assert!(primary.data().join("pg_wal").join(&current).is_file());
}

/// It crashed, and the new primary has all that it committed.
#[test]
fn an_old_primary_that_wrote_nothing_after_a_promotion_is_restored_over_after_an_expiry() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let standby = streaming(&site, &primary);
    primary.sql("INSERT INTO note VALUES ('2-common')");
    standby.wait_until("SELECT count(*) = 2 FROM note");
    primary.crash();
    promote(&standby);
    expire_older(&site, &standby);
    assert!(!has_first_timeline(&site));
    let restored = restore_over(&site, &primary, &["--standby"]);
    assert!(restored.status.success(), "{}", said(&restored));
}

/// The new primary came to the end of what was archived. The next segment is the old primary's own.
#[test]
fn a_segment_that_begins_where_a_timeline_was_left_has_not_expired() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let successor = promoted(&site, "successor", &PRESERVE);
    let own = primary.sql(CURRENT);
    primary.sql("INSERT INTO note VALUES ('2-lost')");
    primary.crash();
    successor.sql("INSERT INTO note VALUES ('3-production')");
    successor.archive_everything();
    expire_older(&site, &successor);
    assert!(!has_first_timeline(&site));
    let refused = restore_over(&site, &primary, &["--standby"]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&own), "{}", said(&refused));
}

/// Production has gone on in the same segment, and was left in it later: what it had is in the new primary's copy.
#[test]
fn what_a_clone_wrote_before_a_fork_is_not_in_the_new_primarys_copy() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let standby = streaming(&site, &primary);
    primary.stop();
    let clone = copy_of(&site, &primary);
    clone.start(&["archive_mode=off"]);
    let current = clone.sql(CURRENT);
    clone.sql("INSERT INTO note VALUES ('2-clone')");
    clone.crash();
    primary.start(&[]);
    primary.sql("INSERT INTO note SELECT '2-production' FROM generate_series(1, 1000)");
    assert_eq!(primary.sql(CURRENT), current);
    standby.wait_until("SELECT count(*) = 1001 FROM note");
    primary.crash();
    promote(&standby);
    let copy = format!("00000002{}", &current[8..]);
    assert!(!objects(&site, &copy).is_empty(), "{copy} is not archived");
    let refused = restore_over(&site, &clone, &["--standby"]);
    assert_eq!(refused.status.code(), Some(113), "{}", said(&refused));
    assert!(said(&refused).contains(&current), "{}", said(&refused));
    // What the old primary has is in that copy.
    let restored = restore_over(&site, &primary, &["--standby"]);
    assert!(restored.status.success(), "{}", said(&restored));
}

/// A pinned backup of its timeline has stayed, and what followed that was archived and has expired.
#[test]
fn an_old_primary_that_was_shut_down_is_restored_over_where_an_older_backup_is_pinned() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    pin_first(&site);
    let standby = streaming(&site, &primary);
    let expired = primary.sql(CURRENT);
    for number in 0..3 {
        primary.sql(&format!("INSERT INTO note VALUES ('between-{number}')"));
        primary.archive_everything();
    }
    standby.wait_until("SELECT count(*) = 4 FROM note");
    primary.stop();
    promote(&standby);
    expire_older(&site, &standby);
    assert!(objects(&site, &expired).is_empty(), "{expired} is there");
    assert!(has_first_timeline(&site));
    assert!(primary.data().join("pg_wal").join(&expired).is_file());
    let restored = restore_over(&site, &primary, &["--standby"]);
    assert!(restored.status.success(), "{}", said(&restored));
}
