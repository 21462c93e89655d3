//! What to measure, and where.

use std::ffi::OsString;
use std::path::PathBuf;

use super::published::{PUBLISHED, Published};
use crate::cancel::Cancel;
use crate::contender::{
    BASELINE, CONTENDERS, Contender, Request, Selection, WALZIP, WALZIP_UNVERIFIED,
};
use crate::input::{SAMPLE_SEGMENTS, Take};
use crate::output::Files;
use crate::sample::Sample;
use crate::sample::Sampled;

/// How often each measurement is repeated unless the caller says otherwise.
const RUNS: u32 = 3;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Segments, folders of segments, or folders of such folders; `.xz` is unpacked first.
    pub inputs: Vec<PathBuf>,
    /// A server's pg_wal: its newest complete segments are copied and measured on.
    pub pg_wal: Option<PathBuf>,
    /// How many segments of `pg_wal` are taken.
    pub segments: Option<usize>,
    /// What to compare instead of the first comparison; zstd -1 is always part of it.
    pub contenders: Vec<Request>,
    /// Every contender at every level.
    pub all: bool,
    /// Also the published comparison, nine programs at nine levels each, and every level of
    /// walzip; with `quick` eleven of its 81 pairs.
    pub published: bool,
    /// The first segment of each folder, one run.
    pub quick: bool,
    /// Some of the segments below `inputs`, at random; of `pg_wal` the newest are taken in any case.
    pub sample: Option<Sample>,
    /// What `inputs` are a random sample of, where the caller took it.
    pub sampled: Option<Sampled>,
    /// How often each measurement is repeated.
    pub runs: Option<u32>,
    /// Run walzip without decoding what it wrote before it reports success.
    pub no_verify: bool,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where a temporary directory is made; it is gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Asked before each measurement; kills the one that is running.
    pub cancel: Cancel,
}

impl Options {
    /// The first comparison, on nothing yet.
    pub fn new(walzip: PathBuf, search_path: OsString, temp_dir: PathBuf) -> Options {
        Options {
            inputs: Vec::new(),
            pg_wal: None,
            segments: None,
            contenders: Vec::new(),
            all: false,
            published: false,
            quick: false,
            sample: None,
            sampled: None,
            runs: None,
            no_verify: false,
            launcher: None,
            walzip,
            search_path,
            temp_dir,
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    pub(super) fn take(&self) -> Take {
        match (self.sample, self.quick) {
            (Some(sample), _) => Take::AtRandom(sample),
            (None, true) => Take::FirstOfFolder,
            (None, false) => Take::All,
        }
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs
            .unwrap_or(if self.quick { 1 } else { RUNS })
            .max(1)
    }

    /// How many segments are taken of a directory or repository that may hold thousands.
    pub fn segments(&self) -> usize {
        let usual = if self.quick { 1 } else { SAMPLE_SEGMENTS };
        self.segments.unwrap_or(usual).max(1)
    }

    /// What was asked for, in the table's order, zstd -1 included.
    pub(super) fn selections(&self) -> Vec<Selection> {
        let mut requested: Vec<Selection> = self
            .contenders
            .iter()
            .flat_map(|request| request.0.iter().copied())
            .collect();
        if self.published {
            let wanted = PUBLISHED
                .iter()
                .filter(|pair| !self.quick || pair.is_quick());
            requested.extend(wanted.map(Published::selection));
            requested.extend(walzip_levels());
        }
        let mut chosen = vec![BASELINE];
        for contender in CONTENDERS {
            let levels = if self.all {
                contender.levels
            } else {
                contender.first
            };
            let listed = levels.iter().map(|&level| Selection {
                name: contender.name,
                level,
            });
            if requested.is_empty() {
                chosen.extend(listed);
            } else {
                chosen.extend(
                    requested
                        .iter()
                        .filter(|selection| selection.name == contender.name),
                );
            }
        }
        if self.no_verify {
            for selection in &mut chosen {
                if selection.name == WALZIP {
                    selection.name = WALZIP_UNVERIFIED;
                }
            }
        }
        let order = |selection: &Selection| {
            (
                CONTENDERS
                    .iter()
                    .position(|contender| contender.name == selection.name),
                selection.level,
            )
        };
        chosen.sort_by_key(order);
        chosen.dedup();
        chosen
    }
}

/// walzip at each of its levels.
fn walzip_levels() -> impl Iterator<Item = Selection> {
    let levels = Contender::named(WALZIP).map_or(&[][..], |walzip| walzip.levels);
    levels.iter().map(|&level| Selection {
        name: WALZIP,
        level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(PathBuf::from("walzip"), OsString::new(), PathBuf::from("."))
    }

    fn labels(options: &Options) -> Vec<String> {
        let label = |selection: &Selection| {
            let contender = Contender::named(selection.name).unwrap();
            contender.label(selection.level)
        };
        options.selections().iter().map(label).collect()
    }

    #[test]
    fn the_first_comparison_is_small() {
        assert_eq!(
            labels(&options()).join(", "),
            "gzip -1, gzip -6, xz -2, xz -9, lz4 -1, zstd -1, zstd -3, zstd -19, \
             walzip -1, walzip -3, walzip -6, walzip -9"
        );
    }

    #[test]
    fn the_baseline_is_part_of_every_comparison_once() {
        let mut options = options();
        options.contenders = vec!["walzip:3".parse().unwrap()];
        assert_eq!(labels(&options), ["zstd -1", "walzip -3"]);
        options.contenders = vec!["zstd:1-2".parse().unwrap(), "zstd:1".parse().unwrap()];
        assert_eq!(labels(&options), ["zstd -1", "zstd -2"]);
    }

    #[test]
    fn the_published_comparison_is_measured_with_every_level_of_walzip() {
        let mut options = Options {
            published: true,
            ..options()
        };
        let all = labels(&options);
        assert_eq!(all.len(), 81 + 1 + 9);
        for label in ["7za -mx=8", "xz -9 -T0", "lrzip -z -L4", "walzip -9"] {
            assert!(all.iter().any(|there| there == label), "{label}");
        }
        options.quick = true;
        assert_eq!(
            labels(&options).join(", "),
            "gzip -1, gzip -6, pigz -1, bzip2 -9, lbzip2 -9, xz -2, xz -9, xz -2 -T0, 7za -mx=1, \
             lrzip -l -L1, lrzip -z -L9, zstd -1, walzip -1, walzip -2, walzip -3, walzip -4, \
             walzip -5, walzip -6, walzip -7, walzip -8, walzip -9"
        );
    }

    #[test]
    fn all_means_every_level_of_every_row() {
        let everything = Options {
            all: true,
            ..options()
        };
        let levels: usize = CONTENDERS
            .iter()
            .map(|contender| contender.levels.len())
            .sum();
        assert_eq!(everything.selections().len(), levels);
    }

    #[test]
    fn no_verify_replaces_walzip_by_its_unverified_row() {
        let options = Options {
            no_verify: true,
            ..options()
        };
        assert!(labels(&options).contains(&"walzip -3 --no-verify".to_owned()));
        assert!(!labels(&options).contains(&"walzip -3".to_owned()));
    }
}
