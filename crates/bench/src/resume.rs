//! What an earlier run measured, for experiments that go on where one stopped.
//!
//! Only measurements of the same programs, by their hashes, on the same machine are taken over.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::output::Files;
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::provenance::load_of_others;

/// An earlier run whose measurements were taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// When it began.
    pub date: String,
    /// How many measurements are its.
    pub measurements: usize,
}

/// What must be the same for measurements to be taken over.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Origin {
    experiment: String,
    provenance: Machine,
    server: Option<SameProgram>,
}

#[derive(Clone, Debug, Deserialize)]
struct Machine {
    date: String,
    cpu: String,
    cpus: usize,
    kernel: String,
    #[serde(default)]
    load_average_before: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct SameProgram {
    blake3: String,
}

/// A row of the earlier run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct EarlierRow {
    command: String,
    program: SameProgram,
}

impl EarlierRow {
    /// Whether it is this call of this program.
    pub(crate) fn is(&self, command: &str, program: &Program) -> bool {
        self.command == command && self.program.blake3 == program.blake3
    }
}

impl Origin {
    /// When the earlier experiment began.
    fn date(&self) -> &str {
        &self.provenance.date
    }

    /// The runs that results go on from: those that the earlier one went on from, and itself.
    pub(crate) fn and_before(&self, before: Vec<Resumed>, measurements: usize) -> Vec<Resumed> {
        let itself = self.resumed(measurements);
        before.into_iter().chain([itself]).collect()
    }

    /// The earlier run, of which so many measurements were taken over.
    pub(crate) fn resumed(&self, measurements: usize) -> Resumed {
        Resumed {
            date: self.date().to_owned(),
            measurements,
        }
    }

    /// The load of others when it began, where that left less than one processor idle.
    pub(crate) fn load_of_others(&self) -> Option<f64> {
        load_of_others(self.provenance.load_average_before, self.provenance.cpus)
    }

    /// Refuses results of another experiment, machine or server: figures of two machines do not
    /// belong in one table.
    pub(crate) fn check(
        &self,
        path: &Path,
        (experiment, provenance, server): Here<'_>,
    ) -> Result<(), Error> {
        let refuse = |what: &str| {
            Err(Error::Usage(format!(
                "{} is of another {what}: it cannot be continued",
                path.display()
            )))
        };
        let Machine {
            cpu, cpus, kernel, ..
        } = &self.provenance;
        if self.experiment != experiment {
            refuse("experiment")
        } else if (cpu, cpus, kernel) != (&provenance.cpu, &provenance.cpus, &provenance.kernel) {
            refuse("machine")
        } else if self.server.as_ref().map(|earlier| &earlier.blake3)
            != server.map(|server| &server.blake3)
        {
            refuse("server")
        } else {
            Ok(())
        }
    }
}

/// Says that an earlier run is continued, which must have had the same options.
pub(crate) fn go_on(
    path: &Path,
    origin: &Origin,
    same_options: bool,
    progress: &mut impl Progress,
) -> Result<(), Error> {
    let (path, date) = (path.display(), origin.date());
    if !same_options {
        return Err(Error::Usage(format!(
            "{path} was measured with other options: it cannot be continued"
        )));
    }
    progress.note(&format!(
        "{path}: what was measured on {date} is taken over"
    ));
    Ok(())
}

/// Says how much is taken over.
pub(crate) fn note_taken_over(measurements: usize, progress: &mut impl Progress) {
    progress.note(&format!(
        "{measurements} measurements are taken over from the earlier run"
    ));
}

/// Refuses to go on where the results that are gone on from would be replaced by others that lack
/// some of their measurements.
pub(crate) fn keep_all(
    path: &Path,
    (all, kept): (usize, usize),
    what: &'static str,
    files: &Files,
) -> Result<(), Error> {
    if kept >= all || files.force {
        return Ok(());
    }
    Err(Error::WouldLose {
        path: path.to_owned(),
        measurements: all - kept,
        what,
    })
}

/// What this run has that an earlier one must have had: its experiment, its machine and, where
/// there is one, its server.
pub(crate) type Here<'a> = (&'static str, &'a Provenance, Option<&'a Program>);

/// Reads the JSON of an earlier run, which must be of the same origin; none when there is no such
/// file yet.
pub(crate) fn read_earlier<'a, T: DeserializeOwned>(
    files: &'a Files,
    origin: fn(&T) -> &Origin,
    here: Here<'_>,
) -> Result<Option<(&'a Path, T)>, Error> {
    let path = files.json.as_deref().ok_or_else(|| {
        Error::Usage(
            "there is nothing to go on from: name the JSON file of the earlier run".to_owned(),
        )
    })?;
    let json = match fs::read(path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::file(path, source)),
    };
    let earlier = serde_json::from_slice(&json).map_err(|error| {
        Error::Usage(format!(
            "{} is not the JSON of an earlier run: {error}",
            path.display()
        ))
    })?;
    origin(&earlier).check(path, here)?;
    Ok(Some((path, earlier)))
}
