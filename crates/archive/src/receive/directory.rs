//! The local directory of received WAL.
//!
//! ```text
//! DIR/
//!     lock                                whoever holds its lock receives into this directory
//!     000000010000000000000004            received whole, and to be pushed
//!     00000002.history                    to be pushed before the WAL of its timeline
//!     000000010000000000000005.partial    being received: as long as a segment, zeros at its end
//!     spare                               zeros, for the next segment
//!     histories/                          of the timelines that were received
//!     left/                               partial segments of timelines that were left
//! ```
//!
//! A file with a final name is whole and durable. It goes when every repository has it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::ClusterIdentity;

use super::Place;
use super::files::{self, read_header, wal_names};
use crate::archived::wal_times::SegmentTimes;
use crate::error::ArchiveError;
use crate::files::durable;

/// How often a lock is asked for that somebody has.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A directory that this process alone receives into, as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// A file that is to be pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) name: WalFileName,
    pub(super) path: PathBuf,
}

impl Directory {
    /// Takes a directory that is there, unless another process has it.
    pub(super) fn open(path: &Path) -> Result<Directory, ArchiveError> {
        let lock = path.join("lock");
        let failed = |error| ArchiveError::file("lock", &lock, error);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .map_err(failed)?;
        let mut attempt = 1;
        let locked = loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Who looks at the directory has it for a moment.
                Err(rustix::io::Errno::WOULDBLOCK) if attempt < LOCK_ATTEMPTS => {
                    attempt += 1;
                    thread::sleep(LOCK_PAUSE);
                }
                locked => break locked,
            }
        };
        match locked {
            Ok(()) => {
                let directory = Directory {
                    path: path.to_owned(),
                    _lock: file,
                };
                directory.sync_names()?;
                Ok(directory)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ArchiveError::Request(format!(
                "another process receives into {}",
                path.display()
            ))),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Makes the names durable that are there. One that was killed may have given them and not synced them, and what is
    /// there is not named again: it counts as received.
    fn sync_names(&self) -> Result<(), ArchiveError> {
        for below in [self.left(), self.histories()] {
            if below.is_dir() {
                durable::sync_directory(&below)?;
            }
        }
        durable::sync_directory(&self.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file.
    pub(super) fn file(&self, name: WalFileName) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// The path of a file of zeros, for the next segment.
    pub(super) fn spare(&self) -> PathBuf {
        self.path.join("spare")
    }

    fn left(&self) -> PathBuf {
        self.path.join("left")
    }

    fn histories(&self) -> PathBuf {
        self.path.join("histories")
    }

    /// Whose the WAL in it is: nothing where there is none that says so. WAL of two clusters is
    /// refused.
    pub(super) fn cluster(&self) -> Result<Option<ClusterIdentity>, ArchiveError> {
        let mut cluster = None;
        for name in wal_names(&self.path)? {
            if let WalFileName::Segment(_) | WalFileName::Partial(_) = name
                && let Some(header) = read_header(&self.file(name))?
            {
                let found = ClusterIdentity {
                    system_id: header.system_id.0,
                    major: header.version.major,
                };
                let expected = *cluster.get_or_insert(found);
                if found != expected {
                    return Err(self.of_another(expected, found));
                }
            }
        }
        Ok(cluster)
    }

    pub(super) fn of_another(
        &self,
        directory: ClusterIdentity,
        found: ClusterIdentity,
    ) -> ArchiveError {
        ArchiveError::AnotherCluster {
            directory: self.path.clone(),
            holds: directory,
            found,
        }
    }

    /// Where the newest file ends, or a partial one begins: the WAL from there on is missing here.
    pub(super) fn place(&self, segment_size: u32) -> Result<Option<Place>, ArchiveError> {
        let mut newest = None;
        for name in wal_names(&self.path)? {
            let (segment, is_whole) = match name {
                WalFileName::Segment(segment) => (segment, true),
                WalFileName::Partial(segment) => (segment, false),
                _ => continue,
            };
            let number = segment.number(segment_size)?;
            newest = newest.max(Some((number, segment.timeline, is_whole)));
        }
        Ok(newest.map(|(number, timeline, is_whole)| Place {
            timeline,
            position: Lsn((number + u64::from(is_whole)) * u64::from(segment_size)),
        }))
    }

    /// Where the WAL ends that is in the partial segment at a place.
    pub(super) fn received_end(
        &self,
        place: Place,
        segment_size: u32,
    ) -> Result<Option<Lsn>, ArchiveError> {
        let Place { timeline, position } = place;
        let segment = SegmentName::from_lsn(timeline, position, segment_size)?;
        let path = self.file(WalFileName::Partial(segment));
        match path.exists() {
            true => files::received_end(&path, segment, segment_size).map(Some),
            false => Ok(None),
        }
    }

    /// How many transactions were committed from a position on in the partial segment at a place.
    pub(super) fn commits_from(
        &self,
        place: Place,
        segment_size: u32,
        position: Lsn,
    ) -> Result<usize, ArchiveError> {
        let segment = SegmentName::from_lsn(place.timeline, place.position, segment_size)?;
        let path = self.file(WalFileName::Partial(segment));
        let content = fs::read(&path).map_err(|error| ArchiveError::file("read", &path, error))?;
        Ok(SegmentTimes::of(&content).commits_from(position).len())
    }

    /// Puts partial segments other than the one that is being received out of the way.
    pub(super) fn leave_others(&self, current: Option<SegmentName>) -> Result<(), ArchiveError> {
        for name in wal_names(&self.path)? {
            match name {
                WalFileName::Partial(segment) if Some(segment) != current => self.leave(segment)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn leave(&self, segment: SegmentName) -> Result<(), ArchiveError> {
        let name = WalFileName::Partial(segment);
        let (from, left) = (self.file(name), self.left());
        if read_header(&from)?.is_none() {
            // Nothing was received into it.
            return fs::remove_file(&from)
                .map_err(|error| ArchiveError::file("remove", &from, error));
        }
        make_directory(&left)?;
        let to = left.join(name.to_string());
        fs::rename(&from, &to).map_err(|error| ArchiveError::file("rename to", &to, error))?;
        durable::sync_directory(&left)?;
        durable::sync_directory(&self.path)
    }

    /// Keeps a timeline's history: until it is pushed, and to know the timeline again.
    pub(super) fn write_history(
        &self,
        timeline: TimelineId,
        content: &[u8],
    ) -> Result<(), ArchiveError> {
        let name = WalFileName::History(timeline);
        durable::write_file(&self.file(name), content)?;
        let histories = self.histories();
        make_directory(&histories)?;
        durable::write_file(&histories.join(name.to_string()), content)
    }

    /// Fails where a timeline of this number was received that has another history: another
    /// server has come to the same number.
    pub(super) fn check_history(
        &self,
        timeline: TimelineId,
        content: &[u8],
    ) -> Result<(), ArchiveError> {
        let name = WalFileName::History(timeline).to_string();
        let path = self.histories().join(name);
        match fs::read(&path) {
            Ok(known) if known != content => Err(ArchiveError::Diverged(format!(
                "the server's history of timeline {timeline} is not {}",
                path.display()
            ))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ArchiveError::file("read", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Fails where WAL of a timeline was received that has left this one. A primary on it is the old one of a
    /// failover: nobody goes on with what it would have acknowledged.
    pub(super) fn check_not_left(&self, timeline: TimelineId) -> Result<(), ArchiveError> {
        let histories = self.histories();
        for name in wal_names(&histories)? {
            let WalFileName::History(later) = name else {
                continue;
            };
            let path = histories.join(name.to_string());
            let content =
                fs::read(&path).map_err(|error| ArchiveError::file("read", &path, error))?;
            // What cannot be read says nothing, and is compared where it is the server's.
            let switch = TimelineHistory::read(later, &content)
                .ok()
                .and_then(|history| history.switch_of(timeline));
            if let Some(switch) = switch {
                return Err(ArchiveError::Diverged(format!(
                    "WAL of timeline {later} was received, which left timeline {timeline} of the server at {switch}"
                )));
            }
        }
        Ok(())
    }

    /// What is to be pushed, oldest first: in the order of names, in which a history comes before
    /// the WAL of its timeline.
    pub(super) fn waiting(&self) -> Result<Vec<Waiting>, ArchiveError> {
        let own = wal_names(&self.path)?
            .into_iter()
            .filter(|name| matches!(name, WalFileName::Segment(_) | WalFileName::History(_)));
        let file = |name| Waiting {
            name,
            path: self.file(name),
        };
        let mut waiting: Vec<Waiting> = own.map(file).collect();
        let left = self.left();
        for name in wal_names(&left)? {
            if let WalFileName::Partial(_) = name {
                let path = left.join(name.to_string());
                waiting.push(Waiting { name, path });
            }
        }
        waiting.sort_by_key(|file| file.name.to_string());
        Ok(waiting)
    }
}

/// Makes a directory durable, unless it is there.
fn make_directory(path: &Path) -> Result<(), ArchiveError> {
    match fs::create_dir(path) {
        Ok(()) => durable::sync_entry_of(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(ArchiveError::file("create", path, error)),
    }
}
