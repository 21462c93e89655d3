//! The order in which items lie on a page, against the order of their line pointers.
//!
//! Items are added from the end of the page towards its beginning. Seen in this order, each
//! item has a rank among those before it, by line pointer. On a page that was filled in the
//! order of the line pointers each is the last one. An item that came later, in the middle of
//! an index, is not: only it costs something.

use walzip_pgformat::PAGE_SIZE;

use crate::coder::{Coder, Slot};
use crate::stream_kind::StreamKind;

/// Line pointers of a page at most.
pub const ITEMS_MAX: usize = (PAGE_SIZE - 24) / 4;

/// A set of numbers below [`ITEMS_MAX`].
struct Set([u64; ITEMS_MAX.div_ceil(64)]);

impl Set {
    fn below(&self, item: usize) -> usize {
        let word = item / 64;
        let whole: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        let part = self.0[word] & ((1 << (item % 64)) - 1);
        (whole + part.count_ones()) as usize
    }

    fn insert(&mut self, item: usize) {
        self.0[item / 64] |= 1 << (item % 64);
    }
}

/// The streams of the order of items of one class of pages.
#[derive(Debug, Default)]
pub struct OrderStreams {
    sorted: Slot,
    distance: Slot,
}

impl OrderStreams {
    /// Codes a permutation of the numbers below `order.len()`.
    pub fn code<C: Coder>(&mut self, coder: &mut C, order: &mut [u16]) {
        let mut distances = [0u16; ITEMS_MAX];
        let distances = &mut distances[..order.len().min(ITEMS_MAX)];
        if C::ENCODING {
            distances_of(order, distances);
        }
        let sorted = distances
            .iter()
            .take_while(|&&distance| distance == 0)
            .count();
        let stream = self.sorted.open(coder, StreamKind::ItemOrder, 2);
        let sorted = usize::from(coder.u16(stream, sorted as u16));
        let Some(unsorted) = distances.get_mut(sorted..) else {
            return coder.fail();
        };
        if !unsorted.is_empty() {
            let stream = self.distance.open(coder, StreamKind::ItemOrder, 2);
            for distance in unsorted {
                *distance = coder.u16(stream, *distance);
            }
        }
        if !C::ENCODING && !order_of(distances, order) {
            coder.fail();
        }
    }
}

fn distances_of(order: &[u16], distances: &mut [u16]) {
    let mut seen = Set([0; ITEMS_MAX.div_ceil(64)]);
    for (count, (item, distance)) in order.iter().zip(distances).enumerate() {
        *distance = (count - seen.below(usize::from(*item))) as u16;
        seen.insert(usize::from(*item));
    }
}

/// The last item has its rank among all; without it, the one before has, and so on.
fn order_of(distances: &[u16], order: &mut [u16]) -> bool {
    let mut left = [0u16; ITEMS_MAX];
    for (item, place) in left.iter_mut().enumerate().take(distances.len()) {
        *place = item as u16;
    }
    for (place, &distance) in distances.iter().enumerate().rev() {
        let Some(rank) = place.checked_sub(usize::from(distance)) else {
            return false;
        };
        order[place] = left[rank];
        left.copy_within(rank + 1..=place, rank);
    }
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
            let mut distances = vec![0; order.len()];
            distances_of(&order, &mut distances);
            let mut found = vec![0; order.len()];
            prop_assert!(order_of(&distances, &mut found));
            prop_assert_eq!(found, order);
        }
    }
}
