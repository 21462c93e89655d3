//! The keys that GIN extracts from a value, in the order in which it inserts them.
//!
//! There is no catalog. A value of a form is found by scanning the row: at each offset where a
//! varlena can begin, its content is parsed as that form.

mod array;
mod jsonb;
mod numeric;
mod trigram;
mod tsvector;

use std::ops::Range;

use crate::streams::coder::get_u32;
use trigram::TextRun;

/// Maximum number of bytes of a row's values that are scanned: no tuple is longer than a page.
const VALUES_MAX: usize = 8192;

/// Scanning this number of bytes costs as much as parsing one.
const SCANNED: usize = 8;
/// Size of a varlena's header, in bytes.
const SHORT_HEADER: usize = 1;
const LONG_HEADER: usize = 4;

/// The form of a value and the operator class, which determine the keys. The number is part of
/// the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Hashes of a jsonb's values and the paths to them (`jsonb_path_ops`).
    #[default]
    JsonbPath = 1,
    /// A jsonb's keys and values (`jsonb_ops`).
    Jsonb = 2,
    /// The words of a tsvector (`tsvector_ops`).
    TsVector = 3,
    /// The elements of an array (`array_ops`).
    Array = 4,
    /// The trigrams of a text's words (`gin_trgm_ops` of pg_trgm).
    Trigram = 5,
}

impl Form {
    /// All forms in the order of trial. Those that are least likely to match by chance come
    /// first.
    pub const ALL: [Form; 5] = [
        Form::TsVector,
        Form::Jsonb,
        Form::JsonbPath,
        Form::Array,
        Form::Trigram,
    ];

    /// The form with this number in the format.
    pub fn from_id(id: u8) -> Option<Form> {
        Form::ALL.into_iter().find(|form| *form as u8 == id)
    }

    /// A quick check of a varlena's content: whether it may have this form, by its first bytes.
    fn is_likely(self, content: &[u8]) -> bool {
        match self {
            Form::JsonbPath | Form::Jsonb => jsonb::is_likely(content),
            Form::TsVector => tsvector::is_likely(content),
            Form::Array => array::is_likely(content),
            Form::Trigram => true,
        }
    }

    /// Extracts the keys from a varlena's content. `None` if it does not have this form.
    fn take(self, content: &[u8], keys: &mut Keys) -> Option<()> {
        keys.clear();
        match self {
            Form::JsonbPath => jsonb::extract_paths(content, keys),
            Form::Jsonb => jsonb::extract_texts(content, keys),
            Form::TsVector => tsvector::extract(content, keys),
            Form::Array => array::extract(content, keys),
            Form::Trigram => {
                trigram::extract(content, keys);
                Some(())
            }
        }
    }

    /// The first offset from `at` on where a varlena of this form may begin, by the fourth byte
    /// of its content.
    fn skip(self, known: &[u8], at: usize) -> usize {
        match self {
            Form::JsonbPath | Form::Jsonb => skip(known, at, jsonb::has_fourth),
            Form::TsVector | Form::Array => skip(known, at, |byte| byte == 0),
            Form::Trigram => at,
        }
    }
}

fn skip(known: &[u8], at: usize, has_fourth: impl Fn(u8) -> bool) -> usize {
    let windows = known.get(at..).unwrap_or_default().windows(LONG_HEADER + 4);
    let may_begin =
        |window: &[u8]| has_fourth(window[SHORT_HEADER + 3]) | has_fourth(window[LONG_HEADER + 3]);
    let skipped = windows.clone().position(may_begin);
    at + skipped.unwrap_or(windows.len())
}

/// The keys of one value.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Start and end of each key in `bytes`.
    spans: Vec<(u32, u32)>,
    /// The keys are varlenas. Otherwise all have the same length.
    is_varlena: bool,
    /// Keys that are numbers, before [`Keys::push_numbers`] sorts them.
    numbers: Vec<u32>,
}

impl Keys {
    /// Removes all keys.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.is_varlena = false;
        self.numbers.clear();
    }

    fn push(&mut self, parts: &[&[u8]]) {
        let start = self.bytes.len() as u32;
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.spans.push((start, self.bytes.len() as u32));
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let key = |&span: &(u32, u32)| self.bytes.get(range(span)).unwrap_or_default();
        self.spans.iter().map(key)
    }

    /// Adds the numbers as keys, each once, sorted by number XOR `flipped`.
    fn push_numbers(&mut self, flipped: u32) {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.sort_unstable_by_key(|number| number ^ flipped);
        numbers.dedup();
        for number in &numbers {
            self.push(&[&number.to_le_bytes()]);
        }
        self.numbers = numbers;
    }

    /// Whether the keys are varlenas.
    pub fn are_varlena(&self) -> bool {
        self.is_varlena
    }

    /// Sorts the keys by `order` and keeps each once.
    fn sort_by<'a, K: Ord>(&'a mut self, order: impl Fn(&'a [u8]) -> K) {
        let bytes = &self.bytes;
        let key = |&span: &(u32, u32)| bytes.get(range(span)).unwrap_or_default();
        self.spans.sort_unstable_by_key(|span| order(key(span)));
        self.spans.dedup_by(|one, other| key(one) == key(other));
    }
}

fn range((start, end): (u32, u32)) -> Range<usize> {
    start as usize..end as usize
}

/// The known part of a row's values.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The known bytes.
    pub known: &'a [u8],
    /// Their offset in the row's values.
    pub from: usize,
}

/// Extracts the keys of one value of a form after the other, from the value of number `first` on
/// (the row's first value of the form is number 0), until `is_wanted` accepts one. Adds the cost,
/// in bytes parsed, to `spent`.
pub fn keys_of(
    (form, first): (Form, u8),
    Values { known, from }: Values<'_>,
    spent: &mut usize,
    keys: &mut Keys,
    mut is_wanted: impl FnMut(u8, &Keys) -> bool,
) -> Option<()> {
    let known = &known[..known.len().min(VALUES_MAX)];
    *spent += known.len() / SCANNED;
    let mut text = TextRun::default();
    let mut number = 0u8;
    let mut at = 0;
    while at < known.len() {
        at = form.skip(known, at);
        let range = content_at(known, at, from);
        at += 1;
        let Some(range) = range else { continue };
        let is_text = form == Form::Trigram && text.has(known, &range);
        let end = range.end;
        let content = &known[range];
        if is_text != (form == Form::Trigram) || !form.is_likely(content) {
            continue;
        }
        // Any text has this form, so one before `first` is counted without parsing it.
        if number >= first || !is_text {
            *spent += content.len();
            if form.take(content, keys).is_none() {
                continue;
            }
        }
        if number >= first && is_wanted(number, keys) {
            return Some(());
        }
        number = number.checked_add(1)?;
        at = end;
    }
    None
}

/// The range of a varlena's content, if a varlena can begin at `at`. `from` is the offset of
/// `known` in the row's values, from which alignment counts.
fn content_at(known: &[u8], at: usize, from: usize) -> Option<Range<usize>> {
    let header = *known.get(at)?;
    let (start, end) = if header & 1 == 1 {
        (at + SHORT_HEADER, at + usize::from(header >> 1))
    } else if header & 3 == 0 && (at + from).is_multiple_of(4) {
        (at + LONG_HEADER, at + (get_u32(known, at) >> 2) as usize)
    } else {
        return None;
    };
    (start < end && end <= known.len()).then_some(start..end)
}
