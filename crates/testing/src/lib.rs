//! What the tests of several crates need.

pub mod samples;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A proof that cannot be given here. It must not look like success: it is an error in CI, and
/// elsewhere is told as [`note`] tells it.
#[track_caller]
pub fn not_run(reason: &str) {
    note(reason);
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "CI=true, and {reason}");
}

/// Says what no test can do here, past the test runner's capture, and in a file that `make test`
/// shows at its end.
pub fn note(what: &str) {
    let line = format!("NOT RUN: {what}\n");
    // Not eprintln!, whose output the test runner keeps to itself.
    let told = io::stderr().write_all(line.as_bytes());
    told.expect("standard error is writable");
    let list = temporary_directory().join("not-run.txt");
    let file = OpenOptions::new().create(true).append(true).open(list);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the target directory is writable");
}

/// The whole of a round that `make test` does not have the time for was asked for.
pub fn is_thorough() -> bool {
    std::env::var_os("WALZIP_TEST_ALL").is_some_and(|value| value == "1")
}

/// A port that nobody has, below those that the system gives away. Tests run at the same time.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let offset = std::process::id()
            .wrapping_mul(16)
            .wrapping_add(NEXT.fetch_add(1, Relaxed));
        let port = 20_000 + (offset % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The place for temporary files in the target directory: the output of a build script lies in
/// `PROFILE/build/NAME/out` there.
fn temporary_directory() -> PathBuf {
    let target = Path::new(env!("OUT_DIR")).ancestors().nth(4);
    let directory = target.expect("a target directory").join("tmp");
    std::fs::create_dir_all(&directory).expect("the target directory is writable");
    directory
}
