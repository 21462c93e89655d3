//! Keeps a replay out of directories that belong to another data directory.
//!
//! The replay of a tablespace's creation makes the directory that the WAL names a part of the
//! replaying cluster, whatever is in it (commands/tablespace.c): beside a running primary, the
//! primary's own files. So a segment that creates a tablespace is handed over only where that
//! directory is free, or was taken by the same cluster before.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{SegmentHeader, TablespaceCreation, TablespaceCreations};
use walzip_pgformat::wal_file_name::SegmentName;

use crate::error::ArchiveError;

/// The record of a creation is shorter.
const CREATION_BYTES_MAX: u32 = 2048;

/// What a cluster of this major keeps in a tablespace's directory, if there is anything.
///
/// A directory that cannot be read is nobody's: PostgreSQL cannot use it either, and says why.
pub(crate) fn occupied_by(location: &Path, major: u32) -> Option<PathBuf> {
    let prefix = format!("PG_{major}_");
    let entries = fs::read_dir(location).ok()?;
    entries
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()))
        .map(|entry| entry.path())
}

/// Looks at a segment on its way to a data directory.
pub(crate) struct TablespaceGuard<'a> {
    data_directory: &'a Path,
    segment: SegmentName,
    major: u32,
    creations: TablespaceCreations,
}

impl<'a> TablespaceGuard<'a> {
    pub(crate) fn new(
        data_directory: &'a Path,
        segment: SegmentName,
        major: u32,
    ) -> TablespaceGuard<'a> {
        TablespaceGuard {
            data_directory,
            segment,
            major,
            creations: TablespaceCreations::default(),
        }
    }

    /// Takes the first page, before everything else, and with it the end of the segment before,
    /// where a record may have begun.
    pub(crate) fn begin(&mut self, first_page: &[u8]) {
        if let Ok(header) = SegmentHeader::read(first_page)
            && (1..CREATION_BYTES_MAX).contains(&header.remaining_len)
            && let Some(page) = self.last_page_before(header.segment_size)
        {
            self.creations.feed(&page);
        }
        self.creations.feed(first_page);
    }

    /// Takes what follows.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.creations.feed(bytes);
    }

    /// Refuses the segment if a replay of it would take what belongs to others.
    pub(crate) fn finish(self) -> Result<(), ArchiveError> {
        for creation in self.creations.into_found() {
            let location = Path::new(OsStr::from_bytes(&creation.location));
            if !location.is_absolute() || is_own(self.data_directory, location) {
                continue;
            }
            if let Some(found) = occupied_by(location, self.major) {
                return Err(refusal(self.segment, &creation, location, found));
            }
        }
        Ok(())
    }

    /// Recovery keeps the segment that it replays under its own name, of this timeline or an
    /// earlier one.
    fn last_page_before(&self, segment_size_bytes: u32) -> Option<Vec<u8>> {
        let number = self
            .segment
            .number(segment_size_bytes)
            .ok()?
            .checked_sub(1)?;
        let before =
            SegmentName::from_number(self.segment.timeline, number, segment_size_bytes).ok()?;
        let before = before.to_string();
        let (_, position) = before.split_at_checked(8)?;
        let wal = self.data_directory.join("pg_wal");
        let of_any_timeline = || {
            let entries = fs::read_dir(&wal).ok()?.filter_map(Result::ok);
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names
                .filter(|name| name.len() == before.len() && name.ends_with(position))
                .filter(|name| *name < before)
                .max()
        };
        let file = File::open(wal.join(&before))
            .ok()
            .or_else(|| File::open(wal.join(of_any_timeline()?)).ok())?;
        let mut page = vec![0; PAGE_SIZE];
        let offset = u64::from(segment_size_bytes) - PAGE_SIZE as u64;
        file.read_exact_at(&mut page, offset).ok()?;
        Some(page)
    }
}

/// Whether a tablespace of this data directory is there already: a recovery that is started
/// again replays the creation of what it has.
fn is_own(data_directory: &Path, location: &Path) -> bool {
    let Ok(links) = fs::read_dir(data_directory.join("pg_tblspc")) else {
        return false;
    };
    links
        .filter_map(Result::ok)
        .any(|link| fs::read_link(link.path()).is_ok_and(|target| target == location))
}

fn refusal(
    segment: SegmentName,
    creation: &TablespaceCreation,
    location: &Path,
    found: PathBuf,
) -> ArchiveError {
    ArchiveError::TablespaceInUse {
        segment: segment.to_string(),
        oid: creation.oid,
        location: location.to_owned(),
        found,
    }
}
