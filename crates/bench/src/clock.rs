//! How far along an experiment is, and how long it will still take.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::progress::Step;

/// How far along, and how long still.
pub(crate) struct Clock {
    start: Instant,
    done: usize,
    total: usize,
    rows: usize,
    /// Time and number of the measurements of each row.
    spent: HashMap<usize, (Duration, u32)>,
    /// How long measurements of a row take relative to those of the others, as far as is known
    /// before one was made.
    expected: HashMap<usize, f64>,
}

impl Clock {
    /// For so many measurements of so many rows, which take turns.
    pub(crate) fn new(total: usize, rows: usize) -> Clock {
        Clock {
            start: Instant::now(),
            done: 0,
            total,
            rows,
            spent: HashMap::new(),
            expected: HashMap::new(),
        }
    }

    /// What a measurement of a row takes, relative to those of the other rows that this is said
    /// of: with it the time left is told before each row was seen.
    pub(crate) fn expect(&mut self, row: usize, time: f64) {
        self.expected.insert(row, time);
    }

    /// A measurement that will not be made.
    pub(crate) fn skip(&mut self) {
        self.done += 1;
    }

    /// A measurement of a row was made in this time.
    pub(crate) fn finish(&mut self, row: usize, time: Duration) {
        self.done += 1;
        let (spent, times) = self.spent.entry(row).or_default();
        *spent += time;
        *times += 1;
    }

    /// What to tell before the next measurement.
    pub(crate) fn step(&self, label: &str) -> Step {
        Step {
            done: self.done,
            total: self.total,
            label: label.to_owned(),
            elapsed: self.start.elapsed(),
            remaining: self.remaining(),
        }
    }

    /// The time for each unit of what was expected, of the rows that were seen.
    fn pace(&self) -> Option<Duration> {
        let (mut took, mut expected) = (Duration::ZERO, 0.0);
        for (row, (spent, times)) in &self.spent {
            if let Some(time) = self.expected.get(row) {
                took += *spent / *times;
                expected += time;
            }
        }
        (expected > 0.0).then(|| took.div_f64(expected))
    }

    /// Rows take turns, so what remains is the mean of their means for each measurement left.
    fn remaining(&self) -> Option<Duration> {
        let unseen = (0..self.rows).filter(|row| !self.spent.contains_key(row));
        let unseen: Option<Vec<f64>> = unseen.map(|row| self.expected.get(&row).copied()).collect();
        let seen = self.spent.values();
        let seen: Duration = seen.map(|(spent, times)| *spent / *times).sum();
        let round = match unseen?.as_slice() {
            [] => seen,
            unseen => seen + self.pace()?.mul_f64(unseen.iter().sum()),
        };
        let left = self.total.saturating_sub(self.done);
        Some(round.mul_f64(left as f64 / self.rows.max(1) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_the_rows_tells_the_time_left_before_each_was_seen() {
        let mut clock = Clock::new(30, 3);
        for (row, time) in [(0, 1.0), (1, 2.0), (2, 30.0)] {
            clock.expect(row, time);
        }
        assert_eq!(clock.remaining(), None);
        clock.finish(0, Duration::from_secs(2));
        clock.finish(1, Duration::from_secs(4));
        // Twice what was expected: 66 s for a round of three, and 28 measurements are left.
        assert_eq!(clock.remaining(), Some(Duration::from_secs(616)));
    }

    #[test]
    fn the_time_left_is_told_once_each_row_was_seen() {
        let mut clock = Clock::new(10, 2);
        clock.finish(0, Duration::from_secs(1));
        assert_eq!(clock.remaining(), None);
        clock.finish(1, Duration::from_secs(3));
        assert_eq!(clock.remaining(), Some(Duration::from_secs(16)));
    }
}
