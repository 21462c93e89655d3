//! Collects the shapes and fields of a jsonb column. The encoder needs them before it codes the
//! first value.

use super::{
    DEPTH_MAX, Field, HAS_ENTRIES, HAS_SHAPES, HAS_TEXT, HAS_WORDS, Json, LIST_MAX, PAIRS_MAX,
    ROOT, Sample, Shape, numbers_of, signature,
};
use crate::model::values::jsonb::{
    CONTAINER, COUNT_MASK, Child, IS_OBJECT, NUMERIC, NUMERIC_HEADER_LEN, STRING, aligned, child_at,
};
use crate::model::values::word_choice::{self, WORDS_PART};
use crate::model::values::words::TextForms;
use crate::streams::coder::get_u32;

/// Number of values that decide whether a column is of jsonb.
const SAMPLE: usize = 64;
/// Maximum number of texts in a field's sample.
const TEXTS_MAX: usize = 1024;
/// Maximum length of a child in bytes: its length and its type fit into 16 bits.
const CHILD_LEN_MAX: usize = 0x1FFF;

impl Sample {
    fn push(&mut self, text: &[u8]) {
        if self.lens.len() < TEXTS_MAX {
            self.bytes.extend_from_slice(text);
            self.lens.push(text.len() as u16);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lens.iter().map(move |&len| {
            let (text, others) = rest.split_at(len.into());
            rest = others;
            text
        })
    }
}

impl Json {
    /// The shapes and fields of a column. `None` if the column is not of jsonb.
    pub fn learn_all<'a>(
        mut contents: impl Iterator<Item = &'a [u8]>,
        with_words: bool,
    ) -> Option<Json> {
        let mut json = Json::new();
        let learn = |content| json.learn(content);
        let mut learned: Vec<bool> = contents.by_ref().take(SAMPLE).map(learn).collect();
        let known = learned.iter().filter(|&&known| known).count();
        if known * 4 < learned.len() * 3 || json.fields.len() < 2 {
            return None;
        }
        learned.extend(contents.map(|content| json.learn(content)));
        json.can_be_coded = learned.into_iter();
        if with_words {
            json.choose_words();
        }
        Some(json)
    }

    /// Chooses words for the fields whose texts take fewer bytes as words.
    fn choose_words(&mut self) {
        for (field, texts) in self.fields.iter_mut().zip(&self.samples) {
            let texts = || texts.iter();
            if word_choice::part_of_plain(texts).is_some_and(|part| part < WORDS_PART) {
                field.has = field.has & !HAS_TEXT | HAS_WORDS;
                field.forms = TextForms::of(texts());
            }
        }
        self.samples.clear();
    }

    pub(super) fn new() -> Json {
        Json {
            fields: vec![Field::default()],
            samples: vec![Sample::default()],
            ..Json::default()
        }
    }

    /// Whether the bytes are a jsonb value that can be coded. Adds its shapes and fields.
    pub fn learn(&mut self, json: &[u8]) -> bool {
        let containers = self.shapes_to_come.len();
        let can_be_coded = self.learn_container(json, 0, ROOT, 0) == Some(json.len());
        if !can_be_coded {
            self.shapes_to_come.truncate(containers);
        }
        can_be_coded
    }

    /// Adds the container at `at` and returns the offset of its end.
    fn learn_container(
        &mut self,
        json: &[u8],
        at: usize,
        field: u16,
        depth: usize,
    ) -> Option<usize> {
        let header = get_u32(json.get(at..at + 4)?, 0);
        let count = (header & COUNT_MASK) as usize;
        let is_object = header & IS_OBJECT != 0;
        let children = if is_object { 2 * count } else { count };
        if depth == DEPTH_MAX || children > json.len() / 4 || is_object && count > PAIRS_MAX {
            return None;
        }
        let start = at + 4 + 4 * children;
        json.get(at..start)?;
        let last = self.fields.get(usize::from(field))?.last_shape;
        let (shape, mut end) = match self.shapes.get(usize::from(last)) {
            Some(shape) if shape.is_at(json, at) => (last, start + shape.keys.len()),
            _ if is_object => self.learn_keys(json, at, start)?,
            _ => (self.learn_shape(json, at, start, start)?, start),
        };
        self.fields.get_mut(usize::from(field))?.last_shape = shape;
        self.shapes_to_come.push(shape);
        let elements = match is_object || count == 0 {
            true => 0,
            false => self.learn_elements(field)?,
        };
        for number in 0..count {
            let child = child_at(json, at, children - count + number, end - start)?;
            let own = match is_object {
                true => *self.shapes.get(usize::from(shape))?.fields.get(number)?,
                false => elements,
            };
            end = self.learn_child(json, end, child, own, depth)?;
        }
        self.need(field, HAS_SHAPES)?;
        Some(end)
    }

    /// The shape of an object whose keys begin at `start`, and the offset of their end.
    fn learn_keys(&mut self, json: &[u8], at: usize, start: usize) -> Option<(u16, usize)> {
        let count = (get_u32(json, at) & COUNT_MASK) as usize;
        let mut end = start;
        for number in 0..count {
            let key = child_at(json, at, number, end - start)?;
            if key.kind != STRING || key.len > PAIRS_MAX {
                return None;
            }
            end += key.len;
        }
        json.get(start..end)?;
        Some((self.learn_shape(json, at, start, end)?, end))
    }

    fn learn_child(
        &mut self,
        json: &[u8],
        at: usize,
        child: Child,
        field: u16,
        depth: usize,
    ) -> Option<usize> {
        let end = at + child.len;
        json.get(at..end)?;
        let start = aligned(child.kind, at);
        if child.len > CHILD_LEN_MAX || json.get(at..start)?.iter().any(|&byte| byte != 0) {
            return None;
        }
        self.need(field, HAS_ENTRIES)?;
        match child.kind {
            STRING => {
                self.need(field, HAS_TEXT)?;
                let texts = self.samples.get_mut(usize::from(field))?;
                texts.push(json.get(start..end)?);
            }
            NUMERIC => {
                let len = end.checked_sub(start + NUMERIC_HEADER_LEN)?;
                if get_u32(json.get(start..end)?, 0) as usize != (end - start) << 2 {
                    return None;
                }
                self.need(field, numbers_of(len))?;
            }
            CONTAINER => {
                if self.learn_container(json, start, field, depth + 1)? != end {
                    return None;
                }
            }
            2..=4 if child.len == 0 => {}
            _ => return None,
        }
        Some(end)
    }

    fn need(&mut self, field: u16, has: u8) -> Option<()> {
        let field = self.fields.get_mut(usize::from(field))?;
        if field.has & has == 0 {
            field.has |= has;
        }
        Some(())
    }

    fn learn_elements(&mut self, field: u16) -> Option<u16> {
        let known = self.fields.get(usize::from(field))?.elements;
        if known != 0 {
            return Some(known);
        }
        let number = self.add_field()?;
        self.fields.get_mut(usize::from(field))?.elements = number;
        Some(number)
    }

    fn add_field(&mut self) -> Option<u16> {
        if self.fields.len() == LIST_MAX {
            return None;
        }
        self.fields.push(Field::default());
        self.samples.push(Sample::default());
        Some(self.fields.len() as u16 - 1)
    }

    /// The number of the shape whose keys are the bytes from `start` to `end`, added if new.
    fn learn_shape(&mut self, json: &[u8], at: usize, start: usize, end: usize) -> Option<u16> {
        let signature = signature(json, at, start, end)?;
        if let Some(&number) = self.shape_numbers.get(&signature) {
            return Some(number);
        }
        if self.shapes.len() == LIST_MAX {
            return None;
        }
        let mut shape = Shape {
            header: get_u32(json, at),
            ..Shape::default()
        };
        let mut key_start = start;
        let keys = match shape.header & IS_OBJECT {
            0 => 0,
            _ => shape.count(),
        };
        for number in 0..keys {
            let child = child_at(json, at, number, key_start - start)?;
            let key = json.get(key_start..key_start + child.len)?;
            let field = match self.field_numbers.get(key) {
                Some(&field) => field,
                None => {
                    let field = self.add_field()?;
                    self.field_numbers.insert(key.to_vec(), field);
                    field
                }
            };
            shape.key_lens.push(child.len as u8);
            shape.keys.extend_from_slice(key);
            shape.fields.push(field);
            key_start += child.len;
        }
        let number = self.shapes.len() as u16;
        shape.entries = json.get(at + 4..at + 4 + 4 * keys)?.to_vec();
        self.shape_numbers.insert(signature, number);
        self.shapes.push(shape);
        Some(number)
    }
}
