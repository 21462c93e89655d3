//! The header of a WAL page (`XLogPageHeaderData`, access/xlog_internal.h).

use crate::bytes::{read_u16, read_u32, read_u64};

/// The page begins with the rest of a record (`XLP_FIRST_IS_CONTRECORD`).
pub const FIRST_IS_CONTRECORD: u16 = 1;
/// The header has the fields that only the first page of a segment has (`XLP_LONG_HEADER`).
pub const LONG_HEADER: u16 = 2;

/// The fields that every WAL page has.
///
/// Layout, little-endian: magic u16 at 0, flags u16 at 2, timeline u32 at 4, address u64 at
/// 8, remaining length u32 at 16, four zero bytes at 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Tells the major (`xlp_magic`).
    pub magic: u16,
    /// `xlp_info`.
    pub flags: u16,
    /// The timeline of the first record that starts on the page (`xlp_tli`).
    pub timeline: u32,
    /// The position of the page (`xlp_pageaddr`).
    pub address: u64,
    /// Bytes left of the record that goes on here (`xlp_rem_len`).
    pub remaining_len: u32,
}

impl PageHeader {
    /// Bytes of the header of every page but a segment's first.
    pub const SHORT_LEN: usize = 24;
    /// Bytes of the header of a segment's first page.
    pub const LONG_LEN: usize = 40;

    /// Reads the fields; `None` where the bytes are too few or the padding is not zero.
    pub fn read(bytes: &[u8]) -> Option<PageHeader> {
        let header = PageHeader {
            magic: read_u16(bytes, 0)?,
            flags: read_u16(bytes, 2)?,
            timeline: read_u32(bytes, 4)?,
            address: read_u64(bytes, 8)?,
            remaining_len: read_u32(bytes, 16)?,
        };
        (read_u32(bytes, 20)? == 0).then_some(header)
    }

    /// The bytes of the header without the fields of a segment's first page.
    pub fn to_bytes(self) -> [u8; Self::SHORT_LEN] {
        let mut bytes = [0; Self::SHORT_LEN];
        bytes[0..2].copy_from_slice(&self.magic.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.timeline.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.remaining_len.to_le_bytes());
        bytes
    }
}
