//! The values of one attribute of one relation.

use std::collections::HashMap;

use super::attribute::{Attribute, varlena_len, varlena_start};
use super::json::Json;
use crate::coder::{Care, Coder, StreamId};
use crate::fast_hash::SeededHash;
use crate::stream_kind::StreamKind;
use crate::trial::{Trial, entropy_bytes};

/// Values are fixed, or their bytes stand in one stream.
const PLAIN: u8 = 0;
/// Values are numbers in a list of different values.
const DICTIONARY: u8 = 1;
/// Values of each length are in a stream of their own.
const BY_LEN: u8 = 2;

/// Values are of jsonb.
const JSON: u8 = 3;

/// A jsonb value with a header of one byte.
const SHORT_JSON: u8 = 1;
/// A jsonb value with a header of four bytes.
const LONG_JSON: u8 = 2;

/// Different values of a dictionary at most.
const VALUES_MAX: usize = 1 << 16;
/// Bytes of a value in a dictionary at most.
const VALUE_LEN_MAX: usize = 255;
/// Values looked at before a dictionary is made of all.
const SAMPLE: usize = 2048;
/// Bytes of values that coders are tried on.
const TRIAL_LEN: usize = 16384;
/// In a hurry, samples are smaller by this factor.
const QUICK_FACTOR: usize = 4;
/// Lengths that get a stream of their own.
const LENGTHS_MAX: usize = 32;

/// What the encoder looks at before it chooses.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Values of the attribute, in their order.
    pub values: &'a [&'a [u8]],
    /// There are no others.
    pub are_all: bool,
}

/// The values of one attribute.
#[derive(Debug)]
pub struct Column {
    attribute: Attribute,
    coding: ColumnCoding,
}

#[derive(Debug)]
enum ColumnCoding {
    Fixed(StreamId),
    Varlena(VarlenaStreams),
    Dictionary(Dictionary),
    Json(Box<JsonStreams>),
}

#[derive(Debug)]
struct JsonStreams {
    json: Json,
    form: StreamId,
    /// For what is none, or too long for the row.
    other: VarlenaStreams,
}

#[derive(Debug)]
struct VarlenaStreams {
    header: StreamId,
    long_len: StreamId,
    by_header: Vec<(u8, StreamId)>,
    content: StreamId,
}

#[derive(Debug)]
struct Dictionary {
    number: StreamId,
    is_wide: bool,
    /// The values one behind the other: each of its own would take far more memory than it
    /// has bytes in a file.
    values: Vec<u8>,
    ends: Vec<u32>,
    /// The encoder's way back.
    numbers: HashMap<Vec<u8>, u16, SeededHash>,
}

impl Column {
    /// Codes how values are coded; the encoder chooses by looking at all of them.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        values: Option<Values<'_>>,
    ) -> Column {
        let choice = values
            .map(|values| Choice::make(attribute, values, coder.care()))
            .unwrap_or_default();
        let coding = match coder.u8(choices, choice.mode) {
            DICTIONARY => ColumnCoding::Dictionary(Dictionary::open(
                coder,
                choices,
                attribute,
                &choice.dictionary,
            )),
            JSON if attribute == Attribute::Varlena => {
                ColumnCoding::Json(Box::new(JsonStreams::open(coder, choices, choice.json)))
            }
            mode if mode > BY_LEN => {
                coder.fail();
                ColumnCoding::Fixed(coder.open(StreamKind::Value, 1))
            }
            mode => match attribute.fixed() {
                Some((len, _)) => ColumnCoding::Fixed(coder.open(StreamKind::Value, len)),
                None => {
                    let headers = if mode == BY_LEN {
                        choice.headers
                    } else {
                        Vec::new()
                    };
                    ColumnCoding::Varlena(VarlenaStreams::open(coder, choices, headers))
                }
            },
        };
        Column { attribute, coding }
    }

    /// How the values are stored.
    pub fn attribute(&self) -> Attribute {
        self.attribute
    }

    /// Codes the value behind `at`; returns where it ends.
    pub fn code<C: Coder>(&mut self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        match (&mut self.coding, self.attribute.fixed()) {
            (ColumnCoding::Dictionary(dictionary), _) => {
                dictionary.code(coder, self.attribute, data, at)
            }
            (ColumnCoding::Fixed(stream), Some((len, align))) => {
                let start = at.next_multiple_of(align);
                coder.bytes_at(*stream, data, start, len);
                start + len
            }
            (ColumnCoding::Varlena(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Json(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Fixed(_), None) => {
                coder.fail();
                at
            }
        }
    }
}

impl JsonStreams {
    fn open<C: Coder>(coder: &mut C, choices: StreamId, known: Option<Json>) -> JsonStreams {
        let json = Json::open(coder, choices, known);
        JsonStreams {
            json,
            form: coder.open(StreamKind::ValueHeader, 1),
            other: VarlenaStreams::open(coder, choices, Vec::new()),
        }
    }

    fn code<C: Coder>(&mut self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let mut form = 0;
        if C::ENCODING
            && let Some((start, end)) = Attribute::Varlena.find(data, at)
            && let Some((is_long, content)) = json_content(&data[start..end])
            && self.json.learn(content)
        {
            form = if is_long { LONG_JSON } else { SHORT_JSON };
        }
        match coder.u8(self.form, form) {
            SHORT_JSON => {
                let end = self.json.code(coder, data, at + 1);
                coder.put(data, at, [((end - at) << 1 | 1) as u8]);
                end
            }
            LONG_JSON => {
                let start = varlena_start(0, at);
                let end = self.json.code(coder, data, start + 4);
                coder.put(data, start, (((end - start) << 2) as u32).to_le_bytes());
                end
            }
            _ => self.other.code(coder, data, at),
        }
    }
}

/// The content of a varlena that may be of jsonb, and whether its header has four bytes.
fn json_content(value: &[u8]) -> Option<(bool, &[u8])> {
    match value.first()? {
        1 => None,
        header if header & 1 != 0 => Some((false, value.get(1..)?)),
        header if header & 3 == 0 => Some((true, value.get(4..)?)),
        _ => None,
    }
}

impl VarlenaStreams {
    fn open<C: Coder>(coder: &mut C, choices: StreamId, mut headers: Vec<u8>) -> VarlenaStreams {
        let count = usize::from(coder.u8(choices, headers.len() as u8));
        headers.resize(count, 0);
        for header in &mut headers {
            *header = coder.u8(choices, *header);
        }
        let open = |header: u8| {
            (
                header,
                coder.open(
                    StreamKind::Value,
                    usize::from(header >> 1).saturating_sub(1),
                ),
            )
        };
        let by_header = headers.into_iter().map(open).collect();
        VarlenaStreams {
            header: coder.open(StreamKind::ValueHeader, 1),
            long_len: coder.open(StreamKind::ValueHeader, 3),
            by_header,
            content: coder.open(StreamKind::Text, 1),
        }
    }

    fn code<C: Coder>(&self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let mut header = 0;
        if C::ENCODING {
            let found = Attribute::Varlena.find(data, at);
            header = found
                .and_then(|(start, _)| data.get(start))
                .copied()
                .unwrap_or_default();
        }
        let header = coder.u8(self.header, header);
        let start = varlena_start(header, at);
        coder.put(data, start, [header]);
        let mut content = start + 1;
        if header & 1 == 0 {
            let len = coder.part(data, content, content + 3);
            coder.bytes(self.long_len, len);
            content += 3;
        } else if header == 1 {
            // A toast pointer: its length is in the byte behind the header.
            coder.put(data, content, [18]);
        }
        let Some(len) = data.get(start..).and_then(varlena_len) else {
            coder.fail();
            return at;
        };
        let own = self.by_header.iter().find(|(own, _)| *own == header);
        let stream = own.map_or(self.content, |(_, stream)| *stream);
        let bytes = coder.part(data, content, start + len);
        coder.bytes(stream, bytes);
        start + len
    }
}

impl Dictionary {
    fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        known: &[Vec<u8>],
    ) -> Dictionary {
        let count = usize::from(coder.u16(choices, known.len().wrapping_sub(1) as u16)) + 1;
        let width = attribute.fixed().map_or(1, |(len, _)| len);
        let stream = coder.open(StreamKind::DictionaryValue, width);
        let lengths = coder.open(StreamKind::ValueHeader, 1);
        let mut values = Vec::new();
        let mut ends = Vec::new();
        for number in 0..count {
            let value = known.get(number).map(Vec::as_slice).unwrap_or_default();
            let len = match attribute.fixed() {
                Some((len, _)) => len,
                None => usize::from(coder.u8(lengths, value.len() as u8)),
            };
            if coder.failed() || len == 0 {
                coder.fail();
                break;
            }
            let start = values.len();
            values.extend_from_slice(value);
            values.resize(start + len, 0);
            coder.bytes(stream, &mut values[start..]);
            ends.push(values.len() as u32);
        }
        let is_wide = count > 256;
        let mut numbers = HashMap::default();
        if C::ENCODING {
            numbers.extend(known.iter().cloned().zip(0u16..=u16::MAX));
        }
        Dictionary {
            number: coder.open(StreamKind::ValueNumber, if is_wide { 2 } else { 1 }),
            is_wide,
            values,
            ends,
            numbers,
        }
    }

    fn value(&self, number: usize) -> Option<&[u8]> {
        let start = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.values.get(start..*self.ends.get(number)? as usize)
    }

    fn code<C: Coder>(
        &self,
        coder: &mut C,
        attribute: Attribute,
        data: &mut [u8],
        at: usize,
    ) -> usize {
        let mut number = 0;
        if C::ENCODING {
            let value = attribute
                .find(data, at)
                .map(|(start, end)| &data[start..end]);
            number = value
                .and_then(|value| self.numbers.get(value))
                .copied()
                .unwrap_or_default();
        }
        let number = if self.is_wide {
            usize::from(coder.u16(self.number, number))
        } else {
            usize::from(coder.u8(self.number, number as u8))
        };
        let Some(value) = self.value(number) else {
            coder.fail();
            return at;
        };
        let start = match attribute.fixed() {
            Some((_, align)) => at.next_multiple_of(align),
            None => varlena_start(value.first().copied().unwrap_or_default(), at),
        };
        if !C::ENCODING {
            coder
                .part(data, start, start + value.len())
                .copy_from_slice_checked(value);
        }
        start + value.len()
    }
}

trait CopyChecked {
    fn copy_from_slice_checked(&mut self, from: &[u8]);
}

impl CopyChecked for [u8] {
    /// Copies where the lengths agree; a part that was out of range is empty.
    fn copy_from_slice_checked(&mut self, from: &[u8]) {
        if self.len() == from.len() {
            self.copy_from_slice(from);
        }
    }
}

/// How the encoder wants a column.
#[derive(Debug, Default)]
struct Choice {
    mode: u8,
    dictionary: Vec<Vec<u8>>,
    headers: Vec<u8>,
    json: Option<Json>,
}

impl Choice {
    fn make(attribute: Attribute, values: Values<'_>, care: Care) -> Choice {
        let Values { values, are_all } = values;
        let factor = match care {
            Care::Quick => QUICK_FACTOR,
            Care::Full => 1,
        };
        let plain = match attribute.fixed() {
            Some((len, _)) => fixed_cost(values, len, SAMPLE / factor),
            None => f64::MAX,
        };
        let (mut best, mut headers) = (plain, Vec::new());
        let mut mode = PLAIN;
        if attribute == Attribute::Varlena {
            let (concatenated, by_len, found) = varlena_costs(values, TRIAL_LEN / factor);
            (best, mode) = if by_len < concatenated {
                (by_len, BY_LEN)
            } else {
                (concatenated, PLAIN)
            };
            headers = found;
        }
        if are_all
            && attribute != Attribute::Fixed1
            && let Some((dictionary, cost)) = dictionary_of(values)
            && cost < best
        {
            return Choice {
                mode: DICTIONARY,
                dictionary,
                ..Choice::default()
            };
        }
        if are_all && attribute == Attribute::Varlena {
            let contents = values
                .iter()
                .filter_map(|value| Some(json_content(value)?.1));
            if let Some(json) = Json::learn_all(contents) {
                return Choice {
                    mode: JSON,
                    json: Some(json),
                    ..Choice::default()
                };
            }
        }
        Choice {
            mode,
            headers,
            ..Choice::default()
        }
    }
}

/// What values of a fixed length take: planes, or planes of differences.
fn fixed_cost(values: &[&[u8]], len: usize, sample: usize) -> f64 {
    let sample = &values[..values.len().min(sample)];
    let mut counts = vec![[0u32; 256]; len];
    let mut delta_counts = vec![[0u32; 256]; len];
    let mut last = 0u64;
    for value in sample {
        for (count, &byte) in counts.iter_mut().zip(*value) {
            count[usize::from(byte)] += 1;
        }
        if len <= 8 {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&value[..len]);
            let number = u64::from_le_bytes(bytes);
            let delta = number.wrapping_sub(last);
            let zigzag = (delta << 1) ^ ((delta as i64 >> 63) as u64);
            for (count, byte) in delta_counts.iter_mut().zip(zigzag.to_le_bytes()) {
                count[usize::from(byte)] += 1;
            }
            last = number;
        }
    }
    let cost = |counts: &[[u32; 256]]| -> f64 {
        counts
            .iter()
            .map(|plane| entropy_bytes(plane.iter().copied()))
            .sum()
    };
    let best = if len <= 8 {
        cost(&counts).min(cost(&delta_counts))
    } else {
        cost(&counts)
    };
    best * values.len() as f64 / sample.len().max(1) as f64
}

/// What varlenas take one behind the other, what they take by length, and the lengths' headers.
fn varlena_costs(values: &[&[u8]], trial_len: usize) -> (f64, f64, Vec<u8>) {
    let mut trial = Trial::new();
    let mut by_header: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut concatenated = Vec::new();
    let mut headers = Vec::new();
    let mut seen = 0usize;
    for value in values {
        let Some((&header, content)) = value.split_first() else {
            continue;
        };
        seen += value.len();
        headers.push(header);
        concatenated.extend_from_slice(content);
        if header & 1 != 0 {
            match by_header.iter_mut().find(|(own, _)| *own == header) {
                Some((_, rows)) => rows.extend_from_slice(content),
                None => by_header.push((header, content.to_vec())),
            }
        }
        if seen > trial_len {
            break;
        }
    }
    let header_cost = trial.cost(&headers) as f64;
    let total: usize = values.iter().map(|value| value.len()).sum();
    let scale = total as f64 / seen.max(1) as f64;
    let concatenated = trial.cost(&concatenated) as f64;
    if by_header.len() > LENGTHS_MAX {
        return ((concatenated + header_cost) * scale, f64::MAX, Vec::new());
    }
    let mut laid = Vec::new();
    for (header, rows) in &by_header {
        let width = usize::from(header >> 1).saturating_sub(1).max(1);
        crate::transform::Layout::Planes.apply(rows, width, &mut laid);
    }
    let by_len = trial.cost(&laid) as f64;
    let found = by_header
        .iter()
        .map(|(header, _)| *header)
        .filter(|header| *header > 3)
        .collect();
    (
        (concatenated + header_cost) * scale,
        (by_len + header_cost) * scale,
        found,
    )
}

/// The different values, the most frequent first, and what a column of their numbers takes.
fn dictionary_of(values: &[&[u8]]) -> Option<(Vec<Vec<u8>>, f64)> {
    let mut counts: HashMap<&[u8], u32, SeededHash> = HashMap::default();
    for (seen, value) in values.iter().enumerate() {
        if value.len() > VALUE_LEN_MAX || counts.len() > VALUES_MAX - 1 {
            return None;
        }
        // Mostly new values: no dictionary will pay.
        if seen == SAMPLE && counts.len() > SAMPLE * 3 / 5 {
            return None;
        }
        *counts.entry(value).or_insert(0) += 1;
    }
    if counts.len() < 2 || counts.len() * 2 > values.len() {
        return None;
    }
    let mut ranked: Vec<(&[u8], u32)> = counts.into_iter().collect();
    ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let numbers = if ranked.len() <= 256 {
        entropy_bytes(ranked.iter().map(|(_, count)| *count))
    } else {
        // Two planes: the high bytes, and the low ones whatever the high ones are.
        let mut planes = [[0u32; 256]; 2];
        for (number, (_, count)) in ranked.iter().enumerate() {
            planes[0][number & 0xFF] += count;
            planes[1][number >> 8] += count;
        }
        planes
            .iter()
            .map(|plane| entropy_bytes(plane.iter().copied()))
            .sum()
    };
    let content: usize = ranked.iter().map(|(value, _)| value.len() + 1).sum();
    let cost = numbers + content as f64 * 0.8;
    Some((
        ranked
            .into_iter()
            .map(|(value, _)| value.to_vec())
            .collect(),
        cost,
    ))
}
