//! The segments to measure on: found, unpacked where needed, hashed.
//!
//! Segments are grouped by folder, because a folder stands for a workload and a mean over
//! workloads should not depend on how many segments each has. Hashing reads every byte, so
//! afterwards the input is in the page cache for all contenders alike.
//!
//! Links are followed here, because not every program does (zstd refuses them, gzip says that
//! it ignores them); a link gives its own name and folder, the file it leads to the bytes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Serialize;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::contender::find_program;
use crate::error::Error;
use crate::process::{self, Failure, Surroundings};
use crate::progress::Progress;
use crate::sample::Sample;
use crate::sample::Sampled;

/// How many segments of a live server or of an archive are taken unless the caller says otherwise.
pub const SAMPLE_SEGMENTS: usize = 10;

/// One segment that is measured on.
#[derive(Clone, Debug, Serialize)]
pub struct Input {
    /// The folder that it was found in: its workload.
    pub folder: String,
    /// Its file's name, without the suffix of the compression that it came in.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The BLAKE3 hash of its bytes.
    pub blake3: String,
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

impl Input {
    /// Whether the folder counts as a real workload: pgbench's padded rows, an idle server and
    /// 64 MB segments do not.
    pub fn is_realistic(&self) -> bool {
        is_realistic(&self.folder)
    }

    /// What it says of itself, where it is a segment.
    pub(crate) fn header(&self) -> io::Result<Option<SegmentHeader>> {
        let mut beginning = Vec::new();
        File::open(&self.path)?
            .take(64)
            .read_to_end(&mut beginning)?;
        Ok(SegmentHeader::read(&beginning).ok())
    }
}

pub(crate) fn is_realistic(folder: &str) -> bool {
    !(folder.starts_with("pgbench-") || folder == "idle" || folder == "seg64")
}

/// A segment file as it was found.
struct Found {
    folder: String,
    name: String,
    /// The file itself, however many links led to it.
    path: PathBuf,
    compressed: bool,
}

/// Which of the segments that are found are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    All,
    FirstOfFolder,
    AtRandom(Sample),
}

/// Finds, unpacks and hashes the segments below `paths` and in a server's pg_wal.
pub(crate) fn gather(
    paths: &[PathBuf],
    pg_wal: Option<(&Path, usize)>,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Vec<Input>, Error> {
    Ok(gather_some(paths, pg_wal, Take::All, surroundings, progress)?.0)
}

/// The same, and how many there were where some were taken at random.
pub(crate) fn gather_some(
    paths: &[PathBuf],
    pg_wal: Option<(&Path, usize)>,
    take: Take,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<(Vec<Input>, Option<Sampled>), Error> {
    let mut found = Vec::new();
    for path in paths {
        find(path, true, &mut found)?;
    }
    let mut sampled = None;
    if let Take::AtRandom(sample) = take {
        let (chosen, of) = sample.take(found);
        (found, sampled) = (chosen, Some(of));
    }
    if take == Take::FirstOfFolder {
        let mut seen = Vec::new();
        found.retain(|file| {
            let first = !seen.contains(&file.folder);
            seen.push(file.folder.clone());
            first
        });
    }
    let mut inputs = Vec::new();
    for file in &found {
        inputs.push(prepare(file, inputs.len(), surroundings)?);
    }
    if let Some((directory, most)) = pg_wal {
        inputs.extend(copy_from_server(directory, most, surroundings, progress)?);
    }
    if inputs.is_empty() {
        return Err(Error::Usage(
            "nothing to measure on: name WAL segments or a pg_wal directory".to_owned(),
        ));
    }
    Ok((inputs, sampled))
}

/// A file is taken whatever its name; of a directory the segments, and those of its folders.
fn find(path: &Path, into_folders: bool, found: &mut Vec<Found>) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(|source| Error::file(path, source))?;
    if !metadata.is_dir() {
        found.push(Found {
            folder: folder_name(path)?,
            name: segment_name(path),
            path: path
                .canonicalize()
                .map_err(|source| Error::file(path, source))?,
            compressed: is_xz(path),
        });
        return Ok(());
    }
    for entry in sorted_entries(path)? {
        let is_segment = entry.is_file() && is_segment_name(&segment_name(&entry));
        if is_segment || (into_folders && entry.is_dir()) {
            find(&entry, false, found)?;
        }
    }
    Ok(())
}

/// The name of the directory that a path stands in, as the caller wrote it where that says it.
fn folder_name(path: &Path) -> Result<String, Error> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let name = match parent.file_name() {
        Some(name) => name.to_owned(),
        None => {
            let here = match parent.as_os_str().is_empty() {
                true => Path::new("."),
                false => parent,
            };
            let absolute = here
                .canonicalize()
                .map_err(|source| Error::file(here, source))?;
            absolute.file_name().unwrap_or_default().to_owned()
        }
    };
    Ok(name.to_string_lossy().into_owned())
}

fn is_xz(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "xz")
}

pub(crate) fn sorted_entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut entries = entries.map_err(|source| Error::file(directory, source))?;
    entries.sort();
    Ok(entries)
}

pub(crate) fn segment_name(path: &Path) -> String {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.strip_suffix(".xz").map(str::to_owned).unwrap_or(name)
}

pub(crate) fn is_segment_name(name: &str) -> bool {
    name.parse::<SegmentName>().is_ok()
}

/// Unpacks a segment when it is compressed, and hashes it.
fn prepare(found: &Found, number: usize, surroundings: Surroundings<'_>) -> Result<Input, Error> {
    if surroundings.cancel.is_requested() {
        return Err(Error::Interrupted);
    }
    let name = found.name.clone();
    let path = if found.compressed || is_xz(&found.path) {
        let directory = folder_for(number, surroundings)?;
        let path = directory.join(&name);
        unpack(&found.path, &path, surroundings)?;
        path
    } else {
        found.path.clone()
    };
    describe(found.folder.clone(), name, path)
}

/// A directory for one input: a file keeps its own name, because some programs store it.
fn folder_for(number: usize, surroundings: Surroundings<'_>) -> Result<PathBuf, Error> {
    let directory = surroundings.temp_dir.join(format!("input-{number}"));
    fs::create_dir(&directory).map_err(|source| Error::file(&directory, source))?;
    Ok(directory)
}

fn describe(folder: String, name: String, path: PathBuf) -> Result<Input, Error> {
    let bytes = fs::metadata(&path)
        .map_err(|source| Error::file(&path, source))?
        .len();
    if bytes == 0 {
        return Err(Error::Usage(format!(
            "{} is empty: there is nothing to measure",
            path.display()
        )));
    }
    let blake3 = hash(&path)
        .map_err(|source| Error::file(&path, source))?
        .to_string();
    Ok(Input {
        folder,
        name,
        bytes,
        blake3,
        path,
    })
}

fn unpack(compressed: &Path, to: &Path, surroundings: Surroundings<'_>) -> Result<(), Error> {
    let xz = find_program("xz", surroundings.search_path).ok_or(Error::Missing {
        program: "xz",
        package: "xz-utils",
        purpose: "it unpacks .xz samples",
    })?;
    let output = File::create(to).map_err(|source| Error::file(to, source))?;
    let arguments = ["-dc".into(), compressed.as_os_str().to_owned()];
    process::run(&xz, &arguments, &[], Stdio::from(output), surroundings).map_err(|failure| {
        match failure {
            Failure::Cancelled => Error::Interrupted,
            failure => Error::Unpack {
                path: compressed.to_owned(),
                reason: failure.to_string(),
            },
        }
    })?;
    Ok(())
}

/// Copies the newest complete segments: a server may rename its own at any moment.
///
/// pg_wal also holds segments that were recycled for later use, with old content under a new
/// name; and the newest is still being written. Neither is what gets archived.
fn copy_from_server(
    directory: &Path,
    most: usize,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Vec<Input>, Error> {
    let mut written = complete_segments(directory)?;
    let complete = written.len();
    written.drain(..complete.saturating_sub(most));
    progress.note(&format!(
        "{}: the newest {} of {complete} complete segments are measured on",
        directory.display(),
        written.len()
    ));
    let mut inputs = Vec::new();
    for (number, path) in written.iter().enumerate() {
        if surroundings.cancel.is_requested() {
            return Err(Error::Interrupted);
        }
        let name = segment_name(path);
        let copy = folder_for(1000 + number, surroundings)?.join(&name);
        fs::copy(path, &copy).map_err(|source| Error::file(path, source))?;
        inputs.push(describe("pg_wal".to_owned(), name, copy)?);
    }
    Ok(inputs)
}

/// The segments of a server's pg_wal that it has finished, oldest first.
pub(crate) fn complete_segments(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    for path in sorted_entries(directory)? {
        let name = segment_name(&path);
        if is_segment_name(&name) && path.is_file() && holds_what_it_is_named_for(&path, &name) {
            written.push(path);
        }
    }
    written.pop();
    if written.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no complete segment yet: the one that is being written does not count",
            directory.display()
        )));
    }
    Ok(written)
}

/// By position alone: after a promotion, a segment may begin with the older timeline's page.
fn holds_what_it_is_named_for(path: &Path, name: &str) -> bool {
    let mut beginning = [0; 64];
    let read =
        File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut beginning));
    let (Ok(()), Ok(name)) = (read, name.parse::<SegmentName>()) else {
        return false;
    };
    SegmentHeader::read(&beginning).is_ok_and(|header| {
        name.start(header.segment_size)
            .is_ok_and(|start| start == header.start)
    })
}

/// The BLAKE3 hash of a file, read in small pieces: the harness stays small.
pub(crate) fn hash(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_are_24_upper_case_digits_with_or_without_xz() {
        assert!(is_segment_name(&segment_name(Path::new(
            "/a/00000001000000000000008B.xz"
        ))));
        assert!(is_segment_name(&segment_name(Path::new(
            "00000001000000000000008B"
        ))));
        assert!(!is_segment_name(&segment_name(Path::new("README.md"))));
        assert!(!is_segment_name(&segment_name(Path::new(
            "00000001000000000000008B.partial"
        ))));
    }

    #[test]
    fn a_link_keeps_its_own_name_and_folder_and_leads_to_the_file() {
        let directory = tempfile::TempDir::new().unwrap();
        let name = "00000001000000000000008B";
        fs::write(directory.path().join("object-17"), b"bytes").unwrap();
        let folder = directory.path().join("oltp");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink("../object-17", folder.join(name)).unwrap();
        let mut found = Vec::new();
        find(&folder, true, &mut found).unwrap();
        assert_eq!((&*found[0].folder, &*found[0].name), ("oltp", name));
        assert!(found[0].path.ends_with("object-17") && !found[0].compressed);
    }

    #[test]
    fn padded_idle_and_oversized_samples_are_not_realistic() {
        for folder in ["pgbench-off", "idle", "seg64"] {
            assert!(!is_realistic(folder), "{folder}");
        }
        for folder in ["oltp-mixed", "bulk-copy", "pg_wal"] {
            assert!(is_realistic(folder), "{folder}");
        }
    }
}
