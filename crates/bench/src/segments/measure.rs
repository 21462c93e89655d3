//! The order of the measurements, and each of them: a process for every segment of a set.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use super::methods::{Kind, Method};
use super::options::MakeRepository;
use super::results::{Caches, Failed, Measurement, Results, Row};
use super::sets::{Content, Set, Source, cluster};
use super::sshd::HOST;
use super::stores::InStore;
use super::target::{There, read_back};
use crate::clock::Clock;
use crate::input;
use crate::output::{Files, check_space};
use crate::process::{self, Failure, Surroundings};
use crate::progress::Progress;
use crate::usage::Usage;

/// Makes the kernel forget what files contain; root may write to it.
pub(super) const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A row of the results, and what to run for it.
pub(super) type Runnable = (Row, &'static Method, PathBuf);

/// Whose repository zeros are pushed to: no cluster wrote them, so anyone's will do.
const NOBODY: (u64, u32) = (1, 15);

/// Everything that a measurement needs or changes.
pub(super) struct Schedule<'a, P> {
    pub(super) rows: &'a [Runnable],
    pub(super) results: &'a mut Results,
    pub(super) surroundings: Surroundings<'a>,
    pub(super) make_repository: MakeRepository,
    /// Where archives are made.
    pub(super) target: &'a Path,
    /// Where they are made instead, on another host.
    pub(super) there: Option<&'a There<'a>>,
    /// Or in a store.
    pub(super) store: Option<&'a InStore<'a>>,
    pub(super) files: &'a Files,
    pub(super) progress: &'a mut P,
}

impl<P: Progress> Schedule<'_, P> {
    /// Archives every set in every method, run by run, until done or stopped.
    pub(super) fn measure_all(&mut self) {
        let (rows, sets, runs) = (
            self.rows.len(),
            self.results.sets.len(),
            self.results.settings.runs,
        );
        self.leave_out();
        let mut clock = Clock::new(rows * sets * runs as usize, rows);
        for run in 1..=runs {
            for set in 0..sets {
                for turn in 0..rows {
                    // Each run and each set begin with another method: nobody is always first.
                    let row = (turn + run as usize + set) % rows;
                    if !self.takes_part(row, set) || self.is_measured(row, set, run) {
                        clock.skip();
                        continue;
                    }
                    if let Err(reason) = self.measure(row, set, run, &mut clock) {
                        self.progress.note(&reason);
                        self.results.stopped = Some(reason);
                        return;
                    }
                }
                self.save();
            }
        }
    }

    /// walzip is made for segments: pieces of others would say nothing about it.
    fn leave_out(&mut self) {
        if !self.rows.iter().any(|(row, _, _)| row.is_walzip()) {
            return;
        }
        for set in self.results.sets.iter().filter(|set| is_pieces(set)) {
            let reason = format!(
                "walzip is left out for WAL of {} MB: the given segments have another size, and \
                 pieces of them are no segments",
                set.segment_bytes >> 20
            );
            self.progress.note(&reason);
            self.results.left_out.push(reason);
        }
    }

    fn takes_part(&self, row: usize, set: usize) -> bool {
        let failed = |failed: &Failed| (failed.row, failed.set) == (row, set);
        let is_walzip = self.rows[row].1.is_walzip();
        if is_walzip && is_pieces(&self.results.sets[set]) {
            return false;
        }
        !self.results.failed.iter().any(failed)
    }

    fn is_measured(&self, row: usize, set: usize, run: u32) -> bool {
        let mut measured = self.results.measurements.iter();
        measured.any(|measured| (measured.row, measured.set, measured.run) == (row, set, run))
    }

    /// Writes what there is so far. It will be written again, so a failure is only told.
    fn save(&mut self) {
        if let Err(error) = self.files.save(self.results) {
            self.progress.note(&error.to_string());
        }
    }

    /// One set by one method; an error is a reason to stop them all.
    fn measure(
        &mut self,
        row: usize,
        set: usize,
        run: u32,
        clock: &mut Clock,
    ) -> Result<(), String> {
        let (_, method, program) = &self.rows[row];
        let of_set = &self.results.sets[set];
        let title = format!(
            "{}: {} x {} MB of {}",
            method.name,
            of_set.files,
            of_set.segment_bytes >> 20,
            of_set.content.name()
        );
        self.progress.step(&clock.step(&title));
        let start = Instant::now();
        let archiving = Archiving {
            method,
            program,
            set: of_set,
            cold: self.results.settings.caches == Caches::Cold,
            make_repository: self.make_repository,
            target: self.target,
            there: self.there,
            store: self.store,
            surroundings: self.surroundings,
        };
        let archived = archiving.run();
        clock.finish(row, start.elapsed());
        match archived {
            Ok((usage, stored_bytes)) => self.results.measurements.push(Measurement {
                row,
                set,
                run,
                usage,
                stored_bytes,
            }),
            Err(Failure::Cancelled) => return Err("interrupted".to_owned()),
            Err(failure) => {
                let directories = [self.surroundings.temp_dir, self.target];
                let reason = directories.iter().fold(failure.to_string(), |said, of| {
                    said.replace(&format!("{}/", of.display()), "")
                });
                let reason = match (self.there, self.store) {
                    (Some(there), _) => there.unnamed(&reason),
                    (None, Some(store)) => store.unnamed(&reason),
                    (None, None) => reason,
                };
                if failure.is_no_space() {
                    return Err(format!("{title}: {reason}"));
                }
                let refused = method.kind == Kind::Push
                    && of_set.content == Content::Zeros
                    && matches!(failure, Failure::Exit { .. });
                if !refused {
                    self.progress.note(&format!("{title}: {reason}"));
                }
                self.results.failed.push(Failed {
                    row,
                    set,
                    reason,
                    refused,
                });
            }
        }
        Ok(())
    }
}

/// Whether a set was cut out of segments of another size.
fn is_pieces(set: &Set) -> bool {
    set.content == Content::Wal && !set.genuine
}

/// A set on its way into an archive.
struct Archiving<'a> {
    method: &'static Method,
    program: &'a Path,
    set: &'a Set,
    cold: bool,
    make_repository: MakeRepository,
    target: &'a Path,
    there: Option<&'a There<'a>>,
    store: Option<&'a InStore<'a>>,
    surroundings: Surroundings<'a>,
}

impl Archiving<'_> {
    /// Archives every file, compares, and leaves nothing behind.
    fn run(&self) -> Result<(Usage, u64), Failure> {
        if let Some(there) = self.there {
            let archive = format!("{}/archive", there.path);
            let archived = self.run_there(there, Path::new(&archive));
            // What failed has left something too.
            let removed = there.remove(&archive);
            return archived.and_then(|archived| removed.map(|()| archived));
        }
        if let Some(store) = self.store {
            let archived = self.run_in(store);
            let removed = store.clear().map_err(other);
            return archived.and_then(|usage| Ok((usage, removed?)));
        }
        let archive = tempfile::TempDir::new_in(self.target)?;
        check_space(archive.path(), self.set.bytes)
            .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        for source in &self.set.sources {
            let target = self.target(archive.path(), source);
            fs::create_dir_all(target.parent().unwrap_or(archive.path()))?;
            self.prepare_repository(archive.path(), source)?;
        }
        settle(self.cold)?;
        let mut usage = Usage::default();
        for source in &self.set.sources {
            usage += self.archive(archive.path(), source)?;
        }
        let stored_bytes = process::stored_bytes(archive.path())?;
        for source in &self.set.sources {
            self.compare(archive.path(), source)?;
        }
        archive.close()?;
        Ok((usage, stored_bytes))
    }

    /// The same on another host. What arrived is fetched and compared; its way back is not measured.
    fn run_there(&self, there: &There<'_>, archive: &Path) -> Result<(Usage, u64), Failure> {
        let target = |source| self.target(archive, source);
        let name = |path: &Path| path.display().to_string();
        let mut directories: Vec<String> = self
            .set
            .sources
            .iter()
            .filter_map(|source| target(source).parent().map(name))
            .collect();
        directories.dedup();
        there.prepare(&directories)?;
        settle(self.cold)?;
        let mut usage = Usage::default();
        for source in &self.set.sources {
            usage += self.archive(archive, source)?;
        }
        let back = self.surroundings.temp_dir.join("back");
        let mut stored_bytes = 0;
        for source in &self.set.sources {
            let (hash, bytes) = read_back(there, &name(&target(source)), &back)?;
            stored_bytes += bytes;
            if hash != source.blake3 {
                return Err(changed(source));
            }
        }
        Ok((usage, stored_bytes))
    }

    /// The same in a store.
    fn run_in(&self, store: &InStore<'_>) -> Result<Usage, Failure> {
        let mut made = Vec::new();
        for source in &self.set.sources {
            let (system_id, major) = self.cluster(source)?;
            let repository = store.repository(&source.group, system_id);
            if !made.contains(&repository) {
                (store.stores.make)(&repository, system_id, major).map_err(other)?;
                made.push(repository);
            }
        }
        settle(self.cold)?;
        let mut usage = Usage::default();
        for source in &self.set.sources {
            usage += self.archive(Path::new(""), source)?;
        }
        let back = self.surroundings.temp_dir.join("back");
        for source in &self.set.sources {
            let mut get = process::command(self.program, self.surroundings);
            get.envs(store.stores.environment.iter().cloned())
                .args(["archive-get", "--repo"])
                .arg(self.repository(Path::new(""), source)?)
                .args([Path::new(&source.name), &back]);
            process::measure(get, self.surroundings)?;
            let hash = input::hash(&back)?;
            fs::remove_file(&back)?;
            if hash != source.blake3 {
                return Err(changed(source));
            }
        }
        Ok(usage)
    }

    fn target(&self, archive: &Path, source: &Source) -> PathBuf {
        archive.join(&source.group).join(&source.name)
    }

    fn repository(&self, archive: &Path, source: &Source) -> Result<PathBuf, Failure> {
        let (system_id, _) = self.cluster(source)?;
        if let Some(store) = self.store {
            return Ok(PathBuf::from(store.repository(&source.group, system_id)));
        }
        Ok(archive.join(format!("{}-{system_id}", source.group)))
    }

    fn cluster(&self, source: &Source) -> Result<(u64, u32), Failure> {
        match self.set.content {
            Content::Zeros => Ok(NOBODY),
            Content::Wal => cluster(&source.path).map_err(other),
        }
    }

    fn prepare_repository(&self, archive: &Path, source: &Source) -> Result<(), Failure> {
        if self.method.kind != Kind::Push {
            return Ok(());
        }
        let repository = self.repository(archive, source)?;
        if repository.exists() {
            return Ok(());
        }
        let (system_id, major) = self.cluster(source)?;
        (self.make_repository)(&repository, system_id, major).map_err(other)
    }

    /// One process.
    fn archive(&self, archive: &Path, source: &Source) -> Result<Usage, Failure> {
        let target = self.target(archive, source);
        let repository = match self.method.kind {
            Kind::Push => self.repository(archive, source)?,
            _ => PathBuf::new(),
        };
        let output = match self.method.writes_to_stdout() {
            true => Stdio::from(File::create(&target)?),
            false => Stdio::null(),
        };
        let mut command = process::measured(self.program, self.surroundings);
        if let Some(store) = self.store {
            command.envs(store.stores.environment.iter().cloned());
        }
        command
            .args(self.method.fill(
                self.there.map_or(HOST, |there| &there.host),
                (&source.path, &target),
                &repository,
            ))
            .current_dir(self.surroundings.temp_dir)
            .stdout(output);
        process::measure(command, self.surroundings)
    }

    /// Gets the segment back where the archive is walzip's, and compares.
    fn compare(&self, archive: &Path, source: &Source) -> Result<(), Failure> {
        let target = self.target(archive, source);
        let back = archive.join("back");
        let mut get = process::command(self.program, self.surroundings);
        let found = match self.method.kind {
            Kind::Local | Kind::Ssh => &target,
            Kind::Push => {
                get.args(["archive-get", "--repo"])
                    .arg(self.repository(archive, source)?)
                    .args([Path::new(&source.name), &back]);
                process::measure(get, self.surroundings)?;
                &back
            }
            Kind::Filter => {
                get.args(["decompress", "-c"])
                    .arg(&target)
                    .stdout(File::create(&back)?);
                process::measure(get, self.surroundings)?;
                &back
            }
        };
        if input::hash(found)? == source.blake3 {
            return Ok(());
        }
        Err(changed(source))
    }
}

fn changed(source: &Source) -> Failure {
    let name = &source.name;
    other(format!(
        "{name} did not arrive as it was: its BLAKE3 hash is another"
    ))
}

fn other(reason: String) -> Failure {
    Failure::Io(io::Error::other(reason))
}

/// Lets everything be written out that was written before, and forgotten if that is asked for.
fn settle(cold: bool) -> io::Result<()> {
    rustix::fs::sync();
    match cold {
        true => fs::write(DROP_CACHES, "3"),
        false => Ok(()),
    }
}
