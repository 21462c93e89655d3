//! TIDs (`ItemPointerData`, storage/itemptr.h): a block and a line pointer.

use crate::streams::coder::get_u16;

/// A block and the number of a line pointer.
pub type Tid = (u32, u16);

/// The size of a TID, in bytes.
pub const TID_LEN: usize = 6;

/// A `BlockIdData`: the high half of a block number, then the low one.
pub fn block_bytes(block: u32) -> [u8; 4] {
    let [b0, b1, b2, b3] = block.to_le_bytes();
    [b2, b3, b0, b1]
}

/// The block number at the offset `at`.
pub fn read_block(bytes: &[u8], at: usize) -> u32 {
    u32::from(get_u16(bytes, at)) << 16 | u32::from(get_u16(bytes, at + 2))
}

/// A TID as it is stored.
pub fn tid_bytes((block, line_pointer): Tid) -> [u8; TID_LEN] {
    let [b0, b1, b2, b3] = block_bytes(block);
    let [o0, o1] = line_pointer.to_le_bytes();
    [b0, b1, b2, b3, o0, o1]
}

/// The TID at the offset `at`.
pub fn read_tid(bytes: &[u8], at: usize) -> Tid {
    (read_block(bytes, at), get_u16(bytes, at + 4))
}
