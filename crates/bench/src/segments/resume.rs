//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program, by its hash, archived the same files, by
//! their hashes, with the same call, as cold or warm as now, on the same machine. WAL that a
//! throw-away server writes is never the same twice, and is measured again.

use serde::Deserialize;

use super::results::{Measurement, Results, Row};
use super::sets::Set;
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
    sets: Vec<EarlierSet>,
    rows: Vec<EarlierRow>,
    measurements: Vec<Measurement>,
    #[serde(default)]
    resumed: Vec<Resumed>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierSettings {
    caches: serde_json::Value,
    #[serde(default)]
    target_file_system: Option<String>,
    #[serde(default)]
    target_host: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierSet {
    segment_bytes: u64,
    origin: String,
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
        let as_now = serde_json::to_value(&self.settings.caches).ok();
        let same_target = earlier.settings.target_file_system == self.settings.target_file_system
            && earlier.settings.target_host == self.settings.target_host;
        if as_now.as_ref() == Some(&earlier.settings.caches) && same_target {
            let taken = earlier.measurements.iter();
            self.measurements = taken
                .filter_map(|measured| self.known(&earlier, measured))
                .collect();
        }
        let count = self.measurements.len();
        let lasting = earlier
            .measurements
            .iter()
            .filter(|measured| !self.is_written_anew(&earlier, measured));
        let what = "other segments, ways or runs, or with other caches";
        keep_all(path, (lasting.count(), count), what, files)?;
        note_taken_over(count, progress);
        self.resumed = earlier.origin.and_before(earlier.resumed, count);
        Ok(())
    }

    /// Whether a measurement is of WAL that a throw-away server wrote, and writes again now.
    fn is_written_anew(&self, earlier: &Earlier, measured: &Measurement) -> bool {
        let Some(of_set) = earlier.sets.get(measured.set) else {
            return false;
        };
        let again = |set: &Set| {
            set.is_by_server()
                && (set.segment_bytes, &set.origin) == (of_set.segment_bytes, &of_set.origin)
        };
        self.sets.iter().any(again)
    }

    /// A measurement of the earlier run, with the indexes that its row and its set have here.
    fn known(&self, earlier: &Earlier, measured: &Measurement) -> Option<Measurement> {
        let (of_row, of_set) = (
            earlier.rows.get(measured.row)?,
            earlier.sets.get(measured.set)?,
        );
        let row = |row: &Row| of_row.is(&row.command, &row.program);
        let set =
            |set: &Set| (set.segment_bytes, &set.blake3) == (of_set.segment_bytes, &of_set.blake3);
        let known = Measurement {
            row: self.rows.iter().position(row)?,
            set: self.sets.iter().position(set)?,
            ..*measured
        };
        (measured.run <= self.settings.runs).then_some(known)
    }
}
