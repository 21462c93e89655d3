//! The values of an updated tuple word by word: eight bytes each, told from the word that is
//! replaced, from rows that the transaction has inserted, or from words that changed before.
//!
//! Counters grow by little, sums by what was inserted, and times are those of the transaction.

mod choice;
mod known;

use choice::{
    AMOUNT, AT_CURSOR, BYTES, Choice, DECIMAL, DIGITS_MAX, FROM_LAST, IN_ROW, INTEGER, INTEGERS,
    PLUS_CURSOR, PLUS_ROW, RECENT, SAME, Step,
};
use known::{Cursor, RowWords, decimal, halves_of, sum, unzigzag, word_of, zigzag};
pub use known::{RecentChanges, ReplacedWords, TransactionRows, WORD};

use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// Number of streams of integers: for updates of 0 to 3 bytes, and for longer ones.
const INTEGER_STREAMS: usize = 5;

/// The streams of the changes of one relation.
#[derive(Debug, Default)]
pub struct WordStreams {
    op: LazyStream,
    back: LazyStream,
    at: LazyStream,
    recent: LazyStream,
    from_last: LazyStream,
    /// One for each length of an update's values: it limits the number.
    integers: [LazyStream; INTEGER_STREAMS],
    len: usize,
    decimals: LazyStream,
    bytes: LazyStream,
    front: RowsByLen,
    rest: RowsByLen,
    known: RowWords,
    choice: Choice,
}

impl WordStreams {
    /// Estimates the number of bytes of values that replace words. Encoder only.
    pub fn cost(
        &mut self,
        values: &[u8],
        replaced: ReplacedWords<'_>,
        rows: TransactionRows<'_>,
        (recent, bytes): (&RecentChanges, &mut Vec<u8>),
    ) -> u32 {
        let cursor = self.known.cursor;
        self.begin(values.len(), rows);
        replaced.put(values, bytes);
        let (words, rest) = bytes.as_chunks::<WORD>();
        let (old_words, old_rest) = replaced.bytes.as_chunks::<WORD>();
        let pairs = rest.iter().zip(old_rest);
        let mut cost = pairs.filter(|(one, other)| one != other).count() as u32;
        for (index, (old, new)) in (replaced.first..).zip(old_words.iter().zip(words)) {
            let pair = (u64::from_le_bytes(*old), u64::from_le_bytes(*new));
            let step = self.choice.step(&self.known, pair, index, rows, recent);
            self.known.cursor = step.cursor;
            cost += step.cost;
        }
        self.known.cursor = cursor;
        cost
    }

    /// Codes the bytes before the values.
    pub fn code_front<C: Coder>(&mut self, coder: &mut C, front: &mut [u8]) {
        self.front.code(coder, StreamKind::HeapPart, front);
    }

    /// Codes values that replace words.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        values: &mut [u8],
        replaced: ReplacedWords<'_>,
        rows: TransactionRows<'_>,
        (recent, bytes): (&mut RecentChanges, &mut Vec<u8>),
    ) {
        let values_at = replaced.put(values, bytes);
        self.begin(values.len(), rows);
        let (words, rest) = bytes.as_chunks_mut::<WORD>();
        let (old_words, old_rest) = replaced.bytes.as_chunks::<WORD>();
        for (index, (old, new)) in (replaced.first..).zip(old_words.iter().zip(words)) {
            let pair = (u64::from_le_bytes(*old), u64::from_le_bytes(*new));
            *new = self.word(coder, pair, index, rows, recent).to_le_bytes();
        }
        let differ = |change: fn(u8, u8) -> u8, rest: &mut [u8]| {
            let pairs = rest.iter_mut().zip(old_rest);
            pairs.for_each(|(byte, old)| *byte = change(*byte, *old));
        };
        differ(u8::wrapping_sub, rest);
        self.rest.code(coder, StreamKind::HeapPart, rest);
        differ(u8::wrapping_add, rest);
        values.copy_from_slice(&bytes[values_at]);
    }

    /// Begins the words of an update with `len` bytes of values.
    fn begin(&mut self, len: usize, rows: TransactionRows<'_>) {
        self.len = len;
        self.known.begin(rows);
    }

    /// Codes the word with this index in its row.
    fn word<C: Coder>(
        &mut self,
        coder: &mut C,
        (old, new): (u64, u64),
        index: usize,
        rows: TransactionRows<'_>,
        recent: &mut RecentChanges,
    ) -> u64 {
        let mut step = Step::default();
        if C::ENCODING {
            step = self
                .choice
                .step(&self.known, (old, new), index, rows, recent);
        }
        let stream = self.op.open(coder, StreamKind::ModelFlag, 1);
        step.op = coder.u8(stream, step.op);
        let word = self.code_step(coder, step, (old, new), index, rows, recent);
        if word.is_none() {
            coder.fail();
        }
        let word = word.unwrap_or_default();
        debug_assert!(!C::ENCODING || word == new);
        self.known.put(index, word);
        word
    }

    fn code_step<C: Coder>(
        &mut self,
        coder: &mut C,
        step: Step,
        (old, new): (u64, u64),
        index: usize,
        rows: TransactionRows<'_>,
        recent: &mut RecentChanges,
    ) -> Option<u64> {
        match step.op {
            SAME => Some(old),
            BYTES => {
                let mut bytes = new.to_le_bytes();
                let pairs = bytes.iter_mut().zip(old.to_le_bytes());
                pairs.for_each(|(byte, old)| *byte = byte.wrapping_sub(old));
                let stream = self.bytes.open(coder, StreamKind::HeapPart, WORD);
                let mut bytes = coder.u64(stream, u64::from_le_bytes(bytes)).to_le_bytes();
                let pairs = bytes.iter_mut().zip(old.to_le_bytes());
                pairs.for_each(|(byte, old)| *byte = byte.wrapping_add(old));
                let word = u64::from_le_bytes(bytes);
                recent.add(word);
                Some(word)
            }
            AT_CURSOR => rows.word(self.known.cursor),
            PLUS_CURSOR => sum(old, f64::from_bits(rows.word(self.known.cursor)?)),
            IN_ROW | PLUS_ROW => {
                let stream = self.back.open(coder, StreamKind::TupleLen, 1);
                let row = rows.row_back(coder.u8(stream, step.back))?;
                let stream = self.at.open(coder, StreamKind::TupleLen, 2);
                let at = coder.u16(stream, step.cursor.at);
                self.known.cursor = Cursor { row, at };
                let word = rows.word(self.known.cursor)?;
                match step.op {
                    IN_ROW => Some(word),
                    _ => sum(old, f64::from_bits(word)),
                }
            }
            RECENT => {
                let stream = self.recent.open(coder, StreamKind::TupleLen, 1);
                let which = coder.u8(stream, step.back);
                recent.words.get(usize::from(which)).copied()
            }
            FROM_LAST => {
                let stream = self.from_last.open(coder, StreamKind::HeapPart, WORD);
                let number = unzigzag(coder.u64(stream, zigzag(step.number)));
                let word = self.known.last(index, old).wrapping_add(number as u64);
                recent.add(word);
                Some(word)
            }
            op if INTEGER.contains(&op) || op == INTEGERS => {
                let stream = &mut self.integers[self.len.min(INTEGER_STREAMS - 1)];
                let stream = stream.open(coder, StreamKind::HeapPart, 4);
                let mut halves = halves_of(old);
                for ((half, change), number) in halves.iter_mut().zip(step.halves).zip(INTEGER) {
                    if op == number || op == INTEGERS {
                        let change = zigzag(change.into()) as u32;
                        recent.amount = unzigzag(coder.u32(stream, change).into()) as i32;
                        *half = half.wrapping_add(recent.amount);
                    }
                }
                Some(word_of(halves))
            }
            op if AMOUNT.contains(&op) => {
                let mut halves = halves_of(old);
                let half = &mut halves[usize::from(op - AMOUNT[0])];
                *half = half.wrapping_add(recent.amount);
                Some(word_of(halves))
            }
            op if (DECIMAL..=DECIMAL + DIGITS_MAX).contains(&op) => {
                let stream = self.decimals.open(coder, StreamKind::HeapPart, WORD);
                let number = unzigzag(coder.u64(stream, zigzag(step.number)));
                sum(old, decimal(number, op - DECIMAL))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_version::FormatVersion;
    use crate::model::rows::recent::{NewRow, RecentRows, RowNumber};
    use crate::streams::{StreamReader, StreamWriter};

    const KNOWN: f64 = 4321.5678;

    /// Two rows of a transaction, of which the older one has [`KNOWN`] at 8.
    fn rows() -> (RecentRows, RowNumber) {
        let (mut rows, mut newest) = (RecentRows::default(), 0);
        for values in [[7, KNOWN.to_bits()], [1, 2]] {
            let row = NewRow {
                relation: 3,
                tid: (0, 1),
                values: &values.map(u64::to_le_bytes).concat(),
                missing: 0,
                is_whole: true,
                begins_record: true,
            };
            rows.add(&mut newest, row);
        }
        (rows, newest)
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Codes changes of rows, with two bytes before and after the values, and checks that they are
    /// decoded. Returns the operations.
    fn coded(changes: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let (rows, newest) = rows();
        let rows = TransactionRows {
            rows: &rows,
            newest,
        };
        let (mut recent, mut bytes) = (RecentChanges::default(), Vec::new());
        let mut coder = StreamWriter::default();
        let mut streams = WordStreams::default();
        let replaced = |old| ReplacedWords {
            first: 0,
            bytes: old,
            values_at: 2,
        };
        for (old, new) in changes {
            let values = &mut new[2..new.len() - 2].to_vec();
            streams.code(
                &mut coder,
                values,
                replaced(old),
                rows,
                (&mut recent, &mut bytes),
            );
        }
        let content = coder.into_content().bytes;
        let mut coder = StreamReader::of_content(content.clone(), FormatVersion::CURRENT).unwrap();
        let (mut recent, mut streams) = (RecentChanges::default(), WordStreams::default());
        for (old, new) in changes {
            let values = &mut vec![0; new.len() - 4];
            streams.code(
                &mut coder,
                values,
                replaced(old),
                rows,
                (&mut recent, &mut bytes),
            );
            assert_eq!(*values, new[2..new.len() - 2]);
        }
        assert!(coder.exhausted() && !coder.failed());
        let mut coder = StreamReader::of_content(content, FormatVersion::CURRENT).unwrap();
        let stream = LazyStream::default().open(&mut coder, StreamKind::ModelFlag, 1);
        let count = changes.iter().map(|(old, _)| old.len() / WORD).sum();
        (0..count).map(|_| coder.u8(stream, 0)).collect()
    }

    #[test]
    fn each_operation_is_chosen_where_it_fits_and_comes_back() {
        let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let random = 0x9E37_79B9_7F4A_7C15;
        let float = |number: f64| number.to_bits();
        let time = 800_000_000_000_000;
        for (old, new, op) in [
            (random, random, SAME),
            (random, random ^ 0xFF_0000, BYTES),
            (float(1.0), float(KNOWN), IN_ROW),
            (float(1.25), float(1.25 + KNOWN), PLUS_ROW),
            (both(5, 6), both(1000, 6), INTEGER[0]),
            (both(5, 6), both(5, 5), INTEGER[1]),
            (both(5, 6), both(7, 9), INTEGERS),
            (float(100.1), float(100.1 + 77.123), DECIMAL + 3),
        ] {
            // The edges of the words stay as they are.
            let row = |word| [words(&[0, word, 0])].concat();
            assert_eq!(coded(&[(row(old), row(new))]), [SAME, op, SAME], "{op}");
        }
        let row = |word, other| words(&[0, word, other, 0]);
        let changes = [
            (row(time, 1), row(time + 5_000_000_000, 1)),
            (
                row(time, time),
                row(time + 5_000_000_007, time + 5_000_000_000),
            ),
            (
                row(both(1, 2), both(3, 4)),
                row(both(1, 1002), both(1003, 4)),
            ),
        ];
        let ops = coded(&changes);
        assert_eq!(ops[8..], [SAME, INTEGER[1], AMOUNT[0], SAME]);
        assert_eq!(ops[4..8], [SAME, FROM_LAST, RECENT, SAME]);
    }

    #[test]
    fn the_cursor_goes_on_with_the_rows() {
        let row = |word: f64| words(&[0, word.to_bits(), 0]);
        let changes = [(row(1.25), row(1.25 + KNOWN)), (row(1.0), row(1.0))];
        assert_eq!(coded(&changes)[..2], [SAME, PLUS_ROW]);
    }

    #[test]
    fn bytes_at_the_end_of_a_row_are_differences() {
        let (mut old, mut new) = (words(&[1, 2]), words(&[1, 3]));
        old.extend([1, 2, 3, 4, 5]);
        new.extend([1, 9, 3, 4, 5]);
        assert_eq!(coded(&[(old, new)]), [SAME, INTEGER[0]]);
    }

    #[test]
    fn operations_that_there_are_not_and_words_that_are_not_known_fail() {
        for (op, number, float) in [
            (20, 0, 1.0),
            (IN_ROW, 2, 1.0),
            (PLUS_ROW, 200, 1.0),
            (RECENT, 8, 1.0),
            (DECIMAL, 1, f64::INFINITY),
            (DECIMAL, 1, f64::NAN),
        ] {
            let (rows, newest) = rows();
            let rows = TransactionRows {
                rows: &rows,
                newest,
            };
            let mut coder = StreamWriter::default();
            let stream = coder.open(StreamKind::ModelFlag, 1);
            coder.u8(stream, op);
            for _ in 0..3 {
                let stream = coder.open(StreamKind::TupleLen, 1);
                coder.u16(stream, number);
            }
            let stream = coder.open(StreamKind::HeapPart, 8);
            coder.u64(stream, number.into());
            let content = coder.into_content().bytes;
            let mut coder = StreamReader::of_content(content, FormatVersion::CURRENT).unwrap();
            let replaced = ReplacedWords {
                first: 0,
                bytes: &float.to_bits().to_le_bytes(),
                values_at: 0,
            };
            let memory = (&mut RecentChanges::default(), &mut Vec::new());
            WordStreams::default().code(&mut coder, &mut [0; 8], replaced, rows, memory);
            assert!(coder.failed(), "{op}");
        }
    }
}
