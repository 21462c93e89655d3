//! The values of one attribute of one relation.

use super::attribute::{Attribute, varlena_len, varlena_start};
use super::column_choice::Choice;
use super::json::Json;
use super::scale::Scale;
use super::words::Words;
use crate::coder::{Coder, StreamId};
use crate::limits::{DICTIONARY_VALUE_COST, WORDS_COST};
use crate::stream_kind::StreamKind;
use crate::streams::StreamWriter;

/// Values are fixed, or their bytes stand in one stream.
pub const PLAIN: u8 = 0;
/// Values are numbers in a list of different values.
pub const DICTIONARY: u8 = 1;
/// Values of each length are in a stream of their own.
pub const BY_LEN: u8 = 2;

/// Values are of jsonb.
pub const JSON: u8 = 3;
/// Values are integers that are alike modulo some number, such as times in whole seconds.
pub const SCALED: u8 = 4;

/// Values are texts, in words.
pub const WORDS: u8 = 5;

/// A value of the column's type with a header of one byte.
const SHORT: u8 = 1;
/// The same with a header of four bytes.
const LONG: u8 = 2;

/// Different values of a dictionary at most.
pub const VALUES_MAX: usize = 1 << 16;
/// Bytes of a value in a dictionary at most.
pub const VALUE_LEN_MAX: usize = 255;

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
    Scaled(StreamId, Scale),
    Json(Box<JsonStreams>),
    Words(Box<WordStreams>),
}

#[derive(Debug)]
struct JsonStreams {
    json: Json,
    form: StreamId,
    /// For what is none, or too long for the row.
    other: VarlenaStreams,
}

#[derive(Debug)]
struct WordStreams {
    words: Words,
    form: StreamId,
    /// For what is stored otherwise.
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
    /// The encoder's numbers of the values to come.
    numbers: std::vec::IntoIter<u16>,
}

impl Column {
    /// Codes how values are coded; the encoder chooses by looking at all of them, in their order.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        values: Option<&[&[u8]]>,
    ) -> Column {
        let choice = values
            .map(|values| Choice::make(attribute, values, coder.choices()))
            .filter(|choice| coder.take_list(choice.list_cost()))
            .unwrap_or_default();
        let coding = match coder.u8(choices, choice.mode) {
            DICTIONARY => ColumnCoding::Dictionary(Dictionary::open(
                coder,
                choices,
                attribute,
                &choice.dictionary,
                choice.numbers,
            )),
            JSON if attribute == Attribute::Varlena => {
                ColumnCoding::Json(Box::new(JsonStreams::open(coder, choices, choice.json)))
            }
            WORDS
                if attribute == Attribute::Varlena
                    && (C::ENCODING || coder.take_list(WORDS_COST)) =>
            {
                let words = Words::open(coder, choices, choice.digits);
                ColumnCoding::Words(Box::new(WordStreams {
                    words,
                    form: coder.open(StreamKind::ValueHeader, 1),
                    other: VarlenaStreams::open(coder, choices, Vec::new()),
                }))
            }
            SCALED if matches!(attribute.fixed(), Some((4 | 8, _))) => {
                let scale = choice.scale.code(coder, choices);
                let len = attribute.fixed().map_or(8, |(len, _)| len);
                ColumnCoding::Scaled(coder.open(StreamKind::Value, len), scale)
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

    /// Codes values that are all there, as one [`Column::code`] after the other would.
    pub fn code_all(&mut self, coder: &mut StreamWriter, values: &[&[u8]]) {
        match &mut self.coding {
            ColumnCoding::Fixed(stream) => append_fixed(coder, *stream, values),
            ColumnCoding::Dictionary(dictionary) => dictionary.append(coder, values.len()),
            ColumnCoding::Varlena(streams) => streams.append(coder, values),
            ColumnCoding::Scaled(..) | ColumnCoding::Json(_) | ColumnCoding::Words(_) => {
                let mut scratch = Vec::new();
                for value in values {
                    scratch.clear();
                    scratch.extend_from_slice(value);
                    self.code(coder, &mut scratch, 0);
                }
                match &mut self.coding {
                    ColumnCoding::Words(streams) => streams.words.finish(coder),
                    ColumnCoding::Json(streams) => streams.json.finish(coder),
                    _ => {}
                }
            }
        }
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
            (ColumnCoding::Scaled(stream, scale), Some((len, align))) => {
                let start = at.next_multiple_of(align);
                scale.code_value(coder, *stream, data, start, len);
                start + len
            }
            (ColumnCoding::Varlena(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Json(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Words(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Fixed(_) | ColumnCoding::Scaled(..), None) => {
                coder.fail();
                at
            }
        }
    }
}

/// Values of a fixed length: those of the usual ones without a copy in pieces.
fn append_fixed(coder: &mut StreamWriter, stream: StreamId, values: &[&[u8]]) {
    for value in values {
        if let Ok(value) = <&[u8; 8]>::try_from(*value) {
            coder.append(stream, value);
        } else if let Ok(value) = <&[u8; 4]>::try_from(*value) {
            coder.append(stream, value);
        } else {
            coder.append(stream, value);
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
            && let Some((is_long, _)) = plain_content(&data[start..end])
            && self.json.next_can_be_coded()
        {
            form = if is_long { LONG } else { SHORT };
        }
        match coder.u8(self.form, form) {
            SHORT => {
                let end = self.json.code(coder, data, at + 1);
                coder.put(data, at, [((end - at) << 1 | 1) as u8]);
                end
            }
            LONG => {
                let start = varlena_start(0, at);
                let end = self.json.code(coder, data, start + 4);
                coder.put(data, start, (((end - start) << 2) as u32).to_le_bytes());
                end
            }
            _ => self.other.code(coder, data, at),
        }
    }
}

impl WordStreams {
    fn code<C: Coder>(&mut self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let (mut form, mut text_end) = (0, data.len());
        if C::ENCODING
            && let Some((start, end)) = Attribute::Varlena.find(data, at)
            && let Some((is_long, _)) = plain_content(&data[start..end])
        {
            form = if is_long { LONG } else { SHORT };
            text_end = end;
        }
        match coder.u8(self.form, form) {
            SHORT => {
                let end = self.words.code(coder, data, at + 1, text_end);
                coder.put(data, at, [((end - at) << 1 | 1) as u8]);
                end
            }
            LONG => {
                let start = varlena_start(0, at);
                let end = self.words.code(coder, data, start + 4, text_end);
                coder.put(data, start, (((end - start) << 2) as u32).to_le_bytes());
                end
            }
            _ => self.other.code(coder, data, at),
        }
    }
}

/// The content of a varlena that is neither compressed nor elsewhere, and whether its header has four bytes.
pub fn plain_content(value: &[u8]) -> Option<(bool, &[u8])> {
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
        let bytes = coder.part(data, content, start + len);
        coder.bytes(self.stream_of(header), bytes);
        start + len
    }

    fn stream_of(&self, header: u8) -> StreamId {
        let own = self.by_header.iter().find(|(own, _)| *own == header);
        own.map_or(self.content, |(_, stream)| *stream)
    }

    /// [`VarlenaStreams::code`] for values that are all there.
    fn append(&self, coder: &mut StreamWriter, values: &[&[u8]]) {
        let mut last = (0, self.stream_of(0));
        for value in values {
            let (&header, mut content) = value.split_first().unwrap_or((&0, &[]));
            coder.u8(self.header, header);
            if header & 1 == 0 {
                let (len, rest) = content.split_at_checked(3).unwrap_or_default();
                coder.append(self.long_len, len);
                content = rest;
            }
            if header != last.0 {
                last = (header, self.stream_of(header));
            }
            coder.append(last.1, content);
        }
    }
}

impl Dictionary {
    fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        known: &[Vec<u8>],
        numbers: Vec<u16>,
    ) -> Dictionary {
        let count = usize::from(coder.u16(choices, known.len().wrapping_sub(1) as u16)) + 1;
        if !C::ENCODING && !coder.take_list(count * DICTIONARY_VALUE_COST) {
            coder.fail();
        }
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
        Dictionary {
            number: coder.open(StreamKind::ValueNumber, if is_wide { 2 } else { 1 }),
            is_wide,
            values,
            ends,
            numbers: numbers.into_iter(),
        }
    }

    fn value(&self, number: usize) -> Option<&[u8]> {
        let start = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.values.get(start..*self.ends.get(number)? as usize)
    }

    /// Codes the numbers of the next values.
    fn append(&mut self, coder: &mut StreamWriter, count: usize) {
        for number in self.numbers.by_ref().take(count) {
            match self.is_wide {
                true => coder.u16(self.number, number),
                false => coder.u8(self.number, number as u8).into(),
            };
        }
    }

    fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        attribute: Attribute,
        data: &mut [u8],
        at: usize,
    ) -> usize {
        let number = self.numbers.next().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coder::Slot;
    use crate::limits::LISTS_COST_MAX;
    use crate::streams::StreamReader;

    /// A column of three values, coded when lists have taken so much; and its mode.
    fn coded(taken: usize) -> (Vec<u8>, u8) {
        let names: [&[u8]; 3] = [b"\x13somebody", b"\x13nobody__", b"\x13anyone__"];
        // Which name comes next follows from nothing that zstd could find.
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            names[(state >> 20) as usize % 3]
        };
        let values: Vec<&[u8]> = (0..900).map(|_| next()).collect();
        let mut coder = StreamWriter::default();
        let choices = Slot::default().open(&mut coder, StreamKind::HeapSchema, 1);
        assert!(coder.take_list(taken));
        let mut column = Column::open(&mut coder, choices, Attribute::Varlena, Some(&values));
        column.code_all(&mut coder, &values);
        let content = coder.into_content().bytes;
        let mut reader = StreamReader::new(content.clone()).unwrap();
        let choices = Slot::default().open(&mut reader, StreamKind::HeapSchema, 1);
        (content, reader.u8(choices, 0))
    }

    #[test]
    fn lists_are_limited_in_both_directions() {
        let (content, mode) = coded(0);
        assert_eq!(mode, DICTIONARY);
        assert_ne!(coded(LISTS_COST_MAX).1, DICTIONARY);
        for (taken, fails) in [(0, false), (LISTS_COST_MAX, true)] {
            let mut reader = StreamReader::new(content.clone()).unwrap();
            let choices = Slot::default().open(&mut reader, StreamKind::HeapSchema, 1);
            assert!(reader.take_list(taken));
            Column::open(&mut reader, choices, Attribute::Varlena, None);
            assert_eq!(reader.failed(), fails);
        }
    }
}
