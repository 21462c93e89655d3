//! The WAL segments that real servers wrote, by which the tests here measure the readers.
//!
//! They lie beside the repository, xz-compressed, in `../shared/wal-samples/<workload>/` or
//! where `WALZIP_SAMPLES` says. They are unpacked once, into the target directory. Without
//! them the tests that need them say so; with `CI=true` they fail.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The first two pages of segments of every major (19: release
/// candidate 1), for tests that need no samples.
pub const BEGINNINGS: &[(&str, &[u8])] = &[
    ("pg13-oltp", include_bytes!("../data/wal/pg13-oltp")),
    ("pg14-oltp-on", include_bytes!("../data/wal/pg14-oltp-on")),
    ("pgbench-lz4", include_bytes!("../data/wal/pgbench-lz4")),
    ("pg16-oltp", include_bytes!("../data/wal/pg16-oltp")),
    ("pg17-oltp", include_bytes!("../data/wal/pg17-oltp")),
    (
        "pg18-oltp-pglz",
        include_bytes!("../data/wal/pg18-oltp-pglz"),
    ),
    ("pg19-pgbench", include_bytes!("../data/wal/pg19-pgbench")),
];

/// A segment, unpacked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The workload: the name of the folder.
    pub workload: String,
    /// The file, under the segment's own name.
    pub path: PathBuf,
}

impl Sample {
    pub fn read(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }
}

/// Every sample; none, said loudly, where there are none.
pub fn all() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let folder = folder();
        if !folder.is_dir() {
            missing(&format!(
                "the WAL samples are not in {}; set WALZIP_SAMPLES to where they are",
                folder.display()
            ));
            return Vec::new();
        }
        let mut samples = unpack_all(&folder);
        samples.sort();
        assert!(!samples.is_empty(), "{} has no samples", folder.display());
        samples
    })
}

/// Says what no test can do here, past the test runner's capturing.
pub fn note(what: &str) {
    let line = format!("NOT RUN: {what}\n");
    // The text goes to the terminal even if the test passes, which `eprintln` does not do, and
    // into the list that `make test` ends with.
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error is writable");
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-run.txt");
    let file = fs::OpenOptions::new().create(true).append(true).open(list);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the target directory is writable");
}

/// Says what a test could not do; fails under `CI=true`.
pub fn missing(what: &str) {
    note(what);
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "CI=true, and {what}");
}

fn folder() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/wal-samples");
    std::env::var_os("WALZIP_SAMPLES").map_or(beside, PathBuf::from)
}

fn unpack_all(folder: &Path) -> Vec<Sample> {
    let workloads = children(folder).into_iter().filter(|path| path.is_dir());
    let files = workloads.flat_map(|workload| children(&workload));
    files
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "xz"))
        .map(unpack)
        .collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("a readable folder").path())
        .collect()
}

/// Unpacks a file unless an earlier run did. It appears under its name only when whole.
fn unpack(packed: PathBuf) -> Sample {
    let workload = packed
        .parent()
        .and_then(Path::file_name)
        .expect("a workload's folder");
    let workload = workload.to_string_lossy().into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("wal-samples")
        .join(&workload);
    let path = folder.join(packed.file_stem().expect("a file name"));
    if !path.exists() {
        fs::create_dir_all(&folder).expect("the target directory is writable");
        let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
        fs::write(&temporary, unpacked(&packed)).expect("the target directory is writable");
        fs::rename(&temporary, &path).expect("the target directory is writable");
    }
    Sample { workload, path }
}

/// The content of an xz-compressed file.
pub fn unpacked(packed: &Path) -> Vec<u8> {
    let output = Command::new("xz").arg("-dc").arg(packed).output();
    let output = output.expect("xz (of the package xz-utils) runs");
    assert!(output.status.success(), "xz -dc {}", packed.display());
    output.stdout
}
