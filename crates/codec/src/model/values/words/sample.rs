//! What the encoder looks for in texts, as a sample of them tells.

use std::collections::HashSet;
use std::hash::BuildHasher as _;

use super::form::{Form, Run, goes_on, plain_run, run_start};
use super::split::{Class, class, piece_len};
use super::tokens::FORMS_MAX;
use crate::fast_hash::SeededHash;

/// Number of bytes of text in which the encoder looks for digits and tokens.
const SAMPLE_LEN: usize = 1 << 16;
/// Tokens of a form are looked for if there are so many in the sample,
const TOKENS_MIN: usize = 2;
/// and they are this part of its bytes.
const PART_MIN: usize = 256;
/// Tokens of a form are kept if this part of them came before.
const KEPT_PART: usize = 8;
/// Tokens of which fewer than this part are different are words: those are foreseen.
const DIFFERENT_PART: usize = 8;
/// Maximum number of forms that are counted.
const COUNTED_MAX: usize = 2 * FORMS_MAX;

/// The forms that parts of texts have.
#[derive(Clone, Debug, Default)]
pub struct TextForms {
    /// The lengths of the runs of digits: bit n is set if there is a run of n digits.
    pub digits: u32,
    /// The forms of tokens.
    pub tokens: Vec<Form>,
}

impl TextForms {
    /// Looks at the first texts. A run of digits whose length first occurs later is coded as a
    /// word.
    pub fn of<'a>(texts: impl Iterator<Item = &'a [u8]>) -> TextForms {
        let mut counted = Counted::default();
        let (mut seen, mut digits) = (0, 0);
        for text in texts {
            seen += text.len();
            if seen > SAMPLE_LEN {
                break;
            }
            digits |= counted.see(text);
        }
        let mut tokens = Vec::new();
        counted.forms.sort_by_key(|own| usize::MAX - own.len());
        for own in counted.forms {
            let is_wanted = own.count >= TOKENS_MIN
                && own.different.len() * DIFFERENT_PART >= own.count
                && own.len() * PART_MIN >= seen;
            match own.form() {
                form if is_wanted && tokens.len() < FORMS_MAX => tokens.push(form),
                _ => digits |= own.digits,
            }
        }
        TextForms { digits, tokens }
    }
}

/// How often forms of tokens occur.
#[derive(Debug, Default)]
struct Counted {
    forms: Vec<CountedForm>,
    seed: SeededHash,
}

#[derive(Debug)]
struct CountedForm {
    form: Form,
    count: usize,
    different: HashSet<u64, SeededHash>,
    /// The lengths of the runs of decimal digits in its tokens.
    digits: u32,
}

impl CountedForm {
    /// The length of all tokens.
    fn len(&self) -> usize {
        self.count * self.form.len()
    }

    fn form(&self) -> Form {
        match (self.count - self.different.len()) * KEPT_PART >= self.count {
            true => self.form.kept(),
            false => self.form,
        }
    }
}

impl Counted {
    /// Counts the tokens of a text, and returns the lengths of the runs of digits outside of them.
    fn see(&mut self, text: &[u8]) -> u32 {
        let mut digits = 0;
        let (mut at, mut token_end, mut own) = (0, 0, None);
        while at < text.len() {
            let rest = &text[at..];
            let mut len = piece_len(rest);
            if at >= token_end {
                own = None;
                if let Some((start, form)) = find(rest, len) {
                    match start {
                        0 => {
                            own = self.count(form, &rest[..form.len()]);
                            token_end = at + form.len();
                        }
                        _ => len = start,
                    }
                }
            }
            if class(rest[0]) == Class::Digit {
                match own.and_then(|own: usize| self.forms.get_mut(own)) {
                    Some(own) => own.digits |= 1 << len,
                    None => digits |= 1 << len,
                }
            }
            at += len;
        }
        digits
    }

    /// Counts a token, and returns the place of its form.
    fn count(&mut self, form: Form, token: &[u8]) -> Option<usize> {
        let hash = self.seed.hash_one(token);
        let found = self.forms.iter().position(|own| own.form == form);
        let place = match found {
            Some(place) => place,
            None if self.forms.len() == COUNTED_MAX => return None,
            None => {
                self.forms.push(CountedForm {
                    form,
                    count: 0,
                    different: HashSet::default(),
                    digits: 0,
                });
                self.forms.len() - 1
            }
        };
        let own = self.forms.get_mut(place)?;
        own.count += 1;
        own.different.insert(hash);
        Some(place)
    }
}

/// Where in the piece of this length at the beginning of `rest` a token begins, and its form.
fn find(rest: &[u8], len: usize) -> Option<(usize, Form)> {
    if !goes_on(rest, len) {
        return None;
    }
    let digits = run_start(rest, len).and_then(|start| Some((start, Run::at(&rest[start..])?)));
    if let Some((start, run)) = digits {
        return Some((start, run.form()?));
    }
    let start = usize::from(rest[0] == b' ');
    let (len, is_sure) = plain_run(&rest[start..])?;
    is_sure.then(|| (start, Form::of_letters(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> TextForms {
        TextForms::of(texts.iter().map(|text| text.as_bytes()))
    }

    #[test]
    fn digits_in_tokens_are_no_runs_of_digits() {
        let texts = ["at 17 a0b1c2d3e4f51718", "at 4711 ffb1c2d3e4f56677"];
        let forms = of(&texts);
        assert_eq!(forms.digits, 1 << 2 | 1 << 4);
        assert_eq!(forms.tokens, [Form::of_digits(16, false)]);
    }

    #[test]
    fn a_single_token_has_no_form() {
        let forms = of(&["at 17 a0b1c2d3e4f51718", "facade 12345678 decade"]);
        assert_eq!(forms.digits, 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8);
        assert_eq!(forms.tokens, []);
    }

    #[test]
    fn tokens_that_come_again_are_kept() {
        let forms = of(&["AB12CD", "EF34AB", "AB12CD"]);
        assert_eq!(forms.tokens, [Form::of_digits(6, true).kept()]);
    }

    #[test]
    fn a_uuid_is_one_token() {
        let forms = of(&[
            "of 00112233-4455-6677-8899-aabbccddeeff",
            "of 10112233-4455-6677-8899-aabbccddeeff",
        ]);
        assert_eq!(
            (forms.digits, forms.tokens),
            (0, vec![Form::of_uuids(false)])
        );
    }
}
