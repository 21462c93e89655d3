//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;

use super::data_sets::Source;
use crate::cancel::Cancel;
use crate::output::Files;
use crate::workload::Workload;

/// How often each backup was taken for what was published.
const LOOPS: u32 = 3;

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
    /// Variables for the connection to running servers, which libpq reads: passwords, certificates.
    pub connection_environment: Vec<(OsString, OsString)>,
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
            connection_environment: Vec::new(),
            temp_dir,
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    pub(super) fn loops(&self) -> u32 {
        self.loops
            .unwrap_or(if self.quick { 1 } else { LOOPS })
            .max(1)
    }

    /// About a gigabyte each, as far as the generators' units allow.
    pub(super) fn sources(&self) -> Vec<Source> {
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
