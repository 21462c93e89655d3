//! Members, of which a file is a sequence.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;

use walzip_pgformat::wal::{SegmentHeader, is_segment_size};
use walzip_pgformat::{PAGE_SIZE, Version};

use crate::coder::{Care, Choices};
use crate::container::{self, Body, Claims, Content, Header, WalIdentity};
use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::level::Level;
use crate::limits::{MEMBER_LEN_MAX, content_len_believed, content_len_max};
use crate::mixing::Outlook;
use crate::original::{InMemory, Original};
use crate::segment;
use crate::zstd_frame::Effort;

const TOO_MUCH: DecodeError = DecodeError::Corrupt("members of more bytes than a segment");

/// Bytes of an original that are believed before they are there.
const RESERVED_MAX: u64 = 64 << 20;

/// Streams are mixed from this level on.
const MIXED_FROM: Level = Level::MAX;
/// The slowest level of zstd alone.
const UNMIXED: Level = MIXED_FROM.below();
/// The first level at which zstd takes long, and the part of the original that it may have to
/// take long for.
const SLOW_FROM: Level = Level::STRONG.above();
const HARD_PART: usize = 4;
/// Streams of more bytes than this for each byte of the input are not mixed: there would be
/// three copies of them in memory.
const MIXED_EXPANSION_MAX: usize = 4;
/// The level that takes little more time than none, and the first one that is compared with it.
const QUICK: Level = Level::MIN.above();
const SEARCHED_FROM: Level = Level::STRONG.below();
/// What mixed streams are compared with.
const BESIDE_MIXED: Level = Level::STRONG;
/// Where mixing gains less than this, in percent, another level may be smaller.
const MIXING_GAIN_MIN: usize = 4;

/// Encodes a segment, or a part of one, as one member: as foreign bytes where the format cannot
/// say it otherwise.
pub fn encode_part(
    input: &[u8],
    header: &SegmentHeader,
    level: Level,
    choices: Choices,
) -> Result<Vec<u8>, EncodeError> {
    let Some(streams) = segment::encode(input, header, choices) else {
        return encode_foreign(input, level);
    };
    let mut content = streams.into_content();
    if content.bytes.len() as u64 > content_len_max(input.len() as u64, true) {
        return encode_foreign(input, level);
    }
    let content_len = content.bytes.len() as u64;
    let identity = Some(WalIdentity::from(header));
    let body = if level >= SLOW_FROM {
        pack_slowly(&mut content, level, input.len())?
    } else {
        pack(&content, level)?
    };
    // What the member is put together in can have its place.
    drop(content);
    if content_len > content_len_believed(body.len() as u64) {
        return encode_foreign(input, level);
    }
    Ok(container::write_member(input, identity, &body))
}

/// What the slow levels make of content: less effort where it would take far too long.
fn pack_slowly(
    content: &mut Content,
    level: Level,
    original_len: usize,
) -> Result<Body, EncodeError> {
    let outlook = container::outlook(content, original_len)?;
    let is_too_hard = |hard_len: usize| hard_len > original_len / HARD_PART;
    let unmixed = match is_too_hard(outlook.hard_len) {
        true => Level::STRONG,
        false => level.min(UNMIXED),
    };
    let is_too_long = content.bytes.len() > original_len.saturating_mul(MIXED_EXPANSION_MAX);
    // Where the hardest streams take too long to be mixed, the others are not worth it.
    let is_mostly_left = outlook.hard_len_unmixed > outlook.hard_len / 2;
    if level >= MIXED_FROM && !is_too_long && !is_mostly_left {
        smallest(content, &outlook)
    } else {
        pack(content, unmixed)
    }
}

/// Mixed streams, unless zstd makes less of all.
fn smallest(content: &mut Content, outlook: &Outlook) -> Result<Body, EncodeError> {
    let effort = effort(UNMIXED, true);
    let Some(mixed) = container::pack_mixed(content, &outlook.mixed, effort)? else {
        return pack(content, UNMIXED);
    };
    let plain = Plain::of(content, BESIDE_MIXED)?;
    let plain_len = plain.body.len();
    // More effort gains less and less.
    let gained = outlook.packed_len.saturating_sub(plain_len);
    let expected = plain_len.saturating_sub(gained / 2);
    if mixed.len() < expected.max(plain_len - plain_len * MIXING_GAIN_MIN / 100) {
        return Ok(mixed);
    }
    // The slowest level would take more time than is left.
    let unmixed = plain.or_of(content, SLOW_FROM)?;
    Ok(std::cmp::min_by_key(mixed, unmixed, Body::len))
}

/// What zstd makes of content at a level, or at a faster one: its search may find matches that
/// cost more than they save, in texts of hexadecimal digits for one.
fn pack(content: &Content, level: Level) -> Result<Body, EncodeError> {
    if level < SEARCHED_FROM {
        return pack_at(content, level);
    }
    Plain::of(content, level.min(Level::STRONG))?.or_of(content, level)
}

fn pack_at(content: &Content, level: Level) -> Result<Body, EncodeError> {
    container::pack(&content.bytes, &content.cuts, effort(level, true))
}

/// What zstd makes of content without too much effort.
struct Plain {
    body: Body,
    /// Search has found nothing.
    is_searched_in_vain: bool,
}

impl Plain {
    fn of(content: &Content, level: Level) -> Result<Plain, EncodeError> {
        let quick = pack_at(content, QUICK)?;
        let searched = pack_at(content, level)?;
        Ok(Plain {
            is_searched_in_vain: quick.len() <= searched.len(),
            body: std::cmp::min_by_key(quick, searched, Body::len),
        })
    }

    /// The same, or what a slower level makes of the content where that can be expected to be less.
    fn or_of(self, content: &Content, level: Level) -> Result<Body, EncodeError> {
        if level <= Level::STRONG || self.is_searched_in_vain {
            return Ok(self.body);
        }
        let body = pack_at(content, level)?;
        Ok(std::cmp::min_by_key(self.body, body, Body::len))
    }
}

/// Encodes any bytes as one member.
pub fn encode_foreign(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    let body = container::pack(input, &[], effort(level, false))?;
    Ok(container::write_member(input, None, &body))
}

/// Decodes all members of a file, which together hold at most [`MEMBER_LEN_MAX`] bytes; of
/// more, decode one after the other. For a file of one's own: it gets the memory that it claims.
pub fn decode(file: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (original, ()) = in_memory(total_len(file)?, |original| decode_to(file, original))?;
    Ok(original)
}

/// [`decode`] into an output; see [`decode_member_to`].
pub fn decode_to(file: &[u8], output: &mut dyn Write) -> Result<(), DecodeToError> {
    total_len(file)?;
    let mut at = decode_member_to(file, output, Claims::Believed)?;
    while let Some(rest) = file.get(at..).filter(|rest| !rest.is_empty()) {
        at += decode_member_to(rest, output, Claims::Believed)?;
    }
    Ok(())
}

/// Bytes that all members claim to hold: refuses too many, before anything is decoded.
fn total_len(file: &[u8]) -> Result<u64, DecodeError> {
    let mut rest = file;
    let mut total = 0u64;
    while !rest.is_empty() {
        let header = Header::read(rest)?;
        total = total.saturating_add(header.original_len);
        if total > MEMBER_LEN_MAX as u64 {
            return Err(TOO_MUCH);
        }
        let member_len = usize::try_from(header.member_len).unwrap_or(usize::MAX);
        rest = rest.get(member_len..).unwrap_or_default();
    }
    Ok(total)
}

/// Decodes the member at the front of `bytes`; also returns the bytes that it has.
pub fn decode_member(bytes: &[u8], claims: Claims) -> Result<(Vec<u8>, usize), DecodeError> {
    let len = Header::read(bytes)?.original_len;
    in_memory(len, |original| decode_member_to(bytes, original, claims))
}

fn in_memory<T>(
    len: u64,
    decode: impl FnOnce(&mut InMemory) -> Result<T, DecodeToError>,
) -> Result<(Vec<u8>, T), DecodeError> {
    let mut original = InMemory::of(len.min(RESERVED_MAX) as usize);
    match decode(&mut original) {
        Ok(result) => Ok((original.bytes, result)),
        Err(DecodeToError::Decode(error)) => Err(error),
        // Which memory does not do.
        Err(DecodeToError::Write(_)) => Err(NO_MEMORY),
    }
}

/// Decodes the member at the front of `bytes` into an output; returns the bytes that it has.
///
/// The output gets the original a piece at a time, before all of it is checked: where this
/// fails, what was written is worth nothing.
pub fn decode_member_to(
    bytes: &[u8],
    output: &mut dyn Write,
    claims: Claims,
) -> Result<usize, DecodeToError> {
    const CUT: DecodeError = DecodeError::Truncated("member");
    let header = Header::read(bytes)?;
    if header.original_len > MEMBER_LEN_MAX as u64 {
        return Err(TOO_MUCH.into());
    }
    let member_len = usize::try_from(header.member_len).map_err(|_| CUT)?;
    let member = bytes.get(..member_len).ok_or(CUT)?;
    let body = member.get(header.header_len..).ok_or(CUT)?;
    let mut original = Original::new(output);
    match &header.identity {
        None => container::decode_foreign(&header, body, &mut original)?,
        Some(identity) => {
            let segment = segment_header(&header, identity)?;
            let content = container::read_content(&header, body, claims)?;
            segment::decode(&header, segment, content, &mut original)?;
        }
    }
    original.check(header.original_len, &header.original_hash)?;
    Ok(member_len)
}

/// What the pages of the segment need; the rest of it is in the streams.
fn segment_header(header: &Header, identity: &WalIdentity) -> Result<SegmentHeader, DecodeError> {
    const NO_SEGMENT: DecodeError = DecodeError::Corrupt("identity of no segment");
    let version = Version::from_page_magic(identity.page_magic)
        .ok_or(DecodeError::Corrupt("page magic of no known major"))?;
    if !is_segment_size(identity.segment_size) {
        return Err(NO_SEGMENT);
    }
    let segment = SegmentHeader {
        version,
        flags: 0,
        timeline: identity.timeline,
        start: identity.start,
        system_id: identity.system_id,
        segment_size: identity.segment_size,
        remaining_len: 0,
    };
    let offset = segment.offset_in_segment();
    let fits = u64::from(offset) + header.original_len <= u64::from(segment.segment_size);
    let may_be_there = match offset {
        0 => true,
        offset => header.version.has_parts() && offset.is_multiple_of(PAGE_SIZE as u32),
    };
    (fits && may_be_there).then_some(segment).ok_or(NO_SEGMENT)
}

/// How each level chooses.
pub fn choices(level: Level) -> Choices {
    Choices {
        care: match level.get() {
            1 => Care::Quick,
            _ => Care::Full,
        },
        ..Choices::default()
    }
}

/// What stands behind each level.
pub fn effort(level: Level, streams: bool) -> Effort {
    let level = level.get();
    let zstd_level = match level {
        // On streams zstd's first level is no faster than its second, and up to 15 % larger.
        1 if streams => 2,
        0..=3 => i32::from(level),
        4 => 6,
        5 => 9,
        6 => 12,
        7 => 15,
        _ => 18,
    };
    Effort {
        level: zstd_level,
        // What the model has put into different streams may be far apart.
        long: match level {
            2.. if streams => Some(32),
            _ => None,
        },
        // Half of that level's table, which then stays in the processor's inner caches.
        hash_log: (streams && level == 1).then_some(15),
        // Of 5 bytes, as zstd's levels take them, more matches cost more than they save; and its
        // fastest levels are faster without those of 6.
        min_match: match level {
            1 | 2 if streams => Some(7),
            3..=6 if streams => Some(6),
            _ => None,
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Of random hexadecimal digits zstd's search makes more than its fastest levels do.
    #[test]
    fn search_that_gains_nothing_is_given_up() {
        let mut state = 1u32;
        let mut digit = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_digit(state >> 28, 16).unwrap() as u8
        };
        let content = Content {
            bytes: std::iter::repeat_with(&mut digit).take(1 << 20).collect(),
            cuts: Vec::new(),
            streams_start: 0,
            shapes: Vec::new(),
        };
        let quick = pack_at(&content, QUICK).unwrap().len();
        assert!(pack_at(&content, UNMIXED).unwrap().len() > quick);
        for level in [SEARCHED_FROM, Level::STRONG, SLOW_FROM, UNMIXED] {
            assert_eq!(pack(&content, level).unwrap().len(), quick);
        }
    }
}
