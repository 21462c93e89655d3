//! What encodes chunks of relation files and proves them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::chunk::{Extent, check, decode, encode};
use crate::container::{self, Claims, ContentShape, Header, MemberKind};
use crate::encoder::{or_do_without, without_model};
use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::format_version::FormatVersion;
use crate::level::Level;
use crate::level_policy;
use crate::model::table::entries::Entries;
use crate::model::{ChunkPages, KnownRelations};
use crate::original::{Expected, InMemory, Original};
use crate::packing;
use crate::streams::StreamReader;
use crate::streams::coder::{Choices, Proof};

const OTHER: DecodeError = DecodeError::Corrupt("streams make another chunk");

/// Where the model makes more than this part of a chunk, it may be no use.
const DOUBTFUL_PART: (usize, usize) = (7, 8);
/// Where the entries leave more than this part of an index, they may be no use.
const DOUBTFUL_INDEX_PART: usize = 16;

/// Encodes a chunk, whose bytes are those of its extents one behind the other: at most
/// [`CHUNK_LEN_MAX`](crate::limits::CHUNK_LEN_MAX). With `proves` it is decoded again and compared. What the model should fail
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
        let how = (self.level, self.proves);
        let member = or_do_without(
            || {
                let member = with_model(extents, bytes, None, how, &mut known)?;
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

    /// Encodes a chunk of an index, of which the entries are known; returns whether it is decoded with
    /// those. Where that gains nothing, or the model should fail at it, it is as without them.
    pub fn encode_index(
        &mut self,
        extents: &[Extent],
        bytes: &[u8],
        entries: &Arc<Entries>,
    ) -> Result<(Vec<u8>, bool), EncodeError> {
        check(extents, bytes.len())?;
        let how = (self.level, self.proves);
        let mut known = KnownRelations::default();
        let encoded = catch_unwind(AssertUnwindSafe(|| {
            with_model(extents, bytes, Some(entries), how, &mut known)
        }));
        let Ok(Ok(Some(told))) = encoded else {
            return Ok((self.encode(extents, bytes)?, false));
        };
        if told.len() < bytes.len() / DOUBTFUL_INDEX_PART {
            return Ok((told, true));
        }
        let without = self.encode(extents, bytes)?;
        match told.len() < without.len() {
            true => Ok((told, true)),
            false => Ok((without, false)),
        }
    }
}

fn with_model(
    extents: &[Extent],
    bytes: &[u8],
    entries: Option<&Arc<Entries>>,
    (level, proves): (Level, bool),
    known: &mut KnownRelations,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let mut proven_with = |proof| {
        let choices = Choices {
            proof,
            ..level_policy::choices(level)
        };
        member_of(extents, bytes, entries, (level, choices, proves), known)
    };
    if !proves {
        return proven_with(Proof::Each);
    }
    match proven_with(Proof::Later) {
        // Something was taken for granted wrongly.
        Err(EncodeError::NotProven) => proven_with(Proof::Each),
        done => done,
    }
}

fn member_of(
    extents: &[Extent],
    bytes: &[u8],
    entries: Option<&Arc<Entries>>,
    (level, choices, proves): (Level, Choices, bool),
    known: &mut KnownRelations,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let kind = match entries {
        Some(_) => MemberKind::IndexPages,
        None => MemberKind::Pages,
    };
    let Some(streams) = encode(extents, bytes, model_of(entries), choices, known) else {
        return Ok(None);
    };
    let len = bytes.len();
    let body = packing::pack_streams(&streams, kind, choices, level, len)?;
    drop(streams);
    let Some(body) = body else {
        return Ok(None);
    };
    let hash = match proves {
        true => {
            let mut packed = Vec::with_capacity(body.len());
            body.write(&mut packed);
            proven_hash(kind, &packed, bytes, entries).map_err(|_| EncodeError::NotProven)?
        }
        false => blake3::hash(bytes),
    };
    Ok(Some(container::write_member(len, hash, kind, None, &body)))
}

fn model_of(entries: Option<&Arc<Entries>>) -> ChunkPages {
    match entries {
        Some(entries) => ChunkPages::of_entries(Arc::clone(entries)),
        None => ChunkPages::default(),
    }
}

/// Decodes a body and compares it with the chunk; returns the chunk's hash.
fn proven_hash(
    kind: MemberKind,
    body: &[u8],
    bytes: &[u8],
    entries: Option<&Arc<Entries>>,
) -> Result<blake3::Hash, DecodeToError> {
    let shape = ContentShape {
        kind,
        version: FormatVersion::CURRENT,
        original_len: bytes.len() as u64,
    };
    let mut content = container::read_content(shape, body, Claims::Bounded)?;
    let streams = StreamReader::new(&mut content, shape.version, shape.unpacked_len_max(body))?;
    let mut expected = Expected::new(bytes.into());
    let mut original = Original::new(&mut expected);
    decode(streams, model_of(entries), bytes.len(), &mut original)?;
    let (_, hash) = original.finish()?;
    match expected.is_complete() {
        true => Ok(hash.into()),
        false => Err(OTHER.into()),
    }
}

/// Decodes a member of an index, of which the entries are known.
pub fn decode_index_chunk(member: &[u8], entries: &Arc<Entries>) -> Result<Vec<u8>, DecodeError> {
    let header = Header::read(member)?;
    if header.kind != MemberKind::IndexPages {
        return Err(DecodeError::Corrupt("no member of an index"));
    }
    let body = member.get(header.header_len..);
    let body = body.filter(|_| member.len() as u64 == header.member_len);
    let body = body.ok_or(DecodeError::Truncated("member"))?;
    let shape = ContentShape::from(&header);
    let mut content = container::read_content(shape, body, Claims::Bounded)?;
    let streams = StreamReader::new(&mut content, shape.version, shape.unpacked_len_max(body))?;
    let len = header.original_len as usize;
    let mut bytes = InMemory::of(len);
    let mut original = Original::new(&mut bytes);
    let decoded = decode(streams, model_of(Some(entries)), len, &mut original);
    let checked = decoded.and_then(|()| original.check(header.original_len, &header.original_hash));
    match checked {
        Ok(()) => Ok(bytes.bytes),
        Err(DecodeToError::Decode(error)) => Err(error),
        Err(DecodeToError::Write(_)) => Err(NO_MEMORY),
    }
}
