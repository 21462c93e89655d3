//! Replay of hash indexes (access/hash/hash_xlog.c).
//!
//! The special space has 16 bytes: the pages before and after in the bucket u32 each, bucket u32,
//! flags u16, page id u16. The metapage has its data, and a page of the bitmap its bits, from
//! [`CONTENT_AT`] on.

use walzip_pgformat::bytes::{read_u32, read_u64};
use walzip_pgformat::opcode::hash;

use crate::index_tuple::{self, NO_BLOCK, numbers};
use crate::page::{HEADER_LEN, Page, PageBytes, max_align};
use crate::pages::BlockPages;
use crate::record::Record;
use crate::special::Special;

const OPCODE: u8 = 0xF0;

const SPECIAL_LEN: usize = 16;
type Opaque = Special<SPECIAL_LEN, 12>;
/// `HASHO_PAGE_ID`
const PAGE_ID: u16 = 0xFF80;

/// `LH_UNUSED_PAGE`
const UNUSED: u16 = 0;
/// `LH_OVERFLOW_PAGE`
const OVERFLOW: u16 = 1;
/// `LH_BITMAP_PAGE`
const BITMAP: u16 = 1 << 2;
/// `LH_BUCKET_NEEDS_SPLIT_CLEANUP`
const NEEDS_CLEANUP: u16 = 1 << 6;
/// `LH_PAGE_HAS_DEAD_TUPLES`
const HAS_DEAD: u16 = 1 << 7;

/// Where the data of a metapage or the bits of a bitmap begin.
const CONTENT_AT: usize = HEADER_LEN;
/// Fields of a metapage (`HashMetaPageData`).
const TUPLES_AT: usize = CONTENT_AT + 8;
const LAST_BUCKET_AT: usize = CONTENT_AT + 24;
const HIGH_MASK_AT: usize = CONTENT_AT + 28;
const LOW_MASK_AT: usize = CONTENT_AT + 32;
const SPLIT_POINT_AT: usize = CONTENT_AT + 36;
const FIRST_FREE_AT: usize = CONTENT_AT + 40;
const BITMAPS_AT: usize = CONTENT_AT + 44;
const SPARES_AT: usize = CONTENT_AT + 52;
const SPARES: usize = 98;
const MAP_AT: usize = SPARES_AT + 4 * SPARES;
const MAP_LEN: usize = 1024;

/// `XLH_SPLIT_META_UPDATE_MASKS`
const UPDATES_MASKS: u8 = 1;
/// `XLH_SPLIT_META_UPDATE_SPLITPOINT`
const UPDATES_SPLIT_POINT: u8 = 1 << 1;

/// Replays a record.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        hash::INSERT => insert(record, pages),
        hash::ADD_OVFL_PAGE => add_overflow_page(record, pages),
        hash::SPLIT_ALLOCATE_PAGE => begin_split(record, pages),
        hash::SPLIT_COMPLETE => {
            for id in 0..2 {
                if let Some(page) = pages.page(id) {
                    Opaque::put(
                        page,
                        12,
                        &record.main_u16(2 * usize::from(id))?.to_le_bytes(),
                    )?;
                }
            }
            Some(())
        }
        hash::MOVE_PAGE_CONTENTS => move_tuples(record, pages),
        hash::SQUEEZE_PAGE => squeeze(record, pages),
        hash::DELETE => {
            let page = pages.page(1)?;
            remove(record, page, record.data(1))?;
            match record.main_u8(0)? {
                0 => Some(()),
                _ => Opaque::change_flags(page, 0, HAS_DEAD),
            }
        }
        hash::SPLIT_CLEANUP => Opaque::change_flags(pages.page(0)?, 0, NEEDS_CLEANUP),
        hash::UPDATE_META_PAGE => pages.page(0)?.put(TUPLES_AT, record.main().get(..8)?),
        hash::VACUUM_ONE_PAGE => vacuum(record, pages),
        _ => None,
    }
}

/// Makes an empty page.
fn init(page: &mut PageBytes, before: u32, bucket: u32, flags: u16) -> Option<()> {
    page.init(SPECIAL_LEN);
    Opaque::put(page, 0, &before.to_le_bytes())?;
    Opaque::put(page, 4, &NO_BLOCK.to_le_bytes())?;
    Opaque::put(page, 8, &bucket.to_le_bytes())?;
    Opaque::put(page, 12, &flags.to_le_bytes())?;
    Opaque::put(page, 14, &PAGE_ID.to_le_bytes())
}

/// Adds to the number of tuples in a metapage, if it is one: sums of others depend on the processor.
fn count_tuples(meta: &mut PageBytes, tuples: f64) -> Option<()> {
    let before = f64::from_bits(read_u64(meta, TUPLES_AT)?);
    if !before.is_finite() {
        return None;
    }
    meta.put(TUPLES_AT, &(before + tuples).to_le_bytes())
}

fn insert(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    if let Some(meta) = pages.page(1) {
        count_tuples(meta, 1.0)?;
    }
    pages
        .page(0)?
        .add_shifting(record.data(0), record.main_u16(0)?)
}

/// Sets or clears a bit of a bitmap.
fn set_bit(page: &mut PageBytes, bit: u32, is_set: bool) -> Option<()> {
    let at = CONTENT_AT + usize::try_from(bit / 8).ok()?;
    let byte = page.get_mut(at)?;
    match is_set {
        true => *byte |= 1 << (bit % 8),
        false => *byte &= !(1 << (bit % 8)),
    }
    Some(())
}

/// Changes a number of four bytes.
fn change(page: &mut PageBytes, at: usize, change: impl FnOnce(u32) -> u32) -> Option<()> {
    let number = change(read_u32(page, at)?);
    page.put(at, &number.to_le_bytes())
}

fn add_overflow_page(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (right, left) = (record.block(0)?.number, record.block(1)?.number);
    let (bitmap_len, is_found) = (record.main_u16(0)?, record.main_u8(2)? != 0);
    if let Some(page) = pages.page(0) {
        init(page, left, read_u32(record.data(0), 0)?, OVERFLOW)?;
    }
    if let Some(page) = pages.page(1) {
        Opaque::put(page, 4, &right.to_le_bytes())?;
    }
    if let Some(bitmap) = pages.page(2) {
        set_bit(bitmap, read_u32(record.data(2), 0)?, true)?;
    }
    let new_bitmap = record.block(3).map(|block| block.number);
    if let Some(bitmap) = pages.page(3) {
        init(bitmap, NO_BLOCK, NO_BLOCK, BITMAP)?;
        let end = CONTENT_AT + usize::from(bitmap_len);
        bitmap.get_mut(CONTENT_AT..end)?.fill(0xFF);
        bitmap.set_bounds(end, bitmap.upper());
    }
    let meta = pages.page(4)?;
    meta.put(FIRST_FREE_AT, record.data(4).get(..4)?)?;
    if !is_found {
        let spares = spares_at(read_u32(meta, SPLIT_POINT_AT)?)?;
        change(meta, spares, |spares| spares.wrapping_add(1))?;
        if let Some(block) = new_bitmap {
            let bitmaps = usize::try_from(read_u32(meta, BITMAPS_AT)?).ok()?;
            let map_at = MAP_AT + 4 * Some(bitmaps).filter(|at| *at < MAP_LEN)?;
            meta.put(map_at, &block.to_le_bytes())?;
            change(meta, BITMAPS_AT, |bitmaps| bitmaps.wrapping_add(1))?;
            change(meta, spares, |spares| spares.wrapping_add(1))?;
        }
    }
    Some(())
}

/// Where the number of overflow pages of a split point stands.
fn spares_at(point: u32) -> Option<usize> {
    let point = usize::try_from(point).ok()?;
    (point < SPARES).then_some(SPARES_AT + 4 * point)
}

fn begin_split(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let new = record.main_u32(0)?;
    let (old_flags, new_flags) = (record.main_u16(4)?, record.main_u16(6)?);
    if let Some(page) = pages.page(0) {
        Opaque::put(page, 12, &old_flags.to_le_bytes())?;
        Opaque::put(page, 0, &new.to_le_bytes())?;
    }
    if let Some(page) = pages.page(1) {
        init(page, new, new, new_flags)?;
    }
    let (meta, flags, mut data) = (pages.page(2)?, record.main_u8(8)?, record.data(2));
    meta.put(LAST_BUCKET_AT, &new.to_le_bytes())?;
    if flags & UPDATES_MASKS != 0 {
        let (masks, rest) = data.split_at_checked(8)?;
        meta.put(LOW_MASK_AT, &masks[..4])?;
        meta.put(HIGH_MASK_AT, &masks[4..])?;
        data = rest;
    }
    if flags & UPDATES_SPLIT_POINT != 0 {
        meta.put(spares_at(read_u32(data, 0)?)?, data.get(4..8)?)?;
        meta.put(SPLIT_POINT_AT, data.get(..4)?)?;
    }
    Some(())
}

/// Puts tuples under the numbers that stand before them.
fn put_tuples(page: &mut PageBytes, count: u16, data: &[u8]) -> Option<()> {
    let (before, mut tuples) = data.split_at_checked(2 * usize::from(count))?;
    for number in numbers(before) {
        let len = max_align(index_tuple::len(tuples)?);
        let (tuple, rest) = tuples.split_at_checked(len)?;
        page.add_shifting(tuple, number)?;
        tuples = rest;
    }
    Some(())
}

/// Removes items.
fn remove(record: &Record<'_>, page: &mut PageBytes, removed: &[u8]) -> Option<()> {
    match &numbers(removed)[..] {
        [] => Some(()),
        removed => page.remove(removed, record.rules),
    }
}

fn move_tuples(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    if let Some(page) = pages.page(1) {
        put_tuples(page, record.main_u16(0)?, record.data(1))?;
    }
    let page = pages.page(2)?;
    remove(record, page, record.data(2))
}

/// The tuples of an overflow page go to an earlier page, and it is free.
fn squeeze(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (before, after) = (record.main_u32(0)?, record.main_u32(4)?);
    let is_previous = record.main_u8(11)? != 0;
    if let Some(page) = pages.page(1) {
        put_tuples(page, record.main_u16(8)?, record.data(1))?;
        if is_previous {
            Opaque::put(page, 4, &after.to_le_bytes())?;
        }
    }
    if let Some(page) = pages.page(2) {
        init(page, NO_BLOCK, NO_BLOCK, UNUSED)?;
    }
    if let Some(page) = pages.page(3).filter(|_| !is_previous) {
        Opaque::put(page, 4, &after.to_le_bytes())?;
    }
    if let Some(page) = pages.page(4) {
        Opaque::put(page, 0, &before.to_le_bytes())?;
    }
    if let Some(bitmap) = pages.page(5) {
        set_bit(bitmap, read_u32(record.data(5), 0)?, false)?;
    }
    match record.data(6) {
        [] => Some(()),
        data => pages.page(6)?.put(FIRST_FREE_AT, data.get(..4)?),
    }
}

fn vacuum(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let count = record.main_u16(4)?;
    if let Some(meta) = pages.page(1) {
        count_tuples(meta, -f64::from(count))?;
    }
    let page = pages.page(0)?;
    let removed = record.main().get(8..8 + 2 * usize::from(count))?;
    remove(record, page, removed)?;
    Opaque::change_flags(page, 0, HAS_DEAD)
}

/// The data of a block reference that are left out because there is an image.
pub fn omitted(
    record: &Record<'_>,
    block: u8,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    match (record.opcode(OPCODE), block) {
        (hash::INSERT, 0) => out.extend_from_slice(image.item(record.main_u16(0)?)?),
        (hash::ADD_OVFL_PAGE, 4) | (hash::SQUEEZE_PAGE, 6) => {
            out.extend_from_slice(image.get(FIRST_FREE_AT..FIRST_FREE_AT + 4)?);
        }
        (hash::MOVE_PAGE_CONTENTS, 1) => {
            omitted_tuples(record.main_u16(0)?, before, image, out)?;
        }
        (hash::SQUEEZE_PAGE, 1) => omitted_tuples(record.main_u16(8)?, before, image, out)?,
        (hash::DELETE, 1) | (hash::MOVE_PAGE_CONTENTS, 2) => {
            let mut new = 1;
            for number in 1..=before.items() {
                match before.item(number)? == image.item(new).unwrap_or_default() {
                    true => new += 1,
                    false => out.extend_from_slice(&number.to_le_bytes()),
                }
            }
        }
        _ => return None,
    }
    Some(())
}

/// The tuples that are new in an image, after their numbers.
fn omitted_tuples(
    count: u16,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (mut old, mut tuples) = (1, Vec::new());
    for number in 1..=image.items() {
        let item = image.item(number)?;
        if before.item(old) == Some(item) {
            old += 1;
            continue;
        }
        out.extend_from_slice(&number.to_le_bytes());
        tuples.extend_from_slice(item);
        tuples.resize(max_align(tuples.len()), 0);
    }
    if out.len() != 2 * usize::from(count) {
        return None;
    }
    out.extend_from_slice(&tuples);
    Some(())
}
