//! What the first page of a segment says of the whole segment.

use crate::PAGE_SIZE;
use crate::bytes::{read_u16, read_u32, read_u64};
use crate::units::{Lsn, SystemId, TimelineId};
use crate::version::Version;
use crate::wal::page_header::{LONG_HEADER, PageHeader};

/// The header of a segment's first page (`XLogLongPageHeaderData`).
///
/// Behind the fields of every page: system identifier u64 at 24, segment size u32 at 32,
/// page size u32 at 36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The major that wrote the segment.
    pub version: &'static Version,
    /// The flags of the first page.
    pub flags: u16,
    /// The timeline of the first page.
    pub timeline: TimelineId,
    /// The position of the segment's first byte.
    pub start: Lsn,
    /// The cluster that wrote the segment.
    pub system_id: SystemId,
    /// Bytes of a whole segment of this cluster.
    pub segment_size: u32,
    /// Bytes left on the first page, and on, of a record of the segment before.
    pub remaining_len: u32,
}

/// The bytes do not begin with a WAL segment's first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentHeaderError {
    /// Fewer bytes than a header has.
    #[error("too short for the header of a WAL segment")]
    TooShort,
    /// The magic number is of no supported major.
    #[error("page magic {0:04X} is of no supported PostgreSQL major (13 to 19)")]
    UnknownMagic(u16),
    /// The header's padding is not zero.
    #[error("the padding of the first page's header is not zero")]
    Padding,
    /// The first page lacks the fields of a first page.
    #[error("the first page has no long header: not the start of a WAL segment")]
    NotFirstPage,
    /// PostgreSQL was built with other sizes, or the header is damaged.
    #[error("segment size {segment_size}, WAL page size {page_size}: not a supported combination")]
    UnsupportedSize {
        /// As the header has it.
        segment_size: u32,
        /// As the header has it.
        page_size: u32,
    },
    /// A segment starts at a multiple of its size.
    #[error("position {0} is not the start of a segment")]
    UnalignedStart(Lsn),
}

/// Whether PostgreSQL can have segments of this many bytes (`IsValidWalSegSize` in
/// access/xlog_internal.h).
pub fn is_segment_size(bytes: u32) -> bool {
    (1 << 20..=1 << 30).contains(&bytes) && bytes.is_power_of_two()
}

impl SegmentHeader {
    /// Reads and checks the header of a segment's first page.
    pub fn read(bytes: &[u8]) -> Result<SegmentHeader, SegmentHeaderError> {
        use SegmentHeaderError as E;
        let magic = read_u16(bytes, 0).ok_or(E::TooShort)?;
        let version = Version::from_page_magic(magic).ok_or(E::UnknownMagic(magic))?;
        if bytes.len() < PageHeader::SHORT_LEN {
            return Err(E::TooShort);
        }
        let page = PageHeader::read(bytes).ok_or(E::Padding)?;
        if page.flags & LONG_HEADER == 0 {
            return Err(E::NotFirstPage);
        }
        let system_id = read_u64(bytes, 24).ok_or(E::TooShort)?;
        let segment_size = read_u32(bytes, 32).ok_or(E::TooShort)?;
        let page_size = read_u32(bytes, 36).ok_or(E::TooShort)?;
        if !is_segment_size(segment_size) || page_size as usize != PAGE_SIZE {
            return Err(E::UnsupportedSize {
                segment_size,
                page_size,
            });
        }
        if !page.address.is_multiple_of(u64::from(segment_size)) {
            return Err(E::UnalignedStart(Lsn(page.address)));
        }
        Ok(SegmentHeader {
            version,
            flags: page.flags,
            timeline: TimelineId(page.timeline),
            start: Lsn(page.address),
            system_id: SystemId(system_id),
            segment_size,
            remaining_len: page.remaining_len,
        })
    }

    /// The header of the part that begins `offset` bytes behind this one's start, a multiple of
    /// the page's size: what only the first page of a segment says goes for all of it.
    pub fn of_part(&self, offset: u32) -> SegmentHeader {
        SegmentHeader {
            flags: 0,
            start: Lsn(self.start.0 + u64::from(offset)),
            remaining_len: 0,
            ..*self
        }
    }

    /// Bytes of the segment before the part that this is the header of: 0 for a whole segment
    /// and for the first part of one.
    pub fn offset_in_segment(&self) -> u32 {
        (self.start.0 % u64::from(self.segment_size)) as u32
    }

    /// Bytes of the header of the page at `offset` within the segment or the part of one: only
    /// the first page of a segment has the long one.
    pub fn page_header_len(&self, offset: usize) -> usize {
        match offset == 0 && self.offset_in_segment() == 0 {
            true => PageHeader::LONG_LEN,
            false => PageHeader::SHORT_LEN,
        }
    }

    /// The sixteen bytes behind the fields that every page has.
    pub fn long_part(&self) -> [u8; PageHeader::LONG_LEN - PageHeader::SHORT_LEN] {
        let mut bytes = [0; 16];
        bytes[0..8].copy_from_slice(&self.system_id.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.segment_size.to_le_bytes());
        bytes[12..16].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        bytes
    }
}
