//! Going on where an earlier run stopped.
//!
//! A backup is taken over when the same program, by its hash, made the same call on the same data
//! under the same server, by its hash and settings, on the same machine. Generated data are the
//! same when their scale and seed are, loaded ones when their files are; a running server's are
//! never known to be.

use std::path::Path;

use serde::Deserialize;

use super::results::{DataSet, Failed, Measurement, Results};
use crate::earlier::{EarlierRow, Origin, Resumed, go_on, read_earlier};
use crate::{Error, Progress};

/// What is needed of an earlier run's JSON.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    settings: EarlierSettings,
    rows: Vec<EarlierRow>,
    data_sets: Vec<DataSet>,
    measurements: Vec<Measurement>,
    failed: Vec<Failed>,
    #[serde(default)]
    resumed: Vec<Resumed>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierSettings {
    servers: String,
}

impl Earlier {
    /// Reads an earlier run; there need be none yet.
    pub(super) fn read(
        json: Option<&Path>,
        results: &mut Results,
        progress: &mut impl Progress,
    ) -> Result<Option<Earlier>, Error> {
        let Some((path, earlier)) = read_earlier::<Earlier>(json)? else {
            return Ok(None);
        };
        earlier.origin.check(
            path,
            results.experiment,
            &results.provenance,
            Some(&results.server),
        )?;
        let same_options = earlier.settings.servers == results.settings.servers;
        go_on(path, &earlier.origin, same_options, progress)?;
        results.resumed = earlier.resumed.clone();
        results.resumed.push(Resumed {
            date: earlier.origin.date().to_owned(),
            measurements: 0,
        });
        Ok(Some(earlier))
    }

    /// Puts into the results what there is of their last data set.
    pub(super) fn hand_over(&self, results: &mut Results) {
        let Some(wanted) = results.data_sets.len().checked_sub(1) else {
            return;
        };
        let of_results = &results.data_sets[wanted];
        let same = |data_set: &DataSet| {
            (&data_set.name, &data_set.origin) == (&of_results.name, &of_results.origin)
        };
        let Some(place) = self.data_sets.iter().position(same) else {
            return;
        };
        let bytes = self.data_sets[place].bytes;
        for (row, of_row) in results.rows.iter().enumerate() {
            let same = |earlier: &EarlierRow| earlier.is(&of_row.command, &of_row.program);
            let Some(earlier_row) = self.rows.iter().position(same) else {
                continue;
            };
            let measured = self.measurements.iter().filter(|measured| {
                (measured.row, measured.data_set) == (earlier_row, place)
                    && measured.run <= results.settings.loops
            });
            let before = results.measurements.len();
            results
                .measurements
                .extend(measured.map(|measured| Measurement {
                    row,
                    data_set: wanted,
                    ..*measured
                }));
            if let Some(resumed) = results.resumed.last_mut() {
                resumed.measurements += results.measurements.len() - before;
            }
            // What the server cannot do, it will not be able to do this time either.
            let unsupported = self.failed.iter().filter(|failed| {
                (failed.row, failed.data_set) == (earlier_row, place) && failed.unsupported
            });
            results.failed.extend(unsupported.map(|failed| Failed {
                row,
                data_set: wanted,
                ..failed.clone()
            }));
        }
        results.data_sets[wanted].bytes = bytes;
    }
}
