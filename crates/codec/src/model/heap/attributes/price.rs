//! Estimates the bytes that values would take if they were of an attribute. Guides the search for
//! attributes.

use super::sample::SAMPLES_MAX;
use crate::model::values::attribute::Attribute;

/// Number of bytes at the front of a varlena that count for its cost.
const COMPARED_LEN: usize = 24;
/// Units of cost in one bit.
const UNIT: f64 = 16.0;

/// Estimates the cost of bytes, given the same bytes of other values.
pub struct Prices {
    /// How often each byte occurred; zeros between two uses.
    counts: [u8; 256],
    /// The binary logarithm of each number, in units of cost.
    log2: [i32; SAMPLES_MAX + 2],
    /// The cost of each byte by its frequency in all samples.
    alone: [i32; 256],
}

impl Prices {
    /// For values of these tuples, at most [`SAMPLES_MAX`].
    pub fn new<'a>(tuples: impl Iterator<Item = &'a [u8]>) -> Prices {
        let log2 = |number: usize| ((number as f64).log2() * UNIT).round() as i32;
        let mut counts = [1usize; 256];
        for &byte in tuples.flatten() {
            counts[usize::from(byte)] += 1;
        }
        let total: usize = counts.iter().sum();
        Prices {
            counts: [0; 256],
            log2: std::array::from_fn(|number| log2(number.max(1))),
            alone: counts.map(|count| log2(total) - log2(count)),
        }
    }

    /// The cost of `len` bytes of padding by their frequency.
    pub fn padding(&self, len: usize) -> i32 {
        len as i32 * self.alone[0]
    }

    /// The cost of the values as values of the attribute, less the cost of their bytes by
    /// frequency. `None` if they cannot be values of the attribute.
    pub fn of(&mut self, attribute: Attribute, values: &[&[u8]]) -> Option<i32> {
        let rarity = values.len() as i32 * rarity(attribute);
        match attribute {
            // Their bytes may be random.
            Attribute::Uuid | Attribute::Fixed16 => return Some(rarity),
            Attribute::Name if !values.iter().all(|value| is_name(value)) => return None,
            _ => {}
        }
        let compared = attribute.fixed().map_or(COMPARED_LEN, |(len, _)| len);
        let is_number = attribute.fixed().is_some_and(|(len, _)| len <= 8);
        let (mut cost, mut below) = (rarity, i32::MAX);
        for index in 0..compared {
            let (taken, alone) = self.of_byte(values, index);
            cost += match index {
                0 => taken - alone,
                _ => (taken - alone).min(0),
            };
            if is_number {
                // A penalty if a byte costs more than the lower one before it.
                cost += taken.saturating_sub(below).max(0) / 2;
                below = taken;
            }
        }
        Some(if is_number { cost + below / 2 } else { cost })
    }

    /// The cost of the bytes at an index of the values, and their cost by frequency.
    ///
    /// The first is adaptive: a byte that has occurred costs by its count, a new one by the number
    /// of distinct bytes so far.
    fn of_byte(&mut self, values: &[&[u8]], index: usize) -> (i32, i32) {
        let (mut taken, mut alone) = (0, 0);
        let mut distinct = 0;
        let bytes = || values.iter().filter_map(|value| value.get(index));
        for (seen, &byte) in bytes().enumerate() {
            let own = self.alone[usize::from(byte)];
            let count = &mut self.counts[usize::from(byte)];
            alone += own;
            taken += self.log2[seen + 2];
            if *count == 0 {
                taken += own - self.log2[distinct + 1];
                distinct += 1;
            } else {
                taken += self.log2[seen] - self.log2[usize::from(*count)];
                taken -= self.log2[seen + 1 - distinct];
            }
            *count += 1;
        }
        for &byte in bytes() {
            self.counts[usize::from(byte)] = 0;
        }
        (taken, alone)
    }
}

/// A cost per value that stands for how rare an attribute is.
fn rarity(attribute: Attribute) -> i32 {
    match attribute {
        Attribute::Fixed4 | Attribute::Fixed8 => 1,
        Attribute::Fixed1 | Attribute::Fixed2 | Attribute::Varlena => 8,
        Attribute::Uuid => 48,
        Attribute::Fixed16 => 64,
        Attribute::Name => 128,
    }
}

/// A `NameData` ends with zeros.
fn is_name(value: &[u8]) -> bool {
    let len = value.iter().position(|&byte| byte == 0);
    len.is_some_and(|len| value[len..].iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_alike_take_less() {
        let times: Vec<[u8; 8]> = (0..20u64)
            .map(|number| (800_000_000_000_000 + number * 7_919_113).to_le_bytes())
            .collect();
        let times: Vec<&[u8]> = times.iter().map(|time| &time[..]).collect();
        let shifted: Vec<u8> = times.concat();
        let shifted: Vec<&[u8]> = (0..19)
            .map(|row| &shifted[row * 8 + row % 8..][..8])
            .collect();
        let mut prices = Prices::new(times.iter().copied());
        let cost = prices.of(Attribute::Fixed8, &times).unwrap();
        assert!(cost < prices.of(Attribute::Fixed8, &shifted).unwrap() - 1000);
        assert_eq!(prices.of(Attribute::Name, &times), None);
    }
}
