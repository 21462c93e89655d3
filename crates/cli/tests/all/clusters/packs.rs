//! A point-in-time restore through packs, with a server that goes on archiving.

use crate::clusters::server::{Fingerprint, Server};
use crate::clusters::site::{Site, succeed};

fn restores_to(site: &Site, name: &str, target: &[&str], expected: &Fingerprint) {
    let restored = Server::on(site, name);
    let mut restore = restored.walzip(&["restore", "-D"]);
    succeed(restore.arg(restored.data()).args(target));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), *expected, "{target:?}");
    restored.stop();
}

/// Whether a restore expects the recovery to end in a segment, and has not decoded it to know where.
fn ends_in_a_segment(site: &Site, name: &str) -> bool {
    const SEGMENT_SIZE: u64 = 1 << 20;
    let path = site.path(name).join("postgresql.auto.conf");
    let settings = std::fs::read_to_string(path).expect("readable");
    let (_, end) = settings.split_once("--expected-end ").expect(&settings);
    let end = end
        .split_whitespace()
        .next()
        .and_then(|end| end.split_once('/'));
    let (_, offset) = end.expect("a position");
    u64::from_str_radix(offset, 16).expect("a position") % SEGMENT_SIZE == 0
}

#[test]
fn restores_to_a_time_through_packs() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.pgbench(&["-i", "-q", "-s", "1"]);
    succeed(&mut primary.walzip(&["backup"]));
    for _ in 0..3 {
        primary.pgbench(&["-c", "2", "-t", "500"]);
        primary.sql("CHECKPOINT");
    }
    let time = primary.sql("SELECT clock_timestamp()");
    let then = primary.fingerprint();
    primary.sql("SELECT pg_sleep(0.01)");
    primary.sql("DELETE FROM pgbench_accounts");
    primary.pgbench(&["-i", "-q", "-s", "1"]);
    primary.archive_everything();
    let before = succeed(&mut site.walzip(&["info", "--json"]));
    let packed = succeed(&mut site.walzip(&["pack", "--newest", "0", "--all", "--json"]));
    let packed: serde_json::Value = serde_json::from_str(&packed).expect("JSON");
    let packs = packed["clusters"][0]["packs"].as_array().expect("packs");
    let segments: u64 = packs
        .iter()
        .filter_map(|pack| pack["segments"].as_u64())
        .sum();
    assert!(segments > 20, "{packed}");
    // What can be restored is what could be.
    let after = succeed(&mut site.walzip(&["info", "--json"]));
    let windows = |info: &str| {
        let info: serde_json::Value = serde_json::from_str(info).expect("JSON");
        info["wal"][0]["recovery_windows"].clone()
    };
    assert_eq!(windows(&after), windows(&before));
    let last = primary.fingerprint();
    primary.sql("INSERT INTO pgbench_history (tid) VALUES (1)");
    primary.archive_everything();
    let newest = primary.fingerprint();
    primary.stop();
    assert_ne!(last, newest);
    restores_to(&site, "then", &["--target-time", &time], &then);
    assert!(
        ends_in_a_segment(&site, "then"),
        "the target is looked for in indexes"
    );
    restores_to(&site, "newest", &[], &newest);
    succeed(&mut site.walzip(&["verify"]));
    // A backup from before the packs keeps them.
    succeed(&mut site.walzip(&["expire", "--retention-full", "1", "--confirm"]));
    restores_to(&site, "again", &["--target-time", &time], &then);
}
