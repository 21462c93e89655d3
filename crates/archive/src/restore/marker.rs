//! The file that marks a directory as being restored, from before the first byte is written until
//! the control file has its name.
//!
//! It says whose the directory is, which its control file cannot while the restore lasts, and
//! which directories of tablespaces the restore has taken. An interrupted restore is continued by
//! `restore --delta`, and by nothing else.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use walzip_repo::ClusterIdentity;

use super::directories::{Directories, UNFINISHED};
use crate::error::ArchiveError;
use crate::files::durable;
use crate::files::regular_file;

/// A path in it has at most 4 KiB, and no cluster has so many tablespaces.
const BYTES_MAX: u64 = 16 << 20;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    /// As text, as in a repository.
    system_identifier: String,
    major: u32,
    /// The directories of tablespaces in which the restore writes. One whose path is no UTF-8 is
    /// missing, and a restore that is repeated does not know it again.
    pub(super) tablespaces: Vec<PathBuf>,
}

impl Marker {
    /// Marks directories that are restored now, and those that an interrupted restore had taken.
    pub(super) fn new(
        cluster: ClusterIdentity,
        directories: &Directories,
        earlier: Option<&Marker>,
    ) -> Marker {
        let earlier = earlier.iter().flat_map(|marker| &marker.tablespaces);
        let taken = directories.tablespaces.values().chain(earlier);
        let mut tablespaces: Vec<PathBuf> = taken
            .filter(|path| path.to_str().is_some())
            .cloned()
            .collect();
        tablespaces.sort();
        tablespaces.dedup();
        Marker {
            system_identifier: cluster.system_id.to_string(),
            major: cluster.major,
            tablespaces,
        }
    }

    /// What a data directory is marked with, if it is.
    pub(super) fn read(data: &Path) -> Result<Option<Marker>, ArchiveError> {
        let path = data.join(UNFINISHED);
        if let Err(error) = fs::symlink_metadata(&path)
            && error.kind() == io::ErrorKind::NotFound
        {
            return Ok(None);
        }
        let mut text = Vec::new();
        let opened = regular_file::open(&path);
        opened
            .and_then(|(file, _)| file.take(BYTES_MAX).read_to_end(&mut text))
            .map_err(|error| ArchiveError::file("read", &path, error))?;
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|error| ArchiveError::NotOfCluster {
            path: data.to_owned(),
            reason: format!("its {UNFINISHED} cannot be read: {error}"),
        })
    }

    /// Whose the directory is; nothing where that is not written as it has to be.
    pub(super) fn cluster(&self) -> Option<ClusterIdentity> {
        format!("{}-{}", self.major, self.system_identifier)
            .parse()
            .ok()
    }

    /// Marks a data directory, durably.
    pub(super) fn write(&self, data: &Path) -> Result<(), ArchiveError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| ArchiveError::Internal(error.to_string()))?;
        text.push(b'\n');
        durable::write_file(&data.join(UNFINISHED), &text)
    }

    /// Takes the mark away, when everything is in place.
    pub(super) fn remove(data: &Path) -> Result<(), ArchiveError> {
        let path = data.join(UNFINISHED);
        fs::remove_file(&path).map_err(|error| ArchiveError::file("remove", &path, error))?;
        durable::sync_directory(data)
    }
}

/// Keeps a second restore out of a data directory, until it is dropped.
pub(super) struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    pub(super) fn take(data: &Path) -> Result<DirectoryLock, ArchiveError> {
        let failed = |error| ArchiveError::file("lock", data, error);
        let directory = File::open(data).map_err(failed)?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // A file system without locks cannot tell.
            Ok(()) | Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOLCK) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let path = data.display();
                let reason = format!("another restore is writing into {path}");
                return Err(ArchiveError::Request(reason));
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        Ok(DirectoryLock {
            _directory: directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn says_whose_a_directory_is_and_what_was_taken() {
        let scratch = tempfile::tempdir().expect("a directory");
        let data = scratch.path();
        assert_eq!(Marker::read(data).expect("nothing there"), None);
        let cluster = ClusterIdentity {
            system_id: u64::MAX,
            major: 15,
        };
        let to = |path: &str| {
            let tablespaces = BTreeMap::from([(16385, PathBuf::from(path))]);
            Directories::of(data.to_owned(), tablespaces)
        };
        let first = Marker::new(cluster, &to("/srv/old"), None);
        first.write(data).expect("written");
        let read = Marker::read(data).expect("readable").expect("there");
        assert_eq!((&read, read.cluster()), (&first, Some(cluster)));
        let second = Marker::new(cluster, &to("/srv/new"), Some(&read));
        let taken = ["/srv/new", "/srv/old"].map(PathBuf::from);
        assert_eq!(second.tablespaces, taken);
        Marker::remove(data).expect("removed");
        assert_eq!(Marker::read(data).expect("nothing there"), None);
        fs::write(data.join(UNFINISHED), b"").expect("written");
        let refused = Marker::read(data);
        assert!(matches!(refused, Err(ArchiveError::NotOfCluster { .. })));
    }

    #[test]
    fn only_one_restore_has_a_directory_at_a_time() {
        let scratch = tempfile::tempdir().expect("a directory");
        let first = DirectoryLock::take(scratch.path()).expect("free");
        assert!(DirectoryLock::take(scratch.path()).is_err());
        drop(first);
        DirectoryLock::take(scratch.path()).expect("free again");
    }
}
