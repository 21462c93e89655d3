//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::archive::MakeRepository;
use crate::cancel::Cancel;
use crate::output::Files;

/// How many segments are packed unless the caller says otherwise.
const SEGMENTS: usize = 64;
const QUICK_SEGMENTS: usize = 8;
/// How many segments packs have.
const LENGTHS: [u16; 3] = [16, 64, 256];
const QUICK_LENGTHS: [u16; 2] = [4, 8];
const LEVEL: u8 = 3;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// A folder of segments, or a data directory.
    pub directory: PathBuf,
    /// How many segments, the newest ones.
    pub segments: Option<usize>,
    /// How many segments packs have; none for the usual ones.
    pub lengths: Vec<u16>,
    /// The level of walzip.
    pub level: Option<u8>,
    /// Few segments.
    pub quick: bool,
    /// The walzip program to measure. It starts what is measured, too (see [`crate::launcher`]).
    pub walzip: PathBuf,
    /// How to make a repository for it, which is not measured.
    pub make_repository: MakeRepository,
    /// Where zstd is looked for: the value of PATH.
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

    /// Each length once, and of those that take all segments the shortest: the others make the same.
    pub(super) fn lengths(&self, segments: usize) -> Vec<u16> {
        let mut lengths = match (self.lengths.is_empty(), self.quick) {
            (false, _) => self.lengths.clone(),
            (true, true) => QUICK_LENGTHS.to_vec(),
            (true, false) => LENGTHS.to_vec(),
        };
        lengths.sort_unstable();
        lengths.dedup();
        let is_enough = |length: &u16| usize::from(*length) >= segments;
        let enough = lengths.iter().position(is_enough);
        lengths.truncate(enough.map_or(lengths.len(), |at| at + 1));
        lengths
    }

    pub(super) fn level(&self) -> u8 {
        self.level.unwrap_or(LEVEL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_all_segments_are_not_measured_twice() {
        let options = |lengths: &[u16]| Options {
            directory: PathBuf::new(),
            segments: None,
            lengths: lengths.to_vec(),
            level: None,
            quick: false,
            walzip: PathBuf::new(),
            make_repository: |_, _, _| Ok(()),
            search_path: OsString::new(),
            temp_dir: PathBuf::new(),
            files: Files::default(),
            cancel: Cancel::default(),
        };
        assert_eq!(options(&[]).lengths(1000), [16, 64, 256]);
        assert_eq!(options(&[]).lengths(64), [16, 64]);
        assert_eq!(options(&[]).lengths(20), [16, 64]);
        assert_eq!(options(&[9, 2, 9, 4]).lengths(3), [2, 4]);
    }
}
