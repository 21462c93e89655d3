//! Two servers that were promoted where a timeline ends: each has a timeline 2, and the histories are equal byte for byte.
//! What comes after one of the two is no continuation of the other.

use std::fs;
use std::process::Command;

use crate::clusters::branches::{primary, restored_rows};
use crate::clusters::forks::{objects, write};
use crate::clusters::promoted_again::{archive_from_now_on, promote_again};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

const MAJOR: u32 = 15;

/// Production, and a copy that does not archive. Both were copies of a server that was stopped.
fn twins(site: &Site) -> (Server<'_>, Server<'_>) {
    let primary = primary(site);
    write(&primary, "1-common");
    primary.archive_everything();
    primary.stop();
    let [production, copy] = ["production", "copy"].map(|name| {
        let mut copying = Command::new("cp");
        succeed(copying.arg("-a").arg(primary.data()).arg(site.path(name)));
        let server = Server::on(site, name);
        let signal = server.data().join("standby.signal");
        fs::write(&signal, "").expect("written");
        site.hand_over(&signal);
        server
    });
    copy.configure("archive_mode = off");
    for server in [&production, &copy] {
        server.start(&[]);
        server.sql("SELECT pg_promote()");
        server.wait_until("SELECT NOT pg_is_in_recovery()");
    }
    let [one, other] = [&production, &copy].map(|server| {
        let history = server.data().join("pg_wal/00000002.history");
        fs::read(history).expect("a history")
    });
    assert_eq!(one, other);
    (production, copy)
}

/// Ends the segment, which is refused.
#[track_caller]
fn is_not_continued(server: &Server) {
    server.sql("SELECT pg_switch_wal()");
    server.wait_until("SELECT failed_count > 1 FROM pg_stat_archiver");
    let log = server.log();
    assert!(log.contains("does not continue"), "{log}");
}

#[test]
fn a_history_is_refused_that_comes_from_the_other_server() {
    let Some(site) = Site::new(MAJOR) else { return };
    let (production, copy) = twins(&site);
    write(&production, "2-production");
    production.archive_everything();
    write(&copy, "3-copy");
    copy.sql("ALTER SYSTEM SET archive_mode = on");
    promote_again(&site, &copy);
    write(&copy, "4-copy");
    is_not_continued(&copy);
    assert_eq!(objects(&site, "00000003").len(), 0);
    copy.stop();
    assert_eq!(restored_rows(&site, &[]), "1-common 2-production");
    succeed(&mut site.walzip(&["verify"]));
}

/// The copy is first; its timeline 3 begins in the first segment of its timeline 2, or in the one after.
fn production_comes_after(is_in_first_segment: bool) {
    let Some(site) = Site::new(MAJOR) else { return };
    let (production, copy) = twins(&site);
    for row in ["2-copy", "3-copy", "4-copy"] {
        write(&copy, row);
    }
    if !is_in_first_segment {
        copy.sql("SELECT pg_switch_wal()");
        write(&copy, "5-copy");
    }
    promote_again(&site, &copy);
    archive_from_now_on(&copy);
    write(&copy, "6-copy");
    copy.archive_everything();
    write(&production, "7-production");
    is_not_continued(&production);
    assert_eq!(objects(&site, "0000000200000000").len(), 0);
    copy.stop();
    succeed(&mut site.walzip(&["timeline", "set-aside", "3", "--confirm"]));
    production.archive_everything();
    assert_eq!(restored_rows(&site, &[]), "1-common 7-production");
    succeed(&mut site.walzip(&["verify"]));
}

#[test]
fn a_segment_is_refused_of_which_a_later_timeline_has_another_copy() {
    production_comes_after(true);
}

#[test]
fn a_segment_is_refused_that_a_later_timeline_does_not_continue() {
    production_comes_after(false);
}

/// Both timelines begin in one segment, and nothing is in the way of that.
#[test]
fn a_failover_is_followed_by_another_one_in_the_same_segment() {
    let Some(site) = Site::new(MAJOR) else { return };
    let (production, copy) = twins(&site);
    copy.stop();
    write(&production, "2-production");
    promote_again(&site, &production);
    write(&production, "3-production");
    production.archive_everything();
    assert!(!production.log().contains("does not continue"));
    let all = "1-common 2-production 3-production";
    assert_eq!(restored_rows(&site, &[]), all);
    succeed(&mut site.walzip(&["verify"]));
}
