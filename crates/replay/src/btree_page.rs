//! The special space of pages of B-trees (access/nbtree.h): left sibling u32, right sibling u32,
//! level u32, flags u16, cycle u16.

use crate::page::PageBytes;
use crate::special::Special;

/// Bytes of the special space.
pub const SPECIAL_LEN: usize = 16;
/// The special space.
pub type Opaque = Special<SPECIAL_LEN, 12>;
const RIGHT_AT: usize = 4;
/// No sibling (`P_NONE`).
pub const NO_BLOCK: u32 = 0;

/// The flag of a leaf (`BTP_LEAF`).
pub const LEAF: u16 = 1;

/// The page has no right sibling.
pub fn is_rightmost(page: &PageBytes) -> Option<bool> {
    Some(Opaque::u32_at(page, RIGHT_AT)? == NO_BLOCK)
}

/// The right sibling, if there is one.
pub fn right_sibling(page: &PageBytes) -> Option<u32> {
    let block = Opaque::u32_at(page, RIGHT_AT)?;
    (block != NO_BLOCK).then_some(block)
}

/// The page is a leaf.
pub fn is_leaf(page: &PageBytes) -> bool {
    Opaque::flags(page).is_some_and(|flags| flags & LEAF != 0)
}

/// The number of the first item that is no high key (`P_FIRSTDATAKEY`).
pub fn first_data(page: &PageBytes) -> Option<u16> {
    Some(if is_rightmost(page)? { 1 } else { 2 })
}
