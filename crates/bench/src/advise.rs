//! What should one choose? From the user's own WAL, archive or server, measured.
//!
//! A few segments are measured with real programs, more are looked at, and the WAL itself is
//! asked what another setting would have made of it: its images are compressed as
//! `wal_compression` would, and the distance of checkpoints is judged by the images that only
//! they made necessary. Each recommendation carries its measured reason; what was not tested is
//! part of the advice, and so is how sure it is.
//!
//! Nothing is written but temporary files, and nothing is asked of a server here: who has a
//! connection hands in what it said.

mod packing;
mod plan;
mod program;
mod rate;
mod recommend;
mod report;
mod sample;
mod server;
mod stretch;
mod text;
mod time;
mod wal_survey;
mod what_if;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use walzip_pgformat::version::VERSIONS;

use crate::cancel::Cancel;
use crate::contender::{CONTENDERS, Request, Selection, WALZIP};
use crate::error::Error;
use crate::output::{Files, Record};
use crate::process::Surroundings;
use crate::progress::Progress;
use crate::provenance::Provenance;
use crate::report::with_data;
use crate::scratch::Scratch;
use crate::verdict::Time;
use crate::wal::{self, Results};

pub use packing::Packing;
pub use plan::Plan;
pub use program::Program;
pub use rate::Rate;
pub use recommend::{Confidence, Level, Recommendation};
pub use sample::{Choice, FileTimes, Sample, choose};
pub use server::{ArchiverStatistics, CheckpointStatistics, Server, WalStatistics};
pub use stretch::{Moment, Stretch};
pub use wal_survey::WalSurvey;
pub use what_if::{Archived, WhatIf};

/// How many segments are measured on unless the caller says otherwise.
pub const SEGMENTS: usize = 6;
/// How many of them are rewritten for each `wal_compression`.
const REWRITTEN: usize = 3;
/// What is measured unless the caller says otherwise: what archives are made with today.
const PROGRAMS: &[&str] = &[
    "gzip:1", "gzip:6", "xz:2", "lz4:1", "zstd:1", "zstd:3", "zstd:9", "walzip:1", "walzip:3",
    "walzip:6", "walzip:9",
];

/// What to advise on, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Segments, folders of segments, or folders of such folders; `.xz` is unpacked first.
    pub files: Vec<PathBuf>,
    /// A server's pg_wal.
    pub pg_wal: Option<PathBuf>,
    /// Segments that the caller has fetched, from an archive or a server.
    pub fetched: Vec<Sample>,
    /// What a server says of itself.
    pub server: Option<Server>,
    /// How many segments are measured on.
    pub segments: usize,
    /// How often each measurement is repeated.
    pub runs: u32,
    /// What to compare instead of the usual programs.
    pub contenders: Vec<Request>,
    /// What compresses the archive today; nothing does when there is none.
    pub now: Option<Selection>,
    /// What the user can afford.
    pub limits: Limits,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where a temporary directory is made; it is gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// A file for a page that shows everything.
    pub report: Option<PathBuf>,
    /// The command that was given, as the page may show it.
    pub command: Option<String>,
    /// Whether that file is replaced if it exists.
    pub force: bool,
    /// Asked before each measurement; kills the one that is running.
    pub cancel: Cancel,
}

/// What the user knows and can afford.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Limits {
    /// Bytes of WAL in a day, where the user knows better.
    pub wal_bytes_per_day: Option<f64>,
    /// How long compressing a segment may take.
    pub seconds_per_segment: Option<f64>,
    /// How long unpacking one may take.
    pub restore_seconds_per_segment: Option<f64>,
    /// The price of keeping 1,000,000,000 bytes for a month.
    pub price_per_gb_month: Option<f64>,
    /// How many days of WAL are kept.
    pub retention_days: Option<f64>,
    /// The price of an hour of one processor.
    pub price_per_cpu_hour: Option<f64>,
    /// How many bytes of WAL the server replays in a second.
    pub replay_bytes_per_second: Option<f64>,
}

impl Options {
    /// On nothing yet.
    pub fn new(walzip: PathBuf, search_path: OsString, temp_dir: PathBuf) -> Options {
        Options {
            files: Vec::new(),
            pg_wal: None,
            fetched: Vec::new(),
            server: None,
            segments: SEGMENTS,
            runs: 1,
            contenders: Vec::new(),
            now: None,
            limits: Limits::default(),
            launcher: None,
            walzip,
            search_path,
            temp_dir,
            report: None,
            command: None,
            force: false,
            cancel: Cancel::default(),
        }
    }

    /// The file that is written, which can be checked before anything is fetched.
    pub fn output(&self) -> Files {
        Files {
            report: self.report.clone(),
            force: self.force,
            ..Files::default()
        }
    }

    fn contenders(&self) -> Vec<Request> {
        let mut contenders = self.contenders.clone();
        if contenders.is_empty() {
            contenders.extend(PROGRAMS.iter().filter_map(|name| name.parse().ok()));
        }
        contenders.extend(self.now.map(|now| Request(vec![now])));
        contenders
    }
}

/// The advice, and everything that it is drawn from.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// The version of this description, 1.
    pub format: u32,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// Where segments come from.
    pub sources: Vec<Source>,
    /// How many were measured on.
    pub measured_segments: usize,
    /// How often.
    pub runs: u32,
    /// What the user said.
    pub limits: Limits,
    /// How much WAL there is, and in a day where that is known.
    pub rate: Option<Rate>,
    /// Which time programs are judged by.
    pub judged_by: Time,
    /// How it shows that the machine was busy.
    pub busy: Option<String>,
    /// What is in the WAL.
    pub wal: WalSurvey,
    /// What the server says, where one was asked.
    pub server: Option<Server>,
    /// What was measured.
    pub programs: Vec<Program>,
    /// The index of the recommended program; none when no program is affordable.
    pub chosen: Option<usize>,
    /// The index of the program that is used today.
    pub now: Option<usize>,
    /// The same WAL under each `wal_compression`.
    pub what_if: Vec<WhatIf>,
    /// What packs would make of it; nothing where too few segments follow one another.
    pub packing: Option<Packing>,
    /// What to do.
    pub recommendations: Vec<Recommendation>,
    /// The same in lines that can be pasted: with walzip, and with what is there already.
    pub plans: Vec<Plan>,
    /// How sure that is.
    pub confidence: Confidence,
    /// What nothing was found out about.
    pub not_tested: Vec<String>,
    /// The measurements as CSV: the page has them.
    #[serde(skip)]
    csv: String,
}

/// A directory or repository that segments come from.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// How many segments there are.
    pub available: usize,
    /// How many were measured on.
    pub measured: usize,
    /// How many were looked at.
    pub looked_at: usize,
}

/// Samples, looks, measures and advises.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Advice, Error> {
    let files = options.output();
    files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-advise-")?;
    let advice = advise(options, scratch.path(), progress)?;
    scratch.close()?;
    files.put(files.report.as_deref(), |to| {
        let page = with_data(&advice.page(), &advice.csv, options.command.as_deref());
        to.write_all(page.as_bytes())
    })?;
    Ok(advice)
}

/// The refusal of files that hold no WAL of any known major.
fn no_segment() -> String {
    let majors = VERSIONS.iter().map(|version| version.major);
    let oldest = majors.clone().min().unwrap_or_default();
    let newest = majors.max().unwrap_or_default();
    format!("none of the files is a WAL segment of PostgreSQL {oldest} to {newest}")
}

/// A server's settings say nothing of another cluster's WAL.
fn check_whose(survey: &WalSurvey, server: Option<&Server>) -> Result<(), Error> {
    match server.and_then(|server| server.system_identifier.as_ref()) {
        Some(server) if !survey.clusters.contains(server) => Err(Error::OtherCluster {
            server: server.clone(),
            segments: survey.clusters.iter().cloned().collect(),
        }),
        _ => Ok(()),
    }
}

fn advise(
    options: &Options,
    temp_dir: &Path,
    progress: &mut impl Progress,
) -> Result<Advice, Error> {
    let samples = samples(options, temp_dir, progress)?;
    let measured: Vec<PathBuf> = all(&samples, |sample| &sample.measured);
    let looked_at = all(&samples, |sample| &sample.looked_at);
    let survey = WalSurvey::of(&looked_at, &options.cancel)?;
    if survey.segments == 0 {
        return Err(Error::Usage(no_segment()));
    }
    check_whose(&survey, options.server.as_ref())?;
    let rate = rate::rate(
        options.limits.wal_bytes_per_day,
        options.server.as_ref(),
        &survey,
        &samples,
    );
    let results = measure(options, measured.clone(), options.contenders(), progress)?;
    let busy = time::busy(&results);
    let judged_by = match &busy {
        Some(_) => Time::Processor,
        None => Time::Wall,
    };
    let mut programs = program::programs(&results, &options.limits, rate.as_ref(), judged_by);
    let chosen = program::choose(&programs, &options.limits);
    let now = options.now.and_then(|now| {
        let is_now =
            |program: &Program| (program.contender, program.level) == (now.name, now.level);
        programs.iter().position(is_now)
    });
    let what_if = what_if(
        options,
        &measured,
        &survey,
        (&mut programs, chosen),
        judged_by,
        temp_dir,
        progress,
    )?;
    let packing = Packing::measure(&looked_at, &options.cancel, progress)?;
    let mut advice = Advice {
        format: 1,
        sources: samples.iter().map(Source::of).collect(),
        measured_segments: results.inputs.len(),
        runs: results.settings.runs,
        limits: options.limits,
        rate,
        judged_by,
        busy,
        wal: survey,
        server: options.server.clone(),
        programs,
        chosen,
        now,
        what_if,
        packing,
        recommendations: Vec::new(),
        plans: Vec::new(),
        confidence: Confidence::default(),
        not_tested: Vec::new(),
        provenance: results.provenance.clone(),
        csv: as_csv(&results),
    };
    advice.recommend(&results);
    Ok(advice)
}

/// The measurements, one a line.
fn as_csv(results: &Results) -> String {
    let mut csv = Vec::new();
    let _infallible = results.write_csv(&mut csv);
    String::from_utf8_lossy(&csv).into_owned()
}

impl Source {
    fn of(sample: &Sample) -> Source {
        Source {
            name: sample.source.clone(),
            available: sample.available,
            measured: sample.measured.len(),
            looked_at: sample.looked_at.len(),
        }
    }
}

fn all(samples: &[Sample], of: impl Fn(&Sample) -> &Vec<PathBuf>) -> Vec<PathBuf> {
    samples
        .iter()
        .flat_map(|sample| of(sample).clone())
        .collect()
}

fn samples(
    options: &Options,
    temp_dir: &Path,
    progress: &mut impl Progress,
) -> Result<Vec<Sample>, Error> {
    let surroundings = Surroundings {
        launcher: options.launcher.as_deref(),
        search_path: &options.search_path,
        temp_dir,
        cancel: &options.cancel,
    };
    let mut samples = options.fetched.clone();
    if !options.files.is_empty() {
        let count = options.segments;
        samples.push(sample::of_files(
            &options.files,
            count,
            surroundings,
            progress,
        )?);
    }
    if let Some(directory) = &options.pg_wal {
        samples.push(sample::of_pg_wal(
            directory,
            options.segments,
            surroundings,
        )?);
    }
    if samples.iter().all(|sample| sample.measured.is_empty()) {
        return Err(Error::Usage(
            "nothing to advise on: name WAL segments, a pg_wal directory, an archive or a server"
                .to_owned(),
        ));
    }
    Ok(samples)
}

fn measure(
    options: &Options,
    inputs: Vec<PathBuf>,
    contenders: Vec<Request>,
    progress: &mut impl Progress,
) -> Result<Results, Error> {
    let options = wal::Options {
        inputs,
        contenders,
        runs: Some(options.runs),
        cancel: options.cancel.clone(),
        launcher: options.launcher.clone(),
        ..wal::Options::new(
            options.walzip.clone(),
            options.search_path.clone(),
            options.temp_dir.clone(),
        )
    };
    let results = wal::run(&options, progress)?;
    // Advice from half of the programs would be bad advice.
    match &results.stopped {
        Some(_) if options.cancel.is_requested() => Err(Error::Interrupted),
        Some(reason) => Err(Error::Stopped {
            reason: reason.clone(),
        }),
        None => Ok(results),
    }
}

/// Rewrites some segments for each `wal_compression` and measures on them; and, by the way,
/// what the programs make of an empty segment.
fn what_if(
    options: &Options,
    measured: &[PathBuf],
    survey: &WalSurvey,
    (programs, chosen): (&mut [Program], Option<usize>),
    judged_by: Time,
    temp_dir: &Path,
    progress: &mut impl Progress,
) -> Result<Vec<WhatIf>, Error> {
    let directory = temp_dir.join("what-if");
    let empty = directory.join("empty");
    fs::create_dir_all(&empty).map_err(|source| Error::file(&empty, source))?;
    let indexes = choose(measured.len(), REWRITTEN, 0).measured;
    let chosen_files: Vec<PathBuf> = indexes
        .iter()
        .map(|index| measured[*index].clone())
        .collect();
    // Of several majors, the oldest knows the fewest settings.
    let major = survey.majors.first().copied().unwrap_or_default();
    let mut settings = what_if::rewrite_all(
        &chosen_files,
        major,
        survey.present_compression(),
        &directory,
    )?;
    let mut inputs: Vec<PathBuf> = settings
        .iter()
        .flat_map(|what_if| what_if.files.clone())
        .collect();
    let like =
        fs::read(&chosen_files[0]).map_err(|source| Error::file(&chosen_files[0], source))?;
    if let Some(segment) = what_if::empty_segment(&like) {
        let path = empty.join("000000010000000000000001");
        fs::write(&path, segment).map_err(|source| Error::file(&path, source))?;
        inputs.push(path);
    }
    let contenders = asked_of_settings(programs, chosen, options.now);
    let results = measure(options, inputs, contenders, progress)?;
    for summary in &results.summary {
        let label = &results.rows[summary.row].label;
        for of_folder in &summary.folders {
            let figures = of_folder.figures;
            if of_folder.folder == "empty"
                && let Some(program) = programs.iter_mut().find(|found| found.label == *label)
            {
                program.empty_segment_bytes = Some(figures.output_bytes);
                program.empty_segment_s =
                    Some(judged_by.of((figures.compress_s, figures.compress_cpu_s)));
            }
            let setting = settings
                .iter_mut()
                .find(|of| of.setting == of_folder.folder);
            if let Some(what_if) = setting {
                what_if.archived.push(Archived {
                    label: label.clone(),
                    bytes: figures.output_bytes,
                    compress_cpu_s: figures.compress_cpu_s * figures.segments as f64,
                });
            }
        }
    }
    Ok(settings)
}

/// The recommended program, today's, and walzip's default; zstd -1 is always measured.
fn asked_of_settings(
    programs: &[Program],
    chosen: Option<usize>,
    now: Option<Selection>,
) -> Vec<Request> {
    let default = CONTENDERS
        .iter()
        .find(|contender| contender.name == WALZIP)
        .map(|contender| Selection {
            name: contender.name,
            level: DEFAULT_LEVEL,
        });
    let chosen = chosen.map(|chosen| Selection {
        name: programs[chosen].contender,
        level: programs[chosen].level,
    });
    let selections: Vec<Selection> = [chosen, now, default].into_iter().flatten().collect();
    vec![Request(selections)]
}

/// walzip's level unless it is told otherwise.
const DEFAULT_LEVEL: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_another_cluster_are_refused() {
        let survey = WalSurvey {
            clusters: ["71".to_owned(), "72".to_owned()].into(),
            ..WalSurvey::default()
        };
        let server = |identifier: Option<&str>| Server {
            system_identifier: identifier.map(str::to_owned),
            ..Server::default()
        };
        for known in [None, Some("72")] {
            assert!(check_whose(&survey, Some(&server(known))).is_ok());
        }
        assert!(check_whose(&survey, None).is_ok());
        let refused = check_whose(&survey, Some(&server(Some("8"))));
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains("identifier 8") && said.contains("71, 72"),
            "{said}"
        );
    }
}
