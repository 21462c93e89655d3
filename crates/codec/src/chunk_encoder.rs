//! What encodes chunks of relation files and proves them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::chunk::{Extent, check, decode, encode};
use crate::container::{self, Claims, ContentShape, MemberKind};
use crate::encoder::{or_do_without, without_model};
use crate::error::{DecodeError, DecodeToError, EncodeError};
use crate::format_version::FormatVersion;
use crate::level::Level;
use crate::model::KnownRelations;
use crate::original::{Expected, Original};
use crate::packing;
use crate::streams::StreamReader;

const OTHER: DecodeError = DecodeError::Corrupt("streams make another chunk");

/// Where the model makes more than this part of a chunk, it may be no use.
const DOUBTFUL_PART: (usize, usize) = (7, 8);

/// Encodes a chunk, whose bytes are those of its extents one behind the other: at most
/// [`CHUNK_LEN_MAX`](crate::CHUNK_LEN_MAX). With `proves` it is decoded again and compared. What the model should fail
/// at, even by a panic, and what it gains nothing for, is carried without it, as a foreign member.
pub fn encode_chunk(
    extents: &[Extent],
    bytes: &[u8],
    level: Level,
    proves: bool,
) -> Result<Vec<u8>, EncodeError> {
    ChunkEncoder::new(level, proves).encode(extents, bytes)
}

/// Encodes chunk after chunk as [`encode_chunk`] does, in less time: it remembers how it has read
/// the tuples of a relation. A chunk is decoded without the others nevertheless.
#[derive(Debug)]
pub struct ChunkEncoder {
    level: Level,
    proves: bool,
    known: KnownRelations,
}

impl ChunkEncoder {
    /// Encodes at a level. With `proves`, each chunk is decoded again and compared.
    pub fn new(level: Level, proves: bool) -> ChunkEncoder {
        ChunkEncoder {
            level,
            proves,
            known: KnownRelations::default(),
        }
    }

    /// Encodes a chunk. A relation has the same number in all chunks; where another one has had
    /// it, that costs time or bytes.
    pub fn encode(&mut self, extents: &[Extent], bytes: &[u8]) -> Result<Vec<u8>, EncodeError> {
        check(extents, bytes.len())?;
        let without = || without_model(bytes.into(), self.level, self.proves);
        let has_pages =
            |extent: &Extent| matches!(extent, Extent::Pages { pages, .. } if *pages > 0);
        if !extents.iter().any(has_pages) {
            return without();
        }
        // A panic leaves nothing behind that is used again.
        let mut known = std::mem::take(&mut self.known);
        let mut left = None;
        let member = or_do_without(
            || {
                let member = with_model(extents, bytes, self.level, self.proves, &mut known)?;
                left = Some(known);
                Ok(member)
            },
            without,
        )?;
        self.known = left.unwrap_or_default();
        let (part, of) = DOUBTFUL_PART;
        if member.len() / part < bytes.len() / of {
            return Ok(member);
        }
        Ok(std::cmp::min_by_key(member, without()?, Vec::len))
    }
}

fn with_model(
    extents: &[Extent],
    bytes: &[u8],
    level: Level,
    proves: bool,
    known: &mut KnownRelations,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let choices = packing::chunk_choices(level);
    let Some(streams) = encode(extents, bytes, choices, known) else {
        return Ok(None);
    };
    let len = bytes.len();
    let body = packing::pack_streams(&streams, MemberKind::Pages, choices, level, len)?;
    drop(streams);
    let Some(body) = body else {
        return Ok(None);
    };
    let hash = match proves {
        true => {
            let mut packed = Vec::with_capacity(body.len());
            body.write(&mut packed);
            proven_hash(&packed, bytes).map_err(|_| EncodeError::NotProven)?
        }
        false => blake3::hash(bytes),
    };
    let kind = MemberKind::Pages;
    Ok(Some(container::write_member(len, hash, kind, None, &body)))
}

/// Decodes a body and compares it with the chunk; returns the chunk's hash.
fn proven_hash(body: &[u8], bytes: &[u8]) -> Result<blake3::Hash, DecodeToError> {
    let shape = ContentShape {
        kind: MemberKind::Pages,
        version: FormatVersion::CURRENT,
        original_len: bytes.len() as u64,
    };
    let mut content = container::read_content(shape, body, Claims::Bounded)?;
    let streams = StreamReader::new(&mut content, shape.version, shape.unpacked_len_max(body))?;
    let mut expected = Expected::new(bytes.into());
    let mut original = Original::new(&mut expected);
    decode(streams, bytes.len(), &mut original)?;
    let (_, hash) = original.finish()?;
    match expected.is_complete() {
        true => Ok(hash.into()),
        false => Err(OTHER.into()),
    }
}
