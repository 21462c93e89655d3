//! The bodies of heap tuples: null bitmap, padding, and the values of the attributes.
//!
//! The encoder collects all bodies of a relation before it codes them, so that it can find
//! out what their attributes are and how each is best coded. The decoder reads these choices
//! when it meets the first body.

use super::attribute::Attribute;
use super::attribute_inference::infer;
use super::column::{Column, Values as ColumnValues};
use crate::coder::{Coder, Slot, StreamId};
use crate::parts::Parts;
use crate::registry::OptionalModel;
use crate::stream_kind::StreamKind;
use crate::streams::StreamWriter;
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

impl<'a> Body<'a> {
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

    /// Adds the values to those of their attributes; none, where the attributes do not fit.
    pub fn read(&self, attributes: &[Attribute], columns: &mut [Vec<&'a [u8]>]) -> bool {
        let Some(data) = self.data_start().and_then(|start| self.bytes.get(start..)) else {
            return false;
        };
        let mut at = 0;
        let mut passed = 0;
        for (attribute, column) in attributes.iter().zip(columns.iter_mut()) {
            if self.has(passed) {
                let Some((start, end)) = attribute.find(data, at) else {
                    break;
                };
                column.push(&data[start..end]);
                at = end;
            }
            passed += 1;
        }
        let fits = passed == attributes.len() && self.attributes <= passed && at == data.len();
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
    /// The body of the tuple.
    pub fn body(self, bytes: &[u8]) -> Body<'_> {
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
    collected: Parts,
    /// For each body collected: its header's part, and its length.
    headers: Vec<(Infomask, u16)>,
    coding: Option<Coding>,
}

impl Bodies {
    /// The encoder collects the body; the decoder decodes it. Returns whether it is the
    /// relation's first.
    pub fn add<C: Coder>(&mut self, coder: &mut C, header: Infomask, bytes: &mut [u8]) -> bool {
        if C::ENCODING {
            match u16::try_from(bytes.len()) {
                Ok(len) => {
                    self.headers.push((header, len));
                    self.collected.push(bytes);
                }
                Err(_) => coder.fail(),
            }
            return self.headers.len() == 1;
        }
        let coding = self.coding.get_or_insert_with(|| Coding::open(coder, None));
        coding.decode(coder, header, bytes);
        false
    }

    /// Codes what the encoder has collected. Relations come in the order of their first body.
    pub fn finish(&mut self, coder: &mut StreamWriter) {
        let collected = std::mem::take(&mut self.collected);
        let headers = std::mem::take(&mut self.headers);
        let mut bodies = Vec::with_capacity(headers.len());
        let mut parts = collected.iter();
        let mut part = parts.next().unwrap_or_default();
        for (header, len) in headers {
            if part.is_empty() {
                part = parts.next().unwrap_or_default();
            }
            let (body, behind) = part.split_at(usize::from(len));
            bodies.push(header.body(body));
            part = behind;
        }
        let is_wanted = coder.choices().uses(OptionalModel::Attributes);
        let attributes = is_wanted
            .then(|| infer(&bodies, coder.choices().care))
            .flatten();
        let attributes = attributes.unwrap_or_default();
        // A place in memory for each value: of too many bodies, only the first are looked at
        // before the coding is chosen.
        let at_once = (VALUES_MAX / attributes.len().max(1)).max(1);
        let mut parts = bodies.chunks(at_once);
        let first = Values::of(&attributes, parts.next().unwrap_or_default());
        let known = Known {
            bodies: &bodies,
            attributes: &attributes,
            values: &first,
            are_all: parts.len() == 0,
        };
        let mut coding = Coding::open(coder, Some(known));
        coding.code_all(coder, &first);
        drop(first);
        for part in parts {
            coding.code_all(coder, &Values::of(&attributes, part));
        }
    }
}

/// The values of some bodies, attribute by attribute.
struct Values<'a> {
    bodies: &'a [Body<'a>],
    /// Whether the attributes fit them.
    fits: Vec<bool>,
    /// For each attribute, its values in the bodies that fit.
    columns: Vec<Vec<&'a [u8]>>,
}

impl<'a> Values<'a> {
    fn of(attributes: &[Attribute], bodies: &'a [Body<'a>]) -> Values<'a> {
        let empty = || Vec::with_capacity(bodies.len());
        let mut columns: Vec<_> = attributes.iter().map(|_| empty()).collect();
        let fits = bodies.iter();
        let fits = fits
            .map(|body| body.read(attributes, &mut columns))
            .collect();
        Values {
            bodies,
            fits,
            columns,
        }
    }
}

/// What the encoder knows before it chooses.
#[derive(Clone, Copy)]
struct Known<'a> {
    bodies: &'a [Body<'a>],
    attributes: &'a [Attribute],
    values: &'a Values<'a>,
    /// There are no other values.
    are_all: bool,
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
    /// Codes the choices; the encoder makes them from what it knows.
    fn open<C: Coder>(coder: &mut C, known: Option<Known<'_>>) -> Coding {
        let choices = Slot::default().open(coder, StreamKind::HeapSchema, 1);
        let attributes = known.map(|known| known.attributes).unwrap_or_default();
        let count = usize::from(coder.u8(choices, attributes.len() as u8));
        if count == 0 {
            let bodies = known.map(|known| known.bodies).unwrap_or_default();
            return Coding::open_rows(coder, choices, bodies);
        }
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
            let values = known.map(|known| ColumnValues {
                values: &known.values.columns[number],
                are_all: known.are_all,
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

    /// The encoder's side of [`Coding::decode`]: column by column, since each has streams of
    /// its own.
    fn code_all(&mut self, coder: &mut StreamWriter, values: &Values<'_>) {
        match self {
            Coding::Rows { by_len, shared } => {
                for body in values.bodies {
                    coder.append(stream_of(by_len, *shared, body.bytes), body.bytes);
                }
            }
            Coding::Columns {
                flag,
                bitmap,
                other,
                columns,
            } => {
                for (body, fits) in values.bodies.iter().zip(&values.fits) {
                    coder.u8(*flag, (*fits).into());
                    match fits {
                        true => coder.append(*bitmap, &body.bytes[..body.bitmap_len()]),
                        false => coder.append(*other, body.bytes),
                    }
                }
                for (column, values) in columns.iter_mut().zip(&values.columns) {
                    column.code_all(coder, values);
                }
            }
        }
    }

    fn decode<C: Coder>(&mut self, coder: &mut C, header: Infomask, bytes: &mut [u8]) {
        match self {
            Coding::Rows { by_len, shared } => {
                coder.bytes(stream_of(by_len, *shared, bytes), bytes);
            }
            Coding::Columns {
                flag,
                bitmap,
                other,
                columns,
            } => {
                if coder.u8(*flag, 0) == 0 {
                    return coder.bytes(*other, bytes);
                }
                decode_values(coder, *bitmap, columns, header, bytes);
            }
        }
    }
}

fn stream_of(by_len: &[(u16, StreamId)], shared: StreamId, bytes: &[u8]) -> StreamId {
    let own = by_len
        .iter()
        .find(|(len, _)| usize::from(*len) == bytes.len());
    own.map_or(shared, |(_, stream)| *stream)
}

fn decode_values<C: Coder>(
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
