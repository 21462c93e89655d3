//! What was measured, as JSON has it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::archivers::Archiver;
use super::kind::Kind;
use super::place::Wal;
use crate::output::Record;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::spread::{Spread, spread};

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
    /// What took part.
    pub rows: Vec<Row>,
    /// What could not.
    pub missing: Vec<Missing>,
    /// All segments pushed or got by one archiver once.
    pub measurements: Vec<Measurement>,
    /// What went wrong.
    pub failed: Vec<Failed>,
    /// Earlier runs that some of the measurements are of.
    pub resumed: Vec<Resumed>,
    /// Why there are fewer measurements than were asked for.
    pub stopped: Option<String>,
    /// What it comes to.
    pub summary: Vec<Figures>,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// How often each measurement was repeated.
    pub runs: u32,
    /// The pause between the calls for a replay.
    pub replay_ms: u64,
    /// Whether little was taken on purpose.
    pub quick: bool,
}

/// An archiver that took part.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub archiver: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// Whether it works in the background too.
    pub background: bool,
    /// The program.
    pub program: Program,
    /// The command that pushes a segment.
    pub command: String,
}

impl Row {
    pub(super) fn new(archiver: &Archiver, program: Program, command: String) -> Row {
        Row {
            archiver: archiver.name,
            kind: archiver.kind,
            background: archiver.background,
            program,
            command,
        }
    }

    pub(super) fn is_walzip(&self) -> bool {
        self.kind == Kind::Walzip
    }
}

/// An archiver that could not take part.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// Its name.
    pub archiver: &'static str,
    /// Why not, and what helps.
    pub reason: String,
}

/// What an archiver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A call for each segment archives it.
    Push,
    /// A call for each segment gets it, one after the other.
    Get,
    /// The same, with a pause between the calls in which a server replays.
    Replay,
}

impl Action {
    /// Each of them, in their order.
    pub const ALL: [Action; 3] = [Action::Push, Action::Get, Action::Replay];

    /// The word for CSV.
    pub fn name(self) -> &'static str {
        match self {
            Action::Push => "push",
            Action::Get => "get",
            Action::Replay => "replay",
        }
    }
}

/// All segments pushed or got.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The index of its row in the results.
    pub row: usize,
    /// What was done.
    pub action: Action,
    /// In which run, counting from 1.
    pub run: u32,
    /// Wall time of all calls, without the pauses.
    pub wall_s: f64,
    /// The longest call.
    pub longest_s: f64,
    /// Processor time of the calls and of what worked in the background.
    pub cpu_s: f64,
    /// The bytes of the archive.
    pub stored_bytes: u64,
}

/// What an archiver could not do; it was not tried again.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The index of its row in the results.
    pub row: usize,
    /// What was being done.
    pub action: Action,
    /// What happened.
    pub reason: String,
}

/// What an archiver comes to: medians over the runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// The index of its row in the results.
    pub row: usize,
    /// What was done.
    pub action: Action,
    /// Wall time for each segment.
    pub segment_s: f64,
    /// Half the range of the wall times relative to the median; none with a single run.
    pub spread: Option<f64>,
    /// Processor time for each segment.
    pub segment_cpu_s: f64,
    /// The longest call of all runs.
    pub longest_s: f64,
    /// The bytes of the archive.
    pub stored_bytes: u64,
}

impl Results {
    pub(super) fn new(
        provenance: Provenance,
        settings: Settings,
        wal: Wal,
        rows: Vec<Row>,
        missing: Vec<Missing>,
    ) -> Results {
        Results {
            experiment: "archive",
            provenance,
            settings,
            wal,
            rows,
            missing,
            measurements: Vec::new(),
            failed: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            summary: Vec::new(),
        }
    }

    /// Works out the medians.
    pub(super) fn summarise(&mut self) {
        for row in 0..self.rows.len() {
            for action in Action::ALL {
                let wall = self.spread_of(row, action, |m, segments| m.wall_s / segments);
                let cpu = self.spread_of(row, action, |m, segments| m.cpu_s / segments);
                let measured = || self.measured(row, action);
                let (Some(last), Some(wall), Some(cpu)) = (measured().last(), wall, cpu) else {
                    continue;
                };
                let longest = measured().map(|m| m.longest_s);
                self.summary.push(Figures {
                    row,
                    action,
                    segment_s: wall.median,
                    spread: wall.half_range,
                    segment_cpu_s: cpu.median,
                    longest_s: longest.fold(0.0, f64::max),
                    stored_bytes: last.stored_bytes,
                });
            }
        }
    }

    fn measured(&self, row: usize, action: Action) -> impl Iterator<Item = &Measurement> {
        let all = self.measurements.iter();
        all.filter(move |of| (of.row, of.action) == (row, action))
    }

    /// A value of each run, given the number of segments.
    pub(super) fn spread_of(
        &self,
        row: usize,
        action: Action,
        value: fn(&Measurement, f64) -> f64,
    ) -> Option<Spread> {
        let segments = self.wal.segments.max(1) as f64;
        spread(self.measured(row, action).map(|of| value(of, segments)))
    }

    /// The figures of an archiver.
    pub fn figures(&self, row: usize, action: Action) -> Option<&Figures> {
        let mut summary = self.summary.iter();
        summary.find(|figures| (figures.row, figures.action) == (row, action))
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
