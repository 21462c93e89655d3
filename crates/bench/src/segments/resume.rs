//! Going on where an earlier run stopped.
//!
//! A measurement is taken over when the same program, by its hash, archived the same files, by
//! their hashes, with the same call, as cold or warm as now, on the same machine. WAL that a
//! throw-away server writes is never the same twice, and is measured again.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::results::{Measurement, Results};
use super::sets::Set;
use crate::Error;
use crate::wal::Resumed;

/// What is needed of an earlier run's JSON.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Earlier {
    experiment: String,
    provenance: Machine,
    settings: EarlierSettings,
    sets: Vec<EarlierSet>,
    rows: Vec<EarlierRow>,
    measurements: Vec<Measurement>,
    #[serde(default)]
    resumed: Vec<Resumed>,
}

#[derive(Clone, Debug, Deserialize)]
struct Machine {
    date: String,
    cpu: String,
    cpus: usize,
    kernel: String,
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

#[derive(Clone, Debug, Deserialize)]
struct EarlierRow {
    command: String,
    program: EarlierProgram,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierProgram {
    blake3: String,
}

impl Earlier {
    /// Reads the JSON of an earlier run; none when there is no such file yet.
    pub(super) fn read(path: Option<&Path>) -> Result<Option<Earlier>, Error> {
        let path = path.ok_or_else(|| {
            Error::Usage(
                "there is nothing to go on from: name the JSON file of the earlier run".to_owned(),
            )
        })?;
        let json = match fs::read(path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::file(path, source)),
        };
        let refuse = |reason: String| {
            Error::Usage(format!(
                "{} is not the JSON of an earlier run: {reason}",
                path.display()
            ))
        };
        let earlier: Earlier =
            serde_json::from_slice(&json).map_err(|error| refuse(error.to_string()))?;
        match earlier.experiment.as_str() {
            "segments" => Ok(Some(earlier)),
            other => Err(refuse(format!("it is of the experiment {other}"))),
        }
    }

    /// Puts what can be taken over into results that have no measurement yet.
    pub(super) fn hand_over(self, results: &mut Results) -> Result<usize, Error> {
        let (here, there) = (&results.provenance, &self.provenance);
        if (&here.cpu, here.cpus, &here.kernel) != (&there.cpu, there.cpus, &there.kernel) {
            return Err(Error::Usage(
                "the earlier run was on another machine: figures of two machines do not belong in \
                 one table"
                    .to_owned(),
            ));
        }
        let as_now = serde_json::to_value(&results.settings.caches).ok();
        let mut taken = Vec::new();
        if as_now.as_ref() == Some(&self.settings.caches) {
            for measured in &self.measurements {
                let row = self.rows.get(measured.row).and_then(|earlier| {
                    results.rows.iter().position(|row| {
                        (&row.command, &row.program.blake3)
                            == (&earlier.command, &earlier.program.blake3)
                    })
                });
                let set = self.sets.get(measured.set).and_then(|earlier| {
                    let same = |set: &Set| {
                        (set.segment_bytes, &set.blake3) == (earlier.segment_bytes, &earlier.blake3)
                    };
                    results.sets.iter().position(same)
                });
                if let (Some(row), Some(set)) = (row, set)
                    && measured.run <= results.settings.runs
                {
                    taken.push(Measurement {
                        row,
                        set,
                        ..*measured
                    });
                }
            }
        }
        let count = taken.len();
        results.measurements = taken;
        results.resumed = self.resumed;
        results.resumed.push(Resumed {
            date: self.provenance.date,
            measurements: count,
        });
        Ok(count)
    }
}
