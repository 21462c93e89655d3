//! Forms of tokens: how many hexadecimal digits a token has, and how they are written; or how many letters and digits.

use crate::streams::coder::{Coder, StreamId};

/// Maximum number of digits of a token: those of a SHA-512 sum.
pub const TOKEN_DIGITS_MAX: usize = 128;
/// Minimum number of digits of a token that the encoder looks for.
pub const TOKEN_DIGITS_MIN: usize = 4;
/// Minimum length of a token of any letters and digits that the encoder looks for.
const PLAIN_MIN: usize = 10;
/// Number of times that letters and digits take turns in what is surely no name with a number.
const TURNS_MIN: usize = 3;
/// Length of a uuid as text.
const UUID_LEN: usize = 36;
/// Number of digits of a uuid.
const UUID_DIGITS: u8 = 32;
/// Where the hyphens of a uuid are.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Bits of the first byte of a form: its letters are upper case ones.
const UPPER: u8 = 1;
/// The token is a uuid, with hyphens.
const UUID: u8 = 2;
/// Tokens are kept, because they come again.
const KEPT: u8 = 4;
/// The token is not packed: it has any bytes.
const PLAIN: u8 = 8;

/// How tokens are written that have a stream of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    flags: u8,
    digits: u8,
}

impl Form {
    /// The form of tokens of so many digits.
    pub fn of_digits(digits: usize, is_upper: bool) -> Form {
        Form {
            flags: if is_upper { UPPER } else { 0 },
            digits: digits as u8,
        }
    }

    /// The form of uuids.
    pub fn of_uuids(is_upper: bool) -> Form {
        let Form { flags, digits } = Form::of_digits(UUID_DIGITS.into(), is_upper);
        Form {
            flags: flags | UUID,
            digits,
        }
    }

    /// The form of tokens of so many letters and digits.
    pub fn of_letters(len: usize) -> Form {
        Form {
            flags: PLAIN,
            digits: len as u8,
        }
    }

    /// The same, of tokens that come again.
    pub fn kept(self) -> Form {
        Form {
            flags: self.flags | KEPT,
            ..self
        }
    }

    /// Codes a form. It fails if there is none such.
    pub fn code<C: Coder>(self, coder: &mut C, choices: StreamId) -> Form {
        let form = Form {
            flags: coder.u8(choices, self.flags),
            digits: coder.u8(choices, self.digits),
        };
        let is_known = (form.flags <= UPPER | UUID | KEPT || form.flags & !KEPT == PLAIN)
            && (1..=TOKEN_DIGITS_MAX).contains(&form.digits.into())
            && (!form.is_uuid() || form.digits == UUID_DIGITS);
        if !is_known {
            coder.fail();
            return Form::of_digits(1, false);
        }
        form
    }

    pub fn is_upper(self) -> bool {
        self.flags & UPPER != 0
    }

    pub fn is_uuid(self) -> bool {
        self.flags & UUID != 0
    }

    pub fn is_plain(self) -> bool {
        self.flags & PLAIN != 0
    }

    pub fn is_kept(self) -> bool {
        self.flags & KEPT != 0
    }

    /// The length of a token.
    pub fn len(self) -> usize {
        match self.is_uuid() {
            true => UUID_LEN,
            false => self.digits.into(),
        }
    }

    /// The number of bytes that its digits are packed into.
    pub fn packed_len(self) -> usize {
        match self.is_plain() {
            true => self.digits.into(),
            false => usize::from(self.digits).div_ceil(2),
        }
    }

    /// Packs the digits of a token, two in a byte, the first one in the higher bits. Of an odd number the first one
    /// is alone in its byte.
    pub fn pack(self, token: &[u8], packed: &mut [u8]) {
        if self.is_plain() {
            return copy(token, packed);
        }
        if !self.is_uuid() {
            return pack(token, packed);
        }
        let mut digits = [0; UUID_DIGITS as usize];
        let mut rest = digits.as_mut_slice();
        for group in groups(token.len()).filter_map(|(start, end)| token.get(start..end)) {
            let (place, behind) = rest.split_at_mut(group.len());
            place.copy_from_slice(group);
            rest = behind;
        }
        pack(&digits, packed);
    }

    /// Writes the token whose digits are packed.
    pub fn unpack(self, mut packed: &[u8], token: &mut [u8]) {
        if self.is_plain() {
            return copy(packed, token);
        }
        match self.is_uuid() {
            true => {
                for (start, end) in groups(token.len()) {
                    let (own, behind) = packed.split_at(((end - start) / 2).min(packed.len()));
                    unpack(own, &mut token[start..end]);
                    packed = behind;
                }
                for at in UUID_HYPHENS {
                    token.get_mut(at).into_iter().for_each(|byte| *byte = b'-');
                }
            }
            false => unpack(packed, token),
        }
        if self.is_upper() {
            token.make_ascii_uppercase();
        }
    }
}

/// Copies bytes to a place that is as long, or empty where the coder has failed.
fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() == to.len() {
        to.copy_from_slice(from);
    }
}

/// Where the groups of a uuid's digits begin and end.
fn groups(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let starts = [0, 9, 14, 19, 24];
    let ends = UUID_HYPHENS.into_iter().chain([UUID_LEN]);
    starts
        .into_iter()
        .zip(ends)
        .filter(move |&(_, end)| end <= len)
}

fn pack(digits: &[u8], packed: &mut [u8]) {
    let value = |digit: u8| (digit & 15) + 9 * (digit >> 6);
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let mut packed = packed.iter_mut();
    if let Some((digit, place)) = odd.first().zip(packed.by_ref().take(odd.len()).next()) {
        *place = value(*digit);
    }
    for (pair, place) in pairs.chunks_exact(2).zip(packed) {
        *place = value(pair[0]) << 4 | value(pair[1]);
    }
}

/// The two lower case digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

fn unpack(packed: &[u8], digits: &mut [u8]) {
    let pair = |byte: &u8| PAIRS[usize::from(*byte)];
    let (odd, pairs) = digits.split_at_mut(digits.len() % 2);
    let mut packed = packed.iter();
    if let [digit] = odd {
        [_, *digit] = packed.next().map(pair).unwrap_or_default();
    }
    for (place, byte) in pairs.chunks_exact_mut(2).zip(packed) {
        place.copy_from_slice(&pair(byte));
    }
}

/// What bytes can be part of.
const LOWER_RUN: u8 = 1;
const UPPER_RUN: u8 = 2;
const DECIMAL: u8 = 4;
const LETTER: u8 = 8;
/// A letter or digit, or a byte of a letter: a token does not end before it.
const WORDLY: u8 = 16;

const PARTS: [u8; 256] = {
    let mut parts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        parts[byte] = match byte as u8 {
            b'0'..=b'9' => LOWER_RUN | UPPER_RUN | DECIMAL | WORDLY,
            b'a'..=b'f' => LOWER_RUN | LETTER | WORDLY,
            b'A'..=b'F' => UPPER_RUN | LETTER | WORDLY,
            b'g'..=b'z' | b'G'..=b'Z' | 128.. => WORDLY,
            _ => 0,
        };
        byte += 1;
    }
    parts
};

/// Whether a token may go on behind the piece of this length at the beginning of bytes. The first group of a uuid may
/// be one piece, behind a blank if it is of letters.
#[inline(always)]
pub fn goes_on(rest: &[u8], len: usize) -> bool {
    match rest.get(len) {
        Some(b'-') => len.wrapping_sub(UUID_HYPHENS[0]) < 2,
        Some(byte) => byte.is_ascii_alphanumeric(),
        None => false,
    }
}

/// Where in the piece of this length at the beginning of bytes a run may begin that goes on behind it, as one of both
/// letters and decimal digits does: behind a blank or another letter at most, since more of those are a name.
#[inline(always)]
pub fn run_start(rest: &[u8], len: usize) -> Option<usize> {
    let is_digit = |byte: &u8| PARTS[usize::from(*byte)] & (LOWER_RUN | UPPER_RUN) != 0;
    if !rest
        .get(len)
        .is_some_and(|byte| is_digit(byte) || *byte == b'-')
    {
        return None;
    }
    let start = usize::from(!rest.first().is_some_and(is_digit));
    let is_run = start < len && rest[start..len].iter().all(is_digit);
    is_run.then_some(start)
}

/// The length of the run of letters and digits at the beginning of bytes that may be a token, and whether it surely is.
pub fn plain_run(rest: &[u8]) -> Option<(usize, bool)> {
    let (mut turns, mut last) = (0, None);
    let mut len = 0;
    for byte in rest {
        if !byte.is_ascii_alphanumeric() {
            if PARTS[usize::from(*byte)] & WORDLY != 0 {
                return None;
            }
            break;
        }
        let is_digit = Some(byte.is_ascii_digit());
        turns += usize::from(is_digit != last);
        last = is_digit;
        len += 1;
        if len > TOKEN_DIGITS_MAX {
            return None;
        }
    }
    (len >= PLAIN_MIN).then_some((len, turns > TURNS_MIN))
}

/// A run of hexadecimal digits that may be a token.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its length, if it is no uuid.
    pub len: usize,
    /// It may be written in lower case; in upper case.
    pub cases: [bool; 2],
    /// It has both letters and decimal digits.
    pub is_mixed: bool,
    /// It is the first group of a uuid.
    pub is_uuid: bool,
}

impl Run {
    /// The run at the beginning of bytes.
    pub fn at(rest: &[u8]) -> Option<Run> {
        let (len, parts, seen) = scan(rest, TOKEN_DIGITS_MAX)?;
        if len < TOKEN_DIGITS_MIN {
            return None;
        }
        let mut run = Run {
            len,
            cases: [parts & LOWER_RUN != 0, parts & UPPER_RUN != 0],
            is_mixed: seen & (DECIMAL | LETTER) == DECIMAL | LETTER,
            is_uuid: false,
        };
        if len == UUID_HYPHENS[0] && rest.get(len) == Some(&b'-') {
            run.see_uuid(rest, parts, seen);
        }
        Some(run)
    }

    /// The form of a token that it surely is: one that has both letters and decimal digits.
    pub fn form(&self) -> Option<Form> {
        let is_upper = !self.cases[0];
        self.is_mixed.then(|| match self.is_uuid {
            true => Form::of_uuids(is_upper),
            false => Form::of_digits(self.len, is_upper),
        })
    }

    /// Finds out whether all of a uuid is there.
    fn see_uuid(&mut self, rest: &[u8], mut cases: u8, mut seen: u8) {
        let is_hyphen = |at: &usize| rest.get(*at) == Some(&b'-');
        if rest.len() < UUID_LEN || !UUID_HYPHENS.iter().all(is_hyphen) {
            return;
        }
        for (start, end) in groups(UUID_LEN).skip(1) {
            match scan(&rest[start..], UUID_LEN) {
                Some((len, parts, own)) if len == end - start => {
                    cases &= parts;
                    seen |= own;
                }
                _ => return,
            }
        }
        if cases & (LOWER_RUN | UPPER_RUN) != 0 {
            self.cases = [cases & LOWER_RUN != 0, cases & UPPER_RUN != 0];
            self.is_mixed = seen & LETTER != 0;
            self.is_uuid = true;
        }
    }
}

/// The length of the run of digits at the beginning, the cases that it may be written in, and what it has. `None` if
/// it is too long, or letters or other digits follow.
#[inline]
fn scan(rest: &[u8], len_max: usize) -> Option<(usize, u8, u8)> {
    let (mut cases, mut seen) = (LOWER_RUN | UPPER_RUN, 0);
    let mut len = 0;
    for &byte in rest {
        let parts = PARTS[usize::from(byte)];
        if cases & parts == 0 {
            if parts & WORDLY != 0 {
                return None;
            }
            break;
        }
        cases &= parts;
        seen |= parts;
        len += 1;
        if len > len_max {
            return None;
        }
    }
    Some((len, cases, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(form: Form, token: &str) -> Vec<u8> {
        let mut packed = vec![0; form.packed_len()];
        form.pack(token.as_bytes(), &mut packed);
        let mut unpacked = vec![0; form.len()];
        form.unpack(&packed, &mut unpacked);
        assert_eq!(unpacked, token.as_bytes());
        packed
    }

    #[test]
    fn two_digits_are_a_byte() {
        assert_eq!(packed(Form::of_digits(4, false), "09af"), [0x09, 0xAF]);
        assert_eq!(
            packed(Form::of_digits(5, true), "F09BA"),
            [0x0F, 0x09, 0xBA]
        );
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        let bytes: Vec<u8> = (0..16).map(|number| number * 0x11).collect();
        assert_eq!(packed(Form::of_uuids(false), uuid), bytes);
    }

    #[test]
    fn a_run_ends_where_no_letter_follows() {
        let run = |text: &str| {
            let run = Run::at(text.as_bytes())?;
            Some((run.len, run.cases, run.is_mixed, run.is_uuid))
        };
        assert_eq!(run("09af, "), Some((4, [true, false], true, false)));
        assert_eq!(run("09AF"), Some((4, [false, true], true, false)));
        assert_eq!(run("2024-01"), Some((4, [true, true], false, false)));
        assert_eq!(run("facade"), Some((6, [true, false], false, false)));
        for text in ["", "09a", "09afg", "09aF", "faced é"[..5].into(), "0faceé"] {
            let expected = (text == "faced").then_some((5, [true, false], false, false));
            assert_eq!(run(text), expected, "{text}");
        }
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(run(uuid), Some((8, [true, false], true, true)));
        assert_eq!(run(&uuid[..35]), Some((8, [true, true], false, false)));
        assert_eq!(
            run(&uuid.replace("ff", "fz")),
            Some((8, [true, true], false, false))
        );
        assert_eq!(
            run(&"1".repeat(128)),
            Some((128, [true, true], false, false))
        );
        assert_eq!(run(&"1".repeat(129)), None);
    }
}
