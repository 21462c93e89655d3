//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use super::results::{Memory, Work};
use crate::cancel::Cancel;
use crate::error::Error;
use crate::output::Files;
use crate::provenance::Provenance;
use crate::server::Settings;
use crate::workload::insert_phases as phases;

/// What a row takes in the table and its four indexes.
pub(crate) const BYTES_PER_ROW: u64 = 220;

/// What a server needs for itself: less, and the kernel ends it.
const LEAST_MEGABYTES: u64 = 64;
/// By default 64 MB.
const MAINTENANCE: &str = "maintenance_work_mem";

/// What server and page cache may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// So many megabytes.
    Megabytes(u64),
    /// So many hundredths of the database.
    Percent(u64),
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number
            .parse()
            .map_err(|_| "it has to begin with a number")?;
        match unit.trim() {
            "%" if (1..100).contains(&number) => Ok(MemoryLimit::Percent(number)),
            "%" => Err("a part of the database is 1% to 99% of it".to_owned()),
            "MB" => Ok(MemoryLimit::Megabytes(number)),
            "GB" => Ok(MemoryLimit::Megabytes(number.saturating_mul(1024))),
            _ => Err("it is a number of MB, GB or % (of the database)".to_owned()),
        }
    }
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Values of `wal_compression`; none means all that the server has.
    pub methods: Vec<String>,
    /// Databases that fit memory, and those that do not.
    pub memories: Vec<Memory>,
    /// What server and page cache may have together where the database is IO-bound.
    pub memory_limit: MemoryLimit,
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

    /// About what the database will take.
    fn database_megabytes(&self) -> u64 {
        (self.all_rows() * BYTES_PER_ROW) >> 20
    }

    /// Half more than the database for one that fits, a quarter of it for one that does not; a
    /// quarter of what there is where that is limited.
    pub(super) fn shared_buffers_megabytes(&self, memory: Memory) -> u64 {
        let database = self.database_megabytes();
        match memory {
            Memory::Fits => database + database / 2 + 16,
            Memory::Exceeds => database / 4 + 1,
            Memory::IoBound => self.memory_limit_megabytes() / 4,
        }
    }

    /// What server and page cache have together where the database is IO-bound.
    pub(super) fn memory_limit_megabytes(&self) -> u64 {
        match self.memory_limit {
            MemoryLimit::Megabytes(megabytes) => megabytes,
            MemoryLimit::Percent(percent) => self.database_megabytes() * percent / 100,
        }
    }

    /// A server and its page cache with the limit. What an index build takes for itself has to fit
    /// beside shared_buffers and the page cache.
    pub(super) fn limited(&self, settings: Settings) -> Settings {
        let limit = self.memory_limit_megabytes();
        let settings = settings.memory_limit(limit << 20);
        match settings.parameters.contains_key(MAINTENANCE) {
            true => settings,
            false => settings.set(MAINTENANCE, format!("{}MB", limit.min(512) / 8)),
        }
    }

    /// A limit that the database fits limits nothing, and one that a server does not fit ends it.
    pub(super) fn check_limit(&self) -> Result<(), Error> {
        let (limit, database) = (self.memory_limit_megabytes(), self.database_megabytes());
        if !self.memories.contains(&Memory::IoBound) || (LEAST_MEGABYTES..database).contains(&limit)
        {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{limit} MB of memory for server and page cache do not make a database of about \
             {database} MB ({} rows) IO-bound: it takes at least {LEAST_MEGABYTES} MB, and less \
             than the database",
            self.all_rows()
        )))
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
            memory_limit_megabytes: self
                .memories
                .contains(&Memory::IoBound)
                .then(|| self.memory_limit_megabytes()),
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
            memory_limit: MemoryLimit::Percent(25),
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
    fn a_limit_is_a_size_or_a_part_of_the_database() {
        let read = |text: &str| text.parse::<MemoryLimit>();
        assert_eq!(read("512MB"), Ok(MemoryLimit::Megabytes(512)));
        assert_eq!(read("2 GB"), Ok(MemoryLimit::Megabytes(2048)));
        assert_eq!(read("25%"), Ok(MemoryLimit::Percent(25)));
        for wrong in ["", "MB", "512", "100%", "0%", "-1MB"] {
            read(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_limit_lies_between_the_server_and_the_database() {
        let with = |limit| Options {
            memories: vec![Memory::IoBound],
            memory_limit: limit,
            ..options(1_000_000)
        };
        with(MemoryLimit::Percent(50)).check_limit().unwrap();
        let settings = with(MemoryLimit::Megabytes(64)).limited(Settings::volatile());
        assert_eq!(settings.memory_limit_bytes, Some(64 << 20));
        assert_eq!(settings.parameters[MAINTENANCE], "8MB");
        let own = Settings::volatile().set(MAINTENANCE, "1MB");
        let own = with(MemoryLimit::Megabytes(64)).limited(own);
        assert_eq!(own.parameters[MAINTENANCE], "1MB");
        for wrong in [MemoryLimit::Megabytes(63), MemoryLimit::Megabytes(300)] {
            let error = with(wrong).check_limit().unwrap_err().to_string();
            assert!(error.contains("database of about 209 MB"), "{error}");
        }
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
