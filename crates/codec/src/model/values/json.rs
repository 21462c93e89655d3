//! jsonb values, coded by their keys.
//!
//! Objects with the same keys have the same *shape*. The values of one key, in whatever object,
//! are a *field*, which has streams of its own. Both are listed before the first value.

mod learning;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::jsonb::{
    CONTAINER, COUNT_MASK, Child, IS_OBJECT, NUMERIC, NUMERIC_HEADER_LEN, STRING, aligned,
    child_at, put_child,
};
use super::words::{TextForms, Words};
use crate::fast_hash::SeededHash;
use crate::limits::{JSON_ENTRY_COST, WORDS_COST};
use crate::streams::coder::{Coder, StreamId, get_u32};
use crate::streams::kind::StreamKind;

/// Maximum depth of nested containers.
pub const DEPTH_MAX: usize = 16;
/// Maximum number of pairs of an object, and maximum length of a key in bytes.
const PAIRS_MAX: usize = 255;
/// Maximum number of fields of a column, and of its shapes.
const LIST_MAX: usize = 1024;
/// The field of the outermost container.
const ROOT: u16 = 0;
/// Flags of a field: the streams that it has.
const HAS_ENTRIES: u8 = 1;
const HAS_SHAPES: u8 = 2;
const HAS_TEXT: u8 = 4;
const HAS_NUMBERS_4: u8 = 8;
const HAS_NUMBERS_6: u8 = 16;
const HAS_NUMBERS: u8 = 32;
const HAS_WORDS: u8 = 64;
const HAS_ALL: u8 = 127;

/// A set of keys, which some containers have in common.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// Number of children and flags, as in the container's header.
    header: u32,
    key_lens: Vec<u8>,
    /// The keys, concatenated.
    keys: Vec<u8>,
    /// For each key, the field of its values.
    fields: Vec<u16>,
    /// The JEntries of the keys (encoder only).
    entries: Vec<u8>,
}

impl Shape {
    fn count(&self) -> usize {
        (self.header & COUNT_MASK) as usize
    }

    /// Whether the container at `at` has this shape. Encoder only.
    fn is_at(&self, json: &[u8], at: usize) -> bool {
        let rest = json.get(at..).unwrap_or_default();
        let Some((header, entries)) = rest.split_first_chunk() else {
            return false;
        };
        let children = match self.header & IS_OBJECT {
            0 => self.count(),
            _ => 2 * self.count(),
        };
        u32::from_le_bytes(*header) == self.header
            && entries.starts_with(&self.entries)
            && entries
                .get(4 * children..)
                .is_some_and(|keys| keys.starts_with(&self.keys))
    }
}

/// The values of one key, or the elements of the arrays that are values of one key.
#[derive(Clone, Debug, Default)]
struct Field {
    /// Flags: the streams that it has.
    has: u8,
    /// The field of the elements of its arrays, 0 if it has none.
    elements: u16,
    /// The shape of its last container (encoder only).
    last_shape: u16,
    /// The forms of digits and tokens in its texts, if they are coded as words (encoder only).
    forms: TextForms,
    streams: [Option<StreamId>; 6],
}

impl Field {
    fn has_words(&self) -> bool {
        self.has & HAS_WORDS != 0
    }

    fn stream(&self, which: u8) -> Option<StreamId> {
        *self.streams.get(which.trailing_zeros() as usize)?
    }
}

/// The shapes and fields of a column.
#[derive(Debug, Default)]
pub struct Json {
    shapes: Vec<Shape>,
    fields: Vec<Field>,
    /// For each field, its words if its texts are coded as words.
    words: Vec<Option<RefCell<Words>>>,
    /// For each field, its first texts (encoder only).
    samples: Vec<Sample>,
    /// The number of each shape, by its signature (encoder only).
    shape_numbers: HashMap<Vec<u8>, u16, SeededHash>,
    /// The number of each field, by its key (encoder only).
    field_numbers: HashMap<Vec<u8>, u16, SeededHash>,
    /// For each remaining value, whether it can be coded (encoder only).
    can_be_coded: std::vec::IntoIter<bool>,
    /// The shapes of the containers of all values that can be coded, in order (encoder only).
    shapes_to_come: Vec<u16>,
    /// Number of those that have been coded.
    shapes_seen: Cell<usize>,
}

/// A list of texts, concatenated.
#[derive(Debug, Default)]
struct Sample {
    bytes: Vec<u8>,
    lens: Vec<u16>,
}

impl Json {
    /// Codes the lists of shapes and fields, and opens the streams.
    pub fn open<C: Coder>(coder: &mut C, choices: StreamId, known: Option<Json>) -> Json {
        let mut json = known.unwrap_or_default();
        let shapes = usize::from(coder.u16(choices, json.shapes.len() as u16));
        let fields = usize::from(coder.u16(choices, json.fields.len() as u16));
        let is_too_much = || shapes > LIST_MAX || fields > LIST_MAX;
        if !C::ENCODING && (is_too_much() || !coder.take_list(list_cost(shapes, fields))) {
            coder.fail();
            return json;
        }
        json.shapes.resize(shapes, Shape::default());
        json.fields.resize(fields, Field::default());
        for shape in &mut json.shapes {
            shape.code(coder, choices);
            if coder.failed() {
                return json;
            }
        }
        for field in &mut json.fields {
            field.has = coder.u8(choices, field.has);
            let known = match coder.format().has_words() {
                true => HAS_ALL,
                false => HAS_ALL & !HAS_WORDS,
            };
            if field.has & !known != 0 {
                coder.fail();
            }
            field.elements = coder.u16(choices, field.elements);
        }
        let with_words = json.fields.iter().filter(|field| field.has_words()).count();
        if !C::ENCODING && !coder.take_list(with_words * WORDS_COST) {
            coder.fail();
            return json;
        }
        const STREAMS: [(StreamKind, usize); 6] = [
            (StreamKind::JsonEntry, 2),
            (StreamKind::JsonShape, 2),
            (StreamKind::Text, 1),
            (StreamKind::JsonNumber, 4),
            (StreamKind::JsonNumber, 6),
            (StreamKind::JsonNumber, 1),
        ];
        for field in &mut json.fields {
            for (number, (stream, (kind, width))) in
                field.streams.iter_mut().zip(STREAMS).enumerate()
            {
                *stream = (field.has >> number & 1 != 0).then(|| coder.open(kind, width));
            }
            let has_words = field.has_words();
            let words = has_words.then(|| RefCell::new(Words::open(coder, choices, &field.forms)));
            json.words.push(words);
        }
        json
    }

    /// The cost of the lists, which counts towards the limit on lists.
    pub fn list_cost(&self) -> usize {
        let with_words = self.fields.iter().filter(|field| field.has_words()).count();
        list_cost(self.shapes.len(), self.fields.len()) + with_words * WORDS_COST
    }

    /// Codes the last runs of words. The encoder calls it after the last value.
    pub fn finish<C: Coder>(&mut self, coder: &mut C) {
        for words in self.words.iter_mut().flatten() {
            words.get_mut().finish(coder);
        }
    }

    /// Whether the next value can be coded. Encoder only.
    pub fn next_can_be_coded(&mut self) -> bool {
        self.can_be_coded.next().unwrap_or_default()
    }

    /// Codes the value at `at` and returns the offset of its end.
    pub fn code<C: Coder>(&self, coder: &mut C, data: &mut [u8], at: usize) -> usize {
        let end = data.len();
        let json = coder.part(data, at, end);
        match self.container(coder, json, 0, ROOT, 0) {
            Some(len) => at + len,
            None => {
                coder.fail();
                at
            }
        }
    }

    fn container<C: Coder>(
        &self,
        coder: &mut C,
        json: &mut [u8],
        at: usize,
        field: u16,
        depth: usize,
    ) -> Option<usize> {
        let own = self.fields.get(usize::from(field))?;
        let mut wanted = 0;
        if C::ENCODING {
            let seen = self.shapes_seen.get();
            wanted = *self.shapes_to_come.get(seen)?;
            self.shapes_seen.set(seen + 1);
        }
        let shape = coder.u16(own.stream(HAS_SHAPES)?, wanted);
        let shape = self.shapes.get(usize::from(shape))?;
        let count = shape.count();
        let keys = shape.key_lens.len();
        if depth == DEPTH_MAX || count > json.len() / 4 {
            return None;
        }
        coder.put(json, at, shape.header.to_le_bytes());
        let start = at + 4 + 4 * (keys + count);
        let mut end = start;
        for (number, &len) in shape.key_lens.iter().enumerate() {
            end += usize::from(len);
            put_child(
                coder,
                json,
                at,
                number,
                STRING,
                usize::from(len),
                end - start,
            );
        }
        if !C::ENCODING {
            json.get_mut(start..end)?.copy_from_slice(&shape.keys);
        }
        for number in 0..count {
            let field = match shape.fields.get(number) {
                Some(field) => *field,
                None => own.elements,
            };
            let begin = end;
            let child = match C::ENCODING {
                true => child_at(json, at, keys + number, begin - start)?,
                false => Child { kind: 0, len: 0 },
            };
            let kind;
            (kind, end) = self.child(coder, json, begin, child, field, depth)?;
            put_child(
                coder,
                json,
                at,
                keys + number,
                kind,
                end - begin,
                end - start,
            );
            if coder.failed() {
                return None;
            }
        }
        Some(end)
    }

    /// Codes a child and returns its type and the offset of its end.
    fn child<C: Coder>(
        &self,
        coder: &mut C,
        json: &mut [u8],
        at: usize,
        child: Child,
        field: u16,
        depth: usize,
    ) -> Option<(u8, usize)> {
        let own = self.fields.get(usize::from(field))?;
        let mut code = u16::from(child.kind);
        if C::ENCODING {
            let before = match child.kind {
                NUMERIC => aligned(NUMERIC, at) - at + NUMERIC_HEADER_LEN,
                STRING if own.has_words() => child.len,
                CONTAINER => child.len,
                _ => 0,
            };
            code |= (child.len.checked_sub(before)? << 3) as u16;
        }
        let code = coder.u16(own.stream(HAS_ENTRIES)?, code);
        let (kind, len) = ((code & 7) as u8, usize::from(code >> 3));
        let start = aligned(kind, at);
        let end = match kind {
            STRING if own.has_words() => {
                let words = self.words.get(usize::from(field))?.as_ref()?;
                words
                    .borrow_mut()
                    .code(coder, json, start, start + child.len)
            }
            STRING => {
                let text = coder.part(json, start, start + len);
                coder.bytes(own.stream(HAS_TEXT)?, text);
                start + len
            }
            NUMERIC => {
                let header = (len + NUMERIC_HEADER_LEN) << 2;
                coder.put(json, start, (header as u32).to_le_bytes());
                let content = start + NUMERIC_HEADER_LEN;
                let number = coder.part(json, content, content + len);
                coder.bytes(own.stream(numbers_of(len))?, number);
                content + len
            }
            CONTAINER => self.container(coder, json, start, field, depth + 1)?,
            _ => start,
        };
        Some((kind, end))
    }
}

impl Shape {
    fn code<C: Coder>(&mut self, coder: &mut C, choices: StreamId) {
        self.header = coder.u32(choices, self.header);
        if self.header & IS_OBJECT == 0 {
            return;
        }
        let count = self.count();
        if count > PAIRS_MAX {
            return coder.fail();
        }
        self.key_lens.resize(count, 0);
        self.fields.resize(count, 0);
        for (len, field) in self.key_lens.iter_mut().zip(&mut self.fields) {
            *len = coder.u8(choices, *len);
            *field = coder.u16(choices, *field);
        }
        let keys_len = self.key_lens.iter().map(|&len| usize::from(len)).sum();
        self.keys.resize(keys_len, 0);
        coder.bytes(choices, &mut self.keys);
    }
}

fn list_cost(shapes: usize, fields: usize) -> usize {
    (shapes + fields) * JSON_ENTRY_COST
}

/// The stream of numbers with `len` bytes after their varlena header.
fn numbers_of(len: usize) -> u8 {
    match len {
        4 => HAS_NUMBERS_4,
        6 => HAS_NUMBERS_6,
        _ => HAS_NUMBERS,
    }
}

/// The signature of a shape: header, JEntries of the keys, keys.
fn signature(json: &[u8], at: usize, start: usize, end: usize) -> Option<Vec<u8>> {
    let header = get_u32(json, at);
    let keys = match header & IS_OBJECT {
        0 => 0,
        _ => (header & COUNT_MASK) as usize,
    };
    let mut signature = json.get(at..at + 4 + 4 * keys)?.to_vec();
    signature.extend_from_slice(json.get(start..end)?);
    Some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_version::FormatVersion;
    use crate::model::values::jsonb::{HAS_OFFSET, OFFSET_STRIDE};
    use crate::streams::{StreamReader, StreamWriter};
    use proptest::prelude::*;

    /// A jsonb value of a test.
    #[derive(Clone, Debug)]
    enum Any {
        Null,
        Text(String),
        Number(Vec<u8>),
        Array(Vec<Any>),
        Object(Vec<(String, Any)>),
    }

    /// Writes a container as `convertJsonbValue` does. `base` is the offset of the outermost one.
    fn write(out: &mut Vec<u8>, base: usize, value: &Any) {
        let (header, children): (u32, Vec<Any>) = match value {
            Any::Object(pairs) => {
                let keys = pairs.iter().map(|(key, _)| Any::Text(key.clone()));
                let values = pairs.iter().map(|(_, value)| value.clone());
                (IS_OBJECT | pairs.len() as u32, keys.chain(values).collect())
            }
            Any::Array(elements) => (0x4000_0000 | elements.len() as u32, elements.clone()),
            scalar => (0x5000_0001, vec![scalar.clone()]),
        };
        let at = out.len();
        out.extend_from_slice(&header.to_le_bytes());
        out.resize(at + 4 + 4 * children.len(), 0);
        let start = out.len();
        for (number, child) in children.iter().enumerate() {
            let before = out.len();
            let kind = write_child(out, base, child);
            let len = match number % OFFSET_STRIDE {
                0 => HAS_OFFSET | (out.len() - start) as u32,
                _ => (out.len() - before) as u32,
            };
            let entry = (u32::from(kind) << 28 | len).to_le_bytes();
            out[at + 4 + 4 * number..][..4].copy_from_slice(&entry);
        }
    }

    fn write_child(out: &mut Vec<u8>, base: usize, child: &Any) -> u8 {
        let pad = |out: &mut Vec<u8>| out.resize(base + (out.len() - base).next_multiple_of(4), 0);
        match child {
            Any::Null => 4,
            Any::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                STRING
            }
            Any::Number(digits) => {
                pad(out);
                out.extend_from_slice(&((digits.len() as u32 + 4) << 2).to_le_bytes());
                out.extend_from_slice(digits);
                NUMERIC
            }
            container => {
                pad(out);
                write(out, base, container);
                CONTAINER
            }
        }
    }

    fn any_json() -> impl Strategy<Value = Any> {
        let leaf = prop_oneof![
            Just(Any::Null),
            "[a-z]{0,9}".prop_map(Any::Text),
            prop::collection::vec(any::<u8>(), 2..9).prop_map(Any::Number),
        ];
        leaf.prop_recursive(3, 120, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Any::Array),
                prop::collection::vec(("[a-c]{0,2}", inner), 0..40).prop_map(Any::Object),
            ]
        })
    }

    fn decode_all(content: Vec<u8>, lens: &[usize]) -> Option<Vec<Vec<u8>>> {
        let mut coder = StreamReader::of_content(content, FormatVersion::CURRENT).ok()?;
        let choices = coder.open(StreamKind::HeapSchema, 1);
        let json = Json::open(&mut coder, choices, None);
        let mut decoded = Vec::new();
        for len in lens {
            let mut bytes = vec![0; *len];
            let end = json.code(&mut coder, &mut bytes, 0);
            if coder.failed() || end != *len {
                return None;
            }
            decoded.push(bytes);
        }
        coder.exhausted().then_some(decoded)
    }

    proptest! {
        #[test]
        fn what_is_learned_comes_back(
            values in prop::collection::vec(any_json(), 1..8),
            in_words in any::<bool>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let mut originals = Vec::new();
            let mut json = Json::new();
            for value in &values {
                let mut bytes = Vec::new();
                write(&mut bytes, 0, value);
                // A truncated value cannot be coded, and does not affect the others.
                prop_assert!(!json.learn(&bytes[..bytes.len() - 1]));
                if json.learn(&bytes) {
                    originals.push(bytes);
                }
            }
            prop_assume!(!originals.is_empty());
            for field in &mut json.fields {
                if in_words && field.has & HAS_TEXT != 0 {
                    field.has ^= HAS_TEXT | HAS_WORDS;
                }
            }
            let mut coder = StreamWriter::default();
            let choices = coder.open(StreamKind::HeapSchema, 1);
            let mut json = Json::open(&mut coder, choices, Some(json));
            for bytes in &mut originals {
                let len = json.code(&mut coder, bytes, 0);
                prop_assert_eq!(len, bytes.len());
            }
            json.finish(&mut coder);
            prop_assert!(!coder.failed());
            let mut content = coder.into_content().bytes;
            let lens: Vec<usize> = originals.iter().map(Vec::len).collect();
            prop_assert_eq!(decode_all(content.clone(), &lens), Some(originals));
            // Decoding ends on any input.
            let place = flip.index(content.len());
            content[place] ^= 0x55;
            decode_all(content, &lens);
        }
    }

    #[test]
    fn refuses_what_postgresql_does_not_write() {
        let mut bytes = Vec::new();
        let value = Any::Object(vec![("a".into(), Any::Number(vec![1, 2]))]);
        write(&mut bytes, 0, &value);
        assert!(Json::new().learn(&bytes));
        for place in [4, 7, 11, 13, 17] {
            let mut changed = bytes.clone();
            changed[place] ^= 0x80;
            assert!(!Json::new().learn(&changed), "byte {place}");
        }
        assert!(!Json::new().learn(&bytes[..bytes.len() - 1]));
    }
}
