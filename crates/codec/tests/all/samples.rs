//! The WAL segments that real servers wrote. They lie beside the repository, xz-compressed,
//! in `../shared/wal-samples/<workload>/` or where `WALZIP_SAMPLES` says, and are unpacked
//! once, into the target directory. Without them the tests that need them say so; with
//! `CI=true` they fail.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The workload: the name of the folder.
    pub workload: String,
    path: PathBuf,
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

/// The first sample of a workload.
pub fn of_workload(workload: &str) -> Option<&'static Sample> {
    let found = all().iter().find(|sample| sample.workload == workload);
    if found.is_none() && !all().is_empty() {
        missing(&format!("there is no sample of {workload}"));
    }
    found
}

/// The whole of a round that `make test` does not have the time for was asked for.
pub fn thorough() -> bool {
    std::env::var_os("WALZIP_TEST_ALL").is_some_and(|value| value == "1")
}

fn missing(what: &str) {
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
        let output = Command::new("xz").arg("-dc").arg(&packed).output();
        let output = output.expect("xz (of the package xz-utils) runs");
        assert!(output.status.success(), "xz -dc {}", packed.display());
        let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
        fs::write(&temporary, output.stdout).expect("the target directory is writable");
        fs::rename(&temporary, &path).expect("the target directory is writable");
    }
    Sample { workload, path }
}
