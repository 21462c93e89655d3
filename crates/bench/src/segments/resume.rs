//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program, by its hash, archived the same files, by
//! their hashes, with the same call, as cold or warm as now, on the same machine. WAL that a
//! throw-away server writes is never the same twice, and is measured again.

use std::path::Path;

use serde::Deserialize;

use super::results::{Measurement, Results, Row};
use super::sets::Set;
use crate::earlier::{EarlierRow, Origin, Resumed, read_earlier};
use crate::{Error, Progress};

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
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierSet {
    segment_bytes: u64,
    blake3: String,
}

impl Results {
    /// Puts what can be taken over into results that have no measurement yet.
    pub(super) fn resume(
        &mut self,
        json: Option<&Path>,
        progress: &mut impl Progress,
    ) -> Result<(), Error> {
        let Some((path, earlier)) = read_earlier::<Earlier>(json)? else {
            return Ok(());
        };
        let origin = &earlier.origin;
        origin.check(path, self.experiment, &self.provenance, None)?;
        let as_now = serde_json::to_value(&self.settings.caches).ok();
        if as_now.as_ref() == Some(&earlier.settings.caches) {
            let taken = earlier.measurements.iter();
            self.measurements = taken
                .filter_map(|measured| self.known(&earlier, measured))
                .collect();
        }
        let count = self.measurements.len();
        progress.note(&format!(
            "{count} measurements are taken over from the earlier run"
        ));
        let date = origin.date().to_owned();
        self.resumed = earlier.resumed;
        self.resumed.push(Resumed {
            date,
            measurements: count,
        });
        Ok(())
    }

    /// A measurement of the earlier run, with the places that its row and its set have here.
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
