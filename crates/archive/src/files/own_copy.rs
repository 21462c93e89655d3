//! A segment that lies in `pg_wal` already, where PostgreSQL asks for it.
//!
//! PostgreSQL puts what `restore_command` delivers in the place of its own file (KeepFileRestoredFromArchive in
//! access/transam/xlogarchive.c, 13 to 18): when a stream breaks, when it is promoted, when it starts. Of the segment in which a
//! timeline was left, the archive may have the copy of a server that was sent less of it, so that the own file has commits
//! that are nowhere else.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::files::regular_file;
use crate::wal::replayed;

/// Under this name PostgreSQL wants a segment, and renames it then (XLogFileRead in access/transam/xlogrecovery.c, 15 to 18,
/// and in xlog.c up to 14).
const ASKED_FOR: &str = "RECOVERYXLOG";

/// Bytes that are compared at a time.
const PIECE_LEN: usize = 1 << 16;

/// The server's own file, compared with the archived copy as that comes.
pub(crate) struct OwnCopy {
    path: PathBuf,
    file: File,
    header: SegmentHeader,
    /// Bytes of the archived copy that have come.
    compared: usize,
    /// The first of them that differs, and all from there on.
    rest: Option<(usize, Vec<u8>)>,
}

impl OwnCopy {
    /// The file beside the destination that has a segment's name, if it was written as that segment, where PostgreSQL asks.
    pub(crate) fn beside(destination: &Path, segment: SegmentName) -> io::Result<Option<OwnCopy>> {
        if destination.file_name() != Some(OsStr::new(ASKED_FOR)) {
            return Ok(None);
        }
        let path = destination.with_file_name(segment.to_string());
        let file = match regular_file::open(&path) {
            Ok((file, _)) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut beginning = Vec::new();
        (&file).take(PAGE_SIZE as u64).read_to_end(&mut beginning)?;
        let header = SegmentHeader::read(&beginning).ok();
        let is_begun =
            |header: &SegmentHeader| segment.start(header.segment_size).ok() == Some(header.start);
        Ok(header.filter(is_begun).map(|header| OwnCopy {
            path,
            file,
            header,
            compared: 0,
            rest: None,
        }))
    }

    /// Takes the bytes of the archived copy that follow.
    pub(crate) fn compare(&mut self, archived: &[u8]) -> io::Result<()> {
        for piece in archived.chunks(PIECE_LEN) {
            if let Some((_, rest)) = &mut self.rest {
                rest.extend_from_slice(piece);
                continue;
            }
            let own = self.read(self.compared, piece.len())?;
            let same = own.iter().zip(piece).take_while(|(own, of)| own == of);
            let same = same.count();
            if same < own.len() {
                self.rest = Some((self.compared + same, piece[same..].to_vec()));
            }
            self.compared += piece.len();
        }
        Ok(())
    }

    /// Whether the archived copy, which has come whole, is the beginning of this one, which has records after it. Where each has its
    /// own, the archive's counts, as to PostgreSQL.
    pub(crate) fn goes_on(&self) -> io::Result<bool> {
        let Some((at, rest)) = &self.rest else {
            return Ok(false);
        };
        let size = self.header.segment_size as usize;
        // What begins in the segment and goes on in the next one counts: that may be there, too.
        let ends_after =
            |segment: &[u8]| replayed::end_with_next(segment).is_some_and(|end| end > *at);
        if !ends_after(&self.read(0, size)?) {
            return Ok(false);
        }
        // What was cut off in the last page looks like a record that goes on in the next segment.
        if rest.iter().all(|&byte| byte == 0) {
            return Ok(true);
        }
        let mut archived = self.read(0, *at)?;
        archived.extend_from_slice(rest);
        Ok(!ends_after(&archived))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file from an offset on; fewer at its end.
    fn read(&self, offset: usize, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut read = 0;
        while read < len {
            match self
                .file
                .read_at(&mut bytes[read..], (offset + read) as u64)?
            {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// Whether the server's own file of a segment, beside the destination, goes on after this one.
pub(crate) fn goes_on_after(
    archived: &Path,
    (destination, segment): (&Path, SegmentName),
) -> io::Result<bool> {
    let Some(mut own) = OwnCopy::beside(destination, segment)? else {
        return Ok(false);
    };
    let mut archived = File::open(archived)?;
    let mut piece = vec![0; PIECE_LEN];
    loop {
        match archived.read(&mut piece)? {
            0 => return own.goes_on(),
            read => own.compare(&piece[..read])?,
        }
    }
}
