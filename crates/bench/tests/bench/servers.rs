//! A real server: it starts, answers, tells what it took, and leaves nothing behind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use walzip_bench::server::{Installation, Settings};
use walzip_bench::{Cancel, Error};
use walzip_testing::not_run;

use crate::support::is_empty;

/// A PostgreSQL: the one that the tests fetch, or the newest that is installed.
pub fn pg_bin() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-postgres");
    let output = Command::new(script).args(["--path", "15"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| PathBuf::from(path.trim_end()))
}

/// That PostgreSQL, with servers in a directory that everyone may enter.
pub fn installation(directory: &Path, cancel: &Cancel) -> Option<Installation> {
    open(directory);
    let search_path = std::env::var_os("PATH").unwrap();
    match Installation::find(pg_bin().as_deref(), &search_path, directory, cancel) {
        Ok(installation) => Some(installation),
        Err(error) => {
            not_run(&error.to_string());
            None
        }
    }
}

fn open(directory: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory, mode).unwrap();
}

#[test]
fn a_server_answers_tells_what_it_took_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let Some(installation) = installation(directory.path(), &Cancel::default()) else {
        return;
    };
    let settings = Settings::volatile()
        .segment_megabytes(1)
        .set("work_mem", "5MB");
    let server = installation.start(&settings).unwrap();
    assert_eq!(
        server.sql("SHOW work_mem; SELECT 6 * 7").unwrap(),
        "5MB\n42"
    );
    assert_eq!(server.sql("SHOW wal_segment_size").unwrap(), "1MB");
    let before = (server.usage().unwrap().cpu, server.wal_position().unwrap());
    server
        .sql("CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 100000) n")
        .unwrap();
    assert!(server.usage().unwrap().cpu > before.0);
    assert!(server.wal_position().unwrap() > before.1 + 1_000_000);
    let error = server.sql("SELECT 1/0").unwrap_err().to_string();
    assert!(
        error.starts_with("cannot run psql: ") && error.contains("division by zero"),
        "{error}"
    );
    let stopped = server.stop().unwrap();
    assert!(stopped.data().join("PG_VERSION").exists());
    assert!(!stopped.data().join("postmaster.pid").exists());
    drop(stopped);
    assert!(is_empty(directory.path()));
}

#[test]
fn a_server_that_is_dropped_ends_with_its_directory() {
    let directory = TempDir::new().unwrap();
    let Some(installation) = installation(directory.path(), &Cancel::default()) else {
        return;
    };
    let server = installation.start(&Settings::volatile()).unwrap();
    let pid = server.sql("SELECT pg_backend_pid()").unwrap();
    let file = fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    let postmaster = file.lines().next().unwrap().to_owned();
    drop(server);
    assert!(is_empty(directory.path()));
    for pid in [pid, postmaster] {
        assert!(
            !Path::new("/proc").join(&pid).exists(),
            "process {pid} still runs"
        );
    }
}

#[test]
fn a_server_that_does_not_start_says_why_and_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let Some(installation) = installation(directory.path(), &Cancel::default()) else {
        return;
    };
    let settings = Settings::volatile().set("wal_compression", "stuffit");
    let error = installation.start(&settings).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot start: ") && error.contains("stuffit"),
        "{error}"
    );
    assert!(is_empty(directory.path()));
}

#[test]
fn a_request_to_stop_ends_a_client_and_no_other_server_starts() {
    let directory = TempDir::new().unwrap();
    let cancel = Cancel::default();
    let Some(installation) = installation(directory.path(), &cancel) else {
        return;
    };
    let server = installation.start(&Settings::volatile()).unwrap();
    let request = cancel.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        request.request();
    });
    assert!(matches!(
        server.sql("SELECT pg_sleep(600)"),
        Err(Error::Interrupted)
    ));
    drop(server);
    let error = installation.start(&Settings::volatile());
    assert!(matches!(error, Err(Error::Interrupted)));
    assert!(is_empty(directory.path()));
}

#[test]
fn a_machine_without_postgresql_is_told_the_package() {
    let directory = TempDir::new().unwrap();
    let nothing = Installation::find(
        Some(Path::new("/nonexistent")),
        OsStr::new(""),
        directory.path(),
        &Cancel::default(),
    );
    assert!(
        nothing
            .unwrap_err()
            .to_string()
            .contains("package postgresql")
    );
}
