//! The bodies of heap tuples: null bitmap, padding, and the values of the attributes.
//!
//! The encoder collects all bodies of a relation before it codes them, so that it can find
//! out what their attributes are and how each is best coded. The decoder reads these choices
//! when it meets the first body.

use super::attribute::Attribute;
use super::attribute_inference::infer;
use super::column::{Column, Values};
use crate::coder::{Coder, Slot, StreamId};
use crate::registry::OptionalModel;
use crate::stream_kind::StreamKind;
use walzip_pgformat::wal::max_align;

use super::heap_tuple::TUPLE_HEADER_LEN;

/// `HEAP_HASNULL`.
const HAS_NULL: u16 = 1;
/// `HEAP_NATTS_MASK`.
const NATTS_MASK: u16 = 0x07FF;
/// Values of one relation that are looked at before their coding is chosen.
const VALUES_MAX: usize = 1 << 22;
/// Lengths that get a stream of their own where the attributes are not known.
const LENGTHS_MAX: usize = 48;

/// A body, and what the tuple's header says of it.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// From behind the header's fixed part to the end of the tuple.
    pub bytes: &'a [u8],
    /// How many attributes the tuple has.
    pub attributes: usize,
    has_null: bool,
    hoff: u8,
}

impl Body<'_> {
    /// Where the values begin; `None` where the header contradicts itself.
    pub fn data_start(&self) -> Option<usize> {
        let bitmap_len = self.bitmap_len();
        let hoff = max_align(TUPLE_HEADER_LEN + bitmap_len);
        let start = hoff - TUPLE_HEADER_LEN;
        let padding = self.bytes.get(bitmap_len..start)?;
        let fits = usize::from(self.hoff) == hoff && padding.iter().all(|&byte| byte == 0);
        fits.then_some(start)
    }

    fn bitmap_len(&self) -> usize {
        if self.has_null {
            self.attributes.div_ceil(8)
        } else {
            0
        }
    }

    /// The tuple has a value of the attribute.
    pub fn has(&self, number: usize) -> bool {
        let bit = || {
            self.bytes
                .get(number / 8)
                .is_some_and(|byte| byte >> (number % 8) & 1 != 0)
        };
        number < self.attributes && (!self.has_null || bit())
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
    fn body(self, bytes: &[u8]) -> Body<'_> {
        Body {
            bytes,
            attributes: usize::from(self.infomask2 & NATTS_MASK),
            has_null: self.infomask & HAS_NULL != 0,
            hoff: self.hoff,
        }
    }
}

/// The bodies of one relation.
#[derive(Debug, Default)]
pub struct Bodies {
    collected: Vec<u8>,
    /// For each body collected: its header's part, and where it ends.
    headers: Vec<(Infomask, u32)>,
    coding: Option<Coding>,
}

impl Bodies {
    /// The encoder collects the body; the decoder decodes it. Returns whether it is the
    /// relation's first.
    pub fn add<C: Coder>(&mut self, coder: &mut C, header: Infomask, bytes: &mut [u8]) -> bool {
        if C::ENCODING {
            self.collected.extend_from_slice(bytes);
            self.headers.push((header, self.collected.len() as u32));
            return self.headers.len() == 1;
        }
        let coding = self.coding.get_or_insert_with(|| Coding::open(coder, None));
        coding.code(coder, header, bytes);
        false
    }

    /// Codes what the encoder has collected. Relations come in the order of their first body.
    pub fn finish<C: Coder>(&mut self, coder: &mut C) {
        let mut collected = std::mem::take(&mut self.collected);
        let headers = std::mem::take(&mut self.headers);
        let mut bodies = Vec::with_capacity(headers.len());
        let mut start = 0;
        for (header, end) in &headers {
            bodies.push(header.body(&collected[start..*end as usize]));
            start = *end as usize;
        }
        let mut coding = Coding::open(coder, Some(&bodies));
        let mut start = 0;
        for (header, end) in headers {
            coding.code(coder, header, &mut collected[start..end as usize]);
            start = end as usize;
        }
    }
}

/// How the bodies of a relation are coded.
#[derive(Debug)]
enum Coding {
    /// As rows, by length.
    Rows {
        by_len: Vec<(u16, StreamId)>,
        shared: StreamId,
    },
    /// Attribute by attribute.
    Columns {
        flag: StreamId,
        bitmap: StreamId,
        other: StreamId,
        columns: Vec<Column>,
    },
}

impl Coding {
    /// Codes the choices; the encoder makes them from the bodies.
    fn open<C: Coder>(coder: &mut C, bodies: Option<&[Body<'_>]>) -> Coding {
        let choices = Slot::default().open(coder, StreamKind::HeapSchema, 1);
        let wanted = bodies.filter(|_| coder.choices().uses(OptionalModel::Attributes));
        let attributes = wanted.and_then(infer).unwrap_or_default();
        let count = usize::from(coder.u8(choices, attributes.len() as u8));
        if count == 0 {
            return Coding::open_rows(coder, choices, bodies.unwrap_or_default());
        }
        // A place in memory for each value: for too many of them, only the first are looked at.
        let looked_at = bodies.map(|bodies| &bodies[..bodies.len().min(VALUES_MAX / count)]);
        let values = looked_at.map(|bodies| values_of(&attributes, bodies));
        let are_all = looked_at.map(<[_]>::len) == bodies.map(<[_]>::len);
        let mut columns = Vec::with_capacity(count);
        for number in 0..count {
            let attribute = attributes
                .get(number)
                .map_or(0, |attribute| *attribute as u8);
            let attribute = usize::from(coder.u8(choices, attribute));
            let Some(attribute) = Attribute::ALL.get(attribute) else {
                coder.fail();
                break;
            };
            let values = values.as_ref().map(|values| Values {
                values: &values[number],
                are_all,
            });
            columns.push(Column::open(coder, choices, *attribute, values));
        }
        Coding::Columns {
            flag: coder.open(StreamKind::HeapModelFlag, 1),
            bitmap: coder.open(StreamKind::NullBitmap, count.div_ceil(8)),
            other: coder.open(StreamKind::HeapBody, 1),
            columns,
        }
    }

    fn open_rows<C: Coder>(coder: &mut C, choices: StreamId, bodies: &[Body<'_>]) -> Coding {
        let mut lengths: Vec<u16> = Vec::new();
        for body in bodies {
            let len = body.bytes.len() as u16;
            if lengths.len() < LENGTHS_MAX && !lengths.contains(&len) {
                lengths.push(len);
            }
        }
        let count = usize::from(coder.u8(choices, lengths.len() as u8));
        lengths.resize(count, 0);
        for len in &mut lengths {
            *len = coder.u16(choices, *len);
        }
        let open = |len: u16| (len, coder.open(StreamKind::HeapBody, len.into()));
        let by_len = lengths.into_iter().map(open).collect();
        Coding::Rows {
            by_len,
            shared: coder.open(StreamKind::HeapBody, 1),
        }
    }

    fn code<C: Coder>(&mut self, coder: &mut C, header: Infomask, bytes: &mut [u8]) {
        match self {
            Coding::Rows { by_len, shared } => {
                let own = by_len
                    .iter()
                    .find(|(len, _)| usize::from(*len) == bytes.len());
                coder.bytes(own.map_or(*shared, |(_, stream)| *stream), bytes);
            }
            Coding::Columns {
                flag,
                bitmap,
                other,
                columns,
            } => {
                let fits = C::ENCODING && fits(columns, header.body(bytes));
                if coder.u8(*flag, fits.into()) == 0 {
                    return coder.bytes(*other, bytes);
                }
                code_values(coder, *bitmap, columns, header, bytes);
            }
        }
    }
}

/// The values of each attribute, for the bodies that the attributes fit.
fn values_of<'a>(attributes: &[Attribute], bodies: &[Body<'a>]) -> Vec<Vec<&'a [u8]>> {
    let mut values = vec![Vec::new(); attributes.len()];
    for body in bodies {
        let Some(start) = body.data_start() else {
            continue;
        };
        let data = &body.bytes[start..];
        let mut at = 0;
        for (number, attribute) in attributes.iter().enumerate() {
            if body.has(number) {
                let Some((start, end)) = attribute.find(data, at) else {
                    break;
                };
                values[number].push(&data[start..end]);
                at = end;
            }
        }
    }
    values
}

fn fits(columns: &[Column], body: Body<'_>) -> bool {
    let Some(start) = body.data_start() else {
        return false;
    };
    let data = &body.bytes[start..];
    let mut at = 0;
    for (number, column) in columns.iter().enumerate() {
        if body.has(number) {
            let Some((_, end)) = column.attribute().find(data, at) else {
                return false;
            };
            at = end;
        }
    }
    at == data.len() && body.attributes <= columns.len()
}

fn code_values<C: Coder>(
    coder: &mut C,
    bitmap: StreamId,
    columns: &mut [Column],
    header: Infomask,
    bytes: &mut [u8],
) {
    let shape = header.body(&[]);
    let nulls = coder.part(bytes, 0, shape.bitmap_len());
    coder.bytes(bitmap, nulls);
    let start = max_align(TUPLE_HEADER_LEN + shape.bitmap_len()) - TUPLE_HEADER_LEN;
    let mut at = 0;
    for (number, column) in columns.iter_mut().enumerate() {
        if header.body(bytes).has(number) {
            let end = bytes.len();
            let data = coder.part(bytes, start, end);
            at = column.code(coder, data, at);
        }
    }
    if start + at != bytes.len() {
        coder.fail();
    }
}
