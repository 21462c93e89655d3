//! Values as bytes whose order is that of the values.
//!
//! An order may be wrong for some values, such as equal ones of different bytes: an entry that is
//! out of order costs bytes, never correctness. But it is part of the format.

use walzip_pgformat::bytes::read_u16;

use super::shape::{KeyAttribute, Order};
use crate::model::values::attribute::Attribute;
use crate::streams::coder::{get_u16, get_u32};

/// Keys are ordered by this many bytes.
pub const SORT_KEY_LEN_MAX: usize = 64;

/// Stands for null where that comes first.
const NULL_FIRST: u8 = 0;
/// Stands before a value that could be null.
const NOT_NULL: u8 = 1;
/// Stands for null where that comes last.
const NULL_LAST: u8 = 2;
/// Ends bytes of a variable length.
const END: u8 = 0;

/// Classes of numeric values, in their order.
const LEAST: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITE: u8 = 4;
const NAN: u8 = 5;

/// Takes the bytes of sort keys.
pub trait Sink {
    /// Takes the lowest bytes of a number, 8 at most, the highest one first.
    fn put(&mut self, number: u64, len: usize);

    /// It takes no more.
    fn is_full(&self) -> bool;
}

/// The first bytes of a sort key, as a number. Zeros follow the last one.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstBytes {
    /// The bytes.
    pub bytes: u128,
    /// How many bits of them were put, or more.
    bits: usize,
}

impl Sink for FirstBytes {
    #[inline]
    fn put(&mut self, number: u64, len: usize) {
        let bits = 8 * len;
        let number = u128::from(number) & ((1 << bits) - 1);
        self.bits += bits;
        self.bytes |= match 128usize.checked_sub(self.bits) {
            Some(shift) => number << shift,
            None if self.bits - bits < 128 => number >> (self.bits - 128),
            None => 0,
        };
    }

    fn is_full(&self) -> bool {
        self.bits >= 128
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, number: u64, len: usize) {
        let bytes = number.to_be_bytes();
        let wanted = bytes.get(bytes.len() - len..).unwrap_or_default();
        let room = SORT_KEY_LEN_MAX.saturating_sub(self.len()).min(len);
        self.extend_from_slice(wanted.get(..room).unwrap_or_default());
    }

    fn is_full(&self) -> bool {
        self.len() >= SORT_KEY_LEN_MAX
    }
}

/// Appends the bytes of a value, or of null.
#[inline]
pub fn append(attribute: Attribute, key: KeyAttribute, value: Option<&[u8]>, out: &mut impl Sink) {
    if key.order == Order::Unknown {
        return;
    }
    let Some(value) = value else {
        let null = if key.nulls_first {
            NULL_FIRST
        } else {
            NULL_LAST
        };
        return out.put(null.into(), 1);
    };
    if key.nullable {
        out.put(NOT_NULL.into(), 1);
    }
    let mut out = Directed {
        sink: out,
        inverted: if key.descending { u64::MAX } else { 0 },
    };
    match (attribute, key.order) {
        (Attribute::Varlena, Order::Numeric) => append_numeric(contents(value), out),
        (Attribute::Varlena, _) => {
            append_bytes(contents(value), &mut out);
            out.put(END.into(), 1);
        }
        (_, Order::Signed | Order::Unsigned | Order::Float) => append_number(key.order, value, out),
        _ => append_bytes(value, &mut out),
    }
}

/// A sink that gets all bits inverted, or as they are.
struct Directed<'s, S> {
    sink: &'s mut S,
    inverted: u64,
}

impl<S: Sink> Directed<'_, S> {
    #[inline]
    fn put(&mut self, number: u64, len: usize) {
        self.sink.put(number ^ self.inverted, len);
    }
}

/// The bytes of a varlena without its header (varatt.h).
fn contents(value: &[u8]) -> &[u8] {
    let header = match value.first() {
        Some(first) if first & 1 == 1 => 1,
        _ => 4,
    };
    value.get(header..).unwrap_or_default()
}

fn append_bytes<S: Sink>(bytes: &[u8], out: &mut Directed<'_, S>) {
    for part in bytes.chunks(8) {
        if out.sink.is_full() {
            return;
        }
        let number = part
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        out.put(number, part.len());
    }
}

#[inline]
fn append_number<S: Sink>(order: Order, value: &[u8], mut out: Directed<'_, S>) {
    let number = match *value {
        [byte] => byte.into(),
        [_, _] => get_u16(value, 0).into(),
        [_, _, _, _] => get_u32(value, 0).into(),
        _ => value
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)),
    };
    let sign = 1u64 << (8 * value.len().clamp(1, 8) - 1);
    let number = match order {
        Order::Unsigned => number,
        Order::Float if number & sign != 0 => !number,
        _ => number ^ sign,
    };
    out.put(number, value.len().min(8));
}

/// A `numeric`: its class, its weight, and its digits to the base of 10,000.
fn append_numeric<S: Sink>(number: &[u8], mut out: Directed<'_, S>) {
    const SPECIAL: u16 = 0xC000;
    const SHORT: u16 = 0x8000;
    let header = read_u16(number, 0).unwrap_or_default();
    let (is_negative, weight, digits) = match header & SPECIAL {
        SPECIAL => {
            let class = match header & 0xF000 {
                0xF000 => LEAST,
                0xD000 => INFINITE,
                _ => NAN,
            };
            return out.put(class.into(), 1);
        }
        // The weight has seven bits, with its sign.
        SHORT => (header & 0x2000 != 0, ((header << 9) as i16) >> 9, 2),
        sign => {
            let weight = read_u16(number, 2).unwrap_or_default();
            (sign != 0, weight as i16, 4)
        }
    };
    let digits = number.get(digits..).unwrap_or_default();
    if digits.is_empty() {
        return out.put(ZERO.into(), 1);
    }
    out.put(u64::from(if is_negative { NEGATIVE } else { POSITIVE }), 1);
    if is_negative {
        out.inverted = !out.inverted;
    }
    out.put(u64::from(weight as u16 ^ 0x8000), 2);
    for &digit in digits.as_chunks::<2>().0 {
        if out.sink.is_full() {
            return;
        }
        // The end comes before any other digit.
        out.put(u64::from(u16::from_le_bytes(digit).wrapping_add(1)), 2);
    }
    out.put(0, 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(order: Order) -> KeyAttribute {
        KeyAttribute {
            attribute: 0,
            order,
            descending: false,
            nullable: false,
            nulls_first: false,
        }
    }

    /// The sort key of a value. Its first bytes are the same as a number.
    fn key(attribute: Attribute, key: KeyAttribute, value: Option<&[u8]>) -> Vec<u8> {
        let (mut bytes, mut first) = (Vec::new(), FirstBytes::default());
        append(attribute, key, value, &mut bytes);
        append(attribute, key, value, &mut first);
        let mut padded = bytes.clone();
        padded.resize(bytes.len().max(16), 0);
        assert_eq!(first.bytes.to_be_bytes(), padded[..16]);
        bytes
    }

    fn varlena(bytes: &[u8]) -> Vec<u8> {
        let len = (bytes.len() + 4) as u32;
        [&(len << 2).to_le_bytes(), bytes].concat()
    }

    /// A numeric of a sign, a weight and digits, as PostgreSQL stores it: long or short.
    fn numeric(number: i64, scale: u32) -> Vec<u8> {
        let whole = i128::from(number.unsigned_abs()) * 10i128.pow(4 - scale % 4);
        let fraction_digits = scale / 4 + 1;
        let mut digits = Vec::new();
        let mut rest = whole;
        while rest > 0 {
            digits.insert(0, (rest % 10_000) as u16);
            rest /= 10_000;
        }
        let weight = digits.len() as i16 - 1 - fraction_digits as i16;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let sign = u16::from(number < 0);
        let is_short = (-64..64).contains(&weight) && number % 2 == 0;
        let mut bytes = match is_short {
            true => (0x8000 | sign << 13 | weight as u16 & 0x7F)
                .to_le_bytes()
                .to_vec(),
            false => [(sign << 14).to_le_bytes(), weight.to_le_bytes()].concat(),
        };
        bytes.extend(digits.iter().flat_map(|digit| digit.to_le_bytes()));
        varlena(&bytes)
    }

    fn assert_ordered<T: PartialOrd>(one: (T, Vec<u8>), other: (T, Vec<u8>), descending: bool) {
        let by_value = one.0.partial_cmp(&other.0).expect("comparable");
        let by_value = if descending {
            by_value.reverse()
        } else {
            by_value
        };
        assert_eq!(one.1.cmp(&other.1), by_value);
    }

    proptest! {
        #[test]
        fn numbers_are_ordered_as_their_bytes(one in any::<i64>(), other in any::<i64>(), descending in any::<bool>()) {
            let in_order = |order| KeyAttribute { descending, ..plain(order) };
            let of = |number: i64| key(Attribute::Fixed8, in_order(Order::Signed), Some(&number.to_le_bytes()));
            assert_ordered((one, of(one)), (other, of(other)), descending);
            let of = |number: i64| key(Attribute::Fixed4, in_order(Order::Signed), Some(&(number as i32).to_le_bytes()));
            assert_ordered((one as i32, of(one)), (other as i32, of(other)), descending);
            let of = |number: i64| key(Attribute::Fixed2, in_order(Order::Unsigned), Some(&(number as u16).to_le_bytes()));
            assert_ordered((one as u16, of(one)), (other as u16, of(other)), descending);
            let of = |number: i64| key(Attribute::Fixed1, in_order(Order::Signed), Some(&[number as u8]));
            assert_ordered((one as i8, of(one)), (other as i8, of(other)), descending);
        }

        #[test]
        fn floats_are_ordered_as_their_bytes(one in -1e9..1e9, other in -1e9..1e9) {
            let of = |number: f64| key(Attribute::Fixed8, plain(Order::Float), Some(&number.to_le_bytes()));
            assert_ordered((one, of(one)), (other, of(other)), false);
            let of = |number: f64| key(Attribute::Fixed4, plain(Order::Float), Some(&(number as f32).to_le_bytes()));
            assert_ordered((one as f32, of(one)), (other as f32, of(other)), false);
        }

        #[test]
        fn texts_are_ordered_as_their_bytes(one in "[a-c]{0,20}", other in "[a-c]{0,20}", descending in any::<bool>()) {
            let in_order = KeyAttribute { descending, ..plain(Order::Bytes) };
            let of = |text: &str| key(Attribute::Varlena, in_order, Some(&varlena(text.as_bytes())));
            let keys = (of(&one), of(&other));
            assert_ordered((one, keys.0), (other, keys.1), descending);
        }

        #[test]
        fn numerics_are_ordered_as_their_bytes(
            one in -1_000_000_000i64..1_000_000_000, other in -1_000_000_000i64..1_000_000_000,
            small in -30i64..30, scale in 0u32..9, descending in any::<bool>(),
        ) {
            let in_order = KeyAttribute { descending, ..plain(Order::Numeric) };
            let of = |number: i64| key(Attribute::Varlena, in_order, Some(&numeric(number, scale)));
            assert_ordered((one, of(one)), (other, of(other)), descending);
            assert_ordered((one, of(one)), (small, of(small)), descending);
            assert_ordered((0, of(0)), (small, of(small)), descending);
        }
    }

    #[test]
    fn nulls_come_where_they_are_said_to_come() {
        for (nulls_first, descending) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let nullable = KeyAttribute {
                descending,
                nullable: true,
                nulls_first,
                ..plain(Order::Signed)
            };
            let null = key(Attribute::Fixed4, nullable, None);
            for number in [i32::MIN, 0, i32::MAX] {
                let other = key(Attribute::Fixed4, nullable, Some(&number.to_le_bytes()));
                assert_eq!(null < other, nulls_first);
            }
        }
    }

    #[test]
    fn special_numerics_come_before_and_after_all_others() {
        let of = |header: u16| {
            let value = varlena(&header.to_le_bytes());
            key(Attribute::Varlena, plain(Order::Numeric), Some(&value))
        };
        let number = |number| {
            key(
                Attribute::Varlena,
                plain(Order::Numeric),
                Some(&numeric(number, 2)),
            )
        };
        let all = [
            of(0xF000),
            number(-5),
            number(0),
            number(5),
            of(0xD000),
            of(0xC000),
        ];
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn what_has_no_known_order_says_nothing_and_what_is_long_is_cut_off() {
        assert!(key(Attribute::Fixed8, plain(Order::Unknown), Some(&[1; 8])).is_empty());
        let long = key(
            Attribute::Varlena,
            plain(Order::Bytes),
            Some(&varlena(&[7; 500])),
        );
        assert_eq!(long, [7; SORT_KEY_LEN_MAX]);
    }
}
