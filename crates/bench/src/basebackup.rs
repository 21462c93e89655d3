//! Which compression is best for base backups?
//!
//! Each data set lives on a throw-away server, which is backed up with pg_basebackup by every
//! method and level in turn, loop by loop, into a counter; and by walzip into a repository.

mod csv;
mod data_sets;
mod measure;
mod methods;
mod ranks;
mod report;
mod results;
mod resume;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;

use self::measure::Experiment;
use self::resume::Earlier;
use crate::output::Files;
use crate::process::{Surroundings, memory_floor};
use crate::server::Installation;
use crate::workload::Workload;
use crate::{Cancel, Error, Program, Progress, Provenance, Scratch, server};

pub use data_sets::{Downloaded, Rows, Source, manifest};
pub use methods::{PUBLISHED, Taker};
pub use ranks::{Average, Ranks, Score};
pub use results::{DataSet, Failed, Measurement, Results, Row, Settings};

/// How often each backup was taken for what was published, after one to warm up.
const LOOPS: u32 = 3;
const WARM_UPS: u32 = 1;
/// The first major whose server compresses backups.
const FIRST_MAJOR: u32 = 15;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to back up; none for pgbench, the shop and the time series.
    pub data_sets: Vec<Source>,
    /// The scale of generated data sets.
    pub scale: Option<u32>,
    /// Little data, some of the levels, one loop.
    pub quick: bool,
    /// How often each backup is taken.
    pub loops: Option<u32>,
    /// Where the programs of PostgreSQL are, if not where a distribution puts them.
    pub pg_bin: Option<PathBuf>,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where temporary directories are made; they are gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Asked before each step; kills the program that is running.
    pub cancel: Cancel,
}

impl Options {
    /// The usual data sets.
    pub fn new(walzip: PathBuf, search_path: OsString, temp_dir: PathBuf) -> Options {
        Options {
            data_sets: Vec::new(),
            scale: None,
            quick: false,
            loops: None,
            pg_bin: None,
            launcher: None,
            walzip,
            search_path,
            temp_dir,
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    fn loops(&self) -> u32 {
        self.loops
            .unwrap_or(if self.quick { 1 } else { LOOPS })
            .max(1)
    }

    /// About a gigabyte each, as far as the generators' units allow.
    fn sources(&self) -> Vec<Source> {
        if !self.data_sets.is_empty() {
            return self.data_sets.clone();
        }
        let usual = [
            (Workload::Pgbench, 70),
            (Workload::Shop, 40),
            (Workload::TimeSeries, 40),
        ];
        let scale = |usual| self.scale.unwrap_or(if self.quick { 1 } else { usual });
        usual
            .map(|(workload, usual)| Source::Generated(workload, scale(usual)))
            .to_vec()
    }
}

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let surroundings = Surroundings {
        launcher: options.launcher.as_deref(),
        search_path: &options.search_path,
        temp_dir: scratch.path(),
        cancel: &options.cancel,
    };
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        &options.temp_dir,
        &options.cancel,
    )?;
    if installation.major < FIRST_MAJOR {
        return Err(Error::Usage(format!(
            "PostgreSQL {} does not compress backups in the server: {FIRST_MAJOR} is the first \
             that does",
            installation.major
        )));
    }
    let mut results = results(options, &installation, surroundings)?;
    let earlier = match options.files.resume {
        true => Earlier::read(options, &mut results, progress)?,
        false => None,
    };
    let mut experiment = Experiment::new(options, &installation, results, surroundings, progress)?;
    experiment.earlier = earlier;
    experiment.measure_all();
    let results = experiment.finish()?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

/// Results that have no measurement yet.
fn results(
    options: &Options,
    installation: &Installation,
    surroundings: Surroundings<'_>,
) -> Result<Results, Error> {
    let provenance = Provenance::gather(memory_floor(surroundings));
    let client = installation.program("pg_basebackup")?;
    let client = Program::identify(&client, "postgresql-client", &["--version"], surroundings);
    let walzip = Program::identify(&options.walzip, "walzip", &["--version"], surroundings);
    let row = |taker: Taker| Row {
        label: taker.label(),
        taker,
        program: match taker {
            Taker::PgBasebackup { .. } => client.clone(),
            Taker::Walzip => walzip.clone(),
        },
        command: taker.command_line(),
        published_rank: taker.published_rank(),
    };
    let rows = Taker::all(options.quick).into_iter().map(row).collect();
    let settings = Settings {
        loops: options.loops(),
        warm_ups: WARM_UPS,
        quick: options.quick,
        servers: server_settings().line(),
    };
    Ok(Results::new(
        provenance,
        settings,
        installation.program.clone(),
        rows,
    ))
}

/// A server that takes backups, without an archive at first: with one, pg_basebackup would wait
/// a second for the WAL of each backup, which nobody did for what was published.
fn server_settings() -> server::Settings {
    server::Settings::volatile()
        .set("wal_level", "replica")
        .set("max_wal_senders", 4)
        .set("archive_mode", "off")
}
