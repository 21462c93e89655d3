//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program, by its hash, archived the same segments, by
//! their hashes, with the same call and pause, on the same machine.

use serde::Deserialize;

use super::results::{Measurement, Results, Row};
use crate::error::Error;
use crate::output::Files;
use crate::progress::Progress;
use crate::resume::{EarlierRow, Origin, Resumed, keep_all, note_taken_over, read_earlier};

/// What is needed of an earlier run's JSON.
#[derive(Clone, Debug, Deserialize)]
struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    settings: EarlierSettings,
    wal: EarlierWal,
    rows: Vec<EarlierRow>,
    measurements: Vec<Measurement>,
    #[serde(default)]
    resumed: Vec<Resumed>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierSettings {
    replay_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierWal {
    blake3: String,
}

impl Results {
    /// Puts what can be taken over into results that have no measurement yet.
    pub(super) fn resume(
        &mut self,
        files: &Files,
        progress: &mut impl Progress,
    ) -> Result<(), Error> {
        let here = (self.experiment, &self.provenance, None);
        let Some((path, earlier)) = read_earlier(files, |earlier: &Earlier| &earlier.origin, here)?
        else {
            return Ok(());
        };
        let is_same = earlier.wal.blake3 == self.wal.blake3
            && earlier.settings.replay_ms == self.settings.replay_ms;
        if is_same {
            let measured = earlier.measurements.iter();
            let known = measured.filter_map(|measured| self.known(&earlier, measured));
            self.measurements = known.collect();
        }
        let count = self.measurements.len();
        let what = "other segments, archivers or runs, or with another --replay-ms";
        keep_all(path, (earlier.measurements.len(), count), what, files)?;
        note_taken_over(count, progress);
        self.resumed = earlier.origin.and_before(earlier.resumed, count);
        Ok(())
    }

    /// A measurement of the earlier run, with the index that its row has here.
    fn known(&self, earlier: &Earlier, measured: &Measurement) -> Option<Measurement> {
        let of_row = earlier.rows.get(measured.row)?;
        let row = |row: &Row| of_row.is(&row.command, &row.program);
        let known = Measurement {
            row: self.rows.iter().position(row)?,
            ..*measured
        };
        (measured.run <= self.settings.runs).then_some(known)
    }
}
