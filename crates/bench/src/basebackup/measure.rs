//! The order of the backups, and each of them.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::data_sets::Source;
use super::measurement::{Failed, Measurement, Restored};
use super::methods::{PGBACKREST, Taker};
use super::on_server::{NO_CONFIGURATION, owners_command, server_settings};
use super::options::Options;
use super::pgbackrest::PgBackRest;
use super::restore;
use super::results::Results;
use super::resume::Earlier;
use crate::clock::Clock;
use crate::contender::find_program;
use crate::error::Error;
use crate::output::Files;
use crate::package::how_to_install;
use crate::process::{self, Failure, Surroundings};
use crate::progress::Progress;
use crate::server::{Installation, Server, Settings};
use crate::usage::Usage;

/// How a server says that it was built without a method.
const UNSUPPORTED: &str = "this build does not support compression";
/// The names of walzip, and of what starts it, beside the server.
const WALZIP: &str = "walzip";
const LAUNCHER: &str = "launcher";

/// Everything that a measurement needs or changes.
pub(super) struct Experiment<'a, P> {
    installation: &'a Installation,
    pg_basebackup: PathBuf,
    walzip: &'a Path,
    pgbackrest: Option<PathBuf>,
    connection_environment: &'a [(OsString, OsString)],
    sources: Vec<Source>,
    results: Results,
    surroundings: Surroundings<'a>,
    progress: &'a mut P,
    clock: Clock,
    files: &'a Files,
    /// The run to go on from.
    pub(super) earlier: Option<Earlier>,
}

/// What one backup took, its size, and what restoring it took.
#[derive(Default)]
struct Taken {
    usage: Usage,
    bytes: u64,
    restores: Vec<Usage>,
}

/// What the backups are taken of.
#[derive(Clone, Copy)]
enum Target<'a> {
    ThrowAway(&'a Server),
    /// A connection string.
    Running(&'a str),
}

/// Why the experiment cannot go on.
struct Stop(String);

impl<'a, P: Progress> Experiment<'a, P> {
    pub(super) fn new(
        options: &'a Options,
        installation: &'a Installation,
        results: Results,
        surroundings: Surroundings<'a>,
        progress: &'a mut P,
    ) -> Result<Experiment<'a, P>, Error> {
        let settings = &results.settings;
        let sources = options.sources();
        let turns =
            sources.len() * results.rows.len() * (settings.loops + settings.warm_ups) as usize;
        // walzip comes last: what the others take says enough about the time left.
        let clock = Clock::new(turns, results.rows.len() - 1);
        Ok(Experiment {
            installation,
            pg_basebackup: installation.program("pg_basebackup")?,
            walzip: &options.walzip,
            pgbackrest: find_program(PGBACKREST, &options.search_path),
            connection_environment: &options.connection_environment,
            sources,
            results,
            surroundings,
            progress,
            clock,
            files: &options.files,
            earlier: None,
        })
    }

    /// Backs up every data set in every way, until done or stopped.
    pub(super) fn measure_all(&mut self) {
        for (number, source) in self.sources.clone().iter().enumerate() {
            if let Err(Stop(reason)) = self.data_set(source, number) {
                self.progress.note(&reason);
                self.results = self.with_what_was_not_reached();
                self.results.stopped = Some(reason);
                return;
            }
        }
    }

    /// The results so far, and what the earlier run has of data sets that are still to come: what
    /// is written never has less than the earlier run.
    fn with_what_was_not_reached(&self) -> Results {
        let mut results = self.results.clone();
        let Some(earlier) = &self.earlier else {
            return results;
        };
        let reached = results.data_sets.len();
        for (number, source) in self.sources.iter().enumerate().skip(reached) {
            if source.is_lasting() && earlier.has(&source.data_set(number)) {
                results.data_sets.push(source.data_set(number));
                earlier.hand_over(&mut results);
            }
        }
        results
    }

    /// The results, unless there is none because of an interrupt.
    pub(super) fn finish(mut self) -> Result<Results, Error> {
        if self.results.measurements.is_empty() && self.surroundings.cancel.is_requested() {
            return Err(Error::Interrupted);
        }
        self.results.provenance.finish();
        self.name_unsupported();
        self.results.rank();
        Ok(self.results)
    }

    fn data_set(&mut self, source: &Source, number: usize) -> Result<(), Stop> {
        let name = source.name(number);
        self.results.data_sets.push(source.data_set(number));
        if let (Some(earlier), true) = (&self.earlier, source.is_lasting()) {
            earlier.hand_over(&mut self.results);
        }
        if !(0..self.results.rows.len()).any(|row| self.is_wanted(row)) {
            return Ok(());
        }
        if let Source::Running(connection) = source {
            self.loops(&self.takers(Taker::is_ranked), Target::Running(connection))?;
            let reason = format!(
                "{name}: walzip backup is left out, because the server's WAL would have to be \
                 archived by walzip; so is pgBackRest, which works beside the data directory"
            );
            self.progress.note(&reason);
            self.results.left_out.push(reason);
            return Ok(());
        }
        self.progress
            .note(&format!("{name}: making a server and its data"));
        let mut server = self.prepare(source).map_err(|error| self.stop(&error))?;
        let without_archive = self.takers(|taker| !taker.is_walzip());
        self.loops(&without_archive, Target::ThrowAway(&server))?;
        let archived = self.archive(&mut server);
        archived.map_err(|error| self.stop(&error))?;
        self.loops(&self.takers(Taker::is_walzip), Target::ThrowAway(&server))
    }

    /// The rows of some takers.
    fn takers(&self, are_wanted: fn(&Taker) -> bool) -> Vec<usize> {
        let rows = self.results.rows.iter().enumerate();
        rows.filter(|(_, row)| are_wanted(&row.taker))
            .map(|(index, _)| index)
            .collect()
    }

    /// Whether the last data set lacks a backup by a row.
    fn is_wanted(&self, row: usize) -> bool {
        (1..=self.results.settings.loops).any(|run| !self.is_done(row, run))
    }

    /// Whether a backup of the last data set was taken, or cannot be.
    fn is_done(&self, row: usize, run: u32) -> bool {
        let data_set = self.results.data_sets.len() - 1;
        let failed = |failed: &Failed| (failed.row, failed.data_set) == (row, data_set);
        let measured = |measured: &Measurement| {
            (measured.row, measured.data_set, measured.run) == (row, data_set, run)
        };
        self.results.failed.iter().any(failed) || self.results.measurements.iter().any(measured)
    }

    fn prepare(&mut self, source: &Source) -> Result<Server, Error> {
        let server = self.installation.start(&server_settings())?;
        source.load(&server)?;
        let bytes = server.sql("SELECT sum(pg_database_size(oid)) FROM pg_database")?;
        if let Some(data_set) = self.results.data_sets.last_mut() {
            data_set.bytes = bytes.parse().ok();
        }
        Ok(server)
    }

    /// Makes a repository that the server archives its WAL into.
    fn archive(&self, server: &mut Server) -> Result<(), Error> {
        let program = server.own_program(self.walzip, WALZIP)?;
        if let Some(launcher) = self.surroundings.launcher {
            server.own_program(launcher, LAUNCHER)?;
        }
        let repository = server.own_directory("repository")?;
        let mut init = server.owners_command(&program, None)?;
        init.env(NO_CONFIGURATION.0, NO_CONFIGURATION.1).args([
            "init",
            "--repo",
            "repository",
            "-D",
            "data",
        ]);
        server.measure(init).map_err(|failure| Error::Server {
            doing: "make a repository".to_owned(),
            reason: failure.to_string(),
        })?;
        let command = format!(
            "{}={} \"{}\" archive-push --repo \"{}\" %p",
            NO_CONFIGURATION.0,
            NO_CONFIGURATION.1,
            program.display(),
            repository.display()
        );
        let archived = Settings::volatile()
            .set("archive_mode", "on")
            .set("archive_command", command);
        server.restart(archived)
    }

    /// The warm-up and the loops of some rows, interleaved.
    fn loops(&mut self, rows: &[usize], target: Target<'_>) -> Result<(), Stop> {
        let warm_ups = self.results.settings.warm_ups;
        let loops = self.results.settings.loops;
        for turn in 0..warm_ups + loops {
            for offset in 0..rows.len() {
                // Each loop begins with another row: nobody is always first.
                let row = rows[(offset + turn as usize) % rows.len()];
                // Counted from 1; what warms up is number 0 and not kept.
                let run = (turn + 1).saturating_sub(warm_ups);
                let done = match run {
                    0 => !self.is_wanted(row),
                    run => self.is_done(row, run),
                };
                if done {
                    self.clock.skip();
                    continue;
                }
                self.turn(row, run, target)?;
            }
            self.save();
        }
        Ok(())
    }

    /// Writes what there is so far. It will be written again, so a failure is only told.
    fn save(&mut self) {
        if let Err(error) = self.files.save(&mut self.with_what_was_not_reached()) {
            self.progress.note(&error.to_string());
        }
    }

    /// One backup; an error is a reason to stop them all.
    fn turn(&mut self, row: usize, run: u32, target: Target<'_>) -> Result<(), Stop> {
        let data_set = self.results.data_sets.len() - 1;
        let of_row = &self.results.rows[row];
        let title = format!(
            "{}: {}",
            self.results.data_sets[data_set].name, of_row.label
        );
        self.progress.step(&self.clock.step(&title));
        let cpu = || match target {
            Target::ThrowAway(server) => server.usage().map(|usage| usage.cpu),
            Target::Running(_) => None,
        };
        let (start, before) = (Instant::now(), cpu());
        let measured = match (of_row.taker, target) {
            (Taker::Walzip { .. }, Target::ThrowAway(server)) => {
                self.walzip(&of_row.taker, server, run == 0)
            }
            (Taker::PgBackRest, Target::ThrowAway(server)) => self.pgbackrest(server, run == 0),
            (taker, _) => self.pg_basebackup(&taker, target, run == 0),
        };
        self.clock.finish(row, start.elapsed());
        match measured {
            Ok(Taken { usage, bytes, .. }) if run > 0 => {
                let server_cpu_s = before
                    .zip(cpu())
                    .map(|(before, after)| after.saturating_sub(before).as_secs_f64());
                self.results.measurements.push(Measurement {
                    row,
                    data_set,
                    run,
                    usage,
                    server_cpu_s,
                    bytes,
                });
            }
            Ok(taken) => self.keep_restores(row, &taken.restores),
            Err(Failure::Cancelled) => return Err(Stop("interrupted".to_owned())),
            Err(failure) => {
                let reason = self.without_paths(&failure.to_string(), target);
                if failure.is_no_space() {
                    return Err(Stop(format!("{title}: {reason}")));
                }
                let unsupported = reason.contains(UNSUPPORTED);
                if !unsupported {
                    self.progress.note(&format!("{title}: {reason}"));
                }
                self.results.failed.push(Failed {
                    row,
                    data_set,
                    reason,
                    unsupported,
                });
            }
        }
        Ok(())
    }

    /// Keeps what restoring took, instead of what an earlier run has of it.
    fn keep_restores(&mut self, row: usize, usages: &[Usage]) {
        let data_set = self.results.data_sets.len() - 1;
        let restored = &mut self.results.restored;
        restored.retain(|of| (of.row, of.data_set) != (row, data_set));
        restored.extend((1..).zip(usages).map(|(run, usage)| Restored {
            row,
            data_set,
            run,
            usage: *usage,
        }));
    }

    /// A backup into a counter, as `wc -c` would be; or, to check it, into a file that is restored,
    /// or with a user's own server into the program that unpacks it: its data stay where they are.
    fn pg_basebackup(
        &self,
        taker: &Taker,
        target: Target<'_>,
        check: bool,
    ) -> Result<Taken, Failure> {
        let mut command = process::measured(&self.pg_basebackup, self.surroundings);
        command.args(taker.arguments());
        match target {
            Target::ThrowAway(server) => {
                let address = server.environment();
                // The variable for a database is not for it.
                command.envs(
                    address
                        .into_iter()
                        .filter(|(name, _)| *name != "PGDATABASE"),
                );
            }
            Target::Running(connection) => {
                command
                    .envs(self.connection_environment.iter().cloned())
                    .args([OsString::from("-d"), OsString::from(connection)]);
            }
        }
        if let (true, Taker::PgBasebackup { method, .. }, Target::ThrowAway(_)) =
            (check, taker, target)
        {
            let how = (*method, self.results.settings.loops);
            let restores = restore::unpacked(command, how, self.surroundings)?;
            return Ok(Taken {
                restores,
                ..Taken::default()
            });
        }
        let (reader, writer) = io::pipe()?;
        command.stdout(writer);
        if check {
            return self.unpack(taker, command, reader);
        }
        let counter = std::thread::spawn(move || count(reader));
        let usage = process::measure(command, self.surroundings);
        let bytes = counter
            .join()
            .map_err(|_| io::Error::other("the counter failed"))?;
        Ok(Taken {
            usage: usage?,
            bytes: bytes?,
            restores: Vec::new(),
        })
    }

    /// A backup into the program that unpacks it.
    fn unpack(
        &self,
        taker: &Taker,
        backup: Command,
        reader: io::PipeReader,
    ) -> Result<Taken, Failure> {
        let Taker::PgBasebackup { method, .. } = taker else {
            return Ok(Taken::default());
        };
        let Some(program) = find_program(method, self.surroundings.search_path) else {
            let install = how_to_install(method);
            let reason = format!("cannot be checked: the program {method} is missing ({install})");
            return Err(Failure::Io(io::Error::other(reason)));
        };
        let mut unpacking = process::command(&program, self.surroundings);
        unpacking
            .arg("-dc")
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut unpacking = unpacking.spawn()?;
        let backed_up = process::measure(backup, self.surroundings);
        let unpacked = unpacking.wait()?;
        let usage = backed_up?;
        if unpacked.success() {
            return Ok(Taken {
                usage,
                ..Taken::default()
            });
        }
        let reason = format!("what it wrote cannot be unpacked: {method}: {unpacked}");
        Err(Failure::Io(io::Error::other(reason)))
    }

    /// A backup into the repository that the server archives into, which is verified if that is
    /// asked for.
    fn walzip(&self, taker: &Taker, server: &Server, check: bool) -> Result<Taken, Failure> {
        let program = server.host().join(WALZIP);
        let launcher = self
            .surroundings
            .launcher
            .map(|_| server.host().join(LAUNCHER));
        let said = server.host().join("said");
        let mut backup = owners_command(server, &program, launcher.as_deref())?;
        backup
            .env(NO_CONFIGURATION.0, NO_CONFIGURATION.1)
            .args(taker.arguments())
            .stdout(fs::File::create(&said)?);
        let usage = server.measure(backup)?;
        let mut restores = Vec::new();
        if check {
            let mut verify = owners_command(server, &program, None)?;
            verify.env(NO_CONFIGURATION.0, NO_CONFIGURATION.1).args([
                "verify",
                "--repo",
                "repository",
            ]);
            server.measure(verify)?;
            let loops = self.results.settings.loops;
            restores = restore::restored(server, &program, launcher.as_deref(), loops)?;
        }
        let said = fs::read_to_string(&said)?;
        let bytes = stored_bytes(&said)
            .ok_or_else(|| io::Error::other(format!("walzip did not say a size: {said}")))?;
        Ok(Taken {
            usage,
            bytes,
            restores,
        })
    }

    /// A backup into a repository of pgBackRest's, which is restored if that is asked for.
    fn pgbackrest(&self, server: &Server, check: bool) -> Result<Taken, Failure> {
        let launcher = server.host().join(LAUNCHER);
        if let (Some(original), false) = (self.surroundings.launcher, launcher.exists()) {
            let copied = server.own_program(original, LAUNCHER);
            copied.map_err(|error| io::Error::other(error.to_string()))?;
        }
        let missing = || io::Error::other(format!("{} is not installed", PGBACKREST));
        let pgbackrest = PgBackRest {
            server,
            program: self.pgbackrest.as_deref().ok_or_else(missing)?,
            launcher: self.surroundings.launcher.map(|_| launcher),
        };
        let (usage, bytes) = pgbackrest.backup()?;
        let restores = match check {
            true => pgbackrest.restore(self.results.settings.loops)?,
            false => Vec::new(),
        };
        Ok(Taken {
            usage,
            bytes,
            restores,
        })
    }

    /// Results are published: they name no directory, and no connection string.
    fn without_paths(&self, said: &str, target: Target<'_>) -> String {
        let said = said.replace(&format!("{}/", self.surroundings.temp_dir.display()), "");
        match target {
            Target::ThrowAway(server) => said.replace(&format!("{}/", server.host().display()), ""),
            Target::Running(connection) => said.replace(connection, "..."),
        }
    }

    /// An error that is a reason to stop, in words that may be published.
    fn stop(&self, error: &Error) -> Stop {
        Stop(match error {
            _ if self.surroundings.cancel.is_requested() => "interrupted".to_owned(),
            error => error.to_string(),
        })
    }

    /// Each method that the server was built without, once.
    fn name_unsupported(&mut self) {
        let mut methods: Vec<&str> = Vec::new();
        for failed in self
            .results
            .failed
            .iter()
            .filter(|failed| failed.unsupported)
        {
            if let Taker::PgBasebackup { method, .. } = self.results.rows[failed.row].taker
                && !methods.contains(&method)
            {
                methods.push(method);
            }
        }
        for method in methods {
            self.results.left_out.push(format!(
                "{method} is left out: the server was built without it"
            ));
        }
    }
}

/// The number of bytes until the end.
fn count(mut from: impl Read) -> io::Result<u64> {
    let mut piece = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(length) => bytes += length as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The size in `backup LABEL: N bytes stored in M, WAL ...`.
fn stored_bytes(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once(" bytes stored in ")?;
    rest.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_counts_and_walzips_size_is_read() {
        assert_eq!(count(&[7; 1_000_000][..]).unwrap(), 1_000_000);
        let said = "backup 20261122T010203Z: 31000000 bytes stored in 2100000, WAL 0/1 to 0/2\n";
        assert_eq!(stored_bytes(said), Some(2_100_000));
        assert_eq!(stored_bytes("nothing"), None);
    }
}
