//! Packs of a backup's files: objects that hold chunks, one behind the other, after a header.

use crate::coding::pack_header::{self, Content};

pub(crate) use crate::coding::pack_header::HEADER_LEN;

/// Bytes at which a pack is closed by default.
pub(crate) const PACK_BYTES: u64 = 64 << 20;

/// The header of a pack of a backup's files.
pub(crate) fn header() -> [u8; HEADER_LEN] {
    pack_header::header(Content::Backup)
}

/// Refuses what is no pack of a backup's files that this walzip can read.
pub(crate) fn check_header(header: &[u8]) -> Result<(), String> {
    pack_header::check_header(header, Content::Backup).map(|_| ())
}

/// How the names of packs begin; their number follows.
pub(crate) const PACK: &str = "pack.";

/// The name of a pack below its backup's label.
pub(crate) fn name(number: usize) -> String {
    format!("{PACK}{number:04}")
}
