//! Pages by relation, fork and block: as many as fit.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use walzip_pgformat::wal::{Block, RelFileLocator};

use crate::page::{Page, PageBytes};

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

fn zeros() -> Arc<PageBytes> {
    Arc::new([0; walzip_pgformat::PAGE_SIZE])
}

#[derive(Clone)]
struct Slot {
    key: PageKey,
    /// Another cache may have the same one, until one of them changes it.
    page: Arc<PageBytes>,
    was_used: bool,
}

/// Pages that records have left. Where there are too many, one that was not used for long goes.
/// Which one follows from what was asked for, and from nothing else.
#[derive(Clone)]
pub struct PageCache {
    /// Whoever writes to the database chooses the keys: the hash begins at random.
    places: HashMap<PageKey, u32, RandomState>,
    slots: Vec<Slot>,
    pages_max: usize,
    hand: usize,
}

impl PageCache {
    /// Keeps at most so many pages, at least one.
    pub fn new(pages_max: usize) -> PageCache {
        PageCache {
            places: HashMap::default(),
            slots: Vec::new(),
            pages_max: pages_max.max(1),
            hand: 0,
        }
    }

    /// Raises the number of pages that are kept.
    pub fn allow(&mut self, pages_max: usize) {
        self.pages_max = self.pages_max.max(pages_max);
    }

    /// Replaces its pages by those of another cache, so that there is one copy of them. Returns
    /// whether it had the same pages. If not, it must not be used any more.
    pub fn share(&mut self, other: &PageCache) -> bool {
        if self.slots.len() != other.slots.len() || self.hand != other.hand {
            return false;
        }
        let mut pairs = self.slots.iter_mut().zip(&other.slots);
        pairs.all(|(slot, other)| {
            let is_same = Arc::ptr_eq(&slot.page, &other.page) || slot.page == other.page;
            slot.page = Arc::clone(&other.page);
            is_same && slot.key == other.key && slot.was_used == other.was_used
        })
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

    /// A page that is kept, without using it.
    pub fn peek(&self, key: &PageKey) -> Option<&PageBytes> {
        let slot = self.slots.get(*self.places.get(key)? as usize)?;
        Some(&slot.page)
    }

    /// A page that is kept, to change, without using it.
    pub fn peek_mut(&mut self, key: &PageKey) -> Option<&mut PageBytes> {
        let slot = self.slots.get_mut(*self.places.get(key)? as usize)?;
        Some(Arc::make_mut(&mut slot.page))
    }

    /// A page that is kept.
    pub fn get_mut(&mut self, key: &PageKey) -> Option<&mut PageBytes> {
        let slot = self.slots.get_mut(*self.places.get(key)? as usize)?;
        slot.was_used = true;
        Some(Arc::make_mut(&mut slot.page))
    }

    /// A page that is kept, or else one of zeros that is kept from now on.
    pub fn get_or_new(&mut self, key: PageKey) -> &mut PageBytes {
        let place = match self.places.get(&key) {
            Some(&place) => place as usize,
            None => self.place_for(key),
        };
        let slot = &mut self.slots[place];
        slot.was_used = true;
        Arc::make_mut(&mut slot.page)
    }

    fn place_for(&mut self, key: PageKey) -> usize {
        let place = if self.slots.len() < self.pages_max {
            self.slots.push(Slot {
                key,
                page: zeros(),
                was_used: true,
            });
            self.slots.len() - 1
        } else {
            let place = self.unused();
            let slot = &mut self.slots[place];
            self.places.remove(&slot.key);
            slot.key = key;
            slot.page = zeros();
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
