//! How the encoder splits texts. A decoder takes any split.

use super::{DIGITS_MAX, WORD_LEN_MAX};

/// What bytes are told apart by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A letter, or a byte of one that is not of ASCII.
    Letter,
    /// A decimal digit.
    Digit,
    /// Any other byte.
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_digit() {
            classes[byte] = Class::Digit;
        } else if (byte as u8).is_ascii_alphabetic() || byte >= 128 {
            classes[byte] = Class::Letter;
        }
        byte += 1;
    }
    classes
};

/// The class of a byte.
#[inline]
pub fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// The offset, from `at` on, of the first byte of another class, or `len_max` at most.
#[inline(always)]
fn run_end(bytes: &[u8], mut at: usize, wanted: Class, len_max: usize) -> usize {
    let end = bytes.len().min(len_max);
    while at < end && class(bytes[at]) == wanted {
        at += 1;
    }
    at
}

/// The length of the piece at the beginning: letters with an optional blank before them, digits,
/// or other bytes.
#[inline(always)]
pub fn piece_len(rest: &[u8]) -> usize {
    let Some(&first) = rest.first() else { return 0 };
    let begins_word = |at: usize| {
        let is_letter = |byte: &u8| class(*byte) == Class::Letter;
        rest[at] == b' ' && rest.get(at + 1).is_some_and(is_letter)
    };
    match class(first) {
        Class::Digit => run_end(rest, 1, Class::Digit, DIGITS_MAX),
        Class::Letter => run_end(rest, 1, Class::Letter, WORD_LEN_MAX),
        Class::Other if begins_word(0) => run_end(rest, 1, Class::Letter, WORD_LEN_MAX),
        Class::Other => {
            let end = run_end(rest, 1, Class::Other, WORD_LEN_MAX);
            if end > 1 && begins_word(end - 1) {
                end - 1
            } else {
                end
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_belongs_to_the_word_behind_it() {
        let split = |mut rest: &'static str| {
            let mut tokens = Vec::new();
            while !rest.is_empty() {
                let (token, behind) = rest.split_at(piece_len(rest.as_bytes()));
                tokens.push(token);
                rest = behind;
            }
            tokens
        };
        assert_eq!(split("two words"), ["two", " words"]);
        assert_eq!(split("No. 17, größer"), ["No", ". ", "17", ",", " größer"]);
        assert_eq!(split("a@b.org  x"), ["a", "@", "b", ".", "org", " ", " x"]);
        assert_eq!(split(&"1".repeat(30).leak()[..]).len(), 2);
    }
}
