//! The order of the measurements, and what to do when one fails.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::published::PUBLISHED;
use super::results::{Failed, Measurement, Results, Row};
use super::round_trip::round_trip;
use crate::clock::Clock;
use crate::contender::{BASELINE, Contender, WALZIP, WALZIP_UNVERIFIED};
use crate::error::Error;
use crate::input::Input;
use crate::output::{Files, check_space};
use crate::process::{Failure, Surroundings};
use crate::progress::Progress;

/// How often what was measured is written down meanwhile.
const CHECKPOINT: Duration = Duration::from_secs(30);

/// A row of the results, and the program to run for it.
pub(super) type Runnable = (Row, PathBuf);

/// Everything that a measurement needs or changes.
pub(super) struct Schedule<'a, P> {
    pub(super) rows: &'a [Runnable],
    pub(super) results: &'a mut Results,
    pub(super) surroundings: Surroundings<'a>,
    pub(super) progress: &'a mut P,
    pub(super) files: &'a Files,
}

/// Which row and which input, by their indexes in the results, in which run.
#[derive(Clone, Copy)]
struct Turn {
    row: usize,
    input: usize,
    run: u32,
}

impl<P: Progress> Schedule<'_, P> {
    /// Measures every row on every input, run by run, until done or stopped.
    pub(super) fn measure_all(&mut self) {
        let turns = interleave(
            self.rows.len(),
            self.results.inputs.len(),
            self.results.settings.runs,
        );
        let mut clock = Clock::new(turns.len(), self.rows.len());
        for (row, of_row) in self.results.rows.iter().enumerate() {
            if let Some(seconds) = expected_seconds(of_row) {
                clock.expect(row, seconds);
            }
        }
        for taken in &self.results.measurements {
            clock.finish(taken.row, taken.compress.wall + taken.decompress.wall);
        }
        let mut saved = Instant::now();
        for turn in turns {
            if self.is_measured(turn) {
                continue;
            }
            if self.is_slow(turn) {
                clock.skip();
                continue;
            }
            let failed_before =
                |failed: &Failed| (failed.row, failed.input) == (turn.row, turn.input);
            if self.results.failed.iter().any(failed_before) {
                clock.skip();
                continue;
            }
            if let Err(reason) = self.measure(turn, &mut clock) {
                self.progress.note(&reason);
                self.results.stopped = Some(reason);
                return;
            }
            if saved.elapsed() > CHECKPOINT {
                self.save();
                saved = Instant::now();
            }
        }
    }

    fn is_measured(&self, turn: Turn) -> bool {
        self.results.measurements.iter().any(|measurement| {
            (measurement.row, measurement.input, measurement.run)
                == (turn.row, turn.input, turn.run)
        })
    }

    /// An earlier run took so long that no further one is made: it is far from all that is not slow.
    fn is_slow(&self, turn: Turn) -> bool {
        self.results.measurements.iter().any(|of| {
            (of.row, of.input) == (turn.row, turn.input) && of.run < turn.run && of.is_slow()
        })
    }

    /// Writes what there is so far. It will be written again, so a failure is only told.
    fn save(&mut self) {
        if let Err(error) = self.files.save(self.results) {
            self.progress.note(&error.to_string());
        }
    }

    /// One measurement; an error is a reason to stop them all.
    fn measure(&mut self, turn: Turn, clock: &mut Clock) -> Result<(), String> {
        let Turn { row, input, run } = turn;
        let (
            Row {
                label,
                contender,
                level,
                ..
            },
            program,
        ) = &self.rows[row];
        let segment = &self.results.inputs[input];
        let title = format!("{label}: {}/{}", segment.folder, segment.name);
        self.progress.step(&clock.step(&title));
        check_space(self.surroundings.temp_dir, segment.bytes.saturating_mul(2))
            .map_err(without_path)?;
        let contender =
            Contender::named(contender).ok_or_else(|| format!("no contender {contender}"))?;
        let start = Instant::now();
        let trip = round_trip(contender, *level, program, segment, self.surroundings);
        clock.finish(row, start.elapsed());
        match trip {
            Ok(trip) => {
                let (compress, decompress, output_bytes) =
                    (trip.compress, trip.decompress, trip.output_bytes);
                let measurement = Measurement {
                    row,
                    input,
                    run,
                    start: 0,
                    compress,
                    decompress,
                    output_bytes,
                };
                self.results.measurements.push(measurement);
            }
            Err(Failure::Cancelled) => return Err("interrupted".to_owned()),
            Err(failure) => {
                let reason = self.without_paths(&failure.to_string(), segment);
                let said = format!("{title}: {reason}");
                if failure.is_no_space() {
                    return Err(said);
                }
                self.progress.note(&said);
                self.results.failed.push(Failed {
                    row,
                    input,
                    run,
                    reason,
                });
            }
        }
        Ok(())
    }

    /// What a program said, with the names of files but not of directories.
    fn without_paths(&self, said: &str, segment: &Input) -> String {
        let directories = [segment.path.parent(), Some(self.surroundings.temp_dir)];
        let mut said = said.to_owned();
        for directory in directories
            .into_iter()
            .flatten()
            .filter(|path| path.is_absolute())
        {
            said = said.replace(&format!("{}/", directory.display()), "");
        }
        said
    }
}

/// Results are published: they name no path.
fn without_path(error: Error) -> String {
    match error {
        Error::NoSpace {
            available_bytes,
            needed_bytes,
            ..
        } => format!(
            "too little space in the temporary directory: {available_bytes} bytes are free, \
             {needed_bytes} are needed"
        ),
        other => other.to_string(),
    }
}

/// About how long a row takes next to the others: as published, with a third more for unpacking but
/// where that is as slow; of walzip's levels from experience.
fn expected_seconds(row: &Row) -> Option<f64> {
    const OF_WALZIP: [f64; 9] = [0.3, 0.35, 0.4, 0.45, 0.6, 0.8, 1.0, 1.5, 4.5];
    if row.contender == WALZIP || row.contender == WALZIP_UNVERIFIED {
        return OF_WALZIP
            .get(usize::from(row.level).checked_sub(1)?)
            .copied();
    }
    if row.contender == BASELINE.name && row.level == BASELINE.level {
        return Some(0.15);
    }
    let mut published = PUBLISHED.iter();
    let found =
        published.find(|pair| (pair.contender, pair.level) == (row.contender, row.level))?;
    // zpaq unpacks as slowly as it packs.
    let unpacking = if found.contender == "lrzip-z" {
        2.0
    } else {
        4.0 / 3.0
    };
    Some(found.compress_s * unpacking)
}

/// Each round walks over all rows, from another one on and by another step: nobody is always
/// first, and nobody always comes behind the same one, which may leave a machine that is slow
/// to hand out memory.
fn interleave(rows: usize, inputs: usize, runs: u32) -> Vec<Turn> {
    // At least a step of one: where no program is there, there are no turns either.
    let steps: Vec<usize> = (1..=rows.max(1))
        .filter(|&step| gcd(step, rows) == 1)
        .collect();
    let rounds = (1..=runs).flat_map(|run| (0..inputs).map(move |input| (run, input)));
    let mut turns = Vec::new();
    for (round, (run, input)) in rounds.enumerate() {
        let step = steps[round % steps.len()];
        for turn in 0..rows {
            turns.push(Turn {
                row: (round + turn * step) % rows,
                input,
                run,
            });
        }
    }
    turns
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_measure_with_makes_no_turns() {
        assert!(interleave(0, 2, 3).is_empty());
        assert_eq!(interleave(1, 2, 3).len(), 6);
    }

    #[test]
    fn nobody_always_comes_behind_the_same() {
        let turns = interleave(21, 12, 1);
        for row in 0..21 {
            let pairs = turns.windows(2).filter(|pair| pair[1].row == row);
            let mut before: Vec<_> = pairs.map(|pair| pair[0].row).collect();
            before.sort_unstable();
            before.dedup();
            assert!(before.len() > 6, "row {row}: behind {before:?}");
        }
    }

    #[test]
    fn every_row_meets_every_input_in_every_run_and_nobody_is_always_first() {
        let turns = interleave(3, 2, 4);
        assert_eq!(turns.len(), 24);
        let mut met: Vec<_> = turns
            .iter()
            .map(|turn| (turn.run, turn.input, turn.row))
            .collect();
        met.sort_unstable();
        met.dedup();
        assert_eq!(met.len(), 24);
        let mut first: Vec<_> = turns.iter().step_by(3).map(|turn| turn.row).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first, [0, 1, 2]);
    }
}
