//! What is backed up: generated data, downloaded data, or a server of the user's own.

use super::manifest::Downloaded;
use super::measurement::DataSet;
use crate::error::Error;
use crate::server::Server;
use crate::workload::Workload;

/// What a generated data set follows from.
const SEED: u64 = 1;

/// A data set.
#[derive(Clone, Debug)]
pub enum Source {
    /// Made by this program.
    Generated(Workload, u32),
    /// Files that the user has downloaded.
    Downloaded(Downloaded),
    /// A running server, by a connection string; it is only read.
    Running(String),
}

impl Source {
    /// As the results have it, before anything is known of it.
    pub(super) fn data_set(&self, number: usize) -> DataSet {
        DataSet {
            name: self.name(number),
            origin: self.origin(),
            bytes: None,
        }
    }

    /// Whether it is the same another time.
    pub(super) fn is_lasting(&self) -> bool {
        !matches!(self, Source::Running(_))
    }

    /// Its name in tables; connection strings are nobody else's business.
    pub(super) fn name(&self, number: usize) -> String {
        match self {
            Source::Generated(workload, _) => workload.name().to_owned(),
            Source::Downloaded(downloaded) => downloaded.name.clone(),
            Source::Running(_) => format!("server {}", number + 1),
        }
    }

    /// Where the data come from.
    pub(super) fn origin(&self) -> String {
        match self {
            Source::Generated(_, scale) => format!("generated, scale {scale}, seed {SEED}"),
            Source::Downloaded(downloaded) => {
                format!("loaded from files, BLAKE3 {}", downloaded.blake3())
            }
            Source::Running(_) => "a running server, only read".to_owned(),
        }
    }

    /// Fills a throw-away server's database.
    pub(super) fn load(&self, server: &Server) -> Result<(), Error> {
        match self {
            Source::Generated(workload, scale) => {
                workload.load(server, *scale, SEED)?;
            }
            Source::Downloaded(downloaded) => downloaded.load(server)?,
            Source::Running(_) => {}
        }
        server.sql("CHECKPOINT")?;
        Ok(())
    }
}
