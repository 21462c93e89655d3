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
use walzip_pgformat::wal::{SegmentHeader, TablespaceCreation, TellingRecords};
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
    records: TellingRecords,
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
            records: TellingRecords::default(),
        }
    }

    /// Takes the first page, before everything else, and with it the end of the segment before,
    /// where a record may have begun.
    pub(crate) fn begin(&mut self, first_page: &[u8]) {
        if let Ok(header) = SegmentHeader::read(first_page)
            && (1..CREATION_BYTES_MAX).contains(&header.remaining_len)
            && let Some(page) = self.last_page_before(header.segment_size)
        {
            self.records.feed(&page);
        }
        self.records.feed(first_page);
    }

    /// Takes what follows.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.records.feed(bytes);
    }

    /// Refuses the segment if a replay of it would take what belongs to others.
    pub(crate) fn finish(self) -> Result<(), ArchiveError> {
        for creation in self.records.finish().tablespaces {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;
    use tempfile::TempDir;
    use walzip_pgformat::wal::{LONG_HEADER, PageHeader, RecordHeader};
    use walzip_pgformat::wal_file_name::WalFileName;

    const SEGMENT_BYTES: usize = 1 << 20;
    /// The second segment: the first one is before it.
    const SEGMENT: &str = "000000020000000000000001";

    /// A record that creates tablespace 16400, as PostgreSQL 15 writes it.
    fn creation(location: &Path) -> Vec<u8> {
        let mut record = vec![0; 24];
        record[17] = 5;
        let location = location.as_os_str().as_bytes();
        record.push(254);
        record.extend((4 + location.len() as u32 + 1).to_le_bytes());
        record.extend(16400_u32.to_le_bytes());
        record.extend(location);
        record.push(0);
        let len = record.len() as u32;
        record[0..4].copy_from_slice(&len.to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// A page with this content behind its header, which begins with the rest of a record.
    fn page(address: u64, remaining_len: usize, content: &[u8]) -> Vec<u8> {
        let is_first = address.is_multiple_of(SEGMENT_BYTES as u64);
        let header = PageHeader {
            magic: 0xD110,
            flags: u16::from(remaining_len > 0) | if is_first { LONG_HEADER } else { 0 },
            timeline: 2,
            address,
            remaining_len: remaining_len as u32,
        };
        let mut page = header.to_bytes().to_vec();
        if is_first {
            page.extend(7_u64.to_le_bytes());
            page.extend((SEGMENT_BYTES as u32).to_le_bytes());
            page.extend((PAGE_SIZE as u32).to_le_bytes());
        }
        page.extend(content);
        page.resize(PAGE_SIZE, 0);
        page
    }

    /// A data directory, and a directory in which another cluster has a tablespace.
    fn scratch() -> (TempDir, PathBuf, PathBuf) {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let (data, location) = (scratch.path().join("data"), scratch.path().join("taken"));
        for directory in [data.join("pg_wal"), data.join("pg_tblspc")] {
            create_dir_all(directory).expect("a new directory");
        }
        create_dir_all(location.join("PG_15_202209061")).expect("a new directory");
        (scratch, data, location)
    }

    fn look(data: &Path, first_page: &[u8]) -> Result<(), ArchiveError> {
        let Ok(WalFileName::Segment(segment)) = SEGMENT.parse() else {
            panic!("{SEGMENT} is a segment");
        };
        let mut guard = TablespaceGuard::new(data, segment, 15);
        guard.begin(first_page);
        guard.finish()
    }

    fn is_refused(looked: Result<(), ArchiveError>) -> bool {
        matches!(
            looked,
            Err(ArchiveError::TablespaceInUse { oid: 16400, .. })
        )
    }

    #[test]
    fn refuses_what_would_take_the_directory_of_another_cluster() {
        let (_scratch, data, location) = scratch();
        let segment = page(SEGMENT_BYTES as u64, 0, &creation(&location));
        assert!(is_refused(look(&data, &segment)));
        std::os::unix::fs::symlink(&location, data.join("pg_tblspc/16400")).expect("a link");
        assert!(look(&data, &segment).is_ok(), "its own");
    }

    #[test]
    fn lets_pass_what_takes_from_nobody() {
        let (scratch, data, location) = scratch();
        let older = scratch.path().join("older");
        create_dir_all(older.join("PG_14_202107181")).expect("a new directory");
        for free in [older, scratch.path().join("missing"), PathBuf::new()] {
            let segment = page(SEGMENT_BYTES as u64, 0, &creation(&free));
            assert!(look(&data, &segment).is_ok(), "{}", free.display());
        }
        let mut damaged = page(SEGMENT_BYTES as u64, 0, &creation(&location));
        damaged[70] ^= 1;
        assert!(look(&data, &damaged).is_ok(), "a replay ends there");
    }

    #[test]
    fn sees_a_record_that_began_in_the_segment_before() {
        for before in ["000000020000000000000000", "000000010000000000000000"] {
            let (_scratch, data, location) = scratch();
            let record = creation(&location);
            let (begin, rest) = record.split_at(16);
            let mut last = page((SEGMENT_BYTES - PAGE_SIZE) as u64, 0, &[]);
            // A record of another kind, up to where this one begins.
            let other_len = PAGE_SIZE - 24 - begin.len();
            last[24..28].copy_from_slice(&(other_len as u32).to_le_bytes());
            last[24 + 17] = 10;
            last[PAGE_SIZE - begin.len()..].copy_from_slice(begin);
            let mut segment = vec![0; SEGMENT_BYTES - PAGE_SIZE];
            segment.extend(last);
            fs::write(data.join("pg_wal").join(before), segment).expect("written");
            let next = page(SEGMENT_BYTES as u64, rest.len(), rest);
            assert!(is_refused(look(&data, &next)), "{before}");
        }
    }
}
