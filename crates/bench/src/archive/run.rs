//! Measures.

use std::path::{Path, PathBuf};

use super::archivers::{ARCHIVERS, Archiver, Ready};
use super::kind::Kind;
use super::measure::{Runnable, Schedule};
use super::options::Options;
use super::place::Place;
use super::results::{Missing, Results, Row, Settings};
use crate::contender::find_program;
use crate::error::Error;
use crate::input;
use crate::input::Input;
use crate::process::{Surroundings, memory_floor};
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::scratch::Scratch;

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    if scratch.path().to_str().is_none() {
        let path = scratch.path().display();
        return Err(Error::Usage(format!("the name of {path} is no text")));
    }
    let surroundings = Surroundings {
        launcher: Some(&options.walzip),
        search_path: &options.search_path,
        temp_dir: scratch.path(),
        cancel: &options.cancel,
    };
    let results = measure_all(options, surroundings, progress)?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

fn measure_all(
    options: &Options,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Results, Error> {
    let provenance = Provenance::gather(memory_floor(surroundings));
    let wanted = (&*options.directory, options.segments());
    let inputs = inputs(wanted, surroundings, progress)?;
    let place = Place::new(surroundings.temp_dir.join("data"), &inputs)?;
    let (rows, missing) = find_rows(options, surroundings);
    for missing in &missing {
        progress.note(&missing.to_string());
    }
    if rows.is_empty() {
        return Err(Error::Usage("there is no archiver to measure".to_owned()));
    }
    let settings = Settings {
        runs: options.runs(),
        replay_ms: options.replay().as_millis() as u64,
        quick: options.quick,
    };
    let described = rows.iter().map(|row| describe(row, &place, surroundings));
    let described = described.collect();
    let mut results = Results::new(provenance, settings, place.wal(), described, missing);
    if options.files.resume {
        results.resume(&options.files, progress)?;
    }
    Schedule {
        rows: &rows,
        results: &mut results,
        place: &place,
        surroundings,
        caller: &options.walzip,
        make_repository: options.make_repository,
        files: &options.files,
        progress,
    }
    .measure_all();
    results.provenance.finish();
    results.summarise();
    Ok(results)
}

/// The newest segments of a folder, or of a data directory, whose server may be running.
pub(crate) fn inputs(
    (directory, most): (&Path, usize),
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Vec<Input>, Error> {
    let pg_wal = directory.join("pg_wal");
    if pg_wal.is_dir() {
        return input::gather(&[], Some((&pg_wal, most)), surroundings, progress);
    }
    let mut paths = input::sorted_entries(directory)?;
    paths.retain(|path| path.is_file() && input::is_segment_name(&input::segment_name(path)));
    paths.drain(..paths.len().saturating_sub(most));
    input::gather(&paths, None, surroundings, progress)
}

/// What takes part, and what is not installed.
fn find_rows(options: &Options, surroundings: Surroundings<'_>) -> (Vec<Runnable>, Vec<Missing>) {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for kind in Kind::ALL.into_iter().filter(|kind| options.wants(*kind)) {
        let path = match kind {
            Kind::Walzip => options.walzip.is_file().then(|| options.walzip.clone()),
            other => find_program(other.program(), surroundings.search_path),
        };
        match path {
            Some(path) => rows.extend(of(kind).map(|archiver| (archiver, path.clone()))),
            None => missing.extend(of(kind).map(|archiver| Missing {
                archiver: archiver.name,
                reason: format!("not installed: {}", kind.install()),
            })),
        }
    }
    let place = |row: &Runnable| ARCHIVERS.iter().position(|known| known.name == row.0.name);
    rows.sort_by_key(place);
    (rows, missing)
}

fn of(kind: Kind) -> impl Iterator<Item = &'static Archiver> {
    ARCHIVERS
        .iter()
        .filter(move |archiver| archiver.kind == kind)
}

fn describe(row: &Runnable, place: &Place, surroundings: Surroundings<'_>) -> Row {
    let (archiver, path) = row;
    let kind = archiver.kind;
    let program = Program::identify(path, kind.program(), kind.version(), surroundings);
    let home = PathBuf::from("/HOME");
    let ready = Ready {
        archiver,
        program: path,
        home: &home,
        place,
        surroundings,
    };
    let pushes = ready.pushes().unwrap_or_default();
    let command = pushes.first().map(|call| ready.command(call));
    Row::new(archiver, program, command.unwrap_or_default())
}
