//! What contexts have seen: for half a byte in a context, a slot of fifteen bit histories.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::fixed_table;
use super::prefetch::prefetch;

/// A check byte, and the histories of the nodes of a binary tree of depth four: 1 is the
/// root, 2 n and 2 n + 1 are below n.
pub type Slot = [u8; 16];

/// Slots of a table, as a power of two.
const SLOTS_LOG: u32 = 18;
const SLOTS: usize = 1 << SLOTS_LOG;

/// The slots of one context.
pub struct Slots(Box<[Slot; SLOTS]>);

impl Slots {
    /// All empty.
    pub fn new() -> Slots {
        Slots(fixed_table([0; 16]))
    }

    /// The place of a context's slot: the one with its check byte, or of three the one whose
    /// root has seen least, which becomes empty.
    #[inline(always)]
    pub fn find(&mut self, hash: u32) -> usize {
        let check = (hash >> 24) as u8;
        let first = hash as usize & (SLOTS - 1);
        let mut least = first;
        for place in [first, first ^ 1, first ^ 2] {
            let slot = &self.0[place];
            if slot[0] == check {
                return place;
            }
            if slot[1] < self.0[least][1] {
                least = place;
            }
        }
        self.0[least] = [0; 16];
        self.0[least][0] = check;
        least
    }

    /// The context will be looked for soon.
    #[inline(always)]
    pub fn expect(&self, hash: u32) {
        prefetch(&self.0[hash as usize & (SLOTS - 1)]);
    }

    #[inline(always)]
    pub fn get(&self, place: usize) -> Slot {
        self.0[place & (SLOTS - 1)]
    }

    #[inline(always)]
    pub fn put(&mut self, place: usize, slot: Slot) {
        self.0[place & (SLOTS - 1)] = slot;
    }
}
