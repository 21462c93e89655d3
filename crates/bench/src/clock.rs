//! How far along an experiment is, and how long it will still take.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::Step;

/// How far along, and how long still.
pub(crate) struct Clock {
    start: Instant,
    done: usize,
    total: usize,
    rows: usize,
    /// Time and number of the measurements of each row.
    spent: HashMap<usize, (Duration, u32)>,
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
        }
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

    /// Rows take turns, so what remains is the mean of their means for each measurement left.
    fn remaining(&self) -> Option<Duration> {
        if self.spent.len() < self.rows {
            return None;
        }
        let round: Duration = self
            .spent
            .values()
            .map(|(spent, times)| *spent / *times)
            .sum();
        let left = self.total.saturating_sub(self.done);
        Some(round.mul_f64(left as f64 / self.rows.max(1) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_once_each_row_was_seen() {
        let mut clock = Clock::new(10, 2);
        clock.finish(0, Duration::from_secs(1));
        assert_eq!(clock.remaining(), None);
        clock.finish(1, Duration::from_secs(3));
        assert_eq!(clock.remaining(), Some(Duration::from_secs(16)));
    }
}
