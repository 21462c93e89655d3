//! What a context has seen, in one byte: about how many zeros and ones, and which was last.
//!
//! The states are those pairs of counts that [`kinds_of`] admits, in the order of their sums;
//! the opposite count shrinks with each bit, so that recent bits matter more.
#![allow(
    clippy::indexing_slicing,
    reason = "tables are built from constants; states have eight bits"
)]

/// The most of one bit beside 0, 1, ... of the other.
const BOUNDS: [usize; 6] = [20, 48, 15, 8, 6, 5];
/// Counts are below this.
const COUNTS: usize = 50;
/// Pairs with a larger sum do not remember which bit was last.
const LAST_BIT_SUM_MAX: usize = 17;
/// A count shrinks to the number of these that it reaches, when the other bit comes.
const SHRINKING: [usize; 7] = [1, 2, 3, 4, 5, 7, 8];

/// Histories, by their number; 0 is the empty one.
pub struct BitHistories {
    next: Box<[[u8; 2]; 256]>,
    counts: Box<[[u8; 2]; 256]>,
}

/// States of a pair of counts: none, one, or one for each last bit.
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

/// The counts after another bit, where `more` is the larger one.
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
    /// The table, which is a constant of the format.
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

    /// The history with one bit more.
    #[inline(always)]
    pub fn next(&self, history: u8, bit: u32) -> u8 {
        self.next[usize::from(history)][bit as usize & 1]
    }

    /// About how many zeros and ones the history has.
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
