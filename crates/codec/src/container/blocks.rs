//! The blocks of a member.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Header, MemberKind};
use crate::compressors::zstd_frame::{self, Compressor, Effort};
use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::format_version::FormatVersion;
use crate::limits::content_len_believed;
use crate::mixing::{self, Outlook};
use crate::original::Original;
use crate::streams::directory::{self, Content};
use crate::streams::laid_out::{self, ContentSink, LaidOut};
use crate::varint;

/// Whether to decode a member of formats 1 to 4 that claims far more content than its length makes
/// likely. Such a member is a segment of 1 GB of equal rows, or a file that was made to exhaust
/// memory. Later formats have no such members
/// ([`CONTENT_PACKED_MAX`](crate::limits::CONTENT_PACKED_MAX)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// It is refused.
    Bounded,
    /// It is decoded, whatever memory it takes.
    Believed,
}

/// What bounds the content of a member of streams.
#[derive(Clone, Copy, Debug)]
pub struct ContentShape {
    /// What the streams are.
    pub kind: MemberKind,
    /// The version of the format that they are in.
    pub version: FormatVersion,
    /// Length of the original, in bytes.
    pub original_len: u64,
}

impl ContentShape {
    /// Bytes that the directory and all streams may have when none is coded any more: as many as
    /// the content of a body of this length.
    pub fn unpacked_len_max(self, body: &[u8]) -> usize {
        let len_max = self.kind.content_len_max(self.original_len);
        let len_max = len_max.min(content_len_believed(body.len() as u64));
        usize::try_from(len_max).unwrap_or(usize::MAX)
    }
}

impl From<&Header> for ContentShape {
    fn from(header: &Header) -> Self {
        ContentShape {
            kind: header.kind,
            version: header.version,
            original_len: header.original_len,
        }
    }
}

/// How the data of a block is coded. The number is part of the format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockCoding {
    /// The bytes themselves.
    Stored = 0,
    /// A zstd frame without its magic number.
    Zstd = 1,
    /// All streams, some of them mixed: see [`mixing`].
    Mixing = 2,
}

/// The blocks of a member.
pub struct Body(Vec<Block>);

struct Block {
    header: Vec<u8>,
    /// The data, in pieces to be concatenated.
    data: Vec<Vec<u8>>,
}

impl Body {
    /// Appends the blocks.
    pub fn write(&self, out: &mut Vec<u8>) {
        for block in &self.0 {
            out.extend_from_slice(&block.header);
            block
                .data
                .iter()
                .for_each(|piece| out.extend_from_slice(piece));
        }
    }

    /// Length of all blocks, in bytes.
    pub fn len(&self) -> usize {
        let lens = self
            .0
            .iter()
            .map(|block| block.header.len() + data_len(&block.data));
        lens.sum()
    }
}

impl Block {
    fn new(coding: BlockCoding, content_len: usize, data: Vec<Vec<u8>>) -> Block {
        let mut header = vec![coding as u8];
        varint::write(&mut header, content_len as u64);
        varint::write(&mut header, data_len(&data) as u64);
        let checksum = data
            .iter()
            .fold(0, |checksum, piece| crc32c::crc32c_append(checksum, piece));
        header.extend_from_slice(&checksum.to_le_bytes());
        Block { header, data }
    }
}

fn data_len(data: &[Vec<u8>]) -> usize {
    data.iter().map(Vec::len).sum()
}

/// Packs the content as one block: as a zstd frame, or as it is if that is not longer.
pub fn pack(content: &[u8], cuts: &[usize], effort: Effort) -> Result<Body, EncodeError> {
    let packed = zstd_frame::compress(content, cuts, effort)?.bytes;
    let (coding, data) = if packed.len() < content.len() {
        (BlockCoding::Zstd, packed)
    } else {
        (BlockCoding::Stored, content.to_vec())
    };
    Ok(Body(vec![Block::new(coding, content.len(), vec![data])]))
}

/// Packs the content as two blocks: the directory with the streams whose layout is not an entropy
/// code, and, as they are, those whose layout is.
pub fn pack_content(content: &Content, effort: Effort) -> Result<Body, EncodeError> {
    let (plain, coded) = content.bytes.split_at(content.coded_start);
    let mut body = pack(plain, &content.cuts, effort)?;
    if !coded.is_empty() {
        let data = vec![coded.to_vec()];
        let block = Block::new(BlockCoding::Stored, coded.len(), data);
        body.0.push(block);
    }
    Ok(body)
}

/// Bytes by which a piece is longer than wanted, as a rule.
const PIECE_SLACK: usize = 64 << 10;

/// Packs the content as one block of zstd frames, each of about `piece_len` bytes of content. Only
/// one piece is in memory besides the streams.
pub fn pack_pieces(
    streams: &LaidOut<'_>,
    piece_len: usize,
    effort: Effort,
) -> Result<Body, EncodeError> {
    let content_len = streams.len();
    let mut pieces = Pieces {
        compressor: Compressor::new(effort)?,
        piece_len,
        piece: Vec::with_capacity(content_len.min(piece_len + PIECE_SLACK)),
        cuts: Vec::new(),
        frames: Vec::new(),
    };
    streams.write(&mut pieces)?;
    pieces.end()?;
    let block = Block::new(BlockCoding::Zstd, content_len, pieces.frames);
    Ok(Body(vec![block]))
}

/// Packs content in pieces.
struct Pieces {
    compressor: Compressor,
    piece_len: usize,
    piece: Vec<u8>,
    cuts: Vec<usize>,
    frames: Vec<Vec<u8>>,
}

impl Pieces {
    fn end(&mut self) -> Result<(), EncodeError> {
        let packed = self.compressor.compress(&self.piece, &self.cuts)?;
        self.frames.push(packed.bytes);
        self.piece.clear();
        self.cuts.clear();
        Ok(())
    }
}

impl ContentSink for Pieces {
    type Error = EncodeError;

    fn part<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Result<(), EncodeError> {
        let mut start = self.piece.len();
        for piece in pieces {
            self.piece.extend_from_slice(piece);
            if self.piece.len() >= self.piece_len {
                laid_out::cut_around(&mut self.cuts, start, self.piece.len());
                self.end()?;
                start = 0;
            }
        }
        laid_out::cut_around(&mut self.cuts, start, self.piece.len());
        Ok(())
    }
}

/// Packs the content as two blocks: the directory, and the streams, of which those in `mixed` are
/// mixed. `None` if the format cannot represent that.
pub fn pack_mixed(
    content: &mut Content,
    mixed: &[bool],
    effort: Effort,
) -> Result<Option<Body>, EncodeError> {
    let (directory, streams) = content.bytes.split_at(content.streams_start);
    let mut body = pack(directory, &[], effort)?;
    let content_len = streams.len();
    let data = mixing::compress(&mut content.bytes, &content.extents, mixed, effort)?;
    Ok(data.map(|data| {
        body.0
            .push(Block::new(BlockCoding::Mixing, content_len, vec![data]));
        body
    }))
}

/// The outlook for the content of an original of this length: see [`Outlook`].
pub fn outlook(content: &Content, original_len: usize) -> Result<Outlook, EncodeError> {
    let packed = packed_lens(content)?;
    let (bytes, extents) = (&content.bytes, &content.extents);
    Ok(mixing::outlook(bytes, extents, &packed, original_len))
}

/// The length of each stream as packed by zstd at level 1. A stream whose layout is an entropy
/// code counts as it is.
fn packed_lens(content: &Content) -> Result<Vec<usize>, EncodeError> {
    const QUICK: Effort = Effort::of(1);
    let mut cuts = vec![content.streams_start];
    let plain = content
        .extents
        .iter()
        .filter(|extent| !extent.layout.is_coded());
    cuts.extend(plain.map(|extent| extent.end));
    cuts.dedup();
    let plain = content.bytes.get(..content.coded_start);
    let packed = zstd_frame::compress(plain.unwrap_or_default(), &cuts, QUICK)?;
    let mut ends = cuts.iter().zip(&packed.cut_places);
    let mut start = ends.next().map_or(0, |(_, &end)| end);
    let lens = content.extents.iter().map(|extent| {
        if extent.layout.is_coded() || extent.start == extent.end {
            return extent.len();
        }
        let end = ends.next().map_or(start, |(_, &end)| end);
        let len = end - start;
        start = end;
        len
    });
    Ok(lens.collect())
}

const TOO_MUCH: DecodeError = DecodeError::Corrupt("more content than the member can have");

/// A block that was read, its data still coded.
struct Found<'m> {
    coding: u8,
    content_len: usize,
    data: &'m [u8],
}

/// Takes the next block of a body. Fails if it claims more than `content_left` bytes of content.
fn take_block<'m>(body: &mut &'m [u8], content_left: u64) -> Result<Found<'m>, DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("block");
    let (&coding, mut rest) = body.split_first().ok_or(CUT)?;
    let content_len = varint::read(&mut rest).ok_or(CUT)?;
    let data_len = varint::read(&mut rest).ok_or(CUT)?;
    if content_len > content_left {
        return Err(TOO_MUCH);
    }
    let (checksum, rest) = rest.split_first_chunk().ok_or(CUT)?;
    let data_len = usize::try_from(data_len).map_err(|_| CUT)?;
    let (data, rest) = rest.split_at_checked(data_len).ok_or(CUT)?;
    if crc32c::crc32c(data) != u32::from_le_bytes(*checksum) {
        return Err(DecodeError::Checksum("block"));
    }
    *body = rest;
    Ok(Found {
        coding,
        content_len: usize::try_from(content_len).map_err(|_| TOO_MUCH)?,
        data,
    })
}

impl<'m> Found<'m> {
    fn stored(&self) -> Result<&'m [u8], DecodeError> {
        match self.content_len == self.data.len() {
            true => Ok(self.data),
            false => Err(DecodeError::Corrupt("stored block of another length")),
        }
    }
}

const UNKNOWN_CODING: DecodeError = DecodeError::Corrupt("unknown coding of a block");

/// Decodes the blocks of a foreign member in pieces. `body` is the member without its header.
pub fn decode_foreign(
    header: &Header,
    mut body: &[u8],
    original: &mut Original<'_>,
) -> Result<(), DecodeToError> {
    let mut left = MemberKind::Foreign.content_len_max(header.original_len);
    while !body.is_empty() {
        let block = take_block(&mut body, left)?;
        left -= block.content_len as u64;
        match block.coding {
            coding if coding == BlockCoding::Stored as u8 => original.write(block.stored()?)?,
            coding if coding == BlockCoding::Zstd as u8 => {
                let (data, len) = (block.data, block.content_len);
                zstd_frame::decompress_to(data, len, &mut |piece| original.write(piece))?;
            }
            _ => return Err(UNKNOWN_CODING.into()),
        }
    }
    Ok(())
}

/// Decodes the blocks of a member of streams and concatenates their content. `body` is the member
/// without its header.
pub fn read_content(
    shape: ContentShape,
    mut body: &[u8],
    claims: Claims,
) -> Result<Vec<u8>, DecodeError> {
    let ContentShape { kind, version, .. } = shape;
    let limit = kind.content_len_max(shape.original_len);
    let body_len = body.len();
    let is_believed = |content_len| content_len <= content_len_believed(body_len as u64);
    let has_limit = version.has_parts();
    let mut content = Vec::new();
    while !body.is_empty() {
        let block = take_block(&mut body, limit - content.len() as u64)?;
        let content_len = content.len() as u64 + block.content_len as u64;
        match claims {
            _ if is_believed(content_len) => {}
            _ if has_limit => return Err(TOO_MUCH),
            Claims::Believed => {}
            Claims::Bounded => {
                return Err(DecodeError::Disproportionate {
                    content_len,
                    body_len,
                });
            }
        }
        match block.coding {
            coding if coding == BlockCoding::Stored as u8 => {
                let data = block.stored()?;
                content.try_reserve(data.len()).map_err(|_| NO_MEMORY)?;
                content.extend_from_slice(data);
            }
            coding if coding == BlockCoding::Zstd as u8 => {
                zstd_frame::decompress(block.data, block.content_len, &mut content)?;
            }
            coding if coding == BlockCoding::Mixing as u8 => {
                const BAD: DecodeError = DecodeError::Corrupt("mixed streams without a directory");
                let len = content.len() + block.content_len;
                let extents = directory::extents(&content, len, version).ok_or(BAD)?;
                mixing::decompress(block.data, &extents, &mut content)?;
                if !body.is_empty() {
                    return Err(DecodeError::Corrupt("a block behind mixed streams"));
                }
            }
            _ => return Err(UNKNOWN_CODING),
        }
    }
    Ok(content)
}
