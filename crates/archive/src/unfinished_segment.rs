//! A segment that PostgreSQL still writes, and that somebody pushes by hand.
//!
//! What would be archived is its beginning, and under its name PostgreSQL could not archive the whole
//! any more. PostgreSQL marks what is finished in `archive_status` (XLogArchiveNotify in
//! access/transam/xlogarchive.c, 18); what has no mark may be older than `archive_mode`, and is
//! finished if it was written up to its last page.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::PageHeader;
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
    let marks = path.parent().unwrap_or(path).join("archive_status");
    let is_marked = |kind| marks.join(format!("{segment}.{kind}")).exists();
    marks.is_dir() && !is_marked("ready") && !is_marked("done") && !is_filled(path, segment)
}

/// Whether the last page was written since the file got its name. What cannot be read is seen later.
fn is_filled(path: &Path, segment: SegmentName) -> bool {
    let last = || {
        let file = File::open(path).ok()?;
        let len = file.metadata().ok()?.len();
        let mut page = [0; PageHeader::SHORT_LEN];
        let at = len.checked_sub(PAGE_SIZE as u64)?;
        file.read_exact_at(&mut page, at).ok()?;
        let start = segment.start(u32::try_from(len).ok()?).ok()?;
        Some(PageHeader::read(&page)?.address == start.0 + at)
    };
    last().unwrap_or(true)
}
