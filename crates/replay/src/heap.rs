//! What records of the resource managers Heap and Heap2 do to pages of tables
//! (access/heap/heapam.c, heapam_xlog.c from 18 on; access/heapam_xlog.h).
//!
//! Where the server that wrote the record does something else than its replay, this does what the
//! server did: hints, and line pointers that were looked for.

use walzip_pgformat::bytes::read_u16;
use walzip_pgformat::opcode::{heap, heap2};
use walzip_pgformat::rmgr_id::HEAP2;

use crate::heap_prune;
use crate::page::{ALL_VISIBLE, HAS_FREE_LINES, LinePointer, Page, PageBytes, State};
use crate::pages::BlockPages;
use crate::record::Record;
use crate::tuple::{self, HEADER_LEN, Tuple};

const OPCODE: u8 = 0x70;
/// The page is empty before (`XLOG_HEAP_INIT_PAGE`).
const INIT_PAGE: u8 = 0x80;

/// `XLH_INSERT_ALL_VISIBLE_CLEARED`, the same in deletes and multi-inserts, and for the old version
/// of an update.
const ALL_VISIBLE_CLEARED: u8 = 1;
/// `XLH_INSERT_ALL_FROZEN_SET`
const ALL_FROZEN_SET: u8 = 1 << 5;
/// `XLH_DELETE_IS_SUPER`
const IS_SUPER: u8 = 1 << 3;
/// `XLH_DELETE_IS_PARTITION_MOVE`
const IS_PARTITION_MOVE: u8 = 1 << 4;
/// `XLH_UPDATE_NEW_ALL_VISIBLE_CLEARED`
const NEW_ALL_VISIBLE_CLEARED: u8 = 1 << 1;
/// `XLH_UPDATE_PREFIX_FROM_OLD`
pub const PREFIX_FROM_OLD: u8 = 1 << 5;
/// `XLH_UPDATE_SUFFIX_FROM_OLD`
pub const SUFFIX_FROM_OLD: u8 = 1 << 6;

/// Bytes of `xl_heap_header`, before the data of a tuple.
pub const RECORD_HEADER_LEN: usize = 5;
/// Bytes of `xl_multi_insert_tuple`.
pub const MULTI_HEADER_LEN: usize = 7;
/// Where the offsets stand in `xl_heap_multi_insert`.
const MULTI_OFFSETS_AT: usize = 4;

/// Replays a record of Heap or Heap2.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let opcode = record.opcode(OPCODE);
    if record.layout.header.rmid == HEAP2 {
        return match opcode {
            heap2::MULTI_INSERT => multi_insert(record, pages),
            heap2::LOCK_UPDATED => lock(record, pages),
            heap2::VISIBLE => visible(record, pages),
            _ => heap_prune::redo(record, pages.page(0)?),
        };
    }
    match opcode {
        heap::INSERT => insert(record, pages),
        heap::DELETE => delete(record, pages),
        heap::UPDATE => update(record, pages, false),
        heap::HOT_UPDATE => update(record, pages, true),
        heap::LOCK => lock(record, pages),
        heap::CONFIRM => confirm(record, pages),
        heap::INPLACE => inplace(record, pages),
        _ => None,
    }
}

/// Does what an insertion does to the page besides the tuple.
fn prepare(record: &Record<'_>, page: &mut PageBytes, number: u16) {
    if record.layout.header.info & INIT_PAGE != 0 {
        page.init(0);
    } else if number == page.items() + 1 {
        // The server looked for an unused line pointer and found none.
        page.change_flags(0, HAS_FREE_LINES);
    }
}

fn insert(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (number, flags) = (record.main_u16(0)?, record.main_u8(2)?);
    let block = record.block(0)?.number;
    pages.clear_visibility(0, flags & ALL_VISIBLE_CLEARED != 0);
    let page = pages.page(0)?;
    prepare(record, page, number);
    let tuple = Tuple::of_record(record.data(0))?;
    let xid = record.xid();
    page.add_overwriting(&tuple.inserted(xid, (block, number)), number)?;
    if flags & ALL_VISIBLE_CLEARED != 0 {
        page.change_flags(0, ALL_VISIBLE);
    }
    Some(())
}

/// The numbers of the line pointers of a multi-insert's tuples.
pub fn multi_insert_numbers(record: &Record<'_>) -> Option<Vec<u16>> {
    let count = record.main_u16(2)?;
    let is_init = record.layout.header.info & INIT_PAGE != 0;
    (0..count)
        .map(|place| match is_init {
            true => Some(place + 1),
            false => record.main_u16(MULTI_OFFSETS_AT + 2 * usize::from(place)),
        })
        .collect()
}

fn multi_insert(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let flags = record.main_u8(0)?;
    let block = record.block(0)?.number;
    let numbers = multi_insert_numbers(record)?;
    pages.clear_visibility(0, flags & ALL_VISIBLE_CLEARED != 0);
    let page = pages.page(0)?;
    prepare(record, page, numbers.first().copied().unwrap_or_default());
    let mut rest = record.data(0);
    let data = rest;
    for number in numbers {
        let at = (data.len() - rest.len()).next_multiple_of(2);
        rest = data.get(at..)?;
        let len = usize::from(read_u16(rest, 0)?);
        let (tuple, behind) = rest.get(2..)?.split_at_checked(RECORD_HEADER_LEN + len)?;
        let tuple = Tuple::of_record(tuple)?;
        page.add_overwriting(&tuple.inserted(record.xid(), (block, number)), number)?;
        rest = behind;
    }
    if flags & ALL_VISIBLE_CLEARED != 0 {
        page.change_flags(0, ALL_VISIBLE);
    }
    if flags & ALL_FROZEN_SET != 0 {
        page.change_flags(ALL_VISIBLE, 0);
    }
    Some(())
}

fn delete(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (xmax, number) = (record.main_u32(0)?, record.main_u16(4)?);
    let (infobits, flags) = (record.main_u8(6)?, record.main_u8(7)?);
    let block = record.block(0)?.number;
    pages.clear_visibility(0, flags & ALL_VISIBLE_CLEARED != 0);
    let page = pages.page(0)?;
    let tuple = page.item_mut(number)?;
    tuple::clear_xmax(tuple)?;
    tuple::set_hot_updated(tuple, false)?;
    tuple::set_infobits(tuple, infobits)?;
    match flags & IS_SUPER {
        0 => tuple::set_xmax(tuple, xmax)?,
        _ => tuple::set_xmin(tuple, 0)?,
    }
    tuple::set_cid(tuple, 0)?;
    match flags & IS_PARTITION_MOVE {
        0 => tuple::set_ctid(tuple, (block, number))?,
        _ => tuple::set_ctid(tuple, tuple::MOVED_PARTITIONS)?,
    }
    page.set_prunable(record.xid());
    if flags & ALL_VISIBLE_CLEARED != 0 {
        page.change_flags(0, ALL_VISIBLE);
    }
    Some(())
}

/// An update's main data (`xl_heap_update`).
struct Update {
    old_xmax: u32,
    old_number: u16,
    old_infobits: u8,
    flags: u8,
    new_xmax: u32,
    new_number: u16,
}

impl Update {
    fn of(record: &Record<'_>) -> Option<Update> {
        Some(Update {
            old_xmax: record.main_u32(0)?,
            old_number: record.main_u16(4)?,
            old_infobits: record.main_u8(6)?,
            flags: record.main_u8(7)?,
            new_xmax: record.main_u32(8)?,
            new_number: record.main_u16(12)?,
        })
    }
}

fn update(record: &Record<'_>, pages: &mut BlockPages<'_>, is_hot: bool) -> Option<()> {
    let update = Update::of(record)?;
    let new_block = record.block(0)?.number;
    // One reference where both versions are on one page.
    let old_id = u8::from(record.block(1).is_some());
    let mut old = None;
    pages.clear_visibility(old_id, update.flags & ALL_VISIBLE_CLEARED != 0);
    pages.clear_visibility(0, update.flags & NEW_ALL_VISIBLE_CLEARED != 0);
    if let Some(page) = pages.page(old_id) {
        old = page.item(update.old_number).map(<[u8]>::to_vec);
        let done = update.change_old(page, (new_block, update.new_number), is_hot);
        page.set_prunable(record.xid());
        if old_id == 1 && done.is_none() {
            old = None;
        }
    }
    let page = pages.page(0)?;
    if old_id == 1 {
        prepare(record, page, update.new_number);
    } else if update.new_number == page.items() + 1 {
        page.change_flags(0, HAS_FREE_LINES);
    }
    let tuple = update.new_tuple(record.data(0), old.as_deref())?;
    let mut tuple = tuple.inserted(record.xid(), (new_block, update.new_number));
    tuple::set_xmax(&mut tuple, update.new_xmax)?;
    page.add_overwriting(&tuple, update.new_number)?;
    if update.flags & NEW_ALL_VISIBLE_CLEARED != 0 {
        page.change_flags(0, ALL_VISIBLE);
    }
    Some(())
}

impl Update {
    fn change_old(&self, page: &mut PageBytes, new: (u32, u16), is_hot: bool) -> Option<()> {
        if self.flags & ALL_VISIBLE_CLEARED != 0 {
            page.change_flags(0, ALL_VISIBLE);
        }
        let tuple = page.item_mut(self.old_number)?;
        tuple::clear_xmax(tuple)?;
        tuple::set_hot_updated(tuple, is_hot)?;
        tuple::set_infobits(tuple, self.old_infobits)?;
        tuple::set_xmax(tuple, self.old_xmax)?;
        tuple::set_cid(tuple, 0)?;
        tuple::set_ctid(tuple, new)
    }

    /// The new version, of the record's data and what it has in common with the old one.
    fn new_tuple<'a>(&self, data: &'a [u8], old: Option<&[u8]>) -> Option<Tuple<'a>> {
        let mut rest = data;
        let mut take_len = |flag: u8| {
            if self.flags & flag == 0 {
                return Some(0);
            }
            let (len, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(usize::from(u16::from_le_bytes(*len)))
        };
        let prefix = take_len(PREFIX_FROM_OLD)?;
        let suffix = take_len(SUFFIX_FROM_OLD)?;
        let tuple = Tuple::of_record(rest)?;
        if (prefix, suffix) == (0, 0) {
            return Some(tuple);
        }
        let old = old?;
        let old_start = usize::from(*old.get(tuple::HOFF_AT)?);
        let own_header = usize::from(tuple.hoff).checked_sub(HEADER_LEN)?;
        let (bitmap, changed) = tuple.body.split_at_checked(own_header)?;
        let mut body = bitmap.to_vec();
        body.extend_from_slice(old.get(old_start..old_start + prefix)?);
        body.extend_from_slice(changed);
        body.extend_from_slice(old.get(old.len().checked_sub(suffix)?..)?);
        Some(Tuple {
            body: body.into(),
            ..tuple
        })
    }
}

fn lock(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (xmax, number) = (record.main_u32(0)?, record.main_u16(4)?);
    let infobits = record.main_u8(6)?;
    let block = record.block(0)?.number;
    let tuple = pages.page(0)?.item_mut(number)?;
    tuple::clear_xmax(tuple)?;
    tuple::set_infobits(tuple, infobits)?;
    let is_lock_updated = record.layout.header.rmid == HEAP2;
    if !is_lock_updated && tuple::is_locked_only(tuple)? {
        tuple::set_hot_updated(tuple, false)?;
        tuple::set_ctid(tuple, (block, number))?;
    }
    tuple::set_xmax(tuple, xmax)
}

fn confirm(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let number = record.main_u16(0)?;
    let block = record.block(0)?.number;
    tuple::set_ctid(pages.page(0)?.item_mut(number)?, (block, number))
}

fn inplace(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let number = record.main_u16(0)?;
    let tuple = pages.page(0)?.item_mut(number)?;
    let start = usize::from(*tuple.get(tuple::HOFF_AT)?);
    let body = tuple.get_mut(start..)?;
    let data = record.data(0);
    body.get_mut(..data.len())?.copy_from_slice(data);
    Some(())
}

/// `xl_heap_visible`: the first block is the visibility map's, the second one the table's.
fn visible(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let flags = record.main_u8(4)?;
    let block = record.block(1)?.number;
    if let Some(page) = pages.page(1) {
        page.change_flags(ALL_VISIBLE, 0);
    }
    let map = pages.page(0)?;
    if map.upper() == 0 {
        map.init(0);
    }
    let (at, shift) = crate::visibility::place(block);
    let byte = map.get_mut(at)?;
    *byte |= (flags & crate::visibility::VALID_BITS) << shift;
    Some(())
}

/// What a record with an image of the page leaves out: the data of the tuple with a number.
pub fn omitted_tuple(image: &PageBytes, number: u16, out: &mut Vec<u8>) -> Option<()> {
    if image.line_pointer(number)?.state != State::Normal {
        return None;
    }
    let tuple = image.item(number)?;
    out.extend_from_slice(tuple.get(tuple::INFOMASK2_AT..HEADER_LEN)?);
    out.extend_from_slice(tuple.get(HEADER_LEN..)?);
    Some(())
}

/// The values of the tuple with a number: the bytes from `t_hoff` on.
pub fn row_values(page: &PageBytes, number: u16) -> Option<&[u8]> {
    if page.line_pointer(number)?.state != State::Normal {
        return None;
    }
    let tuple = page.item(number)?;
    tuple.get(usize::from(*tuple.get(tuple::HOFF_AT)?)..)
}

/// The values of the row that an index points to by a line pointer, which may lead to another one.
pub fn indexed_values(page: &PageBytes, number: u16) -> Option<&[u8]> {
    let line = page.line_pointer(number)?;
    match line.state {
        State::Redirect => row_values(page, line.offset),
        _ => row_values(page, number),
    }
}

/// The number of the line pointer that the next tuple gets (`PageAddItem` of heaps).
pub fn free_line_pointer(page: &PageBytes) -> u16 {
    let next = page.items() + 1;
    if page.flags() & HAS_FREE_LINES == 0 {
        return next;
    }
    let is_free = |number: &u16| page.line_pointer(*number) == Some(LinePointer::UNUSED);
    (1..next).find(is_free).unwrap_or(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::PAGE_SIZE;

    /// A page with these line pointers: offset, state, length. A tuple is at 8000.
    fn page(lines: &[(u32, u32, u32)], hoff: u8) -> PageBytes {
        let mut page = [0; PAGE_SIZE];
        page[12..14].copy_from_slice(&(24 + 4 * lines.len() as u16).to_le_bytes());
        for (number, (offset, state, len)) in lines.iter().enumerate() {
            let line = offset | state << 15 | len << 17;
            page[24 + 4 * number..][..4].copy_from_slice(&line.to_le_bytes());
        }
        page[8000 + 22] = hoff;
        page[8024..8032].copy_from_slice(b"walzip!!");
        page
    }

    #[test]
    fn an_index_leads_to_a_tuple_or_past_one_redirection() {
        let lines = [(8000, 1, 32), (1, 2, 0), (2, 2, 0), (4, 2, 0), (0, 2, 0)];
        let page = page(&lines, 24);
        for number in [1, 2] {
            assert_eq!(indexed_values(&page, number), Some(&b"walzip!!"[..]));
        }
        for number in [0, 3, 4, 5, 6, u16::MAX] {
            assert_eq!(indexed_values(&page, number), None, "{number}");
        }
    }

    #[test]
    fn what_is_no_tuple_has_no_values() {
        for (line, hoff, expected) in [
            ((8000, 1, 32), 32, Some(&[][..])),
            ((8000, 1, 32), 33, None),
            ((8000, 1, 22), 0, None),
            ((8000, 1, 0), 0, None),
            ((8190, 1, 32), 24, None),
            ((8000, 0, 32), 24, None),
            ((8000, 3, 32), 24, None),
        ] {
            assert_eq!(
                indexed_values(&page(&[line], hoff), 1),
                expected,
                "{line:?}"
            );
        }
    }
}
