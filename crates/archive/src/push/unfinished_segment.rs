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

use crate::cluster::running_server;
use crate::error::ArchiveError;

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

/// Whether a segment lies in a `pg_wal` whose server has made the file for later and written nothing of the segment
/// (InstallXLogFileSegment, RemoveNonParentXlogFiles in access/transam/xlog.c, 18): it has zeros, or pages that were written
/// under other names. Those may have this position on the parent's timeline, as the segment has in which its timeline
/// begins; `begins_timeline`: this may be that one. It says nothing of the segments after this one.
pub(crate) fn is_unused(path: &Path, segment: SegmentName, begins_timeline: bool) -> bool {
    let is_empty = || is_empty(path, segment, begins_timeline);
    is_unmarked(path, segment) && is_empty().unwrap_or(false)
}

/// Whether no page was written under this name, and the first one is not damaged.
pub(crate) fn is_empty(path: &Path, segment: SegmentName, begins_timeline: bool) -> Option<bool> {
    let (len, start) = extent(path, segment)?;
    let file = File::open(path).ok()?;
    let mut first = [0; PAGE_SIZE];
    file.read_exact_at(&mut first, 0).ok()?;
    let is_whole = |header: SegmentHeader| u64::from(header.segment_size) == len;
    if first != [0; PAGE_SIZE] && !SegmentHeader::read(&first).is_ok_and(is_whole) {
        return Some(false);
    }
    for offset in (0..len).step_by(PAGE_SIZE) {
        let header = page_header(&file, offset)?;
        let is_here = |header: &PageHeader| header.address == start + offset;
        let is_own = |header: &PageHeader| begins_timeline || is_of(header, segment);
        if header.is_some_and(|header| is_here(&header) && is_own(&header)) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether a segment lies in a `pg_wal` without a mark that it is finished.
fn is_unmarked(path: &Path, segment: SegmentName) -> bool {
    let marks = path.parent().unwrap_or(path).join("archive_status");
    let is_marked = |kind| marks.join(format!("{segment}.{kind}")).exists();
    marks.is_dir() && !is_marked("ready") && !is_marked("done")
}

/// Whether the last page was written since the file got its name, or the first one of the next segment: a server ends
/// a segment before it begins another. What cannot be read is seen later.
fn is_filled(path: &Path, segment: SegmentName) -> bool {
    let Some((len, start)) = extent(path, segment) else {
        return true;
    };
    let last = len.saturating_sub(PAGE_SIZE as u64);
    if is_written(path, segment, (last, start)).unwrap_or(true) {
        return true;
    }
    let next = u32::try_from(len)
        .ok()
        .and_then(|size| segment.next(size).ok());
    next.is_some_and(|next| {
        let path = path.with_file_name(next.to_string());
        is_written(&path, next, (0, start + len)).unwrap_or(false)
    })
}

/// The length of a segment's file, and its position.
fn extent(path: &Path, segment: SegmentName) -> Option<(u64, u64)> {
    let len = fs::metadata(path).ok()?.len();
    let start = segment.start(u32::try_from(len).ok()?).ok()?;
    Some((len, start.0))
}

/// Whether the page at an offset was written as one of a segment, which is at this position.
fn is_written(path: &Path, segment: SegmentName, (offset, start): (u64, u64)) -> Option<bool> {
    let header = page_header(&File::open(path).ok()?, offset)?;
    let is_own = |header: PageHeader| header.address == start + offset && is_of(&header, segment);
    Some(header.is_some_and(is_own))
}

/// Whether a page is of a segment's timeline.
fn is_of(header: &PageHeader, segment: SegmentName) -> bool {
    header.timeline == segment.timeline.0
}

/// The header of the page at an offset; the inner `None` if it has none.
fn page_header(file: &File, offset: u64) -> Option<Option<PageHeader>> {
    let mut page = [0; PageHeader::SHORT_LEN];
    file.read_exact_at(&mut page, offset).ok()?;
    Some(PageHeader::read(&page))
}
