//! Pages by relation, fork and block: as many as fit.

mod undo;

use std::cell::Cell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{Block, RelFileLocator};

use crate::page::{Page, PageBytes};
use undo::{COPIES_MAX, Limits, Undo, Was, apply_difference};

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

#[derive(Clone)]
struct Slot {
    key: PageKey,
    page: Box<PageBytes>,
    was_used: bool,
}

/// Pages that records have left. Where there are too many, one that was not used for long goes.
/// Which one follows from what was asked for, and from nothing else.
#[derive(Clone)]
pub struct PageCache {
    /// Whoever writes to the database chooses the keys: the hash begins at random.
    places: HashMap<PageKey, u32, RandomState>,
    slots: Vec<Slot>,
    /// Places that were found last: a record's pages are asked for again and again.
    found: [Cell<u32>; FOUND],
    pages_max: usize,
    hand: usize,
    /// What has changed, if it is remembered.
    undo: Option<Undo>,
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
            undo: None,
        }
    }

    /// Raises the number of pages that are kept.
    pub fn allow(&mut self, pages_max: usize) {
        self.pages_max = self.pages_max.max(pages_max);
    }

    /// Remembers from now on what changes, for [`PageCache::undo`]: up to 32 MiB of pages as they were, and
    /// so many bytes of what else has to be undone.
    pub fn remember(&mut self, bytes: usize) {
        self.remember_within(Limits {
            copies: COPIES_MAX,
            bytes,
        });
    }

    fn remember_within(&mut self, limits: Limits) {
        self.undo = Some(Undo::new(&self.slots, self.hand, limits));
    }

    /// Becomes what it was when it began to remember. Returns whether that was possible: where too much has
    /// changed it is not, and the cache must not be used any more.
    pub fn undo(&mut self) -> bool {
        let Some(undo) = self.undo.take().filter(|undo| !undo.is_too_much()) else {
            return false;
        };
        let (len, hand, used) = (undo.len, undo.hand, undo.used.clone());
        for (place, was) in undo.into_steps() {
            let slot = &mut self.slots[place];
            match was {
                Was::Page(page) => slot.page = page,
                Was::Different(bytes) => apply_difference(&bytes, &mut slot.page),
                Was::Key(key) => {
                    self.places.remove(&slot.key);
                    slot.key = key;
                    self.places.insert(key, place as u32);
                }
            }
        }
        for (place, slot) in (len..).zip(self.slots.drain(len..)) {
            // An older place may have it again.
            if self.places.get(&slot.key) == Some(&(place as u32)) {
                self.places.remove(&slot.key);
            }
        }
        self.hand = hand;
        for (slot, was_used) in self.slots.iter_mut().zip(used) {
            slot.was_used = was_used;
        }
        true
    }

    /// A page is about to change.
    fn note(&mut self, place: usize) {
        if let Some(undo) = &mut self.undo {
            undo.note_page(place, &self.slots);
        }
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

    /// A page that is kept, to change, without using it.
    pub fn peek_mut(&mut self, key: &PageKey) -> Option<&mut PageBytes> {
        let place = self.place(key)?;
        self.note(place);
        Some(&mut self.slots[place].page)
    }

    /// A page that is kept.
    pub fn get_mut(&mut self, key: &PageKey) -> Option<&mut PageBytes> {
        let place = self.place(key)?;
        self.note(place);
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
        self.note(place);
        let slot = &mut self.slots[place];
        slot.was_used = true;
        &mut slot.page
    }

    fn place_for(&mut self, key: PageKey) -> usize {
        let place = if self.slots.len() < self.pages_max {
            self.slots.push(Slot {
                key,
                page: Box::new([0; PAGE_SIZE]),
                was_used: true,
            });
            self.slots.len() - 1
        } else {
            let place = self.unused();
            self.note(place);
            let slot = &mut self.slots[place];
            if let Some(undo) = &mut self.undo {
                undo.note_key(place, slot.key);
            }
            self.places.remove(&slot.key);
            slot.key = key;
            slot.page.fill(0);
            place
        };
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

    /// `pd_lsn` of a page that is kept.
    pub fn lsn(&self, key: &PageKey) -> Option<u64> {
        self.peek(key).map(|page| page.lsn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One use of a page: its block, how it is asked for, and where it changes.
    type Use = (u32, u8, usize, u8);

    fn uses() -> impl Strategy<Value = Vec<Use>> {
        let one = (0..14_u32, 0..4_u8, 0..PAGE_SIZE, any::<u8>());
        prop::collection::vec(one, 0..80)
    }

    fn apply(cache: &mut PageCache, uses: &[Use]) {
        for &(block, way, at, byte) in uses {
            let key = PageKey {
                block,
                ..PageKey::default()
            };
            let page = match way {
                0 => cache.peek_mut(&key),
                1 => cache.get_mut(&key),
                _ => Some(cache.get_or_new(key)),
            };
            if let Some(page) = page {
                page[at] = byte;
                page[usize::from(byte)] = way;
            }
        }
    }

    /// The slots, and what is found of each key.
    fn state(cache: &PageCache) -> Vec<(PageKey, Vec<u8>, bool)> {
        let slots = cache.slots.iter();
        let state = slots.map(|slot| (slot.key, slot.page.to_vec(), slot.was_used));
        assert_eq!(cache.places.len(), cache.slots.len());
        for (key, page) in cache.iter() {
            assert!(cache.peek(key) == Some(page));
        }
        state.collect()
    }

    proptest! {
        #[test]
        fn a_cache_becomes_what_it_was(before in uses(), undone in uses(), after in uses()) {
            let mut cache = PageCache::new(5);
            apply(&mut cache, &before);
            let mut expected = cache.clone();
            cache.remember_within(Limits {
                copies: 2,
                bytes: usize::MAX,
            });
            apply(&mut cache, &undone);
            prop_assert!(cache.undo());
            prop_assert!(state(&cache) == state(&expected));
            prop_assert_eq!(cache.hand, expected.hand);
            apply(&mut cache, &after);
            apply(&mut expected, &after);
            prop_assert!(state(&cache) == state(&expected));
        }
    }

    #[test]
    fn what_changes_too_much_is_not_put_back() {
        let limits = Limits {
            copies: 1,
            bytes: 3 * undo::STEP_BYTES + 30,
        };
        for (changes, is_put_back) in [(2, true), (3, false)] {
            let mut cache = PageCache::new(8);
            apply(&mut cache, &[(1, 2, 0, 1), (2, 2, 0, 1)]);
            cache.remember_within(limits);
            for change in 0..changes {
                apply(&mut cache, &[(1 + change % 2, 1, 100, change as u8 + 2)]);
            }
            assert_eq!(cache.undo(), is_put_back, "{changes} changes");
        }
        assert!(!PageCache::new(1).undo(), "nothing is remembered");
    }
}
