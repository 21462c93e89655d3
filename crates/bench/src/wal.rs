//! Which program and level is best for archived segments?
//!
//! Each measurement compresses one segment with one program at one level, decompresses the
//! result, and compares: a figure exists only when the round trip gave back every byte. The
//! runs are interleaved (each run visits every segment with every contender, in another order
//! than the round before), so that a slow minute of the machine, or a program that leaves it
//! slow, hits all alike.

mod as_published;
mod csv;
mod dominance;
mod dominance_text;
#[cfg(test)]
pub(crate) mod fixture;
mod published;
mod report;
mod results;
mod resume;
mod runs;
mod schedule;
mod summary;
mod text;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;

use crate::contender::{
    self, BASELINE, CONTENDERS, Contender, Request, Selection, WALZIP, WALZIP_UNVERIFIED,
    find_program,
};
use crate::input::{self, SAMPLE_SEGMENTS};
use crate::output::{Files, check_space};
use crate::process::{self, Failure, Surroundings, memory_floor};
use crate::provenance::Program;
use crate::{Cancel, Error, Input, Progress, Provenance, Scratch, Usage};

pub use as_published::{AsPublished, PublishedHere};
pub use dominance::{Answer, Dominance, Smaller, Verdict, Winner};
pub use published::{PUBLISHED, Published};
pub use results::{
    Failed, Figures, FolderFigures, Measurement, Missing, Results, Row, Settings, Summary,
};

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
    /// Also the programs and levels of the published comparison, and every level of walzip.
    pub published: bool,
    /// The first segment of each folder, one run.
    pub quick: bool,
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

    fn runs(&self) -> u32 {
        self.runs
            .unwrap_or(if self.quick { 1 } else { RUNS })
            .max(1)
    }

    /// How many segments are taken of a place that may hold thousands.
    pub fn segments(&self) -> usize {
        let usual = if self.quick { 1 } else { SAMPLE_SEGMENTS };
        self.segments.unwrap_or(usual).max(1)
    }

    /// What was asked for, in the table's order, zstd -1 included.
    fn selections(&self) -> Vec<Selection> {
        let mut requested: Vec<Selection> = self
            .contenders
            .iter()
            .flat_map(|request| request.0.iter().copied())
            .collect();
        if self.published {
            requested.extend(PUBLISHED.iter().map(Published::selection));
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
        let place = |selection: &Selection| {
            (
                CONTENDERS
                    .iter()
                    .position(|contender| contender.name == selection.name),
                selection.level,
            )
        };
        chosen.sort_by_key(place);
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

/// Measures; what stops it after the first measurement is part of the results.
///
/// The files that the options name are written in any case, under a temporary name first.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let results = measure_all(options, scratch.path(), progress)?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

fn measure_all(
    options: &Options,
    temp_dir: &Path,
    progress: &mut impl Progress,
) -> Result<Results, Error> {
    let surroundings = Surroundings {
        launcher: options.launcher.as_deref(),
        search_path: &options.search_path,
        temp_dir,
        cancel: &options.cancel,
    };
    let provenance = Provenance::gather(memory_floor(surroundings));
    let (rows, missing) = find_rows(options, surroundings, progress)?;
    let inputs = input::gather(
        &options.inputs,
        options
            .pg_wal
            .as_deref()
            .map(|directory| (directory, options.segments())),
        options.quick,
        surroundings,
        progress,
    )?;
    let largest = inputs
        .iter()
        .map(|input| input.bytes)
        .max()
        .unwrap_or_default();
    check_space(temp_dir, largest.saturating_mul(2))?;
    let settings = Settings {
        runs: options.runs(),
        quick: options.quick,
    };
    let mut results = Results {
        experiment: "wal",
        provenance,
        settings,
        inputs,
        missing,
        rows: rows.iter().map(|(row, _)| row.clone()).collect(),
        measurements: Vec::new(),
        failed: Vec::new(),
        resumed: Vec::new(),
        load_of_others_before: None,
        stopped: None,
        summary: Vec::new(),
        dominance: Dominance::default(),
    };
    if options.files.resume {
        results.resume(&options.files, progress)?;
    }
    schedule::Schedule {
        rows: &rows,
        results: &mut results,
        surroundings,
        files: &options.files,
        progress,
    }
    .measure_all();
    results.provenance.finish();
    results.summary = summary::summarise(&results);
    results.dominance = dominance::compare(&results);
    Ok(results)
}

/// A row of the results, and the program to run for it.
type Runnable = (Row, PathBuf);

fn find_rows(
    options: &Options,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<(Vec<Runnable>, Vec<Missing>), Error> {
    let mut rows: Vec<Runnable> = Vec::new();
    let mut missing: Vec<Missing> = Vec::new();
    for Selection { name, level } in options.selections() {
        let Some(contender) = Contender::named(name) else {
            continue;
        };
        if missing.iter().any(|missing| missing.contender == name) {
            continue;
        }
        let Some(path) = program_of(contender, options) else {
            let absent = Missing {
                contender: name,
                program: contender.programs[0],
                package: contender.package,
            };
            progress.note(&absent.to_string());
            missing.push(absent);
            continue;
        };
        let known = rows
            .iter()
            .find(|(row, known)| row.contender == name && *known == path);
        let program = known
            .map(|(row, _)| row.program.clone())
            .unwrap_or_else(|| {
                Program::identify(&path, contender.package, contender.version, surroundings)
            });
        rows.push((Row::new(contender, level, program), path));
    }
    if rows.is_empty() {
        let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
        return Err(Error::Usage(format!(
            "no program to measure: {}",
            names.join("; ")
        )));
    }
    Ok((rows, missing))
}

fn program_of(contender: &Contender, options: &Options) -> Option<PathBuf> {
    if contender.is_walzip() {
        return options.walzip.is_file().then(|| options.walzip.clone());
    }
    contender
        .programs
        .iter()
        .find_map(|program| find_program(program, &options.search_path))
}

/// What one round trip took, and how many bytes the compressed file has.
struct RoundTrip {
    compress: Usage,
    decompress: Usage,
    output_bytes: u64,
}

/// Compresses, decompresses and compares; leaves no file behind.
fn round_trip(
    contender: &Contender,
    level: u8,
    program: &Path,
    input: &Input,
    surroundings: Surroundings<'_>,
) -> Result<RoundTrip, Failure> {
    let directory = TempDir::new_in(surroundings.temp_dir)?;
    let compressed = directory
        .path()
        .join(format!("{}.{}", input.name, contender.suffix));
    let restored = directory.path().join("restored");
    let measure = |arguments: &[&str], from: &Path, to: &Path| {
        let writes_itself = arguments.contains(&"{output}");
        let output = if writes_itself {
            Stdio::null()
        } else {
            Stdio::from(File::create(to)?)
        };
        let arguments = contender::fill(arguments, level, from, to);
        process::run(
            program,
            &arguments,
            contender.environment,
            output,
            surroundings,
        )
    };
    let compress = measure(contender.compress, &input.path, &compressed)?;
    let output_bytes = fs::metadata(&compressed)?.len();
    let decompress = measure(contender.decompress, &compressed, &restored)?;
    let restored = input::hash(&restored)?.to_string();
    if restored != input.blake3 {
        let reason = format!(
            "the round trip changed the data: BLAKE3 was {} and is {restored}",
            input.blake3
        );
        return Err(Failure::Io(io::Error::other(reason)));
    }
    Ok(RoundTrip {
        compress,
        decompress,
        output_bytes,
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
        let options = Options {
            published: true,
            ..options()
        };
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
