//! The special space of pages of GIN indexes (access/ginblock.h): right sibling u32, number of
//! posting items or of rows u16, flags u16.

use crate::index_tuple::NO_BLOCK;
use crate::page::{Page, PageBytes};
use crate::special::Special;

const SPECIAL_LEN: usize = 8;
/// The special space.
pub type Opaque = Special<SPECIAL_LEN, 6>;
/// Where the right sibling stands in it.
pub const RIGHT_AT: usize = 0;
/// Where the number of posting items or of rows stands in it.
pub const COUNT_AT: usize = 4;

/// `GIN_DATA`: a page of a tree of rows.
pub const DATA: u16 = 1;
/// `GIN_LEAF`
pub const LEAF: u16 = 1 << 1;
/// `GIN_DELETED`
pub const DELETED: u16 = 1 << 2;
/// `GIN_META`
pub const META: u16 = 1 << 3;
/// `GIN_LIST`: entries that are pending.
pub const LIST: u16 = 1 << 4;
/// `GIN_LIST_FULLROW`
pub const FULL_ROW: u16 = 1 << 5;
/// `GIN_INCOMPLETE_SPLIT`
pub const INCOMPLETE_SPLIT: u16 = 1 << 6;
/// `GIN_COMPRESSED`
pub const COMPRESSED: u16 = 1 << 7;

/// Makes an empty page (`GinInitPage`).
pub fn init(page: &mut PageBytes, flags: u16) {
    page.init(SPECIAL_LEN);
    Opaque::put(page, RIGHT_AT, &NO_BLOCK.to_le_bytes());
    Opaque::change_flags(page, flags, 0);
}
