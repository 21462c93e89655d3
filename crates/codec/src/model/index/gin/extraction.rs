//! What GIN takes out of the values that it indexes: the keys of each, in the order in which
//! they are inserted.
//!
//! A value is found without a catalog: it is one of those places of a row where a varlena can
//! begin and where what it holds has the form that is looked for.

mod array;
mod jsonb;
mod numeric;
mod trigram;
mod tsvector;

use std::ops::Range;

use crate::streams::coder::get_u32;
use trigram::TextRun;

/// Bytes of a row's values that are looked at: no tuple is longer than a page.
const VALUES_MAX: usize = 8192;

/// Bytes that are looked through in the time in which one is taken apart.
const SCANNED: usize = 8;
/// Bytes of a varlena's header.
const SHORT_HEADER: usize = 1;
const LONG_HEADER: usize = 4;

/// What an index takes out of a value. The number is part of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Hashes of a jsonb's values with the keys that lead to them (`jsonb_path_ops`).
    #[default]
    JsonbPath = 1,
    /// A jsonb's keys and values (`jsonb_ops`).
    Jsonb = 2,
    /// The words of a tsvector (`tsvector_ops`).
    TsVector = 3,
    /// The elements of an array (`array_ops`).
    Array = 4,
    /// Three letters each of a text's words (`gin_trgm_ops` of pg_trgm).
    Trigram = 5,
}

impl Form {
    /// All of them, as they are tried: those that are told apart best come first.
    pub const ALL: [Form; 5] = [
        Form::TsVector,
        Form::Jsonb,
        Form::JsonbPath,
        Form::Array,
        Form::Trigram,
    ];

    /// The form of a number of the format.
    pub fn from_id(id: u8) -> Option<Form> {
        Form::ALL.into_iter().find(|form| *form as u8 == id)
    }

    /// What a varlena holds may have this form, as its first bytes say.
    fn is_likely(self, content: &[u8]) -> bool {
        match self {
            Form::JsonbPath | Form::Jsonb => jsonb::is_likely(content),
            Form::TsVector => tsvector::is_likely(content),
            Form::Array => array::is_likely(content),
            Form::Trigram => true,
        }
    }

    /// Takes the keys out of what a varlena holds; `None` where it has not this form.
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

    /// The first place from `at` on where content of this form may begin behind a varlena header:
    /// its fourth byte can be no other one.
    fn skip(self, known: &[u8], at: usize) -> usize {
        match self {
            Form::JsonbPath | Form::Jsonb => skip(known, at, jsonb::has_fourth),
            Form::TsVector | Form::Array => skip(known, at, |byte| byte == 0),
            Form::Trigram => at,
        }
    }
}

fn skip(known: &[u8], at: usize, has_fourth: impl Fn(u8) -> bool) -> usize {
    let places = known.get(at..).unwrap_or_default().windows(LONG_HEADER + 4);
    let may_begin =
        |place: &[u8]| has_fourth(place[SHORT_HEADER + 3]) | has_fourth(place[LONG_HEADER + 3]);
    let skipped = places.clone().position(may_begin);
    at + skipped.unwrap_or(places.len())
}

/// The keys of one value.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Where each begins and ends.
    spans: Vec<(u32, u32)>,
    /// They are of variable length; else each has as many bytes as the first.
    is_varlena: bool,
    /// Keys that are numbers, before they are put in their order.
    numbers: Vec<u32>,
}

impl Keys {
    /// Leaves none.
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

    /// The keys.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let key = |&span: &(u32, u32)| self.bytes.get(range(span)).unwrap_or_default();
        self.spans.iter().map(key)
    }

    /// Makes keys of the numbers, in the order of themselves with the bits of `flipped` turned
    /// around, each once.
    fn push_numbers(&mut self, flipped: u32) {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.sort_unstable_by_key(|number| number ^ flipped);
        numbers.dedup();
        for number in &numbers {
            self.push(&[&number.to_le_bytes()]);
        }
        self.numbers = numbers;
    }

    /// They are of variable length.
    pub fn are_varlena(&self) -> bool {
        self.is_varlena
    }

    /// Puts the keys in the order of a function of them, each once.
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

/// A row's values, or what is known of them.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Known bytes.
    pub known: &'a [u8],
    /// Where in the values they begin.
    pub from: usize,
}

/// Takes the keys out of the values that have a form, one after the other from the one of number
/// `first` on, counted from 0, until one `is_wanted`. Adds to `spent` what that takes.
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
        let place = content_at(known, at, from);
        at += 1;
        let Some(place) = place else { continue };
        let is_text = form == Form::Trigram && text.has(known, &place);
        let end = place.end;
        let content = &known[place];
        if is_text != (form == Form::Trigram) || !form.is_likely(content) {
            continue;
        }
        // Of a text nothing else can be wrong.
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

/// Where the content of a varlena begins and ends, if one begins here.
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
