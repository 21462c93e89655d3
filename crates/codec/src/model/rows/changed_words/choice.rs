//! What may be said of a word, and what the encoder says.

use super::known::{
    Cursor, RecentChanges, RowWords, TransactionRows, decimal, halves_of, sum, zigzag,
};

/// The word stays.
pub const SAME: u8 = 0;
/// Each byte is coded as the difference from the byte that it replaces.
pub const BYTES: u8 = 1;
/// It is the word of a row: the cursor's, or another one, which becomes the cursor's.
pub const AT_CURSOR: u8 = 2;
pub const IN_ROW: u8 = 3;
/// As a float, it is the sum of the word that it replaces and the word of a row.
pub const PLUS_CURSOR: u8 = 4;
pub const PLUS_ROW: u8 = 5;
/// It is a word that changed recently, in any relation.
pub const RECENT: u8 = 6;
/// It differs by a number from the last word with this index in a row.
pub const FROM_LAST: u8 = 7;
/// It is two integers of four bytes, of which the first, the second, or both differ by a number.
pub const INTEGER: [u8; 2] = [8, 9];
pub const INTEGERS: u8 = 10;
/// One of them differs by what the last one differed by.
pub const AMOUNT: [u8; 2] = [11, 12];
/// As a float, it differs by a decimal number. The number of digits after the point is added.
pub const DECIMAL: u8 = 13;
/// The largest number of digits after the point.
pub const DIGITS_MAX: u8 = 6;

/// A word that takes this number of bytes is not searched for: to say where it is takes as many.
const CHEAP: u32 = 2;
/// After this number of searches without result, one in as many is made.
const SEARCHES_IN_VAIN: u32 = 16;

/// What the encoder has chosen to say of a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// The operation.
    pub op: u8,
    /// How many rows before the newest; or which of the recent words.
    pub back: u8,
    /// The word of a row.
    pub cursor: Cursor,
    /// The difference.
    pub number: i64,
    /// The differences of both integers.
    pub halves: [i32; 2],
    /// The estimated number of bytes.
    pub cost: u32,
}

/// Chooses what to say of the words of a relation.
#[derive(Debug, Default)]
pub struct Choice {
    in_vain: u32,
}

impl Choice {
    /// What takes the fewest bytes. Encoder only.
    pub fn step(
        &mut self,
        known: &RowWords,
        (old, new): (u64, u64),
        index: usize,
        rows: TransactionRows<'_>,
        recent: &RecentChanges,
    ) -> Step {
        let free = Choice::free(known, (old, new), rows, recent);
        let best = free.unwrap_or_else(|| Choice::number(known, (old, new), index));
        match best.cost > CHEAP {
            true => self.search(best, old, new, rows),
            false => best,
        }
    }

    /// What takes no bytes beside the operation.
    fn free(
        known: &RowWords,
        (old, new): (u64, u64),
        rows: TransactionRows<'_>,
        recent: &RecentChanges,
    ) -> Option<Step> {
        let step = |op| Step {
            op,
            cursor: known.cursor,
            ..Step::default()
        };
        if new == old {
            return Some(step(SAME));
        }
        let at_cursor = rows.word(known.cursor);
        if at_cursor == Some(new) {
            return Some(step(AT_CURSOR));
        }
        if at_cursor.is_some_and(|word| sum(old, f64::from_bits(word)) == Some(new)) {
            return Some(step(PLUS_CURSOR));
        }
        if let Some(back) = recent.words.iter().position(|word| *word == new) {
            let back = back as u8;
            return Some(Step {
                back,
                ..step(RECENT)
            });
        }
        let [low, high] = differences(old, new);
        match recent.amount {
            amount if low == amount && high == 0 => Some(step(AMOUNT[0])),
            amount if high == amount && low == 0 => Some(step(AMOUNT[1])),
            _ => None,
        }
    }

    /// The number or the bytes that take least.
    fn number(known: &RowWords, (old, new): (u64, u64), index: usize) -> Step {
        let step = |op, cost| Step {
            op,
            cost,
            cursor: known.cursor,
            ..Step::default()
        };
        let halves = differences(old, new);
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
        let number = new.wrapping_sub(known.last(index, old)) as i64;
        offer(Step {
            number,
            ..step(FROM_LAST, bytes_of(zigzag(number)))
        });
        let differing = old.to_le_bytes().into_iter().zip(new.to_le_bytes());
        let differing = differing.filter(|(one, other)| one != other).count();
        offer(step(BYTES, differing as u32));
        if best.cost > CHEAP
            && let Some((op, number)) = decimal_between(old, new)
            && bytes_of(zigzag(number)) < best.cost
        {
            best = Step {
                number,
                ..step(op, bytes_of(zigzag(number)))
            };
        }
        best
    }

    /// The same, or a word of a row.
    fn search(&mut self, best: Step, old: u64, new: u64, rows: TransactionRows<'_>) -> Step {
        self.in_vain += 1;
        if self.in_vain > SEARCHES_IN_VAIN && !self.in_vain.is_multiple_of(SEARCHES_IN_VAIN) {
            return best;
        }
        let found = rows.find(|word| word == new).map(|found| (IN_ROW, found));
        let found = found.or_else(|| {
            let found = rows.find(|word| sum(old, f64::from_bits(word)) == Some(new));
            Some((PLUS_ROW, found?))
        });
        match found {
            Some((op, (back, cursor))) => {
                self.in_vain = 0;
                Step {
                    op,
                    back,
                    cursor,
                    cost: CHEAP,
                    ..best
                }
            }
            None => best,
        }
    }
}

fn differences(old: u64, new: u64) -> [i32; 2] {
    let (before, after) = (halves_of(old), halves_of(new));
    [0, 1].map(|half| after[half].wrapping_sub(before[half]))
}

fn bytes_of(number: u64) -> u32 {
    (u64::BITS - number.leading_zeros()).div_ceil(8)
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
