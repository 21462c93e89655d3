//! Timelines whose histories name one that was followed and not reached: a recovery along it ended before it began.
//! They have nothing of it, and do not descend from it.

use std::time::Duration;

use crate::clusters::branches::{primary, restore, restored_rows};
use crate::clusters::forks::{objects, promoted, write};
use crate::clusters::numbers::{PRESERVE, begun, refused};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const MAJOR: u32 = 15;

/// A server that recovers along a timeline, to a moment, and is promoted.
fn followed<'a>(site: &'a Site, name: &'a str, timeline: &str, until: Option<&str>) -> Server<'a> {
    let mut arguments = PRESERVE.to_vec();
    arguments.extend(["--target-timeline", timeline]);
    arguments.extend(until.into_iter().flat_map(|until| ["--target-time", until]));
    promoted(site, name, &arguments)
}

fn history_of(server: &Server, timeline: u32) -> String {
    let name = format!("pg_wal/{timeline:08X}.history");
    std::fs::read_to_string(server.data().join(name)).expect("there")
}

/// Production was promoted, and has archived no segment since; a copy of what was before the promotion archives.
#[test]
fn a_copy_is_not_taken_for_what_descends_from_production() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    write(&primary, "2-common");
    primary.archive_everything();
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    write(&production, "3-production");
    let copy = followed(&site, "copy", "2", Some(&before));
    let history = history_of(&copy, 3);
    assert_eq!(history.matches("\n2\t").count(), 1, "{history}");
    write(&copy, "4-copy");
    copy.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));

    let told = refused(&site, &[]);
    assert!(told.contains("--target-timeline 2"), "{told}");
    // It follows the highest number, as a server does.
    let waiting = restore(&site, "waiting", &["--standby"]);
    let told = said(&waiting);
    assert!(told.contains("timeline 2 went on after"), "{told}");
    let info = succeed(&mut copy.walzip(&["info"]));
    assert!(info.contains("timelines 2 and 3 went on"), "{info}");
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let output = site.walzip(&expire).output().expect("walzip runs");
    let told = said(&output);
    assert!(told.contains("keep"), "{told}");
    production.archive_everything();
    assert_eq!(
        restored_rows(&site, &["--target-timeline", "2"]),
        "1-common 2-common 3-production"
    );
}

/// Production was restored in place along what a copy had archived, to a moment before the copy left it.
#[test]
fn production_is_not_set_aside_with_a_copy_that_it_followed() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    let before = write(&primary, "1-common");
    write(&primary, "2-mistake");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &PRESERVE);
    write(&copy, "3-copy");
    copy.archive_everything();
    primary.stop();
    let production = followed(&site, "production", "latest", Some(&before));
    let history = history_of(&production, 3);
    assert_eq!(history.matches("\n2\t").count(), 1, "{history}");
    write(&production, "4-production");
    production.archive_everything();
    write(&copy, "5-copy");
    copy.archive_everything();
    copy.stop();

    let told = refused(&site, &[]);
    assert!(told.contains("\"walzip timeline set-aside 2\""), "{told}");
    succeed(&mut site.walzip(&["timeline", "set-aside", "2", "--confirm"]));
    assert_eq!(restored_rows(&site, &[]), "1-common 4-production");
    let verified = succeed(&mut site.walzip(&["verify"]));
    assert!(!verified.contains("history"), "{verified}");
}

/// What is put away takes along what descends from it; production may be that.
#[test]
fn a_hint_says_what_goes_with_a_timeline() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let second = promoted(&site, "second", &PRESERVE);
    write(&second, "2-second");
    second.archive_everything();
    let copy = followed(&site, "copy", "1", None);
    write(&copy, "3-copy");
    copy.archive_everything();
    second.archive_everything();
    second.stop();
    let production = followed(&site, "production", "2", None);
    write(&production, "4-production");
    while objects(&site, "00000004.history").is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = refused(&site, &[]);
    assert!(!told.contains("set-aside 2\""), "{told}");
    production.archive_everything();
    write(&copy, "5-copy");
    copy.archive_everything();
    let told = refused(&site, &[]);
    assert!(told.contains("--target-timeline 4"), "{told}");
    assert!(!told.contains("set-aside 2\","), "{told}");
}

/// `current` is the timeline of the backup: what is looked for is on that one.
#[test]
fn a_transaction_is_looked_for_on_the_timeline_of_the_backup_from_which_it_is_reached() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &PRESERVE);
    write(&primary, "2-production");
    primary.archive_everything();
    succeed(&mut primary.walzip(&["backup"]));
    write(&primary, "3-production");
    primary.archive_everything();
    write(&copy, "4-copy");
    copy.sql("SELECT pg_create_restore_point('of the copy')");
    write(&copy, "5-copy");
    copy.archive_everything();
    let current = ["--target-timeline", "current"];
    let to_copy = [&current[..], &["--target-name", "of the copy"]].concat();
    // No backup is on its timeline.
    let output = restore(&site, "refused", &to_copy);
    assert_eq!(output.status.code(), Some(112), "{}", said(&output));
    primary.sql("SELECT pg_create_restore_point('of production')");
    write(&primary, "6-production");
    primary.archive_everything();
    succeed(&mut copy.walzip(&["backup"]));
    for server in [&primary, &copy] {
        server.sql("SELECT pg_create_restore_point('twice')");
        server.archive_everything();
    }
    let twice = [&current[..], &["--target-name", "twice"]].concat();
    let told = said(&restore(&site, "twice", &twice));
    assert!(told.contains("is not the only one that went on"), "{told}");
    let to_production = [&current[..], &["--target-name", "of production"]].concat();
    let output = restore(&site, "production", &to_production);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("warning: timeline 1 is followed"), "{told}");
    assert_eq!(
        restored_rows(&site, &to_production),
        "1-common 2-production 3-production"
    );
}

/// It may be meant on the timeline that has left the one with the backup, and has archived nothing yet.
#[test]
fn a_name_beside_a_timeline_with_a_history_only_is_warned_of() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    primary.start(&[]);
    primary.sql("SELECT pg_create_restore_point('of the old one')");
    primary.archive_everything();
    let name = ["--target-name", "of the old one"];
    refused(&site, &name);
    let current = [&["--target-timeline", "current"][..], &name].concat();
    let told = said(&restore(&site, "current", &current));
    assert!(told.contains("warning: timeline 1 is followed"), "{told}");
    production.stop();
}

/// Neither the copy nor the archive says that they are of two servers: only their histories differ.
#[test]
fn what_a_copy_that_does_not_archive_has_is_not_taken_for_what_another_server_archived() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = primary(&site);
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &[]);
    write(&copy, "2-copy");
    copy.stop();
    write(&primary, "3-production");
    primary.archive_everything();
    primary.stop();
    let production = begun(&site, "production", 2);
    write(&production, "4-production");
    production.archive_everything();
    assert_ne!(history_of(&copy, 2), history_of(&production, 2));
    let output = restore(&site, "copy", &["--delta"]);
    assert_eq!(output.status.code(), Some(113), "{}", said(&output));
    let output = restore(&site, "copy", &["--delta", "--force"]);
    assert!(output.status.success(), "{}", said(&output));
}

/// Whoever prepared it may have committed its other parts elsewhere.
#[test]
fn a_timeline_with_a_prepared_transaction_alone_has_gone_on() {
    let Some(site) = Site::new(MAJOR) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("max_prepared_transactions = 2");
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut primary.walzip(&["backup"]));
    write(&primary, "1-common");
    primary.archive_everything();
    let copy = promoted(&site, "copy", &PRESERVE);
    write(&copy, "2-copy");
    copy.archive_everything();
    primary.sql("BEGIN; INSERT INTO note VALUES ('3-production'); PREPARE TRANSACTION 'one'");
    primary.archive_everything();
    let told = refused(&site, &[]);
    assert!(told.contains("timeline 1 went on after"), "{told}");
}
