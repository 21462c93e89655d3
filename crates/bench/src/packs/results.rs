//! What was measured, as JSON has it.

use std::io::{self, Write};

use serde::Serialize;

use crate::archive::Wal;
use crate::output::Record;
use crate::provenance::Provenance;

/// Everything that the experiment found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// How it was measured.
    pub settings: Settings,
    /// What was archived.
    pub wal: Wal,
    /// The ways to keep it.
    pub rows: Vec<Row>,
    /// What each of them takes, as far as it was measured.
    pub figures: Vec<Figures>,
    /// What went wrong.
    pub failed: Vec<Failed>,
    /// Why there are fewer figures than were asked for.
    pub stopped: Option<String>,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// The level of walzip.
    pub level: u8,
    /// Whether little was taken on purpose.
    pub quick: bool,
    /// How many segments were got by a call each.
    pub got: usize,
}

/// How segments are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// Each by itself, by zstd.
    Zstd,
    /// Each by itself, by walzip.
    Single,
    /// In packs of so many at most.
    Packs(u16),
}

/// A way to keep segments.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub label: String,
    /// How segments are kept.
    pub kept: Kept,
    /// The command that makes it.
    pub command: String,
    /// The version of its program.
    pub version: String,
}

/// What a way takes.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The index of its row in the results.
    pub row: usize,
    /// Bytes of all that is kept.
    pub stored_bytes: u64,
    /// In how many files.
    pub files: usize,
    /// Processor time of making it for each segment. That of packs comes on top of that of the segments
    /// by themselves.
    pub make_cpu_s: f64,
    /// The most memory that was resident at a time while it was made.
    pub make_peak_memory_bytes: u64,
    /// Processor time of decoding all segments in their order, for each.
    pub decode_cpu_s: f64,
    /// Wall time of getting one segment by a call, each of those that were got.
    pub get_s: Vec<f64>,
    /// The most memory that such a call had.
    pub get_peak_memory_bytes: u64,
}

/// What could not be measured to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The index of its row in the results.
    pub row: usize,
    /// What happened.
    pub reason: String,
}

impl Results {
    /// The figures of a row.
    pub fn figures(&self, row: usize) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.row == row)
    }

    /// How many bytes a row takes for each that the first one does.
    pub(super) fn of_first(&self, figures: &Figures) -> Option<f64> {
        let first = self.figures(0)?.stored_bytes;
        (first > 0).then(|| figures.stored_bytes as f64 / first as f64)
    }

    /// The way that takes the least.
    pub(super) fn smallest(&self) -> Option<&Figures> {
        let packs = self.figures.iter().filter(|figures| {
            let row = self.rows.get(figures.row);
            row.is_some_and(|row| matches!(row.kept, Kept::Packs(_)))
        });
        packs.min_by_key(|figures| figures.stored_bytes)
    }
}

impl Figures {
    pub(super) fn get_median_s(&self) -> Option<f64> {
        crate::spread::spread(self.get_s.iter().copied()).map(|spread| spread.median)
    }

    pub(super) fn get_longest_s(&self) -> Option<f64> {
        self.get_s.iter().copied().reduce(f64::max)
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
