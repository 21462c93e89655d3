//! What earlier WAL has left: pages, and a record that is not complete yet.

use std::collections::HashMap;

use walzip_pgformat::opcode::btree;
use walzip_pgformat::rmgr_id::BTREE;
use walzip_pgformat::wal::{Block, Image, RecordLayout, RelFileLocator, SegmentHeader};
use walzip_pgformat::{Lsn, PAGE_SIZE};
use walzip_replay::{
    GinRows, IndexTables, KeyOrders, Leaves, Page, PageBytes, PageCache, PageKey, Record, Rules,
};

use super::forms::{Form, FormKey};
use crate::fast_hash::FastHash;
use crate::format_version::FormatVersion;
use crate::limits::OWN_PAGES_FACTOR;
use crate::model::index::known_table::KnownTable;
use crate::model::pages::recreation::Recreation;

/// The longest record of which a part is kept for what follows, in bytes.
const PENDING_MAX: usize = 64 << 20;

/// Indexes whose order of keys is remembered.
const ORDERS_MAX: usize = 65536;

/// What the WAL before leaves for what follows. The encoder's and the decoder's are the same.
#[derive(Clone)]
pub struct History {
    pub(super) cache: PageCache,
    pub(super) learned: Learned,
    /// Where the leaf pages of B-trees begin.
    leaves: Leaves,
    /// The rows that GIN entries are likely to get.
    pub(super) gin_rows: GinRows,
    /// Whether that is learned from the records that come now.
    learns_leaves: bool,
    /// The tables of indexes.
    tables: IndexTables,
    /// Whether they are learned from the records that come now.
    learns_tables: bool,
    /// Pages that are kept, if the format allows more.
    pages_max: usize,
}

/// What is known besides pages.
#[derive(Clone, Default)]
pub(super) struct Learned {
    /// A page that was last changed before this is likely to get an image with its next change.
    pub(super) images_from: Lsn,
    pub(super) forms: HashMap<FormKey, Form, FastHash>,
    /// How the keys of B-trees are ordered.
    orders: HashMap<RelFileLocator, KeyOrders, FastHash>,
    /// There are records of hints: pages get their position with the visibility map.
    pub(super) logs_hints: bool,
    /// The beginning of a record.
    pending: Vec<u8>,
    /// Where the WAL that is known ends.
    end: Lsn,
}

impl Default for History {
    fn default() -> History {
        History {
            cache: PageCache::new(1),
            learned: Learned::default(),
            leaves: Leaves::default(),
            gin_rows: GinRows::default(),
            learns_leaves: false,
            tables: IndexTables::default(),
            learns_tables: false,
            pages_max: usize::MAX,
        }
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History")
            .field("end", &self.learned.end)
            .finish_non_exhaustive()
    }
}

impl History {
    /// Knows of no WAL before a member with so many bytes of it, which is told from its own pages.
    pub fn of_own_pages(original_len: usize) -> History {
        History {
            pages_max: (original_len / PAGE_SIZE * OWN_PAGES_FACTOR).max(1),
            ..History::default()
        }
    }

    /// BLAKE3 of all that is known.
    pub fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for (key, page) in self.cache.iter() {
            hasher.update(&key.locator.to_bytes());
            hasher.update(&[key.fork]);
            hasher.update(&key.block.to_le_bytes());
            hasher.update(page);
        }
        let learned = &self.learned;
        let mut forms: Vec<_> = learned.forms.iter().collect();
        forms.sort_unstable_by_key(|(key, _)| **key);
        for ((rmid, info, id), form) in forms {
            let has_data = form.has_data.into();
            hasher.update(&[*rmid, *info, *id, form.flags, form.compressor, has_data]);
        }
        let mut orders: Vec<_> = learned.orders.iter().collect();
        orders.sort_unstable_by_key(|(locator, _)| **locator);
        for (locator, orders) in orders {
            hasher.update(&locator.to_bytes());
            for count in orders.counts() {
                hasher.update(&count.to_le_bytes());
            }
        }
        for index in self.leaves.known() {
            hasher.update(&index);
        }
        hasher.update(&self.gin_rows.known());
        hasher.update(&self.cache.returns());
        // What sequences of earlier formats leave has another hash otherwise.
        if self.learns_tables {
            for (index, table) in self.tables.known() {
                hasher.update(&index.to_bytes());
                hasher.update(&table.to_bytes());
            }
            for (_, newest) in self.gin_rows.newest().known() {
                hasher.update(&newest.table.to_bytes());
            }
        }
        hasher.update(&[learned.logs_hints.into()]);
        hasher.update(&learned.images_from.0.to_le_bytes());
        hasher.update(&learned.end.0.to_le_bytes());
        hasher.update(&learned.pending);
        hasher.finalize()
    }

    /// A segment, or a part of one, begins, encoded in this format.
    pub fn begin(&mut self, header: &SegmentHeader, format: FormatVersion) {
        let pages_max = format.history_pages_max().min(self.pages_max);
        self.cache.allow(pages_max);
        self.cache.evict_by(format.eviction());
        self.learns_leaves = format.has_leaf_blocks();
        self.learns_tables = format.has_known_rows();
        if header.start != self.learned.end {
            self.learned.pending.clear();
        }
    }

    /// The segment ends, or the part of one.
    pub fn end(&mut self, header: &SegmentHeader, len: usize) {
        self.learned.end = Lsn(header.start.0.wrapping_add(len as u64));
    }

    /// The beginning of a record, whose rest follows in the next segment.
    pub fn tail(&mut self, bytes: &[u8]) {
        self.learned.pending.clear();
        self.learned.pending.extend_from_slice(bytes);
    }

    /// The rest of a record that was begun, or what there is of it. `end` is where it ends.
    pub fn lead(&mut self, rules: Rules, bytes: &[u8], is_whole: bool, end: Lsn) {
        let pending = &mut self.learned.pending;
        if pending.is_empty() {
            return;
        }
        if pending.len() + bytes.len() > PENDING_MAX {
            return pending.clear();
        }
        pending.extend_from_slice(bytes);
        if is_whole {
            let record = std::mem::take(pending);
            let mut layout = RecordLayout::default();
            if layout.read(&record, rules.version).is_ok() {
                self.begin_record(&layout);
                self.replay(rules, &layout, &record);
                self.learn_rows(&Record {
                    rules,
                    layout: &layout,
                    bytes: &record,
                });
                // It only takes images apart.
                self.keep_images(&layout, &record, &mut Recreation::new(0));
                self.set_positions(&layout, end);
            }
        }
    }

    /// Learns which rows GIN entries may get, and the tables of indexes, after a record was replayed.
    pub fn learn_rows(&mut self, record: &Record<'_>) {
        if record.rules.replays_all() {
            self.gin_rows.learn(record);
        }
        if self.learns_tables {
            self.tables.learn(record, self.gin_rows.newest());
        }
    }

    /// What a record would make of the known pages of its blocks, which stay as they are here.
    pub fn try_replay(&self, record: &Record<'_>) -> PageCache {
        let keys = record.layout.blocks.iter().map(PageKey::from);
        let mut copies = PageCache::new(record.layout.blocks.len());
        for key in keys {
            if let Some(page) = self.cache.peek(&key) {
                *copies.get_or_new(key) = *page;
            }
        }
        // What is not replayed is seen in the difference from the image.
        let _ = walzip_replay::redo(record, &mut copies);
        copies
    }

    /// A record comes next.
    pub fn begin_record(&mut self, layout: &RecordLayout) {
        self.cache
            .begin_record(layout.blocks.iter().map(PageKey::from));
    }

    /// The page of a record's first block reference.
    pub fn first_page(&self, record: &Record<'_>) -> Option<&PageBytes> {
        self.cache.peek(&PageKey::from(record.block(0)?))
    }

    /// The number that the new tuple of a record is likely to get on its leaf page.
    pub fn expected_number(&self, layout: &RecordLayout, bytes: &[u8]) -> Option<u16> {
        let (block, tuple) = leaf_insertion(layout, bytes)?;
        let page = self.cache.peek(&PageKey::from(block))?;
        match self.learns_leaves && self.leaves.knows(block.locator) {
            true => self.leaves.number(block.locator, tuple, page),
            false => self.orders(block.locator).expected(page, tuple),
        }
    }

    /// Learns from the number that it got.
    pub fn learn_number(&mut self, layout: &RecordLayout, bytes: &[u8], number: u16) {
        let Some((block, tuple)) = leaf_insertion(layout, bytes) else {
            return;
        };
        if self.learns_leaves && self.leaves.knows(block.locator) {
            return;
        }
        let Some(page) = self.cache.peek(&PageKey::from(block)) else {
            return;
        };
        let orders = &mut self.learned.orders;
        if orders.len() >= ORDERS_MAX {
            orders.clear();
        }
        let orders = orders.entry(block.locator).or_default();
        orders.learn(page, tuple, number);
    }

    /// The block of the leaf page that the tuple of a record is likely to go to, which
    /// [`is_leaf_insertion`].
    pub fn expected_leaf(&self, layout: &RecordLayout, bytes: &[u8]) -> Option<u32> {
        let block = layout.blocks.first()?;
        let end = block.data_start + usize::from(block.data_len);
        let tuple = bytes.get(block.data_start..end)?;
        self.leaves.expected(block.locator, tuple, &self.cache)
    }

    /// Learns from a record where leaf pages begin, after it was replayed.
    pub fn learn_leaves(&mut self, layout: &RecordLayout, bytes: &[u8]) {
        if !self.learns_leaves || layout.header.rmid != BTREE {
            return;
        }
        if let Some((block, tuple)) = leaf_insertion(layout, bytes) {
            let (locator, number) = (block.locator, block.number);
            self.leaves.learn(locator, tuple, number, &self.cache);
        } else if walzip_replay::is_split(layout) || is_insertion(layout) {
            for block in layout.blocks.iter().filter(|block| block.id <= 1) {
                let (locator, number) = (block.locator, block.number);
                self.leaves.learn_page(locator, number, &self.cache);
            }
        }
    }

    fn orders(&self, locator: RelFileLocator) -> KeyOrders {
        let orders = self.learned.orders.get(&locator).copied();
        orders.unwrap_or_default()
    }

    /// The version that an update replaces, as it stands on its page: the bytes from `t_hoff` on.
    pub fn old_row(&self, layout: &RecordLayout, number: u16) -> Option<&[u8]> {
        let block = layout.blocks.iter().find(|block| block.id == 1);
        let block = block.or_else(|| layout.blocks.iter().find(|block| block.id == 0))?;
        walzip_replay::row_values(self.cache.peek(&PageKey::from(block))?, number)
    }

    /// The table of an index, where that is known and may be used.
    pub fn table_of(&self, index: RelFileLocator) -> Option<KnownTable<'_>> {
        let table = self.tables.of(index).filter(|_| self.learns_tables)?;
        Some(KnownTable::new(&self.cache, table))
    }

    /// The number of the line pointer that a tuple gets which is put on a page.
    pub fn new_line_pointer(&self, block: &Block) -> Option<u16> {
        if block.fork_flags & Block::WILL_INIT != 0 {
            return Some(1);
        }
        Some(walzip_replay::free_line_pointer(
            self.cache.peek(&PageKey::from(block))?,
        ))
    }

    /// Replays a record on the pages of its blocks without images.
    pub fn replay(&mut self, rules: Rules, layout: &RecordLayout, bytes: &[u8]) {
        let record = Record {
            rules,
            layout,
            bytes,
        };
        // What is not replayed is seen in the difference from the next image.
        let _ = walzip_replay::redo(&record, &mut self.cache);
    }

    /// Keeps the images of a record as the pages of their blocks.
    pub fn keep_images(
        &mut self,
        layout: &RecordLayout,
        bytes: &[u8],
        recreation: &mut Recreation,
    ) {
        for block in &layout.blocks {
            let Some(image) = &block.image else {
                continue;
            };
            let packed = bytes.get(image.start..image.start + usize::from(image.len));
            let mut page = [0; PAGE_SIZE];
            if recreation.decompress(image, packed.unwrap_or_default()) {
                fill(&mut page, image, recreation.page(image));
                *self.cache.get_or_new(PageKey::from(block)) = page;
            }
        }
    }

    /// Keeps an image as the page that it is of. What replay has left in the hole stays there: the
    /// server's page is likely to have the same.
    pub fn keep(&mut self, key: &PageKey, page: &PageBytes) {
        let (start, len) = page.hole();
        let kept = self.cache.get_or_new(*key);
        kept[..start].copy_from_slice(&page[..start]);
        kept[start + len..].copy_from_slice(&page[start + len..]);
    }

    /// The record ended here: that is `pd_lsn` of the pages that it changed.
    pub fn set_positions(&mut self, layout: &RecordLayout, end: Lsn) {
        let is_hint = super::forms::is_hint(layout);
        self.learned.logs_hints |= is_hint;
        for block in &layout.blocks {
            let key = PageKey::from(block);
            self.cache.name(&key, end.0);
            if super::forms::keeps_position(layout, block) && !self.learned.logs_hints {
                continue;
            }
            if let Some(page) = self.cache.get_mut(&key) {
                page.set_lsn(end.0);
            }
        }
    }

    /// The image is what the page is after replay, which is kept.
    pub fn note_used(&mut self, key: &PageKey) {
        self.cache.get_or_new(*key);
    }

    /// The page as an image has it.
    pub fn expected(&self, key: &PageKey, page: &mut PageBytes) {
        without_hole(&self.cache, key, page);
    }

    /// Whether the page of a block is known, and whether its next record is likely to have an image.
    pub fn foretells(&self, block: &Block) -> Option<bool> {
        if block.fork_flags & Block::WILL_INIT != 0 {
            return None;
        }
        let lsn = self.cache.lsn(&PageKey::from(block))?;
        Some(lsn <= self.learned.images_from.0)
    }
}

/// Whether a record puts a tuple into a leaf page of a B-tree, and has the tuple.
pub fn is_leaf_insertion(layout: &RecordLayout) -> bool {
    let is_plain = |block: &Block| block.image.is_none() && block.fork_flags & Block::HAS_DATA != 0;
    is_insertion(layout) && matches!(&layout.blocks[..], [block] if is_plain(block))
}

/// Whether a record puts a tuple into a leaf page of a B-tree.
fn is_insertion(layout: &RecordLayout) -> bool {
    layout.header.rmid == BTREE && layout.header.info & 0xF0 == btree::INSERT_LEAF
}

/// The block reference and the tuple of a record that inserts it into a leaf page.
fn leaf_insertion<'r>(layout: &'r RecordLayout, bytes: &'r [u8]) -> Option<(&'r Block, &'r [u8])> {
    let block = layout.blocks.first()?;
    let is_whole = is_insertion(layout) && layout.main_len >= 2 && block.image.is_none();
    let end = block.data_start + usize::from(block.data_len);
    bytes
        .get(block.data_start..end)
        .filter(|tuple| is_whole && !tuple.is_empty())
        .map(|tuple| (block, tuple))
}

/// A page without the bytes of its hole. Zeros if it is not known.
pub fn without_hole(pages: &PageCache, key: &PageKey, page: &mut PageBytes) {
    match pages.peek(key) {
        Some(known) => {
            page.copy_from_slice(known);
            let (start, len) = page.hole();
            page[start..start + len].fill(0);
        }
        None => page.fill(0),
    }
}

/// Makes a page of what an image has of it.
pub fn fill(page: &mut PageBytes, image: &Image, without_hole: &[u8]) {
    let start = usize::from(image.hole_offset).min(without_hole.len());
    let (front, back) = without_hole.split_at(start);
    page.fill(0);
    page[..start].copy_from_slice(front);
    page[PAGE_SIZE - back.len()..].copy_from_slice(back);
}
