//! What a directory of received WAL has, for those who look at it while somebody receives.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::ClusterIdentity;

use super::files::{read_header, received_end, wal_names};
use crate::error::ArchiveError;

/// How far WAL is received into a directory, and what waits there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiveState {
    /// The directory.
    pub directory: PathBuf,
    /// Why nothing is known of it.
    pub problem: Option<String>,
    /// Whether a process receives into it, if that can be told.
    pub is_receiving: Option<bool>,
    /// Whose WAL it is.
    pub cluster: Option<String>,
    /// The timeline of the newest WAL.
    pub timeline: Option<u32>,
    /// WAL up to here is in the directory. Zeros at the end are not counted.
    pub received_to: Option<String>,
    /// The segment that is being received.
    pub unfinished_segment: Option<String>,
    /// When the newest WAL was written there.
    pub last_written: Option<Timestamp>,
    /// Seconds since then.
    pub age_seconds: Option<i64>,
    /// Files that a repository lacks yet.
    pub waiting_files: u64,
    /// Their size.
    pub waiting_bytes: u64,
}

/// Looks at a directory. It keeps nobody from receiving into it.
pub fn receive_state(directory: &Path) -> ReceiveState {
    let mut state = ReceiveState {
        directory: directory.to_owned(),
        problem: None,
        is_receiving: None,
        cluster: None,
        timeline: None,
        received_to: None,
        unfinished_segment: None,
        last_written: None,
        age_seconds: None,
        waiting_files: 0,
        waiting_bytes: 0,
    };
    // A file may get its name, or go, while this looks: then it is looked at again.
    let mut looked = state.look();
    for _ in 0..3 {
        let is_gone = matches!(&looked, Err(ArchiveError::File { source, path, .. })
            if source.kind() == io::ErrorKind::NotFound && path != directory);
        if !is_gone {
            break;
        }
        looked = state.look();
    }
    state.problem = looked.err().map(|error| error.to_string());
    state
}

/// What is pushed meanwhile is gone, which names the file and not the directory.
fn len_of(path: &Path) -> Result<u64, ArchiveError> {
    let metadata = fs::metadata(path).map_err(|error| ArchiveError::file("read", path, error))?;
    Ok(metadata.len())
}

impl ReceiveState {
    fn look(&mut self) -> Result<(), ArchiveError> {
        let directory = self.directory.clone();
        let failed = |error| ArchiveError::file("read", &directory, error);
        fs::metadata(&directory).map_err(failed)?;
        self.is_receiving = is_locked(&directory.join("lock"));
        (self.waiting_files, self.waiting_bytes) = (0, 0);
        let mut newest: Option<(_, WalFileName)> = None;
        for name in wal_names(&directory)? {
            let path = directory.join(name.to_string());
            if let WalFileName::Segment(_) | WalFileName::History(_) = name {
                let len = len_of(&path)?;
                self.waiting_files += 1;
                self.waiting_bytes += len;
            }
            if let WalFileName::Segment(segment) | WalFileName::Partial(segment) = name {
                let place = (segment.log, segment.segment, segment.timeline);
                if newest.is_none_or(|(newest, _)| place > newest) {
                    newest = Some((place, name));
                }
            }
        }
        for name in wal_names(&directory.join("left"))? {
            if let WalFileName::Partial(_) = name {
                let path = directory.join("left").join(name.to_string());
                self.waiting_files += 1;
                self.waiting_bytes += len_of(&path)?;
            }
        }
        match newest {
            Some((_, name)) => self.look_at(name),
            None => Ok(()),
        }
    }

    fn look_at(&mut self, name: WalFileName) -> Result<(), ArchiveError> {
        let (WalFileName::Segment(segment) | WalFileName::Partial(segment)) = name else {
            return Ok(());
        };
        let path = self.directory.join(name.to_string());
        let failed = |error| ArchiveError::file("read", &path, error);
        let metadata = fs::metadata(&path).map_err(failed)?;
        let size = u32::try_from(metadata.len()).unwrap_or_default();
        self.timeline = Some(segment.timeline.0);
        let received_to = match name {
            WalFileName::Partial(_) => received_end(&path, segment, size)?,
            _ => segment.range(size)?.end,
        };
        self.received_to = Some(received_to.to_string());
        self.unfinished_segment = match name {
            WalFileName::Partial(_) => Some(segment.to_string()),
            _ => None,
        };
        self.cluster = read_header(&path)?.map(|header| {
            let (system_id, major) = (header.system_id.0, header.version.major);
            ClusterIdentity { system_id, major }.to_string()
        });
        let modified = metadata.modified().map_err(failed)?;
        self.last_written = Timestamp::try_from(modified).ok();
        let age = |time: Timestamp| Timestamp::now().as_second() - time.as_second();
        self.age_seconds = self.last_written.map(age);
        Ok(())
    }
}

/// Whether somebody has the lock; nothing where that cannot be told.
fn is_locked(path: &Path) -> Option<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(false),
        file => file.ok()?,
    };
    // For a moment, for which a receiver that starts just then waits.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory::Directory;
    use super::super::tests;
    use super::*;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn an_empty_directory_and_none_are_told_apart() {
        let directory = tempfile::tempdir().expect("a directory");
        let empty = receive_state(directory.path());
        assert_eq!((empty.problem, empty.is_receiving), (None, Some(false)));
        assert_eq!((empty.received_to, empty.waiting_files), (None, 0));
        let none = receive_state(&directory.path().join("none"));
        assert!(none.problem.is_some_and(|problem| problem.contains("none")));
    }

    #[test]
    fn the_newest_wal_says_how_far_it_came() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, content: &[u8]| {
            fs::write(directory.path().join(name), content).expect("written");
        };
        write("000000010000000000000004", &tests::segment(1, 4));
        write("00000002.history", b"1\t0/480000\tno reason\n");
        let whole = receive_state(directory.path());
        assert_eq!(whole.received_to.as_deref(), Some("0/500000"));
        assert_eq!((whole.timeline, whole.waiting_files), (Some(1), 2));
        assert_eq!(whole.waiting_bytes, SIZE + 21);
        assert_eq!(whole.unfinished_segment, None);

        let mut partial = tests::segment(2, 5);
        partial[30_000..].fill(0);
        partial[29_999] = 7;
        write("000000020000000000000005.partial", &partial);
        let lock = Directory::open(directory.path()).expect("free");
        let state = receive_state(directory.path());
        assert_eq!(state.problem, None);
        assert_eq!(state.received_to.as_deref(), Some("0/507530"));
        assert_eq!(state.timeline, Some(2));
        let name = "000000020000000000000005";
        assert_eq!(state.unfinished_segment.as_deref(), Some(name));
        assert_eq!((state.is_receiving, state.waiting_files), (Some(true), 2));
        assert!(state.age_seconds.is_some_and(|age| (0..60).contains(&age)));
        let id = tests::SYSTEM_ID.to_string();
        assert!(state.cluster.is_some_and(|cluster| cluster.contains(&id)));
        drop(lock);
        assert_eq!(receive_state(directory.path()).is_receiving, Some(false));
    }
}
