//! Forms by which values of an attribute are known, whatever they are: floats that are decimal
//! fractions, and uuids.

use crate::model::values::attribute::Attribute;
use crate::model::values::decimal::Decimals;

/// Fewer values may look like anything.
const VALUES_MIN: usize = 12;
/// Bytes of a uuid that tell it from other values: those without the version.
const RANDOM: [usize; 13] = [0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14];
/// What a form counts for among the likely attributes: more than a likely integer.
const FORM_SCORE: u32 = 112;

/// What all values at some place of the samples look like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forms {
    float4: bool,
    float8: bool,
    uuid: bool,
}

impl Forms {
    /// Of values: the samples that have one, and the offsets where they may begin.
    pub fn of<'a, I: Iterator<Item = (&'a [u8], usize)>>(values: impl Fn() -> I) -> Forms {
        if values().count() < VALUES_MIN {
            return Forms::default();
        }
        Forms {
            float4: are_floats(values(), 4),
            float8: are_floats(values(), 8),
            uuid: are_random(values()),
        }
    }

    /// How likely the attribute is by what is known of it.
    pub fn score(self, attribute: Attribute) -> u32 {
        let is_known = match attribute {
            Attribute::Fixed4 => self.float4,
            Attribute::Fixed8 => self.float8,
            Attribute::Uuid => self.uuid,
            _ => false,
        };
        if is_known { FORM_SCORE } else { 0 }
    }
}

/// Whether the values are floats with a few digits, and not all are zero.
fn are_floats<'a>(values: impl Iterator<Item = (&'a [u8], usize)>, len: usize) -> bool {
    const FEW: [Decimals; 2] = [Decimals::of_digits(2), Decimals::of_digits(4)];
    const SMALLEST: i64 = 2;
    let mut others = 0;
    for (data, offset) in values {
        let start = offset.next_multiple_of(len);
        let Some(value) = data.get(start..start + len) else {
            return false;
        };
        // The bytes of an integer are a float that is next to nothing.
        let multiple = FEW.iter().find_map(|decimals| decimals.down(value));
        match multiple {
            None => return false,
            Some(multiple) => others += usize::from(multiple.abs() >= SMALLEST),
        }
    }
    others >= VALUES_MIN / 2
}

/// Whether each of the bytes of a uuid differs from value to value.
fn are_random<'a>(values: impl Iterator<Item = (&'a [u8], usize)>) -> bool {
    let mut seen = [[0u64; 4]; RANDOM.len()];
    let mut count = 0;
    for (data, offset) in values {
        let Some(value) = data.get(offset..offset + 16) else {
            return false;
        };
        for (seen, &at) in seen.iter_mut().zip(&RANDOM) {
            let byte = usize::from(value[at]);
            seen[byte / 64] |= 1 << (byte % 64);
        }
        count += 1;
    }
    let distinct = |seen: &[u64; 4]| seen.iter().map(|word| word.count_ones()).sum::<u32>();
    seen.iter().all(|seen| distinct(seen) * 4 >= count * 3)
}
