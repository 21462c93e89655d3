//! The order of the items on a page, relative to the order of their line pointers.
//!
//! PostgreSQL adds items from the end of the page towards its beginning. In this order each item
//! has a distance: the number of earlier items with a higher line pointer. If the page was filled
//! in the order of its line pointers, all distances are 0. Only an item that was inserted in the
//! middle, as in an index, has another one.

use walzip_pgformat::PAGE_SIZE;

use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// Maximum number of line pointers of a page.
pub const ITEMS_MAX: usize = (PAGE_SIZE - 24) / 4;

/// A set of numbers below [`ITEMS_MAX`].
struct Set {
    words: [u64; ITEMS_MAX.div_ceil(64)],
    highest: usize,
}

impl Set {
    /// The number of members above `item`.
    fn above(&self, item: usize) -> u16 {
        let Some((word, rest)) = self.words[item / 64..=self.highest / 64].split_first() else {
            return 0;
        };
        let part = (word >> (item % 64) >> 1).count_ones();
        let whole: u32 = rest.iter().map(|word| word.count_ones()).sum();
        (part + whole) as u16
    }

    fn insert(&mut self, item: usize) {
        self.words[item / 64] |= 1 << (item % 64);
        self.highest = self.highest.max(item);
    }
}

/// The streams of the order of items of one class of pages.
#[derive(Debug, Default)]
pub struct OrderStreams {
    sorted: LazyStream,
    distance: LazyStream,
    distances: Vec<u16>,
    left: Vec<u16>,
}

impl OrderStreams {
    /// Codes `order`, a permutation of the numbers below its length.
    pub fn code<C: Coder>(&mut self, coder: &mut C, order: &mut [u16]) {
        let len = order.len().min(ITEMS_MAX);
        let known = if C::ENCODING { ascending(order) } else { 0 };
        let stream = self.sorted.open(coder, StreamKind::ItemOrder, 2);
        let sorted = usize::from(coder.u16(stream, known as u16));
        if sorted >= len {
            if sorted > len {
                return coder.fail();
            }
            if !C::ENCODING {
                identity(order);
            }
            return;
        }
        self.distances.clear();
        self.distances.resize(len - sorted, 0);
        if C::ENCODING {
            distances_of(order, sorted, &mut self.distances);
        }
        let stream = self.distance.open(coder, StreamKind::ItemOrder, 2);
        coder.u16s(stream, &mut self.distances);
        if !C::ENCODING && !order_of(sorted, &self.distances, order, &mut self.left) {
            coder.fail();
        }
    }
}

/// The length of the ascending run at the front of `order`.
fn ascending(order: &[u16]) -> usize {
    let pairs = order.iter().zip(order.iter().skip(1));
    let rising = pairs.take_while(|(before, item)| before < item).count();
    (rising + 1).min(order.len())
}

fn identity(order: &mut [u16]) {
    for (item, slot) in (0..).zip(order) {
        *slot = item;
    }
}

/// The distance of each item from index `sorted` on: how many items before it have a higher number.
fn distances_of(order: &[u16], sorted: usize, distances: &mut [u16]) {
    let mut seen = Set {
        words: [0; ITEMS_MAX.div_ceil(64)],
        highest: 0,
    };
    let (first, others) = order.split_at(sorted);
    for item in first {
        seen.insert(usize::from(*item));
    }
    for (item, distance) in others.iter().zip(distances) {
        let item = usize::from(*item);
        if item < seen.highest {
            *distance = seen.above(item);
        }
        seen.insert(item);
    }
}

/// The reverse of [`distances_of`]. Returns `false` if there is no such order.
///
/// Goes from the last item to the first: the distance of the last one gives its rank among all
/// items, that of the one before its rank among the others, and so on. `left` is memory to work
/// with.
fn order_of(sorted: usize, distances: &[u16], order: &mut [u16], left: &mut Vec<u16>) -> bool {
    let count = sorted + distances.len();
    left.resize(count, 0);
    identity(left);
    for (index, &distance) in (sorted..count).zip(distances).rev() {
        let Some(rank) = index.checked_sub(usize::from(distance)) else {
            return false;
        };
        order[index] = left[rank];
        left.copy_within(rank + 1..=index, rank);
    }
    order[..sorted].copy_from_slice(&left[..sorted]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_order_from_the_distances(
            order in (0usize..ITEMS_MAX).prop_flat_map(|count| {
                Just((0..count as u16).collect::<Vec<_>>()).prop_shuffle()
            })
        ) {
            let sorted = ascending(&order);
            let mut distances = vec![0; order.len() - sorted];
            distances_of(&order, sorted, &mut distances);
            let mut found = vec![0; order.len()];
            prop_assert!(order_of(sorted, &distances, &mut found, &mut Vec::new()));
            prop_assert_eq!(found, order);
        }
    }
}
