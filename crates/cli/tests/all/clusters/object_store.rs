//! What the repository holds, read from the file system without walzip's own commands.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clusters::site::Site;

/// Every WAL file under its final name, decoded, with its name in the archive.
///
/// An object that does not decode is the failure that these tests look for.
#[track_caller]
pub fn archived_files(site: &Site) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for path in files_below(&site.repository().join("wal")) {
        let file_name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a readable name");
        // Temporary names are not final ones: nobody takes them for an archived file.
        let Some(name) = file_name.strip_suffix(".wz") else {
            continue;
        };
        let object = fs::read(&path).expect("the object is readable");
        let original = walzip_codec::decode(&object)
            .unwrap_or_else(|error| panic!("{} is not whole: {error}", path.display()));
        files.push((name.to_owned(), original));
    }
    files
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return files;
    };
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            files.extend(files_below(&path))
        } else {
            files.push(path)
        }
    }
    files
}

/// The object of a WAL file, where there is one.
pub fn object_of(site: &Site, name: &str) -> Option<PathBuf> {
    let wanted = format!("{name}.wz");
    let objects = files_below(&site.repository().join("wal"));
    objects.into_iter().find(|path| path.ends_with(&wanted))
}

/// Every segment from the first to the last is there. Segments are of 1 MB, and of one
/// timeline.
#[track_caller]
pub fn assert_no_gaps(files: &[(String, Vec<u8>)]) {
    let number = |name: &str| {
        let part = |range| u64::from_str_radix(&name[range], 16).expect("a segment's name");
        part(8..16) * 4096 + part(16..24)
    };
    let mut numbers: Vec<u64> = files
        .iter()
        .filter(|(name, _)| name.len() == 24)
        .map(|(name, _)| number(name))
        .collect();
    numbers.sort_unstable();
    let gap = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]);
    assert!(gap.is_none(), "segments are missing between {gap:x?}");
    assert!(numbers.len() > 1, "only {} segments", numbers.len());
}
