//! What lies in a place of the repository and does not belong there.

use std::fs::{self, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::disk_error::DiskError;
use crate::error::RepoError;

/// Something in the place of a plain file or directory of ours. It is neither opened, since that
/// may wait for ever or do something, nor followed.
#[derive(Debug, thiserror::Error)]
#[error("{} is {found}", path.display())]
pub(crate) struct Misplaced {
    path: PathBuf,
    found: String,
    /// Whether it is found under an object's own key.
    is_object: bool,
}

impl Misplaced {
    /// Refuses what is not a directory.
    pub(super) fn check_directory(path: &Path, metadata: &Metadata) -> Result<(), DiskError> {
        if metadata.is_dir() {
            return Ok(());
        }
        let found = format!("{}, not a directory", kind(metadata.file_type()));
        Err(Self::error("use", path, found, false))
    }

    /// Refuses what is not a file.
    pub(super) fn check_object(path: &Path, metadata: &Metadata) -> Result<(), DiskError> {
        if metadata.is_file() {
            return Ok(());
        }
        let found = format!("{}, not a file", kind(metadata.file_type()));
        Err(Self::error("open", path, found, !metadata.is_symlink()))
    }

    /// A place on another file system than the temporary files, which no file can be moved to.
    pub(super) fn on_another_file_system(directory: &Path) -> DiskError {
        let found = "on another file system or mount than .incoming".to_owned();
        Self::error("use", directory, found, false)
    }

    /// The store's directory is not there any more.
    pub(super) fn gone(directory: &Path) -> DiskError {
        Self::error("use", directory, "gone".to_owned(), false)
    }

    /// The store's directory has become another one.
    pub(super) fn replaced(directory: &Path) -> DiskError {
        let found = "another directory than a moment ago".to_owned();
        Self::error("use", directory, found, false)
    }

    fn error(action: &'static str, path: &Path, found: String, is_object: bool) -> DiskError {
        let misplaced = Self {
            path: path.to_owned(),
            found,
            is_object,
        };
        let error = io::Error::new(ErrorKind::InvalidData, misplaced);
        DiskError::at(action, path)(error)
    }

    /// What an error of the operating system wraps, when it is this.
    pub(crate) fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// For the caller: an object of which nothing is left, or a repository in disorder.
    pub(crate) fn to_error(&self, key: &str) -> RepoError {
        let detail = format!("it is {}", self.found);
        if self.is_object {
            let key = key.to_owned();
            return RepoError::Corrupt { key, detail };
        }
        RepoError::NotInPlace {
            place: self.path.display().to_string(),
            detail,
        }
    }
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_symlink() {
        "a link"
    } else if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_file() {
        "a file"
    } else {
        "a device"
    }
}

/// What is at a path, without following a link; `None` when there is nothing.
pub(super) fn look(path: &Path) -> Result<Option<Metadata>, DiskError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if super::is_missing(&error) => Ok(None),
        Err(error) => Err(DiskError::at("look at", path)(error)),
    }
}
