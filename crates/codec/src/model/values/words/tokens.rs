//! The tokens of a column's texts: their streams, and how the encoder finds them.
//!
//! Session tokens, trace ids, sums and uuids are noise. As words they would all be new, and spoil what is foreseen of
//! the words around them. So a token is a symbol of its form, which is easily foreseen, and its digits are in a stream
//! of the form, two in a byte.

use std::ops::RangeInclusive;

use super::form::{Form, Run, TOKEN_DIGITS_MAX, goes_on, plain_run, run_start};
use crate::fast_hash::fold;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// Maximum number of forms of a column.
pub const FORMS_MAX: usize = 32;
/// Number of tokens of a form that are kept.
pub const KEPT_MAX: usize = 4096;
/// Number of places in which the encoder looks for a kept token, at first and at most. Columns may have many forms with few
/// tokens.
const PLACES: RangeInclusive<usize> = 1 << 8..=1 << 14;
/// There are so many places for each kept token, at least.
const PLACES_EACH: usize = 4;
/// No form.
const NONE: u8 = u8::MAX;

/// The forms of tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    forms: Vec<FormStreams>,
    /// For each number of digits, the forms in lower case and in upper case, and those of uuids (encoder only).
    numbers: Vec<[u8; 2]>,
    uuids: [u8; 2],
    /// For each length, the form of letters and digits; empty if there is none (encoder only).
    plain: Vec<u8>,
}

#[derive(Debug)]
struct FormStreams {
    form: Form,
    digits: StreamId,
    kept: Option<Box<Kept>>,
}

impl Tokens {
    /// Codes the forms, and opens their streams.
    pub fn open<C: Coder>(coder: &mut C, choices: StreamId, known: &[Form]) -> Tokens {
        let count = usize::from(coder.u8(choices, known.len() as u8));
        if count > FORMS_MAX {
            coder.fail();
            return Tokens::default();
        }
        let mut forms = known.to_vec();
        forms.resize(count, Form::of_digits(1, false));
        for form in &mut forms {
            *form = form.code(coder, choices);
        }
        let mut tokens = Tokens::default();
        if C::ENCODING && !forms.is_empty() {
            tokens.number(&forms);
        }
        let open = |form: Form| FormStreams {
            form,
            digits: coder.open(StreamKind::Digits, form.packed_len()),
            kept: form.is_kept().then(|| Box::new(Kept::open(coder))),
        };
        tokens.forms = forms.into_iter().map(open).collect();
        tokens
    }

    fn number(&mut self, forms: &[Form]) {
        self.numbers = vec![[NONE; 2]; TOKEN_DIGITS_MAX + 1];
        self.uuids = [NONE; 2];
        for (number, form) in forms.iter().enumerate() {
            if form.is_plain() {
                self.plain.resize(TOKEN_DIGITS_MAX + 1, NONE);
                self.plain[form.len()] = number as u8;
                continue;
            }
            let place = match form.is_uuid() {
                true => &mut self.uuids,
                false => &mut self.numbers[form.len()],
            };
            place[usize::from(form.is_upper())] = number as u8;
        }
    }

    /// The number of forms.
    pub fn count(&self) -> u16 {
        self.forms.len() as u16
    }

    /// Codes the token at `at`, of the form of this number, and returns its length. It is no part of the loop over
    /// words, whose time counts.
    #[inline(never)]
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        number: u16,
        data: &mut [u8],
        at: usize,
    ) -> usize {
        let Some(own) = self.forms.get_mut(usize::from(number)) else {
            coder.fail();
            return 0;
        };
        let form = own.form;
        let token = coder.part(data, at, at + form.len());
        let mut packed = [0; TOKEN_DIGITS_MAX];
        let packed = &mut packed[..form.packed_len()];
        if C::ENCODING {
            form.pack(token, packed);
        }
        match &mut own.kept {
            Some(kept) => kept.code(coder, own.digits, packed),
            None => coder.bytes_at(own.digits, packed, 0, form.packed_len()),
        }
        if !C::ENCODING {
            form.unpack(packed, token);
        }
        form.len()
    }

    /// Where in the piece of this length at the beginning of `rest` a token begins, the number of its form, and its
    /// length. A run of only letters or only decimal digits is a token where some token is likely. Encoder only.
    #[inline(never)]
    pub fn find(&self, rest: &[u8], len: usize, is_likely: bool) -> Option<(usize, u16, usize)> {
        if !goes_on(rest, len) && !is_likely {
            return None;
        }
        let (start, number) = match self.find_digits(rest, len, is_likely) {
            Some(found) => found,
            None if self.plain.is_empty() => return None,
            None => {
                let start = usize::from(rest.first() == Some(&b' '));
                let (len, is_sure) = plain_run(&rest[start..])?;
                (
                    start,
                    *self.plain.get(len).filter(|_| is_sure || is_likely)?,
                )
            }
        };
        let form = self.forms.get(usize::from(number))?.form;
        Some((start, number.into(), form.len()))
    }

    /// Where a token of hexadecimal digits begins, and the number of its form.
    fn find_digits(&self, rest: &[u8], len: usize, is_likely: bool) -> Option<(usize, u8)> {
        let start = match run_start(rest, len) {
            Some(start) => start,
            None if is_likely => usize::from(rest.first() == Some(&b' ')),
            None => return None,
        };
        let run = Run::at(&rest[start..]).filter(|run| run.is_mixed || is_likely)?;
        let numbers = match run.is_uuid {
            true => &self.uuids,
            false => self.numbers.get(run.len)?,
        };
        let mut numbers = numbers.iter().zip(run.cases);
        let (&number, _) = numbers.find(|&(&number, is_case)| is_case && number != NONE)?;
        Some((start, number))
    }
}

/// The last tokens of a form that were new.
#[derive(Debug)]
struct Kept {
    /// The stream that says which token comes again.
    back: StreamId,
    /// Their digits. The newest takes the place of the oldest.
    digits: Vec<u8>,
    /// The number of new tokens.
    count: usize,
    /// For each hash of digits, the number of the new token after the one that last had it (encoder only).
    places: Vec<u32>,
}

impl Kept {
    fn open<C: Coder>(coder: &mut C) -> Kept {
        Kept {
            back: coder.open(StreamKind::Digits, 2),
            digits: Vec::new(),
            count: 0,
            places: match C::ENCODING {
                true => vec![0; *PLACES.start()],
                false => Vec::new(),
            },
        }
    }

    fn code<C: Coder>(&mut self, coder: &mut C, stream: StreamId, packed: &mut [u8]) {
        let (mut back, mut place) = (0, 0);
        if C::ENCODING {
            place = self.place_of(packed);
            back = self.count - self.places[place] as usize + 1;
            if self.token(back, packed.len()) != Some(packed) {
                back = 0;
            }
        }
        let back = usize::from(coder.u16(self.back, back as u16));
        if back == 0 {
            coder.bytes_at(stream, packed, 0, packed.len());
            self.keep(packed);
            if C::ENCODING {
                self.places[place] = self.count as u32;
                self.grow(packed.len());
            }
        } else if !C::ENCODING {
            match self.token(back, packed.len()) {
                Some(token) => packed.copy_from_slice(token),
                None => coder.fail(),
            }
        }
    }

    /// The token that was the last new one but `back - 1`.
    fn token(&self, back: usize, len: usize) -> Option<&[u8]> {
        if back == 0 || back > KEPT_MAX {
            return None;
        }
        let start = self.count.checked_sub(back)? % KEPT_MAX * len;
        self.digits.get(start..start + len)
    }

    fn keep(&mut self, packed: &[u8]) {
        let start = self.count % KEPT_MAX * packed.len();
        match self.digits.get_mut(start..start + packed.len()) {
            Some(oldest) => oldest.copy_from_slice(packed),
            None => self.digits.extend_from_slice(packed),
        }
        self.count += 1;
    }

    /// Sees to it that there are enough places. Encoder only.
    fn grow(&mut self, len: usize) {
        let wanted = self.places.len() * PLACES_EACH;
        if self.count * PLACES_EACH <= self.places.len() || wanted > *PLACES.end() {
            return;
        }
        self.places = vec![0; wanted];
        for back in (1..=self.count.min(KEPT_MAX)).rev() {
            if let Some(token) = self.token(back, len) {
                let place = self.place_of(token);
                self.places[place] = (self.count - back + 1) as u32;
            }
        }
    }

    /// Where the number of a token is found. The number of places is a power of two.
    fn place_of(&self, packed: &[u8]) -> usize {
        let hash = hash_of(packed);
        (hash >> 32) as usize & (self.places.len() - 1)
    }
}

fn hash_of(packed: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let next = |word, byte: &u8| word << 8 | u64::from(*byte);
        bytes.iter().fold(0, next)
    };
    packed
        .chunks(8)
        .fold(0, |hash, chunk| fold(hash ^ word(chunk)))
}
