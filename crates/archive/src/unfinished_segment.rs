//! A segment that PostgreSQL still writes, and that somebody pushes by hand.
//!
//! What would be archived is its beginning, and under its name PostgreSQL could not archive the whole
//! any more. PostgreSQL marks what is finished in `archive_status` (XLogArchiveNotify in
//! access/transam/xlogarchive.c, 18); what has no mark may be older than `archive_mode`, and is
//! finished if it was written up to its last page, or the next one was begun.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{PageHeader, SegmentHeader};
use walzip_pgformat::wal_file_name::SegmentName;

use crate::error::ArchiveError;
use crate::running_server;

/// Refuses a segment in the `pg_wal` of a server that runs and has not finished it.
pub(crate) fn refuse(path: &Path, segment: SegmentName) -> Result<(), ArchiveError> {
    if !is_unfinished(path, segment) {
        return Ok(());
    }
    let pg_wal = path.parent().unwrap_or(path);
    let data = pg_wal.parent().filter(|data| !data.as_os_str().is_empty());
    match running_server::refuse(data.unwrap_or(Path::new("."))) {
        Err(ArchiveError::ServerRunning { .. }) => Err(ArchiveError::Unfinished {
            path: path.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Whether a segment lies in a `pg_wal` whose server, if it goes on, has more to write into it.
pub(crate) fn is_unfinished(path: &Path, segment: SegmentName) -> bool {
    is_unmarked(path, segment) && !is_filled(path, segment)
}

/// Whether a segment lies in a `pg_wal` whose server has made the file for later and written nothing of the segment: the
/// first page is zeros, or still that of an older segment (InstallXLogFileSegment in access/transam/xlog.c, 18). It says
/// nothing of the segments after this one.
pub(crate) fn is_unused(path: &Path, segment: SegmentName) -> bool {
    let first = is_unmarked(path, segment).then(|| first_page(path, segment));
    matches!(first, Some(Some(FirstPage::Zeros | FirstPage::Older)))
}

/// Whether a segment lies in a `pg_wal` without a mark that it is finished.
fn is_unmarked(path: &Path, segment: SegmentName) -> bool {
    let marks = path.parent().unwrap_or(path).join("archive_status");
    let is_marked = |kind| marks.join(format!("{segment}.{kind}")).exists();
    marks.is_dir() && !is_marked("ready") && !is_marked("done")
}

/// What a segment's file begins with.
enum FirstPage {
    Zeros,
    /// The first page of a segment before it.
    Older,
    Other,
}

/// The first page of a segment's file, if it can be read.
fn first_page(path: &Path, segment: SegmentName) -> Option<FirstPage> {
    let (len, start) = extent(path, segment)?;
    let mut page = [0; PAGE_SIZE];
    File::open(path).ok()?.read_exact_at(&mut page, 0).ok()?;
    if page == [0; PAGE_SIZE] {
        return Some(FirstPage::Zeros);
    }
    let is_older = SegmentHeader::read(&page).is_ok_and(|header| {
        let older = header.start.0;
        u64::from(header.segment_size) == len && older < start && older.is_multiple_of(len)
    });
    Some(if is_older {
        FirstPage::Older
    } else {
        FirstPage::Other
    })
}

/// Whether the last page was written since the file got its name, or the first one of the next segment: a server ends
/// a segment before it begins another. What cannot be read is seen later.
fn is_filled(path: &Path, segment: SegmentName) -> bool {
    let Some((len, start)) = extent(path, segment) else {
        return true;
    };
    let last = len.saturating_sub(PAGE_SIZE as u64);
    if is_written(path, last, start).unwrap_or(true) {
        return true;
    }
    let next = u32::try_from(len)
        .ok()
        .and_then(|size| segment.next(size).ok());
    next.is_some_and(|next| {
        let path = path.with_file_name(next.to_string());
        is_written(&path, 0, start + len).unwrap_or(false)
    })
}

/// The length of a segment's file, and its position.
fn extent(path: &Path, segment: SegmentName) -> Option<(u64, u64)> {
    let len = fs::metadata(path).ok()?.len();
    let start = segment.start(u32::try_from(len).ok()?).ok()?;
    Some((len, start.0))
}

/// Whether the page at an offset is of the segment at this position.
fn is_written(path: &Path, offset: u64, start: u64) -> Option<bool> {
    let mut page = [0; PageHeader::SHORT_LEN];
    File::open(path)
        .ok()?
        .read_exact_at(&mut page, offset)
        .ok()?;
    Some(PageHeader::read(&page).is_some_and(|header| header.address == start + offset))
}
