//! Where earlier results come from, for experiments that go on where one stopped.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, Program, Provenance};

/// What must be the same for measurements to be taken over.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Origin {
    experiment: String,
    provenance: Machine,
    server: Server,
}

#[derive(Clone, Debug, Deserialize)]
struct Machine {
    date: String,
    cpu: String,
    cpus: usize,
    kernel: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Server {
    blake3: String,
}

impl Origin {
    /// When the earlier experiment began.
    pub(crate) fn date(&self) -> &str {
        &self.provenance.date
    }

    /// Refuses results of another experiment, machine or server.
    pub(crate) fn check(
        &self,
        path: &Path,
        experiment: &str,
        provenance: &Provenance,
        server: &Program,
    ) -> Result<(), Error> {
        let refuse = |what: &str| {
            Err(Error::Usage(format!(
                "{} is of another {what}: it cannot be gone on with",
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
        } else if self.server.blake3 != server.blake3 {
            refuse("server")
        } else {
            Ok(())
        }
    }
}

/// Reads the JSON of an earlier run; none when there is no such file yet.
pub(crate) fn read_earlier<T: DeserializeOwned>(
    path: Option<&Path>,
) -> Result<Option<(&Path, T)>, Error> {
    let path = path.ok_or_else(|| {
        Error::Usage("what is there to go on from is read from the JSON: name it".to_owned())
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
    Ok(Some((path, earlier)))
}
