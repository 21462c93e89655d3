//! Which leaf page of a B-tree a new tuple goes to.
//!
//! Of each leaf page that is known of an index, the least tuple is kept: it is where the page begins.
//! A tuple goes to the page that begins last of those that do not begin after it; unless that page's
//! high key says that it belongs to the right sibling. How tuples are ordered is told from a page, and
//! looked at again where that was wrong too often. Where a page was expected and is not the one,
//! what is kept of both is read from the pages again.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use walzip_pgformat::wal::RelFileLocator;

use crate::btree_page::{first_data, is_leaf, right_sibling};
use crate::cache::{PageCache, PageKey};
use crate::index_tuple::{self, Row};
use crate::key_shape::{KeyShape, Sortable};
use crate::page::{Page, PageBytes};

/// Leaf pages of which is known where they begin, of all indexes. Where there are more, all are
/// forgotten.
const LEAVES_MAX: usize = 1 << 17;

/// Indexes of which anything is known. Where there are more, all are forgotten.
const INDEXES_MAX: usize = 1 << 14;

/// So many tuples went elsewhere when the shape of keys is looked for again.
const WRONG_MAX: u16 = 128;
/// That number doubles each time, so often.
const LOOKED_MAX: u8 = 7;
/// Leaf pages from which a shape is told.
const BLOCKS: usize = 16;

/// A tuple that can be ordered: the beginning of its key, and its first row.
type Place = (Sortable, u64);

fn place(shape: KeyShape, key: &[u8], row: Row) -> Place {
    (shape.sortable(key), row_number(row))
}

fn row_number((high, low, number): Row) -> u64 {
    u64::from(high) << 32 | u64::from(low) << 16 | u64::from(number)
}

fn place_of(shape: KeyShape, tuple: &[u8]) -> Option<Place> {
    let key = index_tuple::key_without_nulls(tuple)?;
    Some(place(shape, key, index_tuple::first_row(tuple)?))
}

/// Where the leaf pages of indexes begin.
#[derive(Clone, Default)]
pub struct Leaves {
    indexes: HashMap<RelFileLocator, Index, RandomState>,
    /// Of all indexes.
    len: usize,
    /// What was found last, if nothing has changed since and the page does not begin after the tuple:
    /// nothing is to be learned of it.
    found: Cell<Option<(RelFileLocator, Place, u32)>>,
}

/// The leaf pages of one index.
#[derive(Clone, Default)]
struct Index {
    shape: Option<KeyShape>,
    doubt: Doubt,
    begins: HashMap<u32, Place, RandomState>,
    sorted: BTreeSet<(Place, u32)>,
}

/// What speaks against the shape of an index.
#[derive(Clone, Copy, Default)]
struct Doubt {
    /// Tuples that went elsewhere since the shape was looked for.
    wrong: u16,
    /// How often it was looked for.
    looked: u8,
    /// Some of the blocks that they went to.
    blocks: [u32; BLOCKS],
    /// How many they were, at most so many.
    len: u8,
}

impl Doubt {
    fn add(&mut self, block: u32) {
        self.wrong = self.wrong.saturating_add(1);
        let known = usize::from(self.len);
        if known < BLOCKS && !self.blocks[..known].contains(&block) {
            self.blocks[known] = block;
            self.len += 1;
        }
    }

    fn blocks(&self) -> &[u32] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether the shape is looked for again: soon at first, and more and more seldom.
    fn is_enough(&self, has_shape: bool) -> bool {
        let wrong_max = if has_shape { WRONG_MAX } else { WRONG_MAX / 4 };
        self.wrong >= wrong_max << self.looked.min(LOOKED_MAX)
    }

    /// The shape was looked for.
    fn looked(&self) -> Doubt {
        Doubt {
            looked: self.looked.saturating_add(1),
            ..Doubt::default()
        }
    }
}

impl Index {
    /// The page that begins last of those that do not begin after a tuple, or else the first one; and
    /// where it begins.
    fn find(&self, place: &Place) -> Option<(Place, u32)> {
        let before = self.sorted.range(..=(*place, u32::MAX)).next_back();
        before.or(self.sorted.first()).copied()
    }

    /// Notes where a page begins, or forgets it. Returns what was known.
    fn set(&mut self, block: u32, begin: Option<Place>) -> Option<Place> {
        let was = match begin {
            Some(begin) => self.begins.insert(block, begin),
            None => self.begins.remove(&block),
        };
        if let Some(was) = was {
            self.sorted.remove(&(was, block));
        }
        self.sorted.extend(begin.map(|begin| (begin, block)));
        was
    }
}

impl Leaves {
    /// The block of the leaf page that a tuple is likely to go to.
    pub fn expected(
        &self,
        locator: RelFileLocator,
        tuple: &[u8],
        pages: &PageCache,
    ) -> Option<u32> {
        let index = self.indexes.get(&locator)?;
        let shape = index.shape?;
        let place = place_of(shape, tuple)?;
        let (begin, block) = index.find(&place)?;
        let page = pages.peek(&main_fork(locator, block));
        // The tuple's number on the page is asked for next.
        page.inspect(|page| page.prefetch_line_pointers());
        let right = page.and_then(|page| right_of(shape, page, &place));
        let is_found = begin <= place && right.is_none();
        self.found.set(is_found.then_some((locator, place, block)));
        Some(right.unwrap_or(block))
    }

    /// The number of the first item of a leaf page that does not come before a tuple.
    pub fn number(&self, locator: RelFileLocator, tuple: &[u8], page: &PageBytes) -> Option<u16> {
        let shape = self.shape(locator)?;
        let place = place_of(shape, tuple)?;
        let (mut low, mut high) = (first_data(page)?, page.items() + 1);
        while low < high {
            let middle = middle_of(low, high);
            // One of these is next: which one is known only after this one was read.
            page.prefetch_item(middle_of(low, middle));
            page.prefetch_item(middle_of(middle + 1, high));
            let item = page.item(middle)?;
            let order = shape.compare(index_tuple::key_without_nulls(item)?, &place.0);
            let is_before = match order {
                Ordering::Equal => row_number(index_tuple::first_row(item)?) < place.1,
                order => order.is_lt(),
            };
            match is_before {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Some(low)
    }

    /// Whether it is known how the keys of an index are ordered.
    pub fn knows(&self, locator: RelFileLocator) -> bool {
        self.shape(locator).is_some()
    }

    fn shape(&self, locator: RelFileLocator) -> Option<KeyShape> {
        self.indexes.get(&locator)?.shape
    }

    /// Learns that a tuple went to a block, whose page has it by now if it is known.
    pub fn learn(&mut self, locator: RelFileLocator, tuple: &[u8], block: u32, pages: &PageCache) {
        let Some(shape) = self.shape(locator) else {
            return self.doubt(locator, block, pages);
        };
        let Some(place) = place_of(shape, tuple) else {
            return;
        };
        if self.found.take() == Some((locator, place, block)) {
            return;
        }
        let index = self.indexes.get(&locator);
        let found = index.and_then(|index| index.find(&place));
        if found.is_some_and(|(begin, found)| found == block && begin <= place) {
            return;
        }
        let page = pages.peek(&main_fork(locator, block));
        let begin = page.and_then(|page| begin_of(shape, page));
        let begin = begin.map_or(place, |begin| begin.min(place));
        self.set(locator, block, Some(begin));
        if let Some((_, other)) = found.filter(|(_, other)| *other != block) {
            let page = pages.peek(&main_fork(locator, other));
            let begin = page.and_then(|page| begin_of(shape, page));
            self.set(locator, other, begin);
            self.doubt(locator, block, pages);
        }
    }

    /// Learns where a page begins from the page: nowhere if it is not known, or no leaf.
    pub fn learn_page(&mut self, locator: RelFileLocator, block: u32, pages: &PageCache) {
        if let Some(shape) = self.shape(locator) {
            let page = pages.peek(&main_fork(locator, block));
            let begin = page.and_then(|page| begin_of(shape, page));
            self.set(locator, block, begin);
        }
    }

    /// A tuple went to a block where none was expected, or another one. Where that happens too often,
    /// the shape of the keys is looked for; where it is another one, what was known of the index is
    /// forgotten.
    fn doubt(&mut self, locator: RelFileLocator, block: u32, pages: &PageCache) {
        if !self.indexes.contains_key(&locator) {
            if self.indexes.len() >= INDEXES_MAX {
                self.forget();
            }
            self.indexes.insert(locator, Index::default());
        }
        let Some(index) = self.indexes.get_mut(&locator) else {
            return;
        };
        index.doubt.add(block);
        let (doubt, shape) = (index.doubt, index.shape);
        if !doubt.is_enough(shape.is_some()) {
            return;
        }
        let blocks = doubt.blocks().iter();
        let leaves = blocks.filter_map(|block| pages.peek(&main_fork(locator, *block)));
        let leaves: Vec<&PageBytes> = leaves.filter(|page| is_leaf(page)).collect();
        let found = KeyShape::of(&leaves);
        if found == shape {
            index.doubt = doubt.looked();
            return;
        }
        let index = Index {
            shape: found,
            doubt: doubt.looked(),
            ..Index::default()
        };
        self.found.set(None);
        let was = self.indexes.insert(locator, index);
        self.len -= was.map_or(0, |was| was.begins.len());
    }

    fn set(&mut self, locator: RelFileLocator, block: u32, begin: Option<Place>) {
        let Some(index) = self.indexes.get_mut(&locator) else {
            return;
        };
        self.found.set(None);
        let is_new = begin.is_some() && !index.begins.contains_key(&block);
        if is_new && self.len >= LEAVES_MAX {
            return self.forget();
        }
        let was = index.set(block, begin);
        self.len = self.len + usize::from(begin.is_some()) - usize::from(was.is_some());
    }

    fn forget(&mut self) {
        self.found.set(None);
        self.indexes.clear();
        self.len = 0;
    }

    /// All that is known, as bytes that follow from it, one index after the other.
    pub fn known(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut indexes: Vec<_> = self.indexes.iter().collect();
        indexes.sort_unstable_by_key(|(locator, _)| **locator);
        indexes.into_iter().map(|(locator, index)| {
            let mut bytes = locator.to_bytes().to_vec();
            let shape = index.shape.map_or(0, |shape| shape.number());
            bytes.extend_from_slice(&shape.to_le_bytes());
            bytes.extend_from_slice(&index.doubt.wrong.to_le_bytes());
            bytes.push(index.doubt.looked);
            for block in index.doubt.blocks() {
                bytes.extend_from_slice(&block.to_le_bytes());
            }
            for ((key, row), block) in &index.sorted {
                let words = key.iter().chain([row]).map(|word| word.to_le_bytes());
                bytes.extend(words.flatten());
                bytes.extend_from_slice(&block.to_le_bytes());
            }
            bytes
        })
    }
}

fn middle_of(low: u16, high: u16) -> u16 {
    low + (high - low) / 2
}

fn main_fork(locator: RelFileLocator, block: u32) -> PageKey {
    PageKey {
        locator,
        fork: 0,
        block,
    }
}

/// The least tuple of a leaf page.
fn begin_of(shape: KeyShape, page: &PageBytes) -> Option<Place> {
    let first = first_data(page).filter(|_| is_leaf(page))?;
    place_of(shape, page.item(first)?)
}

/// The right sibling of a page, if a tuple lies beyond the page's high key.
fn right_of(shape: KeyShape, page: &PageBytes, tuple: &Place) -> Option<u32> {
    let right = right_sibling(page).filter(|_| is_leaf(page))?;
    let (key, row) = index_tuple::high_key(page.item(1)?)?;
    (*tuple >= place(shape, key, row)).then_some(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_shape::tests::{leaf, tuple};
    use proptest::prelude::*;

    const INDEX: RelFileLocator = RelFileLocator {
        tablespace: 1663,
        database: 5,
        relation: 16384,
    };
    /// Leaves of the index, each of which has tuples for so many keys.
    const LEAVES: u32 = 20;
    const KEYS: u64 = 100;

    fn tuple_of(key: u64) -> Vec<u8> {
        tuple(&key.to_le_bytes(), false, 1)
    }

    /// An index of leaves 1, 2 and so on; only every second key is there.
    fn index() -> PageCache {
        let mut pages = PageCache::new(100);
        for block in 1..=LEAVES {
            let first = u64::from(block - 1) * KEYS;
            let mut tuples: Vec<_> = (0..KEYS / 2).map(|key| tuple_of(first + 2 * key)).collect();
            let right = match block {
                LEAVES => 0,
                _ => {
                    tuples.insert(0, tuple_of(first + KEYS));
                    block + 1
                }
            };
            *pages.get_or_new(main_fork(INDEX, block)) = *leaf(&tuples, right);
        }
        pages
    }

    /// The leaf of a key.
    fn block_of(key: u64) -> u32 {
        (key / KEYS) as u32 + 1
    }

    fn scattered(number: u64) -> u64 {
        number.wrapping_mul(7919) % (u64::from(LEAVES) * KEYS)
    }

    #[test]
    fn a_key_leads_to_its_leaf_when_the_leaves_are_known() {
        let (pages, mut leaves) = (index(), Leaves::default());
        assert_eq!(leaves.expected(INDEX, &tuple_of(1), &pages), None);
        let learned = 300;
        let mut right = 0;
        for number in 0..2 * learned {
            let key = scattered(number);
            let tuple = tuple_of(key);
            let expected = leaves.expected(INDEX, &tuple, &pages);
            if number >= learned {
                right += u64::from(expected == Some(block_of(key)));
            }
            leaves.learn(INDEX, &tuple, block_of(key), &pages);
        }
        assert_eq!(right, learned);
        let page = pages.peek(&main_fork(INDEX, 3)).expect("known");
        let number = leaves.number(INDEX, &tuple_of(2 * KEYS + 31), page);
        // After the high key and the sixteen items before.
        assert_eq!(number, Some(18));
    }

    #[test]
    fn a_leaf_that_became_another_one_is_forgotten() {
        let (mut pages, mut leaves) = (index(), Leaves::default());
        for number in 0..400 {
            let key = scattered(number);
            leaves.learn(INDEX, &tuple_of(key), block_of(key), &pages);
        }
        // Leaf 3 is deleted: its keys go to leaf 2 from now on.
        *pages.get_or_new(main_fork(INDEX, 3)) = [0; walzip_pgformat::PAGE_SIZE];
        let tuple = tuple_of(2 * KEYS + 31);
        assert_eq!(leaves.expected(INDEX, &tuple, &pages), Some(3));
        leaves.learn(INDEX, &tuple, 4, &pages);
        assert_eq!(leaves.expected(INDEX, &tuple, &pages), Some(4));
    }

    #[test]
    fn indexes_are_not_more_than_so_many() {
        let (pages, mut leaves) = (index(), Leaves::default());
        for number in 0..100 {
            let key = scattered(number);
            leaves.learn(INDEX, &tuple_of(key), block_of(key), &pages);
        }
        for relation in 0..=INDEXES_MAX as u32 {
            let locator = RelFileLocator { relation, ..INDEX };
            leaves.learn(locator, &tuple_of(1), 1, &pages);
            assert!(leaves.indexes.len() <= INDEXES_MAX);
        }
        assert_eq!(known(&leaves).len(), leaves.indexes.len());
    }

    fn known(leaves: &Leaves) -> Vec<Vec<u8>> {
        let begins = |index: &Index| index.begins.len();
        let len: usize = leaves.indexes.values().map(begins).sum();
        assert_eq!(leaves.len, len);
        leaves.known().collect()
    }

    proptest! {
        #[test]
        fn the_same_is_known_of_the_same_tuples(
            tuples in prop::collection::vec((0..u64::from(LEAVES) * KEYS, 1..=LEAVES, 0..8_u8), 0..300),
        ) {
            let (pages, mut leaves, mut same) = (index(), Leaves::default(), Leaves::default());
            for (key, block, way) in tuples {
                let tuple = tuple_of(key);
                let locator = RelFileLocator { relation: u32::from(way / 7), ..INDEX };
                // Whether it was asked before makes no difference.
                same.expected(locator, &tuple, &pages);
                for leaves in [&mut leaves, &mut same] {
                    match way {
                        0 => leaves.learn_page(locator, block, &pages),
                        1 | 2 => leaves.learn(INDEX, &tuple, block, &pages),
                        _ => leaves.learn(locator, &tuple, block_of(key), &pages),
                    }
                }
            }
            prop_assert_eq!(known(&leaves), known(&same));
        }
    }
}
