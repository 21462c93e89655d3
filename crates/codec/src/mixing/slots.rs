//! Hash tables of bit histories: a slot of fifteen histories for each half of a byte in a context.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use walzip_pgformat::prefetch::prefetch;

use super::fixed_table;

/// A check byte, then the histories of the nodes of a binary tree of depth four: node 1 is the
/// root, nodes 2 n and 2 n + 1 are the children of n.
pub type Slot = [u8; 16];

/// Binary logarithm of the number of slots of a table.
const SLOTS_LOG: u32 = 18;
const SLOTS: usize = 1 << SLOTS_LOG;

/// The slots of one context.
pub struct Slots(Box<[Slot; SLOTS]>);

impl Slots {
    /// All empty.
    pub fn new() -> Slots {
        Slots(fixed_table([0; 16]))
    }

    /// The index of a context's slot: of three candidates the first with its check byte, or else
    /// the one with the least history at its root, which is emptied.
    #[inline(always)]
    pub fn find(&mut self, hash: u32) -> usize {
        let check = (hash >> 24) as u8;
        let first = hash as usize & (SLOTS - 1);
        let mut least = first;
        for index in [first, first ^ 1, first ^ 2] {
            let slot = &self.0[index];
            if slot[0] == check {
                return index;
            }
            if slot[1] < self.0[least][1] {
                least = index;
            }
        }
        self.0[least] = [0; 16];
        self.0[least][0] = check;
        least
    }

    /// Prefetches the slot of a context.
    #[inline(always)]
    pub fn expect(&self, hash: u32) {
        prefetch(&self.0[hash as usize & (SLOTS - 1)]);
    }

    #[inline(always)]
    pub fn get(&self, index: usize) -> Slot {
        self.0[index & (SLOTS - 1)]
    }

    #[inline(always)]
    pub fn put(&mut self, index: usize, slot: Slot) {
        self.0[index & (SLOTS - 1)] = slot;
    }
}
