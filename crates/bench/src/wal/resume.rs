//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program (the same file, by its hash) made the same
//! calls on the same bytes, in the same run, on the same machine. Whatever failed is tried again.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Measurement, Results};
use crate::{Error, Input};

/// An earlier run whose measurements were taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// When it began.
    pub date: String,
    /// How many measurements are its.
    pub measurements: usize,
}

/// What is needed of an earlier run's JSON.
#[derive(Deserialize)]
pub(super) struct Earlier {
    experiment: String,
    provenance: EarlierProvenance,
    inputs: Vec<EarlierInput>,
    rows: Vec<EarlierRow>,
    measurements: Vec<Measurement>,
    #[serde(default)]
    resumed: Vec<Resumed>,
}

#[derive(Deserialize)]
struct EarlierProvenance {
    date: String,
    cpu: String,
    cpus: usize,
    kernel: String,
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
struct EarlierProgram {
    version: String,
    blake3: String,
}

impl Earlier {
    /// Reads the JSON of an earlier run; none when there is no such file yet.
    pub(super) fn read(path: &Path) -> Result<Option<Earlier>, Error> {
        let json = match fs::read(path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::file(path, source)),
        };
        let earlier: Earlier = serde_json::from_slice(&json).map_err(|error| {
            Error::Usage(format!(
                "{} is not the JSON of an earlier run: {error}",
                path.display()
            ))
        })?;
        if earlier.experiment != "wal" {
            return Err(Error::Usage(format!(
                "{} is of the experiment {}",
                path.display(),
                earlier.experiment
            )));
        }
        Ok(Some(earlier))
    }

    /// Puts what can be taken over into results that have no measurement yet.
    pub(super) fn hand_over(self, results: &mut Results) -> Result<usize, Error> {
        let here = &results.provenance;
        let there = &self.provenance;
        if (&here.cpu, here.cpus, &here.kernel) != (&there.cpu, there.cpus, &there.kernel) {
            return Err(Error::Usage(format!(
                "the earlier run was on another machine ({}, {} processors, {}): figures of two \
                 machines do not belong in one table",
                there.cpu, there.cpus, there.kernel
            )));
        }
        let mut taken = Vec::new();
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
                    ..*measurement
                }));
            }
        }
        taken.sort_by_key(|measurement| measurement.run);
        let count = taken.len();
        results.measurements = taken;
        results.resumed = self.resumed;
        results.resumed.push(Resumed {
            date: self.provenance.date,
            measurements: count,
        });
        Ok(count)
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
    use super::super::fixture::fixture;
    use super::*;

    fn earlier(results: &Results) -> Earlier {
        let mut json = Vec::new();
        results.write_json(&mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    fn fresh(mut results: Results) -> Results {
        results.measurements.clear();
        results
    }

    #[test]
    fn what_was_measured_is_taken_over_with_the_same_figures() {
        let before = fixture(&[("zstd", 1, &[(100, 1.0)]), ("walzip", 3, &[(50, 0.25)])]);
        let mut after = fresh(before.clone());
        after.rows.reverse();
        assert_eq!(earlier(&before).hand_over(&mut after).unwrap(), 2);
        assert_eq!(after.measurements[0].output_bytes, 50);
        assert_eq!(
            after.measurements[0].compress,
            before.measurements[1].compress
        );
        assert_eq!(after.resumed[0].measurements, 2);
    }

    #[test]
    fn another_program_other_bytes_or_a_run_too_many_are_measured_anew() {
        let before = fixture(&[
            ("zstd", 1, &[(100, 1.0), (100, 1.0)]),
            ("walzip", 3, &[(50, 0.25), (1, 1.0)]),
        ]);
        let taken = |change: &dyn Fn(&mut Results)| {
            let mut after = fresh(before.clone());
            change(&mut after);
            earlier(&before).hand_over(&mut after).unwrap()
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
        let before = fixture(&[("zstd", 1, &[(100, 1.0)])]);
        let mut after = fresh(before.clone());
        after.provenance.cpus += 1;
        let error = earlier(&before).hand_over(&mut after).unwrap_err();
        assert!(error.to_string().contains("on another machine"), "{error}");
    }
}
