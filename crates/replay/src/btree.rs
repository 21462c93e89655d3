//! What records of the resource manager Btree do to pages of B-trees
//! (access/nbtree/nbtxlog.c, access/nbtxlog.h, access/nbtree.h).

use walzip_pgformat::bytes::read_u16;
use walzip_pgformat::opcode::btree;
use walzip_pgformat::rmgr_id::BTREE;
use walzip_pgformat::wal::RecordLayout;

use crate::btree_deletion;
use crate::btree_page::{LEAF, NO_BLOCK, Opaque, SPECIAL_LEN, first_data, is_rightmost};
use crate::index_tuple::{self, PostingList};
use crate::page::{Page, PageBytes};
use crate::pages::BlockPages;
use crate::record::Record;

const OPCODE: u8 = 0xF0;

/// Flags of a page (`BTP_*`).
const ROOT: u16 = 1 << 1;
const HAS_GARBAGE: u16 = 1 << 6;
const INCOMPLETE_SPLIT: u16 = 1 << 7;
const SPLIT_END: u16 = 1 << 5;

/// The number of the high key (`P_HIKEY`).
const HIGH_KEY: u16 = 1;

/// Replays a record of Btree.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        btree::INSERT_LEAF => insert(record, pages, false),
        btree::INSERT_POST => insert(record, pages, true),
        btree::INSERT_UPPER | btree::INSERT_META => {
            if let Some(child) = pages.page(1) {
                Opaque::change_flags(child, 0, INCOMPLETE_SPLIT)?;
            }
            insert(record, pages, false)
        }
        btree::SPLIT_L => split(record, pages, true),
        btree::SPLIT_R => split(record, pages, false),
        btree::DEDUP => dedup(record.data(0), pages.page(0)?),
        btree::DELETE => {
            let counts = deletion_counts(record)?;
            delete(record, counts, pages.page(0)?)
        }
        btree::VACUUM => {
            let counts = deletion_counts(record)?;
            let page = pages.page(0)?;
            delete(record, counts, page)?;
            Opaque::put(page, 14, &[0; 2])
        }
        btree::NEWROOT => new_root(record, pages),
        opcode @ (btree::MARK_PAGE_HALFDEAD | btree::UNLINK_PAGE | btree::UNLINK_PAGE_META) => {
            btree_deletion::redo(record, pages, opcode)
        }
        _ => None,
    }
}

fn insert(record: &Record<'_>, pages: &mut BlockPages<'_>, is_posting: bool) -> Option<()> {
    let number = record.main_u16(0)?;
    let data = record.data(0);
    let page = pages.page(0)?;
    if !is_posting {
        return page.add_shifting(data, number);
    }
    let (place, tuple) = (read_u16(data, 0)?, data.get(2..)?);
    let mut tuple = tuple.to_vec();
    let before = number.checked_sub(1)?;
    let posting = index_tuple::swap_posting(page.item(before)?, &mut tuple, place)?;
    page.item_mut(before)?.copy_from_slice(&posting);
    page.add_shifting(&tuple, number)
}

/// `xl_btree_split`
pub struct Split {
    level: u32,
    first_right: u16,
    new_number: u16,
    posting_place: u16,
    is_left: bool,
}

impl Split {
    fn of(record: &Record<'_>, is_left: bool) -> Option<Split> {
        Some(Split {
            level: record.main_u32(0)?,
            first_right: record.main_u16(4)?,
            new_number: record.main_u16(6)?,
            posting_place: record.main_u16(8)?,
            is_left,
        })
    }

    /// The data of the left page begins with the new tuple.
    fn has_new_tuple(&self) -> bool {
        self.is_left || self.posting_place != 0
    }
}

fn split(record: &Record<'_>, pages: &mut BlockPages<'_>, is_left: bool) -> Option<()> {
    let split = Split::of(record, is_left)?;
    let left = record.block(0)?.number;
    let right = record.block(1)?.number;
    let next = record.block(2).map_or(NO_BLOCK, |block| block.number);
    if let Some(child) = pages.page(3) {
        Opaque::change_flags(child, 0, INCOMPLETE_SPLIT)?;
    }
    if let Some(page) = pages.page(2) {
        Opaque::put(page, 0, &right.to_le_bytes())?;
    }
    let flags = if split.level == 0 { LEAF } else { 0 };
    let done = pages.page(0).map(|page| {
        split.redo_left(page, record.data(0))?;
        Opaque::put(page, 4, &right.to_le_bytes())?;
        let clear = ROOT | SPLIT_END | HAS_GARBAGE;
        Opaque::change_flags(page, INCOMPLETE_SPLIT | flags, clear)?;
        Opaque::put(page, 14, &[0; 2])
    });
    let page = pages.page(1)?;
    page.init(SPECIAL_LEN);
    let mut special = Vec::with_capacity(SPECIAL_LEN);
    for number in [left, next, split.level] {
        special.extend_from_slice(&number.to_le_bytes());
    }
    special.extend_from_slice(&flags.to_le_bytes());
    Opaque::put(page, 0, &special)?;
    restore_items(page, record.data(1))?;
    done.unwrap_or(Some(()))
}

impl Split {
    /// Makes the left page of what was there and what the record brings.
    fn redo_left(&self, page: &mut PageBytes, data: &[u8]) -> Option<()> {
        let (new_tuple, high_key) = match self.has_new_tuple() {
            true => index_tuple::take(data)?,
            false => (&[][..], data),
        };
        let (high_key, rest) = index_tuple::take(high_key)?;
        if !rest.is_empty() {
            return None;
        }
        let mut new_tuple = new_tuple.to_vec();
        let mut posting = None;
        if self.posting_place != 0 {
            let number = self.new_number.checked_sub(1)?;
            let old = page.item(number)?;
            let swapped = index_tuple::swap_posting(old, &mut new_tuple, self.posting_place)?;
            posting = Some((number, swapped));
        }
        let mut left = emptied(page)?;
        left.add_shifting(high_key, HIGH_KEY)?;
        for number in first_data(page)?..self.first_right {
            if self.is_left && number == self.new_number {
                append(&mut left, &new_tuple)?;
            }
            match &posting {
                Some((replaced, posting)) if *replaced == number => append(&mut left, posting)?,
                _ => append(&mut left, page.item(number)?)?,
            }
        }
        if self.is_left && self.first_right == self.new_number {
            append(&mut left, &new_tuple)?;
        }
        *page = left;
        Some(())
    }
}

fn append(page: &mut PageBytes, item: &[u8]) -> Option<()> {
    page.add_shifting(item, page.items() + 1)
}

/// The page without its items (`PageGetTempPageCopySpecial`, `PageRestoreTempPage`).
fn emptied(page: &PageBytes) -> Option<PageBytes> {
    let at = Opaque::at(page)?;
    let mut empty = [0; walzip_pgformat::PAGE_SIZE];
    empty.init(page.len() - at);
    empty.put(at, &page[at..])?;
    empty.set_lsn(page.lsn());
    Some(empty)
}

/// `_bt_restore_page`: the items as they stand on the page, that with the highest number first.
fn restore_items(page: &mut PageBytes, data: &[u8]) -> Option<()> {
    let mut items = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let (item, behind) = index_tuple::take(rest)?;
        items.push(item);
        rest = behind;
    }
    for item in items.iter().rev() {
        append(page, item)?;
    }
    Some(())
}

/// `btree_xlog_dedup`: pairs of the first number of an interval and how many items it has.
fn dedup(intervals: &[u8], page: &mut PageBytes) -> Option<()> {
    let (intervals, _) = intervals.as_chunks::<4>();
    let mut intervals = intervals
        .iter()
        .map(|interval| {
            let (first, count) = (read_u16(interval, 0), read_u16(interval, 2));
            Some((first?, count?))
        })
        .peekable();
    let mut done = emptied(page)?;
    let mut number = 1;
    if !is_rightmost(page)? {
        append(&mut done, page.item(HIGH_KEY)?)?;
        number = 2;
    }
    while number <= page.items() {
        let count =
            match intervals.next_if(|next| matches!(next, Some((first, _)) if *first == number)) {
                Some(interval) => interval?.1.max(1),
                None => 1,
            };
        if count == 1 {
            append(&mut done, page.item(number)?)?;
        } else {
            let base = page.item(number)?;
            let mut list = PostingList::of(base)?;
            for other in number + 1..number.checked_add(count)? {
                list.extend(page.item(other)?)?;
            }
            append(&mut done, &list.tuple()?)?;
        }
        number = number.checked_add(count)?;
    }
    Opaque::change_flags(&mut done, 0, HAS_GARBAGE)?;
    *page = done;
    Some(())
}

/// How many items a record deletes, and how many lose entries of their posting lists.
fn deletion_counts(record: &Record<'_>) -> Option<(u16, u16)> {
    match (record.opcode(OPCODE), record.rules.major()) {
        (btree::VACUUM, _) => Some((record.main_u16(0)?, record.main_u16(2)?)),
        (_, 13) => Some((record.main_u16(4)?, 0)),
        _ => Some((record.main_u16(4)?, record.main_u16(6)?)),
    }
}

fn delete(record: &Record<'_>, (deleted, updated): (u16, u16), page: &mut PageBytes) -> Option<()> {
    let (deleted, rest) = record.data(0).split_at_checked(2 * usize::from(deleted))?;
    let (numbers, mut updates) = rest.split_at_checked(2 * usize::from(updated))?;
    let (numbers, _) = numbers.as_chunks::<2>();
    for number in numbers {
        let number = u16::from_le_bytes(*number);
        let count = usize::from(read_u16(updates, 0)?);
        let (places, behind) = updates.get(2..)?.split_at_checked(2 * count)?;
        updates = behind;
        let (places, _) = places.as_chunks::<2>();
        let mut list = PostingList::of(page.item(number)?)?;
        list.remove(places.iter().map(|place| u16::from_le_bytes(*place)))?;
        page.overwrite(number, &list.tuple()?)?;
    }
    let (deleted, _) = deleted.as_chunks::<2>();
    let deleted: Vec<u16> = deleted.iter().map(|at| u16::from_le_bytes(*at)).collect();
    if !deleted.is_empty() {
        page.remove(&deleted, record.rules)?;
    }
    Opaque::change_flags(page, 0, HAS_GARBAGE)
}

fn new_root(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let level = record.main_u32(4)?;
    if let Some(child) = pages.page(1) {
        Opaque::change_flags(child, 0, INCOMPLETE_SPLIT)?;
    }
    let page = pages.page(0)?;
    page.init(SPECIAL_LEN);
    let flags = ROOT | if level == 0 { LEAF } else { 0 };
    Opaque::put(page, 8, &level.to_le_bytes())?;
    Opaque::put(page, 12, &flags.to_le_bytes())?;
    restore_items(page, record.data(0))
}

/// What a record with an image of the page of block 0 leaves out.
pub fn omitted(
    record: &Record<'_>,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    match record.opcode(OPCODE) {
        btree::INSERT_LEAF | btree::INSERT_UPPER | btree::INSERT_META => {
            out.extend_from_slice(image.item(record.main_u16(0)?)?);
            Some(())
        }
        btree::INSERT_POST => {
            let number = record.main_u16(0)?;
            let old = before.item(number.checked_sub(1)?)?;
            let new = image.item(number - 1)?;
            let tuple = image.item(number)?;
            let (place, tuple) = index_tuple::unswap_posting(old, new, tuple)?;
            out.extend_from_slice(&place.to_le_bytes());
            out.extend_from_slice(&tuple);
            Some(())
        }
        btree::SPLIT_L => omitted_by_split(&Split::of(record, true)?, before, image, out),
        btree::SPLIT_R => omitted_by_split(&Split::of(record, false)?, before, image, out),
        btree::DEDUP => omitted_intervals(before, image, out),
        btree::DELETE | btree::VACUUM => {
            omitted_deletion(deletion_counts(record)?, before, image, out)
        }
        _ => None,
    }
}

fn omitted_by_split(
    split: &Split,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    let first = first_data(before)?;
    let shifted = |number: u16| number.checked_add(2)?.checked_sub(first);
    if split.posting_place != 0 {
        let old = before.item(split.new_number.checked_sub(1)?)?;
        let new = image.item(shifted(split.new_number - 1)?)?;
        let tuple = image.item(shifted(split.new_number)?)?;
        let (_, tuple) = index_tuple::unswap_posting(old, new, tuple)?;
        out.extend_from_slice(&tuple);
    } else if split.is_left {
        out.extend_from_slice(image.item(shifted(split.new_number)?)?);
    }
    out.extend_from_slice(image.item(HIGH_KEY)?);
    Some(())
}

fn omitted_intervals(before: &PageBytes, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let first = first_data(before)?;
    let mut number = first;
    for new in first..=image.items() {
        let wanted = index_tuple::tids_of(image.item(new)?)?;
        let start = number;
        let mut found = 0;
        while found < wanted {
            found += index_tuple::tids_of(before.item(number)?)?;
            number += 1;
        }
        if number - start > 1 {
            out.extend_from_slice(&start.to_le_bytes());
            out.extend_from_slice(&(number - start).to_le_bytes());
        }
    }
    Some(())
}

fn omitted_deletion(
    counts: (u16, u16),
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (mut deleted, mut updated, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    let mut new = 1;
    for number in 1..=before.items() {
        let old = before.item(number)?;
        let kept = image.item(new);
        if kept.is_some_and(|kept| kept == old) {
            new += 1;
        } else if let Some(places) = kept.and_then(|kept| index_tuple::removed_tids(old, kept)) {
            updated.extend_from_slice(&number.to_le_bytes());
            updates.extend_from_slice(&(places.len() as u16).to_le_bytes());
            for place in places {
                updates.extend_from_slice(&place.to_le_bytes());
            }
            new += 1;
        } else {
            deleted.extend_from_slice(&number.to_le_bytes());
        }
    }
    if (deleted.len() as u16 / 2, updated.len() as u16 / 2) != counts {
        return None;
    }
    for part in [deleted, updated, updates] {
        out.extend_from_slice(&part);
    }
    Some(())
}

/// Whether a record splits a page of a B-tree.
pub fn is_split(layout: &RecordLayout) -> bool {
    let opcode = layout.header.info & OPCODE;
    layout.header.rmid == BTREE && matches!(opcode, btree::SPLIT_L | btree::SPLIT_R)
}

fn split_of(record: &Record<'_>) -> Option<Split> {
    match record.opcode(OPCODE) {
        btree::SPLIT_L => Split::of(record, true),
        btree::SPLIT_R => Split::of(record, false),
        _ => None,
    }
}

/// What is left of the data of a split's right page: its new tuple, if that is on the right.
pub fn split_rest(record: &Record<'_>, left: &PageBytes) -> Option<Vec<u8>> {
    let split = split_of(record)?;
    if split.has_new_tuple() {
        return Some(Vec::new());
    }
    // The data begin with the item of the highest number.
    let right_items = left.items().checked_sub(split.first_right)? + 1;
    let number = split.new_number.checked_sub(split.first_right)?;
    let behind = right_items.checked_sub(number)?;
    let mut rest = record.data(1);
    for _ in 0..behind {
        rest = index_tuple::take(rest)?.1;
    }
    Some(index_tuple::take(rest)?.0.to_vec())
}

/// The data of a split's right page, of the left page as it was, and what is left of the data.
pub fn split_data(record: &Record<'_>, left: &PageBytes) -> Option<Vec<u8>> {
    let split = split_of(record)?;
    if split.level != 0 {
        return None;
    }
    let mut new_tuple = match split.has_new_tuple() {
        true => index_tuple::take(record.data(0))?.0.to_vec(),
        false => record.data(1).to_vec(),
    };
    let mut posting = None;
    if split.posting_place != 0 {
        let number = split.new_number.checked_sub(1)?;
        let old = left.item(number)?;
        let swapped = index_tuple::swap_posting(old, &mut new_tuple, split.posting_place)?;
        posting = Some((number, swapped));
    }
    let mut items: Vec<&[u8]> = Vec::new();
    if !is_rightmost(left)? {
        items.push(left.item(HIGH_KEY)?);
    }
    for number in split.first_right..=left.items() {
        if !split.is_left && number == split.new_number {
            items.push(&new_tuple);
        }
        match &posting {
            Some((replaced, posting)) if *replaced == number => items.push(posting),
            _ => items.push(left.item(number)?),
        }
    }
    if !split.is_left && split.new_number == left.items() + 1 {
        items.push(&new_tuple);
    }
    Some(items.into_iter().rev().flatten().copied().collect())
}
