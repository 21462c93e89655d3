//! A page: its header, its line pointers, and the items that they stand for.
//!
//! The layout is that of storage/bufpage.h and storage/itemid.h, and what is done to it is what
//! storage/page/bufpage.c does. Every function is total: what a page cannot have is `None`, and the
//! page may then be half changed.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::bytes::{read_u16, read_u32, read_u64};
use walzip_pgformat::prefetch::prefetch;

use crate::rules::Rules;

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_SIZE];

/// Bytes of the page header (`SizeOfPageHeaderData`).
pub const HEADER_LEN: usize = 24;
pub const LINE_POINTER_LEN: usize = 4;
/// Bytes that a processor fetches at a time.
const CACHE_LINE_LEN: usize = 64;
/// So many items of an index page are removed one by one (`PageIndexMultiDelete`).
const REMOVED_ONE_BY_ONE: usize = 2;
/// Version 4 of the layout, and the size of a page (`pd_pagesize_version`).
const SIZE_VERSION: u16 = PAGE_SIZE as u16 | 4;

/// Flag: there may be unused line pointers (`PD_HAS_FREE_LINES`).
pub const HAS_FREE_LINES: u16 = 1;
/// Flag: an update did not find room (`PD_PAGE_FULL`).
pub const PAGE_FULL: u16 = 2;
/// Flag: all tuples are visible to everyone (`PD_ALL_VISIBLE`).
pub const ALL_VISIBLE: u16 = 4;

/// The state of a line pointer (`lp_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `LP_UNUSED`
    Unused = 0,
    /// `LP_NORMAL`
    Normal = 1,
    /// `LP_REDIRECT`
    Redirect = 2,
    /// `LP_DEAD`
    Dead = 3,
}

/// A line pointer (`ItemIdData`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePointer {
    /// Where the item stands, or the number that it redirects to.
    pub offset: u16,
    /// What it is.
    pub state: State,
    /// Bytes of the item.
    pub len: u16,
}

impl LinePointer {
    /// Stands for nothing.
    pub const UNUSED: LinePointer = LinePointer {
        offset: 0,
        state: State::Unused,
        len: 0,
    };
    /// Stands for what is gone.
    pub const DEAD: LinePointer = LinePointer {
        offset: 0,
        state: State::Dead,
        len: 0,
    };

    /// Redirects to another number.
    pub fn redirect(to: u16) -> LinePointer {
        LinePointer {
            offset: to,
            state: State::Redirect,
            len: 0,
        }
    }

    fn of(word: u32) -> LinePointer {
        LinePointer {
            offset: (word & 0x7FFF) as u16,
            state: match (word >> 15) & 3 {
                0 => State::Unused,
                1 => State::Normal,
                2 => State::Redirect,
                _ => State::Dead,
            },
            len: (word >> 17) as u16,
        }
    }

    fn word(self) -> u32 {
        let len = u32::from(self.len) << 17;
        u32::from(self.offset & 0x7FFF) | (self.state as u32) << 15 | len
    }

    /// It has an item on the page.
    pub fn has_storage(self) -> bool {
        self.len != 0
    }
}

/// Rounds up to a multiple of 8 (`MAXALIGN`).
pub const fn max_align(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// Reads and changes the bytes of a page.
pub trait Page {
    /// The bytes.
    fn bytes(&self) -> &PageBytes;
    /// The bytes, to change.
    fn bytes_mut(&mut self) -> &mut PageBytes;

    /// A number of two bytes at `at`, 0 behind the end.
    fn u16_at(&self, at: usize) -> u16 {
        read_u16(self.bytes(), at).unwrap_or_default()
    }

    /// A number of four bytes at `at`, 0 behind the end.
    fn u32_at(&self, at: usize) -> u32 {
        read_u32(self.bytes(), at).unwrap_or_default()
    }

    /// Puts bytes at `at`; what would stand behind the end is left out.
    fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let place = self.bytes_mut().get_mut(at..at.checked_add(bytes.len())?)?;
        place.copy_from_slice(bytes);
        Some(())
    }

    /// `pd_lsn`: the end of the last record that changed the page.
    fn lsn(&self) -> u64 {
        let halves = read_u64(self.bytes(), 0).unwrap_or_default();
        halves.rotate_left(32)
    }

    /// Sets `pd_lsn`.
    fn set_lsn(&mut self, lsn: u64) {
        self.put(0, &lsn.rotate_left(32).to_le_bytes());
    }

    /// `pd_flags`
    fn flags(&self) -> u16 {
        self.u16_at(10)
    }

    /// Sets flags and clears others.
    fn change_flags(&mut self, set: u16, clear: u16) {
        let flags = (self.flags() & !clear) | set;
        self.put(10, &flags.to_le_bytes());
    }

    /// `pd_lower`: the end of the line pointers.
    fn lower(&self) -> usize {
        self.u16_at(12).into()
    }

    /// `pd_upper`: the beginning of the items.
    fn upper(&self) -> usize {
        self.u16_at(14).into()
    }

    /// `pd_special`: the beginning of the special space.
    fn special(&self) -> usize {
        self.u16_at(16).into()
    }

    /// `pd_prune_xid`: the oldest transaction that left something to prune, or 0.
    fn prune_xid(&self) -> u32 {
        self.u32_at(20)
    }

    /// Sets the bounds of the free space.
    fn set_bounds(&mut self, lower: usize, upper: usize) {
        self.put(12, &(lower as u16).to_le_bytes());
        self.put(14, &(upper as u16).to_le_bytes());
    }

    /// `PageSetPrunable`
    fn set_prunable(&mut self, xid: u32) {
        let before = self.prune_xid();
        if before == 0 || precedes(xid, before) {
            self.set_prune_xid(xid);
        }
    }

    /// Sets `pd_prune_xid`.
    fn set_prune_xid(&mut self, xid: u32) {
        self.put(20, &xid.to_le_bytes());
    }

    /// `PageInit`
    fn init(&mut self, special_len: usize) {
        self.bytes_mut().fill(0);
        let special = PAGE_SIZE - max_align(special_len).min(PAGE_SIZE - HEADER_LEN);
        self.set_bounds(HEADER_LEN, special);
        self.put(16, &(special as u16).to_le_bytes());
        self.put(18, &SIZE_VERSION.to_le_bytes());
    }

    /// The header is one that a page can have.
    fn is_sane(&self) -> bool {
        let (lower, upper, special) = (self.lower(), self.upper(), self.special());
        HEADER_LEN <= lower && lower <= upper && upper <= special && special <= PAGE_SIZE
    }

    /// The hole that an image of the page leaves out: its beginning and length, 0 if there is none
    /// (`XLogRecordAssemble`).
    fn hole(&self) -> (usize, usize) {
        let (lower, upper) = (self.lower(), self.upper());
        match lower >= HEADER_LEN && upper > lower && upper <= PAGE_SIZE {
            true => (lower, upper - lower),
            false => (0, 0),
        }
    }

    /// The number of the last line pointer (`PageGetMaxOffsetNumber`).
    fn items(&self) -> u16 {
        let len = self.lower().min(PAGE_SIZE).saturating_sub(HEADER_LEN);
        (len / LINE_POINTER_LEN) as u16
    }

    /// The line pointer with a number, from 1 on.
    fn line_pointer(&self, number: u16) -> Option<LinePointer> {
        let is_there = 1 <= number && number <= self.items();
        is_there.then(|| LinePointer::of(self.u32_at(line_pointer_at(number))))
    }

    /// Changes a line pointer that is there.
    fn set_line_pointer(&mut self, number: u16, pointer: LinePointer) -> Option<()> {
        self.line_pointer(number)?;
        self.put(line_pointer_at(number), &pointer.word().to_le_bytes())
    }

    /// The place of the item with a number.
    fn item_range(&self, number: u16) -> Option<std::ops::Range<usize>> {
        let pointer = self.line_pointer(number)?;
        let start = usize::from(pointer.offset);
        let range = start..start + usize::from(pointer.len);
        (pointer.has_storage() && start >= HEADER_LEN && range.end <= PAGE_SIZE).then_some(range)
    }

    /// The item with a number.
    fn item(&self, number: u16) -> Option<&[u8]> {
        self.bytes().get(self.item_range(number)?)
    }

    /// Begins to fetch the line pointers, which takes time where the page was not used lately.
    fn prefetch_line_pointers(&self) {
        let pointers = self.bytes().get(HEADER_LEN..self.lower());
        for line in pointers.unwrap_or_default().chunks(CACHE_LINE_LEN) {
            line.first().inspect(|byte| prefetch(*byte));
        }
    }

    /// Begins to fetch the item with a number.
    fn prefetch_item(&self, number: u16) {
        let offset = self.line_pointer(number).map(|pointer| pointer.offset);
        if let Some(byte) = offset.and_then(|at| self.bytes().get(usize::from(at))) {
            prefetch(byte);
        }
    }

    /// The item with a number, to change.
    fn item_mut(&mut self, number: u16) -> Option<&mut [u8]> {
        let range = self.item_range(number)?;
        self.bytes_mut().get_mut(range)
    }

    /// Adds an item under a number: in place of an unused line pointer, or behind the last one
    /// (`PageAddItem` with `overwrite`).
    fn add_overwriting(&mut self, item: &[u8], number: u16) -> Option<()> {
        let next = self.items() + 1;
        if number == 0 || number > next || !self.is_sane() {
            return None;
        }
        if number < next && self.line_pointer(number)? != LinePointer::UNUSED {
            return None;
        }
        let lower = self.lower() + if number == next { LINE_POINTER_LEN } else { 0 };
        self.add(item, number, lower)
    }

    /// Adds an item before the one with a number, whose numbers grow by one (`PageAddItem`).
    fn add_shifting(&mut self, item: &[u8], number: u16) -> Option<()> {
        let next = self.items() + 1;
        if number == 0 || number > next || !self.is_sane() {
            return None;
        }
        let lower = self.lower() + LINE_POINTER_LEN;
        if lower > self.upper() {
            return None;
        }
        let at = line_pointer_at(number);
        let end = self.lower();
        self.bytes_mut().copy_within(at..end, at + LINE_POINTER_LEN);
        self.add(item, number, lower)
    }

    /// Puts an item below the others, and its line pointer in its place.
    fn add(&mut self, item: &[u8], number: u16, lower: usize) -> Option<()> {
        let upper = self.upper().checked_sub(max_align(item.len()))?;
        if lower > upper {
            return None;
        }
        self.set_bounds(lower, upper);
        self.put(upper, item)?;
        let pointer = LinePointer {
            offset: upper as u16,
            state: State::Normal,
            len: item.len() as u16,
        };
        self.set_line_pointer(number, pointer)
    }

    /// Moves the items together at the end of the page, in the order in which they stand, or, if
    /// their offsets are not in the order of their numbers, `by_number` (`compactify_tuples`).
    fn compact(&mut self, by_number: bool) -> Option<()> {
        if !self.is_sane() {
            return None;
        }
        let mut stored = Vec::with_capacity(self.items().into());
        for number in 1..=self.items() {
            if self.line_pointer(number)?.has_storage() {
                let range = self.item_range(number)?;
                stored.push((range.start as u32) << 16 | u32::from(number));
            }
        }
        if !stored.is_sorted_by(|one, next| one > next) {
            if by_number {
                return self.compact_in_turn(&stored);
            }
            stored.sort_unstable_by_key(|&item| std::cmp::Reverse(item));
        }
        let (lower, mut upper) = (self.lower(), self.special());
        // Neighbours move together, which leaves what moving them one by one leaves.
        let mut moved = Moved::default();
        for item in stored {
            let (start, number) = ((item >> 16) as usize, item as u16);
            let pointer = self.line_pointer(number)?;
            let len = max_align(pointer.len.into());
            let below = upper.checked_sub(len).filter(|&below| below >= lower);
            let Some(below) = below.filter(|_| start + len <= PAGE_SIZE) else {
                moved.apply(self.bytes_mut());
                return None;
            };
            upper = below;
            if !moved.take(start, len, upper) {
                moved.apply(self.bytes_mut());
                moved = Moved { start, len, upper };
            }
            if start < lower {
                std::mem::take(&mut moved).apply(self.bytes_mut());
            }
            let offset = upper as u16;
            self.set_line_pointer(number, LinePointer { offset, ..pointer })?;
        }
        moved.apply(self.bytes_mut());
        self.set_bounds(lower, upper);
        Some(())
    }

    /// Moves items together at the end of the page, each below the one before it. Each is its
    /// offset and its number.
    fn compact_in_turn(&mut self, stored: &[u32]) -> Option<()> {
        let before = *self.bytes();
        let (lower, mut upper) = (self.lower(), self.special());
        for item in stored {
            let (start, number) = ((item >> 16) as usize, *item as u16);
            let pointer = self.line_pointer(number)?;
            let len = max_align(pointer.len.into());
            upper = upper.checked_sub(len).filter(|&below| below >= lower)?;
            self.put(upper, before.get(start..start + len)?)?;
            let offset = upper as u16;
            self.set_line_pointer(number, LinePointer { offset, ..pointer })?;
        }
        self.set_bounds(lower, upper);
        Some(())
    }

    /// Removes the items with these ascending numbers, and their line pointers
    /// (`PageIndexMultiDelete`).
    fn remove(&mut self, numbers: &[u16], rules: Rules) -> Option<()> {
        if !self.is_sane() {
            return None;
        }
        let mut left = numbers.iter().copied().peekable();
        let mut kept = 0;
        for number in 1..=self.items() {
            if left.next_if_eq(&number).is_some() {
                continue;
            }
            kept += 1;
            let pointer = self.line_pointer(number)?;
            self.set_line_pointer(kept, pointer)?;
        }
        let lower = HEADER_LEN + usize::from(kept) * LINE_POINTER_LEN;
        self.set_bounds(lower, self.upper());
        let is_few = rules.removes_few_one_by_one() && numbers.len() <= REMOVED_ONE_BY_ONE;
        self.compact(rules.compacts_by_number() && !is_few)?;
        left.peek().is_none().then_some(())
    }

    /// Puts another item in place of one, whatever its length (`PageIndexTupleOverwrite`).
    fn overwrite(&mut self, number: u16, item: &[u8]) -> Option<()> {
        let range = self.item_range(number)?;
        let old_len = max_align(range.len());
        let new_len = max_align(item.len());
        let upper = self.upper();
        if !self.is_sane() || range.start < upper || range.start + old_len > self.special() {
            return None;
        }
        let moved_upper = (upper + old_len).checked_sub(new_len)?;
        if moved_upper < self.lower() {
            return None;
        }
        if old_len != new_len {
            self.bytes_mut()
                .copy_within(upper..range.start, moved_upper);
            for other in 1..=self.items() {
                let pointer = self.line_pointer(other)?;
                if pointer.has_storage() && usize::from(pointer.offset) <= range.start {
                    let moved = usize::from(pointer.offset) + old_len;
                    let offset = moved.checked_sub(new_len)? as u16;
                    self.set_line_pointer(other, LinePointer { offset, ..pointer })?;
                }
            }
            self.set_bounds(self.lower(), moved_upper);
        }
        let offset = (range.start + old_len - new_len) as u16;
        let pointer = self.line_pointer(number)?;
        let len = item.len() as u16;
        self.set_line_pointer(
            number,
            LinePointer {
                offset,
                len,
                ..pointer
            },
        )?;
        self.put(offset.into(), item)
    }

    /// Deletes an item and its line pointer (`PageIndexTupleDelete`).
    fn delete_item(&mut self, number: u16) -> Option<()> {
        let range = self.item_range(number)?;
        let (len, upper) = (max_align(range.len()), self.upper());
        if !self.is_sane() || range.start < upper || range.start + len > self.special() {
            return None;
        }
        let (at, end) = (line_pointer_at(number), self.lower());
        self.bytes_mut().copy_within(at + LINE_POINTER_LEN..end, at);
        self.bytes_mut()
            .copy_within(upper..range.start, upper + len);
        self.set_bounds(end - LINE_POINTER_LEN, upper + len);
        for other in 1..=self.items() {
            let pointer = self.line_pointer(other)?;
            if pointer.has_storage() && usize::from(pointer.offset) <= range.start {
                let offset = pointer.offset.checked_add(len as u16)?;
                self.set_line_pointer(other, LinePointer { offset, ..pointer })?;
            }
        }
        Some(())
    }

    /// Forgets unused line pointers at the end.
    fn truncate_line_pointers(&mut self) -> Option<()> {
        let mut last = self.items();
        while last > 0 && self.line_pointer(last)?.state == State::Unused {
            last -= 1;
        }
        let lower = HEADER_LEN + usize::from(last) * LINE_POINTER_LEN;
        self.set_bounds(lower, self.upper());
        Some(())
    }

    /// Some line pointer is unused.
    fn has_unused(&self) -> bool {
        (1..=self.items()).any(|number| self.line_pointer(number) == Some(LinePointer::UNUSED))
    }
}

/// Bytes of items that move towards the end of a page.
#[derive(Default)]
struct Moved {
    start: usize,
    len: usize,
    upper: usize,
}

impl Moved {
    /// Takes the item before, unless it does not end where these begin. Items that move the other
    /// way, on a page that is none, move one by one.
    fn take(&mut self, start: usize, len: usize, upper: usize) -> bool {
        let is_neighbour = start + len == self.start && upper + len == self.upper && upper >= start;
        if is_neighbour {
            *self = Moved {
                start,
                len: self.len + len,
                upper,
            };
        }
        is_neighbour
    }

    fn apply(&self, bytes: &mut PageBytes) {
        bytes.copy_within(self.start..self.start + self.len, self.upper);
    }
}

impl Page for PageBytes {
    fn bytes(&self) -> &PageBytes {
        self
    }

    fn bytes_mut(&mut self) -> &mut PageBytes {
        self
    }
}

/// Where the line pointer with a number stands.
fn line_pointer_at(number: u16) -> usize {
    HEADER_LEN + (usize::from(number) - 1) * LINE_POINTER_LEN
}

/// Whether a transaction is older than another, both normal ones (`TransactionIdPrecedes`).
pub fn precedes(xid: u32, other: u32) -> bool {
    (xid.wrapping_sub(other) as i32) < 0
}
