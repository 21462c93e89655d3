//! One record: its header, its block references, and where its parts lie.
//!
//! ```text
//! record header    24 bytes: total length u32, xid u32, previous record u64,
//!                  info u8, resource manager u8, two zero bytes, CRC-32C u32
//! block headers    id u8, fork and flags u8, data length u16,
//!                  [image: length u16, hole offset u16, flags u8, [hole length u16]],
//!                  [tablespace, database, relation: u32 each], block number u32
//! [origin]         253 u8, u16
//! [top-level xid]  252 u8, u32
//! [main header]    255 u8, length u8  or  254 u8, length u32
//! data             per block: image, data; then the main data
//! ```
//! (access/xlogrecord.h; assembled by XLogRecordAssemble, read by DecodeXLogRecord.)

use super::checksum::crc32c_of_parts;
use crate::PAGE_SIZE;
use crate::bytes::{read_u16, read_u32, read_u64};
use crate::version::{ImageFlags, Version};

/// Bytes of the fixed header of a record (`SizeOfXLogRecord`).
pub const RECORD_HEADER_LEN: usize = 24;

const BLOCK_ID_MAX: u8 = 32;
const ID_TOPLEVEL_XID: u8 = 252;
const ID_ORIGIN: u8 = 253;
const ID_MAIN_LONG: u8 = 254;
const ID_MAIN_SHORT: u8 = 255;

/// The fixed header of a record (`XLogRecord`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the whole record, without alignment (`xl_tot_len`).
    pub total_len: u32,
    /// The transaction, or 0 (`xl_xid`).
    pub xid: u32,
    /// The start of the record before (`xl_prev`).
    pub prev: u64,
    /// Flags; the high bits belong to the resource manager (`xl_info`).
    pub info: u8,
    /// The resource manager (`xl_rmid`).
    pub rmid: u8,
    /// CRC-32C of everything else (`xl_crc`).
    pub crc: u32,
}

impl RecordHeader {
    /// Reads the fields; `None` where the bytes are too few or the padding is not zero.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<RecordHeader> {
        let bytes: &[u8; RECORD_HEADER_LEN] = bytes.first_chunk()?;
        let header = RecordHeader {
            total_len: read_u32(bytes, 0)?,
            xid: read_u32(bytes, 4)?,
            prev: read_u64(bytes, 8)?,
            info: bytes[16],
            rmid: bytes[17],
            crc: read_u32(bytes, 20)?,
        };
        (bytes[18] == 0 && bytes[19] == 0).then_some(header)
    }

    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; RECORD_HEADER_LEN] {
        let mut bytes = [0; RECORD_HEADER_LEN];
        bytes[0..4].copy_from_slice(&self.total_len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.xid.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.prev.to_le_bytes());
        bytes[16] = self.info;
        bytes[17] = self.rmid;
        bytes[20..24].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// The checksum that a record's bytes should carry: the data first, then the header up
    /// to the checksum itself.
    #[inline]
    pub fn checksum(record: &[u8]) -> u32 {
        let (header, data) = record.split_at(RECORD_HEADER_LEN.min(record.len()));
        crc32c_of_parts(data, &header[..header.len().min(20)])
    }
}

/// What a relation's files are named by (`RelFileLocator`; `RelFileNode` before 16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelFileLocator {
    /// Tablespace OID.
    pub tablespace: u32,
    /// Database OID, 0 for a shared relation.
    pub database: u32,
    /// Relation file number.
    pub relation: u32,
}

impl RelFileLocator {
    /// The bytes of the three numbers.
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[0..4].copy_from_slice(&self.tablespace.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.database.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.relation.to_le_bytes());
        bytes
    }
}

/// How the server compressed a page image (`wal_compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// PostgreSQL's own.
    Pglz,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
    /// More than one flag, or one of a later version.
    Unknown,
}

/// The header of a full-page image (`XLogRecordBlockImageHeader`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Bytes in the record.
    pub len: u16,
    /// Where the hole of zeros that was left out begins on the page.
    pub hole_offset: u16,
    /// Bytes of the hole.
    pub hole_len: u16,
    /// `bimg_info` as it stands.
    pub flags: u8,
    /// How the image was compressed.
    pub compression: Compression,
    /// Where the image begins in the record.
    pub start: usize,
}

impl Image {
    /// Bytes of the page without its hole: what the image is when it is not compressed.
    pub fn page_len(&self) -> usize {
        PAGE_SIZE.saturating_sub(usize::from(self.hole_len))
    }

    /// The hole's length stands in the header only where it does not follow from the image's.
    fn has_hole_len_field(&self) -> bool {
        self.compression != Compression::None && self.flags & IMAGE_HAS_HOLE != 0
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.put(self.len.to_le_bytes());
        out.put(self.hole_offset.to_le_bytes());
        out.put([self.flags]);
        if self.has_hole_len_field() {
            out.put(self.hole_len.to_le_bytes());
        }
    }
}

/// One block reference (`XLogRecordBlockHeader` and what follows it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The reference's number within the record.
    pub id: u8,
    /// Fork number and `BKPBLOCK_` flags as they stand.
    pub fork_flags: u8,
    /// Bytes of the block's own data.
    pub data_len: u16,
    /// Where the block's own data begins in the record.
    pub data_start: usize,
    /// The image, where there is one.
    pub image: Option<Image>,
    /// The relation, also where the header says "the same as before".
    pub locator: RelFileLocator,
    /// The block number.
    pub number: u32,
}

impl Block {
    /// `BKPBLOCK_HAS_IMAGE`.
    pub const HAS_IMAGE: u8 = 0x10;
    /// `BKPBLOCK_HAS_DATA`.
    pub const HAS_DATA: u8 = 0x20;
    /// `BKPBLOCK_WILL_INIT`.
    pub const WILL_INIT: u8 = 0x40;
    /// `BKPBLOCK_SAME_REL`.
    pub const SAME_REL: u8 = 0x80;

    /// The fork: 0 main, 1 free space map, 2 visibility map, 3 init.
    pub fn fork(&self) -> u8 {
        self.fork_flags & 0x0F
    }
}

/// `BKPIMAGE_HAS_HOLE`, the same in every version.
pub const IMAGE_HAS_HOLE: u8 = 0x01;

impl Compression {
    /// What `bimg_info` says of the compression.
    pub fn from_flags(flags: u8, numbering: ImageFlags) -> Compression {
        match numbering {
            ImageFlags::UpTo14 if flags & 0x02 != 0 => Compression::Pglz,
            ImageFlags::UpTo14 => Compression::None,
            ImageFlags::From15 => match flags & !0x03 {
                0 => Compression::None,
                0x04 => Compression::Pglz,
                0x08 => Compression::Lz4,
                0x10 => Compression::Zstd,
                _ => Compression::Unknown,
            },
        }
    }
}

/// Where the parts of one record lie. Reused from record to record.
#[derive(Clone, Debug, Default)]
pub struct RecordLayout {
    /// The fixed header.
    pub header: RecordHeader,
    /// The block references in their order.
    pub blocks: Vec<Block>,
    /// The replication origin (`replorigin_session_origin`).
    pub origin: Option<u16>,
    /// The top-level transaction of a subtransaction, under wal_level logical.
    pub toplevel_xid: Option<u32>,
    /// The main data has a header, in its long form if `true`.
    pub main_header: Option<bool>,
    /// Bytes of the main data.
    pub main_len: usize,
    /// Where the main data begins.
    pub main_start: usize,
}

/// A record does not keep to the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("record ends early")]
    TooShort,
    /// The fixed header cannot be one.
    #[error("invalid record header")]
    Header,
    /// The checksum does not fit the bytes.
    #[error("record checksum does not match")]
    Checksum,
    /// A block header cannot be one, or comes out of order.
    #[error("invalid block reference")]
    Block,
    /// The parts do not add up to the record's length.
    #[error("lengths in the record do not add up")]
    Lengths,
}

/// Writes one header field after the other, as far as there is room.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        let place = self.bytes.get_mut(self.at..);
        if let Some(place) = place.and_then(<[u8]>::first_chunk_mut) {
            *place = field;
        }
        self.at += N;
    }
}

/// Reads one header field after the other.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline]
    fn u8(&mut self) -> Result<u8, RecordError> {
        let value = *self.bytes.get(self.at).ok_or(RecordError::TooShort)?;
        self.at += 1;
        Ok(value)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, RecordError> {
        let value = read_u16(self.bytes, self.at).ok_or(RecordError::TooShort)?;
        self.at += 2;
        Ok(value)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, RecordError> {
        let value = read_u32(self.bytes, self.at).ok_or(RecordError::TooShort)?;
        self.at += 4;
        Ok(value)
    }
}

impl RecordLayout {
    /// Reads one whole record. Accepts only what [`RecordHeader`], the block headers in
    /// ascending order, origin, top-level xid and main header, in this order, can say; so the
    /// fields here and the data determine every byte.
    pub fn read(&mut self, record: &[u8], version: &Version) -> Result<(), RecordError> {
        self.read_header(record)?;
        if self.header.crc != RecordHeader::checksum(record) {
            return Err(RecordError::Checksum);
        }
        self.read_parts(record, version)
    }

    /// As [`RecordLayout::read`], whatever the checksum is: for who compares the record that is
    /// made of this with the original.
    pub fn read_unchecked(&mut self, record: &[u8], version: &Version) -> Result<(), RecordError> {
        self.read_header(record)?;
        self.read_parts(record, version)
    }

    fn read_header(&mut self, record: &[u8]) -> Result<(), RecordError> {
        self.header = RecordHeader::read(record).ok_or(RecordError::Header)?;
        match self.header.total_len as usize == record.len() {
            true => Ok(()),
            false => Err(RecordError::TooShort),
        }
    }

    /// Bytes of all headers: where the data begins.
    pub fn headers_len(&self) -> usize {
        let mut len = RECORD_HEADER_LEN;
        for block in &self.blocks {
            len += 4 + 4;
            if block.fork_flags & Block::SAME_REL == 0 {
                len += 12;
            }
            if let Some(image) = &block.image {
                len += 5;
                if image.has_hole_len_field() {
                    len += 2;
                }
            }
        }
        len += self.origin.map_or(0, |_| 3) + self.toplevel_xid.map_or(0, |_| 5);
        len + self.main_header.map_or(0, |long| if long { 5 } else { 2 })
    }

    /// Writes all headers in front of the data of `record`, the total length and the checksum
    /// included. `record` has [`RecordLayout::headers_len`] bytes of any content before the
    /// data. The reverse of [`RecordLayout::read`].
    pub fn write_headers(&mut self, record: &mut [u8]) {
        self.header.total_len = record.len() as u32;
        let out = &mut Writer {
            bytes: record,
            at: 0,
        };
        out.put(self.header.to_bytes());
        for block in &self.blocks {
            out.put([block.id, block.fork_flags]);
            out.put(block.data_len.to_le_bytes());
            if let Some(image) = &block.image {
                image.write(out);
            }
            if block.fork_flags & Block::SAME_REL == 0 {
                out.put(block.locator.to_bytes());
            }
            out.put(block.number.to_le_bytes());
        }
        if let Some(origin) = self.origin {
            out.put([ID_ORIGIN]);
            out.put(origin.to_le_bytes());
        }
        if let Some(xid) = self.toplevel_xid {
            out.put([ID_TOPLEVEL_XID]);
            out.put(xid.to_le_bytes());
        }
        match self.main_header {
            Some(true) => {
                out.put([ID_MAIN_LONG]);
                out.put((self.main_len as u32).to_le_bytes());
            }
            Some(false) => out.put([ID_MAIN_SHORT, self.main_len as u8]),
            None => {}
        }
        self.header.crc = RecordHeader::checksum(record);
        record[20..24].copy_from_slice(&self.header.crc.to_le_bytes());
    }

    fn read_parts(&mut self, record: &[u8], version: &Version) -> Result<(), RecordError> {
        self.blocks.clear();
        self.origin = None;
        self.toplevel_xid = None;
        self.main_header = None;
        self.main_len = 0;
        let mut cursor = Cursor {
            bytes: record,
            at: RECORD_HEADER_LEN,
        };
        let mut data_len = 0usize;
        // As in DecodeXLogRecord: headers go on until only data is left.
        while record.len() - cursor.at > data_len {
            let id = cursor.u8()?;
            match id {
                0..=BLOCK_ID_MAX => {
                    let block = self.read_block(id, &mut cursor, version)?;
                    let image_len = block.image.map_or(0, |image| usize::from(image.len));
                    data_len += image_len + usize::from(block.data_len);
                    self.blocks.push(block);
                }
                ID_ORIGIN if self.origin.is_none() && self.toplevel_xid.is_none() => {
                    self.origin = Some(cursor.u16()?);
                }
                ID_TOPLEVEL_XID if self.toplevel_xid.is_none() => {
                    self.toplevel_xid = Some(cursor.u32()?);
                }
                ID_MAIN_SHORT | ID_MAIN_LONG => {
                    let long = id == ID_MAIN_LONG;
                    self.main_len = if long {
                        cursor.u32()? as usize
                    } else {
                        usize::from(cursor.u8()?)
                    };
                    self.main_header = Some(long);
                    data_len += self.main_len;
                    break;
                }
                _ => return Err(RecordError::Block),
            }
        }
        if cursor.at + data_len != record.len() {
            return Err(RecordError::Lengths);
        }
        self.place_data(cursor.at);
        Ok(())
    }

    fn read_block(
        &self,
        id: u8,
        cursor: &mut Cursor<'_>,
        version: &Version,
    ) -> Result<Block, RecordError> {
        let last = self.blocks.last();
        let in_order = last.is_none_or(|last| last.id < id);
        if !in_order || self.origin.is_some() || self.toplevel_xid.is_some() {
            return Err(RecordError::Block);
        }
        let fork_flags = cursor.u8()?;
        let data_len = cursor.u16()?;
        if (fork_flags & Block::HAS_DATA != 0) != (data_len != 0) {
            return Err(RecordError::Block);
        }
        let has_image = fork_flags & Block::HAS_IMAGE != 0;
        let image = has_image.then(|| read_image(cursor, version)).transpose()?;
        let locator = if fork_flags & Block::SAME_REL != 0 {
            last.ok_or(RecordError::Block)?.locator
        } else {
            RelFileLocator {
                tablespace: cursor.u32()?,
                database: cursor.u32()?,
                relation: cursor.u32()?,
            }
        };
        let number = cursor.u32()?;
        Ok(Block {
            id,
            fork_flags,
            data_len,
            data_start: 0,
            image,
            locator,
            number,
        })
    }

    fn place_data(&mut self, mut at: usize) {
        for block in &mut self.blocks {
            if let Some(image) = &mut block.image {
                image.start = at;
                at += usize::from(image.len);
            }
            block.data_start = at;
            at += usize::from(block.data_len);
        }
        self.main_start = at;
    }
}

fn read_image(cursor: &mut Cursor<'_>, version: &Version) -> Result<Image, RecordError> {
    let len = cursor.u16()?;
    let hole_offset = cursor.u16()?;
    let flags = cursor.u8()?;
    let compression = Compression::from_flags(flags, version.image_flags);
    let has_hole = flags & IMAGE_HAS_HOLE != 0;
    let hole_len = match compression {
        Compression::None if has_hole => (PAGE_SIZE as u16)
            .checked_sub(len)
            .ok_or(RecordError::Block)?,
        _ if has_hole => cursor.u16()?,
        Compression::None if usize::from(len) != PAGE_SIZE => return Err(RecordError::Block),
        _ => 0,
    };
    // PostgreSQL itself insists on these (DecodeXLogRecord).
    let hole_fits = usize::from(hole_offset) + usize::from(hole_len) <= PAGE_SIZE;
    let hole_is_said = has_hole == (hole_len != 0) && (has_hole || hole_offset == 0);
    if !hole_fits || !hole_is_said {
        return Err(RecordError::Block);
    }
    Ok(Image {
        len,
        hole_offset,
        hole_len,
        flags,
        compression,
        start: 0,
    })
}
