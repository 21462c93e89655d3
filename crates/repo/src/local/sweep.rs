//! Removes the temporary files of processes that were killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::disk::is_in_use;

/// How long a temporary file must have been left alone before it counts as abandoned, where its
/// lock shows whether it is in use.
///
/// That is seen on this machine's own disks. The age is for the moment between the creation of a
/// file and its lock, and for hosts that write to the same disk through a file server, which keeps
/// their locks to itself. A writer touches its file far more often than this. What is left of a
/// backup that was killed can be large, and may fill the disk that archiving needs.
const ABANDONED_AFTER_HERE: Duration = Duration::from_secs(15 * 60);

/// The same for file systems that may not pass locks on to other hosts, or are not known.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// File systems of one machine (statfs(2)): btrfs, ext2 to ext4, f2fs, overlayfs, tmpfs, XFS, ZFS.
const OF_THIS_MACHINE: [u32; 7] = [
    0x9123_683E,
    0xEF53,
    0xF2F5_2010,
    0x794C_7630,
    0x0102_1994,
    0x5846_5342,
    0x2FC1_2FC1,
];

/// How long a temporary file in this directory must have been left alone.
pub(crate) fn abandoned_after(staging_directory: &Path) -> Duration {
    let kind = rustix::fs::statfs(staging_directory).map(|found| u32::try_from(found.f_type));
    match kind {
        Ok(Ok(kind)) if OF_THIS_MACHINE.contains(&kind) => ABANDONED_AFTER_HERE,
        _ => ABANDONED_AFTER,
    }
}

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
    fn what_was_left_on_this_machine_is_swept_up_soon_and_elsewhere_late() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(abandoned_after(Path::new("/proc")), ABANDONED_AFTER);
        assert_eq!(abandoned_after(Path::new("/missing")), ABANDONED_AFTER);
        let left = |minutes: u64| {
            let path = directory.path().join(minutes.to_string());
            let file = fs::File::create(&path).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(60 * minutes);
            file.set_modified(then).unwrap();
            path
        };
        let (new, old) = (left(5), left(20));
        sweep(directory.path(), ABANDONED_AFTER_HERE);
        assert!(new.exists());
        assert!(!old.exists());
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
