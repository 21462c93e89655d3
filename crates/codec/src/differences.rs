//! Blocks of relations and of other files as differences against the blocks that stood in their
//! places before, and back.
//!
//! The caller supplies those, as many bytes as the chunk has. The header has their hash. The stream
//! `Extents` is as that of a chunk of pages, but for its bytes, which are whole blocks.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use walzip_pgformat::PAGE_SIZE;

use crate::chunk::{self, BYTES, END, Extent, PAGES};
use crate::container::{self, Claims, ContentShape, Header, MemberKind};
use crate::error::{DecodeError, EncodeError};
use crate::fast_hash::FastHash;
use crate::format_version::FormatVersion;
use crate::level::Level;
use crate::level_policy;
use crate::model::BlockDifferences;
use crate::packing;
use crate::streams::coder::{Choices, Coder, LazyStream};
use crate::streams::filled::Filled;
use crate::streams::kind::StreamKind;
use crate::streams::{StreamReader, StreamWriter};

const BAD: DecodeError = DecodeError::Corrupt("streams do not make blocks");

/// Encodes the blocks of a chunk as differences against as many others. With `proves` the member
/// is decoded again and compared. `None` where the chunk does not consist of whole blocks, where the
/// format cannot say it, or where the model should panic.
pub fn encode_differences(
    extents: &[Extent],
    bytes: &[u8],
    base: &[u8],
    level: Level,
    proves: bool,
) -> Result<Option<Vec<u8>>, EncodeError> {
    chunk::check(extents, bytes.len())?;
    let len = bytes.len();
    if base.len() != len {
        let base = base.len();
        return Err(EncodeError::Base { len, base });
    }
    // Nothing that a panic could leave half done is used again.
    let encoded = catch_unwind(AssertUnwindSafe(|| {
        told_from(extents, bytes, base, (level, proves))
    }));
    encoded.unwrap_or(Ok(None))
}

fn told_from(
    extents: &[Extent],
    bytes: &[u8],
    base: &[u8],
    (level, proves): (Level, bool),
) -> Result<Option<Vec<u8>>, EncodeError> {
    let len = bytes.len();
    let choices = level_policy::choices(level);
    let Some(streams) = encode(extents, bytes, base, choices) else {
        return Ok(None);
    };
    let body = packing::pack_streams(&streams, MemberKind::Differences, choices, level, len)?;
    drop(streams);
    let Some(body) = body else {
        return Ok(None);
    };
    if proves {
        let mut packed = Vec::with_capacity(body.len());
        body.write(&mut packed);
        match decode_body(&packed, FormatVersion::CURRENT, len, base) {
            Ok(decoded) if decoded == bytes => {}
            _ => return Err(EncodeError::NotProven),
        }
    }
    let (hash, base_hash) = (blake3::hash(bytes), blake3::hash(base));
    let member = container::write_differences(len, hash, base_hash, &body);
    Ok(Some(member))
}

/// Decodes a member of differences against the blocks that it was told from.
pub fn decode_differences(member: &[u8], base: &[u8]) -> Result<Vec<u8>, DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("member");
    let header = Header::read(member)?;
    let Some(base_hash) = header.base_hash else {
        return Err(DecodeError::Corrupt("no member of differences"));
    };
    if member.len() as u64 != header.member_len {
        return Err(CUT);
    }
    if blake3::hash(base) != base_hash || base.len() as u64 != header.original_len {
        return Err(DecodeError::OtherBase);
    }
    let body = member.get(header.header_len..).ok_or(CUT)?;
    let decoded = decode_body(body, header.version, base.len(), base)?;
    match blake3::hash(&decoded) == header.original_hash {
        true => Ok(decoded),
        false => Err(DecodeError::HashMismatch),
    }
}

fn decode_body(
    body: &[u8],
    version: FormatVersion,
    len: usize,
    base: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let shape = ContentShape {
        kind: MemberKind::Differences,
        version,
        original_len: len as u64,
    };
    let mut content = container::read_content(shape, body, Claims::Bounded)?;
    let streams = StreamReader::new(&mut content, version, shape.unpacked_len_max(body))?;
    decode(streams, base)
}

/// The streams of blocks; `None` where the format cannot say them.
pub fn encode(
    extents: &[Extent],
    bytes: &[u8],
    base: &[u8],
    choices: Choices,
) -> Option<Vec<Filled>> {
    let mut coder = StreamWriter::new(choices);
    let mut model = BlockDifferences::default();
    let list = LazyStream::default().open(&mut coder, StreamKind::Extents, 1);
    let mut numbers: HashMap<u32, u32, FastHash> = HashMap::default();
    let (blocks, rest) = bytes.as_chunks::<PAGE_SIZE>();
    if !rest.is_empty() {
        return None;
    }
    let mut pairs = blocks.iter().zip(base.as_chunks::<PAGE_SIZE>().0);
    let mut block = Box::new([0; PAGE_SIZE]);
    for extent in extents.iter().filter(|extent| !extent.is_empty()) {
        let whole = extent.len().is_multiple_of(PAGE_SIZE as u64);
        let count = usize::try_from(extent.len()).ok()? / PAGE_SIZE;
        match *extent {
            _ if !whole => return None,
            Extent::Pages {
                relation,
                first_block,
                pages,
            } => {
                let next = numbers.len() as u32;
                let number = *numbers.entry(relation).or_insert(next);
                coder.u8(list, PAGES);
                for value in [number, first_block, pages] {
                    coder.u32(list, value);
                }
                for (offset, (bytes, base)) in (0..).zip(pairs.by_ref().take(count)) {
                    block.copy_from_slice(bytes);
                    let place = (number as usize, first_block.wrapping_add(offset));
                    model.code_page(&mut coder, place, base, &mut block);
                }
            }
            Extent::Bytes { len } => {
                coder.u8(list, BYTES);
                coder.u32(list, len);
                for (bytes, base) in pairs.by_ref().take(count) {
                    block.copy_from_slice(bytes);
                    model.code_block(&mut coder, base, &mut block);
                }
            }
        }
        if coder.failed() {
            return None;
        }
    }
    coder.u8(list, END);
    (!coder.failed()).then(|| coder.into_streams())
}

/// Makes the blocks of streams.
fn decode(mut coder: StreamReader<'_>, base: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut model = BlockDifferences::default();
    let list = LazyStream::default().open(&mut coder, StreamKind::Extents, 1);
    let mut original = Vec::with_capacity(base.len());
    let (mut bases, mut relations) = (base.as_chunks::<PAGE_SIZE>().0, 0);
    loop {
        let (place, count) = match coder.u8(list, 0) {
            _ if coder.failed() => return Err(BAD),
            END => break,
            PAGES => {
                let [relation, first_block, pages] = [0; 3].map(|zero| coder.u32(list, zero));
                if relation > relations {
                    return Err(BAD);
                }
                relations = relations.max(relation + 1);
                (Some((relation as usize, first_block)), pages as usize)
            }
            BYTES => {
                let len = coder.u32(list, 0) as usize;
                if !len.is_multiple_of(PAGE_SIZE) {
                    return Err(BAD);
                }
                (None, len / PAGE_SIZE)
            }
            _ => return Err(BAD),
        };
        let (part, rest) = bases.split_at_checked(count).ok_or(BAD)?;
        if count == 0 || coder.failed() {
            return Err(BAD);
        }
        bases = rest;
        for (offset, base) in (0..).zip(part) {
            let mut block = [0; PAGE_SIZE];
            match place {
                Some((number, first)) => {
                    let place = (number, first.wrapping_add(offset));
                    model.code_page(&mut coder, place, base, &mut block);
                }
                None => model.code_block(&mut coder, base, &mut block),
            }
            if coder.failed() {
                return Err(BAD);
            }
            original.extend_from_slice(&block);
        }
    }
    match coder.exhausted() && original.len() == base.len() {
        true => Ok(original),
        false => Err(BAD),
    }
}
