//! What was measured, as JSON has it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::methods::{SOURCE, Taker};
use super::ranks::Ranks;
use crate::output::Record;
use crate::{Program, Provenance, Resumed, Usage};

/// Everything that the experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// How it was measured.
    pub settings: Settings,
    /// The server of the generated and loaded data sets.
    pub server: Program,
    /// What took the backups.
    pub rows: Vec<Row>,
    /// What was backed up.
    pub data_sets: Vec<DataSet>,
    /// What could not take part, and why.
    pub left_out: Vec<String>,
    /// Each backup, but those that warm up.
    pub measurements: Vec<Measurement>,
    /// Each backup that failed.
    pub failed: Vec<Failed>,
    /// Earlier runs that some of the measurements are of.
    pub resumed: Vec<Resumed>,
    /// Why there are fewer measurements than were asked for.
    pub stopped: Option<String>,
    /// What it comes to.
    pub ranks: Ranks,
    /// Where the published ranks come from.
    pub published_source: &'static str,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// How often each backup was taken.
    pub loops: u32,
    /// How often it was taken before; what that gave was unpacked or verified.
    pub warm_ups: u32,
    /// Whether little was taken on purpose.
    pub quick: bool,
    /// What the throw-away servers were told.
    pub servers: String,
}

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

impl Results {
    pub(super) fn new(
        provenance: Provenance,
        settings: Settings,
        server: Program,
        rows: Vec<Row>,
    ) -> Results {
        Results {
            experiment: "basebackup",
            provenance,
            settings,
            server,
            rows,
            data_sets: Vec::new(),
            left_out: Vec::new(),
            measurements: Vec::new(),
            failed: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            ranks: Ranks::default(),
            published_source: SOURCE,
        }
    }
}

impl Record for Results {
    fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.csv(to)
    }

    fn report(&self) -> io::Result<String> {
        Ok(self.page())
    }

    fn stopped(&mut self) -> &mut Option<String> {
        &mut self.stopped
    }
}
