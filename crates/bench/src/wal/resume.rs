//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program (the same file, by its hash) made the same
//! calls on the same bytes, in the same run, on the same machine. Whatever failed is tried again.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::{Measurement, Results};
use crate::error::Error;
use crate::input::Input;
use crate::output::Files;
use crate::progress::Progress;
use crate::resume::{Origin, Resumed, keep_all, note_taken_over, read_earlier};
use crate::text::counted;

/// What is needed of an earlier run's JSON.
#[derive(Deserialize)]
struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    inputs: Vec<EarlierInput>,
    rows: Vec<EarlierRow>,
    measurements: Vec<Measurement>,
    #[serde(default)]
    failed: Vec<EarlierFailed>,
    #[serde(default)]
    stopped: Option<String>,
    #[serde(default)]
    resumed: Vec<Resumed>,
    #[serde(default)]
    load_of_others_before: Option<f64>,
}

#[derive(Deserialize)]
struct EarlierInput {
    folder: String,
    name: String,
    blake3: String,
}

#[derive(Deserialize)]
struct EarlierRow {
    compress: String,
    decompress: String,
    program: EarlierProgram,
}

#[derive(Deserialize)]
struct EarlierFailed {
    row: usize,
    input: usize,
}

#[derive(Deserialize)]
struct EarlierProgram {
    version: String,
    blake3: String,
}

impl Results {
    /// Takes over what an earlier run has, if there was one.
    pub(super) fn resume(
        &mut self,
        files: &Files,
        progress: &mut impl Progress,
    ) -> Result<(), Error> {
        let here = (self.experiment, &self.provenance, None);
        let Some((path, earlier)) = read_earlier(files, |earlier: &Earlier| &earlier.origin, here)?
        else {
            progress.note("there is no earlier run yet: everything is measured");
            return Ok(());
        };
        let mut earlier = earlier;
        let dropped = earlier.drop_unfinished();
        if dropped > 0 {
            progress.note(&format!(
                "{} of the segment that was not finished are made again, so that all programs are \
                 measured on it at one time",
                counted(dropped, "measurement")
            ));
        }
        let all = earlier.measurements.len();
        let count = earlier.hand_over(self);
        let what = "other segments, programs, levels or runs";
        keep_all(path, (all, count), what, files)?;
        note_taken_over(count, progress);
        Ok(())
    }
}

impl Earlier {
    /// Leaves out what a run that was stopped has of a segment that it had not finished: those who are
    /// measured on it later would not be interleaved with those who were before, and times that were
    /// not do not compare. Returns how many measurements that is.
    fn drop_unfinished(&mut self) -> usize {
        if self.stopped.is_none() {
            return 0;
        }
        let mut rows: HashMap<(usize, u32), HashSet<usize>> = HashMap::new();
        for of in &self.measurements {
            rows.entry((of.input, of.run)).or_default().insert(of.row);
        }
        for ((input, _), rows) in &mut rows {
            let failed = self.failed.iter().filter(|failed| failed.input == *input);
            rows.extend(failed.map(|failed| failed.row));
        }
        let slow = self.measurements.iter().filter(|of| of.is_slow());
        let slow: Vec<(usize, u32, usize)> = slow.map(|of| (of.input, of.run, of.row)).collect();
        for ((input, run), rows) in &mut rows {
            // What was slow once is not repeated.
            let earlier = slow.iter().filter(|of| of.0 == *input && of.1 < *run);
            rows.extend(earlier.map(|of| of.2));
        }
        let all = self.rows.len();
        let is_finished = |of: &Measurement| rows[&(of.input, of.run)].len() >= all;
        let before = self.measurements.len();
        // An older run may have finished with fewer rows.
        self.measurements
            .retain(|of| of.start != 0 || is_finished(of));
        before - self.measurements.len()
    }

    /// Puts what can be taken over into results that have no measurement yet.
    fn hand_over(self, results: &mut Results) -> usize {
        let mut taken = Vec::new();
        // The earlier run's own measurements get its number among the earlier runs.
        let number = self.resumed.len() + 1;
        let start = |measurement: &Measurement| match measurement.start {
            0 => number,
            known => known,
        };
        for (row, of_row) in results.rows.iter().enumerate() {
            let same_row = |earlier: &EarlierRow| {
                (&earlier.compress, &earlier.decompress) == (&of_row.compress, &of_row.decompress)
                    && earlier.program.version == of_row.program.version
                    && earlier.program.blake3 == of_row.program.blake3
            };
            let Some(earlier_row) = self.rows.iter().position(same_row) else {
                continue;
            };
            for (input, of_input) in results.inputs.iter().enumerate() {
                let Some(earlier_input) = self.find_input(of_input) else {
                    continue;
                };
                let wanted = |measurement: &&Measurement| {
                    (measurement.row, measurement.input) == (earlier_row, earlier_input)
                        && measurement.run <= results.settings.runs
                };
                let matching = self.measurements.iter().filter(wanted);
                taken.extend(matching.map(|measurement| Measurement {
                    row,
                    input,
                    start: start(measurement),
                    ..*measurement
                }));
            }
        }
        taken.sort_by_key(|measurement| measurement.run);
        let count = taken.len();
        results.measurements = taken;
        results.load_of_others_before = self
            .load_of_others_before
            .or(self.origin.load_of_others())
            .filter(|_| count > 0);
        results.resumed = self.origin.and_before(self.resumed, count);
        count
    }

    /// The same bytes, under the same name if they have several.
    fn find_input(&self, input: &Input) -> Option<usize> {
        let same_bytes = |earlier: &EarlierInput| earlier.blake3 == input.blake3;
        let same_name = |earlier: &EarlierInput| {
            (&earlier.folder, &earlier.name) == (&input.folder, &input.name)
        };
        let inputs = &self.inputs;
        inputs
            .iter()
            .position(|earlier| same_bytes(earlier) && same_name(earlier))
            .or_else(|| inputs.iter().position(same_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::fixture_of_runs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn earlier(results: &Results) -> Earlier {
        serde_json::from_value(serde_json::to_value(results).unwrap()).unwrap()
    }

    fn fresh(mut results: Results) -> Results {
        results.measurements.clear();
        results
    }

    #[test]
    fn what_was_measured_is_taken_over_with_the_same_figures() {
        let before = fixture_of_runs(
            1,
            &[("zstd", 1, &[(100, 1.0)]), ("walzip", 3, &[(50, 0.25)])],
        );
        let mut after = fresh(before.clone());
        after.rows.reverse();
        assert_eq!(earlier(&before).hand_over(&mut after), 2);
        assert_eq!(after.measurements[0].output_bytes, 50);
        assert_eq!(
            after.measurements[0].compress,
            before.measurements[1].compress
        );
        assert_eq!(after.resumed[0].measurements, 2);
    }

    #[test]
    fn a_segment_that_was_not_finished_is_measured_again() {
        let rows: &[_] = &[
            ("zstd", 1, &[(100, 1.0), (100, 1.0)][..]),
            ("walzip", 3, &[(50, 0.25), (50, 0.25)]),
        ];
        let mut before = fixture_of_runs(2, rows);
        // The last that would have been made.
        let last = |of: &Measurement| (of.row, of.input, of.run) == (1, 1, 2);
        before.measurements.retain(|of| !last(of));
        assert_eq!(earlier(&before).drop_unfinished(), 0);
        before.stopped = Some("interrupted".to_owned());
        let mut stopped = earlier(&before);
        assert_eq!(stopped.drop_unfinished(), 1);
        assert_eq!(stopped.hand_over(&mut fresh(before.clone())), 6);
        // What was slow in the first run is not missing in the second.
        let mut slow = before.clone();
        for of in &mut slow.measurements {
            if (of.row, of.run) == (1, 1) {
                of.compress.wall = Duration::from_secs(30);
            }
        }
        assert_eq!(earlier(&slow).drop_unfinished(), 0);
        // What an older run has stays: it is not this run's to finish.
        before.measurements.iter_mut().for_each(|of| of.start = 1);
        assert_eq!(earlier(&before).drop_unfinished(), 0);
    }

    #[test]
    fn which_start_measured_it_and_its_load_are_kept() {
        let mut before = fixture_of_runs(1, &[("zstd", 1, &[(100, 1.0)])]);
        before.provenance.load_average_before = Some(1.9);
        let mut json = serde_json::to_value(&before).unwrap();
        // As it was written before starts were told apart.
        json["measurements"][0]
            .as_object_mut()
            .unwrap()
            .remove("start");
        json.as_object_mut()
            .unwrap()
            .remove("load_of_others_before");
        let old: Earlier = serde_json::from_value(json).unwrap();
        let mut after = fresh(before.clone());
        assert_eq!(old.hand_over(&mut after), 1);
        assert_eq!(after.measurements[0].start, 1);
        assert_eq!(after.load_of_others_before, Some(1.9));
        let mut third = fresh(after.clone());
        third.provenance.load_average_before = Some(0.0);
        earlier(&after).hand_over(&mut third);
        assert_eq!((third.measurements[0].start, third.resumed.len()), (1, 2));
        assert_eq!(third.load_of_others_before, Some(1.9));
    }

    #[test]
    fn another_program_other_bytes_or_a_run_too_many_are_measured_anew() {
        let before = fixture_of_runs(
            1,
            &[
                ("zstd", 1, &[(100, 1.0), (100, 1.0)]),
                ("walzip", 3, &[(50, 0.25), (1, 1.0)]),
            ],
        );
        let taken = |change: &dyn Fn(&mut Results)| {
            let mut after = fresh(before.clone());
            change(&mut after);
            earlier(&before).hand_over(&mut after)
        };
        assert_eq!(taken(&|_| ()), 4);
        assert_eq!(
            taken(&|after| after.rows[1].program.blake3 = "new".to_owned()),
            2
        );
        assert_eq!(
            taken(&|after| after.rows[1].compress.push_str(" --more")),
            2
        );
        assert_eq!(
            taken(&|after| after
                .inputs
                .iter_mut()
                .for_each(|input| input.blake3.push('0'))),
            0
        );
        assert_eq!(taken(&|after| after.settings.runs = 0), 0);
    }

    #[test]
    fn figures_of_another_machine_are_refused() {
        let before = fixture_of_runs(1, &[("zstd", 1, &[(100, 1.0)])]);
        let mut after = fresh(before.clone()).provenance;
        after.cpus += 1;
        let origin = earlier(&before).origin;
        let error = origin.check(Path::new("r.json"), ("wal", &after, None));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("is of another machine"), "{error}");
    }
}
