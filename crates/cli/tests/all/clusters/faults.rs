//! A repository that cannot be written to: walzip says so with an exit code that PostgreSQL
//! answers with a retry, and afterwards the archive is complete. And one that cannot be read: a
//! recovery stops there, and does not open the database without what it could not read.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::clusters::object_store::{archived_files, assert_no_gaps, object_of};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::small_disk::SmallDisk;

#[test]
fn a_full_disk_is_reported_and_recovered_from() {
    let Some(site) = Site::new(15) else { return };
    let Some(disk) = SmallDisk::mount(&site, site.create_directory("repository"), "4m") else {
        return;
    };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    let failed = push_into_the_fault(&site, &server);
    assert!(
        failed.contains("No space left on device"),
        "unclear message: {failed}"
    );
    disk.grow();
    recovers(&site, &server);
}

#[test]
fn expire_makes_room_on_a_full_disk() {
    let Some(site) = Site::new(15) else { return };
    let Some(disk) = SmallDisk::mount(&site, site.create_directory("repository"), "48m") else {
        return;
    };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    for _ in 0..3 {
        write_a_segment(&server);
        succeed(&mut server.walzip(&["backup", "--type", "full"]));
    }
    server.archive_everything();
    let filler = site.repository().join("filler");
    let fill = || -> std::io::Result<()> {
        let mut file = fs::File::create(&filler)?;
        loop {
            file.write_all(&[1; 4096])?;
        }
    };
    let full = fill().expect_err("the disk is small");
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let push = push_into_the_fault(&site, &server);
    assert!(push.contains("expire --confirm"), "unclear hint: {push}");
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    succeed(&mut server.walzip(&expire));
    server.archive_everything();
    succeed(&mut server.walzip(&["verify"]));
    let info = succeed(&mut server.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let backups = info["backups"].as_array().expect("backups");
    assert_eq!(backups.len(), 1, "{info}");
    drop(disk);
}

#[test]
fn a_read_only_repository_is_reported_and_recovered_from() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    write_a_segment(&server);
    server.archive_everything();
    set_mode(&site.repository(), 0o555);
    let failed = push_into_the_fault(&site, &server);
    assert!(
        failed.contains("Permission denied"),
        "unclear message: {failed}"
    );
    set_mode(&site.repository(), 0o755);
    recovers(&site, &server);
}

#[test]
fn a_recovery_stops_at_damage_and_goes_on_when_it_is_mended() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    succeed(&mut server.walzip(&["backup"]));
    write_a_segment(&server);
    let damaged = server.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())");
    write_a_segment(&server);
    server.archive_everything();
    let expected = server.fingerprint();
    server.stop();
    let object = object_of(&site, &damaged).expect("an archived segment");
    let whole = fs::read(&object).expect("a readable object");
    let mut changed = whole.clone();
    *changed.last_mut().expect("not empty") ^= 1;
    fs::write(&object, changed).expect("a writable object");

    let restored = Server::on(&site, "restored");
    succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
    restored.try_start(&["archive_mode=off"]);
    restored.wait_until_stopped();
    let log = restored.log();
    assert!(log.contains("[damaged, exit code 26]"), "{log}");
    assert!(!log.contains("archive recovery complete"), "{log}");

    fs::write(&object, whole).expect("a writable object");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}

/// Writes until the server's archiver has failed, and returns what a push says then.
fn push_into_the_fault(site: &Site, server: &Server) -> String {
    while server.sql("SELECT failed_count > 0 FROM pg_stat_archiver") != "t" {
        write_a_segment(server);
    }
    let waiting = server.sql("SELECT last_failed_wal FROM pg_stat_archiver");
    let segment = server.data().join("pg_wal").join(&waiting);
    let output = site
        .walzip(&["archive-push"])
        .arg(segment)
        .output()
        .expect("walzip runs");
    let code = output.status.code().expect("an exit code, not a signal");
    assert!((1..=125).contains(&code), "PostgreSQL would stop at {code}");
    // What could be stored before is whole; this decodes it.
    let stored = archived_files(site);
    assert!(
        stored.iter().all(|(name, _)| *name != waiting),
        "{waiting} was stored after all"
    );
    said(&output)
}

/// What had to wait is stored once the fault is over, without anybody's help.
fn recovers(site: &Site, server: &Server) {
    write_a_segment(server);
    server.archive_everything();
    assert_no_gaps(&archived_files(site));
    succeed(&mut site.walzip(&["verify"]));
}

/// About 1 MB of WAL that does not compress to nothing.
fn write_a_segment(server: &Server) {
    server.sql(
        "CREATE TABLE IF NOT EXISTS noise (body text);
         INSERT INTO noise SELECT md5(random()::text) FROM generate_series(1, 12000);
         SELECT pg_switch_wal();",
    );
}

/// Sets the mode of a directory and of those below it.
fn set_mode(directory: &Path, mode: u32) {
    let permissions = || fs::Permissions::from_mode(mode);
    fs::set_permissions(directory, permissions()).expect("change the mode");
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            set_mode(&path, mode);
        }
    }
}
