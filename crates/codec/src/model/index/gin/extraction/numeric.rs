//! numeric (utils/adt/numeric.c): the hash and the text of a number.
//!
//! ```text
//! header u16, weight i16 if the header is a long one, digits u16, each below 10,000
//! ```

use walzip_pgformat::hash::hash_bytes;

use crate::streams::coder::get_u16;

/// `NUMERIC_SIGN_MASK`.
const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
/// `NUMERIC_SHORT`: the header contains the weight and the scale.
const SHORT: u16 = 0x8000;
/// `NUMERIC_SPECIAL`: NaN or an infinity.
const SPECIAL: u16 = 0xC000;
const DIGIT_LEN: usize = 2;
/// Decimal digits of one digit of base 10,000.
const DECIMALS: usize = 4;
/// Maximum weight of a number that is written as a text.
const WEIGHT_MAX: i32 = 1000;

/// A number, without its varlena header.
pub struct Numeric<'a> {
    is_negative: bool,
    /// Number of decimal digits after the point.
    scale: usize,
    /// The first digit counts 10,000 to the power of this.
    weight: i32,
    digits: &'a [u8],
}

impl<'a> Numeric<'a> {
    /// Reads a number. `None` if it is not finite.
    pub fn read(bytes: &'a [u8]) -> Option<Numeric<'a>> {
        let (head, rest) = bytes.split_at_checked(2)?;
        let header = get_u16(head, 0);
        match header & SIGN_MASK {
            SPECIAL => None,
            SHORT => Some(Numeric {
                is_negative: header & 0x2000 != 0,
                scale: usize::from((header & 0x1F80) >> 7),
                weight: i32::from(header & 0x3F) - i32::from(header & 0x40),
                digits: rest,
            }),
            sign => Some(Numeric {
                is_negative: sign == NEGATIVE,
                scale: usize::from(header & !SIGN_MASK),
                weight: i32::from(get_u16(rest, 0) as i16),
                digits: rest.get(DIGIT_LEN..)?,
            }),
        }
    }

    /// `hash_numeric`.
    pub fn hash(&self) -> u32 {
        let (digits, _) = self.digits.as_chunks::<DIGIT_LEN>();
        let is_some = |digit: &[u8; DIGIT_LEN]| *digit != [0; DIGIT_LEN];
        let Some(first) = digits.iter().position(is_some) else {
            return u32::MAX;
        };
        let last = digits.iter().rposition(is_some).unwrap_or(first);
        let weight = self.weight - first as i32;
        hash_bytes(digits[first..=last].as_flattened()) ^ weight as u32
    }

    /// `numeric_normalize`: the decimal text without trailing zeros of the fraction.
    pub fn normalized(&self, text: &mut Vec<u8>) -> Option<()> {
        if self.weight > WEIGHT_MAX {
            return None;
        }
        text.clear();
        if self.is_negative {
            text.push(b'-');
        }
        let sign = text.len();
        for index in 0..=self.weight {
            push_digit(text, self.digit(index));
        }
        let zeros = text[sign..]
            .iter()
            .take_while(|&&byte| byte == b'0')
            .count();
        text.drain(sign..sign + zeros);
        if text.len() == sign {
            text.push(b'0');
        }
        let point = text.len();
        text.push(b'.');
        for index in 0..self.scale.div_ceil(DECIMALS) {
            push_digit(text, self.digit(self.weight.max(-1) + 1 + index as i32));
        }
        text.truncate(point + 1 + self.scale);
        while text.len() > point + 1 && text.last() == Some(&b'0') {
            text.pop();
        }
        if text.len() == point + 1 {
            text.truncate(point);
        }
        Some(())
    }

    /// A digit of the text, 0 if the number does not store it. Index 0 is the first digit before
    /// the point or, if the weight is negative, the first one after it.
    fn digit(&self, index: i32) -> u16 {
        // A negative weight below -1: zeros precede the first stored digit.
        let skipped = (-1 - self.weight).max(0);
        let number = usize::try_from(index - skipped);
        number.map_or(0, |number| get_u16(self.digits, number * DIGIT_LEN))
    }
}

fn push_digit(text: &mut Vec<u8>, digit: u16) {
    for unit in [1000, 100, 10, 1] {
        text.push(b'0' + (digit / unit % 10) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as PostgreSQL 15 stores them, their `hash_numeric`, and their text.
    #[test]
    fn hashes_and_writes_as_postgresql_does() {
        let short = |scale: u16, weight: i16, digits: &[u16]| {
            let header = SHORT | scale << 7 | weight as u16 & 0x7F;
            [&[header], digits].concat()
        };
        let known: [(Vec<u16>, i32, &str); 8] = [
            (short(0, 0, &[]), -1, "0"),
            (short(2, 0, &[]), -1, "0"),
            (short(0, 0, &[1]), 1_324_868_424, "1"),
            (
                vec![SHORT | 0x2000 | 2 << 7, 12, 5000],
                -1_617_707_945,
                "-12.5",
            ),
            (short(4, -1, &[1]), -1_324_868_425, "0.0001"),
            (short(0, 2, &[1]), 1_324_868_426, "100000000"),
            (
                short(9, 2, &[1, 2345, 6789, 9876, 5432, 1000]),
                1_241_263_062,
                "123456789.987654321",
            ),
            (vec![0, 2, 1], 1_324_868_426, "100000000"),
        ];
        for (words, hash, text) in known {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let number = Numeric::read(&bytes).expect(text);
            assert_eq!(number.hash(), hash as u32, "{text}");
            let mut normalized = Vec::new();
            number.normalized(&mut normalized).expect(text);
            assert_eq!(String::from_utf8_lossy(&normalized), text);
        }
        assert!(Numeric::read(&SPECIAL.to_le_bytes()).is_none());
        assert!(Numeric::read(&[0]).is_none());
    }

    #[test]
    fn a_fraction_may_begin_with_zeros() {
        let header = SHORT | 8 << 7 | -2i16 as u16 & 0x7F;
        let bytes = [header, 12].map(u16::to_le_bytes).concat();
        let mut text = Vec::new();
        let number = Numeric::read(&bytes).expect("a number");
        number.normalized(&mut text).expect("a text");
        assert_eq!(text, b"0.00000012");
        assert!(
            Numeric::read(&[0, 0, 0xFF, 0x7F])
                .expect("a number")
                .normalized(&mut text)
                .is_none()
        );
    }
}
