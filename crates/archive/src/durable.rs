//! Local files that are there whole, and stay.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

use crate::error::ArchiveError;

/// Writes a file under a temporary name, makes it durable and renames it into place.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), ArchiveError> {
    let temporary = temporary_name(path)?;
    let written = write_and_rename(&temporary, path, content);
    if written.is_err() {
        // The error that counts is the first one; it may well prevent this too.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_and_rename(temporary: &Path, path: &Path, content: &[u8]) -> Result<(), ArchiveError> {
    let failed = |action, place: &Path| {
        let place = place.to_owned();
        move |error| ArchiveError::file(action, &place, error)
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)
        .map_err(failed("create", temporary))?;
    file.write_all(content)
        .map_err(failed("write", temporary))?;
    file.sync_all().map_err(failed("sync", temporary))?;
    fs::rename(temporary, path).map_err(failed("rename to", path))?;
    sync_directory(&parent(path))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), ArchiveError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| ArchiveError::file("sync", directory, error))
}

fn temporary_name(path: &Path) -> Result<PathBuf, ArchiveError> {
    let Some(name) = path.file_name() else {
        return Err(ArchiveError::Request(format!(
            "{} names no file",
            path.display()
        )));
    };
    let name = name.to_string_lossy();
    Ok(parent(path).join(format!(".{name}.walzip.{}.tmp", process::id())))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes everything on the file system of a directory durable.
///
/// One call instead of an fsync for each of a cluster's thousands of files. Linux reports errors
/// of writing back through it since 5.8.
pub(crate) fn sync_file_system(directory: &Path) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::file("sync", directory, error);
    let opened = File::open(directory).map_err(failed)?;
    nix::unistd::syncfs(&opened).map_err(|errno| failed(errno.into()))
}
