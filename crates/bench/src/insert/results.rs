//! What was measured, as JSON and CSV have it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::published::Published;
use crate::output::Record;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::server::{Phase, Settings};
use crate::spread::{Spread, spread};

/// What a server does one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Rows in the order of their key, under the primary key alone.
    #[serde(rename = "l.i0")]
    Load,
    /// Three secondary indexes are created.
    #[serde(rename = "l.x")]
    Index,
    /// Further rows, under all indexes.
    #[serde(rename = "l.i1")]
    Insert,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Step; 3] = [Step::Load, Step::Index, Step::Insert];

    /// The benchmark's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Step::Load => "l.i0",
            Step::Index => "l.x",
            Step::Insert => "l.i1",
        }
    }

    /// What it is.
    pub fn about(self) -> &'static str {
        match self {
            Step::Load => "rows in key order, primary key alone",
            Step::Index => "three secondary indexes are created; a row counts once for each",
            Step::Insert => "further rows, under all four indexes",
        }
    }
}

/// How much of the database the server can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// All of it fits shared_buffers.
    Fits,
    /// A quarter of it does, and the kernel has the rest in its page cache.
    Exceeds,
    /// Neither shared_buffers nor the page cache has it: both are limited together.
    #[serde(rename = "io-bound")]
    IoBound,
}

impl Memory {
    /// Those that every machine can measure.
    pub const ALL: [Memory; 2] = [Memory::Fits, Memory::Exceeds];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Fits => "fits",
            Memory::Exceeds => "exceeds",
            Memory::IoBound => "io-bound",
        }
    }

    /// What it means. Without a limit, the kernel has the machine's whole memory for what
    /// shared_buffers lacks.
    pub fn about(self) -> &'static str {
        match self {
            Memory::Fits => "database fits shared_buffers",
            Memory::Exceeds => "database exceeds shared_buffers",
            Memory::IoBound => "database exceeds memory (IO-bound)",
        }
    }
}

/// Everything that the experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// The server.
    pub server: Program,
    /// How it was set, but for `wal_compression` and `shared_buffers`.
    pub settings: Settings,
    /// What each server did.
    pub work: Work,
    /// The values of `wal_compression`, in the order in which they are shown.
    pub methods: Vec<String>,
    /// Those that it lacks, in words.
    pub left_out: Vec<String>,
    /// Each step of each server.
    pub measurements: Vec<Measurement>,
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
    /// Rows of the first step.
    pub rows: u64,
    /// Rows of the last step.
    pub further_rows: u64,
    /// Rows of one transaction.
    pub rows_per_transaction: u64,
    /// How many clients insert at a time.
    pub clients: u32,
    /// From which seed.
    pub seed: u64,
    /// `shared_buffers` for each memory, in megabytes.
    pub shared_buffers_megabytes: Vec<(Memory, u64)>,
    /// What server and page cache have together where that is limited, in megabytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_megabytes: Option<u64>,
    /// How often everything was repeated, each time with a new server.
    pub runs: u32,
    /// Whether this was a quick look.
    pub quick: bool,
}

/// One step of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// How much of the database fits.
    pub memory: Memory,
    /// `wal_compression`.
    pub method: String,
    /// In which run, counting from 1.
    pub run: u32,
    /// Which step.
    pub step: Step,
    /// Rows that were inserted, or indexed, once for each index.
    pub operations: u64,
    /// What the database took afterwards, where it was asked.
    #[serde(default)]
    pub database_bytes: Option<u64>,
    /// What it took and wrote.
    #[serde(flatten)]
    pub phase: Phase,
}

impl Measurement {
    /// Rows inserted or indexed in a second.
    pub fn per_second(&self) -> f64 {
        let seconds = match (self.phase.transactions, self.phase.tps) {
            (Some(transactions), Some(tps)) => transactions as f64 / tps.max(1e-9),
            _ => self.phase.wall_s,
        };
        self.operations as f64 / seconds.max(1e-9)
    }

    fn per_operation(&self, value: f64) -> f64 {
        value / self.operations.max(1) as f64
    }

    /// Microseconds of the server's processor time for each.
    pub fn cpu_micros(&self) -> Option<f64> {
        Some(self.per_operation(self.phase.server_cpu_s? * 1e6))
    }

    /// KB that the server wrote to its disk for each, WAL included.
    pub fn written_kilobytes(&self) -> Option<f64> {
        Some(self.per_operation(self.phase.written_bytes? as f64 / 1e3))
    }

    /// KB that the server had read from its disk for each: what no cache had.
    pub fn read_kilobytes(&self) -> Option<f64> {
        Some(self.per_operation(self.phase.read_bytes? as f64 / 1e3))
    }

    /// KB of WAL for each.
    pub fn wal_kilobytes(&self) -> f64 {
        self.per_operation(self.phase.wal.bytes as f64 / 1e3)
    }
}

impl Results {
    /// The median of a step's runs, and how far apart they are.
    pub(super) fn median(
        &self,
        (memory, method, step): (Memory, &str, Step),
        value: impl Fn(&Measurement) -> Option<f64>,
    ) -> Option<Spread> {
        let runs = self
            .measurements
            .iter()
            .filter(|run| run.memory == memory && run.method == method && run.step == step);
        spread(runs.filter_map(value))
    }

    /// The memories that were measured with.
    pub(super) fn memories(&self) -> impl Iterator<Item = (Memory, u64)> {
        self.work.shared_buffers_megabytes.iter().copied()
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
