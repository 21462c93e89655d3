//! A segment that lies in `pg_wal` already, where PostgreSQL asks for it.
//!
//! PostgreSQL puts what `restore_command` delivers in the place of its own file (KeepFileRestoredFromArchive in
//! access/transam/xlogarchive.c, 13 to 18): when a stream breaks, when it is promoted, when it starts. Of the segment in which a
//! timeline was left, the archive may have the copy of a server that was sent less of it, so that the own file has commits
//! that are nowhere else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::wal::replayed;

/// The server's own file.
pub(crate) struct OwnCopy {
    path: PathBuf,
    content: Vec<u8>,
}

impl OwnCopy {
    /// The file beside the destination that has a segment's name, if it was written as that segment.
    pub(crate) fn beside(destination: &Path, segment: SegmentName) -> io::Result<Option<OwnCopy>> {
        let path = destination.with_file_name(segment.to_string());
        if path == destination {
            return Ok(None);
        }
        let content = match fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_begun = SegmentHeader::read(&content)
            .is_ok_and(|header| segment.start(header.segment_size).ok() == Some(header.start));
        Ok(is_begun.then_some(OwnCopy { path, content }))
    }

    /// Whether the archived copy is the beginning of this one, which has records after it. Where each has its own, the
    /// archive's counts, as to PostgreSQL.
    pub(crate) fn goes_on_after(&self, archived: &[u8]) -> bool {
        if self.content == archived {
            return false;
        }
        let mut pairs = self.content.iter().zip(archived);
        let Some(at) = pairs.position(|(own, archived)| own != archived) else {
            return false;
        };
        let ends_after =
            |segment: &[u8]| replayed::end_of_records(segment).is_some_and(|end| end.offset > at);
        ends_after(&self.content) && !ends_after(archived)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether the server's own file of a segment, beside the destination, goes on after this one.
pub(crate) fn goes_on_after(
    archived: &Path,
    (destination, segment): (&Path, SegmentName),
) -> io::Result<bool> {
    let Some(own) = OwnCopy::beside(destination, segment)? else {
        return Ok(false);
    };
    let archived = fs::read(archived)?;
    Ok(own.goes_on_after(&archived))
}
