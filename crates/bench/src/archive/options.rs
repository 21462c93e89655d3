//! What to measure, and where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kind::Kind;
use crate::cancel::Cancel;
use crate::output::Files;

/// How many segments are archived unless the caller says otherwise.
const SEGMENTS: usize = 24;
const QUICK_SEGMENTS: usize = 4;
/// How often each measurement is repeated.
const RUNS: u32 = 5;
/// How long a server takes to replay a segment.
const REPLAY: Duration = Duration::from_millis(100);

/// Makes a repository in a directory for a cluster: its system identifier and major.
pub type MakeRepository = fn(&Path, u64, u32) -> Result<(), String>;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// A folder of segments, or a data directory.
    pub directory: PathBuf,
    /// How many segments, the newest ones.
    pub segments: Option<usize>,
    /// Whose archivers; none for all.
    pub kinds: Vec<Kind>,
    /// Few segments, once.
    pub quick: bool,
    /// How often each measurement is repeated.
    pub runs: Option<u32>,
    /// The pause between the calls that get segments for a replay.
    pub replay: Option<Duration>,
    /// The walzip program to measure. It starts what is measured, too (see [`crate::launcher`]).
    pub walzip: PathBuf,
    /// How to make a repository for it, which is not measured.
    pub make_repository: MakeRepository,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where a temporary directory is made; it is gone when [`run`](super::run) returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Asked before each process; kills the one that is running.
    pub cancel: Cancel,
}

impl Options {
    pub(super) fn segments(&self) -> usize {
        let usual = match self.quick {
            true => QUICK_SEGMENTS,
            false => SEGMENTS,
        };
        self.segments.unwrap_or(usual)
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { RUNS })
    }

    pub(super) fn replay(&self) -> Duration {
        self.replay.unwrap_or(REPLAY)
    }

    pub(super) fn wants(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}
