//! Going on where an earlier run stopped.
//!
//! A server's measurements are taken over when it finished, in the same run, and an earlier
//! server of the same program, by its hash, did the same under the same settings on the same
//! machine.

use serde::Deserialize;

use super::{Archived, Measurement, Results, Stage, Work};
use crate::error::Error;
use crate::output::Files;
use crate::progress::Progress;
use crate::resume::{Origin, go_on, keep_all, read_earlier};
use crate::server::Settings;

/// What is needed of an earlier run's JSON.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    settings: Settings,
    work: Work,
    measurements: Vec<Measurement>,
    archived: Vec<Archived>,
    archive: Vec<serde_json::Value>,
    #[serde(default)]
    archive_of_earlier_runs: Vec<serde_json::Value>,
}

impl Results {
    /// Reads an earlier run; there need be none yet.
    pub(super) fn resume(
        &mut self,
        files: &Files,
        progress: &mut impl Progress,
    ) -> Result<(), Error> {
        let here = (self.experiment, &self.provenance, Some(&self.server));
        let Some((path, mut earlier)) =
            read_earlier(files, |earlier: &Earlier| &earlier.origin, here)?
        else {
            return Ok(());
        };
        let same_work = Work {
            runs: self.work.runs,
            ..earlier.work.clone()
        };
        let same_options = same_work == self.work && earlier.settings == self.settings;
        go_on(path, &earlier.origin, same_options, progress)?;
        let is_asked_for = |measured: &&Measurement| {
            self.methods.contains(&measured.method) && measured.run <= self.work.runs
        };
        let measured = &earlier.measurements;
        let counts = (measured.len(), measured.iter().filter(is_asked_for).count());
        keep_all(path, counts, "other methods or runs", files)?;
        self.archive_of_earlier_runs = std::mem::take(&mut earlier.archive_of_earlier_runs);
        self.archive_of_earlier_runs.append(&mut earlier.archive);
        self.earlier = Some(earlier);
        Ok(())
    }

    /// Whether the earlier run has everything of a server.
    pub(super) fn has(&self, method: &str, run: u32) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| {
            let measured = |stage| {
                let of_server = |measurement: &&Measurement| {
                    (
                        measurement.method.as_str(),
                        measurement.run,
                        measurement.stage,
                    ) == (method, run, stage)
                };
                earlier
                    .measurements
                    .iter()
                    .any(|measurement| of_server(&measurement))
            };
            let archived = |archived: &Archived| archived.method == method;
            Stage::ALL.into_iter().all(measured)
                && (run > 1 || earlier.archived.iter().any(archived))
        })
    }

    /// Takes over what the earlier run has of a server.
    pub(super) fn take_over(&mut self, method: &str, run: u32) {
        let Some(earlier) = &self.earlier else { return };
        let measurements = earlier.measurements.iter();
        let of_server =
            |measurement: &&Measurement| measurement.method == method && measurement.run == run;
        let taken: Vec<Measurement> = measurements.filter(of_server).cloned().collect();
        let origin = &earlier.origin;
        let resumed = self.resumed.get_or_insert_with(|| origin.resumed(0));
        resumed.measurements += taken.len();
        self.measurements.extend(taken);
        if run == 1 {
            let of_method = earlier
                .archived
                .iter()
                .filter(|archived| archived.method == method);
            self.archived.extend(of_method.cloned());
        }
    }
}
