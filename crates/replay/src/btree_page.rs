//! The special space of pages of B-trees (access/nbtree.h): left sibling u32, right sibling u32,
//! level u32, flags u16, cycle u16.

use crate::page::{Page, PageBytes};

/// Bytes of the special space.
pub const SPECIAL_LEN: usize = 16;
/// No sibling (`P_NONE`).
pub const NO_BLOCK: u32 = 0;

/// The flag of a leaf (`BTP_LEAF`).
pub const LEAF: u16 = 1;

/// Where the special space begins.
pub fn special_at(page: &PageBytes) -> Option<usize> {
    let at = page.special();
    (at + SPECIAL_LEN <= page.len()).then_some(at)
}

/// Puts bytes into the special space.
pub fn put_special(page: &mut PageBytes, at: usize, bytes: &[u8]) -> Option<()> {
    let special = special_at(page)?;
    page.put(special + at, bytes)
}

/// The page has no right sibling.
pub fn is_rightmost(page: &PageBytes) -> Option<bool> {
    Some(page.u32_at(special_at(page)? + 4) == NO_BLOCK)
}

/// The right sibling, if there is one.
pub fn right_sibling(page: &PageBytes) -> Option<u32> {
    let block = page.u32_at(special_at(page)? + 4);
    (block != NO_BLOCK).then_some(block)
}

/// The page is a leaf.
pub fn is_leaf(page: &PageBytes) -> bool {
    special_at(page).is_some_and(|at| page.u16_at(at + 12) & LEAF != 0)
}

/// Sets flags and clears others.
pub fn change_flags(page: &mut PageBytes, set: u16, clear: u16) -> Option<()> {
    let at = special_at(page)? + 12;
    let flags = (page.u16_at(at) & !clear) | set;
    page.put(at, &flags.to_le_bytes())
}

/// The number of the first item that is no high key (`P_FIRSTDATAKEY`).
pub fn first_data(page: &PageBytes) -> Option<u16> {
    Some(if is_rightmost(page)? { 1 } else { 2 })
}
