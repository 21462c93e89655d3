//! A file of a backup, copied piece by piece and proven against PostgreSQL's manifest.

use std::io::{self, Read};

use crate::backups::pg_manifest::{Hasher, ManifestFile};
use crate::error::ArchiveError;

const PIECE_BYTES: u64 = 256 << 10;

/// Passes the content of a file to `take`, and proves it at its end: what was passed on before
/// that is not proven yet. `backup` and `file` are for messages.
pub(crate) fn copy(
    backup: &str,
    file: &str,
    listed: &ManifestFile,
    content: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let damaged = |reason: String| ArchiveError::Damaged {
        object: backup.to_owned(),
        reason,
    };
    let mut hasher = Hasher::of(listed.checksum.as_ref());
    let mut piece = vec![0; listed.size_bytes.clamp(1, PIECE_BYTES) as usize];
    let mut left = listed.size_bytes;
    loop {
        let length = match content.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(format!("its files cannot be read: {error}"))),
        };
        let read = piece.get(..length).unwrap_or_default();
        hasher.update(read);
        take(read)?;
        left = left.saturating_sub(length as u64);
    }
    if left != 0 {
        return Err(damaged(format!("{file} ends {left} bytes early")));
    }
    match hasher.matches(listed.checksum.as_ref()) {
        true => Ok(()),
        false => Err(damaged(format!(
            "{file} does not have the manifest's checksum"
        ))),
    }
}
