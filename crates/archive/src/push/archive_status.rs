//! What PostgreSQL waits for: the `.ready` files in `pg_wal/archive_status`. They are PostgreSQL's,
//! and only read here (src/backend/access/transam/xlogarchive.c, PostgreSQL 18).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;

use crate::error::ArchiveError;

/// So many of the oldest are named at a time: a backlog may have hundreds of thousands.
pub(crate) const NAMES_MAX: usize = 256;

/// What waits to be archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// How many files.
    pub files: u64,
    /// Since when the one waits that waits longest.
    pub oldest: Option<SystemTime>,
}

impl Backlog {
    /// Of the cluster of a data directory.
    pub fn of(data_directory: &Path) -> Result<Backlog, ArchiveError> {
        let ArchiveStatus(directory) = ArchiveStatus::of(data_directory);
        let failed = |error| ArchiveError::file("read", &directory, error);
        let mut backlog = Backlog {
            files: 0,
            oldest: None,
        };
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.path().extension().is_none_or(|kind| kind != "ready") {
                continue;
            }
            // One that is archived at this moment has no time any more.
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            if let Ok(time) = modified {
                backlog.files += 1;
                backlog.oldest = Some(backlog.oldest.map_or(time, |oldest| oldest.min(time)));
            }
        }
        Ok(backlog)
    }
}

/// Whether PostgreSQL waits to have a file archived.
pub fn is_ready(data_directory: &Path, name: &str) -> bool {
    ArchiveStatus::of(data_directory).is_ready(name)
}

/// The directory of one cluster.
pub(crate) struct ArchiveStatus(PathBuf);

impl ArchiveStatus {
    pub(crate) fn of(data_directory: &Path) -> ArchiveStatus {
        ArchiveStatus(data_directory.join("pg_wal").join("archive_status"))
    }

    /// The oldest segments that wait and that `is_wanted`, in PostgreSQL's order, which is that of
    /// their names.
    pub(crate) fn segments(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut oldest = BTreeSet::new();
        for entry in fs::read_dir(&self.0)? {
            let file = entry?.file_name();
            let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".ready")) else {
                continue;
            };
            let is_segment = matches!(name.parse(), Ok(WalFileName::Segment(_)));
            let is_late = oldest.len() == NAMES_MAX
                && oldest.last().is_some_and(|last: &String| **last < *name);
            if is_segment && !is_late && is_wanted(name) {
                oldest.insert(name.to_owned());
                if oldest.len() > NAMES_MAX {
                    oldest.pop_last();
                }
            }
        }
        Ok(oldest.into_iter().collect())
    }

    /// Whether a file waits.
    pub(crate) fn is_ready(&self, name: &str) -> bool {
        self.0.join(format!("{name}.ready")).exists()
    }

    /// Whether the history of a segment's timeline waits. PostgreSQL has it archived before the
    /// timeline's segments, and the archive may refuse it: then it has to refuse them as well.
    pub(crate) fn is_before_its_history(&self, name: &str) -> bool {
        match name.parse() {
            Ok(WalFileName::Segment(segment)) => self.is_ready(&history_name(segment.timeline)),
            _ => false,
        }
    }

    /// When a file began to wait, or ceased to.
    pub(crate) fn changed(&self) -> io::Result<SystemTime> {
        fs::metadata(&self.0)?.modified()
    }
}

fn history_name(timeline: TimelineId) -> String {
    WalFileName::History(timeline).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_oldest_segments_that_wait() {
        let data_directory = tempfile::tempdir().expect("a directory");
        let status = data_directory.path().join("pg_wal/archive_status");
        fs::create_dir_all(&status).expect("made");
        let ready = |name: &str| fs::write(status.join(format!("{name}.ready")), b"");
        for number in (0..1000).rev() {
            ready(&format!("{:024X}", (1_u128 << 64) + number)).expect("written");
        }
        for name in [
            "00000002.history",
            "garbage",
            "000000010000000000000001.00000028.backup",
        ] {
            ready(name).expect("written");
        }
        fs::write(status.join("000000010000000000000000.done"), b"").expect("written");
        let found = ArchiveStatus::of(data_directory.path());
        let names = found
            .segments(|name| !name.ends_with('7'))
            .expect("readable");
        assert_eq!(names.len(), NAMES_MAX);
        assert_eq!(names[0], format!("{:024X}", 1_u128 << 64));
        assert_eq!(names[7], format!("{:024X}", (1_u128 << 64) + 8));
        assert!(names.is_sorted());
    }

    #[test]
    fn a_segment_waits_for_the_history_of_its_timeline() {
        let data_directory = tempfile::tempdir().expect("a directory");
        let directory = data_directory.path().join("pg_wal/archive_status");
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("00000002.history.ready"), b"").expect("written");
        let status = ArchiveStatus::of(data_directory.path());
        assert!(status.is_before_its_history("000000020000000000000003"));
        assert!(!status.is_before_its_history("000000010000000000000003"));
    }
}
