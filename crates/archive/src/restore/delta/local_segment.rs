//! A segment in `pg_wal`: what a server would replay of it, and how far what is stored has the same.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_pgformat::wal::{SegmentHeader, SegmentReader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Input, Lsn, PAGE_SIZE, ReadAt};
use walzip_repo::{AsideLabel, ClusterIdentity, Repository};

use crate::archived::stored_wal::{self, StoredWal};
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::files::regular_file;
use crate::packs::{Before, Undecoded};
use crate::push::unfinished_segment::is_empty;
use crate::wal::content;
use crate::wal::replayed::{self, Replayed};

/// A segment in `pg_wal`.
pub(super) struct LocalSegment {
    path: PathBuf,
    file: fs::File,
    len: usize,
    header: SegmentHeader,
}

/// What a file in `pg_wal` is that has a segment's name.
pub(super) enum Opened {
    /// The server has not begun to write it: it is new, or recycled.
    Unwritten,
    Segment(LocalSegment),
    /// Its end is missing.
    CutOff(LocalSegment),
    /// It is damaged, too long or another server's. A server may replay WAL in it.
    Other,
}

impl LocalSegment {
    pub(super) fn open(
        path: &Path,
        name: SegmentName,
        cluster: ClusterIdentity,
    ) -> Result<Opened, ArchiveError> {
        let failed = |error| ArchiveError::file("read", path, error);
        let (file, metadata) = regular_file::open(path).map_err(failed)?;
        let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mut beginning = vec![0; len.min(PAGE_SIZE)];
        file.read_exact_at(&mut beginning, 0).map_err(failed)?;
        let file_name = WalFileName::Segment(name);
        let is_begun_with =
            |len| content::check_beginning(&file_name, &beginning, len, cluster).is_ok();
        let segment = |header| LocalSegment {
            path: path.to_owned(),
            file,
            len,
            header,
        };
        Ok(match SegmentHeader::read(&beginning) {
            Ok(header) if is_begun_with(len) => Opened::Segment(segment(header)),
            Ok(header)
                if len < header.segment_size as usize
                    && is_begun_with(header.segment_size as usize) =>
            {
                Opened::CutOff(segment(header))
            }
            _ if len == 0 || is_empty(path, name, true) == Some(true) => Opened::Unwritten,
            _ => Opened::Other,
        })
    }

    pub(super) fn size_bytes(&self) -> u32 {
        self.header.segment_size
    }

    pub(super) fn start(&self) -> Lsn {
        self.header.start
    }

    /// The position of the first byte behind it.
    pub(super) fn end(&self) -> Lsn {
        self.position(self.len)
    }

    fn position(&self, offset: usize) -> Lsn {
        Lsn(self.header.start.0 + offset as u64)
    }

    /// Whether it has more than checkpoints and what standbys need that ends after a position. The segment in which a
    /// server was shut down has no more.
    fn has_changes(&self, from: Lsn) -> Result<bool, ArchiveError> {
        self.has_any(|part| part.is_change && self.position(part.end) > from)
    }

    /// Up to where it has to be stored, so that nothing is lost with it but records that a server replays. A server replays
    /// nothing behind damage, and the WAL there may be found all the same: then nothing, all of it has to be stored.
    fn needed_of_rest(&self) -> Result<Option<Lsn>, ArchiveError> {
        let mut own = vec![0; self.len];
        self.read_at(0, &mut own)
            .map_err(|error| self.failed(error))?;
        Ok(replayed::needed_of_rest(&own).map(|offset| self.position(offset)))
    }

    /// Whether a record ends at a position.
    pub(super) fn has_record_to(&self, at: Lsn) -> Result<bool, ArchiveError> {
        self.has_any(|part| part.is_whole && self.position(part.end) == at)
    }

    /// Whether this is so of anything that a server would replay.
    fn has_any(&self, is_it: impl Fn(Replayed) -> bool) -> Result<bool, ArchiveError> {
        let mut reader = SegmentReader::of_part(Input::Reader(self), self.header);
        let found = replayed::any(&mut reader, (&self.header, self.len), is_it);
        match reader.take_error() {
            Some(error) => Err(self.failed(error)),
            None => Ok(found),
        }
    }

    /// Up to which position it has the same bytes as what is stored under its name. All of it, if there are zeros from there on:
    /// a server had not written more of it when its machine stopped.
    pub(super) fn same_until(&self, name: &str, stored: StoredWal) -> Result<Lsn, ArchiveError> {
        let mut comparison = Comparison {
            segment: self,
            written: 0,
            differs_at: None,
        };
        let decoded = stored.decode_to(name, &mut comparison);
        decoded.map_err(|failed| match failed {
            Undecoded::Damaged(error) => *error,
            Undecoded::Write(error) => self.failed(error),
        })?;
        let same = comparison.differs_at.unwrap_or(comparison.written);
        Ok(match self.is_zero_from(same)? {
            true => self.end(),
            false => self.position(same),
        })
    }

    fn is_zero_from(&self, start: usize) -> Result<bool, ArchiveError> {
        let mut page = [0; PAGE_SIZE];
        for offset in (start..self.len).step_by(PAGE_SIZE) {
            let page = &mut page[..PAGE_SIZE.min(self.len - offset)];
            let read = self.read_at(offset, page);
            read.map_err(|error| self.failed(error))?;
            if page.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// BLAKE3 of its bytes.
    pub(super) fn hash(&self) -> Result<blake3::Hash, ArchiveError> {
        let mut hasher = blake3::Hasher::new();
        let mut page = [0; PAGE_SIZE];
        for offset in (0..self.len).step_by(PAGE_SIZE) {
            let page = &mut page[..PAGE_SIZE.min(self.len - offset)];
            let read = self.read_at(offset, page);
            read.map_err(|error| self.failed(error))?;
            hasher.update(page);
        }
        Ok(hasher.finalize())
    }

    fn failed(&self, error: io::Error) -> ArchiveError {
        ArchiveError::file("read", &self.path, error)
    }
}

/// [`LocalSegment::has_changes`], off the runtime.
pub(super) async fn has_changes(
    segment: &Arc<LocalSegment>,
    from: Lsn,
) -> Result<bool, ArchiveError> {
    let segment = Arc::clone(segment);
    off_the_runtime(move || segment.has_changes(from)).await
}

/// [`LocalSegment::needed_of_rest`], off the runtime.
pub(super) async fn needed_of_rest(
    segment: &Arc<LocalSegment>,
) -> Result<Option<Lsn>, ArchiveError> {
    let segment = Arc::clone(segment);
    off_the_runtime(move || segment.needed_of_rest()).await
}

/// Up to where the archive has what a segment has, or what was set aside under a label.
pub(super) async fn same_until(
    repository: &Repository,
    label: Option<AsideLabel>,
    (segment, name): (&Arc<LocalSegment>, &str),
) -> Result<Lsn, ArchiveError> {
    let (single, packs) = match label {
        None => (repository.get_wal(name).await?, repository.packs()),
        Some(label) => (
            repository.get_aside(label, name).await?,
            repository.packs_aside(label),
        ),
    };
    let segment = Arc::clone(segment);
    let stored = match single {
        Some(object) => Some(StoredWal::Single(object)),
        None => {
            if let Some(hash) = stored_wal::hash_in_pack(&packs, name).await? {
                let local = Arc::clone(&segment);
                if off_the_runtime(move || local.hash()).await? == hash {
                    return Ok(segment.end());
                }
            }
            StoredWal::get_packed(&packs, name, Before::Passed).await?
        }
    };
    let Some(stored) = stored else {
        return Ok(segment.start());
    };
    let name = name.to_owned();
    off_the_runtime(move || segment.same_until(&name, stored)).await
}

impl ReadAt for LocalSegment {
    fn len(&self) -> usize {
        self.len
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset as u64)
    }
}

/// Compares what is written to it with a segment.
struct Comparison<'s> {
    segment: &'s LocalSegment,
    written: usize,
    differs_at: Option<usize>,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let offset = self.written;
        self.written += bytes.len();
        if self.differs_at.is_none() {
            let len = bytes.len().min(self.segment.len.saturating_sub(offset));
            let mut own = vec![0; len];
            self.segment.read_at(offset, &mut own)?;
            let differs = own.iter().zip(bytes).position(|(own, other)| own != other);
            self.differs_at = differs.map(|at| offset + at);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::wal::testing::{self, CLUSTER, Record, SIZE};

    const NAME: &str = "000000010000000000000001";

    /// A segment of records, each of a table's and so long; the rest is zeros.
    fn segment(lengths: &[usize], fill: u8) -> Vec<u8> {
        let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, fill)).collect();
        testing::segment(1, &rows)
    }

    fn opened(directory: &Path, content: &[u8]) -> LocalSegment {
        let path = directory.join(NAME);
        fs::write(&path, content).expect("written");
        let name = NAME.parse().expect("a name");
        match LocalSegment::open(&path, name, CLUSTER).expect("readable") {
            Opened::Segment(local) => local,
            _ => panic!("one that was begun"),
        }
    }

    /// What a restore would lose of a local segment where another one is stored.
    fn loses(local: &[u8], stored: &[u8]) -> bool {
        let directory = tempfile::tempdir().expect("a directory");
        let local = opened(directory.path(), local);
        let level = walzip_codec::Level::default();
        let object = walzip_codec::encode(stored, level).expect("encoded");
        let same = local.same_until(NAME, StoredWal::Single(object.into()));
        local
            .has_changes(same.expect("compared"))
            .expect("readable")
    }

    #[test]
    fn what_goes_on_in_the_archive_is_not_lost_and_what_goes_on_here_is() {
        let (short, long) = (segment(&[100, 60], 1), segment(&[100, 60, 80], 1));
        assert!(!loses(&long, &long));
        assert!(!loses(&short, &long));
        assert!(loses(&long, &short));
    }

    #[test]
    fn records_of_another_server_are_no_copy_of_those_that_are_here() {
        let (own, other) = (segment(&[100, 60], 1), segment(&[100, 60], 2));
        assert!(loses(&own, &other));
        assert!(loses(&own, &segment(&[], 1)));
        assert!(!loses(&segment(&[], 1), &own));
    }

    /// A standby gets its primary's records as they come, into a file that had others.
    #[test]
    fn remains_behind_the_last_record_are_not_lost() {
        let (short, long) = (segment(&[100, 60], 1), segment(&[100, 60, 80], 1));
        let remains = segment(&[60, 60, 40, 60], 3);
        let end = 40 + 104 + 64;
        let local = [&short[..end], &remains[end..]].concat();
        assert!(!loses(&local, &long));
    }

    #[test]
    fn a_position_is_led_to_where_a_record_ends_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let begin = SIZE as u64;
        let leads_to = |content: &[u8], offset: u64| {
            let local = opened(directory.path(), content);
            local.has_record_to(Lsn(begin + offset)).expect("readable")
        };
        let rows = segment(&[100, 60], 1);
        assert!(leads_to(&rows, 144) && leads_to(&rows, 208));
        assert!(!leads_to(&rows, 40) && !leads_to(&rows, 152) && !leads_to(&rows, 272));
        let remains = segment(&[60, 60, 40, 60], 3);
        let local = [&rows[..208], &remains[208..]].concat();
        assert!(!leads_to(&local, 256));
        assert!(!leads_to(&rows, begin));
        let switched = [Record::row(100, 1), Record::switch()];
        assert!(leads_to(&testing::segment(1, &switched), begin));
    }
}
