//! The two ways in which a backup copies a cluster: its server sends the files, or walzip reads them
//! in the data directory. Both leave the same out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// `option-invalid`.
const OPTION_INVALID: i32 = 31;
/// `file-invalid`.
const FILE_INVALID: i32 = 28;
/// `archive-timeout`.
const ARCHIVE_TIMEOUT: i32 = 82;

#[test]
fn both_ways_copy_the_same_files_of_13() {
    both_ways_copy_the_same_files(13);
}

#[test]
fn both_ways_copy_the_same_files_of_15() {
    both_ways_copy_the_same_files(15);
}

#[test]
fn both_ways_copy_the_same_files_of_18() {
    both_ways_copy_the_same_files(18);
}

fn both_ways_copy_the_same_files(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site);
    leave_odd_files(&primary);
    let mut held = primary.client("psql");
    held.args(["-X", "-q", "-d", "postgres", "-c"]).arg(
        "CREATE TEMPORARY TABLE temporary AS SELECT generate_series(1, 1000) i;
         SELECT pg_sleep(600)",
    );
    let mut held = held.spawn().expect("psql starts");
    primary.wait_until("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'");

    let mut trees = Vec::new();
    for method in ["server", "files"] {
        succeed(&mut primary.walzip(&["backup", "--copy-method", method]));
        let restored = site.path(&format!("restored-{method}"));
        let moved = site.path(&format!("place-{method}"));
        let map = format!("aside={}", moved.display());
        succeed(
            primary
                .walzip(&["restore", "--tablespace-mapping", &map, "-D"])
                .arg(&restored),
        );
        verify_by_postgresql(&site, &restored);
        trees.push((tree(&restored), tree(&moved)));
    }
    held.kill().expect("psql is killed");
    held.wait().expect("psql is gone");
    let (by_server, by_walzip) = (&trees[0], &trees[1]);
    assert_eq!(by_server.0, by_walzip.0);
    assert_eq!(by_server.1, by_walzip.1);
    let is_there = |end: &str| by_walzip.0.keys().any(|path| path.ends_with(end));
    for kept in [
        "global/pg_control",
        "odd file",
        "_init",
        "pg_wal/archive_status",
        "pg_replslot",
    ] {
        assert!(is_there(kept), "{kept}");
    }
    for left_out in [
        "pgsql_tmp1.2",
        "postmaster.pid",
        "backup_manifest.old/backup_manifest",
    ] {
        assert!(!is_there(left_out), "{left_out}");
    }
    succeed(&mut primary.walzip(&["verify"]));
    let restored = Server::on(&site, "restored-files");
    primary.stop();
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.sql("SELECT count(*) FROM logged"), "2000");
    assert_eq!(restored.sql("SELECT count(*) FROM unlogged"), "0");
    restored.check_structures();
}

/// PostgreSQL's own program finds in a restored cluster what the manifest of the newest backup has.
fn verify_by_postgresql(site: &Site, restored: &Path) {
    let backups = fs::read_dir(site.repository().join("backup")).expect("backups");
    let newest = backups.map(|backup| backup.expect("a label").path()).max();
    let stored = newest.expect("a backup").join("backup_manifest.zst.0000");
    let stored = fs::read(stored).expect("a manifest");
    let manifest = site.path("manifest");
    fs::write(
        &manifest,
        zstd::decode_all(stored.as_slice()).expect("zstd"),
    )
    .expect("written");
    let mut verify = site.command(site.program("pg_verifybackup"));
    verify.arg("-m").arg(&manifest).arg("-n");
    for of_the_restore in ["postgresql.auto.conf", "recovery.signal"] {
        verify.args(["-i", of_the_restore]);
    }
    succeed(verify.arg(restored));
}

fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    // What the background writer and vacuum change between two backups would differ.
    primary.start(&["autovacuum=off"]);
    let place = site.create_directory("aside");
    primary.sql(&format!(
        "CREATE TABLESPACE aside LOCATION '{}';
         CREATE TABLE logged AS SELECT i, md5(i::text) FROM generate_series(1, 2000) i;
         CREATE UNLOGGED TABLE unlogged AS SELECT i FROM generate_series(1, 2000) i;
         CREATE UNLOGGED TABLE unlogged_aside TABLESPACE aside AS SELECT 1 i;
         CREATE TABLE logged_aside TABLESPACE aside AS SELECT i FROM generate_series(1, 2000) i;
         VACUUM FREEZE; CHECKPOINT;",
        place.display()
    ));
    primary
}

/// Files of others in the data directory, which a backup has as well, or leaves out.
fn leave_odd_files(primary: &Server) {
    let data = primary.data();
    let kept = [
        ("odd file", "content"),
        ("base/pgsql_tmpkept", ""),
        ("empty", ""),
    ];
    for (name, content) in kept {
        fs::write(data.join(name), content).expect("written");
    }
    fs::set_permissions(data.join("odd file"), fs::Permissions::from_mode(0o644)).expect("set");
    fs::create_dir(data.join("backup_manifest.old")).expect("made");
    fs::write(data.join("backup_manifest.old/backup_manifest"), "{}").expect("written");
    fs::create_dir_all(data.join("pgsql_tmp/deeper")).expect("made");
    fs::write(data.join("global/pgsql_tmp1.2"), "left").expect("written");
    std::os::unix::fs::symlink("/nowhere", data.join("dangling")).expect("made");
}

/// Every file with its content, and every directory, but what differs between any two backups of a
/// running server, or is the restore's own.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    const DIFFERING: [&str; 6] = [
        "backup_label",
        "global/pg_control",
        "postgresql.auto.conf",
        "pg_logical",
        "pg_xact",
        "pg_stat",
    ];
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            let metadata = fs::symlink_metadata(&path).expect("there");
            let mode = metadata.permissions().mode();
            if metadata.is_dir() {
                found.insert(name, mode.to_le_bytes().to_vec());
                waiting.push(path);
                continue;
            }
            let differs = DIFFERING
                .iter()
                .any(|differing| name.starts_with(differing));
            let content = match metadata.is_file() && !differs {
                true => fs::read(&path).expect("read"),
                false => Vec::new(),
            };
            found.insert(name, [&mode.to_le_bytes(), content.as_slice()].concat());
        }
    }
    found
}

#[test]
fn files_that_cannot_be_read_in_place_are_sent_or_asked_for_in_vain() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.sql(
        "CREATE ROLE plain LOGIN REPLICATION;
         GRANT EXECUTE ON FUNCTION pg_create_restore_point(text), pg_switch_wal() TO plain;",
    );
    let mut backup = primary.walzip(&["backup", "-v", "--copy-method", "auto", "-U", "plain"]);
    let output = backup.output().expect("walzip runs");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("the server sends the files"), "{told}");

    let told = refused(&primary, &["-U", "plain"], OPTION_INVALID);
    assert!(told.contains("may not start and stop a backup"), "{told}");

    // Another directory with the same cluster, such as that of a standby.
    let lock_file = primary.data().join("postmaster.pid");
    let own = fs::read_to_string(&lock_file).expect("read");
    let (_, rest) = own.split_once('\n').expect("lines");
    fs::write(&lock_file, format!("1\n{rest}")).expect("written");
    let told = refused(&primary, &[], OPTION_INVALID);
    fs::write(&lock_file, own).expect("written");
    assert!(
        told.contains("does not name the server's process"),
        "{told}"
    );
}

/// What a backup says that cannot read the files in place, or should not have been made.
#[track_caller]
fn refused(primary: &Server, arguments: &[&str], code: i32) -> String {
    let mut backup = primary.walzip(&["backup", "--copy-method", "files"]);
    let output = backup.args(arguments).output().expect("walzip runs");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(code), "{told}");
    told
}

#[test]
fn a_damaged_page_of_the_cluster_is_found_and_no_backup_is_made() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    let mut checksums = site.command(site.program("pg_checksums"));
    succeed(checksums.args(["--enable", "-D"]).arg(primary.data()));
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql(
        "CREATE TABLE damaged AS SELECT i, md5(i::text) FROM generate_series(1, 2000) i;
         CHECKPOINT;",
    );
    let path = primary.sql("SELECT pg_relation_filepath('damaged')");
    let path = primary.data().join(path);
    succeed(&mut primary.walzip(&["backup", "--copy-method", "files"]));
    let file = fs::OpenOptions::new().write(true).open(&path);
    let written = file.expect("opened").write_at(b"damage", 8192 + 8000);
    written.expect("written");
    let told = refused(&primary, &[], FILE_INVALID);
    let named = format!("the checksum of block 1 in {}", path.display());
    assert!(told.contains(&named), "{told}");
    assert!(told.contains("--no-verify-checksums"), "{told}");
    let mut backup = primary.walzip(&["backup", "--copy-method", "server"]);
    let output = backup.output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(FILE_INVALID));
    assert!(said(&output).contains("--no-verify-checksums"));
    assert_eq!(listed_backups(&site), 1, "only the first is listed");

    // In a bad hour, the rest of the cluster is worth a backup.
    for method in ["files", "server"] {
        let arguments = ["backup", "--no-verify-checksums", "--copy-method", method];
        let output = primary.walzip(&arguments).output().expect("walzip runs");
        let told = said(&output);
        assert!(output.status.success(), "{told}");
        let is_counted = told.contains("1 pages of the data directory have a wrong checksum");
        assert_eq!(is_counted, method == "files", "{told}");
    }
    let shown = said(&site.walzip(&["info"]).output().expect("walzip runs"));
    let marked = shown.matches("its pages may be damaged").count();
    assert_eq!(marked, 2, "{shown}");
    let restored = site.path("restored");
    let mut restore = site.walzip(&["restore"]);
    let told = said(&restore.arg(&restored).output().expect("walzip runs"));
    assert!(
        told.contains("--no-verify-checksums: pages may be damaged"),
        "{told}"
    );
}

/// What a page says of its position is no proof, and one that begins as if it had never been used is none.
#[test]
fn pages_of_random_bytes_and_half_of_zeros_are_found() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    let mut checksums = site.command(site.program("pg_checksums"));
    succeed(checksums.args(["--enable", "-D"]).arg(primary.data()));
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql(
        "CREATE TABLE damaged AS SELECT i, md5(i::text) FROM generate_series(1, 2000) i;
         CHECKPOINT;",
    );
    let path = primary.sql("SELECT pg_relation_filepath('damaged')");
    let path = primary.data().join(path);
    let whole = fs::read(&path).expect("read");
    for (damage, said) in [
        (vec![0xA5; 8192], "beyond the WAL"),
        (vec![0; 4096], "the checksum of block 1"),
    ] {
        let file = fs::OpenOptions::new().write(true).open(&path);
        let written = file.expect("opened").write_all_at(&damage, 8192);
        written.expect("written");
        let told = refused(&primary, &[], FILE_INVALID);
        let named = format!("the checksum of block 1 in {}", path.display());
        assert!(told.contains(&named) && told.contains(said), "{told}");
        let mut backup = primary.walzip(&["backup", "--no-verify-checksums"]);
        let told = self::said(&backup.output().expect("walzip runs"));
        assert!(
            told.contains("1 pages of the data directory have a wrong checksum"),
            "{told}"
        );
        fs::write(&path, &whole).expect("mended");
    }
    assert_eq!(listed_backups(&site), 2);
    succeed(&mut primary.walzip(&["backup", "--copy-method", "files"]));
}

/// Somebody has moved a database, or what says which transactions are committed, to another disk.
#[test]
fn what_was_replaced_by_a_link_makes_no_backup() {
    let Some(site) = Site::new(16) else { return };
    let primary = primary(&site);
    primary.sql("CREATE DATABASE moved");
    let oid = primary.sql("SELECT oid FROM pg_database WHERE datname = 'moved'");
    for (number, name) in [format!("base/{oid}"), "pg_xact".to_owned()]
        .iter()
        .enumerate()
    {
        primary.stop();
        let (place, elsewhere) = (
            primary.data().join(name),
            site.path(&format!("elsewhere{number}")),
        );
        fs::rename(&place, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &place).expect("linked");
        primary.start(&[]);
        for method in ["server", "files"] {
            let mut backup = primary.walzip(&["backup", "--copy-method", method]);
            let output = backup.output().expect("walzip runs");
            let told = said(&output);
            assert_eq!(output.status.code(), Some(FILE_INVALID), "{told}");
            assert!(told.contains(&format!("{name} is no file")), "{told}");
            assert!(told.contains("SET TABLESPACE"), "{told}");
        }
        primary.stop();
        fs::remove_file(&place).expect("removed");
        fs::rename(&elsewhere, &place).expect("moved back");
        primary.start(&[]);
    }
    // A restore has left its content out.
    let mark = primary.data().join(format!("base/{oid}/walzip_left_out"));
    fs::write(&mark, "").expect("written");
    for method in ["server", "files"] {
        let mut backup = primary.walzip(&["backup", "--copy-method", method]);
        let output = backup.output().expect("walzip runs");
        let told = said(&output);
        assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
        assert!(
            told.contains(&format!("base/{oid}/walzip_left_out")),
            "{told}"
        );
    }
    assert_eq!(listed_backups(&site), 0);
    primary.sql("DROP DATABASE moved");
    succeed(&mut primary.walzip(&["backup"]));
}

/// PostgreSQL replays the move by copying a directory that the backup may not have.
#[test]
fn a_database_that_is_moved_meanwhile_makes_no_backup() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let place = site.create_directory("elsewhere");
    primary.sql(&format!(
        "CREATE TABLESPACE elsewhere LOCATION '{}'",
        place.display()
    ));
    primary.sql("CREATE DATABASE moved");
    for (method, to) in [("server", "elsewhere"), ("files", "pg_default")] {
        let arguments = ["-v", "backup", "--max-rate", "4M", "--copy-method", method];
        let said = site.path("said");
        let mut backup = primary.walzip(&arguments);
        backup.stderr(fs::File::create(&said).expect("created"));
        let mut child = backup.spawn().expect("walzip starts");
        match method {
            "server" => primary.wait_until(
                "SELECT count(*) = 1 FROM pg_stat_progress_basebackup
                 WHERE phase = 'streaming database files'",
            ),
            _ => {
                let has_begun = || fs::read_to_string(&said).expect("read").contains("copying");
                while !has_begun() {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        }
        primary.sql(&format!("ALTER DATABASE moved SET TABLESPACE {to}"));
        let status = child.wait().expect("ended");
        let told = fs::read_to_string(&said).expect("read");
        assert_eq!(status.code(), Some(OPTION_INVALID), "{told}");
        let why = "database \"moved\" was moved to another tablespace";
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(listed_backups(&site), 0);
}

#[test]
fn nothing_is_stored_while_the_archive_command_does_not_work() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    primary.sql("ALTER SYSTEM SET archive_command = 'false'");
    primary.sql("SELECT pg_reload_conf()");
    for method in ["server", "files"] {
        let arguments = ["backup", "--archive-timeout", "3", "--copy-method", method];
        let output = primary.walzip(&arguments).output().expect("walzip runs");
        assert_eq!(
            output.status.code(),
            Some(ARCHIVE_TIMEOUT),
            "{}",
            said(&output)
        );
    }
    let kept = tree(&site.repository().join("backup"));
    let files = kept.keys().filter(|name| name.contains("pack"));
    assert_eq!(files.count(), 0, "{:?}", kept.keys());
    assert_eq!(listed_backups(&site), 0);
}

fn listed_backups(site: &Site) -> usize {
    let backups = fs::read_dir(site.repository().join("backup")).expect("backups");
    let labels = backups.map(|backup| backup.expect("a label").path());
    labels
        .filter(|label| label.join("backup.json").exists())
        .count()
}
