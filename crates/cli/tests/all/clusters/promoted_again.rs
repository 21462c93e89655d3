//! Copies that were promoted more than once, with numbers that production takes as well. What descends from what, the
//! numbers alone do not say.

use std::fs;
use std::time::Duration;

use crate::clusters::branches::{primary, restore, restored_rows};
use crate::clusters::forks::{objects, promoted, write};
use crate::clusters::numbers::{PRESERVE, refused};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const MAJOR: u32 = 15;

/// A server goes on with the next timeline.
pub(super) fn promote_again(site: &Site, server: &Server) {
    server.sql("ALTER SYSTEM SET recovery_target_timeline = 'latest'");
    server.stop();
    let signal = server.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    server.start(&[]);
    server.sql("SELECT pg_promote()");
    server.wait_until("SELECT NOT pg_is_in_recovery()");
}

fn wait_for(site: &Site, name: &str) {
    while objects(site, name).is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the expiry of all but one full backup says.
fn expired(site: &Site) -> String {
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let output = site.walzip(&expire).output().expect("walzip runs");
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Production goes on, and its newest commits are not archived yet.
#[test]
fn a_copy_that_is_promoted_twice_is_still_beside_production() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &PRESERVE);
    write(&copy, "2-copy");
    copy.archive_everything();
    write(&primary, "3-production");
    primary.archive_everything();
    refused(&site, &[]);
    // The only backup ended before they parted: its end is on both.
    assert_eq!(restored_rows(&site, &["--target-immediate"]), "");
    promote_again(&site, &copy);
    write(&copy, "4-copy");
    copy.archive_everything();
    write(&primary, "5-production");
    let told = refused(&site, &[]);
    assert!(told.contains("timeline 1 went on after"), "{told}");
    for _ in 0..2 {
        succeed(&mut copy.walzip(&["backup"]));
    }
    let told = expired(&site);
    assert!(
        told.contains("keep        0.8  retention-full, of timeline 1"),
        "{told}"
    );
    let info = succeed(&mut copy.walzip(&["info"]));
    assert!(info.contains("timelines 1 and 3 went on"), "{info}");
    primary.archive_everything();
    assert_eq!(
        restored_rows(&site, &["--target-timeline", "1"]),
        "1-common 3-production 5-production"
    );
}

/// What is left of its timeline 2 would be archived, too.
pub(super) fn archive_from_now_on(copy: &Server) {
    copy.sql("ALTER SYSTEM SET archive_mode = on");
    copy.stop();
    for entry in fs::read_dir(copy.data().join("pg_wal")).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("00000002")) {
            fs::remove_file(path).expect("removed");
        }
    }
    copy.start(&[]);
}

/// A copy that did not archive, was promoted, and archives since it was promoted once more; and then production takes the
/// number that the copy has left.
fn with_one_number_twice<'a>(site: &'a Site) -> (Server<'a>, Server<'a>) {
    let primary = primary(site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(site, "copy", &[]);
    write(&copy, "2-copy");
    promote_again(site, &copy);
    archive_from_now_on(&copy);
    write(&copy, "3-copy");
    copy.archive_everything();
    write(&primary, "4-production");
    primary.archive_everything();
    promote_again(site, &primary);
    wait_for(site, "00000002.history");
    write(&primary, "5-production");
    (primary, copy)
}

#[test]
fn a_timeline_is_no_ancestor_by_its_number() {
    let Some(site) = Site::new(MAJOR) else { return };
    let (production, copy) = with_one_number_twice(&site);
    let told = refused(&site, &[]);
    assert!(told.contains("--target-timeline 2"), "{told}");
    assert!(!told.contains("goes with it"), "{told}");
    for _ in 0..2 {
        succeed(&mut copy.walzip(&["backup"]));
    }
    refused(&site, &["--target-immediate"]);
    let told = expired(&site);
    assert!(told.contains("retention-full, of timeline 2"), "{told}");
    production.archive_everything();
    refused(&site, &[]);
    let all = "1-common 4-production 5-production";
    assert_eq!(restored_rows(&site, &["--target-timeline", "2"]), all);
    copy.stop();
    let aside = ["timeline", "set-aside", "3", "--confirm"];
    let aside = site.walzip(&aside).output().expect("runs");
    // Its backups go before.
    assert_eq!(aside.status.code(), Some(31), "{}", said(&aside));
    assert_eq!(objects(&site, "00000002.history").len(), 1);
}

/// A later history tells what is lost; but it may be that of another server.
#[test]
fn a_lost_history_is_made_of_what_descends_from_it_and_keeps_all() {
    let Some(site) = Site::new(MAJOR) else { return };
    let (production, copy) = with_one_number_twice(&site);
    production.archive_everything();
    let content = fs::read_to_string(production.data().join("pg_wal/00000002.history"));
    let content = content.expect("in pg_wal");
    for history in objects(&site, "00000002.history") {
        fs::remove_file(history).expect("removed");
    }
    for _ in 0..2 {
        succeed(&mut copy.walzip(&["backup"]));
    }
    let told = expired(&site);
    assert!(told.contains("removed: backups 0"), "{told}");
    assert!(told.contains("the history of timeline 2 is lost"), "{told}");
    let rebuild = ["timeline", "rebuild-history", "2", "--confirm"];
    let told = succeed(&mut site.walzip(&rebuild));
    let switch = content.split('\t').nth(1).expect("a position");
    assert!(told.contains(switch), "{switch}: {told}");
    refused(&site, &[]);
    assert_eq!(
        restored_rows(&site, &["--target-timeline", "2"]),
        "1-common 4-production 5-production"
    );
}

/// A backup leads nowhere near the server: what it archives cannot be restored.
#[test]
fn check_says_that_no_backup_leads_to_the_servers_timeline() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &PRESERVE);
    write(&copy, "2-copy");
    copy.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));
    write(&primary, "3-production");
    primary.archive_everything();
    let info = succeed(&mut primary.walzip(&["info"]));
    let label = info.lines().find_map(|line| {
        let label = line.split_whitespace().next()?;
        label.ends_with('F').then(|| label.to_owned())
    });
    let label = label.expect("the first backup");
    let expire = ["expire", "--set", &label, "--confirm"];
    succeed(&mut site.walzip(&expire));
    let checked = primary.walzip(&["check"]).output().expect("runs");
    let told = said(&checked);
    assert!(matches!(checked.status.code(), Some(75 | 104)), "{told}");
    let output = restore(&site, "refused", &[]);
    assert_eq!(output.status.code(), Some(110), "{}", said(&output));
}

/// Its timeline 2 is not production's, which is in the archive: what comes after it is not taken.
#[test]
fn what_follows_another_servers_timeline_is_not_archived() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &[]);
    write(&copy, "2-copy");
    promote_again(&site, &copy);
    write(&primary, "3-production");
    primary.archive_everything();
    promote_again(&site, &primary);
    wait_for(&site, "00000002.history");
    archive_from_now_on(&copy);
    copy.sql("SELECT pg_switch_wal()");
    copy.wait_until("SELECT failed_count > 1 FROM pg_stat_archiver");
    let log = copy.log();
    assert!(log.contains("is not the one in the archive"), "{log}");
    assert!(log.contains("walzip timeline set-aside 2"), "{log}");
    assert!(objects(&site, "00000003").is_empty());
    copy.stop();
    write(&primary, "4-production");
    primary.archive_everything();
    assert_eq!(
        restored_rows(&site, &[]),
        "1-common 3-production 4-production"
    );
}
