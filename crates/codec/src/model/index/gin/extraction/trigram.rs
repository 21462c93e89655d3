//! Trigrams (contrib/pg_trgm): all parts of three characters of each word in lower case, with two
//! blanks before it and one after. Those with a character that is not ASCII are left out: pg_trgm
//! hashes them, and their lower case depends on the database's encoding and locale.

use std::ops::Range;

use super::Keys;

/// Checks whether ranges are text. Ranges are asked for in ascending order, so that each byte is
/// checked once.
#[derive(Default)]
pub struct TextRun {
    /// The end of the run of text that has been checked.
    end: usize,
}

impl TextRun {
    /// Whether all bytes of the range can be text.
    pub fn has(&mut self, bytes: &[u8], range: &Range<usize>) -> bool {
        if self.end < range.start {
            self.end = range.start;
        }
        let unchecked = bytes.get(self.end..range.end).unwrap_or_default();
        let is_text = |byte: &u8| *byte >= b' ' || byte.is_ascii_whitespace();
        let others = unchecked.iter().position(|byte| !is_text(byte));
        self.end += others.unwrap_or(unchecked.len());
        self.end >= range.end
    }
}

/// Extracts the trigrams, each as a number whose highest byte of three is the first character.
pub fn extract(content: &[u8], keys: &mut Keys) {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    for word in content.split(|byte| !is_letter(byte)) {
        if word.is_empty() {
            continue;
        }
        let mut last = [b' '; 2];
        for byte in word.iter().chain(b" ") {
            let letters = [last[0], last[1], byte.to_ascii_lowercase()];
            if letters.is_ascii() {
                let [first, second, third] = letters;
                keys.numbers
                    .push(u32::from_be_bytes([0, first, second, third]));
            }
            last = [letters[1], letters[2]];
        }
    }
    keys.push_numbers(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected trigrams are those of `show_trgm` in PostgreSQL 15.
    #[test]
    fn takes_out_what_pg_trgm_does() {
        let mut keys = Keys::default();
        extract(b"Walzip, a DB-tool", &mut keys);
        let letters = keys.iter().map(|key| {
            let [third, second, first, _] = *key else {
                panic!("{key:?}")
            };
            String::from_utf8_lossy(&[first, second, third]).into_owned()
        });
        let expected = [
            "  a", "  d", "  t", "  w", " a ", " db", " to", " wa", "alz", "db ", "ip ", "lzi",
            "ol ", "ool", "too", "wal", "zip",
        ];
        assert_eq!(letters.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn leaves_out_what_is_not_ascii() {
        let mut keys = Keys::default();
        extract("é".as_bytes(), &mut keys);
        assert_eq!(keys.iter().count(), 0);
    }

    #[test]
    fn a_run_is_looked_at_once() {
        let bytes = b"one\0two";
        let mut run = TextRun::default();
        assert!(run.has(bytes, &(0..3)));
        assert!(!run.has(bytes, &(1..4)));
        assert!(!run.has(bytes, &(2..7)));
        assert!(run.has(bytes, &(4..7)));
    }
}
