//! Measures.

use super::measure::Experiment;
use super::measurement::Row;
use super::methods::{PGBACKREST, Taker};
use super::on_server::server_settings;
use super::options::Options;
use super::probe::probe;
use super::results::{Results, Settings};
use super::resume::Earlier;
use crate::contender::find_program;
use crate::error::Error;
use crate::package::how_to_install;
use crate::process::{Surroundings, memory_floor};
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::scratch::Scratch;
use crate::server::Installation;

/// How often each backup is taken before it is measured.
const WARM_UPS: u32 = 1;
/// The first major whose server compresses backups.
const FIRST_MAJOR: u32 = 15;

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let surroundings = Surroundings {
        launcher: options.launcher.as_deref(),
        search_path: &options.search_path,
        temp_dir: scratch.path(),
        cancel: &options.cancel,
    };
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        &options.temp_dir,
        &options.cancel,
    )?;
    if installation.major < FIRST_MAJOR {
        return Err(Error::Usage(format!(
            "PostgreSQL {} does not compress backups in the server: {FIRST_MAJOR} is the first \
             that does",
            installation.major
        )));
    }
    probe(options, &installation, surroundings)?;
    let mut results = results(options, &installation, surroundings)?;
    let earlier = match options.files.resume {
        true => Earlier::read(options, &mut results, progress)?,
        false => None,
    };
    let mut experiment = Experiment::new(options, &installation, results, surroundings, progress)?;
    experiment.earlier = earlier;
    experiment.measure_all();
    let results = experiment.finish()?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

/// Results that have no measurement yet.
fn results(
    options: &Options,
    installation: &Installation,
    surroundings: Surroundings<'_>,
) -> Result<Results, Error> {
    let provenance = Provenance::gather(memory_floor(surroundings));
    let client = installation.program("pg_basebackup")?;
    let client = Program::identify(&client, "postgresql-client", &["--version"], surroundings);
    let walzip = Program::identify(&options.walzip, "walzip", &["--version"], surroundings);
    let name = PGBACKREST;
    let pgbackrest = find_program(name, &options.search_path)
        .map(|path| Program::identify(&path, name, &["version"], surroundings));
    let row = |taker: Taker| Row {
        label: taker.label(),
        taker,
        program: match taker {
            Taker::PgBasebackup { .. } => client.clone(),
            Taker::PgBackRest => pgbackrest.clone().unwrap_or_else(|| client.clone()),
            Taker::Walzip { .. } => walzip.clone(),
        },
        command: taker.command_line(),
        published_rank: taker.published_rank(),
    };
    let rows = Taker::all(options.quick, pgbackrest.is_some())
        .into_iter()
        .map(row)
        .collect();
    let settings = Settings {
        loops: options.loops(),
        warm_ups: WARM_UPS,
        quick: options.quick,
        servers: server_settings().line(),
    };
    let mut results = Results::new(provenance, settings, installation.program.clone(), rows);
    if pgbackrest.is_none() {
        let install = how_to_install(name);
        let left_out = format!("pgBackRest is not installed ({install})");
        results.left_out.push(left_out);
    }
    Ok(results)
}
