//! The visibility map: two bits for each block of a table (access/heap/visibilitymap.c).

use walzip_pgformat::PAGE_SIZE;

use crate::page::HEADER_LEN;

/// The fork of the map (`VISIBILITYMAP_FORKNUM`).
pub const FORK: u8 = 2;
/// All visible and all frozen (`VISIBILITYMAP_VALID_BITS`).
pub const VALID_BITS: u8 = 3;

const BLOCKS_PER_BYTE: u32 = 4;
const BLOCKS_PER_PAGE: u32 = (PAGE_SIZE - HEADER_LEN) as u32 * BLOCKS_PER_BYTE;

/// The block of the map that has the bits of a table's block.
pub fn map_block(block: u32) -> u32 {
    block / BLOCKS_PER_PAGE
}

/// Where the bits stand in that block: the byte, and how far to the left.
pub fn place(block: u32) -> (usize, u32) {
    let in_page = block % BLOCKS_PER_PAGE;
    let at = HEADER_LEN + (in_page / BLOCKS_PER_BYTE) as usize;
    (at, in_page % BLOCKS_PER_BYTE * 2)
}
