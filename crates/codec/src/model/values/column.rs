//! The values of one attribute of one relation.

use super::attribute::{Attribute, varlena_start};
use super::column_choice::Choice;
use super::compressed::{
    AS_IT_IS, CompressedAgain, HEADER_LEN, OTHER_PIECE, Piece, TakenApart, method_of,
};
use super::decimal::DecimalStreams;
use super::dictionary::Dictionary;
use super::json::Json;
use super::mode::Mode;
use super::numeric::NumericStreams;
use super::scale::Scale;
use super::varlena::{VarlenaStreams, plain_content};
use super::words::Words;
use crate::limits::{COMPRESSED_VALUE_MAX, WORDS_COST};
use crate::optional_model::OptionalModel;
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// A value that is coded as jsonb or words, with a varlena header of one byte.
const SHORT: u8 = 1;
/// The same with a header of four bytes.
const LONG: u8 = 2;

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
    Decimal(DecimalStreams),
    Numeric(Box<NumericStreams>),
    Compressed(Box<CompressedStreams>),
}

#[derive(Debug)]
struct JsonStreams {
    json: Json,
    form: StreamId,
    /// For values that are not coded as jsonb.
    other: VarlenaStreams,
}

#[derive(Debug)]
struct WordStreams {
    words: Words,
    form: StreamId,
    /// For values that are compressed or stored elsewhere (TOAST).
    other: VarlenaStreams,
}

/// The streams of a column of which the server has compressed values.
#[derive(Debug)]
struct CompressedStreams {
    forms: StreamId,
    lens: StreamId,
    /// The values that were compressed, and others of their kind.
    values: Column,
    /// Pieces of values that are not taken apart.
    pieces: Option<Column>,
    /// What is to be coded. Encoder only.
    apart: TakenApart,
    /// Decoder only.
    again: CompressedAgain,
    value: Vec<u8>,
}

impl Column {
    /// Codes the mode of the column. The encoder chooses it by looking at all values in their
    /// order, and at what `pieces` of values in a TOAST table they may be.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        values: Option<&[&[u8]]>,
        pieces: Option<&[Piece]>,
    ) -> Column {
        let how = coder.choices();
        let is_tried = attribute == Attribute::Varlena && how.uses(OptionalModel::CompressedValues);
        let apart = values.filter(|_| is_tried).and_then(|values| {
            let apart = TakenApart::find(values, pieces, how.proof)?;
            coder
                .take_apart(apart.values_len())
                .then_some((apart, values))
        });
        if C::ENCODING && apart.is_none() {
            return Column::open_plain(coder, choices, attribute, values);
        }
        let mode = coder.u8(choices, Mode::Compressed as u8);
        if Mode::of(mode) != Some(Mode::Compressed) {
            return Column::open_of(coder, choices, attribute, Mode::of(mode), Choice::default());
        }
        if attribute != Attribute::Varlena || !coder.format().has_compressed_values() {
            coder.fail();
        }
        let streams = CompressedStreams::open(coder, choices, apart);
        let coding = ColumnCoding::Compressed(Box::new(streams));
        Column { attribute, coding }
    }

    /// As [`Column::open`], of values that are not taken apart.
    pub fn open_plain<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        values: Option<&[&[u8]]>,
    ) -> Column {
        let choice = values
            .map(|values| Choice::make(attribute, values, coder.choices()))
            .filter(|choice| coder.take_list(choice.list_cost()))
            .unwrap_or_default();
        let mode = Mode::of(coder.u8(choices, choice.mode as u8));
        Column::open_of(coder, choices, attribute, mode, choice)
    }

    fn open_of<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        mode: Option<Mode>,
        choice: Choice,
    ) -> Column {
        let coding = match mode {
            Some(Mode::Dictionary) => ColumnCoding::Dictionary(Dictionary::open(
                coder,
                choices,
                attribute,
                &choice.dictionary,
                choice.numbers,
            )),
            Some(Mode::Json) if attribute == Attribute::Varlena => {
                ColumnCoding::Json(Box::new(JsonStreams::open(coder, choices, choice.json)))
            }
            Some(Mode::Words)
                if attribute == Attribute::Varlena
                    && coder.format().has_words()
                    && (C::ENCODING || coder.take_list(WORDS_COST)) =>
            {
                let words = Words::open(coder, choices, &choice.forms);
                ColumnCoding::Words(Box::new(WordStreams {
                    words,
                    form: coder.open(StreamKind::ValueHeader, 1),
                    other: VarlenaStreams::open(coder, choices, Vec::new()),
                }))
            }
            Some(Mode::Scaled) if matches!(attribute.fixed(), Some((4 | 8, _))) => {
                let scale = choice.scale.code(coder, choices);
                let len = attribute.fixed().map_or(8, |(len, _)| len);
                ColumnCoding::Scaled(coder.open(StreamKind::Value, len), scale)
            }
            Some(Mode::Decimal)
                if matches!(attribute.fixed(), Some((4 | 8, _))) && coder.format().has_pages() =>
            {
                let len = attribute.fixed().map_or(8, |(len, _)| len);
                let decimals = choice.decimals;
                ColumnCoding::Decimal(DecimalStreams::open(coder, choices, decimals, len))
            }
            Some(Mode::Numeric)
                if attribute == Attribute::Varlena && coder.format().has_pages() =>
            {
                let streams = NumericStreams::open(coder, choices, choice.numeric);
                ColumnCoding::Numeric(Box::new(streams))
            }
            Some(mode @ (Mode::Plain | Mode::ByLen)) => match attribute.fixed() {
                Some((len, _)) => ColumnCoding::Fixed(coder.open(StreamKind::Value, len)),
                None => {
                    let headers = if mode == Mode::ByLen {
                        choice.headers
                    } else {
                        Vec::new()
                    };
                    ColumnCoding::Varlena(VarlenaStreams::open(coder, choices, headers))
                }
            },
            _ => {
                coder.fail();
                ColumnCoding::Fixed(coder.open(StreamKind::Value, 1))
            }
        };
        Column { attribute, coding }
    }

    /// Encodes all values of the column. The result is the same as calling [`Column::code`] for
    /// each.
    pub fn code_all(&mut self, coder: &mut StreamWriter, values: &[&[u8]]) {
        match &mut self.coding {
            ColumnCoding::Fixed(stream) => append_fixed(coder, *stream, values),
            ColumnCoding::Dictionary(dictionary) => dictionary.append(coder, values.len()),
            ColumnCoding::Varlena(streams) => streams.append(coder, values),
            ColumnCoding::Compressed(streams) => streams.code_all(coder, values),
            ColumnCoding::Scaled(..)
            | ColumnCoding::Json(_)
            | ColumnCoding::Words(_)
            | ColumnCoding::Decimal(_)
            | ColumnCoding::Numeric(_) => {
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

    /// Codes the value after offset `at` and returns the offset of its end.
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
            (ColumnCoding::Decimal(streams), Some((len, align))) => {
                let start = at.next_multiple_of(align);
                streams.code(coder, data, start, len);
                start + len
            }
            (ColumnCoding::Varlena(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Numeric(streams), _) => streams.code(coder, data, at),
            // The encoder codes all of them together.
            (ColumnCoding::Compressed(streams), _) => streams.decode(coder, data, at),
            (ColumnCoding::Json(streams), _) => streams.code(coder, data, at),
            (ColumnCoding::Words(streams), _) => streams.code(coder, data, at),
            (
                ColumnCoding::Fixed(_) | ColumnCoding::Scaled(..) | ColumnCoding::Decimal(_),
                None,
            ) => {
                coder.fail();
                at
            }
        }
    }
}

/// Appends values of a fixed length. Lengths of 8 and 4 bytes have a path of their own, so that
/// each copy has a constant length.
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
                put_short_header(coder, data, at, end);
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

/// Puts the header of one byte of a value that ends at `end`.
fn put_short_header<C: Coder>(coder: &mut C, data: &mut [u8], at: usize, end: usize) {
    match u8::try_from((end - at) << 1 | 1) {
        Ok(header) => coder.put(data, at, [header]),
        Err(_) => coder.fail(),
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
                put_short_header(coder, data, at, end);
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

impl CompressedStreams {
    /// Codes whether there are pieces, and opens the columns of what is in them. The encoder has taken apart the
    /// values.
    fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        apart: Option<(TakenApart, &[&[u8]])>,
    ) -> CompressedStreams {
        let has_pieces = apart.as_ref().is_some_and(|(apart, _)| apart.has_pieces());
        let has_pieces = coder.u8(choices, has_pieces.into());
        if has_pieces > 1 {
            coder.fail();
        }
        let forms = coder.open(StreamKind::ValueHeader, 1);
        let lens = coder.open(StreamKind::ValueHeader, 4);
        let to_code = apart.as_ref().map(|(apart, values)| apart.to_code(values));
        let (values, pieces) = to_code.unzip();
        let values = Column::open_plain(coder, choices, Attribute::Varlena, values.as_deref());
        let pieces = (has_pieces != 0)
            .then(|| Column::open_plain(coder, choices, Attribute::Varlena, pieces.as_deref()));
        CompressedStreams {
            forms,
            lens,
            values,
            pieces,
            apart: apart.map(|(apart, _)| apart).unwrap_or_default(),
            again: CompressedAgain::default(),
            value: Vec::new(),
        }
    }

    /// Encodes all values of the column.
    fn code_all(&mut self, coder: &mut StreamWriter, values: &[&[u8]]) {
        let (whole, pieces) = self.apart.to_code(values);
        coder.append(self.forms, self.apart.forms());
        for len in self.apart.lens() {
            coder.u32(self.lens, len as u32);
        }
        self.values.code_all(coder, &whole);
        if let Some(column) = &mut self.pieces {
            column.code_all(coder, &pieces);
        }
    }

    /// Decodes the value after offset `at` and returns the offset of its end.
    fn decode<C: Coder>(&mut self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let form = coder.u8(self.forms, AS_IT_IS);
        let end = match form {
            AS_IT_IS => {
                let column = self.pieces.as_mut().unwrap_or(&mut self.values);
                return column.code(coder, data, at);
            }
            OTHER_PIECE => self.again.piece(data, at),
            _ => self.value(coder, form, data, at),
        };
        end.unwrap_or_else(|| {
            coder.fail();
            at
        })
    }

    /// Decodes a value, compresses it, and puts it or its first piece into its place.
    fn value<C: Coder>(
        &mut self,
        coder: &mut C,
        form: u8,
        data: &mut [u8],
        at: usize,
    ) -> Option<usize> {
        let (method, is_piece) = method_of(form)?;
        let len = coder.u32(self.lens, 0) as usize;
        let is_allowed = is_piece == self.pieces.is_some() && len <= COMPRESSED_VALUE_MAX;
        if coder.failed() || !is_allowed || !coder.take_apart(len) {
            return None;
        }
        self.value.clear();
        self.value.resize(HEADER_LEN + len, 0);
        let end = self.values.code(coder, &mut self.value, 0);
        if end != self.value.len() || coder.failed() {
            return None;
        }
        let value = self.value.get(HEADER_LEN..)?;
        self.again.put_value(method, value, (data, at), is_piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::limits::LISTS_COST_MAX;
    use crate::streams::StreamReader;
    use crate::streams::coder::LazyStream;

    /// The content and the mode of a column of three distinct values, coded after lists of the
    /// cost `taken`.
    fn coded(taken: usize) -> (Vec<u8>, u8) {
        let names: [&[u8]; 3] = [b"\x13somebody", b"\x13nobody__", b"\x13anyone__"];
        // The order of the names is pseudorandom: zstd finds no repeats.
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            names[(state >> 20) as usize % 3]
        };
        let values: Vec<&[u8]> = (0..900).map(|_| next()).collect();
        let mut coder = StreamWriter::default();
        let choices = LazyStream::default().open(&mut coder, StreamKind::HeapSchema, 1);
        assert!(coder.take_list(taken));
        let mut column = Column::open(&mut coder, choices, Attribute::Varlena, Some(&values), None);
        column.code_all(&mut coder, &values);
        let content = coder.into_content().bytes;
        let mut reader = StreamReader::of_content(content.clone(), FormatVersion::CURRENT).unwrap();
        let choices = LazyStream::default().open(&mut reader, StreamKind::HeapSchema, 1);
        (content, reader.u8(choices, 0))
    }

    #[test]
    fn lists_are_limited_in_both_directions() {
        let (content, mode) = coded(0);
        assert_eq!(mode, Mode::Dictionary as u8);
        assert_ne!(coded(LISTS_COST_MAX).1, Mode::Dictionary as u8);
        for (taken, fails) in [(0, false), (LISTS_COST_MAX, true)] {
            let mut reader =
                StreamReader::of_content(content.clone(), FormatVersion::CURRENT).unwrap();
            let choices = LazyStream::default().open(&mut reader, StreamKind::HeapSchema, 1);
            assert!(reader.take_list(taken));
            Column::open(&mut reader, choices, Attribute::Varlena, None, None);
            assert_eq!(reader.failed(), fails);
        }
    }

    /// The data of values of an example, decoded into bytes of this length.
    fn example(title: &str, attribute: Attribute, values: usize, len: usize) -> Vec<u8> {
        let mut reader = format_example::reader("model/values.md", title);
        let choices = reader.open(StreamKind::HeapSchema, 1);
        let mut column = Column::open(&mut reader, choices, attribute, None, None);
        let mut data = vec![0; len];
        let end = (0..values).fold(0, |at, _| column.code(&mut reader, &mut data, at));
        assert_eq!(end, len);
        assert!(reader.exhausted() && !reader.failed());
        data
    }

    #[test]
    fn decodes_the_examples_of_the_specification() {
        let integers = |values: [i32; 3]| values.map(i32::to_le_bytes).concat();
        assert_eq!(
            example("a dictionary", Attribute::Fixed4, 3, 12),
            integers([100, 200, 100])
        );
        assert_eq!(
            example("scaled integers", Attribute::Fixed4, 3, 12),
            integers([-3, 2, 17])
        );
        assert_eq!(
            example("varlenas by length", Attribute::Varlena, 3, 13),
            b"\x09abc\x09xyz\x0Bhi!!"
        );
        assert_eq!(
            example("decimal fractions", Attribute::Fixed8, 3, 24),
            [1.5, -0.25, 1.0 / 3.0].map(f64::to_le_bytes).concat()
        );
        assert_eq!(
            example("numerics as integers", Attribute::Varlena, 3, 17),
            b"\x0F\x00\x81\x2C\x00\xF4\x01\x0B\x00\x81\x2C\x00\x0B\x7F\xA1\xF4\x01"
        );
    }
}
