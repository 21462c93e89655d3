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
