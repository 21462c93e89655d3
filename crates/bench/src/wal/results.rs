//! What was measured, as JSON has it.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dominance::Dominance;
use crate::contender::{Contender, Threads};
use crate::input::Input;
use crate::output::Record;
use crate::package::how_to_install;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::sample::Sampled;
use crate::text::counted;
use crate::usage::Usage;

/// Everything that an experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// How it was measured.
    pub settings: Settings,
    /// What it was measured on.
    pub inputs: Vec<Input>,
    /// What could not take part.
    pub missing: Vec<Missing>,
    /// What took part.
    pub rows: Vec<Row>,
    /// Each round trip.
    pub measurements: Vec<Measurement>,
    /// Each round trip that was none.
    pub failed: Vec<Failed>,
    /// Earlier runs that some of the measurements are of.
    pub resumed: Vec<Resumed>,
    /// The load of others in one of these, where the machine was busy.
    pub load_of_others_before: Option<f64>,
    /// Why there are fewer measurements than were asked for.
    pub stopped: Option<String>,
    /// What it comes to, a row each.
    pub summary: Vec<Summary>,
    /// Whether some walzip level is both smaller and faster.
    pub dominance: Dominance,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// How often each measurement was repeated.
    pub runs: u32,
    /// Whether only the first segment of each folder was taken.
    pub quick: bool,
    /// Of how many the segments are a random sample.
    pub sampled: Option<Sampled>,
}

/// A contender that is not installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its name.
    pub contender: &'static str,
    /// The program that was looked for.
    pub program: &'static str,
    /// The package that brings it.
    pub package: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing {
            contender,
            program,
            package,
        } = self;
        write!(
            f,
            "{contender} is left out: {program} is not installed ({})",
            how_to_install(package)
        )
    }
}

/// A program at a level.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is called in tables.
    pub label: String,
    /// The contender's name.
    pub contender: &'static str,
    /// The level.
    pub level: u8,
    /// How many threads it works with.
    pub threads: Threads,
    /// The program.
    pub program: Program,
    /// The command that compresses.
    pub compress: String,
    /// The command that decompresses.
    pub decompress: String,
}

impl Row {
    pub(super) fn new(contender: &Contender, level: u8, program: Program) -> Row {
        Row {
            label: contender.label(level),
            contender: contender.name,
            level,
            threads: contender.threads,
            compress: contender.command_line(&program.name, contender.compress, level),
            decompress: contender.command_line(&program.name, contender.decompress, level),
            program,
        }
    }
}

/// One round trip that gave back every byte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its input in the results.
    pub input: usize,
    /// In which run, counting from 1.
    pub run: u32,
    /// Which start of the experiment measured it: 0 is this one, others are the earlier runs,
    /// counting from 1.
    #[serde(default)]
    pub start: usize,
    /// What compressing took.
    pub compress: Usage,
    /// What decompressing took.
    pub decompress: Usage,
    /// The size of the compressed file.
    pub output_bytes: u64,
}

/// A round trip that takes longer is made once.
const SLOW: Duration = Duration::from_secs(20);

impl Measurement {
    /// Whether it took so long that it is not repeated.
    pub(super) fn is_slow(&self) -> bool {
        self.compress.wall + self.decompress.wall > SLOW
    }
}

/// A round trip that failed or gave back other bytes; it was not tried again.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its input in the results.
    pub input: usize,
    /// In which run, counting from 1.
    pub run: u32,
    /// What happened.
    pub reason: String,
}

/// What a row comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The index of its row in the results.
    pub row: usize,
    /// Over all folders; none unless the row was measured on every segment.
    pub all: Option<Figures>,
    /// Over the realistic folders, when there are others too.
    pub realistic: Option<Figures>,
    /// Each folder that was measured wholly.
    pub folders: Vec<FolderFigures>,
}

/// Figures over a set of segments. Times are medians over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// How many folders.
    pub folders: usize,
    /// How many segments.
    pub segments: usize,
    /// The bytes of the segments.
    pub original_bytes: u64,
    /// The bytes of the compressed files.
    pub output_bytes: u64,
    /// The size relative to zstd -1's in the same experiment: the geometric mean over folders.
    pub ratio_to_zstd_1: Option<f64>,
    /// Mean wall time of compressing a segment.
    pub compress_s: f64,
    /// Mean processor time of compressing a segment.
    pub compress_cpu_s: f64,
    /// The most memory that compressing a segment took.
    pub compress_peak_bytes: u64,
    /// What the kernel counted while compressing a segment, in the mean: page faults that read from
    /// a device and others, context switches that were voluntary and others.
    pub compress_counts: Option<[f64; 4]>,
    /// Mean wall time of decompressing a segment.
    pub decompress_s: f64,
    /// Mean processor time of decompressing a segment.
    pub decompress_cpu_s: f64,
    /// The most memory that decompressing a segment took.
    pub decompress_peak_bytes: u64,
    /// Half the range of the wall time of compressing, relative to the median: the median over
    /// the segments. None with a single run.
    pub compress_spread: Option<f64>,
    /// The shortest and the longest mean wall time of compressing a segment, over the runs that
    /// have every segment. None with a single run.
    pub compress_range_s: Option<[f64; 2]>,
    /// The same of processor time.
    pub compress_cpu_range_s: Option<[f64; 2]>,
    /// The same of the wall time of decompressing.
    pub decompress_range_s: Option<[f64; 2]>,
    /// The same of processor time.
    pub decompress_cpu_range_s: Option<[f64; 2]>,
}

/// What a row comes to on one folder.
#[derive(Clone, Debug, Serialize)]
pub struct FolderFigures {
    /// The folder.
    pub folder: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Results {
    /// The segments that figures are of: all, or where the experiment was stopped those that every
    /// row was measured on, if there are any.
    pub(super) fn covered(&self) -> Vec<usize> {
        let all = 0..self.inputs.len();
        if self.stopped.is_none() {
            return all.collect();
        }
        let measured = self.measurements.iter().map(|of| (of.row, of.input));
        let failed = self.failed.iter().map(|of| (of.row, of.input));
        let known: HashSet<(usize, usize)> = measured.chain(failed).collect();
        let whole = |input: &usize| (0..self.rows.len()).all(|row| known.contains(&(row, *input)));
        let whole: Vec<usize> = all.clone().filter(whole).collect();
        match whole.is_empty() {
            true => all.collect(),
            false => whole,
        }
    }

    /// "2 of 8 segments", where figures are not of all.
    pub(super) fn covered_in_words(&self) -> Option<String> {
        let (covered, all) = (self.covered().len(), self.inputs.len());
        (covered < all).then(|| format!("{covered} of {}", counted(all, "segment")))
    }

    /// In how many runs some row was measured on each of these segments.
    pub(super) fn complete_runs(&self) -> u32 {
        let covered = self.covered();
        let measured = self.measurements.iter();
        let measured: HashSet<_> = measured.map(|of| (of.row, of.run, of.input)).collect();
        let is_complete = |row: usize, run: u32| {
            let mut inputs = covered.iter();
            inputs.all(|input| measured.contains(&(row, run, *input)))
        };
        let runs = 1..=self.settings.runs;
        let complete = |row: usize| runs.clone().filter(|run| is_complete(row, *run)).count();
        let most = (0..self.rows.len()).map(complete).max();
        most.unwrap_or_default() as u32
    }

    /// With how many threads a row works on this machine.
    pub fn threads(&self, row: &Row) -> usize {
        match row.threads {
            Threads::One => 1,
            Threads::All => self.provenance.cpus,
        }
    }
}

impl Record for Results {
    fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.csv(to)
    }

    fn report(&self) -> io::Result<String> {
        self.page()
    }

    fn stopped(&mut self) -> &mut Option<String> {
        &mut self.stopped
    }
}
