//! Whether the store's directory is still the one that was used before.
//!
//! While a process writes, a file system may be unmounted or a directory moved. What is stored then
//! would lie where nobody looks for it, below a mount point for one, and success would be reported.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::disk_error::DiskError;
use super::misplaced::Misplaced;

/// Device and inode.
type Identity = (u64, u64);

/// The directory of a store, as one process has seen it.
#[derive(Debug)]
pub(super) struct SameDirectory {
    path: PathBuf,
    seen: OnceLock<Identity>,
}

impl SameDirectory {
    /// Nothing was seen of it yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: OnceLock::new(),
        }
    }

    /// An object is there: from now on it has to be this directory.
    pub(super) fn learn(&self) {
        if self.seen.get().is_none()
            && let Ok(Some(identity)) = self.identity()
        {
            // Another thread may have seen it in the meantime.
            let _ = self.seen.set(identity);
        }
    }

    /// Refuses to go on where it was seen, and is gone or another one now.
    pub(super) fn check(&self) -> Result<(), DiskError> {
        let Some(&seen) = self.seen.get() else {
            return Ok(());
        };
        match self.identity()? {
            Some(now) if now == seen => Ok(()),
            Some(_) => Err(Misplaced::replaced(&self.path)),
            None => Err(Misplaced::gone(&self.path)),
        }
    }

    /// It may be reached through a link.
    fn identity(&self) -> Result<Option<Identity>, DiskError> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
            Err(error) if super::is_missing(&error) => Ok(None),
            Err(error) => Err(DiskError::at("look at", &self.path)(error)),
        }
    }
}
