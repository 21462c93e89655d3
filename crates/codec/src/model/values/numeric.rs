//! Values of the type numeric (utils/adt/numeric.c) with the same number of digits behind the
//! point, as integers.
//!
//! ```text
//! 0 varlena header u8   1 n_header u16: 0x8000, sign 0x2000, scale 6 bits, weight 7 bits
//! 3 digits u16, each of four decimal ones
//! ```

use super::varlena::{VarlenaStreams, plain_content};
use crate::streams::coder::{Coder, StreamId, get_u16};
use crate::streams::kind::StreamKind;

/// `NBASE`: a digit stands for four decimal ones.
const BASE: u64 = 10_000;
const DECIMALS: u8 = 4;
/// `NUMERIC_SHORT`, `NUMERIC_SHORT_SIGN_MASK`.
const SHORT: u16 = 0x8000;
const FORM: u16 = 0xC000;
const SIGN: u16 = 0x2000;
/// Digits behind the point at most.
const SCALE_MAX: u8 = 12;
/// Integers below this can be scaled to whole digits.
const INTEGER_END: u64 = 1_000_000_000_000_000;
/// Bytes of a value at most: the header, and eight digits.
const LEN_MAX: usize = 3 + 2 * 8;
/// Stands in place of the integer for a value that is none.
const OTHER: i64 = i64::MIN;
/// Values that are looked at first, and of how many one may be something else.
const SAMPLE: usize = 64;
const EXCEPTIONS_OF: usize = 16;

/// Decimal digits behind the point that values have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale(u8);

/// A value, header included.
struct Written {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Written {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Scale {
    /// That of most values. `None` if they differ, or are something else.
    pub fn of(values: &[&[u8]]) -> Option<Scale> {
        let sample = || values.iter().step_by(values.len().div_ceil(SAMPLE).max(1));
        let (_, first) = plain_content(sample().next()?)?;
        let scale = Scale((get_u16(first, 0) >> 7 & 0x3F) as u8);
        if scale.0 > SCALE_MAX {
            return None;
        }
        let mut exceptions = sample().filter(|value| scale.down(value).is_none());
        let few = sample().count() / EXCEPTIONS_OF;
        exceptions.nth(few).is_none().then_some(scale)
    }

    /// The integer that a value is, times ten to the power of the scale. `None` where the integer
    /// would come back as another value: the server writes no digits of 0 at either end.
    pub fn down(self, value: &[u8]) -> Option<i64> {
        if value.len() < 3 || value.len() > LEN_MAX {
            return None;
        }
        let (is_long, content) = plain_content(value)?;
        let is_whole = value.first().map(|&header| usize::from(header >> 1)) == Some(value.len());
        let (header, digits) = content.split_first_chunk()?;
        let header = u16::from_le_bytes(*header);
        let (digits, rest) = digits.as_chunks::<2>();
        let scale = (header >> 7 & 0x3F) as u8;
        if is_long || !is_whole || header & FORM != SHORT || scale != self.0 || !rest.is_empty() {
            return None;
        }
        let weight = i32::from((header as u8) << 1) as i8 as i32 / 2;
        if digits.first() == Some(&[0; 2]) || digits.last() == Some(&[0; 2]) {
            return None;
        }
        // Zero has one form.
        if digits.is_empty() {
            return (header & SIGN == 0 && weight == 0).then_some(0);
        }
        let mut integer = 0u64;
        let mut place = weight;
        for digit in digits {
            let digit = u64::from(u16::from_le_bytes(*digit));
            if digit >= BASE {
                return None;
            }
            integer = integer.checked_mul(BASE)?.checked_add(digit)?;
            place -= 1;
        }
        // `integer` now counts units of the base to the power of `place + 1`.
        let exponent = (place + 1) * i32::from(DECIMALS) + i32::from(self.0);
        let power = 10u64.checked_pow(exponent.unsigned_abs())?;
        let integer = match exponent {
            0.. => integer.checked_mul(power)?,
            _ if integer.is_multiple_of(power) => integer / power,
            _ => return None,
        };
        if integer >= INTEGER_END {
            return None;
        }
        let integer = match header & SIGN {
            0 => integer as i64,
            _ => -(integer as i64),
        };
        debug_assert!(self.up(integer).is_some_and(|up| up.bytes() == value));
        Some(integer)
    }

    /// The value that an integer stands for.
    fn up(self, integer: i64) -> Option<Written> {
        let absolute = integer.unsigned_abs();
        if absolute >= INTEGER_END || self.0 > SCALE_MAX {
            return None;
        }
        let behind = self.0.div_ceil(DECIMALS);
        let missing = u32::from(behind * DECIMALS - self.0);
        let mut left = absolute.checked_mul(10u64.checked_pow(missing)?)?;
        let mut digits = [0u16; 8];
        let mut count = 0;
        for digit in digits.iter_mut().rev() {
            if left == 0 {
                break;
            }
            *digit = (left % BASE) as u16;
            left /= BASE;
            count += 1;
        }
        let first = digits.len().checked_sub(count)?;
        let digits = digits.get(first..)?;
        let weight = match count {
            0 => 0,
            _ => count as i32 - i32::from(behind) - 1,
        };
        let zeros = digits.iter().rev().take_while(|&&digit| digit == 0).count();
        let digits = digits.get(..count.checked_sub(zeros)?)?;
        let sign = if integer < 0 { SIGN } else { 0 };
        let header = SHORT | sign | u16::from(self.0) << 7 | (weight as u16 & 0x7F);
        let mut written = Written {
            bytes: [0; LEN_MAX],
            len: 3 + 2 * digits.len(),
        };
        let (front, places) = written.bytes.split_first_chunk_mut::<3>()?;
        let [low, high] = header.to_le_bytes();
        *front = [(written.len << 1 | 1) as u8, low, high];
        for (place, digit) in places.as_chunks_mut().0.iter_mut().zip(digits) {
            *place = digit.to_le_bytes();
        }
        Some(written)
    }
}

/// The streams of a column of numerics.
#[derive(Debug)]
pub struct NumericStreams {
    scale: Scale,
    integers: StreamId,
    /// Values that are no such integers.
    others: VarlenaStreams,
}

impl NumericStreams {
    /// Codes the scale, and opens the streams.
    pub fn open<C: Coder>(coder: &mut C, choices: StreamId, scale: Scale) -> NumericStreams {
        let scale = Scale(coder.u8(choices, scale.0));
        if scale.0 > SCALE_MAX {
            coder.fail();
        }
        NumericStreams {
            scale,
            integers: coder.open(StreamKind::Value, 8),
            others: VarlenaStreams::open(coder, choices, Vec::new()),
        }
    }

    /// Codes the value at `at` and returns the offset of its end.
    pub fn code<C: Coder>(&self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        if C::ENCODING {
            let len = data.get(at).map_or(0, |header| usize::from(header >> 1));
            let value = data.get(at..at + len);
            let known = value.and_then(|value| self.scale.down(value));
            coder.u64(self.integers, known.unwrap_or(OTHER) as u64);
            return match known {
                Some(_) => at + len,
                None => self.others.code(coder, data, at),
            };
        }
        let integer = coder.u64(self.integers, 0) as i64;
        if integer == OTHER {
            return self.others.code(coder, data, at);
        }
        let Some(written) = self.scale.up(integer) else {
            coder.fail();
            return at;
        };
        coder.put_slice(data, at, written.bytes());
        at + written.len
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_come_back(integer in any::<i64>(), small in -100_000i64..100_000, scale in 0u8..=SCALE_MAX) {
            for integer in [integer, integer / 100_000, small, small * 10_000, 0] {
                let Some(written) = Scale(scale).up(integer) else {
                    prop_assert!(integer.unsigned_abs() >= INTEGER_END);
                    continue;
                };
                prop_assert_eq!(Scale(scale).down(written.bytes()), Some(integer));
            }
        }

        #[test]
        fn values_that_are_taken_for_integers_come_back(value in prop::collection::vec(any::<u8>(), 0..20), scale in 0u8..=SCALE_MAX) {
            let mut value = value;
            if let Some(header) = value.first().map(|_| (value.len() << 1 | 1) as u8) {
                value[0] = header;
            }
            if let Some(integer) = Scale(scale).down(&value) {
                let written = Scale(scale).up(integer).unwrap();
                prop_assert_eq!(written.bytes(), &value[..]);
            }
        }
    }

    /// The integer that writes a value, by trying the one nearest to it.
    fn tried(scale: Scale, sign: bool, weight: i32, digits: &[u16], value: &[u8]) -> Option<i64> {
        let mut integer = 0i128;
        for (index, &digit) in digits.iter().enumerate() {
            let exponent = (weight - index as i32) * 4 + i32::from(scale.0);
            let power = 10i128.checked_pow(exponent.unsigned_abs())?;
            integer += match exponent {
                0.. => i128::from(digit).checked_mul(power)?,
                _ => i128::from(digit) / power,
            };
        }
        let integer = i64::try_from(if sign { -integer } else { integer }).ok()?;
        (scale.up(integer)?.bytes() == value).then_some(integer)
    }

    proptest! {
        #[test]
        fn exactly_what_an_integer_writes_is_taken(
            scale in 0u8..=SCALE_MAX,
            sign in any::<bool>(),
            weight in -4i32..6,
            digits in prop::collection::vec(prop_oneof![Just(0u16), 0u16..10, 0u16..10_002, (0u16..100).prop_map(|n| n * 100)], 0..6),
        ) {
            let sign_bit = if sign { SIGN } else { 0 };
            let header = SHORT | sign_bit | u16::from(scale) << 7 | (weight as u16 & 0x7F);
            let mut value = vec![(3 + 2 * digits.len()) as u8 * 2 + 1];
            value.extend(header.to_le_bytes());
            value.extend(digits.iter().flat_map(|digit| digit.to_le_bytes()));
            let scale = Scale(scale);
            prop_assert_eq!(scale.down(&value), tried(scale, sign, weight, &digits, &value));
        }
    }

    /// As PostgreSQL 15 stores them in columns of numeric(12,2).
    #[test]
    fn reads_what_a_server_wrote() {
        let values: [(&[u8], i64); 4] = [
            (&[0x0F, 0x00, 0x81, 0x2C, 0x00, 0xF4, 0x01], 44_05),
            (&[0x0B, 0x00, 0x81, 0x2C, 0x00], 44_00),
            (&[0x07, 0x00, 0x81], 0),
            (&[0x0B, 0x7F, 0xA1, 0xF4, 0x01], -5),
        ];
        for (value, expected) in values {
            assert_eq!(Scale(2).down(value), Some(expected), "{value:?}");
            assert_eq!(Scale(2).up(expected).unwrap().bytes(), value);
        }
        let slices: Vec<&[u8]> = values.iter().map(|(value, _)| *value).collect();
        assert_eq!(Scale::of(&slices), Some(Scale(2)));
    }
}
