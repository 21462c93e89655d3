//! Arrays (utils/array.h) of element types whose sort order is known.
//!
//! ```text
//! dimensions i32, offset of the data i32 (0 if no element is null), element type u32,
//! length i32 of each dimension, lower bound i32 of each dimension; null bitmap; the elements
//! ```
//!
//! Offsets and alignment count from a varlena header of four bytes, which `content` does not
//! include.

use walzip_pgformat::wal::max_align;

use super::Keys;
use crate::streams::coder::{get, get_u32};

const HEADER_LEN: usize = 4;
/// Size of the header without the varlena header, in bytes.
const FIXED_LEN: usize = 12;
/// `MAXDIM`: maximum number of dimensions.
const DIMENSIONS_MAX: u32 = 6;

/// How elements are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    /// A signed integer: its length in bytes, which is also its alignment.
    Signed(usize),
    /// 16 bytes without alignment.
    Uuid,
    /// A varlena.
    Text,
}

impl Element {
    fn align(self) -> usize {
        match self {
            Element::Signed(len) => len,
            Element::Uuid => 1,
            Element::Text => 4,
        }
    }

    /// By the OID of the element type (catalog/pg_type.dat).
    fn of(oid: u32) -> Option<Element> {
        match oid {
            21 => Some(Element::Signed(2)),
            23 | 1082 => Some(Element::Signed(4)),
            20 | 1114 | 1184 => Some(Element::Signed(8)),
            2950 => Some(Element::Uuid),
            25 | 1042 | 1043 => Some(Element::Text),
            _ => None,
        }
    }
}

/// Whether the number of dimensions and the element type are possible.
pub fn is_likely(content: &[u8]) -> bool {
    (1..=DIMENSIONS_MAX).contains(&get_u32(content, 0))
        && Element::of(get_u32(content, 8)).is_some()
}

/// Extracts the elements, sorted: integers by value, the others by their bytes.
pub fn extract(content: &[u8], keys: &mut Keys) -> Option<()> {
    let dimensions = get_u32(content, 0) as usize;
    let element = Element::of(get_u32(content, 8))?;
    let mut count = 1usize;
    for dimension in 0..dimensions {
        let len = get_u32(content.get(FIXED_LEN + 4 * dimension..)?, 0);
        count = count.checked_mul(len as usize)?;
    }
    if count > 8 * content.len() {
        return None;
    }
    let bitmap = FIXED_LEN + 8 * dimensions;
    let mut at = match get_u32(content, 4) as usize {
        0 => max_align(HEADER_LEN + bitmap) - HEADER_LEN,
        offset => offset.checked_sub(HEADER_LEN)?,
    };
    let has_nulls = get_u32(content, 4) != 0;
    for number in 0..count {
        if has_nulls && content.get(bitmap + number / 8)? >> (number % 8) & 1 == 0 {
            continue;
        }
        at = push(element, content, at, keys)?;
    }
    keys.is_varlena = element == Element::Text;
    match element {
        Element::Signed(_) => keys.sort_by(signed),
        Element::Uuid | Element::Text => keys.sort_by(|key| key),
    }
    // PostgreSQL pads each element to its alignment, the last one too.
    let padded = (at + HEADER_LEN).next_multiple_of(element.align()) - HEADER_LEN;
    (padded == content.len()).then_some(())
}

/// Adds the element at the first aligned offset from `at` on. Returns the offset of its end.
fn push(element: Element, content: &[u8], at: usize, keys: &mut Keys) -> Option<usize> {
    let aligned = || (at + HEADER_LEN).next_multiple_of(element.align()) - HEADER_LEN;
    let (start, end) = match element {
        Element::Signed(len) => {
            let start = aligned();
            (start, start + len)
        }
        Element::Uuid => (at, at + 16),
        Element::Text if content.get(at)? & 1 == 1 => (at + 1, at + usize::from(content[at] >> 1)),
        Element::Text => {
            let start = aligned();
            (start + 4, start + (get_u32(content, start) >> 2) as usize)
        }
    };
    keys.push(&[content.get(start..end)?]);
    Some(end)
}

fn signed(key: &[u8]) -> i64 {
    match key.len() {
        2 => i16::from_le_bytes(get(key, 0)).into(),
        4 => i32::from_le_bytes(get(key, 0)).into(),
        _ => i64::from_le_bytes(get(key, 0)),
    }
}
