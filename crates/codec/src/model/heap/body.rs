//! The body of a heap tuple: null bitmap, padding, and the values of the attributes.

use walzip_pgformat::wal::max_align;

use crate::model::values::attribute::Attribute;

/// Bytes of the fixed header of a tuple (`SizeofHeapTupleHeader`).
pub const TUPLE_HEADER_LEN: usize = 23;
/// `HEAP_HASNULL`.
const HAS_NULL: u16 = 1;
/// `HEAP_NATTS_MASK`.
const NATTS_MASK: u16 = 0x07FF;
/// A body, and what the tuple's header says of it.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// From behind the header's fixed part to the end of the tuple.
    pub bytes: &'a [u8],
    /// How many attributes the tuple has.
    pub attributes: u16,
    has_null: bool,
    hoff: u8,
}

impl<'a> Body<'a> {
    /// Where the values begin; `None` where the header contradicts itself.
    pub fn data_start(&self) -> Option<usize> {
        let start = self.aligned_start();
        let padding = self.bytes.get(self.bitmap_len()..start)?;
        let fits = usize::from(self.hoff) == TUPLE_HEADER_LEN + start
            && padding.iter().all(|&byte| byte == 0);
        fits.then_some(start)
    }

    /// Where values begin after a header and a bitmap of these lengths.
    pub fn aligned_start(&self) -> usize {
        max_align(TUPLE_HEADER_LEN + self.bitmap_len()) - TUPLE_HEADER_LEN
    }

    /// Bytes of the null bitmap.
    pub fn bitmap_len(&self) -> usize {
        if self.has_null {
            usize::from(self.attributes).div_ceil(8)
        } else {
            0
        }
    }

    /// Adds the places of the values to those of their attributes; none, where the attributes do
    /// not fit.
    pub fn read(&self, attributes: &[Attribute], columns: &mut [Vec<Place>]) -> bool {
        let Some(data_start) = self.data_start() else {
            return false;
        };
        let data = &self.bytes[data_start..];
        let mut at = 0;
        let mut passed = 0;
        for (attribute, column) in attributes.iter().zip(columns.iter_mut()) {
            if self.has(passed) {
                let Some((start, end)) = attribute.find(data, at) else {
                    break;
                };
                column.push(Place::new(data_start + start, data_start + end));
                at = end;
            }
            passed += 1;
        }
        let fits = passed == attributes.len()
            && usize::from(self.attributes) <= passed
            && at == data.len();
        if !fits {
            for (number, column) in columns.iter_mut().enumerate().take(passed) {
                if self.has(number) {
                    column.pop();
                }
            }
        }
        fits
    }

    /// The tuple has a value of the attribute.
    pub fn has(&self, number: usize) -> bool {
        let bit = || {
            self.bytes
                .get(number / 8)
                .is_some_and(|byte| byte >> (number % 8) & 1 != 0)
        };
        number < usize::from(self.attributes) && (!self.has_null || bit())
    }
}

/// Where a value begins and ends in a body, which has less than 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    start: u16,
    end: u16,
}

impl Place {
    #[inline]
    fn new(start: usize, end: usize) -> Place {
        Place {
            start: start as u16,
            end: end as u16,
        }
    }

    /// The value's bytes.
    #[inline]
    pub fn of<'a>(self, body: &Body<'a>) -> &'a [u8] {
        &body.bytes[usize::from(self.start)..usize::from(self.end)]
    }
}

/// What is kept of a tuple's header.
#[derive(Clone, Copy, Debug)]
pub struct Infomask {
    /// `t_infomask2`.
    pub infomask2: u16,
    /// `t_infomask`.
    pub infomask: u16,
    /// `t_hoff`.
    pub hoff: u8,
}

impl Infomask {
    /// Bytes of the body in front of the values.
    pub fn before_values(self) -> usize {
        usize::from(self.hoff).saturating_sub(TUPLE_HEADER_LEN)
    }

    /// The body of the tuple.
    pub fn body(self, bytes: &[u8]) -> Body<'_> {
        Body {
            bytes,
            attributes: self.infomask2 & NATTS_MASK,
            has_null: self.infomask & HAS_NULL != 0,
            hoff: self.hoff,
        }
    }
}
