//! What was measured, as JSON and CSV have it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::published::Published;
use super::resume::Earlier;
use crate::output::Record;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::server::{Phase, Replication, Settings};
use crate::spread::{Spread, spread};
use crate::verdict::{self, Comparison, Time};
use crate::wal;
use crate::workload::Workload;

/// Everything that the experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// The server.
    pub server: Program,
    /// How it was set, but for `wal_compression`.
    pub settings: Settings,
    /// What it did.
    pub work: Work,
    /// The values of `wal_compression`, in the order in which they are shown.
    pub methods: Vec<String>,
    /// Those that it lacks, in words.
    pub left_out: Vec<String>,
    /// Each step of each server.
    pub measurements: Vec<Measurement>,
    /// What programs make of the WAL, a line each.
    pub archived: Vec<Archived>,
    /// How that was measured: the experiment `wal` on some segments of each method.
    pub archive: Vec<wal::Results>,
    /// The same of earlier runs that some of the measurements are from.
    pub archive_of_earlier_runs: Vec<serde_json::Value>,
    /// An earlier run, as far as its measurements were not taken over yet.
    #[serde(skip)]
    pub(super) earlier: Option<Earlier>,
    /// The earlier run that some of the measurements are from.
    pub resumed: Option<Resumed>,
    /// What was published.
    pub published: &'static [Published],
    /// Why there are fewer measurements than were asked for.
    pub stopped: Option<String>,
}

/// What each server did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The workload.
    pub workload: Workload,
    /// How much data.
    pub scale: u32,
    /// How many transactions.
    pub transactions: u64,
    /// By how many clients.
    pub clients: u32,
    /// From which seed.
    pub seed: u64,
    /// The number of checkpoints during the transactions, where it was fixed.
    pub checkpoints: Option<u32>,
    /// How many rows are inserted and then updated, by a statement each.
    #[serde(default)]
    pub rows: u64,
    /// Whether each server had a standby on the same machine.
    #[serde(default)]
    pub standby: bool,
    /// How many segments of each step the programs got at most; all where there is no number.
    pub segments: Option<u64>,
    /// The programs and their levels.
    pub programs: Vec<String>,
    /// The BLAKE3 hash of the walzip among them.
    pub walzip: String,
    /// How often everything was repeated, each time with a new server.
    pub runs: u32,
    /// Whether this was a quick look.
    pub quick: bool,
}

/// What a server does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The data is loaded.
    Load,
    /// Transactions change it.
    Transactions,
    /// Rows are inserted into a table of their own, in the order of its key.
    Insert,
    /// Each of them is updated.
    Update,
}

impl Stage {
    /// All, in their order.
    pub const ALL: [Stage; 4] = [
        Stage::Load,
        Stage::Transactions,
        Stage::Insert,
        Stage::Update,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Load => "load",
            Stage::Transactions => "transactions",
            Stage::Insert => "insert",
            Stage::Update => "update",
        }
    }

    /// What a heading says.
    pub(super) fn title(self) -> &'static str {
        match self {
            Stage::Load => "Loading the data",
            Stage::Transactions => "Transactions",
            Stage::Insert => "Inserting rows",
            Stage::Update => "Updating rows",
        }
    }
}

/// One step of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// `wal_compression`.
    pub method: String,
    /// In which run, counting from 1.
    pub run: u32,
    /// Which step.
    pub stage: Stage,
    /// What it took and wrote.
    #[serde(flatten)]
    pub phase: Phase,
    /// What a standby had of it, where there was one.
    #[serde(default)]
    pub replication: Option<Replication>,
}

/// What one program makes of the WAL of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Archived {
    /// `wal_compression`.
    pub method: String,
    /// Which step.
    pub stage: Stage,
    /// The program and its level.
    pub program: String,
    /// Bytes of compressed segments to bytes of segments.
    pub ratio: f64,
    /// What the step's whole WAL takes in the archive at that ratio.
    pub bytes: f64,
    /// Wall time of compressing a segment.
    pub compress_s: f64,
    /// From how many segments.
    #[serde(default)]
    pub segments: u64,
    /// How many whole segments the step filled.
    #[serde(default)]
    pub of: u64,
    /// Two standard errors of the ratio, as a part of it; none from a single one of several.
    #[serde(default)]
    pub uncertainty: Option<f64>,
}

impl Results {
    /// The median of a step's runs, and how far apart they are.
    pub(super) fn median(
        &self,
        method: &str,
        stage: Stage,
        value: impl Fn(&Phase) -> Option<f64>,
    ) -> Option<Spread> {
        let runs = self
            .measurements
            .iter()
            .filter(|run| run.method == method && run.stage == stage);
        spread(runs.filter_map(|run| value(&run.phase)))
    }

    /// Bytes of WAL of a step.
    pub(super) fn wal_bytes(&self, method: &str, stage: Stage) -> Option<f64> {
        Some(
            self.median(method, stage, |phase| Some(phase.wal.bytes as f64))?
                .median,
        )
    }

    /// The median over the runs of what a standby had of a step.
    pub(super) fn replicated(
        &self,
        (method, stage): (&str, Stage),
        value: impl Fn(&Replication) -> f64,
    ) -> Option<f64> {
        let of_step = |run: &&Measurement| run.method == method && run.stage == stage;
        let runs = self.measurements.iter().filter(of_step);
        let values = runs.filter_map(|run| run.replication.as_ref().map(&value));
        Some(spread(values)?.median)
    }

    /// The time of a step without compression against that with a method; of the server's processors
    /// where the machine was busy.
    pub(super) fn off_against(&self, method: &str, stage: Stage) -> Option<Comparison> {
        let judged_by = self.provenance.judged_by();
        let seconds = |method: &str| -> Option<Vec<f64>> {
            let of_step = |run: &&Measurement| run.method == method && run.stage == stage;
            let runs = self.measurements.iter().filter(of_step);
            runs.map(|run| match judged_by {
                Time::Wall => Some(run.phase.wall_s),
                Time::Processor => run.phase.server_cpu_s,
            })
            .collect()
        };
        verdict::compare(&seconds("off")?, &seconds(method)?)
    }

    /// What a program makes of a step's WAL.
    pub(super) fn archived(&self, method: &str, stage: Stage, program: &str) -> Option<Estimate> {
        let found = self.archived.iter().find(|archived| {
            archived.method == method && archived.stage == stage && archived.program == program
        });
        found.map(|archived| Estimate {
            value: archived.bytes,
            uncertainty: archived.uncertainty,
        })
    }

    /// The programs in the order in which they were measured.
    pub(super) fn programs(&self) -> Vec<&str> {
        let mut programs: Vec<&str> = Vec::new();
        for archived in &self.archived {
            if !programs.contains(&archived.program.as_str()) {
                programs.push(&archived.program);
            }
        }
        programs
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
