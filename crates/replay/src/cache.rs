//! Pages by relation, fork and block: as many as fit.

use std::cell::Cell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{Block, RelFileLocator};

use crate::page::{Page, PageBytes};
use crate::returns::{ForkKey, Returns};

/// Names a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The relation.
    pub locator: RelFileLocator,
    /// The fork: 0 is the main one, 2 the visibility map.
    pub fork: u8,
    /// The number in the fork.
    pub block: u32,
}

impl PageKey {
    fn fork_key(&self) -> ForkKey {
        (self.locator, self.fork)
    }
}

impl From<&Block> for PageKey {
    fn from(block: &Block) -> PageKey {
        PageKey {
            locator: block.locator,
            fork: block.fork(),
            block: block.number,
        }
    }
}

/// How many places are remembered that were found.
const FOUND: usize = 8;

/// Pages of which the one goes that is least likely to be named again.
const CANDIDATES: usize = 64;

/// Which page goes where there are too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The first one that was not used since it was looked at.
    #[default]
    NotUsed,
    /// Of a few, the one that is least likely to be named again by a record.
    LeastLikely,
    /// The same, but none that the record at hand names, if there is another one.
    LeastLikelyOther,
}

#[derive(Clone)]
struct Slot {
    key: PageKey,
    page: Box<PageBytes>,
    was_used: bool,
    /// Where the last record ends that named the page; 0 if there was none.
    named: u64,
}

/// Pages that records have left. Where there are too many, one goes. Which one follows from what
/// was asked for, and from nothing else.
#[derive(Clone)]
pub struct PageCache {
    /// Whoever writes to the database chooses the keys: the hash begins at random.
    places: HashMap<PageKey, u32, RandomState>,
    slots: Vec<Slot>,
    /// Places that were found last: a record's pages are asked for again and again.
    found: [Cell<u32>; FOUND],
    pages_max: usize,
    hand: usize,
    eviction: Eviction,
    returns: Returns,
    /// Pages that the record at hand names.
    at_hand: Vec<PageKey>,
}

impl PageCache {
    /// Keeps at most so many pages, at least one.
    pub fn new(pages_max: usize) -> PageCache {
        PageCache {
            places: HashMap::default(),
            slots: Vec::new(),
            found: Default::default(),
            pages_max: pages_max.max(1),
            hand: 0,
            eviction: Eviction::default(),
            returns: Returns::default(),
            at_hand: Vec::new(),
        }
    }

    /// Raises the number of pages that are kept.
    pub fn allow(&mut self, pages_max: usize) {
        self.pages_max = self.pages_max.max(pages_max);
    }

    /// Which page goes from now on.
    pub fn evict_by(&mut self, eviction: Eviction) {
        self.eviction = eviction;
    }

    /// A record begins, and names these pages.
    pub fn begin_record(&mut self, keys: impl Iterator<Item = PageKey>) {
        self.at_hand.clear();
        self.at_hand.extend(keys);
    }

    /// Pages that are kept.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// No page is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The pages that are kept, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (&PageKey, &PageBytes)> {
        self.slots.iter().map(|slot| (&slot.key, &*slot.page))
    }

    /// Where a page is kept.
    fn place(&self, key: &PageKey) -> Option<usize> {
        let found = &self.found[key.block as usize % FOUND];
        let place = found.get() as usize;
        if self.slots.get(place).is_some_and(|slot| slot.key == *key) {
            return Some(place);
        }
        let place = *self.places.get(key)?;
        found.set(place);
        Some(place as usize)
    }

    /// A page that is kept, without using it.
    pub fn peek(&self, key: &PageKey) -> Option<&PageBytes> {
        let slot = self.slots.get(self.place(key)?)?;
        Some(&slot.page)
    }

    /// A page that is kept.
    pub fn get_mut(&mut self, key: &PageKey) -> Option<&mut PageBytes> {
        let place = self.place(key)?;
        let slot = &mut self.slots[place];
        slot.was_used = true;
        Some(&mut slot.page)
    }

    /// A page that is kept, or else one of zeros that is kept from now on.
    pub fn get_or_new(&mut self, key: PageKey) -> &mut PageBytes {
        let place = match self.place(&key) {
            Some(place) => place,
            None => self.place_for(key),
        };
        let slot = &mut self.slots[place];
        slot.was_used = true;
        &mut slot.page
    }

    /// A record names a page, if it is kept, and ends at `end`.
    pub fn name(&mut self, key: &PageKey, end: u64) {
        if let Some(place) = self.place(key) {
            let slot = &mut self.slots[place];
            let named = std::mem::replace(&mut slot.named, end);
            self.returns
                .name(key.fork_key(), named.max(slot.page.lsn()), end);
        }
    }

    /// From what follows which page goes next, besides the pages: where the likelihood says it.
    pub fn returns(&self) -> Vec<u8> {
        if self.eviction == Eviction::NotUsed {
            return Vec::new();
        }
        let mut known = self.returns.known();
        known.extend_from_slice(&(self.hand as u64).to_le_bytes());
        for slot in &self.slots {
            known.extend_from_slice(&slot.named.to_le_bytes());
        }
        known
    }

    fn place_for(&mut self, key: PageKey) -> usize {
        let place = if self.slots.len() < self.pages_max {
            self.slots.push(Slot {
                key,
                page: Box::new([0; PAGE_SIZE]),
                was_used: true,
                named: 0,
            });
            self.slots.len() - 1
        } else {
            let place = match self.eviction {
                Eviction::NotUsed => self.unused(),
                Eviction::LeastLikely | Eviction::LeastLikelyOther => self.least_likely(),
            };
            let slot = &mut self.slots[place];
            self.places.remove(&slot.key);
            self.returns.leave(slot.key.fork_key());
            slot.key = key;
            slot.page.fill(0);
            slot.named = 0;
            place
        };
        self.returns.come(key.fork_key());
        self.places.insert(key, place as u32);
        place
    }

    /// The next place whose page was not used since the hand passed it.
    fn unused(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.slots.len();
            let slot = &mut self.slots[place];
            if !std::mem::take(&mut slot.was_used) {
                return place;
            }
        }
    }

    /// Of the next places, the one whose page is least likely to be named again.
    fn least_likely(&mut self) -> usize {
        let len = self.slots.len();
        let first = self.hand;
        self.hand = (first + CANDIDATES) % len;
        let places = (first..first + CANDIDATES.min(len)).map(|place| place % len);
        let keeps_at_hand = self.eviction == Eviction::LeastLikelyOther;
        let weight = |place: &usize| {
            let slot = &self.slots[*place];
            let is_at_hand = keeps_at_hand && self.at_hand.contains(&slot.key);
            let weight = self.returns.weight(slot.key.fork_key(), slot.named);
            (is_at_hand, weight)
        };
        places.min_by_key(weight).unwrap_or(first)
    }

    /// `pd_lsn` of a page that is kept.
    pub fn lsn(&self, key: &PageKey) -> Option<u64> {
        self.peek(key).map(|page| page.lsn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u32) -> PageKey {
        PageKey {
            block,
            ..PageKey::default()
        }
    }

    /// Where all are named by the record, one goes all the same.
    #[test]
    fn a_page_that_the_record_names_stays() {
        for (at_hand, gone) in [
            (vec![], 1),
            (vec![1], 2),
            (vec![2, 1], 3),
            (vec![1, 2, 3], 1),
        ] {
            let mut cache = PageCache::new(3);
            cache.evict_by(Eviction::LeastLikelyOther);
            for block in 1..=3 {
                cache.get_or_new(key(block));
            }
            cache.begin_record(at_hand.iter().copied().map(key));
            cache.get_or_new(key(4));
            let is_kept = |block: &u32| cache.peek(&key(*block)).is_none();
            assert_eq!((1..=3).find(is_kept), Some(gone), "{at_hand:?}");
        }
    }

    #[test]
    fn a_page_that_was_not_used_for_long_goes() {
        let mut cache = PageCache::new(3);
        for block in 1..=3 {
            cache.get_or_new(key(block))[0] = block as u8;
        }
        // The hand passes all of them once, and takes the first.
        cache.get_or_new(key(4))[0] = 4;
        assert!(cache.peek(&key(1)).is_none());
        assert!(cache.get_mut(&key(2)).is_some());
        assert!(cache.peek(&key(3)).is_some());
        cache.get_or_new(key(5));
        let kept = [1, 2, 3, 4, 5].map(|block| cache.peek(&key(block)).map(|page| page[0]));
        assert_eq!(kept, [None, Some(2), None, Some(4), Some(0)]);
        assert_eq!(cache.len(), 3);
        let names: Vec<u32> = cache.iter().map(|(key, _)| key.block).collect();
        assert_eq!(names, [4, 2, 5]);
    }

    /// Of two relations, the pages of one were named again after long. So those of the other go.
    #[test]
    fn the_page_goes_that_is_least_likely_to_be_named_again() {
        const LONG: u64 = 40 << 20;
        let of = |relation, block| {
            let mut key = key(block);
            key.locator.relation = relation;
            key
        };
        let mut cache = PageCache::new(20);
        cache.evict_by(Eviction::LeastLikely);
        let mut end = 1 << 30;
        let mut name = |cache: &mut PageCache, key, gap| {
            end += gap;
            cache.get_or_new(key);
            cache.name(&key, end);
        };
        for block in 0..10 {
            name(&mut cache, of(1, block), 8192);
            name(&mut cache, of(2, block), 8192);
        }
        for block in 0..10 {
            name(&mut cache, of(2, block), LONG);
        }
        let kept = |cache: &PageCache, relation| {
            let is_kept = |block: &u32| cache.peek(&of(relation, *block)).is_some();
            (0..10).filter(is_kept).count()
        };
        for block in 0..4 {
            name(&mut cache, of(3, block), LONG);
        }
        assert_eq!(kept(&cache, 1), 6);
        for block in 4..10 {
            name(&mut cache, of(3, block), 8192);
        }
        assert_eq!([1, 2].map(|relation| kept(&cache, relation)), [0, 10]);
        // What was named lately goes only where all was.
        for block in 0..20 {
            name(&mut cache, of(4, block), 8192);
        }
        assert_eq!(cache.len(), 20);
    }

    #[test]
    fn all_pages_of_a_relation_may_go() {
        let mut cache = PageCache::new(2);
        cache.evict_by(Eviction::LeastLikely);
        let mut lens = Vec::new();
        for block in 0..1000 {
            let mut key = key(0);
            key.locator.relation = block;
            cache.get_or_new(key);
            cache.name(&key, u64::from(block));
            lens.push(cache.returns().len());
        }
        // What is counted of those that are gone is forgotten: two are kept, from the second on.
        assert!(lens[1..].iter().all(|len| *len == lens[1]), "{lens:?}");
    }

    #[test]
    fn more_pages_may_be_allowed_and_not_fewer() {
        let mut cache = PageCache::new(1);
        cache.allow(2);
        cache.allow(1);
        for block in 0..5 {
            cache.get_or_new(key(block));
        }
        assert_eq!(cache.len(), 2);
    }
}
