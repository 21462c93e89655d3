//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;

use super::results::Work;
use crate::cancel::Cancel;
use crate::contender::Request;
use crate::error::Error;
use crate::input;
use crate::output::Files;
use crate::server::Settings;
use crate::workload::Workload;

/// The programs and levels that are asked what they make of the WAL.
const PROGRAMS: &[&str] = &[
    "gzip:6", "lz4:1", "xz:2", "zstd:1", "zstd:3", "walzip:1", "walzip:3", "walzip:6", "walzip:9",
];
const QUICK_PROGRAMS: &[&str] = &["xz:2", "zstd:1", "walzip:3"];

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Values of `wal_compression`; none means all that the server has.
    pub methods: Vec<String>,
    /// What the server does.
    pub workload: Workload,
    /// How much data.
    pub scale: u32,
    /// How many transactions.
    pub transactions: u64,
    /// By how many clients.
    pub clients: u32,
    /// What the transactions follow from.
    pub seed: u64,
    /// How many rows are inserted and then updated.
    pub rows: u64,
    /// Whether each server gets a standby, which receives what it writes.
    pub standby: bool,
    /// So many checkpoints during the transactions, instead of when the server likes.
    pub checkpoints: Option<u32>,
    /// Whether the server waits for the disk.
    pub fsync: bool,
    /// How often everything is repeated.
    pub runs: u32,
    /// Further parameters of the server, with their values.
    pub parameters: Vec<(String, String)>,
    /// How many segments of each step the programs get at most; all without a number.
    pub segments: Option<u64>,
    /// The programs; none means the usual ones.
    pub contenders: Vec<Request>,
    /// A quick look with small segments: the other options say how small.
    pub quick: bool,
    /// Where PostgreSQL's programs are; otherwise the newest that is installed.
    pub pg_bin: Option<PathBuf>,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where servers are made; they are gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Ends the server and what it does.
    pub cancel: Cancel,
}

impl Options {
    pub(super) fn settings(&self) -> Settings {
        // With a number of checkpoints, none but those that are asked for.
        let none = [("max_wal_size", "1000GB"), ("checkpoint_timeout", "1d")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let none = none.into_iter().filter(|_| self.checkpoints.is_some());
        let parameters: Vec<_> = none.chain(self.parameters.iter().cloned()).collect();
        Settings::of_measured(self.fsync, self.quick, &parameters)
    }

    pub(super) fn work(&self) -> Result<Work, Error> {
        let programs = self.contenders()?.into_iter().flat_map(|request| request.0);
        let hash = match self.walzip.is_file() {
            true => {
                input::hash(&self.walzip).map_err(|source| Error::file(&self.walzip, source))?
            }
            false => blake3::hash(&[]),
        };
        Ok(Work {
            workload: self.workload,
            scale: self.scale,
            transactions: self.transactions,
            clients: self.clients,
            seed: self.seed,
            checkpoints: self.checkpoints,
            rows: self.rows,
            standby: self.standby,
            segments: self.segments,
            programs: programs
                .map(|program| format!("{}:{}", program.name, program.level))
                .collect(),
            walzip: hash.to_string(),
            runs: self.runs.max(1),
            quick: self.quick,
        })
    }

    /// The programs and levels that are asked what they make of the WAL.
    pub(super) fn contenders(&self) -> Result<Vec<Request>, Error> {
        let names = match (self.contenders.is_empty(), self.quick) {
            (false, _) => return Ok(self.contenders.clone()),
            (true, true) => QUICK_PROGRAMS,
            (true, false) => PROGRAMS,
        };
        names.iter().map(|name| name.parse()).collect()
    }
}
