//! A pack as a file, outside a repository.

use std::time::SystemTime;

use walzip_pgformat::bytes::{read_u32, read_u64};
use walzip_repo::PackName;
use walzip_repo::layout::MAX_PACK_BYTES;

use crate::coding::pack_header::{self, Content};
use crate::error::ArchiveError;
use crate::packs::format::{NAME_LEN, TRAILER_LEN, read_index};
use crate::packs::reading::Decoding;

/// More bytes than any pack has.
pub const LEN_MAX: usize = MAX_PACK_BYTES + 1;

/// Whether this is how a pack of WAL begins.
pub fn is_pack(beginning: &[u8]) -> bool {
    pack_header::check_header(beginning, Content::Wal).is_ok()
}

/// Decodes the segments of a pack in their order: the name of each, its bytes, and how many it has in
/// the pack.
pub fn decode<E: From<ArchiveError>>(
    pack: &[u8],
    mut take: impl FnMut(&str, &[u8], u64) -> Result<(), E>,
) -> Result<(), E> {
    let damaged = |reason: String| ArchiveError::Damaged {
        object: "the pack".to_owned(),
        reason,
    };
    let version = pack_header::check_header(pack, Content::Wal).map_err(damaged)?;
    let name = own_name(pack).ok_or_else(|| damaged("it does not end as packs do".to_owned()))?;
    let index = read_index(&name, pack.len() as u64, pack).map_err(damaged)?;
    index.check_version(version).map_err(damaged)?;
    let mut decoding = Decoding::default();
    for member in &index.members {
        // The index was compared with the length.
        let bytes = pack.get(member.offset as usize..member.end() as usize);
        let mut segment = Vec::new();
        let decoded = decoding.decode(&name, member, bytes.unwrap_or_default(), &mut segment);
        decoded.map_err(|failed| failed.into_archive(&member.name))?;
        take(&member.name, &segment, member.len)?;
    }
    Ok(())
}

/// The name that a pack would have, by what its end says; when its segments were archived it does
/// not.
fn own_name(pack: &[u8]) -> Option<PackName> {
    let (before, trailer) = pack.split_last_chunk::<TRAILER_LEN>()?;
    let index = usize::try_from(read_u64(trailer, 0)?).ok()?;
    let count = read_u32(trailer, 8)? as usize;
    let first = before.get(index..)?.get(..NAME_LEN)?;
    let first = std::str::from_utf8(first).ok()?;
    PackName::new(first, count, SystemTime::UNIX_EPOCH).ok()
}
