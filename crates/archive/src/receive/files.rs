//! What a file of received WAL says of itself.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use walzip_pgformat::Lsn;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use crate::error::ArchiveError;
use crate::files::regular_file;

/// What of a segment says whose it is (`XLogLongPageHeaderData`).
pub(super) const HEADER_LEN: usize = 40;

/// The WAL files in a directory, none where it is not there.
pub(super) fn wal_names(directory: &Path) -> Result<Vec<WalFileName>, ArchiveError> {
    let failed = |error| ArchiveError::file("read", directory, error);
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        names.extend(
            name.to_str()
                .and_then(|name| name.parse::<WalFileName>().ok()),
        );
    }
    Ok(names)
}

/// The header of a segment's first page; nothing where it is not written yet.
pub(super) fn read_header(path: &Path) -> Result<Option<SegmentHeader>, ArchiveError> {
    let failed = |error| ArchiveError::file("read", path, error);
    let (file, _) = regular_file::open(path).map_err(failed)?;
    let mut beginning = Vec::new();
    let mut limited = file.take(HEADER_LEN as u64);
    limited.read_to_end(&mut beginning).map_err(failed)?;
    if beginning.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    match SegmentHeader::read(&beginning) {
        Ok(header) => Ok(Some(header)),
        Err(error) => Err(ArchiveError::Invalid {
            path: path.to_owned(),
            reason: format!("not a WAL segment: {error}"),
        }),
    }
}

/// Where the WAL in a partial segment ends: behind the last byte that is not zero.
pub(super) fn received_end(
    path: &Path,
    segment: SegmentName,
    size: u32,
) -> Result<Lsn, ArchiveError> {
    const PIECE: usize = 1 << 20;
    let failed = |error| ArchiveError::file("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let start = segment.start(size)?;
    let mut end = file.metadata().map_err(failed)?.len();
    let mut piece = vec![0; PIECE];
    while end > 0 {
        let begin = end.saturating_sub(PIECE as u64);
        let part = piece.get_mut(..(end - begin) as usize).unwrap_or_default();
        file.read_exact_at(part, begin).map_err(failed)?;
        if let Some(last) = part.iter().rposition(|&byte| byte != 0) {
            return Ok(Lsn(start.0 + begin + last as u64 + 1));
        }
        end = begin;
    }
    Ok(start)
}
