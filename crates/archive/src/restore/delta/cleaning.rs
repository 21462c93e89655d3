//! Takes out of a data directory what its backup does not have.
//!
//! Before the files are written, everything goes that a backup does not list, or that cannot be
//! written over without reaching something else: links, FIFOs, files with a second name, files of
//! another owner. Then nothing that is written can leave the directory. Directories go at the
//! end, when it is known which of them the backup has.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::backups::backup_files::TABLESPACE_LINKS;
use crate::error::ArchiveError;
use crate::restore::directories::{Directories, UNFINISHED};
use crate::restore::unpack::CONTROL_FILE_UNFINISHED;

/// What a restore has there itself, if it is a file.
const OWN: [&str; 3] = [UNFINISHED, CONTROL_FILE_UNFINISHED, "recovery.signal"];

/// Refuses directories that cannot be cleaned, before anything is changed: those of file systems have
/// one of root's, `lost+found`.
pub(super) fn check_access<'p>(
    directories: &'p Directories,
    given_up: impl Iterator<Item = &'p PathBuf>,
) -> Result<(), ArchiveError> {
    let mut waiting = vec![directories.data.clone()];
    for location in given_up.chain(directories.tablespaces.values()) {
        if location.is_dir() {
            let versions = version_directories(location, directories.major())?;
            waiting.extend(directories_of(versions)?);
        }
    }
    while let Some(directory) = waiting.pop() {
        let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(&directory, needed)
            .map_err(|error| ArchiveError::file("clean", &directory, error.into()))?;
        waiting.extend(directories_of(entries(&directory)?)?);
    }
    Ok(())
}

/// Those of entries that are directories, and no links to them.
fn directories_of(entries: Vec<DirEntry>) -> Result<Vec<PathBuf>, ArchiveError> {
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        if metadata(&path)?.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files, links, and what else is no directory.
    pub files: u64,
    /// Directories.
    pub directories: u64,
}

/// A directory to clean, and how the names of what is in it begin in a manifest.
struct Root {
    path: PathBuf,
    name: Vec<u8>,
}

/// The data directory, and of each tablespace what this major has in it.
fn roots(directories: &Directories) -> Result<Vec<Root>, ArchiveError> {
    let mut roots = vec![Root {
        path: directories.data.clone(),
        name: Vec::new(),
    }];
    for (oid, path) in &directories.tablespaces {
        for entry in version_directories(path, directories.major())? {
            let mut name = format!("{TABLESPACE_LINKS}/{oid}/").into_bytes();
            name.extend_from_slice(entry.file_name().as_bytes());
            let path = entry.path();
            match metadata(&path)?.is_dir() {
                true => roots.push(Root { path, name }),
                false => remove_file(&path)?,
            }
        }
    }
    Ok(roots)
}

/// What a cluster of this major has in the directory of a tablespace: other majors may have
/// theirs beside it.
fn version_directories(location: &Path, major: u32) -> Result<Vec<DirEntry>, ArchiveError> {
    let prefix = format!("PG_{major}_");
    let mut entries = entries(location)?;
    entries.retain(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()));
    Ok(entries)
}

/// Empties the directory of a tablespace that the backup does not have, as far as it is this
/// major's.
pub(super) fn empty_tablespace(
    location: &Path,
    major: u32,
    removed: &mut Removed,
) -> Result<(), ArchiveError> {
    if !location.is_dir() {
        return Ok(());
    }
    for entry in version_directories(location, major)? {
        remove_tree(&entry.path(), removed)?;
    }
    Ok(())
}

/// Removes the files that a backup does not list. `files` are the names in its manifest.
pub(super) fn remove_files(
    directories: &Directories,
    files: &HashSet<Vec<u8>>,
    removed: &mut Removed,
) -> Result<(), ArchiveError> {
    let user = rustix::process::geteuid().as_raw();
    let mut waiting = roots(directories)?;
    while let Some(root) = waiting.pop() {
        let is_links = root.name == TABLESPACE_LINKS.as_bytes();
        for entry in entries(&root.path)? {
            let path = entry.path();
            let name = below(&root.name, &entry.file_name());
            let found = metadata(&path)?;
            let is_listed = files.contains(&name);
            if found.is_dir() && is_listed {
                remove_tree(&path, removed)?;
            } else if found.is_dir() {
                waiting.push(Root { path, name });
            } else if is_links && is_planned(directories, &entry.file_name()) {
                // It is made again when everything is in its place.
                remove_file(&path)?;
            } else if !(is_listed || is_own(&name)) || !can_be_written_over(&found, user) {
                tracing::info!("removing {}", path.display());
                remove_file(&path)?;
                removed.files += 1;
            }
        }
    }
    Ok(())
}

/// Removes the directories that a backup does not have, which are empty by now.
pub(super) fn remove_directories(
    directories: &Directories,
    kept: &HashSet<Vec<u8>>,
    removed: &mut Removed,
) -> Result<(), ArchiveError> {
    let mut waiting = roots(directories)?;
    let mut extra = Vec::new();
    while let Some(root) = waiting.pop() {
        for entry in entries(&root.path)? {
            let path = entry.path();
            if metadata(&path)?.is_dir() {
                let name = below(&root.name, &entry.file_name());
                waiting.push(Root { path, name });
            }
        }
        if !root.name.is_empty() && !kept.contains(&root.name) {
            extra.push(root.path);
        }
    }
    // What lies deeper was found later.
    for path in extra.iter().rev() {
        tracing::info!("removing {}", path.display());
        fs::remove_dir(path).map_err(|error| ArchiveError::file("remove", path, error))?;
        removed.directories += 1;
    }
    Ok(())
}

fn below(directory: &[u8], name: &OsStr) -> Vec<u8> {
    match directory {
        [] => name.as_bytes().to_vec(),
        directory => [directory, name.as_bytes()].join(&b'/'),
    }
}

fn is_own(name: &[u8]) -> bool {
    OWN.iter().any(|own| own.as_bytes() == name)
}

fn is_planned(directories: &Directories, name: &OsStr) -> bool {
    let oid = name.to_str().and_then(|name| name.parse().ok());
    oid.is_some_and(|oid: u32| directories.tablespaces.contains_key(&oid))
}

/// Whether a file is reached by this name only, and is ours.
fn can_be_written_over(found: &Metadata, user: u32) -> bool {
    found.is_file() && found.nlink() == 1 && found.uid() == user
}

/// Removes a directory and everything in it, or what else has this name; no link is followed.
fn remove_tree(path: &Path, removed: &mut Removed) -> Result<(), ArchiveError> {
    tracing::info!("removing {}", path.display());
    if !metadata(path)?.is_dir() {
        removed.files += 1;
        return remove_file(path);
    }
    let mut waiting = vec![path.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = waiting.pop() {
        for entry in entries(&directory)? {
            let path = entry.path();
            match metadata(&path)?.is_dir() {
                true => waiting.push(path),
                false => {
                    remove_file(&path)?;
                    removed.files += 1;
                }
            }
        }
        found.push(directory);
    }
    for directory in found.iter().rev() {
        let gone = fs::remove_dir(directory);
        gone.map_err(|error| ArchiveError::file("remove", directory, error))?;
        removed.directories += 1;
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<DirEntry>, ArchiveError> {
    fs::read_dir(directory)
        .and_then(Iterator::collect)
        .map_err(|error| ArchiveError::file("read", directory, error))
}

fn metadata(path: &Path) -> Result<Metadata, ArchiveError> {
    fs::symlink_metadata(path).map_err(|error| ArchiveError::file("look at", path, error))
}

fn remove_file(path: &Path) -> Result<(), ArchiveError> {
    fs::remove_file(path).map_err(|error| ArchiveError::file("remove", path, error))
}
