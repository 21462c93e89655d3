//! Bit histories: the bits seen in a context, in one byte. A history is a state: approximate counts
//! of zeros and ones, and for small counts the last bit.
//!
//! The states are the pairs of counts that [`kinds_of`] admits, ordered by their sums. Each bit
//! shrinks the count of the opposite bit, so that recent bits count more.
#![allow(
    clippy::indexing_slicing,
    reason = "tables are built from constants; states have eight bits"
)]

/// Maximum of the larger count, if the smaller one is 0, 1, and so on.
const BOUNDS: [usize; 6] = [20, 48, 15, 8, 6, 5];
/// Counts are below this.
const COUNTS: usize = 50;
/// Maximum sum of a pair whose states include the last bit.
const LAST_BIT_SUM_MAX: usize = 17;
/// When the other bit occurs, a count shrinks to the number of these that it reaches.
const SHRINKING: [usize; 7] = [1, 2, 3, 4, 5, 7, 8];

/// The successor and the counts of each history. History 0 is empty.
pub struct BitHistories {
    next: Box<[[u8; 2]; 256]>,
    counts: Box<[[u8; 2]; 256]>,
}

/// Number of states of a pair of counts: none, one, or one for each last bit.
fn kinds_of(zeros: usize, ones: usize) -> usize {
    let (more, less) = (zeros.max(ones), zeros.min(ones));
    match BOUNDS.get(less) {
        Some(&bound) if more <= bound => {
            if less > 0 && zeros + ones <= LAST_BIT_SUM_MAX {
                2
            } else {
                1
            }
        }
        _ => 0,
    }
}

/// The counts after another bit. `more` is the larger one; `bit_of_less`: the bit is the rarer one.
fn count(more: usize, less: usize, bit_of_less: bool) -> (usize, usize) {
    let shrunk = |n: usize| SHRINKING.iter().filter(|&&least| n >= least).count();
    let (mut more, mut less) = if bit_of_less {
        (shrunk(more), less + 1)
    } else {
        (more + 1, shrunk(less))
    };
    while kinds_of(more, less) == 0 {
        if less < 2 {
            more -= 1;
        } else {
            more = (more * (less - 1) + less / 2) / less;
            less -= 1;
        }
    }
    (more, less)
}

fn next(zeros: usize, ones: usize, bit: usize) -> (usize, usize) {
    if zeros < ones {
        let (ones, zeros) = count(ones, zeros, bit == 0);
        (zeros, ones)
    } else {
        count(zeros, ones, bit == 1)
    }
}

impl BitHistories {
    /// The tables, which are constants of the format.
    pub fn new() -> BitHistories {
        let mut numbers = [[[0u8; 2]; COUNTS]; COUNTS];
        let mut states = Vec::new();
        let pairs = (0..COUNTS).flat_map(|sum| (0..=sum).map(move |ones| (sum - ones, ones)));
        for (zeros, ones) in pairs {
            let kinds = kinds_of(zeros, ones);
            if kinds > 0 {
                let first = states.len() as u8;
                numbers[zeros][ones] = [first, first + (kinds as u8 - 1)];
                states.extend(std::iter::repeat_n((zeros, ones), kinds));
            }
        }
        let mut histories = BitHistories {
            next: Box::new([[0; 2]; 256]),
            counts: Box::new([[0; 2]; 256]),
        };
        for (state, &(zeros, ones)) in states.iter().enumerate() {
            histories.next[state] = [0, 1].map(|bit| {
                let (zeros, ones) = next(zeros, ones, bit);
                numbers[zeros][ones][bit]
            });
            histories.counts[state] = [zeros as u8, ones as u8];
        }
        histories
    }

    /// The history after one more bit.
    #[inline(always)]
    pub fn next(&self, history: u8, bit: u32) -> u8 {
        self.next[usize::from(history)][bit as usize & 1]
    }

    /// The approximate counts of zeros and ones.
    pub fn counts(&self, history: u8) -> [u8; 2] {
        self.counts[usize::from(history)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_history_has_a_number() {
        let histories = BitHistories::new();
        let used = (1..=255).filter(|&state| histories.counts(state) != [0, 0]);
        assert_eq!(used.count(), 254);
        assert_eq!(histories.counts(255), [0, 0], "the last number is free");
    }

    #[test]
    fn counts_what_it_sees() {
        let histories = BitHistories::new();
        let mut history = 0;
        for _ in 0..100 {
            history = histories.next(history, 1);
        }
        assert_eq!(histories.counts(history), [0, 20]);
        history = histories.next(history, 0);
        assert_eq!(histories.counts(history), [1, 7]);
    }
}
