//! The times of two rows, run by run.
//!
//! A run counts when both rows were measured in it on every segment, each segment by the same
//! start of the experiment: what an earlier start left behind was not interleaved with what a
//! later one measured.

use std::collections::HashMap;

use super::{Measurement, Results};
use crate::usage::Usage;
use crate::verdict::Time;

/// Every measurement by its row, input and run.
pub(super) struct Runs<'a> {
    measurements: HashMap<(usize, usize, u32), &'a Measurement>,
    last: u32,
    time: Time,
}

/// Mean seconds of a segment in each run that both rows have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Paired {
    pub(super) compress: [Vec<f64>; 2],
    pub(super) decompress: [Vec<f64>; 2],
}

impl<'a> Runs<'a> {
    pub(super) fn new(results: &'a Results, time: Time) -> Runs<'a> {
        let measurements = results.measurements.iter();
        let last = measurements.clone().map(|measured| measured.run).max();
        Runs {
            measurements: measurements
                .map(|measured| ((measured.row, measured.input, measured.run), measured))
                .collect(),
            last: last.unwrap_or_default(),
            time,
        }
    }

    pub(super) fn paired(&self, rows: [usize; 2], inputs: &[usize]) -> Paired {
        let mut paired = Paired::default();
        for run in 1..=self.last {
            let pairs = inputs.iter().map(|&input| self.pair(rows, input, run));
            let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else {
                continue;
            };
            for side in [0, 1] {
                let mean = |usage: fn(&Measurement) -> Usage| {
                    let seconds = pairs.iter().map(|pair| self.seconds(usage(pair[side])));
                    seconds.sum::<f64>() / pairs.len() as f64
                };
                paired.compress[side].push(mean(|measured| measured.compress));
                paired.decompress[side].push(mean(|measured| measured.decompress));
            }
        }
        paired
    }

    fn pair(&self, rows: [usize; 2], input: usize, run: u32) -> Option<[&Measurement; 2]> {
        let [first, second] = rows.map(|row| self.measurements.get(&(row, input, run)).copied());
        let (first, second) = (first?, second?);
        (first.start == second.start).then_some([first, second])
    }

    fn seconds(&self, usage: Usage) -> f64 {
        match self.time {
            Time::Wall => usage.wall.as_secs_f64(),
            Time::Processor => usage.cpu().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::fixture::{FixtureRow, fixture_of_runs};

    #[test]
    fn a_run_that_was_not_interleaved_does_not_count() {
        let rows: &[FixtureRow<'_>] = &[
            ("gzip", 1, &[(100, 1.0), (100, 3.0)]),
            ("walzip", 1, &[(90, 0.5), (90, 0.5)]),
        ];
        let mut results = fixture_of_runs(3, rows);
        let paired = |results: &Results| Runs::new(results, Time::Wall).paired([1, 0], &[0, 1]);
        assert_eq!(paired(&results).compress, [vec![0.5; 3], vec![2.0; 3]]);
        let other = results
            .measurements
            .iter_mut()
            .find(|measured| measured.row == 0);
        other.unwrap().start = 1;
        assert_eq!(paired(&results).compress, [vec![0.5; 2], vec![2.0; 2]]);
    }
}
