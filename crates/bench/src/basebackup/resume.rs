//! Going on where an earlier run stopped.
//!
//! A backup is taken over when the same program, by its hash, made the same call on the same data
//! under the same server, by its hash and settings, on the same machine. Generated data are the
//! same when their scale and seed are, loaded ones when their files are; a running server's are
//! never known to be.

use serde::Deserialize;

use super::measurement::{DataSet, Failed, Measurement, Restored};
use super::results::Results;
use super::{Options, Source};
use crate::error::Error;
use crate::progress::Progress;
use crate::resume::{EarlierRow, Origin, Resumed, go_on, keep_all, read_earlier};

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
    restored: Vec<Restored>,
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
        options: &Options,
        results: &mut Results,
        progress: &mut impl Progress,
    ) -> Result<Option<Earlier>, Error> {
        let here = (
            results.experiment,
            &results.provenance,
            Some(&results.server),
        );
        let earlier = read_earlier(&options.files, |earlier: &Earlier| &earlier.origin, here)?;
        let Some((path, earlier)) = earlier else {
            return Ok(None);
        };
        let same_options = earlier.settings.servers == results.settings.servers;
        go_on(path, &earlier.origin, same_options, progress)?;
        let what = "other data sets, methods or loops, or of a running server";
        let kept = earlier.known(results, &options.sources());
        keep_all(
            path,
            (earlier.measurements.len(), kept),
            what,
            &options.files,
        )?;
        results.resumed = earlier.origin.and_before(earlier.resumed.clone(), 0);
        Ok(Some(earlier))
    }

    /// How many measurements will be taken over.
    fn known(&self, results: &Results, sources: &[Source]) -> usize {
        let numbered = sources.iter().enumerate();
        let wanted: Vec<DataSet> = numbered
            .filter(|(_, source)| source.is_lasting())
            .map(|(number, source)| source.data_set(number))
            .collect();
        let is_known = |measured: &&Measurement| {
            let data_set = self.data_sets.get(measured.data_set);
            let row = self.rows.get(measured.row);
            data_set.is_some_and(|known| wanted.iter().any(|wanted| is_same(known, wanted)))
                && row.is_some_and(|known| {
                    let mut rows = results.rows.iter();
                    rows.any(|row| known.is(&row.command, &row.program))
                })
                && measured.run <= results.settings.loops
        };
        self.measurements.iter().filter(is_known).count()
    }

    /// Whether there is anything of a data set.
    pub(super) fn has(&self, wanted: &DataSet) -> bool {
        self.data_sets.iter().any(|known| is_same(known, wanted))
    }

    /// Puts into the results what there is of their last data set.
    pub(super) fn hand_over(&self, results: &mut Results) {
        let Some(wanted) = results.data_sets.len().checked_sub(1) else {
            return;
        };
        let of_results = &results.data_sets[wanted];
        let same = |data_set: &DataSet| is_same(data_set, of_results);
        let Some(index) = self.data_sets.iter().position(same) else {
            return;
        };
        let bytes = self.data_sets[index].bytes;
        for (row, of_row) in results.rows.iter().enumerate() {
            let same = |earlier: &EarlierRow| earlier.is(&of_row.command, &of_row.program);
            let Some(earlier_row) = self.rows.iter().position(same) else {
                continue;
            };
            let measured = self.measurements.iter().filter(|measured| {
                (measured.row, measured.data_set) == (earlier_row, index)
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
            let restored = self.restored.iter();
            let of_row = restored.filter(|of| (of.row, of.data_set) == (earlier_row, index));
            results.restored.extend(of_row.map(|of| Restored {
                row,
                data_set: wanted,
                ..*of
            }));
            // What the server cannot do, it will not be able to do this time either.
            let unsupported = self.failed.iter().filter(|failed| {
                (failed.row, failed.data_set) == (earlier_row, index) && failed.unsupported
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

fn is_same(one: &DataSet, other: &DataSet) -> bool {
    (&one.name, &one.origin) == (&other.name, &other.origin)
}
