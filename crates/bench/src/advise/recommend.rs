//! What to do, and why: one recommendation for each thing that can be chosen.

mod archive_timeout;
mod checkpoints;
mod packs;
mod program;
mod segment_size;
mod wal_compression;

use serde::Serialize;

pub(super) use archive_timeout::{ADVISED_SECONDS, Timeout};
pub(super) use checkpoints::{Distance, Spacing};

use super::packing::SEGMENTS_MIN;
use super::wal_survey::WalSurvey;
use super::{Advice, Program};
use crate::contender::CONTENDERS;
use crate::wal::Results;

/// One thing that can be chosen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recommendation {
    /// What it is about: a setting, or the program.
    pub subject: &'static str,
    /// What to do, in one line.
    pub advice: String,
    /// Whether that is another choice than today's, as far as today's is known.
    pub change: bool,
    /// Why, from what was measured.
    pub reasons: Vec<String>,
    /// Bytes a day that it saves.
    pub saves_bytes_per_day: Option<f64>,
    /// Of which bytes: archived, or WAL as the server writes and sends it.
    pub saves_of: Saves,
    /// What that is worth in a month, where a price and a retention were given.
    pub saves_per_month: Option<f64>,
}

/// Which bytes are saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Saves {
    /// In the archive.
    #[default]
    Archived,
    /// On the server's disk and on the way to standbys.
    Written,
}

/// How sure the advice is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Confidence {
    /// In a word.
    pub level: Level,
    /// Why.
    pub reasons: Vec<String>,
}

/// How sure, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Measure more before acting on it.
    #[default]
    Low,
    /// Good enough for a choice that can be changed later.
    Medium,
    /// More segments would hardly change it.
    High,
}

impl Level {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
        }
    }
}

/// Segments from which on the advice is more than a guess, and from which on it is sure.
const SEGMENTS_MEDIUM: usize = 4;
const SEGMENTS_HIGH: usize = 8;
/// Relative standard errors of the recommended program's ratio, likewise.
const ERROR_MEDIUM: f64 = 0.15;
const ERROR_HIGH: f64 = 0.05;

impl Advice {
    pub(super) fn recommend(&mut self, results: &Results) {
        self.recommendations = vec![
            self.program(),
            self.wal_compression(),
            self.checkpoints(),
            self.archive_timeout(),
            self.segment_size(),
        ];
        self.recommendations.extend(self.packs());
        self.plans = self.plan();
        self.confidence = self.how_sure();
        self.not_tested = self.left_out(results);
    }

    /// The recommended program.
    pub fn chosen_program(&self) -> Option<&Program> {
        self.programs.get(self.chosen?)
    }

    /// Today's program, where it is known and was measured.
    pub fn program_now(&self) -> Option<&Program> {
        self.programs.get(self.now?)
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.server.as_ref()?.setting(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.server.as_ref()?.number(name)
    }

    /// Bytes of WAL in a day, where they are known well enough to choose by.
    pub(super) fn wal_bytes_per_day(&self) -> Option<f64> {
        self.rate.as_ref()?.bytes_per_day
    }

    /// What bytes a day in the archive cost in a month, once the archive is as long as it
    /// should be.
    fn worth(&self, bytes_per_day: Option<f64>) -> Option<f64> {
        self.limits.storage_per_month(bytes_per_day?)
    }

    fn how_sure(&self) -> Confidence {
        let count = self.measured_segments;
        let error = self
            .chosen_program()
            .and_then(|program| program.ratio_error);
        let mut level = match (count, error) {
            (SEGMENTS_HIGH.., Some(error)) if error <= ERROR_HIGH => Level::High,
            (SEGMENTS_MEDIUM.., Some(error)) if error <= ERROR_MEDIUM => Level::Medium,
            _ => Level::Low,
        };
        let available: usize = self.sources.iter().map(|source| source.available).sum();
        let mut reasons = vec![format!("{count} of {available} segments were measured on")];
        match error {
            Some(error) => reasons.push(format!(
                "the segments differ so that the recommended size may be {:.0}% off (two standard \
                 errors)",
                error * 200.0
            )),
            None => reasons.push("one segment does not tell how much segments differ".to_owned()),
        }
        if self.runs == 1 {
            reasons.push("each time was taken once: sizes are exact, times are not".to_owned());
        }
        if let Some(busy) = &self.busy {
            reasons.push(format!(
                "the machine was busy ({busy}): wall times are too long, so programs were judged by \
                 processor time"
            ));
        }
        if let Some(unknown) = super::rate::unknown(self.rate.as_ref()) {
            level = level.min(match &self.rate {
                Some(_) => Level::Low,
                None => Level::Medium,
            });
            reasons.push(unknown);
        }
        if self.wal.clusters.len() > 1 {
            level = Level::Low;
            reasons.push("the segments are of several clusters".to_owned());
        }
        Confidence { level, reasons }
    }

    fn left_out(&self, results: &Results) -> Vec<String> {
        let measured = |name: &str| {
            self.programs
                .iter()
                .any(|program| program.contender == name)
        };
        let absent: Vec<&str> = CONTENDERS
            .iter()
            .map(|contender| contender.name)
            .filter(|name| !measured(name) && !name.starts_with(crate::contender::WALZIP))
            .collect();
        let mut left_out = Vec::new();
        if !absent.is_empty() {
            left_out.push(format!(
                "other programs and levels: {} (walzip bench wal --all)",
                absent.join(", ")
            ));
        }
        left_out.extend(results.missing.iter().map(ToString::to_string));
        left_out.extend(results.failed.iter().map(|failed| {
            let label = &results.rows[failed.row].label;
            format!("{label}, which failed: {}", failed.reason)
        }));
        left_out.push(
            "the network and the storage that the archive is on (walzip bench segments)".to_owned(),
        );
        left_out.push(
            "transactions per second under another wal_compression; only the processor time of \
             compressing the images was measured (walzip bench wal-compression)"
                .to_owned(),
        );
        left_out.push(
            "what the archive would save with other checkpoints; only the WAL that is written was \
             counted"
                .to_owned(),
        );
        left_out.push("base backups (walzip bench basebackup)".to_owned());
        if self.limits.replay_bytes_per_second.is_none() {
            left_out.push("how fast the server replays WAL (--replay-rate)".to_owned());
        }
        if self.packing.is_none() {
            left_out.push(format!(
                "packs: fewer than {SEGMENTS_MIN} segments follow one another (walzip bench packs)"
            ));
        }
        if self.server.is_none() {
            left_out.push("the server's settings: no server was asked".to_owned());
        }
        left_out
    }
}

impl WalSurvey {
    /// How the images in the WAL are compressed, as `wal_compression` says it.
    pub(super) fn present_compression(&self) -> &'static str {
        let images = self.contents.images.iter();
        let most = images.max_by_key(|(_, counts)| counts.page_bytes);
        match most.map(|(kind, _)| kind.compression) {
            None | Some("none" | "unknown") => "off",
            Some(method) => method,
        }
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 1.0 => format!("{p:.1}%"),
        p => format!("{p:.0}%"),
    }
}
