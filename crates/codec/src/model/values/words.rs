//! Texts as words, runs of digits, and what is between them.
//!
//! A word is spelled out at its first occurrence and has a number from then on. The symbol that
//! follows two symbols is predicted to be the one that last followed the same two. A run of
//! correct predictions is coded as its length.

mod form;
mod sample;
mod split;
mod tokens;

use std::hash::{BuildHasher as _, Hasher as _};

use hashbrown::HashTable;

pub use self::sample::TextForms;
use self::split::piece_len;
use self::tokens::Tokens;
use crate::fast_hash::SeededHash;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// The symbol is the one that last followed the symbol before it.
const AS_AFTER_ONE: u16 = 0;
/// A word without a number, spelled out.
const NEW: u16 = 1;
/// The end of the text.
const END: u16 = 2;
/// A run of one digit. The symbols after it stand for runs of two digits, three and so on.
const DIGIT: u16 = 3;
/// Maximum number of digits that one symbol stands for.
const DIGITS_MAX: usize = 28;
/// Flag beside the lengths of digit runs: there are forms of tokens.
const WITH_TOKENS: u32 = 1 << (DIGITS_MAX + 1);
/// The symbol of tokens of the first form. Those of the other forms come after it, and then the words.
const TOKEN: u16 = DIGIT + DIGITS_MAX as u16;
/// Number of symbols.
const SYMBOLS: usize = 1 << 16;
/// Maximum length of a word in bytes.
const WORD_LEN_MAX: usize = 255;
/// Maximum length of a run of correctly predicted symbols. The prediction is the symbol that last
/// followed the same two symbols. After a run of this length comes another run. After a shorter
/// run comes a symbol that is coded explicitly.
const RUN_MAX: u8 = 255;
/// Binary logarithm of the number of entries in the table of predictions after two symbols.
const PAIRS_LOG: u32 = 14;

/// The words of the texts of one column, and their streams.
#[derive(Debug)]
pub struct Words {
    runs: StreamId,
    symbols: StreamId,
    lens: StreamId,
    spelled: StreamId,
    /// The streams of digits: the run of n digits has index n - 1.
    digits: Vec<Option<StreamId>>,
    tokens: Tokens,
    /// The symbol of the first word.
    first: u16,
    words: Vec<u8>,
    ends: Vec<u32>,
    /// The symbol that last followed each symbol.
    after_one: Vec<u16>,
    /// The symbol that last followed two symbols, by a hash of the two.
    after_two: Vec<u16>,
    /// The current run of correct predictions: its length so far in the encoder, the number of
    /// symbols left in the decoder.
    run: u8,
    /// Whether a symbol is coded explicitly after the current run (decoder only).
    is_told: bool,
    /// The encoder's table from a word to its symbol. The hashes are seeded at random, because
    /// clients of the database choose the words.
    symbols_of: HashTable<u16>,
    seed: SeededHash,
}

impl Words {
    /// Codes which lengths of digit runs and which forms of tokens have streams, and opens all
    /// streams.
    pub fn open<C: Coder>(coder: &mut C, choices: StreamId, forms: &TextForms) -> Words {
        let with_tokens = match forms.tokens.is_empty() {
            true => 0,
            false => WITH_TOKENS,
        };
        let runs = coder.u32(choices, forms.digits | with_tokens);
        let mut words = Words {
            runs: coder.open(StreamKind::WordRun, 1),
            symbols: coder.open(StreamKind::WordSymbol, 2),
            lens: coder.open(StreamKind::WordLen, 1),
            spelled: coder.open(StreamKind::WordText, 1),
            digits: (1..=DIGITS_MAX)
                .map(|len| {
                    let is_used = runs >> len & 1 != 0;
                    is_used.then(|| coder.open(StreamKind::Digits, len))
                })
                .collect(),
            tokens: Tokens::default(),
            first: TOKEN,
            words: Vec::new(),
            ends: Vec::new(),
            after_one: Vec::new(),
            after_two: vec![0; 1 << PAIRS_LOG],
            run: 0,
            is_told: false,
            symbols_of: HashTable::new(),
            seed: SeededHash::default(),
        };
        if runs & WITH_TOKENS != 0 && coder.format().has_tokens() {
            words.tokens = Tokens::open(coder, choices, &forms.tokens);
            words.first += words.tokens.count();
        }
        words.after_one.resize(words.first.into(), 0);
        words
    }

    /// Codes the text from `start` to `end` and returns the offset of its end. In the decoder `end`
    /// only bounds the text, which ends at a symbol of its own.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        data: &mut [u8],
        start: usize,
        end: usize,
    ) -> usize {
        let mut at = start;
        let (mut before, mut last) = (END, END);
        loop {
            let pair = pair_of(before, last);
            let likely = [self.after_two[pair], self.after_one(last)];
            let (mut wanted, mut len) = (END, 0);
            if C::ENCODING {
                (wanted, len) = self.next(data.get(at..end).unwrap_or_default(), likely);
            }
            let mut symbol = self.symbol(coder, likely, wanted);
            if coder.failed() || symbol < NEW {
                coder.fail();
                return at;
            }
            match symbol {
                END => {}
                NEW => {
                    len = usize::from(coder.u8(self.lens, len as u8));
                    // Empty words would let a hostile file keep the decoder busy without output.
                    if len == 0 {
                        coder.fail();
                    }
                    let word = coder.part(data, at, at + len);
                    coder.bytes(self.spelled, word);
                    symbol = self.add::<C>(word);
                }
                DIGIT..TOKEN => {
                    len = usize::from(symbol - DIGIT) + 1;
                    match self.digits.get(len - 1) {
                        Some(Some(stream)) => coder.bytes_at(*stream, data, at, len),
                        _ => coder.fail(),
                    }
                }
                _ if symbol < self.first => {
                    len = self.tokens.code(coder, symbol - TOKEN, data, at);
                }
                _ => match self.word(symbol) {
                    Some(word) => {
                        len = word.len();
                        let place = coder.part(data, at, at + len);
                        if !C::ENCODING && place.len() == len {
                            place.copy_from_slice(word);
                        }
                    }
                    None => coder.fail(),
                },
            }
            self.after_two[pair] = symbol;
            if let Some(after) = self.after_one.get_mut(usize::from(last)) {
                *after = symbol;
            }
            if symbol == END {
                return at;
            }
            at += len;
            (before, last) = (last, symbol);
        }
    }

    /// Codes a symbol. `likely` are the predictions after two symbols and after one.
    fn symbol<C: Coder>(&mut self, coder: &mut C, likely: [u16; 2], wanted: u16) -> u16 {
        let [after_two, after_one] = likely;
        if C::ENCODING {
            if wanted == after_two && wanted != NEW {
                self.run += 1;
                if self.run == RUN_MAX {
                    self.finish(coder);
                }
                return wanted;
            }
            coder.u8(self.runs, self.run);
            self.run = 0;
        } else {
            if self.run == 0 && !self.is_told {
                self.run = coder.u8(self.runs, 0);
                self.is_told = self.run < RUN_MAX;
            }
            if self.run > 0 {
                self.run -= 1;
                return after_two;
            }
            self.is_told = false;
        }
        let is_likely = wanted == after_one && wanted != NEW;
        match coder.u16(self.symbols, if is_likely { AS_AFTER_ONE } else { wanted }) {
            AS_AFTER_ONE => after_one,
            symbol => symbol,
        }
    }

    /// Codes the current run, after the last text.
    pub fn finish<C: Coder>(&mut self, coder: &mut C) {
        if self.run > 0 {
            coder.u8(self.runs, self.run);
            self.run = 0;
        }
    }

    fn has_digits(&self, len: usize) -> bool {
        matches!(self.digits.get(len - 1), Some(Some(_)))
    }

    fn after_one(&self, symbol: u16) -> u16 {
        let after = self.after_one.get(usize::from(symbol));
        after.copied().unwrap_or_default()
    }

    fn word(&self, symbol: u16) -> Option<&[u8]> {
        word_of(&self.words, &self.ends, symbol.checked_sub(self.first)?)
    }

    fn hash(&self, word: &[u8]) -> u64 {
        hash_of(self.seed, word)
    }

    /// Gives a word the next number. Returns [`NEW`] if all numbers are taken.
    fn add<C: Coder>(&mut self, word: &[u8]) -> u16 {
        if self.ends.len() + usize::from(self.first) == SYMBOLS {
            return NEW;
        }
        let symbol = self.first + self.ends.len() as u16;
        self.words.extend_from_slice(word);
        self.ends.push(self.words.len() as u32);
        self.after_one.push(0);
        if C::ENCODING {
            let (words, ends, seed, first) = (&self.words, &self.ends, self.seed, self.first);
            let known = |symbol: &u16| word_of(words, ends, symbol - first).unwrap_or_default();
            let rehash = |symbol: &u16| hash_of(seed, known(symbol));
            self.symbols_of
                .insert_unique(hash_of(seed, word), symbol, rehash);
        }
        symbol
    }

    /// The encoder's next symbol, and the number of bytes that it stands for.
    fn next(&self, rest: &[u8], likely: [u16; 2]) -> (u16, usize) {
        let mut len = piece_len(rest);
        if self.tokens.count() > 0 {
            let is_token = |symbol: &u16| (TOKEN..self.first).contains(symbol);
            match self.tokens.find(rest, len, likely.iter().any(is_token)) {
                Some((0, number, len)) => return (TOKEN + number, len),
                // The piece in front of it.
                Some((start, ..)) => len = start,
                None => {}
            }
        }
        let piece = &rest[..len];
        let symbol = match piece.first() {
            None => END,
            Some(first) if first.is_ascii_digit() && self.has_digits(len) => DIGIT + len as u16 - 1,
            _ => {
                let is_piece = |symbol: &u16| self.word(*symbol) == Some(piece);
                let likely = likely.iter().find(|symbol| is_piece(symbol));
                let find = || self.symbols_of.find(self.hash(piece), is_piece);
                let known = likely.or_else(find);
                known.copied().unwrap_or(NEW)
            }
        };
        (symbol, len)
    }
}

fn word_of<'w>(words: &'w [u8], ends: &[u32], number: u16) -> Option<&'w [u8]> {
    let number = usize::from(number);
    let start = match number.checked_sub(1) {
        Some(before) => *ends.get(before)? as usize,
        None => 0,
    };
    words.get(start..*ends.get(number)? as usize)
}

fn hash_of(seed: SeededHash, word: &[u8]) -> u64 {
    let mut hasher = seed.build_hasher();
    hasher.write(word);
    hasher.finish()
}

fn pair_of(before: u16, last: u16) -> usize {
    let pair = u32::from(before) << 16 | u32::from(last);
    (pair.wrapping_mul(0x9E37_79B1) >> (32 - PAIRS_LOG)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::streams::{StreamReader, StreamWriter};
    use proptest::prelude::*;

    fn encode(texts: &[&[u8]], known: usize) -> Vec<u8> {
        let mut coder = StreamWriter::default();
        let choices = coder.open(StreamKind::HeapSchema, 1);
        let forms = TextForms::of(texts[..known].iter().copied());
        let mut words = Words::open(&mut coder, choices, &forms);
        for text in texts {
            let mut data = text.to_vec();
            assert_eq!(words.code(&mut coder, &mut data, 0, text.len()), text.len());
        }
        words.finish(&mut coder);
        assert!(!coder.failed());
        coder.into_content().bytes
    }

    fn decode(content: Vec<u8>, lens: &[usize]) -> Option<Vec<Vec<u8>>> {
        let mut coder = StreamReader::of_content(content, FormatVersion::CURRENT).ok()?;
        let choices = coder.open(StreamKind::HeapSchema, 1);
        let mut words = Words::open(&mut coder, choices, &TextForms::default());
        let mut texts = Vec::new();
        for &len in lens {
            let mut data = vec![0; len];
            let end = words.code(&mut coder, &mut data, 0, 0);
            if coder.failed() || end != len {
                return None;
            }
            texts.push(data);
        }
        coder.exhausted().then_some(texts)
    }

    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "[a-c]{1,3}".prop_map(String::into_bytes),
            "[0-9]{1,40}".prop_map(String::into_bytes),
            "[ -]?([0-9a-f]{9}|[0-9A-F]{12}|[0-9A-Za-z]{16})".prop_map(String::into_bytes),
            "([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} ?){1,2}".prop_map(String::into_bytes),
            " {0,3}[-,.;]{0,2}".prop_map(String::into_bytes),
            "[é ]{1,3}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..300),
        ];
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn texts_come_back(
            texts in prop::collection::vec(any_text(), 1..20),
            repeated in 1usize..40,
            flip in any::<prop::sample::Index>(),
        ) {
            let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let texts = texts.repeat(repeated);
            let mut content = encode(&texts, texts.len() / 2);
            let lens: Vec<usize> = texts.iter().map(|text| text.len()).collect();
            let decoded = decode(content.clone(), &lens);
            prop_assert!(decoded.is_some_and(|decoded| decoded == texts));
            // Decoding ends on any input.
            let place = flip.index(content.len());
            content[place] ^= 0x55;
            decode(content, &lens);
        }
    }

    #[test]
    fn what_was_foreseen_takes_a_byte_for_very_many() {
        let texts = vec![&b"Order #17 created, total 4 EUR"[..]; 2000];
        let once = encode(&texts[..2], 2);
        let often = encode(&texts, 2000);
        let digits = 3 * (texts.len() - 2);
        assert!(
            often.len() < once.len() + digits + texts.len() / 10,
            "{}",
            often.len()
        );
        let lens = vec![texts[0].len(); texts.len()];
        assert!(decode(often, &lens).is_some_and(|decoded| decoded == texts));
    }

    #[test]
    fn more_words_than_there_are_numbers_come_back() {
        let texts: Vec<String> = (0..70_000u32)
            .map(|number| {
                let letter = |shift: u32| char::from(b'a' + (number >> shift & 15) as u8);
                [0, 4, 8, 12, 16].map(letter).iter().collect()
            })
            .collect();
        let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let texts = [&texts[..], &texts[69_990..]].concat();
        let decoded = decode(encode(&texts, 0), &vec![5; texts.len()]);
        assert!(decoded.is_some_and(|decoded| decoded == texts));
    }

    #[test]
    fn refuses_a_word_without_bytes() {
        let mut coder = StreamWriter::default();
        let choices = coder.open(StreamKind::HeapSchema, 1);
        Words::open(&mut coder, choices, &TextForms::default());
        let [runs, symbols, lens] = [1, 2, 3].map(StreamId);
        for symbol in [NEW, END] {
            coder.u8(runs, 0);
            coder.u16(symbols, symbol);
        }
        coder.u8(lens, 0);
        assert_eq!(decode(coder.into_content().bytes, &[0]), None);
    }

    #[test]
    fn tokens_take_a_byte_for_two_digits() {
        let token = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let texts: Vec<String> = (1..=2000)
            .map(|number| format!("user {:016x} and {:016X}", token(number), token(number / 5)))
            .collect();
        let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let content = encode(&texts, texts.len());
        // Of the second tokens nearly all come again.
        let digits = texts.len() * (8 + 2) + texts.len() / 5 * 8;
        assert!(content.len() < digits + 1000, "{}", content.len());
        let lens: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        assert!(decode(content, &lens).is_some_and(|decoded| decoded == texts));
    }

    /// What a decoder makes of a text that is a token, of a form with these flags and so many digits, and kept from
    /// so many tokens back.
    fn decoded_token(flags: u8, digits: u8, back: u16) -> Option<Vec<u8>> {
        let mut content = StreamWriter::default();
        let choices = content.open(StreamKind::HeapSchema, 1);
        content.u32(choices, WITH_TOKENS);
        for byte in [1, flags, digits] {
            content.u8(choices, byte);
        }
        let runs = content.open(StreamKind::WordRun, 1);
        let symbols = content.open(StreamKind::WordSymbol, 2);
        content.open(StreamKind::WordLen, 1);
        content.open(StreamKind::WordText, 1);
        let packed = content.open(StreamKind::Digits, 1);
        for symbol in [TOKEN, END] {
            content.u8(runs, 0);
            content.u16(symbols, symbol);
        }
        if back == 0 {
            content.bytes(packed, &mut [0xAB; 16]);
        }
        if flags & 4 != 0 {
            let backs = content.open(StreamKind::Digits, 2);
            content.u16(backs, back);
        }
        let len = match flags & 2 {
            0 => digits.into(),
            _ => 36,
        };
        decode(content.into_content().bytes, &[len]).map(|texts| texts.concat())
    }

    #[test]
    fn refuses_tokens_that_no_encoder_writes() {
        let token = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(decoded_token(0, 32, 0), token(&"ab".repeat(16)));
        assert_eq!(decoded_token(5, 31, 0), token(&"BA".repeat(16)[..31]));
        assert_eq!(
            decoded_token(3, 32, 0),
            token("ABABABAB-ABAB-ABAB-ABAB-ABABABABABAB")
        );
        assert_eq!(decoded_token(8, 16, 0), Some(vec![0xAB; 16]));
        for (flags, digits, back) in [
            (16, 32, 0),
            (9, 16, 0),
            (10, 16, 0),
            (2, 31, 0),
            (0, 0, 0),
            (0, 129, 0),
            (4, 32, 1),
            (4, 32, 5000),
        ] {
            assert_eq!(decoded_token(flags, digits, back), None, "{flags} {digits}");
        }
    }

    #[test]
    fn decodes_the_examples_of_the_specification() {
        let examples: [(&str, &[&str]); 2] = [
            ("words", &["no 42", "no 17"]),
            ("tokens", &["at F09BA", "at 00001", "at F09BA"]),
        ];
        for (title, texts) in examples {
            let mut reader = format_example::reader("model/values.md", title);
            let choices = reader.open(StreamKind::HeapSchema, 1);
            let mut words = Words::open(&mut reader, choices, &TextForms::default());
            for text in texts {
                let mut data = vec![0; text.len()];
                assert_eq!(words.code(&mut reader, &mut data, 0, 0), text.len());
                assert_eq!(data, text.as_bytes());
            }
            assert!(reader.exhausted() && !reader.failed(), "{title}");
        }
    }
}
