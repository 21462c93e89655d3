//! Integers with the same remainder modulo a divisor: timestamps in whole seconds or
//! milliseconds, amounts in steps of five, integers stored as floats. The quotients have fewer
//! significant bytes than the integers.

use crate::streams::coder::{Coder, StreamId, get, get_u32};

/// Minimum number of values: fewer may have a common divisor by chance.
const VALUES_MIN: usize = 32;

/// The divisor and the remainder that integers have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    divisor: i64,
    remainder: i64,
}

impl Scale {
    /// The greatest common divisor of the differences of little-endian integers of `len` bytes,
    /// and their remainder. `None` if the divisor is 1 or all values are equal.
    pub fn of(values: &[&[u8]], len: usize) -> Option<Scale> {
        let (first, rest) = values.split_first()?;
        if values.len() < VALUES_MIN || values.iter().any(|value| value.len() != len) {
            return None;
        }
        let first = integer(first, 0, len);
        let mut divisor = 0;
        for value in rest {
            let difference = integer(value, 0, len).abs_diff(first);
            divisor = greatest_common_divisor(divisor, difference);
            if divisor == 1 {
                return None;
            }
        }
        let divisor = i64::try_from(divisor).ok().filter(|&divisor| divisor > 1)?;
        Some(Scale {
            divisor,
            remainder: first.rem_euclid(divisor),
        })
    }

    /// Codes the scale itself.
    pub fn code<C: Coder>(self, coder: &mut C, choices: StreamId) -> Scale {
        let scale = Scale {
            divisor: coder.u64(choices, self.divisor as u64) as i64,
            remainder: coder.u64(choices, self.remainder as u64) as i64,
        };
        if scale.divisor < 2 {
            coder.fail();
        }
        scale
    }

    /// Codes the integer of `len` bytes at `at`, as its quotient.
    pub fn code_value<C: Coder>(
        self,
        coder: &mut C,
        stream: StreamId,
        data: &mut [u8],
        at: usize,
        len: usize,
    ) {
        if len == 4 {
            let scaled = if C::ENCODING {
                self.divide(integer(data, at, len))
            } else {
                0
            };
            let scaled = i64::from(coder.u32(stream, scaled as u32) as i32);
            coder.put(data, at, (self.up(scaled) as u32).to_le_bytes());
        } else {
            let scaled = if C::ENCODING {
                self.divide(integer(data, at, len))
            } else {
                0
            };
            let scaled = coder.u64(stream, scaled as u64) as i64;
            coder.put(data, at, self.up(scaled).to_le_bytes());
        }
    }

    /// The quotient of an integer.
    pub fn down(self, value: &[u8]) -> i64 {
        self.divide(integer(value, 0, value.len()))
    }

    fn divide(self, value: i64) -> i64 {
        value.div_euclid(self.divisor)
    }

    fn up(self, scaled: i64) -> i64 {
        scaled
            .wrapping_mul(self.divisor)
            .wrapping_add(self.remainder)
    }
}

/// The signed little-endian integer of 4 or 8 bytes at `at`.
fn integer(bytes: &[u8], at: usize, len: usize) -> i64 {
    match len {
        4 => i64::from(get_u32(bytes, at) as i32),
        _ => i64::from_le_bytes(get(bytes, at)),
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_from_its_scale(factors in prop::collection::vec(-1000i64..1000, 32..50), step in 2i64..1_000_000, start in any::<i32>()) {
            let values: Vec<[u8; 8]> = factors
                .iter()
                .map(|factor| (i64::from(start) + factor * step).to_le_bytes())
                .collect();
            let slices: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
            if let Some(scale) = Scale::of(&slices, 8) {
                for value in slices {
                    prop_assert_eq!(scale.up(scale.down(value)).to_le_bytes(), value);
                }
            } else {
                // All values are equal: there is no difference to divide.
                prop_assert!(factors.iter().all(|factor| *factor == factors[0]));
            }
        }
    }

    #[test]
    fn needs_something_in_common() {
        let odd: Vec<[u8; 4]> = (0..40i32).map(|value| (value - 20).to_le_bytes()).collect();
        let slices: Vec<&[u8]> = odd.iter().map(|value| &value[..]).collect();
        assert_eq!(Scale::of(&slices, 4), None);
    }
}
