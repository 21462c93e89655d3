//! `restore --delta` over a cluster that has more than the archive.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

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
