//! Members: what one call encodes, and what a file is a sequence of.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use walzip_pgformat::Version;
use walzip_pgformat::wal::SegmentHeader;

use crate::coder::{Care, Choices};
use crate::container::{self, Content, Header, WalIdentity};
use crate::error::{DecodeError, EncodeError};
use crate::level::Level;
use crate::limits::{MEMBER_LEN_MAX, content_len_max};
use crate::segment;
use crate::zstd_frame::Effort;

/// Bytes of input that are no WAL segment and go into one member.
const FOREIGN_MEMBER_LEN: usize = 64 << 20;

/// Streams are mixed from this level on.
const MIXED_FROM: Level = Level::MAX;
/// Streams of more bytes than this for each byte of the input are not mixed: there would be
/// three copies of them in memory.
const MIXED_EXPANSION_MAX: usize = 4;
/// What stands beside mixed streams, and is tried in their place.
const BESIDE_MIXED: Level = Level::STRONG;

/// Bytes of input that the next member should take: a segment if one begins here.
pub fn member_len(start_of_input: &[u8]) -> usize {
    match SegmentHeader::read(start_of_input) {
        Ok(header) => header.segment_size as usize,
        Err(_) => FOREIGN_MEMBER_LEN,
    }
}

/// Encodes one member. The result is not proven: see [`encode_verified`].
pub fn encode(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    if input.len() > MEMBER_LEN_MAX {
        return Err(EncodeError::TooLong {
            len: input.len(),
            max: MEMBER_LEN_MAX,
        });
    }
    let Some((header, streams)) = segment::encode(input, choices(level)) else {
        return encode_foreign(input, level);
    };
    let mut content = streams.into_content();
    if content.bytes.len() as u64 > content_len_max(input.len() as u64, true) {
        return encode_foreign(input, level);
    }
    let identity = Some(WalIdentity::from(&header));
    let is_mixed = level >= MIXED_FROM
        && content.bytes.len() <= input.len().saturating_mul(MIXED_EXPANSION_MAX);
    let body = if is_mixed {
        let mixed = container::pack_mixed(&mut content, effort(BESIDE_MIXED, true))?;
        // A higher level is never larger than a lower one.
        let plain = pack(&content, BESIDE_MIXED)?;
        mixed
            .filter(|mixed| mixed.len() < plain.len())
            .unwrap_or(plain)
    } else {
        let unmixed = if level >= MIXED_FROM {
            BESIDE_MIXED
        } else {
            level
        };
        pack(&content, unmixed)?
    };
    Ok(container::write_member(input, identity, &body))
}

fn pack(content: &Content, level: Level) -> Result<Vec<u8>, EncodeError> {
    container::pack(&content.bytes, &content.cuts, effort(level, true))
}

fn encode_foreign(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    let body = container::pack(input, &[], effort(level, false))?;
    Ok(container::write_member(input, None, &body))
}

/// Encodes one member and proves that it decodes to the same bytes. What the model should
/// fail at is carried without it.
pub fn encode_verified(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    let proven = |file: &[u8]| decode(file).is_ok_and(|decoded| decoded == input);
    let file = encode(input, level)?;
    if proven(&file) {
        return Ok(file);
    }
    let file = encode_foreign(input, level)?;
    if proven(&file) {
        Ok(file)
    } else {
        Err(EncodeError::NotProven)
    }
}

/// Decodes all members of a file.
pub fn decode(file: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (mut original, mut rest) = split_member(file)?;
    while !rest.is_empty() {
        let (next, behind) = split_member(rest)?;
        original.extend_from_slice(&next);
        rest = behind;
    }
    Ok(original)
}

/// Decodes the member at the front of `bytes`; also returns the bytes that it has.
pub fn decode_member(bytes: &[u8]) -> Result<(Vec<u8>, usize), DecodeError> {
    let (original, rest) = split_member(bytes)?;
    Ok((original, bytes.len() - rest.len()))
}

/// The original of the member at the front of `bytes`, and what is behind it.
fn split_member(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("member");
    let header = Header::read(bytes)?;
    let member_len = usize::try_from(header.member_len).map_err(|_| CUT)?;
    let (member, rest) = bytes.split_at_checked(member_len).ok_or(CUT)?;
    let body = member.get(header.header_len..).ok_or(CUT)?;
    let content = container::read_content(&header, body)?;
    let original = match header.identity {
        None => content,
        Some(identity) => segment::decode(&header, segment_header(&identity)?, content)?,
    };
    if original.len() as u64 != header.original_len
        || *blake3::hash(&original).as_bytes() != header.original_hash
    {
        return Err(DecodeError::HashMismatch);
    }
    Ok((original, rest))
}

/// What the first page of the segment needs; the rest of it is in the streams.
fn segment_header(identity: &WalIdentity) -> Result<SegmentHeader, DecodeError> {
    let version = Version::from_page_magic(identity.page_magic)
        .ok_or(DecodeError::Corrupt("page magic of no known major"))?;
    Ok(SegmentHeader {
        version,
        flags: 0,
        timeline: identity.timeline,
        start: identity.start,
        system_id: identity.system_id,
        segment_size: identity.segment_size,
        remaining_len: 0,
    })
}

/// How each level chooses.
pub fn choices(level: Level) -> Choices {
    Choices {
        care: match level.get() {
            1 => Care::Quick,
            _ => Care::Full,
        },
        without: None,
    }
}

/// What stands behind each level.
pub fn effort(level: Level, streams: bool) -> Effort {
    let zstd_level = match level.get() {
        level @ 0..=3 => i32::from(level),
        4 => 6,
        5 => 9,
        6 => 12,
        7 => 15,
        8 => 18,
        _ => 22,
    };
    Effort {
        level: zstd_level,
        long: streams && level.get() >= 5,
    }
}
