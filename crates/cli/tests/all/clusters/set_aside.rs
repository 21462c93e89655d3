//! A restored copy has taken the number of the timeline that a failover comes to.

use std::fs;
use std::io::Write;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const ROWS: &str = "SELECT string_agg(body, ' ' ORDER BY body) FROM note";

/// Restores and lets the cluster archive as its original does.
pub fn restore<'a>(site: &'a Site, name: &'a str, arguments: &[&str]) -> Server<'a> {
    let server = Server::on(site, name);
    let mut command = server.walzip(&["restore", "-D"]);
    command.arg(server.data()).args(arguments);
    succeed(&mut command);
    server
}

/// Makes a restored directory a standby that streams, and never asks the archive.
pub fn follow(site: &Site, standby: &Server, primary: &Server) {
    let data = standby.data();
    fs::rename(data.join("recovery.signal"), data.join("standby.signal")).expect("renamed");
    site.hand_over(&data.join("standby.signal"));
    let settings = fs::OpenOptions::new()
        .append(true)
        .open(data.join("postgresql.auto.conf"));
    writeln!(
        settings.expect("written by restore"),
        "primary_conninfo = 'host={} port=5432 user=tester'\n\
         restore_command = ''\n\
         recovery_target_timeline = 'latest'",
        primary.socket().display()
    )
    .expect("written");
}

#[test]
fn a_failover_goes_on_when_the_copy_that_took_its_number_is_set_aside() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("wal_keep_size = '512MB'");
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text); INSERT INTO note VALUES ('1-common')");
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();

    let copy = restore(&site, "copy", &["--archive-mode", "preserve"]);
    let standby = restore(&site, "standby", &["--archive-mode", "preserve"]);
    follow(&site, &standby, &primary);
    standby.start(&[]);
    copy.start(&[]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    copy.sql("INSERT INTO note VALUES ('2-copy')");
    copy.archive_everything();
    copy.stop();

    primary.sql("INSERT INTO note VALUES ('3-production')");
    primary.stop();
    standby.sql("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    standby.sql("CHECKPOINT; INSERT INTO note VALUES ('4-failover'); SELECT pg_switch_wal()");
    standby.wait_until("SELECT last_failed_wal = '00000002.history' FROM pg_stat_archiver");
    assert!(standby.log().contains("exit code 45"), "{}", standby.log());
    assert!(standby.log().contains("timeline set-aside"));

    let set_aside = ["timeline", "set-aside", "2"];
    let said_dry = succeed(&mut site.walzip(&set_aside));
    assert!(
        said_dry.contains("timeline 2: left timeline 1 at "),
        "{said_dry}"
    );
    assert!(said_dry.contains("nothing was done"), "{said_dry}");
    assert!(!site.repository().join("aside").exists());
    succeed(site.walzip(&set_aside).arg("--confirm"));
    standby.archive_everything();
    standby.sql("INSERT INTO note VALUES ('5-later')");
    standby.archive_everything();

    let info = succeed(&mut site.walzip(&["info"]));
    assert!(info.contains("/00000002: set aside: WAL files"), "{info}");
    let put_back = ["timeline", "put-back", "00000002", "--confirm"];
    let refused = site.walzip(&put_back).output().expect("walzip runs");
    assert_eq!(refused.status.code(), Some(45), "{}", said(&refused));
    succeed(&mut site.walzip(&["verify"]));
    standby.stop();

    let restored = restore(&site, "restored", &["--target-timeline", "2"]);
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(
        restored.sql(ROWS),
        "1-common 3-production 4-failover 5-later"
    );
}
