//! A recovery that ends before the archived WAL does.

use std::fs;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

/// A segment is damaged in its middle. Its ends fit those beside it, so that it is archived: PostgreSQL takes that for the end of
/// the WAL, and would open the database without what follows.
#[test]
fn a_server_does_not_open_its_database_before_the_end_of_the_wal() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE t AS SELECT 0 AS a, ''::text AS b");
    succeed(&mut primary.walzip(&["backup"]));
    let broken = primary.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn() + (2 << 20))");
    for _ in 0..6 {
        primary.sql("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 12000) i");
    }
    primary.archive_everything();
    let expected = primary.fingerprint();
    primary.stop();
    let restore = |name| {
        let restored = Server::on(&site, name);
        succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
        restored
    };
    let restored = restore("restored");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
    restored.stop();

    let file = site.path(&broken);
    succeed(primary.walzip(&["archive-get", &broken]).arg(&file));
    let mut content = fs::read(&file).expect("the segment");
    content[512 << 10..516 << 10].fill(0);
    fs::write(&file, content).expect("written");
    let key = succeed(&mut primary.walzip(&["repo", "ls", "wal", "--recurse"]));
    let key = key.lines().find_map(|line| {
        let key = line.split_whitespace().find(|word| word.contains(&broken));
        key.map(str::to_owned)
    });
    let key = key.expect("its key");
    let remove = ["repo", "rm", &key, "--force", "--confirm"];
    succeed(&mut primary.walzip(&remove));
    succeed(primary.walzip(&["archive-push"]).arg(&file));

    let stopped = restore("stopped");
    // It may take connections before, which read.
    stopped.try_start(&["archive_mode=off"]);
    stopped.wait_until_stopped();
    let log = stopped.log();
    let said = format!("the WAL after {broken}");
    assert!(log.contains(&said), "{log}");
    assert!(log.contains("the recovery has ended before"), "{log}");
}
