//! jsonb as PostgreSQL stores it (utils/jsonb.h).
//!
//! ```text
//! container: count and flags u32, a JEntry u32 for each child, the children's bytes
//! ```
//!
//! An object's children are its keys, then its values. A JEntry has a type and the child's
//! length; each 32nd has the end of the child instead. Numbers and containers are aligned to
//! four bytes, and the padding counts as theirs.

use crate::streams::coder::{Coder, get_u32};

/// `JB_CMASK`.
pub const COUNT_MASK: u32 = 0x0FFF_FFFF;
/// `JB_FOBJECT`.
pub const IS_OBJECT: u32 = 0x2000_0000;
/// `JENTRY_OFFLENMASK`.
const LEN_MASK: u32 = 0x0FFF_FFFF;
/// `JENTRY_HAS_OFF`.
pub const HAS_OFFSET: u32 = 0x8000_0000;
/// `JB_OFFSET_STRIDE`.
pub const OFFSET_STRIDE: usize = 32;
/// Types of a JEntry (`JENTRY_IS*`).
pub const STRING: u8 = 0;
/// See [`STRING`].
pub const NUMERIC: u8 = 1;
/// See [`STRING`].
pub const CONTAINER: u8 = 5;

/// The bytes of a number's varlena header.
pub const NUMERIC_HEADER_LEN: usize = 4;

/// A child, as its JEntry says.
#[derive(Clone, Copy)]
pub struct Child {
    /// Its type.
    pub kind: u8,
    /// Its bytes, padding included.
    pub len: usize,
}

/// The offset where a child of a type begins, when the child before it ends at `at`.
pub fn aligned(kind: u8, at: usize) -> usize {
    match kind {
        NUMERIC | CONTAINER => at.next_multiple_of(4),
        _ => at,
    }
}

/// Reads a JEntry; `before` is the offset where the child begins. `None` if PostgreSQL would not
/// write it so.
pub fn child_at(json: &[u8], at: usize, number: usize, before: usize) -> Option<Child> {
    let entry_at = at + 4 + 4 * number;
    let entry = get_u32(json.get(entry_at..entry_at + 4)?, 0);
    let has_offset = entry & HAS_OFFSET != 0;
    if has_offset != number.is_multiple_of(OFFSET_STRIDE) {
        return None;
    }
    let len = (entry & LEN_MASK) as usize;
    Some(Child {
        kind: (entry >> 28 & 7) as u8,
        len: match has_offset {
            true => len.checked_sub(before)?,
            false => len,
        },
    })
}

/// Writes a JEntry; `end` is the offset where the child ends.
pub fn put_child<C: Coder>(
    coder: &mut C,
    json: &mut [u8],
    at: usize,
    number: usize,
    kind: u8,
    len: usize,
    end: usize,
) {
    let entry = u32::from(kind) << 28
        | match number.is_multiple_of(OFFSET_STRIDE) {
            true => HAS_OFFSET | end as u32,
            false => len as u32,
        };
    coder.put(json, at + 4 + 4 * number, entry.to_le_bytes());
}
