//! The file around the streams: header, blocks, checksums. docs/format/container.md is the
//! description; the constants here are checked against it by a test.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::{Lsn, SystemId, TimelineId, Version};

use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::format_version::FormatVersion;
use crate::limits::{MEMBER_LEN_MAX, NAME_LEN_MAX, content_len_believed, content_len_max};
use crate::mixing::{self, Outlook, Shape};
use crate::original::Original;
use crate::streams;
use crate::varint;
use crate::zstd_frame::{self, Effort};

/// The first bytes of a member.
pub const MAGIC: [u8; 4] = *b"WALZ";
/// The version that is written, and the last one that is read.
pub const VERSION: u8 = FormatVersion::CURRENT.number();

/// Whether a member of formats 1 to 4 is believed when it claims far more content than its
/// length makes likely: a segment of 1 GB of rows that are all alike does, and so does a file that
/// is made to take memory. Later formats have no such members
/// ([`CONTENT_PACKED_MAX`](crate::limits::CONTENT_PACKED_MAX)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// It is refused.
    Bounded,
    /// It is decoded, in the memory that it takes.
    Believed,
}

const KIND_FOREIGN: u8 = 0;
const KIND_WAL: u8 = 1;

/// Which segment of which cluster a member is, or is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIdentity {
    /// `xlp_magic`, which tells the major.
    pub page_magic: u16,
    /// The cluster.
    pub system_id: SystemId,
    /// The timeline of the segment's first page.
    pub timeline: TimelineId,
    /// The position of the member's first byte: of a part but the first, no multiple of the
    /// segment size.
    pub start: Lsn,
    /// Bytes of a whole segment of the cluster.
    pub segment_size: u32,
}

impl WalIdentity {
    const LEN: usize = 26;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..2].copy_from_slice(&self.page_magic.to_le_bytes());
        bytes[2..10].copy_from_slice(&self.system_id.0.to_le_bytes());
        bytes[10..14].copy_from_slice(&self.timeline.0.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.start.0.to_le_bytes());
        bytes[22..26].copy_from_slice(&self.segment_size.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<WalIdentity> {
        use walzip_pgformat::bytes::{read_u16, read_u32, read_u64};
        Some(WalIdentity {
            page_magic: read_u16(bytes, 0)?,
            system_id: SystemId(read_u64(bytes, 2)?),
            timeline: TimelineId(read_u32(bytes, 10)?),
            start: Lsn(read_u64(bytes, 14)?),
            segment_size: read_u32(bytes, 22)?,
        })
    }

    /// The major that wrote the segment.
    pub fn version(&self) -> Option<&'static Version> {
        Version::from_page_magic(self.page_magic)
    }
}

impl From<&SegmentHeader> for WalIdentity {
    fn from(header: &SegmentHeader) -> Self {
        WalIdentity {
            page_magic: header.version.page_magic,
            system_id: header.system_id,
            timeline: header.timeline,
            start: header.start,
            segment_size: header.segment_size,
        }
    }
}

/// What a member says of itself before its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format's version.
    pub version: FormatVersion,
    /// Bytes of the original.
    pub original_len: u64,
    /// BLAKE3 of the original.
    pub original_hash: [u8; 32],
    /// Which segment it is; `None` for what was not understood as WAL.
    pub identity: Option<WalIdentity>,
    /// What the original is called where it was named: see [`name_file`].
    pub name: Option<String>,
    /// Bytes of the header itself.
    pub header_len: usize,
    /// Bytes of the whole member, header included.
    pub member_len: u64,
}

/// The most bytes that a header can have; reading this much is enough for [`Header::read`].
pub const HEADER_LEN_MAX: usize = 4 + 3 + 10 + 32 + WalIdentity::LEN + 1 + NAME_LEN_MAX + 10 + 4;

impl Header {
    /// Reads and checks the header of the member at the front of `bytes`.
    pub fn read(bytes: &[u8]) -> Result<Header, DecodeError> {
        const CUT: DecodeError = DecodeError::Truncated("header");
        let mut rest = match bytes.strip_prefix(&MAGIC) {
            Some(rest) => rest,
            None if !bytes.is_empty() && MAGIC.starts_with(bytes) => return Err(CUT),
            None => return Err(DecodeError::NotWalzip),
        };
        let mut take = |len: usize| -> Result<&[u8], DecodeError> {
            let (part, behind) = rest.split_at_checked(len).ok_or(CUT)?;
            rest = behind;
            Ok(part)
        };
        let &[version, kind, references] = take(3)?.first_chunk().ok_or(CUT)?;
        let version = FormatVersion::of(version).ok_or(DecodeError::UnsupportedVersion {
            found: version,
            supported: VERSION,
        })?;
        if references != 0 {
            return Err(DecodeError::Corrupt(
                "references to other objects are reserved",
            ));
        }
        let hash = take(32)?;
        let identity = match kind {
            KIND_FOREIGN => None,
            KIND_WAL => WalIdentity::from_bytes(take(WalIdentity::LEN)?),
            _ => return Err(DecodeError::Corrupt("unknown kind of member")),
        };
        let name = if version.has_names() {
            read_name(&mut rest)?
        } else {
            None
        };
        let original_len = varint::read(&mut rest).ok_or(CUT)?;
        let body_len = varint::read(&mut rest).ok_or(CUT)?;
        let header_len = bytes.len() - rest.len();
        let stored = rest.first_chunk().ok_or(CUT)?;
        let (header, _) = bytes.split_at_checked(header_len).ok_or(CUT)?;
        if crc32c::crc32c(header) != u32::from_le_bytes(*stored) {
            return Err(DecodeError::Checksum("header"));
        }
        if original_len > MEMBER_LEN_MAX as u64 {
            return Err(DecodeError::Corrupt("original length above the maximum"));
        }
        let mut original_hash = [0; 32];
        original_hash.copy_from_slice(hash);
        let header_len = header_len + 4;
        let member_len = body_len
            .checked_add(header_len as u64)
            .ok_or(DecodeError::Corrupt("member length above the maximum"))?;
        Ok(Header {
            version,
            original_len,
            original_hash,
            identity,
            name,
            header_len,
            member_len,
        })
    }

    fn write(&self, out: &mut Vec<u8>, body_len: u64) {
        let mut header = MAGIC.to_vec();
        let kind = if self.identity.is_some() {
            KIND_WAL
        } else {
            KIND_FOREIGN
        };
        header.extend_from_slice(&[VERSION, kind, 0]);
        header.extend_from_slice(&self.original_hash);
        if let Some(identity) = self.identity {
            header.extend_from_slice(&identity.to_bytes());
        }
        let name = self.name.as_deref().unwrap_or_default();
        varint::write(&mut header, name.len() as u64);
        header.extend_from_slice(name.as_bytes());
        varint::write(&mut header, self.original_len);
        varint::write(&mut header, body_len);
        let checksum = crc32c::crc32c(&header);
        out.extend_from_slice(&header);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// Whether a header can carry the name: letters, digits and dots of ASCII, as PostgreSQL names
/// WAL files.
fn is_name(name: &[u8]) -> bool {
    let is_expected = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
    (1..=NAME_LEN_MAX).contains(&name.len())
        && name.first() != Some(&b'.')
        && name.iter().all(is_expected)
}

/// Reads a name and its length off the front of `rest`.
fn read_name(rest: &mut &[u8]) -> Result<Option<String>, DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("header");
    const UNEXPECTED: DecodeError = DecodeError::Corrupt("name that no WAL file has");
    let len = varint::read(rest).ok_or(CUT)?;
    if len > NAME_LEN_MAX as u64 {
        return Err(UNEXPECTED);
    }
    let (name, behind) = rest.split_at_checked(len as usize).ok_or(CUT)?;
    *rest = behind;
    match str::from_utf8(name) {
        Ok("") => Ok(None),
        Ok(text) if is_name(name) => Ok(Some(text.to_owned())),
        _ => Err(UNEXPECTED),
    }
}

/// Puts the name of its original on a file that this version encoded, in the header of its first
/// member: so who finds the file under another name can tell. The bodies stay as they are.
pub fn name_file(file: &mut Vec<u8>, name: &str) -> Result<(), EncodeError> {
    let refused = || EncodeError::Name(name.to_owned());
    let header = Header::read(file).map_err(|_| refused())?;
    if header.version != FormatVersion::CURRENT || !is_name(name.as_bytes()) {
        return Err(refused());
    }
    let unnamed_len = header.header_len;
    let body_len = header.member_len - unnamed_len as u64;
    let named = Header {
        name: Some(name.to_owned()),
        ..header
    };
    let mut bytes = Vec::with_capacity(HEADER_LEN_MAX);
    named.write(&mut bytes, body_len);
    file.splice(..unnamed_len, bytes);
    Ok(())
}

/// What stands in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockCoding {
    /// The bytes themselves.
    Stored = 0,
    /// A zstd frame without its magic number.
    Zstd = 1,
    /// All streams, some of them mixed: see [`mixing`].
    Mixing = 2,
}

/// Bytes to be put in blocks of their own, and where zstd should begin a new table.
pub struct Content {
    /// The directory and the streams, or the foreign bytes.
    pub bytes: Vec<u8>,
    /// Ascending places at which the statistics of the bytes change.
    pub cuts: Vec<usize>,
    /// Where the first stream begins.
    pub streams_start: usize,
    /// The streams, in their order.
    pub shapes: Vec<Shape>,
}

/// Blocks that stand for an original.
pub struct Body(Vec<Block>);

struct Block {
    header: Vec<u8>,
    data: Vec<u8>,
}

impl Body {
    /// Bytes of the blocks.
    pub fn len(&self) -> usize {
        let lens = self
            .0
            .iter()
            .map(|block| block.header.len() + block.data.len());
        lens.sum()
    }
}

impl Block {
    fn new(coding: BlockCoding, content_len: usize, data: Vec<u8>) -> Block {
        let mut header = vec![coding as u8];
        varint::write(&mut header, content_len as u64);
        varint::write(&mut header, data.len() as u64);
        header.extend_from_slice(&crc32c::crc32c(&data).to_le_bytes());
        Block { header, data }
    }
}

/// Writes a member: `original` is hashed, `body` is what stands for it.
pub fn write_member(original: &[u8], identity: Option<WalIdentity>, body: &Body) -> Vec<u8> {
    let header = Header {
        version: FormatVersion::CURRENT,
        original_len: original.len() as u64,
        original_hash: *blake3::hash(original).as_bytes(),
        identity,
        name: None,
        header_len: 0,
        member_len: 0,
    };
    let body_len = body.len();
    let mut out = Vec::with_capacity(HEADER_LEN_MAX + body_len);
    header.write(&mut out, body_len as u64);
    for block in &body.0 {
        out.extend_from_slice(&block.header);
        out.extend_from_slice(&block.data);
    }
    out
}

/// One block, in zstd's coding where that makes the content smaller.
pub fn pack(content: &[u8], cuts: &[usize], effort: Effort) -> Result<Body, EncodeError> {
    let packed = zstd_frame::compress(content, cuts, effort)?.bytes;
    let (coding, data) = if packed.len() < content.len() {
        (BlockCoding::Zstd, packed)
    } else {
        (BlockCoding::Stored, content.to_vec())
    };
    Ok(Body(vec![Block::new(coding, content.len(), data)]))
}

/// Two blocks: the directory, and the streams, mixed where that pays. `None` where the format
/// cannot say it.
pub fn pack_mixed(
    content: &mut Content,
    mixed: &[bool],
    effort: Effort,
) -> Result<Option<Body>, EncodeError> {
    let (directory, streams) = content.bytes.split_at(content.streams_start);
    let mut body = pack(directory, &[], effort)?;
    let content_len = streams.len();
    let data = mixing::compress(&mut content.bytes, &content.shapes, mixed, effort)?;
    Ok(data.map(|data| {
        body.0
            .push(Block::new(BlockCoding::Mixing, content_len, data));
        body
    }))
}

/// What much effort would be spent on, where the content stands for so many bytes.
pub fn outlook(content: &Content, original_len: usize) -> Result<Outlook, EncodeError> {
    let packed = packed_lens(content)?;
    let (bytes, shapes) = (&content.bytes, &content.shapes);
    Ok(mixing::outlook(bytes, shapes, &packed, original_len))
}

/// Bytes of each stream as zstd packs it in little time.
fn packed_lens(content: &Content) -> Result<Vec<usize>, EncodeError> {
    const QUICK: Effort = Effort::of(1);
    let mut cuts = vec![content.streams_start];
    cuts.extend(content.shapes.iter().map(|shape| shape.end));
    cuts.dedup();
    let packed = zstd_frame::compress(&content.bytes, &cuts, QUICK)?;
    let mut places = cuts.iter().zip(&packed.cut_places);
    let mut start = places.next().map_or(0, |(_, &place)| place);
    let lens = content.shapes.iter().map(|shape| {
        if shape.start == shape.end {
            return 0;
        }
        let end = places.next().map_or(start, |(_, &place)| place);
        let len = end - start;
        start = end;
        len
    });
    Ok(lens.collect())
}

const TOO_MUCH: DecodeError = DecodeError::Corrupt("more content than the member can have");

/// A block of a member that is decoded.
struct Found<'m> {
    coding: u8,
    content_len: usize,
    data: &'m [u8],
}

/// Takes the next block of a body, which may have so many bytes of content.
fn take_block<'m>(body: &mut &'m [u8], content_left: u64) -> Result<Found<'m>, DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("block");
    let (&coding, mut rest) = body.split_first().ok_or(CUT)?;
    let content_len = varint::read(&mut rest).ok_or(CUT)?;
    let data_len = varint::read(&mut rest).ok_or(CUT)?;
    if content_len > content_left {
        return Err(TOO_MUCH);
    }
    let (checksum, behind) = rest.split_first_chunk().ok_or(CUT)?;
    let data_len = usize::try_from(data_len).map_err(|_| CUT)?;
    let (data, behind) = behind.split_at_checked(data_len).ok_or(CUT)?;
    if crc32c::crc32c(data) != u32::from_le_bytes(*checksum) {
        return Err(DecodeError::Checksum("block"));
    }
    *body = behind;
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

/// Decodes the blocks of a foreign member behind its header, a piece at a time.
pub fn decode_foreign(
    header: &Header,
    mut body: &[u8],
    original: &mut Original<'_>,
) -> Result<(), DecodeToError> {
    let mut left = content_len_max(header.original_len, false);
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

/// Reads the blocks of a WAL member behind its header, and puts their bytes together.
pub fn read_content(
    header: &Header,
    mut body: &[u8],
    claims: Claims,
) -> Result<Vec<u8>, DecodeError> {
    let limit = content_len_max(header.original_len, true);
    let body_len = body.len();
    let is_believed = |content_len| content_len <= content_len_believed(body_len as u64);
    let has_limit = header.version.has_parts();
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
                let shapes = streams::shapes(&content, len).ok_or(BAD)?;
                mixing::decompress(block.data, &shapes, &mut content)?;
                if !body.is_empty() {
                    return Err(DecodeError::Corrupt("a block behind mixed streams"));
                }
            }
            _ => return Err(UNKNOWN_CODING),
        }
    }
    Ok(content)
}
