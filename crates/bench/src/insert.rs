//! What does `wal_compression` cost an insert?
//!
//! The insert benchmark, on a new server for each method: rows in the order of their key
//! (l.i0), three secondary indexes (l.x), further rows under all of them (l.i1); once with a
//! database that fits shared_buffers and once with one that does not. Several runs are
//! interleaved, and each begins with another method.

mod compared;
mod published;
mod report;
mod results;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use serde::Deserialize;

use crate::clock::Clock;
use crate::earlier::{Origin, Resumed, go_on, keep_all, read_earlier};
use crate::output::{Files, check_space};
use crate::server::{Installation, Phase, Server, Settings};
use crate::workload::{Transactions, Workload, insert_phases as phases};
use crate::{Cancel, Error, Progress, Provenance};

pub use published::{PUBLISHED, Published, Relation, SOURCE};
pub use results::{Measurement, Memory, Results, Step, Work};

/// What a row takes in the table and its four indexes.
pub(crate) const BYTES_PER_ROW: u64 = 220;
/// What it takes at most with its WAL, when each row brings an image of its own.
const DISK_BYTES_PER_ROW: u64 = 2_000;

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
    fn settings(&self) -> Settings {
        let settings = match self.fsync {
            true => Settings::durable(),
            false => Settings::volatile(),
        };
        let settings = settings
            .segment_megabytes(if self.quick { 1 } else { 16 })
            .keep_all_wal();
        self.parameters
            .iter()
            .fold(settings, |settings, (name, value)| {
                settings.set(name, value)
            })
    }

    fn all_rows(&self) -> u64 {
        self.rows + self.further_rows
    }

    /// Half more than the database for one that fits, a quarter of it for one that does not.
    fn shared_buffers_megabytes(&self, memory: Memory) -> u64 {
        let database = (self.all_rows() * BYTES_PER_ROW) >> 20;
        match memory {
            Memory::Fits => database + database / 2 + 16,
            Memory::Exceeds => database / 4 + 1,
        }
    }

    fn work(&self) -> Work {
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
    fn check_memory(&self, provenance: &Provenance) -> Result<(), Error> {
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

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let provenance = Provenance::gather(None);
    options.check_memory(&provenance)?;
    check_space(&options.temp_dir, options.all_rows() * DISK_BYTES_PER_ROW)?;
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        &options.temp_dir,
        &options.cancel,
    )?;
    let (methods, left_out) = installation.choose_wal_compressions(&options.methods)?;
    left_out.iter().for_each(|reason| progress.note(reason));
    let mut results = Results {
        experiment: "insert",
        provenance,
        server: installation.program.clone(),
        settings: options.settings(),
        work: options.work(),
        methods,
        left_out,
        measurements: Vec::new(),
        resumed: None,
        published: PUBLISHED,
        stopped: None,
    };
    let earlier = earlier(options, &mut results, progress)?;
    let servers = results.methods.len() * options.memories.len() * results.work.runs as usize;
    let mut experiment = Experiment {
        options,
        installation: &installation,
        results: &mut results,
        earlier,
        progress,
        clock: Clock::new(servers * Step::ALL.len(), Step::ALL.len()),
    };
    if let Err(error) = experiment.measure_all() {
        if results.measurements.is_empty() {
            return Err(error);
        }
        results.stopped = Some(error.reason());
    }
    results.provenance.finish();
    options.files.write(&results)?;
    Ok(results)
}

struct Experiment<'a, P> {
    options: &'a Options,
    installation: &'a Installation,
    results: &'a mut Results,
    earlier: Vec<Measurement>,
    progress: &'a mut P,
    clock: Clock,
}

impl<P: Progress> Experiment<'_, P> {
    fn measure_all(&mut self) -> Result<(), Error> {
        let mut turns = Vec::new();
        for run in 1..=self.results.work.runs {
            for (place, memory) in self.options.memories.iter().enumerate() {
                let mut methods = self.results.methods.clone();
                let turn = (run as usize - 1 + place) % methods.len().max(1);
                methods.rotate_left(turn);
                turns.extend(methods.into_iter().map(|method| (*memory, method, run)));
            }
        }
        // All of it first: what is written meanwhile never has less than the earlier run.
        turns.retain(|(memory, method, run)| !self.take_over((*memory, method.as_str(), *run)));
        for (memory, method, run) in turns {
            self.measure((memory, method.as_str(), run))?;
            self.options.files.save(self.results)?;
        }
        Ok(())
    }

    /// Takes over what an earlier run has, if it has every step of a server.
    fn take_over(&mut self, which: (Memory, &str, u32)) -> bool {
        let of_server = |run: &&Measurement| (run.memory, run.method.as_str(), run.run) == which;
        let taken: Vec<Measurement> = self.earlier.iter().filter(of_server).cloned().collect();
        if taken.len() < Step::ALL.len() {
            return false;
        }
        taken.iter().for_each(|_| self.clock.skip());
        if let Some(resumed) = &mut self.results.resumed {
            resumed.measurements += taken.len();
        }
        self.results.measurements.extend(taken);
        true
    }

    /// One server from its beginning to its end.
    fn measure(&mut self, (memory, method, run): (Memory, &str, u32)) -> Result<(), Error> {
        let options = self.options;
        let megabytes = options.shared_buffers_megabytes(memory);
        let settings = self
            .results
            .settings
            .clone()
            .set("wal_compression", self.installation.wal_compression(method))
            .set("shared_buffers", format!("{megabytes}MB"));
        let server = self.installation.start(&settings)?;
        phases::create(&server)?;
        for (kind, step) in Step::ALL.into_iter().enumerate() {
            let (name, database) = (step.name(), memory.about());
            let label = format!("wal_compression = {method}, {database}, run {run}: {name}");
            self.progress.step(&self.clock.step(&label));
            let begin = Instant::now();
            let (operations, phase) = match step {
                Step::Load => insert(&server, options, options.rows, 0)?,
                Step::Index => index(&server, options)?,
                Step::Insert => insert(&server, options, options.further_rows, 1)?,
            };
            self.clock.finish(kind, begin.elapsed());
            let size = server.sql("SELECT pg_database_size(current_database())")?;
            self.results.measurements.push(Measurement {
                memory,
                method: method.to_owned(),
                run,
                step,
                operations,
                database_bytes: size.parse().ok(),
                phase,
            });
        }
        Ok(())
    }
}

/// What is needed of an earlier run's JSON.
#[derive(Deserialize)]
struct Earlier {
    #[serde(flatten)]
    origin: Origin,
    settings: Settings,
    work: Work,
    measurements: Vec<Measurement>,
}

/// Reads what an earlier run measured, if there was one that did the same.
fn earlier(
    options: &Options,
    results: &mut Results,
    progress: &mut impl Progress,
) -> Result<Vec<Measurement>, Error> {
    if !options.files.resume {
        return Ok(Vec::new());
    }
    let Some((path, earlier)) = read_earlier::<Earlier>(options.files.json.as_deref())? else {
        return Ok(Vec::new());
    };
    let Earlier {
        origin,
        settings,
        work,
        measurements,
    } = earlier;
    origin.check(
        path,
        results.experiment,
        &results.provenance,
        Some(&results.server),
    )?;
    let same_work = Work {
        runs: results.work.runs,
        ..work
    };
    let same_options = same_work == results.work && settings == results.settings;
    go_on(path, &origin, same_options, progress)?;
    let is_asked_for = |run: &&Measurement| {
        options.memories.contains(&run.memory)
            && results.methods.contains(&run.method)
            && run.run <= results.work.runs
    };
    let counts = (
        measurements.len(),
        measurements.iter().filter(is_asked_for).count(),
    );
    let what = "other methods, databases or runs";
    keep_all(path, counts, what, &options.files)?;
    results.resumed = Some(Resumed {
        date: origin.date().to_owned(),
        measurements: 0,
    });
    Ok(measurements)
}

fn insert(server: &Server, options: &Options, rows: u64, part: u64) -> Result<(u64, Phase), Error> {
    let how = Transactions {
        scale: 1,
        count: rows / phases::ROWS_PER_TRANSACTION,
        clients: options.clients,
        seed: options.seed.wrapping_add(part),
    };
    let phase = server.phase(|server| Workload::Insert.run(server, &how))?;
    let transactions = phase.transactions.unwrap_or_default();
    Ok((transactions * phases::ROWS_PER_TRANSACTION, phase))
}

fn index(server: &Server, options: &Options) -> Result<(u64, Phase), Error> {
    let phase = server.phase(phases::index)?;
    Ok((options.rows * phases::INDEXES.len() as u64, phase))
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
