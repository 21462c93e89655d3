//! What was measured, as JSON has it.

use std::io::{self, Write};

use serde::Serialize;

use super::measurement::{DataSet, Failed, Measurement, Restored, Row};
use super::published::SOURCE;
use super::ranks::{Measured, Ranks};
use crate::output::Record;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;

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
    /// Each time that a backup was restored: the one that warmed up, as often as there are loops.
    pub restored: Vec<Restored>,
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
    /// How often it was taken before; what that gave was restored, and walzip's verified.
    pub warm_ups: u32,
    /// Whether little was taken on purpose.
    pub quick: bool,
    /// What the throw-away servers were told.
    pub servers: String,
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
            restored: Vec::new(),
            failed: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            ranks: Ranks::default(),
            published_source: SOURCE,
        }
    }

    /// Ranks what was measured.
    pub(super) fn rank(&mut self) {
        self.ranks = Ranks::of(&Measured {
            provenance: &self.provenance,
            rows: &self.rows,
            data_sets: self.data_sets.len(),
            measurements: &self.measurements,
        });
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
