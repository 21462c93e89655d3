//! Floats that are decimal fractions: prices and measurements with a few digits behind the point.
//! In binary their low bytes look random; times a power of ten they are small integers.

use crate::streams::coder::{Coder, StreamId, get};
use crate::streams::kind::StreamKind;

/// Values that are looked at first.
const SAMPLE: usize = 64;
/// Of these, all but so many are fractions where the others are worth it.
const EXCEPTIONS_OF: usize = 16;
/// Powers of ten by which floats are divided, by their length. A float of four bytes is a multiple
/// of every smaller power.
const DIGITS_MAX: [(usize, u8); 2] = [(4, 4), (8, 9)];

const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Digits behind the point that floats have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimals(u8);

impl Decimals {
    /// So many digits, at most nine.
    pub const fn of_digits(digits: u8) -> Decimals {
        Decimals(digits)
    }

    /// The fewest digits that most floats of `len` bytes have. `None` if they have too many.
    pub fn of(values: &[&[u8]], len: usize) -> Option<Decimals> {
        let (_, digits_max) = DIGITS_MAX.into_iter().find(|(known, _)| *known == len)?;
        let sample = || values.iter().step_by(values.len().div_ceil(SAMPLE).max(1));
        let count = sample().count();
        (0..=digits_max).map(Decimals).find(|decimals| {
            let mut exceptions = sample().filter(|value| decimals.down(value).is_none());
            exceptions.nth(count / EXCEPTIONS_OF).is_none()
        })
    }

    /// The multiple of the smallest fraction that a float of 4 or 8 bytes is.
    pub fn down(self, value: &[u8]) -> Option<i64> {
        let (float, max) = match value.len() {
            4 => (
                f64::from(f32::from_le_bytes(get(value, 0))),
                f64::from(i32::MAX),
            ),
            _ => (f64::from_le_bytes(get(value, 0)), (1u64 << 53) as f64),
        };
        let multiple = (float * self.power()).round();
        if multiple.is_nan() || multiple.abs() >= max {
            return None;
        }
        let multiple = multiple as i64;
        let is_same = match value.len() {
            4 => self.bits4(multiple) == get(value, 0),
            _ => self.bits8(multiple) == get(value, 0),
        };
        is_same.then_some(multiple)
    }

    fn up(self, multiple: i64) -> f64 {
        multiple as f64 / self.power()
    }

    fn bits4(self, multiple: i64) -> [u8; 4] {
        (self.up(multiple) as f32).to_le_bytes()
    }

    fn bits8(self, multiple: i64) -> [u8; 8] {
        self.up(multiple).to_le_bytes()
    }

    fn power(self) -> f64 {
        POWERS.get(usize::from(self.0)).copied().unwrap_or(1.0)
    }
}

/// The streams of a column of decimal fractions.
#[derive(Debug)]
pub struct DecimalStreams {
    decimals: Decimals,
    multiples: StreamId,
    /// Floats that are no such fractions.
    others: StreamId,
}

impl DecimalStreams {
    /// Codes how many digits there are, and opens the streams of floats of `len` bytes.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        decimals: Decimals,
        len: usize,
    ) -> DecimalStreams {
        let digits = coder.u8(choices, decimals.0);
        if usize::from(digits) >= POWERS.len() {
            coder.fail();
        }
        DecimalStreams {
            decimals: Decimals(digits),
            multiples: coder.open(StreamKind::Value, len),
            others: coder.open(StreamKind::Value, len),
        }
    }

    /// Codes the float of 4 or 8 bytes at `start`.
    pub fn code<C: Coder>(&self, coder: &mut C, data: &mut [u8], start: usize, len: usize) {
        let mut known = None;
        if C::ENCODING {
            known = data
                .get(start..start + len)
                .and_then(|value| self.decimals.down(value));
        }
        if len == 4 {
            let known = known.map_or(i32::MIN, |multiple| multiple as i32);
            match coder.u32(self.multiples, known as u32) as i32 {
                i32::MIN => {
                    coder.u32_at(self.others, data, start);
                }
                multiple => coder.put(data, start, self.decimals.bits4(multiple.into())),
            }
        } else {
            match coder.u64(self.multiples, known.unwrap_or(i64::MIN) as u64) as i64 {
                i64::MIN => {
                    coder.u64_at(self.others, data, start);
                }
                multiple => coder.put(data, start, self.decimals.bits8(multiple)),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn floats_that_are_taken_for_fractions_come_back(bits in any::<u64>(), digits in 0u8..10) {
            let decimals = Decimals(digits);
            for float in [f64::from_bits(bits), (bits as i32) as f64 / 1000.0] {
                if let Some(multiple) = decimals.down(&float.to_le_bytes()) {
                    prop_assert_eq!(decimals.bits8(multiple), float.to_le_bytes());
                }
                let float = float as f32;
                if let Some(multiple) = decimals.down(&float.to_le_bytes()) {
                    prop_assert_eq!(decimals.bits4(multiple), float.to_le_bytes());
                }
            }
        }
    }

    #[test]
    fn finds_the_digits_of_fractions() {
        let floats: Vec<[u8; 8]> = (0..200)
            .map(|number| (f64::from(number * 7) / 1000.0).to_le_bytes())
            .collect();
        let values: Vec<&[u8]> = floats.iter().map(|float| &float[..]).collect();
        assert_eq!(Decimals::of(&values, 8), Some(Decimals(3)));
        let thirds: Vec<[u8; 8]> = (1..200)
            .map(|number| (f64::from(number) / 3.0).to_le_bytes())
            .collect();
        let values: Vec<&[u8]> = thirds.iter().map(|float| &float[..]).collect();
        assert_eq!(Decimals::of(&values, 8), None);
        for odd in [f64::NAN, f64::INFINITY, -0.0, 1e300, f64::MIN_POSITIVE] {
            assert_eq!(Decimals(2).down(&odd.to_le_bytes()), None);
        }
    }
}
