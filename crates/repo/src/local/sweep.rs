//! Removes the temporary files of processes that were killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::disk::is_in_use;

/// How long a temporary file must have been left alone before it counts as abandoned.
///
/// Its lock shows whether it is in use; the age is for the moment between its creation
/// and its lock, and for file systems that do not pass locks on to other hosts. A
/// writer touches its file far more often than this.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes the files in a staging directory that no process writes to any more.
///
/// Whatever cannot be looked at or removed stays for the next time: sweeping must not
/// make a put fail.
pub(crate) fn sweep(staging_directory: &Path, abandoned_after: Duration) {
    let Ok(entries) = fs::read_dir(staging_directory) else {
        return;
    };
    for entry in entries.flatten() {
        let is_old = entry
            .metadata()
            .ok()
            .filter(fs::Metadata::is_file)
            .and_then(|metadata| metadata.modified().ok()?.elapsed().ok())
            .is_some_and(|age| age >= abandoned_after);
        if is_old && !is_in_use(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::disk::{Disk, RealDisk};

    #[test]
    fn a_file_in_use_is_never_swept_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1");
        let file = RealDisk.create_new(&path).unwrap();
        sweep(directory.path(), Duration::ZERO);
        assert!(path.exists());
        drop(file);
        sweep(directory.path(), ABANDONED_AFTER);
        assert!(path.exists());
        sweep(directory.path(), Duration::ZERO);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_a_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        sweep(directory.path(), Duration::ZERO);
        assert!(link.symlink_metadata().is_ok());
        assert!(outside.path().exists());
        assert!(directory.path().join("directory").exists());
        sweep(&directory.path().join("missing"), Duration::ZERO);
    }
}
