//! Whether the entries of an index are in the order of the rows: of those, the model of an index by
//! itself leaves next to nothing. Encoder only.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::bytes::read_u16;

use super::index_tuple::{ALT_TID, INFO_AT};
use crate::model::values::tid::read_tid;

/// Offset of the line pointers in a page (`SizeOfPageHeaderData`), and the length of the special space
/// of a B-tree's.
const PAGE_HEADER_LEN: usize = 24;
const SPECIAL_LEN: usize = 16;
/// `BTP_LEAF`, in the flags of a page.
const LEAF: u16 = 1;

/// How many tuples of a leaf page point to a row close after that of the tuple before, and how many
/// have one before. `None` if the page is no leaf of a B-tree.
pub fn in_row_order(page: &[u8; PAGE_SIZE]) -> Option<(usize, usize)> {
    let lower = usize::from(read_u16(page, 12)?);
    let special = usize::from(read_u16(page, 16)?);
    if special != PAGE_SIZE - SPECIAL_LEN || read_u16(page, special + 12)? & LEAF == 0 {
        return None;
    }
    let pointers = page.get(PAGE_HEADER_LEN..lower)?.as_chunks::<4>().0;
    let tuples = pointers.iter().filter_map(|pointer| {
        let at = (u32::from_le_bytes(*pointer) & 0x7FFF) as usize;
        page.get(at..)
    });
    let (mut last, mut following, mut all) = (None, 0, 0);
    for tuple in tuples {
        let is_alone = read_u16(tuple, INFO_AT)? & ALT_TID == 0;
        let tid = is_alone.then(|| read_tid(tuple, 0));
        if let Some((block, line_pointer)) = last {
            let follows = |tid: (u32, u16)| {
                tid.0 == block && tid.1 > line_pointer || tid.0.checked_sub(block) == Some(1)
            };
            following += usize::from(tid.is_some_and(follows));
            all += 1;
        }
        last = tid;
    }
    Some((following, all))
}
