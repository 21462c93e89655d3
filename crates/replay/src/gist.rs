//! Replay of GiST indexes (access/gist/gistxlog.c).
//!
//! The special space has 16 bytes: the position of the last split (high `u32` first), right sibling
//! u32, flags u16, page id u16. Positions of splits that end here are not set: a record does not
//! know where it ends.

use walzip_pgformat::bytes::read_u64;
use walzip_pgformat::opcode::gist;

use crate::index_tuple::{self, NO_BLOCK, append_all, numbers};
use crate::page::{HEADER_LEN, Page, PageBytes};
use crate::pages::BlockPages;
use crate::record::Record;
use crate::special::Special;

const OPCODE: u8 = 0xF0;

const SPECIAL_LEN: usize = 16;
type Opaque = Special<SPECIAL_LEN, 12>;
/// `GIST_PAGE_ID`
const PAGE_ID: u16 = 0xFF81;
/// `GIST_ROOT_BLKNO`
const ROOT: u32 = 0;

/// `F_LEAF`
const LEAF: u16 = 1;
/// `F_DELETED`
const DELETED: u16 = 1 << 1;
/// `F_TUPLES_DELETED`
const TUPLES_DELETED: u16 = 1 << 2;
/// `F_FOLLOW_RIGHT`
const FOLLOW_RIGHT: u16 = 1 << 3;
/// `F_HAS_GARBAGE`
const HAS_GARBAGE: u16 = 1 << 4;

/// Bytes of the number of tuples before those of a page of a split.
const COUNT_LEN: usize = 4;

/// Replays a record.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        gist::PAGE_UPDATE => {
            if let Some(child) = pages.page(1) {
                Opaque::change_flags(child, 0, FOLLOW_RIGHT)?;
            }
            update(record, pages.page(0)?)
        }
        gist::DELETE => delete(record, pages.page(0)?),
        gist::PAGE_SPLIT => split(record, pages),
        gist::PAGE_DELETE => delete_page(record, pages),
        _ => None,
    }
}

fn update(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let (deleted, added) = (record.main_u16(0)?, record.main_u16(2)?);
    let data = record.data(0);
    let (deleted, tuples) = data.split_at_checked(2 * usize::from(deleted))?;
    let deleted = numbers(deleted);
    if let ([number], 1) = (&deleted[..], added) {
        return page.overwrite(*number, tuples.get(..index_tuple::len(tuples)?)?);
    }
    remove(record, page, &deleted)?;
    append_all(page, tuples)
}

fn remove(record: &Record<'_>, page: &mut PageBytes, numbers: &[u16]) -> Option<()> {
    if numbers.is_empty() {
        return Some(());
    }
    page.remove(numbers, record.rules)?;
    match Opaque::flags(page)? & LEAF {
        0 => Some(()),
        _ => Opaque::change_flags(page, TUPLES_DELETED, 0),
    }
}

/// Dead tuples go.
fn delete(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let count = usize::from(record.main_u16(4)?);
    let at = if record.rules.major() >= 16 { 8 } else { 6 };
    let deleted = numbers(record.main().get(at..at + 2 * count)?);
    if !deleted.is_empty() {
        page.remove(&deleted, record.rules)?;
    }
    Opaque::change_flags(page, TUPLES_DELETED, HAS_GARBAGE)
}

/// All pages are new: the first one too.
fn split(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let position = read_u64(record.main(), 8)?;
    let (is_leaf, marks) = (record.main_u8(16)? != 0, record.main_u8(20)? != 0);
    if let Some(child) = pages.page(0) {
        Opaque::change_flags(child, 0, FOLLOW_RIGHT)?;
    }
    let blocks = || record.layout.blocks.iter().filter(|block| block.id > 0);
    let is_root_split = blocks().next().is_some_and(|block| block.number == ROOT);
    for block in blocks() {
        let next = blocks().find(|next| next.id == block.id + 1);
        let is_root = block.number == ROOT;
        let right = match next {
            _ if is_root => NO_BLOCK,
            Some(next) => next.number,
            None => record.main_u32(0)?,
        };
        let mut flags = if is_leaf && !is_root { LEAF } else { 0 };
        if next.is_some() && !is_root_split && marks {
            flags |= FOLLOW_RIGHT;
        }
        let Some(page) = pages.page(block.id) else {
            continue;
        };
        page.init(SPECIAL_LEN);
        Opaque::put(page, 0, &position.rotate_left(32).to_le_bytes())?;
        Opaque::put(page, 8, &right.to_le_bytes())?;
        Opaque::change_flags(page, flags, 0)?;
        Opaque::put(page, 14, &PAGE_ID.to_le_bytes())?;
        append_all(page, record.data_of(block).get(COUNT_LEN..)?)?;
    }
    Some(())
}

fn delete_page(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (xid, number) = (read_u64(record.main(), 0)?, record.main_u16(8)?);
    if let Some(page) = pages.page(0) {
        Opaque::change_flags(page, DELETED, 0)?;
        page.set_bounds(HEADER_LEN + 8, page.upper());
        page.put(HEADER_LEN, &xid.to_le_bytes())?;
    }
    pages.page(1)?.delete_item(number)
}

/// The data of the first block reference of an update, which are left out because there is an
/// image.
pub fn omitted(
    record: &Record<'_>,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    if record.opcode(OPCODE) != gist::PAGE_UPDATE {
        return None;
    }
    let (deleted, added) = (record.main_u16(0)?, record.main_u16(2)?);
    if (deleted, added) == (1, 1) {
        let number = (1..=before.items()).find(|&at| before.item(at) != image.item(at))?;
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(image.item(number)?);
        return Some(());
    }
    let kept = image.items().checked_sub(added)?;
    let mut new = 1;
    for number in 1..=before.items() {
        if new <= kept && before.item(number)? == image.item(new)? {
            new += 1;
        } else {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    if out.len() != 2 * usize::from(deleted) {
        return None;
    }
    for number in kept + 1..=image.items() {
        out.extend_from_slice(image.item(number)?);
    }
    Some(())
}
