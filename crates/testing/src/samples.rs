//! The WAL segments that real servers wrote.
//!
//! They lie beside the repository, xz-compressed, in `../shared/wal-samples/<workload>/` or
//! where `WALZIP_SAMPLES` says. They are unpacked once, into the target directory. Without
//! them the tests that need them say so; with `CI=true` they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{not_run, temporary_directory};

/// A segment, unpacked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The workload: the name of the folder.
    pub workload: String,
    /// The file, under the segment's own name.
    pub path: PathBuf,
}

impl Sample {
    /// The segment's content.
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
            not_run(&format!(
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
        not_run(&format!("there is no sample of {workload}"));
    }
    found
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
    let folder = temporary_directory().join("wal-samples").join(&workload);
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
