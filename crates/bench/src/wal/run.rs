//! Measures.

use std::path::{Path, PathBuf};

use super::dominance::{self, Dominance};
use super::options::Options;
use super::results::{Missing, Results, Row, Settings};
use super::schedule::{Runnable, Schedule};
use super::summary;
use crate::contender::{Contender, Selection, find_program};
use crate::error::Error;
use crate::input;
use crate::output::check_space;
use crate::process::{Surroundings, memory_floor};
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::scratch::Scratch;

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
    let (inputs, sampled) = input::gather_some(
        &options.inputs,
        options
            .pg_wal
            .as_deref()
            .map(|directory| (directory, options.segments())),
        options.take(),
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
        sampled: sampled.or(options.sampled),
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
    Schedule {
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
