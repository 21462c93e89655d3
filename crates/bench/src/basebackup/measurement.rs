//! What was measured on what: the rows, the data sets, and each backup.

use serde::{Deserialize, Serialize};

use super::methods::Taker;
use crate::provenance::Program;
use crate::usage::Usage;

/// Something that takes backups.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is called in tables.
    pub label: String,
    /// What it is.
    pub taker: Taker,
    /// The program.
    pub program: Program,
    /// The command, but for the server's address.
    pub command: String,
    /// The published average rank.
    pub published_rank: Option<f64>,
}

/// Something to back up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataSet {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: String,
    /// What its databases take on the server.
    pub bytes: Option<u64>,
}

/// A backup that was taken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its data set in the results.
    pub data_set: usize,
    /// In which loop, counting from 1.
    pub run: u32,
    /// What the client took.
    pub usage: Usage,
    /// Processor time that the server took, which compresses for pg_basebackup.
    pub server_cpu_s: Option<f64>,
    /// The size of the backup.
    pub bytes: u64,
}

/// A backup of which a data directory was made again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Restored {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its data set in the results.
    pub data_set: usize,
    /// How often it had been restored, this time included.
    pub run: u32,
    /// What that took.
    pub usage: Usage,
}

/// A backup that failed; it was not tried again on that data set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its data set in the results.
    pub data_set: usize,
    /// What happened.
    pub reason: String,
    /// Whether the server was built without the method.
    pub unsupported: bool,
}
