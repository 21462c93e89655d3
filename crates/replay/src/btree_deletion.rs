//! How pages of B-trees are deleted: first the leaf becomes half dead, then pages are unlinked from
//! their siblings (access/nbtree/nbtpage.c, nbtxlog.c).

use walzip_pgformat::opcode::btree;

use crate::btree_page::{LEAF, NO_BLOCK, Opaque, SPECIAL_LEN};
use crate::page::{HEADER_LEN, Page, PageBytes};
use crate::pages::BlockPages;
use crate::record::Record;

/// Flags of a page (`BTP_*`).
const DELETED: u16 = 1 << 2;
const HALF_DEAD: u16 = 1 << 4;
const HAS_FULL_XID: u16 = 1 << 8;

/// `INDEX_ALT_TID_MASK`, and the length of a tuple without a key.
const TUPLE_INFO: u16 = 0x2000 | 8;
/// `InvalidBlockNumber`
const NO_PARENT: u32 = u32::MAX;

/// Replays a record that deletes pages.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>, opcode: u8) -> Option<()> {
    match opcode {
        btree::MARK_PAGE_HALFDEAD => mark_half_dead(record, pages),
        _ => unlink(record, pages),
    }
}

/// `xl_btree_mark_page_halfdead`
fn mark_half_dead(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    if let Some(parent) = pages.page(1) {
        let number = record.main_u16(0)?;
        let next = number.checked_add(1)?;
        let right = *parent.item(next)?.first_chunk::<4>()?;
        let downlink = parent.item_mut(number)?;
        *downlink.first_chunk_mut()? = right;
        parent.remove(&[next], record.rules)?;
    }
    let [left, right, parent] = [8, 12, 16].map(|at| record.main_u32(at));
    make_half_dead(pages.page(0)?, (left?, right?), parent?)
}

fn make_half_dead(page: &mut PageBytes, siblings: (u32, u32), parent: u32) -> Option<()> {
    page.init(SPECIAL_LEN);
    set_special(page, siblings, 0, HALF_DEAD | LEAF)?;
    let mut tuple = [0; 8];
    tuple[0..2].copy_from_slice(&((parent >> 16) as u16).to_le_bytes());
    tuple[2..4].copy_from_slice(&(parent as u16).to_le_bytes());
    tuple[6..8].copy_from_slice(&TUPLE_INFO.to_le_bytes());
    page.add_shifting(&tuple, 1)
}

fn set_special(
    page: &mut PageBytes,
    (left, right): (u32, u32),
    level: u32,
    flags: u16,
) -> Option<()> {
    for (at, number) in [(0, left), (4, right), (8, level)] {
        Opaque::put(page, at, &number.to_le_bytes())?;
    }
    Opaque::put(page, 12, &flags.to_le_bytes())
}

/// `xl_btree_unlink_page`, which 14 changed.
struct Unlink {
    siblings: (u32, u32),
    level: u32,
    /// The transaction after which the page may be used again: of 8 bytes from 14 on.
    safe_xid: Vec<u8>,
    leaf_siblings: (u32, u32),
    parent: u32,
}

impl Unlink {
    fn of(record: &Record<'_>) -> Option<Unlink> {
        let is_13 = record.rules.major() == 13;
        let (xid_at, leaf_at) = if is_13 { (20, 8) } else { (16, 24) };
        let number = |at| record.main_u32(at);
        let xid_len = if is_13 { 4 } else { 8 };
        let parent = number(leaf_at + 8)?;
        Some(Unlink {
            siblings: (number(0)?, number(4)?),
            // In 13 it follows from the parent whether the page is a leaf.
            level: match is_13 {
                true => u32::from(parent != NO_PARENT),
                false => number(8)?,
            },
            safe_xid: record.main().get(xid_at..xid_at + xid_len)?.to_vec(),
            leaf_siblings: (number(leaf_at)?, number(leaf_at + 4)?),
            parent,
        })
    }
}

fn unlink(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let unlink = Unlink::of(record)?;
    let (left, right) = unlink.siblings;
    if let Some(page) = pages.page(1).filter(|_| left != NO_BLOCK) {
        Opaque::put(page, 4, &right.to_le_bytes())?;
    }
    if let Some(page) = pages.page(2) {
        Opaque::put(page, 0, &left.to_le_bytes())?;
    }
    if let Some(page) = pages.page(3) {
        make_half_dead(page, unlink.leaf_siblings, unlink.parent)?;
    }
    let page = pages.page(0)?;
    page.init(SPECIAL_LEN);
    let leaf = if unlink.level == 0 { LEAF } else { 0 };
    if record.rules.major() == 13 {
        set_special(page, unlink.siblings, 0, DELETED | leaf)?;
        return Opaque::put(page, 8, &unlink.safe_xid);
    }
    let flags = DELETED | HAS_FULL_XID | leaf;
    set_special(page, unlink.siblings, unlink.level, flags)?;
    page.put(HEADER_LEN, &unlink.safe_xid)?;
    page.set_bounds(HEADER_LEN + unlink.safe_xid.len(), page.special());
    Some(())
}
