//! The body of a heap tuple: null bitmap, padding, and the values of the attributes.

use walzip_pgformat::wal::max_align;

use crate::model::values::attribute::Attribute;

/// Bytes of the fixed header of a tuple (`SizeofHeapTupleHeader`).
pub const TUPLE_HEADER_LEN: usize = 23;
/// `HEAP_HASNULL`.
const HAS_NULL: u16 = 1;
/// `HEAP_NATTS_MASK`.
const NATTS_MASK: u16 = 0x07FF;
/// A body, and the fields of the tuple's header that describe it.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The tuple without the fixed part of its header.
    pub bytes: &'a [u8],
    /// Number of attributes of the tuple.
    pub attributes: u16,
    has_null: bool,
    hoff: u8,
}

impl<'a> Body<'a> {
    /// The offset of the values. `None` if `t_hoff` does not agree, or the padding is not zero.
    pub fn data_start(&self) -> Option<usize> {
        let start = self.aligned_start();
        let padding = self.bytes.get(self.bitmap_len()..start)?;
        let fits = usize::from(self.hoff) == TUPLE_HEADER_LEN + start
            && padding.iter().all(|&byte| byte == 0);
        fits.then_some(start)
    }

    /// The offset of the values, after the null bitmap and its padding.
    pub fn aligned_start(&self) -> usize {
        max_align(TUPLE_HEADER_LEN + self.bitmap_len()) - TUPLE_HEADER_LEN
    }

    /// Length of the null bitmap, in bytes.
    pub fn bitmap_len(&self) -> usize {
        if self.has_null {
            usize::from(self.attributes).div_ceil(8)
        } else {
            0
        }
    }

    /// Appends the span of each value to the spans of its attribute. Returns `false`, and appends
    /// nothing, if the attributes do not fit.
    pub fn read(&self, attributes: &[Attribute], columns: &mut [Vec<Span>]) -> bool {
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
                column.push(Span::new(data_start + start, data_start + end));
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

    /// Whether the tuple has a value of the attribute: it is stored and not null.
    pub fn has(&self, number: usize) -> bool {
        let bit = || {
            self.bytes
                .get(number / 8)
                .is_some_and(|byte| byte >> (number % 8) & 1 != 0)
        };
        number < usize::from(self.attributes) && (!self.has_null || bit())
    }
}

/// Start and end of a value in a body, which has less than 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    start: u16,
    end: u16,
}

impl Span {
    #[inline]
    fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u16,
            end: end as u16,
        }
    }

    /// The value's bytes.
    #[inline]
    pub fn of<'a>(self, body: &Body<'a>) -> &'a [u8] {
        &body.bytes[usize::from(self.start)..usize::from(self.end)]
    }

    /// The bytes before the value.
    pub fn before<'a>(self, body: &Body<'a>) -> &'a [u8] {
        &body.bytes[..usize::from(self.start)]
    }
}

/// The fields of a tuple's header that describe its body (`xl_heap_header`).
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
    /// Number of bytes of the body before the values, by `t_hoff`.
    pub fn before_values(self) -> usize {
        usize::from(self.hoff).saturating_sub(TUPLE_HEADER_LEN)
    }

    /// The body `bytes` of a tuple with this header.
    pub fn body(self, bytes: &[u8]) -> Body<'_> {
        Body {
            bytes,
            attributes: self.infomask2 & NATTS_MASK,
            has_null: self.infomask & HAS_NULL != 0,
            hoff: self.hoff,
        }
    }
}
