//! The values of an updated tuple word by word: eight bytes each, told from the word that is
//! replaced, from rows that the transaction has inserted, or from words that changed before.
//!
//! Counters grow by little, sums by what was inserted, and times are those of the transaction.

use super::recent::{RecentRows, RowNumber};
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// Bytes of a word.
pub const WORD: usize = 8;

/// The word stays.
const SAME: u8 = 0;
/// Each byte is coded as the difference from the byte that it replaces.
const BYTES: u8 = 1;
/// It is the word of a row: the cursor's, or another one, which becomes the cursor's.
const AT_CURSOR: u8 = 2;
const IN_ROW: u8 = 3;
/// As a float, it is the sum of the word that it replaces and the word of a row.
const PLUS_CURSOR: u8 = 4;
const PLUS_ROW: u8 = 5;
/// It is a word that changed lately, in whatever relation.
const LATE: u8 = 6;
/// It differs by a number from the last word that came to this place of a row.
const FROM_LAST: u8 = 7;
/// It is two integers of four bytes, of which the first, the second, or both differ by a number.
const INTEGER: [u8; 2] = [8, 9];
const INTEGERS: u8 = 10;
/// One of them differs by what the last one differed by.
const AMOUNT: [u8; 2] = [11, 12];
/// As a float, it differs by a decimal number with so many digits after the point.
const DECIMAL: u8 = 13;
const DIGITS_MAX: u8 = 6;

/// Streams of integers.
const INTEGER_STREAMS: usize = 5;

/// Rows of a transaction in which a word is looked for.
const ROWS_SEARCHED: usize = 40;
/// After so many searches in vain only one of as many is made.
const SEARCHES_IN_VAIN: u32 = 16;
/// Words at the front of a row whose last values are kept.
const LAST_WORDS: usize = 64;
/// Words that changed lately.
const LATE_WORDS: usize = 8;

/// What is known of changes in all relations.
#[derive(Debug, Default)]
pub struct LateChanges {
    /// The newest one first.
    words: [u64; LATE_WORDS],
    /// What the transaction has last added to an integer.
    pub amount: i32,
}

impl LateChanges {
    fn add(&mut self, word: u64) {
        self.words.rotate_right(1);
        self.words[0] = word;
    }
}

/// Rows that a transaction has inserted.
#[derive(Clone, Copy)]
pub struct OwnRows<'a> {
    /// The rows of all.
    pub rows: &'a RecentRows,
    /// Its newest one.
    pub newest: RowNumber,
}

/// A word of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    row: RowNumber,
    at: u16,
}

impl OwnRows<'_> {
    fn word(&self, cursor: Cursor) -> Option<u64> {
        let row = self.rows.get(cursor.row)?;
        Some(u64::from_le_bytes(
            *row.get(cursor.at.into(), WORD)?.first_chunk()?,
        ))
    }

    /// The row so many before the newest.
    fn row_back(&self, back: u8) -> Option<RowNumber> {
        self.rows.back(self.newest).nth(back.into())
    }

    fn find(&self, is_it: impl Fn(u64) -> bool) -> Option<(u8, Cursor)> {
        for (back, number) in (0..).zip(self.rows.back(self.newest).take(ROWS_SEARCHED)) {
            let row = self.rows.get(number)?;
            let mut at = 0;
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

/// What replaces a word, as the encoder has chosen it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    op: u8,
    back: u8,
    cursor: Cursor,
    number: i64,
    halves: [i32; 2],
    /// About so many bytes.
    cost: u32,
}

/// The streams of the changes of one relation.
#[derive(Debug, Default)]
pub struct WordStreams {
    op: LazyStream,
    back: LazyStream,
    at: LazyStream,
    late: LazyStream,
    from_last: LazyStream,
    /// By the number of bytes that an update has, which says much of a number.
    integers: [LazyStream; INTEGER_STREAMS],
    len: usize,
    decimals: LazyStream,
    bytes: LazyStream,
    rest: RowsByLen,
    cursor: Cursor,
    last: Vec<u64>,
    in_vain: u32,
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn bytes_of(number: u64) -> u32 {
    (u64::BITS - number.leading_zeros()).div_ceil(8)
}

fn halves_of(word: u64) -> [i32; 2] {
    [word as i32, (word >> 32) as i32]
}

fn word_of([low, high]: [i32; 2]) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

/// The sum of two floats; `None` where it is not a finite number, of which not all machines make
/// the same.
fn sum(one: u64, other: f64) -> Option<u64> {
    let sum = f64::from_bits(one) + other;
    sum.is_finite().then_some(sum.to_bits())
}

fn decimal(number: i64, digits: u8) -> f64 {
    number as f64 / 10f64.powi(digits.into())
}

impl WordStreams {
    /// Where the cursor is.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Puts the cursor where it was.
    pub fn set_cursor(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    /// The words follow that an update of so many bytes changes.
    pub fn begin(&mut self, len: usize, own: OwnRows<'_>) {
        self.len = len;
        self.cursor.row = own.rows.next_like(self.cursor.row);
    }

    /// About how many bytes words take; the words that they replace come with them.
    pub fn cost(
        &mut self,
        words: impl Iterator<Item = (u64, u64)>,
        first: usize,
        own: OwnRows<'_>,
        late: &LateChanges,
    ) -> u32 {
        let cursor = self.cursor;
        let mut cost = 0;
        for (place, (old, new)) in (first..).zip(words) {
            let step = self.step(old, new, place, own, late);
            self.cursor = step.cursor;
            cost += step.cost;
        }
        self.cursor = cursor;
        cost
    }

    /// Codes the word at a place of a row.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        (old, new): (u64, &mut u64),
        place: usize,
        own: OwnRows<'_>,
        late: &mut LateChanges,
    ) {
        let mut step = Step::default();
        if C::ENCODING {
            step = self.step(old, *new, place, own, late);
        }
        let stream = self.op.open(coder, StreamKind::ModelFlag, 1);
        step.op = coder.u8(stream, step.op);
        let coded = self.code_step(coder, step, (old, *new), place, own, late);
        match coded {
            Some(word) if C::ENCODING => debug_assert_eq!(word, *new),
            Some(word) => *new = word,
            None => coder.fail(),
        }
        if let Some(last) = self.last.get_mut(place) {
            *last = *new;
        } else if place < LAST_WORDS {
            self.last.resize(place, 0);
            self.last.push(*new);
        }
    }

    /// Codes bytes of the end of a row that are no word, as differences.
    pub fn code_rest<C: Coder>(&mut self, coder: &mut C, differences: &mut [u8]) {
        self.rest.code(coder, StreamKind::HeapPart, differences);
    }

    fn code_step<C: Coder>(
        &mut self,
        coder: &mut C,
        step: Step,
        (old, new): (u64, u64),
        place: usize,
        own: OwnRows<'_>,
        late: &mut LateChanges,
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
                Some(u64::from_le_bytes(bytes))
            }
            AT_CURSOR => own.word(self.cursor),
            PLUS_CURSOR => sum(old, f64::from_bits(own.word(self.cursor)?)),
            IN_ROW | PLUS_ROW => {
                let stream = self.back.open(coder, StreamKind::TupleLen, 1);
                let row = own.row_back(coder.u8(stream, step.back))?;
                let stream = self.at.open(coder, StreamKind::TupleLen, 2);
                let at = coder.u16(stream, step.cursor.at);
                self.cursor = Cursor { row, at };
                let word = own.word(self.cursor)?;
                match step.op {
                    IN_ROW => Some(word),
                    _ => sum(old, f64::from_bits(word)),
                }
            }
            LATE => {
                let stream = self.late.open(coder, StreamKind::TupleLen, 1);
                let which = coder.u8(stream, step.back);
                late.words.get(usize::from(which)).copied()
            }
            FROM_LAST => {
                let stream = self.from_last.open(coder, StreamKind::HeapPart, WORD);
                let number = unzigzag(coder.u64(stream, zigzag(step.number)));
                let word = self.last(place, old).wrapping_add(number as u64);
                late.add(word);
                Some(word)
            }
            op if INTEGER.contains(&op) || op == INTEGERS => {
                let stream = &mut self.integers[self.len.min(INTEGER_STREAMS - 1)];
                let stream = stream.open(coder, StreamKind::HeapPart, 4);
                let mut halves = halves_of(old);
                for ((half, change), number) in halves.iter_mut().zip(step.halves).zip(INTEGER) {
                    if op == number || op == INTEGERS {
                        let change = zigzag(change.into()) as u32;
                        late.amount = unzigzag(coder.u32(stream, change).into()) as i32;
                        *half = half.wrapping_add(late.amount);
                    }
                }
                Some(word_of(halves))
            }
            op if AMOUNT.contains(&op) => {
                let mut halves = halves_of(old);
                let half = &mut halves[usize::from(op - AMOUNT[0])];
                *half = half.wrapping_add(late.amount);
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

    fn last(&self, place: usize, old: u64) -> u64 {
        self.last.get(place).copied().unwrap_or(old)
    }

    /// What takes the fewest bytes. Encoder only.
    fn step(
        &mut self,
        old: u64,
        new: u64,
        place: usize,
        own: OwnRows<'_>,
        late: &LateChanges,
    ) -> Step {
        let step = |op, cost| Step {
            op,
            cost,
            cursor: self.cursor,
            ..Step::default()
        };
        if new == old {
            return step(SAME, 0);
        }
        let at_cursor = own.word(self.cursor);
        if at_cursor == Some(new) {
            return step(AT_CURSOR, 0);
        }
        if at_cursor.is_some_and(|word| sum(old, f64::from_bits(word)) == Some(new)) {
            return step(PLUS_CURSOR, 0);
        }
        if let Some(back) = late.words.iter().position(|word| *word == new) {
            let back = back as u8;
            return Step {
                back,
                ..step(LATE, 0)
            };
        }
        let (before, after) = (halves_of(old), halves_of(new));
        let halves = [0, 1].map(|half| after[half].wrapping_sub(before[half]));
        for (op, changed, same) in [
            (AMOUNT[0], halves[0], halves[1]),
            (AMOUNT[1], halves[1], halves[0]),
        ] {
            if same == 0 && changed == late.amount {
                return step(op, 0);
            }
        }
        let op = match halves {
            [_, 0] => INTEGER[0],
            [0, _] => INTEGER[1],
            _ => INTEGERS,
        };
        let cost = halves.map(|half| bytes_of(zigzag(half.into()) & u64::from(u32::MAX)));
        let mut best = Step {
            halves,
            ..step(op, cost[0] + cost[1])
        };
        let mut offer = |other: Step| {
            if other.cost < best.cost {
                best = other;
            }
        };
        let number = new.wrapping_sub(self.last(place, old)) as i64;
        offer(Step {
            number,
            ..step(FROM_LAST, bytes_of(zigzag(number)))
        });
        let differing = old.to_le_bytes().into_iter().zip(new.to_le_bytes());
        let differing = differing.filter(|(one, other)| one != other).count();
        offer(step(BYTES, differing as u32));
        if best.cost > 2 {
            if let Some((op, number)) = decimal_between(old, new) {
                let cost = bytes_of(zigzag(number));
                let decimal = Step {
                    number,
                    ..step(op, cost)
                };
                if cost < best.cost {
                    best = decimal;
                }
            }
        }
        if best.cost > 2 {
            self.search(best, old, new, own)
        } else {
            best
        }
    }

    /// The same, or a word of a row.
    fn search(&mut self, best: Step, old: u64, new: u64, own: OwnRows<'_>) -> Step {
        self.in_vain += 1;
        if self.in_vain > SEARCHES_IN_VAIN && !self.in_vain.is_multiple_of(SEARCHES_IN_VAIN) {
            return best;
        }
        let found = own.find(|word| word == new).map(|found| (IN_ROW, found));
        let found = found.or_else(|| {
            let found = own.find(|word| sum(old, f64::from_bits(word)) == Some(new));
            Some((PLUS_ROW, found?))
        });
        match found {
            Some((op, (back, cursor))) => {
                self.in_vain = 0;
                Step {
                    op,
                    back,
                    cursor,
                    cost: 2,
                    ..best
                }
            }
            None => best,
        }
    }
}

/// The decimal number with the fewest digits that makes one float another, and its operation.
fn decimal_between(old: u64, new: u64) -> Option<(u8, i64)> {
    let between = f64::from_bits(new) - f64::from_bits(old);
    if !between.is_finite() {
        return None;
    }
    (0..=DIGITS_MAX).find_map(|digits| {
        let number = (between * 10f64.powi(digits.into())).round();
        if number == 0.0 || number.abs() >= (1u64 << 40) as f64 {
            return None;
        }
        let number = number as i64;
        (sum(old, decimal(number, digits)) == Some(new)).then_some((DECIMAL + digits, number))
    })
}
