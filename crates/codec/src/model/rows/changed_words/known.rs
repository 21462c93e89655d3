//! What is known when a word is coded: rows, words that changed before, and words as numbers.

use crate::model::rows::recent::{RecentRows, RowNumber};

/// Bytes of a word.
pub const WORD: usize = 8;
/// Number of a transaction's last rows that are searched for a word.
const ROWS_SEARCHED: usize = 40;
/// Number of words at the front of a row whose last values are kept.
const LAST_WORDS: usize = 64;
/// Number of recent words.
const RECENT_WORDS: usize = 8;

/// What is known of changes in all relations.
#[derive(Debug, Default)]
pub struct RecentChanges {
    /// The newest one first.
    pub words: [u64; RECENT_WORDS],
    /// What the transaction has last added to an integer.
    pub amount: i32,
}

impl RecentChanges {
    /// A word has changed.
    pub fn add(&mut self, word: u64) {
        self.words.rotate_right(1);
        self.words[0] = word;
    }
}

/// Rows that a transaction has inserted.
#[derive(Clone, Copy)]
pub struct TransactionRows<'a> {
    /// The rows of all.
    pub rows: &'a RecentRows,
    /// Its newest one.
    pub newest: RowNumber,
}

/// The words that values replace.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedWords<'a> {
    /// The number of the first of the row's words.
    pub first: usize,
    /// The bytes of the words, and of a part of one at the end of the row.
    pub bytes: &'a [u8],
    /// Where the values are among them.
    pub values_at: usize,
}

impl ReplacedWords<'_> {
    /// Makes the new words. Returns where the values are among them.
    pub fn put(&self, values: &[u8], bytes: &mut Vec<u8>) -> std::ops::Range<usize> {
        let range = self.values_at..self.values_at + values.len();
        bytes.clear();
        bytes.extend_from_slice(self.bytes);
        bytes[range.clone()].copy_from_slice(values);
        range
    }
}

/// A word of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The row.
    pub row: RowNumber,
    /// The offset in its values.
    pub at: u16,
}

impl TransactionRows<'_> {
    /// The word at a cursor.
    pub fn word(&self, cursor: Cursor) -> Option<u64> {
        let row = self.rows.get(cursor.row)?;
        Some(u64::from_le_bytes(
            *row.get(cursor.at.into(), WORD)?.first_chunk()?,
        ))
    }

    /// The row that is `back` rows before the newest.
    pub fn row_back(&self, back: u8) -> Option<RowNumber> {
        let back = usize::from(back);
        self.rows.back(self.newest).take(ROWS_SEARCHED).nth(back)
    }

    /// Searches the last rows for a word. Returns the number of rows before the newest, and where it is.
    pub fn find(&self, is_it: impl Fn(u64) -> bool) -> Option<(u8, Cursor)> {
        for (back, number) in (0..).zip(self.rows.back(self.newest).take(ROWS_SEARCHED)) {
            let row = self.rows.get(number)?;
            let mut at = row.known_from().next_multiple_of(WORD);
            while let Some(word) = row.get(at, WORD) {
                if word
                    .first_chunk()
                    .is_some_and(|word| is_it(u64::from_le_bytes(*word)))
                {
                    let at = at as u16;
                    return Some((back, Cursor { row: number, at }));
                }
                at += WORD;
            }
        }
        None
    }
}

/// What is known of the words of a relation.
#[derive(Debug, Default)]
pub struct RowWords {
    /// The word of a row that comes next.
    pub cursor: Cursor,
    last: Vec<u64>,
}

impl RowWords {
    /// The words of another row follow.
    pub fn begin(&mut self, rows: TransactionRows<'_>) {
        self.cursor.row = rows.rows.next_like(self.cursor.row);
    }

    /// The last word with this index, or else the one that is replaced.
    pub fn last(&self, index: usize, old: u64) -> u64 {
        self.last.get(index).copied().unwrap_or(old)
    }

    /// Keeps the word with this index.
    pub fn put(&mut self, index: usize, word: u64) {
        if let Some(last) = self.last.get_mut(index) {
            *last = word;
        } else if index < LAST_WORDS {
            self.last.resize(index, 0);
            self.last.push(word);
        }
    }
}

/// A number with its sign in the lowest bit.
pub fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// The number of one whose sign is in the lowest bit.
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Two integers of four bytes, the lower one first.
pub fn halves_of(word: u64) -> [i32; 2] {
    [word as i32, (word >> 32) as i32]
}

/// The word of two integers.
pub fn word_of([low, high]: [i32; 2]) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

/// The sum of two floats; `None` where it is not a finite number, of which not all machines make
/// the same.
pub fn sum(one: u64, other: f64) -> Option<u64> {
    let sum = f64::from_bits(one) + other;
    sum.is_finite().then_some(sum.to_bits())
}

/// A number divided by ten to the power of digits.
pub fn decimal(number: i64, digits: u8) -> f64 {
    number as f64 / 10f64.powi(digits.into())
}
