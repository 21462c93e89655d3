//! The items of a page and their line pointers (storage/itemid.h).
//!
//! Items tile the page from the hole to the special space, each padded to a multiple of 8. So
//! their offsets follow from their lengths and their order.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::max_align;

use super::item_order::OrderStreams;
use crate::model::index::item_spans::ItemSpans;
use crate::streams::coder::{Coder, LazyStream, StreamId, get_u32};
use crate::streams::kind::StreamKind;

/// `SizeOfPageHeaderData`: offset of the line pointers.
pub const PAGE_HEADER_LEN: usize = 24;
/// `LP_NORMAL`.
const NORMAL: u8 = 1;

/// Flag of a page: all line pointers are `LP_NORMAL` and have an item.
const ALL_NORMAL: u8 = 1;
/// Flag of a page: the padding of an item is not zero.
const PADDING_IS_CODED: u8 = 2;
/// Flag of a line pointer: it has an item.
const HAS_STORAGE: u8 = 4;
/// Flag of a line pointer without an item: its offset is not 0.
const HAS_OFFSET: u8 = 8;

/// `ItemIdData`: offset 15 bits, flags 2 bits, length 15 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LinePointer {
    offset: u16,
    flags: u8,
    len: u16,
}

impl LinePointer {
    fn from_bits(bits: u32) -> LinePointer {
        LinePointer {
            offset: (bits & 0x7FFF) as u16,
            flags: (bits >> 15 & 3) as u8,
            len: (bits >> 17) as u16,
        }
    }

    fn to_bits(self) -> u32 {
        u32::from(self.offset & 0x7FFF)
            | u32::from(self.flags & 3) << 15
            | u32::from(self.len) << 17
    }

    /// Start and end of the item in an image without its hole.
    fn range(self, hole_len: usize) -> (usize, usize) {
        let start = usize::from(self.offset).wrapping_sub(hole_len);
        (start, start.wrapping_add(usize::from(self.len)))
    }

    /// Start and end of the padding after the item.
    fn padding(self, hole_len: usize) -> (usize, usize) {
        let (start, end) = self.range(hole_len);
        (end, start.wrapping_add(max_align(usize::from(self.len))))
    }

    fn state(self) -> u8 {
        let storage = if self.len != 0 { HAS_STORAGE } else { 0 };
        let offset = if self.len == 0 && self.offset != 0 {
            HAS_OFFSET
        } else {
            0
        };
        self.flags | storage | offset
    }
}

/// The streams of the line pointers of one class of pages.
#[derive(Debug, Default)]
pub struct PointerStreams {
    mode: LazyStream,
    state: LazyStream,
    offset: LazyStream,
    order: OrderStreams,
    padding: LazyStream,
}

/// The items of the current page.
#[derive(Debug)]
pub struct Items {
    pointers: Vec<LinePointer>,
    /// Indexes into `pointers` of those that have an item.
    stored: Vec<u16>,
    /// Indexes into `stored`, from the item at the end of the page to the one at its beginning.
    order: Vec<u16>,
    /// The decoder's items until their offsets are known, each at a multiple of 8.
    arena: Box<[u8; PAGE_SIZE]>,
    /// For each item of `stored`, its offset in the arena.
    starts: Vec<u16>,
    arena_len: usize,
    mode: u8,
    spans: ItemSpans,
}

impl Default for Items {
    fn default() -> Self {
        Items {
            pointers: Vec::new(),
            stored: Vec::new(),
            order: Vec::new(),
            arena: Box::new([0; PAGE_SIZE]),
            starts: Vec::new(),
            arena_len: 0,
            mode: 0,
            spans: ItemSpans::default(),
        }
    }
}

impl Items {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Number of line pointers.
    pub fn pointers(&self) -> usize {
        self.pointers.len()
    }

    /// The number of an item's line pointer, counted from 1.
    pub fn number(&self, item: usize) -> u16 {
        self.stored.get(item).map_or(0, |&number| number + 1)
    }

    /// Reads the items of a page. `None` if they do not tile it. Encoder only.
    pub fn read(&mut self, page: &[u8], lower: usize, upper: usize, special: usize) -> Option<()> {
        self.pointers.clear();
        self.stored.clear();
        self.order.clear();
        // Where the item before begins, as long as each lies in front of the one before it.
        let mut front = Some(special);
        for (number, at) in (PAGE_HEADER_LEN..lower).step_by(4).enumerate() {
            let pointer = LinePointer::from_bits(get_u32(page, at));
            self.pointers.push(pointer);
            if pointer.len != 0 {
                self.stored.push(number as u16);
                let begin = usize::from(pointer.offset);
                let end = begin + max_align(usize::from(pointer.len));
                front = front.filter(|&front| front == end).map(|_| begin);
            }
        }
        match front == Some(upper) && upper.is_multiple_of(8) {
            true => self.order.extend(0..self.stored.len() as u16),
            false => self.find_order(upper, special)?,
        }
        self.mode = self.mode_of(page, upper - lower);
        Some(())
    }

    /// Finds in which order items lie on a page. `None` if they do not tile it.
    fn find_order(&mut self, upper: usize, special: usize) -> Option<()> {
        // For each offset in units of 8 bytes, the index in `stored` of the item there, plus 1.
        let mut item_at = [0u16; PAGE_SIZE / 8];
        for (number, item) in (1..).zip(0..self.stored.len()) {
            let offset = usize::from(self.pointer(item)?.offset);
            let slot = item_at.get_mut(offset / 8)?;
            if !offset.is_multiple_of(8) || *slot != 0 {
                return None;
            }
            *slot = number;
        }
        // `item_at` has only offsets at multiples of 8.
        if !upper.is_multiple_of(8) {
            return None;
        }
        let mut at = upper;
        while at < special {
            let item = item_at.get(at / 8)?.checked_sub(1)?;
            at += max_align(usize::from(self.pointer(usize::from(item))?.len));
            self.order.push(item);
        }
        self.order.reverse();
        (at == special && self.order.len() == self.stored.len()).then_some(())
    }

    /// Whether all items of a page are valid. Encoder only.
    pub fn all(&self, page: &[u8], hole_len: usize, is_valid: impl Fn(&[u8]) -> bool) -> bool {
        (0..self.len()).all(|item| {
            let range = self.pointer(item).map(|pointer| pointer.range(hole_len));
            range
                .and_then(|(start, end)| page.get(start..end))
                .is_some_and(&is_valid)
        })
    }

    fn pointer(&self, item: usize) -> Option<LinePointer> {
        self.pointers
            .get(usize::from(*self.stored.get(item)?))
            .copied()
    }

    fn mode_of(&self, page: &[u8], hole_len: usize) -> u8 {
        let mut mode = ALL_NORMAL;
        for pointer in &self.pointers {
            if pointer.state() != NORMAL | HAS_STORAGE {
                mode &= !ALL_NORMAL;
            }
            let (start, end) = pointer.padding(hole_len);
            let padding = page.get(start..end).unwrap_or_default();
            if pointer.len != 0 && padding.iter().any(|&byte| byte != 0) {
                mode |= PADDING_IS_CODED;
            }
        }
        mode
    }

    /// Codes the flags of `count` line pointers: which have items, and the fields of the others.
    pub fn code_pointers<C: Coder>(
        &mut self,
        coder: &mut C,
        streams: &mut PointerStreams,
        count: usize,
    ) {
        let stream = streams.mode.open(coder, StreamKind::LinePointer, 1);
        self.mode = coder.u8(stream, self.mode);
        self.pointers.resize(count, LinePointer::default());
        self.stored.clear();
        for (number, pointer) in self.pointers.iter_mut().enumerate() {
            let mut state = NORMAL | HAS_STORAGE;
            if self.mode & ALL_NORMAL == 0 {
                let stream = streams.state.open(coder, StreamKind::LinePointer, 1);
                state = coder.u8(stream, pointer.state());
            }
            pointer.flags = state & 3;
            if state & HAS_STORAGE != 0 {
                self.stored.push(number as u16);
                continue;
            }
            pointer.len = 0;
            pointer.offset = if state & HAS_OFFSET != 0 {
                let stream = streams.offset.open(coder, StreamKind::LinePointer, 2);
                coder.u16(stream, pointer.offset)
            } else {
                0
            };
        }
        if !C::ENCODING {
            self.arena.fill(0);
            self.arena_len = 0;
            self.starts.clear();
            self.starts.resize(self.stored.len(), 0);
        }
    }

    /// Codes one item with `model`, which returns its length. If `len` is a stream, the length is
    /// coded before, and the model gets a slice of this length. Otherwise a decoding model gets
    /// all the space that is left.
    pub fn code_item<C: Coder>(
        &mut self,
        coder: &mut C,
        page: &mut [u8],
        hole_len: usize,
        item: usize,
        len: Option<StreamId>,
        model: impl FnOnce(&mut C, &mut [u8]) -> usize,
    ) {
        let number = usize::from(self.stored[item]);
        if C::ENCODING {
            let pointer = self.pointers[number];
            if let Some(stream) = len {
                coder.u16(stream, pointer.len);
            }
            let (start, end) = pointer.range(hole_len);
            let bytes = coder.part(page, start, end);
            model(coder, bytes);
            return;
        }
        let start = self.arena_len;
        let end = match len {
            Some(stream) => start + usize::from(coder.u16(stream, 0)),
            None => PAGE_SIZE,
        };
        let bytes = coder.part(&mut self.arena[..], start, end);
        let len = model(coder, bytes);
        if len == 0 || start + len > PAGE_SIZE {
            return coder.fail();
        }
        self.starts[item] = start as u16;
        self.arena_len = max_align(start + len);
        self.pointers[number].len = len as u16;
    }

    /// Codes all items together with `model`, in the order from the item `first` on. The model gets
    /// the bytes that the items are in. Its decoder finds where they are.
    pub fn code_together<C: Coder>(
        &mut self,
        coder: &mut C,
        page: &mut [u8],
        hole_len: usize,
        first: usize,
        model: impl FnOnce(&mut C, &mut [u8], &mut ItemSpans),
    ) {
        let count = self.len();
        let ItemSpans { starts, lens } = &mut self.spans;
        starts.clear();
        lens.clear();
        if C::ENCODING {
            for number in &self.stored {
                let pointer = self.pointers[usize::from(*number)];
                starts.push(pointer.range(hole_len).0);
                lens.push(usize::from(pointer.len));
            }
            starts.rotate_left(first);
            lens.rotate_left(first);
            return model(coder, page, &mut self.spans);
        }
        starts.resize(count, 0);
        lens.resize(count, 0);
        model(coder, &mut self.arena[..], &mut self.spans);
        if coder.failed() {
            return;
        }
        let items = (first..count).chain(0..first);
        let found = self.spans.starts.iter().zip(&self.spans.lens);
        for (item, (start, len)) in items.zip(found) {
            self.starts[item] = *start as u16;
            self.pointers[usize::from(self.stored[item])].len = *len as u16;
        }
    }

    /// Codes the order of the items. The decoder then writes them and the line pointers to the
    /// page. `special_at` is the offset of the special space in the image.
    pub fn code_places<C: Coder>(
        &mut self,
        coder: &mut C,
        streams: &mut PointerStreams,
        page: &mut [u8],
        hole_len: usize,
        special_at: usize,
    ) {
        self.order.resize(self.stored.len(), 0);
        streams.order.code(coder, &mut self.order);
        if !C::ENCODING && (coder.failed() || !self.place(page, hole_len, special_at)) {
            return coder.fail();
        }
        if self.mode & PADDING_IS_CODED != 0 {
            let stream = streams.padding.open(coder, StreamKind::ItemPadding, 1);
            for &number in &self.stored {
                let (start, end) = self.pointers[usize::from(number)].padding(hole_len);
                let padding = coder.part(page, start, end);
                coder.bytes(stream, padding);
            }
        }
    }

    /// Writes the items and the line pointers. Returns `false` if the items do not fill the space
    /// between the line pointers and the special space.
    fn place(&mut self, page: &mut [u8], hole_len: usize, special_at: usize) -> bool {
        let mut end = special_at;
        for &item in &self.order {
            let number = usize::from(self.stored[usize::from(item)]);
            let pointer = &mut self.pointers[number];
            let len = usize::from(pointer.len);
            let Some(at) = end.checked_sub(max_align(len)) else {
                return false;
            };
            pointer.offset = (at + hole_len) as u16;
            let start = usize::from(self.starts[usize::from(item)]);
            page[at..at + len].copy_from_slice(&self.arena[start..start + len]);
            end = at;
        }
        let pointers_end = PAGE_HEADER_LEN + 4 * self.pointers.len();
        if end != pointers_end {
            return false;
        }
        let chunks = page[PAGE_HEADER_LEN..pointers_end].as_chunks_mut().0;
        for (pointer, bytes) in self.pointers.iter().zip(chunks) {
            *bytes = pointer.to_bits().to_le_bytes();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_is_not_at_a_multiple_of_8_does_not_tile_the_page() {
        let mut page = vec![0; PAGE_SIZE];
        let pointer = LinePointer {
            offset: 8096,
            flags: NORMAL,
            len: 8,
        };
        page[PAGE_HEADER_LEN..PAGE_HEADER_LEN + 4]
            .copy_from_slice(&pointer.to_bits().to_le_bytes());
        let lower = PAGE_HEADER_LEN + 4;
        assert!(Items::default().read(&page, lower, 8096, 8104).is_some());
        assert!(Items::default().read(&page, lower, 8100, 8108).is_none());
        assert!(Items::default().read(&page, lower, 8096, 8108).is_none());
    }
}
