//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;

use super::results::{Memory, Work};
use crate::output::Files;
use crate::server::Settings;
use crate::workload::insert_phases as phases;
use crate::{Cancel, Error, Provenance};

/// What a row takes in the table and its four indexes.
pub(crate) const BYTES_PER_ROW: u64 = 220;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Values of `wal_compression`; none means all that the server has.
    pub methods: Vec<String>,
    /// Databases that fit memory, that do not, or both.
    pub memories: Vec<Memory>,
    /// Rows of the first step.
    pub rows: u64,
    /// Rows of the last step.
    pub further_rows: u64,
    /// How many clients insert at a time.
    pub clients: u32,
    /// What the rows follow from.
    pub seed: u64,
    /// Whether the server waits for the disk.
    pub fsync: bool,
    /// How often everything is repeated.
    pub runs: u32,
    /// Further parameters of the server, with their values.
    pub parameters: Vec<(String, String)>,
    /// A quick look with small segments: the other options say how small.
    pub quick: bool,
    /// Where PostgreSQL's programs are; otherwise the newest that is installed.
    pub pg_bin: Option<PathBuf>,
    /// Where other programs are looked for: the value of PATH.
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
        Settings::of_measured(self.fsync, self.quick, &self.parameters)
    }

    pub(super) fn all_rows(&self) -> u64 {
        self.rows + self.further_rows
    }

    /// Half more than the database for one that fits, a quarter of it for one that does not.
    pub(super) fn shared_buffers_megabytes(&self, memory: Memory) -> u64 {
        let database = (self.all_rows() * BYTES_PER_ROW) >> 20;
        match memory {
            Memory::Fits => database + database / 2 + 16,
            Memory::Exceeds => database / 4 + 1,
        }
    }

    pub(super) fn work(&self) -> Work {
        let megabytes = |&memory: &Memory| (memory, self.shared_buffers_megabytes(memory));
        Work {
            rows: self.rows,
            further_rows: self.further_rows,
            rows_per_transaction: phases::ROWS_PER_TRANSACTION,
            clients: self.clients,
            seed: self.seed,
            shared_buffers_megabytes: self.memories.iter().map(megabytes).collect(),
            runs: self.runs.max(1),
            quick: self.quick,
        }
    }

    /// A server that does not fit into memory itself would measure the kernel's swapping.
    pub(super) fn check_memory(&self, provenance: &Provenance) -> Result<(), Error> {
        let needed = self
            .memories
            .iter()
            .map(|&memory| self.shared_buffers_megabytes(memory))
            .max();
        let (needed, half) = (
            needed.unwrap_or_default(),
            (provenance.memory_bytes / 2) >> 20,
        );
        if needed <= half || provenance.memory_bytes == 0 {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "a database of {} rows needs {needed} MB of shared_buffers to fit, more than half of \
             this machine's memory: choose fewer rows",
            self.all_rows()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(rows: u64) -> Options {
        Options {
            methods: Vec::new(),
            memories: Memory::ALL.to_vec(),
            rows,
            further_rows: 0,
            clients: 1,
            seed: 1,
            fsync: false,
            runs: 1,
            parameters: Vec::new(),
            quick: true,
            pg_bin: None,
            search_path: OsString::new(),
            temp_dir: PathBuf::from("."),
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    #[test]
    fn one_server_holds_the_database_and_the_other_a_quarter() {
        let options = options(5_000_000);
        let [fits, exceeds] = Memory::ALL.map(|memory| options.shared_buffers_megabytes(memory));
        let database = (5_000_000 * BYTES_PER_ROW) >> 20;
        assert!(
            fits > database && exceeds < database / 3,
            "{fits} {exceeds}"
        );
    }

    #[test]
    fn a_database_beyond_the_machine_is_refused() {
        let provenance = Provenance::gather(None);
        options(1_000_000).check_memory(&provenance).unwrap();
        let error = options(u64::MAX / 1000)
            .check_memory(&provenance)
            .unwrap_err();
        assert!(error.to_string().contains("choose fewer rows"));
    }
}
