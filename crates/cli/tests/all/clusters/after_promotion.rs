//! What a restore or a failover leaves behind, and who says so.

use std::fs;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// What `check` says, which succeeds.
fn check(server: &Server) -> String {
    let output = server.walzip(&["check"]).output().expect("walzip starts");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    told
}

/// A standby that is made from such a server would be promoted at the old target.
#[test]
fn settings_of_a_restore_are_told_of_until_they_are_reset() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    primary.sql("INSERT INTO note VALUES ('one')");
    let target = primary.sql("SELECT clock_timestamp()");
    primary.sql("INSERT INTO note VALUES ('two')");
    primary.archive_everything();
    assert!(!check(&primary).contains("warning"));
    // WAL says to the second when a timeline was born.
    primary.sql("SELECT pg_sleep(1.1)");
    primary.stop();

    let restored = Server::on(&site, "restored");
    let mut restore = restored.walzip(&["restore", "--archive-mode", "preserve", "-D"]);
    restore
        .arg(restored.data())
        .args(["--target-time", &target]);
    let told = succeed(&mut restore);
    let reset =
        "ALTER SYSTEM RESET recovery_target_time; ALTER SYSTEM RESET recovery_target_timeline;";
    assert!(told.contains(reset), "{told}");
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.sql("SELECT body FROM note"), "one");
    let told = check(&restored);
    assert!(
        told.contains("a standby that is made from this server"),
        "{told}"
    );
    assert!(told.contains(reset), "{told}");

    let reset = "ALTER SYSTEM RESET restore_command;";
    assert!(told.contains(reset), "{told}");

    for name in [
        "recovery_target_time",
        "recovery_target_timeline",
        "restore_command",
    ] {
        restored.sql(&format!("ALTER SYSTEM RESET {name}"));
    }
    restored.sql("SELECT pg_reload_conf()");
    restored.wait_until(
        "SELECT count(*) = 2 FROM pg_settings WHERE name LIKE 'recovery_target%' AND pending_restart",
    );
    let told = check(&restored);
    assert!(!told.contains("warning"), "{told}");
}

/// A server that was promoted never archives what its primary had not.
#[test]
fn wal_that_no_restore_gets_past_is_named() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    for _ in 0..3 {
        primary.sql("INSERT INTO note VALUES ('more')");
        primary.archive_everything();
    }
    assert!(!check(&primary).contains("missing"));
    let segment = primary.sql(
        "SELECT pg_walfile_name(pg_current_wal_lsn() - 3 * pg_size_bytes(current_setting('wal_segment_size')))",
    );
    let clusters = fs::read_dir(site.repository().join("wal")).expect("clusters");
    let cluster = clusters.map(|cluster| cluster.expect("one").path()).next();
    let directory = cluster.expect("one").join(&segment[..16]);
    fs::remove_file(directory.join(format!("{segment}.wz"))).expect("removed");

    let output = primary.walzip(&["check"]).output().expect("walzip starts");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(104), "{told}");
    assert!(
        told.contains(&format!("segment {segment} is missing after backup")),
        "{told}"
    );
    let info = said(&primary.walzip(&["info"]).output().expect("walzip starts"));
    let named = format!("then WAL is missing: {segment};");
    assert!(info.contains(&named), "{info}");
    let metrics = said(
        &primary
            .walzip(&["metrics"])
            .output()
            .expect("walzip starts"),
    );
    assert!(
        metrics.contains("walzip_wal_gaps{repo=\"1\"} 1"),
        "{metrics}"
    );
}

/// The standbys of the original do not follow what is restored of it.
#[test]
fn standbys_that_commits_would_wait_for_are_named() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::backed_up(&site);
    // Not in force here, since nothing loads it.
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'");
    let restore = |name: &str| {
        succeed(&mut primary.walzip(&["backup"]));
        let restored = Server::on(&site, name);
        let mut restore = restored.walzip(&["restore", "-D"]);
        let restored = restore.arg(restored.data()).output();
        said(&restored.expect("walzip starts"))
    };
    let waits = "synchronous_standby_names is \"elsewhere\": once it is promoted, commits wait";
    let told = restore("restored");
    assert!(told.contains(waits), "{told}");
    primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
    let told = restore("again");
    assert!(!told.contains("synchronous_standby_names"), "{told}");
}
