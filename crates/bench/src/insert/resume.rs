//! Going on where an earlier run stopped.
//!
//! A server's measurements are taken over when it finished, in the same run, and an earlier
//! server of the same program, by its hash, did the same under the same settings on the same
//! machine.

use serde::Deserialize;

use super::options::Options;
use super::results::{Measurement, Results, Work};
use crate::error::Error;
use crate::progress::Progress;
use crate::resume::{Origin, go_on, keep_all, read_earlier};
use crate::server::Settings;

/// What is needed of an earlier run's JSON.
#[derive(Deserialize)]
struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    settings: Settings,
    work: Work,
    measurements: Vec<Measurement>,
}

impl Results {
    /// Reads what an earlier run measured, if there was one that did the same.
    pub(super) fn resume(
        &mut self,
        options: &Options,
        progress: &mut impl Progress,
    ) -> Result<Vec<Measurement>, Error> {
        let here = (self.experiment, &self.provenance, Some(&self.server));
        let Some((path, earlier)) =
            read_earlier(&options.files, |earlier: &Earlier| &earlier.origin, here)?
        else {
            return Ok(Vec::new());
        };
        let Earlier {
            origin,
            settings,
            work,
            measurements,
        } = earlier;
        let same_work = Work {
            runs: self.work.runs,
            ..work
        };
        let same_options = same_work == self.work && settings == self.settings;
        go_on(path, &origin, same_options, progress)?;
        let is_asked_for = |run: &&Measurement| {
            options.memories.contains(&run.memory)
                && self.methods.contains(&run.method)
                && run.run <= self.work.runs
        };
        let counts = (
            measurements.len(),
            measurements.iter().filter(is_asked_for).count(),
        );
        let what = "other methods, databases or runs";
        keep_all(path, counts, what, &options.files)?;
        self.resumed = Some(origin.resumed(0));
        Ok(measurements)
    }
}
