//! What values would take if they were of some attribute: a guide for the search for attributes.

use super::sample::SAMPLES_MAX;
use crate::model::values::attribute::Attribute;

/// Bytes from the beginning of a varlena that are compared with those of others.
const COMPARED_LEN: usize = 24;
/// Costs are in this part of a bit.
const UNIT: f64 = 16.0;

/// What bytes take that are guessed from those of other values.
pub struct Prices {
    /// How often each byte was there; zeros between two uses.
    counts: [u8; 256],
    /// The binary logarithms of numbers.
    log2: [i32; SAMPLES_MAX + 2],
    /// What each byte takes by itself.
    alone: [i32; 256],
}

impl Prices {
    /// For values of these tuples, which are no more than [`SAMPLES_MAX`].
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

    /// What so many bytes of padding take by themselves.
    pub fn padding(&self, len: usize) -> i32 {
        len as i32 * self.alone[0]
    }

    /// What the values take, less what their bytes take by themselves; `None` where they cannot
    /// be values of the attribute.
    pub fn of(&mut self, attribute: Attribute, values: &[&[u8]]) -> Option<i32> {
        let rarity = values.len() as i32 * rarity(attribute);
        match attribute {
            // What looks like noise need not have anything in common.
            Attribute::Uuid | Attribute::Fixed16 => return Some(rarity),
            Attribute::Name if !values.iter().all(|value| is_name(value)) => return None,
            _ => {}
        }
        let compared = attribute.fixed().map_or(COMPARED_LEN, |(len, _)| len);
        let is_number = attribute.fixed().is_some_and(|(len, _)| len <= 8);
        let (mut cost, mut below) = (rarity, i32::MAX);
        for place in 0..compared {
            let (taken, alone) = self.of_place(values, place);
            cost += match place {
                0 => taken - alone,
                _ => (taken - alone).min(0),
            };
            if is_number {
                // The higher a byte of a number, the less it tells.
                cost += taken.saturating_sub(below).max(0) / 2;
                below = taken;
            }
        }
        Some(if is_number { cost + below / 2 } else { cost })
    }

    /// What the bytes at a place take, one after the other: one that was there by its count,
    /// another one as often as there were such. And what they take by themselves.
    fn of_place(&mut self, values: &[&[u8]], place: usize) -> (i32, i32) {
        let (mut taken, mut alone) = (0, 0);
        let mut different = 0;
        let bytes = || values.iter().filter_map(|value| value.get(place));
        for (seen, &byte) in bytes().enumerate() {
            let own = self.alone[usize::from(byte)];
            let count = &mut self.counts[usize::from(byte)];
            alone += own;
            taken += self.log2[seen + 2];
            if *count == 0 {
                taken += own - self.log2[different + 1];
                different += 1;
            } else {
                taken += self.log2[seen] - self.log2[usize::from(*count)];
                taken -= self.log2[seen + 1 - different];
            }
            *count += 1;
        }
        for &byte in bytes() {
            self.counts[usize::from(byte)] = 0;
        }
        (taken, alone)
    }
}

/// How much less likely an attribute is than others.
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
