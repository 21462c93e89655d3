//! The bodies of heap tuples: null bitmap, padding, and the values of the attributes.
//!
//! The encoder collects all bodies of a relation before it codes them, so that it can infer their
//! attributes and choose a coding for each. The decoder reads these choices before the first body.

use super::attributes::infer::infer;
use super::attributes::sample::some;
use super::body::{Body, Infomask, Span};
use crate::model::values::attribute::Attribute;
use crate::model::values::column::Column;
use crate::model::values::compressed::Piece;
use crate::optional_model::OptionalModel;
use crate::streams::StreamWriter;
use crate::streams::coder::{Choices, Coder, LazyStream, StreamId};
use crate::streams::kind::StreamKind;
use crate::streams::parts::Parts;

/// Maximum number of spans for which memory is reserved in advance.
const SPANS_RESERVED: usize = 1 << 22;
/// If the attributes do not fit one of this number of bodies, they are inferred once more.
const MISFIT_OF: usize = 64;
/// Number of the bodies that did not fit which become samples then.
const MISFITS_SHOWN: usize = 4;
/// Maximum number of lengths that get a stream of their own if the attributes are unknown.
const LENGTHS_MAX: usize = 48;

/// The bodies of one relation.
#[derive(Debug, Default)]
pub struct Bodies {
    collected: Parts,
    /// For each collected body, the fields of its header and its length.
    headers: Vec<(Infomask, u16)>,
    coding: Option<Coding>,
}

impl Bodies {
    /// The encoder collects the body; the decoder decodes it. The encoder returns whether it is
    /// the relation's first.
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
        let coding = self.coding.get_or_insert_with(|| Coding::open(coder));
        coding.decode(coder, header, bytes);
        false
    }

    /// Codes the collected bodies. The caller finishes relations in the order of their first body.
    /// If the attributes in `known` fit, they are taken. Returns those that were.
    pub fn finish(
        &mut self,
        coder: &mut StreamWriter,
        known: Option<&[Attribute]>,
    ) -> Option<Vec<Attribute>> {
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
        let values = is_wanted
            .then(|| Values::find(&bodies, known, coder.choices()))
            .flatten();
        let choices = LazyStream::default().open(coder, StreamKind::HeapSchema, 1);
        match &values {
            Some(values) => code_values(coder, choices, values),
            None => code_rows(coder, choices, &bodies),
        }
        values.map(|values| values.attributes)
    }
}

/// Codes bodies attribute by attribute: [`Coding::Columns`].
fn code_values(coder: &mut StreamWriter, choices: StreamId, values: &Values<'_>) {
    let Values {
        attributes, bodies, ..
    } = values;
    let mut of_column = Vec::with_capacity(bodies.len());
    coder.u8(choices, attributes.len() as u8);
    for (number, attribute) in attributes.iter().enumerate() {
        coder.u8(choices, *attribute as u8);
        values.of_column(number, &mut of_column);
        let pieces = values.pieces(number);
        let pieces = pieces.as_deref();
        let mut column = Column::open(coder, choices, *attribute, Some(&of_column), pieces);
        column.code_all(coder, &of_column);
    }
    let streams = BodyStreams::open(coder, attributes.len());
    for (body, fits) in bodies.iter().zip(&values.fits) {
        coder.u8(streams.flag, (*fits).into());
        match fits {
            true => coder.append(streams.bitmap, &body.bytes[..body.bitmap_len()]),
            false => coder.append(streams.other, body.bytes),
        }
    }
}

/// Codes bodies as they are: [`Coding::Rows`].
fn code_rows(coder: &mut StreamWriter, choices: StreamId, bodies: &[Body<'_>]) {
    coder.u8(choices, 0);
    let mut lengths: Vec<u16> = Vec::new();
    for body in bodies {
        let len = body.bytes.len() as u16;
        if lengths.len() < LENGTHS_MAX && !lengths.contains(&len) {
            lengths.push(len);
        }
    }
    let rows = RowStreams::open(coder, choices, lengths);
    for body in bodies {
        coder.append(rows.of(body.bytes), body.bytes);
    }
}

/// The spans of the values of a relation's bodies.
struct Values<'a> {
    attributes: Vec<Attribute>,
    bodies: &'a [Body<'a>],
    /// For each body, whether the attributes fit it.
    fits: Vec<bool>,
    /// For each attribute, the spans of its values in the bodies that fit and have one.
    spans: Vec<Vec<Span>>,
}

impl<'a> Values<'a> {
    /// Takes the known attributes, or infers them. If too many bodies do not fit, infers them once more with some of
    /// these as samples, and keeps the better result.
    fn find(
        bodies: &'a [Body<'a>],
        known: Option<&[Attribute]>,
        choices: Choices,
    ) -> Option<Values<'a>> {
        if let Some(known) = known {
            let values = Values::of(known.to_vec(), bodies);
            if values.misfits().len() * MISFIT_OF < bodies.len() {
                return Some(values);
            }
        }
        let values = Values::of(infer(bodies, &[], choices)?, bodies);
        let misfits = values.misfits();
        if misfits.len() * MISFIT_OF < bodies.len() {
            return Some(values);
        }
        let shown: Vec<Body<'_>> = some(&misfits, MISFITS_SHOWN).copied().collect();
        let others =
            infer(bodies, &shown, choices).map(|attributes| Values::of(attributes, bodies));
        let better = others.filter(|others| others.misfits().len() < misfits.len());
        Some(better.unwrap_or(values))
    }

    fn misfits(&self) -> Vec<Body<'a>> {
        let bodies = self.bodies.iter().zip(&self.fits);
        let misfits = bodies.filter(|(_, fits)| !**fits);
        misfits.map(|(body, _)| *body).collect()
    }

    fn of(attributes: Vec<Attribute>, bodies: &'a [Body<'a>]) -> Values<'a> {
        // Bounded: of many attributes most bodies may have few.
        let reserved = bodies.len().min(SPANS_RESERVED / attributes.len().max(1));
        let empty = || Vec::with_capacity(reserved);
        let mut spans: Vec<_> = attributes.iter().map(|_| empty()).collect();
        let fits = bodies.iter();
        let fits = fits
            .map(|body| body.read(&attributes, &mut spans))
            .collect();
        Values {
            attributes,
            bodies,
            fits,
            spans,
        }
    }

    /// Which pieces of values the values of an attribute are, if the relation may be a TOAST table: it has nothing
    /// but two numbers before them.
    fn pieces(&self, number: usize) -> Option<Vec<Piece>> {
        const OF_TOAST: [Attribute; 3] = [Attribute::Fixed4, Attribute::Fixed4, Attribute::Varlena];
        if number != 2 || self.attributes != OF_TOAST {
            return None;
        }
        let bodies = self.bodies.iter().zip(&self.fits);
        let having = bodies.filter(|(body, fits)| **fits && body.has(number));
        let pieces = having.zip(&self.spans[number]).map(|((body, _), span)| {
            let before = span.before(body);
            let is_after_two = before.len() == body.aligned_start() + Piece::NUMBERS_LEN;
            is_after_two.then(|| Piece::of(before))?
        });
        pieces.collect()
    }

    /// Puts the values of an attribute into `values`.
    fn of_column(&self, number: usize, values: &mut Vec<&'a [u8]>) {
        let spans = &self.spans[number];
        let value = |(body, span): (&Body<'a>, &Span)| span.of(body);
        values.clear();
        if spans.len() == self.bodies.len() {
            values.extend(self.bodies.iter().zip(spans).map(value));
        } else {
            let bodies = self.bodies.iter().zip(&self.fits);
            let having = bodies.filter(|(body, fits)| **fits && body.has(number));
            values.extend(having.map(|(body, _)| body).zip(spans).map(value));
        }
    }
}

/// How the bodies of a relation are coded.
#[derive(Debug)]
enum Coding {
    /// As rows, by length.
    Rows(RowStreams),
    /// Attribute by attribute.
    Columns(BodyStreams, Vec<Column>),
}

#[derive(Debug)]
struct RowStreams {
    by_len: Vec<(u16, StreamId)>,
    shared: StreamId,
}

/// The streams of the bodies besides those of the columns.
#[derive(Debug)]
struct BodyStreams {
    flag: StreamId,
    bitmap: StreamId,
    other: StreamId,
}

impl RowStreams {
    fn open<C: Coder>(coder: &mut C, choices: StreamId, mut lengths: Vec<u16>) -> RowStreams {
        let count = usize::from(coder.u8(choices, lengths.len() as u8));
        lengths.resize(count, 0);
        for len in &mut lengths {
            *len = coder.u16(choices, *len);
        }
        let open = |len: u16| (len, coder.open(StreamKind::HeapBody, len.into()));
        let by_len = lengths.into_iter().map(open).collect();
        RowStreams {
            by_len,
            shared: coder.open(StreamKind::HeapBody, 1),
        }
    }

    fn of(&self, bytes: &[u8]) -> StreamId {
        let mut by_len = self.by_len.iter();
        let own = by_len.find(|(len, _)| usize::from(*len) == bytes.len());
        own.map_or(self.shared, |(_, stream)| *stream)
    }
}

impl BodyStreams {
    fn open<C: Coder>(coder: &mut C, attributes: usize) -> BodyStreams {
        BodyStreams {
            flag: coder.open(StreamKind::HeapModelFlag, 1),
            bitmap: coder.open(StreamKind::NullBitmap, attributes.div_ceil(8)),
            other: coder.open(StreamKind::HeapBody, 1),
        }
    }
}

impl Coding {
    /// Decodes the choices that [`Bodies::finish`] made.
    fn open<C: Coder>(coder: &mut C) -> Coding {
        let choices = LazyStream::default().open(coder, StreamKind::HeapSchema, 1);
        let count = usize::from(coder.u8(choices, 0));
        if count == 0 {
            return Coding::Rows(RowStreams::open(coder, choices, Vec::new()));
        }
        let mut columns = Vec::with_capacity(count);
        for _ in 0..count {
            let attribute = usize::from(coder.u8(choices, 0));
            let Some(attribute) = Attribute::ALL.get(attribute) else {
                coder.fail();
                break;
            };
            columns.push(Column::open(coder, choices, *attribute, None, None));
        }
        Coding::Columns(BodyStreams::open(coder, count), columns)
    }

    fn decode<C: Coder>(&mut self, coder: &mut C, header: Infomask, bytes: &mut [u8]) {
        match self {
            Coding::Rows(rows) => coder.bytes(rows.of(bytes), bytes),
            Coding::Columns(streams, columns) => {
                if coder.u8(streams.flag, 0) == 0 {
                    return coder.bytes(streams.other, bytes);
                }
                decode_values(coder, streams.bitmap, columns, header, bytes);
            }
        }
    }
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
    let start = shape.aligned_start();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One tuple of 50 has a value of another length. The first samples contain none of these.
    #[test]
    fn attributes_are_looked_for_again_where_too_many_tuples_do_not_fit() {
        let header = Infomask {
            infomask2: 3,
            infomask: 0,
            hoff: 24,
        };
        let tuple = |number: u32| {
            let mut bytes = vec![0];
            bytes.extend_from_slice(&number.to_le_bytes());
            // A varlena of 4 bytes, which looks like a small number; some have 8 bytes.
            let len = if number % 50 == 1 { 8 } else { 4 };
            bytes.push(len << 1 | 1);
            bytes.push(number as u8);
            bytes.resize(5 + usize::from(len), 0);
            bytes.extend_from_slice(&(number * 3).to_le_bytes());
            bytes
        };
        let tuples: Vec<Vec<u8>> = (0..5000).map(tuple).collect();
        let bodies: Vec<Body<'_>> = tuples.iter().map(|bytes| header.body(bytes)).collect();
        let values = Values::find(&bodies, None, Choices::default()).unwrap();
        assert_eq!(values.misfits().len(), 0, "{:?}", values.attributes);
    }
}
