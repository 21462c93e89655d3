//! What was measured, as JSON has it.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::methods::{Kind, Method};
use super::published::{PUBLISHED, Published, SOURCE};
use super::sets::Set;
use crate::output::Record;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::resume::Resumed;
use crate::spread::{Spread, spread};
use crate::usage::Usage;

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
    pub sets: Vec<Set>,
    /// How it was archived.
    pub rows: Vec<Row>,
    /// Ways and contents that could not take part, and why.
    pub left_out: Vec<String>,
    /// Each set archived by one method once.
    pub measurements: Vec<Measurement>,
    /// Each that was not archived.
    pub failed: Vec<Failed>,
    /// Earlier runs that some of the measurements are of.
    pub resumed: Vec<Resumed>,
    /// Why there are fewer measurements than were asked for.
    pub stopped: Option<String>,
    /// What it comes to.
    pub summary: Vec<Figures>,
    /// Where the published figures come from.
    pub published_source: &'static str,
    /// What was published.
    pub published: &'static [Published],
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The file system of the directory that the user named for the archives, if there was one.
    pub target_file_system: Option<String>,
    /// The kind of store that the user named for them, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_store: Option<String>,
    /// What tells the host or store that the user named from others, if there was one: not its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_host: Option<String>,
    /// The bytes of each set that were asked for.
    pub total_bytes: u64,
    /// How often each measurement was repeated.
    pub runs: u32,
    /// Whether little was taken on purpose.
    pub quick: bool,
    /// Whether files were in memory when they were archived.
    pub caches: Caches,
}

impl Settings {
    /// Where archives were made, if the user said it.
    pub(super) fn target(&self) -> Option<String> {
        if let Some(kind) = &self.target_store {
            return Some(format!(
                "archives: in a store of one's own ({kind}); its caches are as they are"
            ));
        }
        if self.target_host.is_some() {
            let said = "archives: at a host of one's own, by SSH; its caches are as they are";
            return Some(said.to_owned());
        }
        let file_system = self.target_file_system.as_ref()?;
        Some(format!(
            "archives: in a directory of one's own, on {file_system}; scp and rsync reach it over the \
             loopback address"
        ))
    }
}

/// Whether files were in memory when they were archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "kebab-case")]
pub enum Caches {
    /// The kernel forgot every file before each measurement.
    Cold,
    /// They may have been, because of this.
    Warm(String),
}

/// A method that took part.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    #[serde(rename = "way")]
    pub method: &'static str,
    /// Whose program it is.
    pub kind: Kind,
    /// Whether the segment is on the disk when the program reports success.
    pub durable: bool,
    /// The program.
    pub program: Program,
    /// The command for each segment.
    pub command: String,
}

impl Row {
    pub(super) fn is_walzip(&self) -> bool {
        matches!(self.kind, Kind::Push | Kind::Filter)
    }

    pub(super) fn new(method: &Method, program: Program) -> Row {
        Row {
            method: method.name,
            kind: method.kind,
            durable: method.durable,
            program,
            command: method.command_line(),
        }
    }
}

/// A set that was archived, file by file, and found complete.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its set in the results.
    pub set: usize,
    /// In which run, counting from 1.
    pub run: u32,
    /// All processes together; the peak of memory is the largest of them. What the SSH server
    /// took is not in it, but for the wall time.
    pub usage: Usage,
    /// The bytes that the archive holds afterwards.
    pub stored_bytes: u64,
}

/// A set that was not archived; it was not tried again.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its set in the results.
    pub set: usize,
    /// What happened.
    pub reason: String,
    /// Whether the program refused what is no WAL, as it should.
    pub refused: bool,
}

/// What a method comes to on a set.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its set in the results.
    pub set: usize,
    /// Wall time of all segments: the median over the runs.
    pub seconds: f64,
    /// Processor time of all segments: the median over the runs.
    pub cpu_seconds: f64,
    /// Half the range of the wall times relative to the median; none with a single run.
    pub spread: Option<f64>,
    /// The bytes that the archive holds afterwards.
    pub stored_bytes: u64,
}

impl Results {
    pub(super) fn new(
        provenance: Provenance,
        settings: Settings,
        sets: Vec<Set>,
        rows: Vec<Row>,
        left_out: Vec<String>,
    ) -> Results {
        Results {
            experiment: "segments",
            provenance,
            settings,
            sets,
            rows,
            left_out,
            measurements: Vec::new(),
            failed: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            summary: Vec::new(),
            published_source: SOURCE,
            published: PUBLISHED,
        }
    }

    /// Works out the medians.
    pub(super) fn summarise(&mut self) {
        for row in 0..self.rows.len() {
            for set in 0..self.sets.len() {
                let of_pair =
                    |measurement: &&Measurement| (measurement.row, measurement.set) == (row, set);
                let measured: Vec<_> = self.measurements.iter().filter(of_pair).collect();
                let Some(last) = measured.last() else {
                    continue;
                };
                let wall = measured.iter().map(|m| m.usage.wall.as_secs_f64());
                let cpu = measured.iter().map(|m| m.usage.cpu().as_secs_f64());
                let (Some(wall), Some(cpu)) = (spread(wall), spread(cpu)) else {
                    continue;
                };
                self.summary.push(Figures {
                    row,
                    set,
                    seconds: wall.median,
                    cpu_seconds: cpu.median,
                    spread: wall.half_range,
                    stored_bytes: last.stored_bytes,
                });
            }
        }
    }

    /// The wall times of a method on a set.
    pub(super) fn seconds(&self, row: usize, set: usize) -> Option<Spread> {
        let of_pair = |measured: &&Measurement| (measured.row, measured.set) == (row, set);
        let measured = self.measurements.iter().filter(of_pair);
        spread(measured.map(|measured| measured.usage.wall.as_secs_f64()))
    }

    /// The figures of a method on a set.
    pub fn figures(&self, row: usize, set: usize) -> Option<&Figures> {
        self.summary
            .iter()
            .find(|figures| (figures.row, figures.set) == (row, set))
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
