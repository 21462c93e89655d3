//! Segments above 64 MB, which go into the archive in parts: they come back, and take memory of a
//! part and of the object, not of the segment.

use std::fs;
use std::process::Command;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};
use crate::memory::peak_of;

const MB: u64 = 1 << 20;

#[test]
fn segments_of_256_mb_are_archived_in_parts_and_come_back() {
    let Some(site) = Site::new(17) else { return };
    let server = Server::create(&site, "primary", 256);
    server.archive_with_walzip();
    server.configure("max_wal_size = 4GB\nwal_keep_size = 4GB");
    server.start(&[]);
    server.sql(
        "CREATE TABLE t AS SELECT g, md5(g::text) AS a, repeat('x', 40) AS b \
         FROM generate_series(1, 1500000) AS g",
    );
    let name = server.sql("SELECT pg_walfile_name(pg_current_wal_lsn())");
    server.archive_everything();
    server.stop();
    // Archived by the server, and once more as a measured command would do it.
    let segment = server.data().join("pg_wal").join(&name);
    let original = fs::read(&segment).expect("the segment is still there");
    assert_eq!(original.len() as u64, 256 * MB);
    // The length is in the last parts too.
    assert!(original[200 << 20..].iter().any(|&byte| byte != 0));
    let repository = site.create_directory("another");
    let report = site.path("report");
    let measured = |arguments: &[&str]| -> Command {
        let walzip = site.program_under_test();
        let mut command = site.command(&walzip);
        command
            .arg("--launch-measured")
            .arg(&walzip)
            .args(arguments);
        command.env("WALZIP_REPO", &repository);
        command.env("WALZIP_PGDATA", server.data());
        command
    };
    let taken = |arguments: &[&str], megabytes: u64| {
        let (code, peak) = peak_of(&mut measured(arguments), &report);
        println!("{}: {} MB", arguments[0], peak / MB);
        assert_eq!(code, 0, "{arguments:?}");
        assert!(peak <= megabytes * MB, "{arguments:?}: {} MB", peak / MB);
    };
    taken(&["init"], 64);
    let segment = segment.to_str().expect("UTF-8");
    taken(&["archive-push", segment], 480);
    // The same again: what is stored is compared.
    taken(&["archive-push", segment], 480);
    taken(&["verify"], 280);
    for repository in [&repository, &site.repository()] {
        let mut get = site.walzip(&["archive-get", &name, "back"]);
        succeed(get.env("WALZIP_REPO", repository));
        assert!(fs::read(site.path("back")).expect("a file") == original);
    }
    taken(&["archive-get", &name, "back"], 280);
    // A file of other content under the name is still refused.
    let mut other = original;
    *other.last_mut().expect("bytes") ^= 1;
    let damaged = site.create_directory("other").join(&name);
    fs::write(&damaged, other).expect("written");
    let mut push = measured(&["archive-push", damaged.to_str().expect("UTF-8")]);
    let (code, _) = peak_of(&mut push, &report);
    assert_eq!(code, 45, "a duplicate with other content");
}
