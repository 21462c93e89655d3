//! The order of the measurements, and each of them: all segments, by one archiver, in both ways.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::archivers::{Archiver, Ready};
use super::options::MakeRepository;
use super::place::Place;
use super::results::{Action, Failed, Measurement, Results};
use crate::clock::Clock;
use crate::launcher::calls::{self, Call, Calls, Made};
use crate::output::{Files, check_space};
use crate::process::{self, Failure, Surroundings};
use crate::progress::Progress;

/// An archiver and where its program is.
pub(super) type Runnable = (&'static Archiver, PathBuf);

/// Everything that a measurement needs or changes.
pub(super) struct Schedule<'a, P> {
    pub(super) rows: &'a [Runnable],
    pub(super) results: &'a mut Results,
    pub(super) place: &'a Place,
    pub(super) surroundings: Surroundings<'a>,
    /// The program that makes the calls.
    pub(super) caller: &'a Path,
    pub(super) make_repository: MakeRepository,
    pub(super) files: &'a Files,
    pub(super) progress: &'a mut P,
}

impl<P: Progress> Schedule<'_, P> {
    /// Every archiver in turn, run by run, until done or stopped.
    pub(super) fn measure_all(&mut self) {
        let (rows, runs) = (self.rows.len(), self.results.settings.runs);
        let mut clock = Clock::new(rows * runs as usize, rows);
        for run in 1..=runs {
            for turn in 0..rows {
                // Each run begins with another archiver: nobody is always first.
                let row = (turn + run as usize) % rows;
                if !self.takes_part(row, run) {
                    clock.skip();
                    continue;
                }
                let name = self.rows[row].0.name;
                self.progress.step(&clock.step(name));
                let start = Instant::now();
                if let Err(reason) = self.measure(row, run) {
                    self.progress.note(&reason);
                    self.results.stopped = Some(reason);
                    return;
                }
                clock.finish(row, start.elapsed());
            }
            // It will be written again, so a failure is only told.
            if let Err(error) = self.files.save(self.results) {
                self.progress.note(&error.to_string());
            }
        }
    }

    fn takes_part(&self, row: usize, run: u32) -> bool {
        let mut measured = self.results.measurements.iter();
        let is_done = |m: &Measurement| (m.row, m.run) == (row, run);
        let is_known = Action::ALL.len() == measured.by_ref().filter(|m| is_done(m)).count();
        !is_known && !self.results.failed.iter().any(|failed| failed.row == row)
    }

    /// One archiver, all actions; an error is a reason to stop them all.
    fn measure(&mut self, row: usize, run: u32) -> Result<(), String> {
        // What was taken over of a run that was interrupted is measured again.
        let is_older = |m: &Measurement| (m.row, m.run) == (row, run);
        self.results.measurements.retain(|m| !is_older(m));
        let mut action = Action::Push;
        match self.measured(row, run, &mut action) {
            Ok(measured) => self.results.measurements.extend(measured),
            Err(Failure::Cancelled) => return Err("interrupted".to_owned()),
            Err(failure) => {
                let directory = format!("{}/", self.surroundings.temp_dir.display());
                let reason = failure.to_string().replace(&directory, "");
                let archiver = self.rows[row].0.name;
                if failure.is_no_space() {
                    return Err(format!("{archiver}: {reason}"));
                }
                let told = format!("{archiver} failed to {}: {reason}", action.name());
                self.progress.note(&told);
                self.results.failed.push(Failed {
                    row,
                    action,
                    reason,
                });
            }
        }
        Ok(())
    }

    fn measured(
        &self,
        row: usize,
        run: u32,
        action: &mut Action,
    ) -> Result<Vec<Measurement>, Failure> {
        let (archiver, program) = &self.rows[row];
        let home = tempfile::TempDir::new_in(self.surroundings.temp_dir)?;
        check_space(home.path(), 2 * self.results.wal.bytes)
            .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        let ready = Ready {
            archiver,
            program,
            home: home.path(),
            place: self.place,
            surroundings: self.surroundings,
        };
        ready.prepare(self.make_repository)?;
        let mut measured = Vec::new();
        let mut stored_bytes = 0;
        for next in Action::ALL {
            *action = next;
            let got = home.path().join("got");
            fs::create_dir(&got)?;
            let (calls, pause) = match next {
                Action::Push => (ready.pushes()?, Duration::ZERO),
                Action::Get => (ready.gets(&got), Duration::ZERO),
                Action::Replay => (ready.gets(&got), self.replay()),
            };
            self.place.make_ready()?;
            ready.empty_spool()?;
            rustix::fs::sync();
            let made = self.make(calls, pause, &ready)?;
            match next {
                Action::Push => {
                    fs::remove_dir(&got)?;
                    stored_bytes = process::stored_bytes(&ready.store())?;
                }
                Action::Get | Action::Replay => self.place.compare(&got)?,
            }
            measured.push(Measurement {
                row,
                action: next,
                run,
                wall_s: made.seconds.iter().sum(),
                longest_s: made.seconds.iter().copied().fold(0.0, f64::max),
                cpu_s: made.cpu_seconds,
                stored_bytes,
            });
        }
        home.close()?;
        Ok(measured)
    }

    fn replay(&self) -> Duration {
        Duration::from_millis(self.results.settings.replay_ms)
    }

    fn make(&self, calls: Vec<Call>, pause: Duration, ready: &Ready<'_>) -> Result<Made, Failure> {
        let asked = ready.home.join("calls.json");
        let report = ready.home.join("made.json");
        let calls = Calls {
            calls,
            pause,
            directory: self.place.data.clone(),
            variables: ready.variables(),
        };
        calls::write(&calls, &asked)?;
        let mut command = process::command(self.caller, self.surroundings);
        command.arg(calls::ARGUMENT).args([&asked, &report]);
        process::measure(command, self.surroundings)?;
        let made = calls::read(&report)?;
        let Some(reason) = &made.failed else {
            return Ok(made);
        };
        let said = process::first_lines(&self.surroundings.stderr())?;
        Err(Failure::Io(io::Error::other(format!("{reason}: {said}"))))
    }
}
