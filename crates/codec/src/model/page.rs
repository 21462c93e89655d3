//! Pages with line pointers (storage/bufpage.h): heap pages, B-tree pages, and others alike.
//!
//! ```text
//! 0 pd_lsn u32 u32   8 pd_checksum u16   10 pd_flags u16   12 pd_lower u16   14 pd_upper u16
//! 16 pd_special u16   18 pd_pagesize_version u16   20 pd_prune_xid u32   24 line pointers
//! ```
//!
//! The hole between line pointers and items is left out of images. Items tile what follows it
//! up to the special space, so their places follow from their lengths and their order.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::max_align;

use super::heap_tuple::TUPLE_HEADER_LEN;
use super::index_tuple::{INDEX_TUPLE_HEADER_LEN, Place};
use super::item_order::{ITEMS_MAX, OrderStreams};
use super::relation::Relation;
use super::rows_by_len::RowsByLen;
use crate::coder::{Coder, Slot, get_u16, get_u32};
use crate::stream_kind::StreamKind;

/// Bytes in front of the line pointers (`SizeOfPageHeaderData`).
const PAGE_HEADER_LEN: usize = 24;
/// Special space of B-tree, hash and GiST pages; the last two bytes tell which.
const BTREE_SPECIAL_LEN: usize = 16;
/// `MAX_BT_CYCLE_ID`: above it are the page ids of hash and GiST.
const BTREE_CYCLE_ID_MAX: u16 = 0xFF7F;
/// `LP_NORMAL`.
const NORMAL: u8 = 1;

const ALL_NORMAL: u8 = 1;
const PADDING_IS_CODED: u8 = 2;
const HAS_STORAGE: u8 = 4;
const HAS_OFFSET: u8 = 8;

/// How a page is coded; the number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Raw = 0,
    Heap = 1,
    Btree = 2,
    Items = 3,
}

impl Class {
    fn from_id(id: u8) -> Option<Class> {
        [Class::Raw, Class::Heap, Class::Btree, Class::Items]
            .into_iter()
            .find(|class| *class as u8 == id)
    }
}

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

    /// The item's bytes in an image without its hole.
    fn range(self, hole_len: usize) -> (usize, usize) {
        let start = usize::from(self.offset).wrapping_sub(hole_len);
        (start, start.wrapping_add(usize::from(self.len)))
    }

    /// The bytes between the item and the next one.
    fn padding(self, hole_len: usize) -> (usize, usize) {
        let (start, end) = self.range(hole_len);
        (end, start.wrapping_add(max_align(usize::from(self.len))))
    }
}

/// The streams of the pages of one class.
#[derive(Debug, Default)]
struct ClassStreams {
    lsn: Slot,
    checksum: Slot,
    flags: Slot,
    lower: Slot,
    special: Slot,
    version: Slot,
    prune_xid: Slot,
    special_rows: RowsByLen,
    mode: Slot,
    pointer: Slot,
    offset: Slot,
    order: OrderStreams,
    padding: Slot,
}

/// The state of the page model.
#[derive(Debug, Default)]
pub struct PageModel {
    class: Slot,
    classes: [ClassStreams; 4],
    pointers: Vec<LinePointer>,
    /// Numbers of the line pointers that have an item.
    stored: Vec<u16>,
    /// Places in `stored`, from the item at the end of the page to the one at its beginning.
    order: Vec<u16>,
}

/// An image: the page it is of, and the hole that it leaves out.
#[derive(Clone, Copy, Debug)]
pub struct ImageShape {
    /// Block number of the page.
    pub block: u32,
    /// Where the hole begins; 0 where there is none.
    pub hole_offset: usize,
    /// Bytes of the hole.
    pub hole_len: usize,
}

impl PageModel {
    /// Codes an uncompressed image.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        relation: &mut Relation,
        page: &mut [u8],
        image: ImageShape,
    ) {
        let class = if C::ENCODING {
            self.class_of(page, image)
        } else {
            Class::Raw
        };
        let stream = self.class.open(coder, StreamKind::ImageClass, 1);
        let Some(class) = Class::from_id(coder.u8(stream, class as u8)) else {
            return coder.fail();
        };
        if class == Class::Raw {
            let stream = relation.raw_pages.open(coder, StreamKind::RawPage, 1);
            return coder.bytes(stream, page);
        }
        let Some(special_at) = self.code_header(coder, class, page, image) else {
            return coder.fail();
        };
        let place = match get_u32(page, special_at + 8) {
            0 => Place::Leaf,
            _ => Place::Inner,
        };
        let has_high_key = class == Class::Btree && get_u32(page, special_at + 4) != 0;
        let padding = self.code_pointers(coder, class, relation, page, image, special_at);
        // A page's first item may be the upper bound of the others: it comes after them.
        let first = usize::from(has_high_key).min(self.stored.len());
        for turn in 0..self.stored.len() {
            let turn = (turn + first) % self.stored.len();
            let number = self.stored[turn];
            let (start, end) = self.pointers[usize::from(number)].range(image.hole_len);
            let item = coder.part(page, start, end);
            match class {
                Class::Heap => relation
                    .heap
                    .page_tuple(coder, item, (image.block, number + 1)),
                Class::Btree => relation.index.tuple(coder, item, place),
                _ => relation.items.code(coder, StreamKind::ItemBody, item),
            }
        }
        if padding {
            self.code_padding(coder, class, page, image);
        }
    }

    /// Codes what comes before the line pointers, and the special space; returns its place.
    fn code_header<C: Coder>(
        &mut self,
        coder: &mut C,
        class: Class,
        page: &mut [u8],
        image: ImageShape,
    ) -> Option<usize> {
        let streams = &mut self.classes[class as usize];
        let stream = streams.lsn.open(coder, StreamKind::PageField, 8);
        let lsn = u64::from(get_u32(page, 0)) << 32 | u64::from(get_u32(page, 4));
        let lsn = coder.u64(stream, lsn);
        coder.put(page, 0, ((lsn >> 32) as u32).to_le_bytes());
        coder.put(page, 4, (lsn as u32).to_le_bytes());
        let stream = streams.checksum.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 8);
        let stream = streams.flags.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 10);
        let lower = if image.hole_len == 0 {
            let stream = streams.lower.open(coder, StreamKind::PageField, 2);
            usize::from(coder.u16_at(stream, page, 12))
        } else {
            image.hole_offset
        };
        coder.put(page, 12, (lower as u16).to_le_bytes());
        coder.put(page, 14, ((lower + image.hole_len) as u16).to_le_bytes());
        let stream = streams.special.open(coder, StreamKind::PageField, 2);
        let special = usize::from(coder.u16_at(stream, page, 16));
        let stream = streams.version.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 18);
        let stream = streams.prune_xid.open(coder, StreamKind::PageField, 4);
        coder.u32_at(stream, page, 20);
        let fits = lower >= PAGE_HEADER_LEN
            && (lower - PAGE_HEADER_LEN).is_multiple_of(4)
            && lower + image.hole_len <= special
            && special <= PAGE_SIZE;
        if !fits {
            return None;
        }
        let special_at = special - image.hole_len;
        let end = page.len();
        let bytes = coder.part(page, special_at, end);
        streams
            .special_rows
            .code(coder, StreamKind::PageSpecial, bytes);
        self.pointers
            .resize((lower - PAGE_HEADER_LEN) / 4, LinePointer::default());
        Some(special_at)
    }

    /// Codes the line pointers and the order of the items; returns whether padding is coded.
    fn code_pointers<C: Coder>(
        &mut self,
        coder: &mut C,
        class: Class,
        relation: &mut Relation,
        page: &mut [u8],
        image: ImageShape,
        special_at: usize,
    ) -> bool {
        let streams = &mut self.classes[class as usize];
        let mode = if C::ENCODING {
            mode_of(&self.pointers, page, image.hole_len)
        } else {
            0
        };
        let stream = streams.mode.open(coder, StreamKind::LinePointer, 1);
        let mode = coder.u8(stream, mode);
        self.stored.clear();
        for (number, pointer) in self.pointers.iter_mut().enumerate() {
            let mut state = NORMAL | HAS_STORAGE;
            if mode & ALL_NORMAL == 0 {
                let stream = streams.pointer.open(coder, StreamKind::LinePointer, 1);
                state = coder.u8(stream, state_of(*pointer));
            }
            pointer.flags = state & 3;
            if state & HAS_STORAGE != 0 {
                let stream = relation.item_len.open(coder, StreamKind::TupleLen, 2);
                pointer.len = coder.u16(stream, pointer.len);
                self.stored.push(number as u16);
            } else {
                pointer.len = 0;
                pointer.offset = if state & HAS_OFFSET != 0 {
                    let stream = streams.offset.open(coder, StreamKind::LinePointer, 2);
                    coder.u16(stream, pointer.offset)
                } else {
                    0
                };
            }
        }
        self.order.resize(self.stored.len(), 0);
        streams.order.code(coder, &mut self.order);
        if !C::ENCODING {
            let start = PAGE_HEADER_LEN + 4 * self.pointers.len();
            if !self.place_items(start, special_at, image.hole_len) {
                coder.fail();
            }
            for (pointer, at) in self.pointers.iter().zip((PAGE_HEADER_LEN..).step_by(4)) {
                coder.put(page, at, pointer.to_bits().to_le_bytes());
            }
        }
        mode & PADDING_IS_CODED != 0
    }

    /// Gives each item its offset; `false` where the items do not fill their space.
    fn place_items(&mut self, start: usize, special_at: usize, hole_len: usize) -> bool {
        let mut end = special_at;
        for &place in &self.order {
            let Some(&number) = self.stored.get(usize::from(place)) else {
                return false;
            };
            let pointer = &mut self.pointers[usize::from(number)];
            let Some(at) = end.checked_sub(max_align(usize::from(pointer.len))) else {
                return false;
            };
            pointer.offset = (at + hole_len) as u16;
            end = at;
        }
        end == start
    }

    /// Codes the bytes between each item and the next multiple of 8.
    fn code_padding<C: Coder>(
        &mut self,
        coder: &mut C,
        class: Class,
        page: &mut [u8],
        image: ImageShape,
    ) {
        let stream = self.classes[class as usize]
            .padding
            .open(coder, StreamKind::ItemPadding, 1);
        for &number in &self.stored {
            let (start, end) = self.pointers[usize::from(number)].padding(image.hole_len);
            let padding = coder.part(page, start, end);
            coder.bytes(stream, padding);
        }
    }

    /// Looks at a page that is there; fills pointers and order for what is not `Raw`.
    fn class_of(&mut self, page: &[u8], image: ImageShape) -> Class {
        self.read_items(page, image).unwrap_or(Class::Raw)
    }

    fn read_items(&mut self, page: &[u8], image: ImageShape) -> Option<Class> {
        let lower = usize::from(get_u16(page, 12));
        let upper = usize::from(get_u16(page, 14));
        let special = usize::from(get_u16(page, 16));
        let ordered = PAGE_HEADER_LEN <= lower && lower <= upper && upper <= special;
        let pointers_fit = lower.checked_sub(PAGE_HEADER_LEN)?.is_multiple_of(4);
        let hole_fits = upper.wrapping_sub(lower) == image.hole_len
            && (image.hole_len == 0 || image.hole_offset == lower)
            && page.len() == PAGE_SIZE - image.hole_len;
        if !ordered || !pointers_fit || !hole_fits || special > PAGE_SIZE {
            return None;
        }
        self.pointers.clear();
        // By offset in units of 8: the place in `stored` of the item there, plus 1.
        let mut item_at = [0u16; PAGE_SIZE / 8];
        let mut shortest = u16::MAX;
        let mut stored = 0;
        for number in 0..(lower - PAGE_HEADER_LEN) / 4 {
            let pointer = LinePointer::from_bits(get_u32(page, PAGE_HEADER_LEN + 4 * number));
            self.pointers.push(pointer);
            if pointer.len != 0 {
                let slot = item_at.get_mut(usize::from(pointer.offset) / 8)?;
                if !pointer.offset.is_multiple_of(8) || *slot != 0 {
                    return None;
                }
                stored += 1;
                *slot = stored;
                shortest = shortest.min(pointer.len);
            }
        }
        self.order.clear();
        self.find_order(&item_at, upper, special)?;
        if self.order.len() != usize::from(stored) {
            return None;
        }
        self.order.reverse();
        Some(class_of_items(
            page,
            PAGE_SIZE - special,
            usize::from(shortest),
        ))
    }

    /// Goes from item to item; `None` where they do not fill `upper..special`.
    fn find_order(&mut self, item_at: &[u16], upper: usize, special: usize) -> Option<()> {
        self.stored.clear();
        let numbers = self.pointers.iter().zip(0u16..);
        self.stored.extend(
            numbers
                .filter(|(pointer, _)| pointer.len != 0)
                .map(|(_, n)| n),
        );
        let mut at = upper;
        while at < special {
            let place = item_at.get(at / 8)?.checked_sub(1)?;
            let number = *self.stored.get(usize::from(place))?;
            let pointer = self.pointers.get(usize::from(number))?;
            if usize::from(pointer.offset) != at {
                return None;
            }
            at += max_align(usize::from(pointer.len));
            self.order.push(place);
        }
        (at == special).then_some(())
    }
}

fn class_of_items(page: &[u8], special_len: usize, shortest: usize) -> Class {
    let last = page.len().saturating_sub(2);
    match special_len {
        0 if shortest > TUPLE_HEADER_LEN => Class::Heap,
        BTREE_SPECIAL_LEN
            if shortest >= INDEX_TUPLE_HEADER_LEN && get_u16(page, last) <= BTREE_CYCLE_ID_MAX =>
        {
            Class::Btree
        }
        _ => Class::Items,
    }
}

fn state_of(pointer: LinePointer) -> u8 {
    let storage = if pointer.len != 0 { HAS_STORAGE } else { 0 };
    let offset = if pointer.len == 0 && pointer.offset != 0 {
        HAS_OFFSET
    } else {
        0
    };
    pointer.flags | storage | offset
}

fn mode_of(pointers: &[LinePointer], page: &[u8], hole_len: usize) -> u8 {
    let normal = pointers
        .iter()
        .all(|pointer| state_of(*pointer) == NORMAL | HAS_STORAGE);
    let padding = pointers
        .iter()
        .filter(|pointer| pointer.len != 0)
        .any(|pointer| {
            let (start, end) = pointer.padding(hole_len);
            page.get(start..end)
                .is_none_or(|padding| padding.iter().any(|&byte| byte != 0))
        });
    (if normal { ALL_NORMAL } else { 0 }) | (if padding { PADDING_IS_CODED } else { 0 })
}

const _: () = assert!(ITEMS_MAX < u16::MAX as usize);
