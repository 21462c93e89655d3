//! The distinct values of a column, and how often each occurs.

use crate::compressors::trial::entropy_bytes;
use crate::fast_hash::{fold, random_seed};
use crate::streams::coder::{get, get_u16, get_u32};

use super::dictionary::{VALUE_LEN_MAX, VALUES_MAX};

/// Number of values after which columns of mostly new values are given up.
const SAMPLE: usize = 2048;
/// Estimated compressed size of one byte of the list.
const LIST_COST: f64 = 0.8;
/// Initial number of slots of the table.
const TABLE_LEN_MIN: usize = 256;

/// The distinct values of a column.
pub struct DistinctValues<'a> {
    /// The distinct values, in the order of their first occurrence.
    values: Vec<Value<'a>>,
    /// For each value of the column, its index in `values`.
    indexes: Vec<u16>,
}

#[derive(Clone, Copy)]
struct Value<'a> {
    bytes: &'a [u8],
    ends: Ends,
    hash: u64,
    count: u32,
}

/// The first and the last bytes of a value. Of a value of up to 16 bytes they are all its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends(u64, u64);

impl Ends {
    #[inline]
    fn of(value: &[u8]) -> Ends {
        let last = |len: usize| value.len() - len;
        match value.len() {
            8.. => Ends(
                u64::from_le_bytes(get(value, 0)),
                u64::from_le_bytes(get(value, last(8))),
            ),
            4..=7 => Ends(get_u32(value, 0).into(), get_u32(value, last(4)).into()),
            2..=3 => Ends(get_u16(value, 0).into(), get_u16(value, last(2)).into()),
            _ => Ends(value.first().copied().unwrap_or_default().into(), 0),
        }
    }
}

/// Finds values by their hashes. The seed is random, because clients of the database choose the
/// values.
struct Table {
    /// The index of a value plus 1; 0 in an empty slot.
    slots: Vec<u32>,
    seed: u64,
}

impl Table {
    fn new() -> Table {
        Table {
            slots: vec![0; TABLE_LEN_MIN],
            seed: random_seed(),
        }
    }

    #[inline]
    fn hash(&self, value: &[u8], ends: Ends) -> u64 {
        let mut hash = fold(self.seed ^ ends.0);
        if value.len() > 16 {
            for word in value.as_chunks().0 {
                hash = fold(hash ^ u64::from_le_bytes(*word));
            }
        }
        fold(hash ^ ends.1 ^ (value.len() as u64) << 56)
    }

    /// The index of a value in `known`. A new value is appended.
    #[inline]
    fn index_of<'a>(&mut self, known: &mut Vec<Value<'a>>, value: &'a [u8]) -> usize {
        let ends = Ends::of(value);
        let hash = self.hash(value, ends);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(index) = (self.slots[slot] as usize).checked_sub(1) {
            let other = &known[index];
            if other.ends == ends
                && other.bytes.len() == value.len()
                && (value.len() <= 16 || other.bytes == value)
            {
                return index;
            }
            slot = (slot + 1) & mask;
        }
        known.push(Value {
            bytes: value,
            ends,
            hash,
            count: 0,
        });
        self.slots[slot] = known.len() as u32;
        if known.len() * 2 > self.slots.len() {
            self.grow(known);
        }
        known.len() - 1
    }

    #[cold]
    fn grow(&mut self, known: &[Value<'_>]) {
        let mask = self.slots.len() * 4 - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, 0);
        for (number, value) in (1..).zip(known) {
            let mut slot = value.hash as usize & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = number;
        }
    }
}

impl<'a> DistinctValues<'a> {
    /// Returns `None` if a dictionary cannot hold the values, or if it does not pay because its
    /// list alone would cost more than `limit` bytes.
    pub fn of(values: &[&'a [u8]], limit: f64) -> Option<DistinctValues<'a>> {
        let list_len_max = (limit / LIST_COST) as usize;
        let mut list_len = 0;
        let mut table = Table::new();
        let mut distinct = DistinctValues {
            values: Vec::new(),
            indexes: Vec::with_capacity(values.len()),
        };
        for (seen, value) in values.iter().enumerate() {
            let count = distinct.values.len();
            if value.len() > VALUE_LEN_MAX || count == VALUES_MAX || count * 2 > values.len() {
                return None;
            }
            // Mostly new values: no dictionary will pay.
            if seen == SAMPLE && count > SAMPLE * 3 / 5 {
                return None;
            }
            let index = table.index_of(&mut distinct.values, value);
            if index == count {
                list_len += value.len() + 1;
                if list_len > list_len_max {
                    return None;
                }
            }
            distinct.values[index].count += 1;
            distinct.indexes.push(index as u16);
        }
        let count = distinct.values.len();
        (count >= 2 && count * 2 <= values.len()).then_some(distinct)
    }

    /// Estimated compressed size of the list and the column of numbers.
    pub fn cost(&self) -> f64 {
        let mut counts: Vec<u32> = self.values.iter().map(|value| value.count).collect();
        let numbers = if counts.len() <= 256 {
            entropy_bytes(counts.into_iter())
        } else {
            // Two planes, the low and the high bytes, each coded independently of the other.
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let mut planes = [[0u32; 256]; 2];
            for (number, count) in counts.iter().enumerate() {
                planes[0][number & 0xFF] += count;
                planes[1][number >> 8] += count;
            }
            planes
                .iter()
                .map(|plane| entropy_bytes(plane.iter().copied()))
                .sum()
        };
        let content: usize = self.values.iter().map(|value| value.bytes.len() + 1).sum();
        numbers + content as f64 * LIST_COST
    }

    /// The distinct values, the most frequent first, and for each value of the column its number
    /// in that list.
    pub fn ranked(self) -> (Vec<Vec<u8>>, Vec<u16>) {
        let mut order: Vec<u16> = (0..=u16::MAX).take(self.values.len()).collect();
        let of = |index: &u16| &self.values[usize::from(*index)];
        order.sort_unstable_by(|a, b| {
            let (a, b) = (of(a), of(b));
            b.count.cmp(&a.count).then(a.bytes.cmp(b.bytes))
        });
        let mut ranks = vec![0; order.len()];
        for (rank, index) in (0..=u16::MAX).zip(&order) {
            ranks[usize::from(*index)] = rank;
        }
        let values = order.iter().map(|index| of(index).bytes.to_vec()).collect();
        let numbers = self.indexes.iter();
        let numbers = numbers.map(|index| ranks[usize::from(*index)]).collect();
        (values, numbers)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn every_value_is_counted_and_found_again(
            known in proptest::collection::hash_set(proptest::collection::vec(0u8..3, 1..40), 2..600),
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1300..2000),
        ) {
            let known: Vec<Vec<u8>> = known.into_iter().collect();
            let values: Vec<&[u8]> = picks.iter().map(|pick| &pick.get(&known)[..]).collect();
            let mut counts: HashMap<&[u8], u32> = HashMap::new();
            for value in &values {
                *counts.entry(value).or_default() += 1;
            }
            prop_assume!(counts.len() >= 2);
            let distinct = DistinctValues::of(&values, f64::MAX).unwrap();
            for value in &distinct.values {
                prop_assert_eq!(counts.remove(value.bytes), Some(value.count));
            }
            prop_assert!(counts.is_empty());
            let (ranked, numbers) = distinct.ranked();
            for (number, value) in numbers.iter().zip(&values) {
                prop_assert_eq!(&ranked[usize::from(*number)], value);
            }
        }
    }

    #[test]
    fn values_that_begin_and_end_alike_differ() {
        let values: Vec<Vec<u8>> = (0..64u8)
            .map(|n| [[7; 8], [n % 4; 8], [7; 8]].concat())
            .collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        assert_eq!(
            DistinctValues::of(&values, f64::MAX).unwrap().values.len(),
            4
        );
    }
}
