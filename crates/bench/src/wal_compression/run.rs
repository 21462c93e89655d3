//! Measures.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use super::estimate::uncertainty;
use super::options::Options;
use super::published::PUBLISHED;
use super::results::{Archived, Measurement, Results, Stage, Work};
use crate::clock::Clock;
use crate::error::Error;
use crate::output::check_space;
use crate::progress::Progress;
use crate::progress::Step;
use crate::provenance::Provenance;
use crate::scratch::Scratch;
use crate::server::Ran;
use crate::server::{Done, Installation, Server};
use crate::usage::Usage;
use crate::wal;
use crate::workload::Transactions;

/// What a unit of scale takes at most, with its indexes and its WAL.
const BYTES_PER_SCALE: u64 = 60 << 20;
/// What a transaction takes at most: an image and a half.
const BYTES_PER_TRANSACTION: u64 = 12 << 10;

/// What a row of its own table takes at most: twice on its page, and its image.
const BYTES_PER_ROW: u64 = 600;

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        &options.temp_dir,
        &options.cancel,
    )?;
    check_space(
        &options.temp_dir,
        u64::from(options.scale) * BYTES_PER_SCALE
            + options.transactions * BYTES_PER_TRANSACTION
            + options.rows * BYTES_PER_ROW,
    )?;
    let samples = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let (methods, left_out) = installation.choose_wal_compressions(&options.methods)?;
    left_out.iter().for_each(|reason| progress.note(reason));
    let mut results = Results {
        experiment: "wal-compression",
        provenance: Provenance::gather(None),
        server: installation.program.clone(),
        settings: options.settings(),
        work: options.work()?,
        methods,
        left_out,
        measurements: Vec::new(),
        archived: Vec::new(),
        archive: Vec::new(),
        archive_of_earlier_runs: Vec::new(),
        earlier: None,
        resumed: None,
        published: PUBLISHED,
        stopped: None,
    };
    if options.files.resume {
        results.resume(&options.files, progress)?;
    }
    let servers = results.methods.len() * results.work.runs as usize;
    let mut experiment = Experiment {
        options,
        installation: &installation,
        samples: &samples,
        clock: Clock::new(
            servers * Stage::ALL.len() + results.methods.len(),
            Stage::ALL.len() + 1,
        ),
        filled: BTreeMap::new(),
        results: &mut results,
        progress,
    };
    if let Err(error) = experiment.measure_all() {
        if results.measurements.is_empty() {
            return Err(error);
        }
        results.stopped = Some(error.reason());
    }
    results.provenance.finish();
    options.files.write(&results)?;
    Ok(results)
}

struct Experiment<'a, P> {
    options: &'a Options,
    installation: &'a Installation,
    samples: &'a Scratch,
    results: &'a mut Results,
    progress: &'a mut P,
    clock: Clock,
    /// How many segments each step of each method filled.
    filled: BTreeMap<String, u64>,
}

impl<P: Progress> Experiment<'_, P> {
    fn measure_all(&mut self) -> Result<(), Error> {
        let mut turns = Vec::new();
        for run in 1..=self.results.work.runs {
            let mut methods = self.results.methods.clone();
            let turn = (run as usize - 1) % methods.len().max(1);
            methods.rotate_left(turn);
            turns.extend(methods.into_iter().map(|method| (method, run)));
        }
        // All of it first: what is written meanwhile never has less than the earlier run.
        turns.retain(|(method, run)| {
            let taken = self.results.has(method, *run);
            if taken {
                self.results.take_over(method, *run);
                (0..kinds(*run)).for_each(|_| self.clock.skip());
            }
            !taken
        });
        for (method, run) in turns {
            self.measure(&method, run)?;
            self.options.files.save(self.results)?;
        }
        Ok(())
    }

    /// One server from its beginning to its end, and in the first run what programs make of it.
    fn measure(&mut self, method: &str, run: u32) -> Result<(), Error> {
        let work = self.results.work.clone();
        let setting = self.installation.wal_compression(method);
        let settings = self
            .results
            .settings
            .clone()
            .set("wal_compression", setting);
        let server = self.installation.start(&settings)?;
        let standby = match work.standby {
            true => Some(server.standby()?),
            false => None,
        };
        for (row, stage) in Stage::ALL.into_iter().enumerate() {
            let begin = self.show(method, run, stage.name());
            let mut replication = None;
            let phase = server.phase(|server| match &standby {
                None => do_stage(server, stage, &work),
                Some(standby) => {
                    let act = || do_stage(server, stage, &work);
                    let (done, received) = standby.watch(server, act)?;
                    replication = Some(received);
                    Ok(done)
                }
            })?;
            let measurement = Measurement {
                method: method.to_owned(),
                run,
                stage,
                phase,
                replication,
            };
            self.keep(&server, measurement)?;
            self.clock.finish(row, begin.elapsed());
        }
        drop(standby);
        drop(server);
        if run == 1 {
            let begin = self.show(method, run, "the archive");
            self.archive(method)?;
            self.clock.finish(Stage::ALL.len(), begin.elapsed());
        }
        Ok(())
    }

    fn show(&mut self, method: &str, run: u32, what: &str) -> Instant {
        let label = format!("wal_compression = {method}, run {run}: {what}");
        self.progress.step(&self.clock.step(&label));
        Instant::now()
    }

    /// Keeps what was measured, and in the first run some segments, evenly spread.
    fn keep(&mut self, server: &Server, measurement: Measurement) -> Result<(), Error> {
        let Measurement {
            method,
            run,
            stage,
            phase,
            ..
        } = measurement.clone();
        self.results.measurements.push(measurement);
        if run > 1 {
            return Ok(());
        }
        let filled = server.whole_segments(phase.from..phase.to);
        self.filled.insert(
            folder(&method, stage),
            filled.end.saturating_sub(filled.start),
        );
        let segments = spread_evenly(filled, self.results.work.segments.unwrap_or(u64::MAX));
        let folder = self.samples.join(&folder(&method, stage));
        if !segments.is_empty() {
            fs::create_dir(&folder).map_err(|source| Error::file(&folder, source))?;
        }
        for number in segments {
            let (name, path) = server.segment(number)?;
            let kept = folder.join(name);
            // A second name takes no room, and the server, which keeps all of its WAL, writes none of
            // its segments again.
            fs::hard_link(&path, &kept)
                .or_else(|_| fs::copy(&path, &kept).map(|_| ()))
                .map_err(|source| Error::file(&path, source))?;
        }
        Ok(())
    }

    /// Asks the programs what they make of the WAL of a method.
    fn archive(&mut self, method: &str) -> Result<(), Error> {
        let inputs = Stage::ALL.map(|stage| self.samples.join(&folder(method, stage)));
        let inputs: Vec<PathBuf> = inputs.into_iter().filter(|path| path.exists()).collect();
        if inputs.is_empty() {
            self.progress
                .note("no step wrote a whole segment: no program is asked");
            return Ok(());
        }
        let options = wal::Options {
            inputs: inputs.clone(),
            contenders: self.options.contenders()?,
            runs: Some(1),
            cancel: self.options.cancel.clone(),
            launcher: self.options.launcher.clone(),
            ..wal::Options::new(
                self.options.walzip.clone(),
                self.options.search_path.clone(),
                self.options.temp_dir.clone(),
            )
        };
        let archive = wal::run(&options, &mut NotesOnly(self.progress))?;
        let archived = archived(&archive, self.results, (method, &self.filled));
        self.results.archived.extend(archived);
        let stopped = archive.stopped.clone();
        self.results.archive.push(archive);
        for path in inputs {
            fs::remove_dir_all(&path).map_err(|source| Error::file(&path, source))?;
        }
        match stopped {
            None => Ok(()),
            Some(_) if self.options.cancel.is_requested() => Err(Error::Interrupted),
            Some(reason) => Err(Error::Server {
                doing: "measure the archive".to_owned(),
                reason,
            }),
        }
    }
}

/// Forwards what must be known, and no steps: they are parts of one.
struct NotesOnly<'a, P>(&'a mut P);

impl<P: Progress> Progress for NotesOnly<'_, P> {
    fn note(&mut self, text: &str) {
        self.0.note(text);
    }

    fn step(&mut self, _step: &Step) {}
}

/// How many things are done with each server of a run.
fn kinds(run: u32) -> usize {
    Stage::ALL.len() + usize::from(run == 1)
}

/// One step of a server.
fn do_stage(server: &Server, stage: Stage, work: &Work) -> Result<Done, Error> {
    let rows = work.rows;
    match stage {
        Stage::Load => Ok(work.workload.load(server, work.scale, work.seed)?.into()),
        Stage::Transactions => Ok(transactions(server, work)?.into()),
        Stage::Insert => {
            server
                .sql("CREATE TABLE own_rows (id bigint PRIMARY KEY, number bigint, filler text)")?;
            let insert = format!(
                "INSERT INTO own_rows SELECT n, hashint8(n), md5(n::text) \
                 FROM generate_series(1, {rows}) n"
            );
            Ok(server.timed_sql(&insert)?.into())
        }
        Stage::Update => Ok(server
            .timed_sql("UPDATE own_rows SET number = number + 1")?
            .into()),
    }
}

/// The transactions, in one go or in equal parts with a checkpoint between each two.
fn transactions(server: &Server, work: &Work) -> Result<Ran, Error> {
    let parts = u64::from(work.checkpoints.unwrap_or(0)) + 1;
    let mut total = Ran {
        transactions: 0,
        tps: 0.0,
        client: Usage::default(),
    };
    let mut seconds = 0.0;
    for part in 0..parts {
        if part > 0 {
            server.sql("CHECKPOINT")?;
        }
        let how = Transactions {
            scale: work.scale,
            count: work.transactions / parts,
            clients: work.clients,
            seed: work.seed.wrapping_add(part),
        };
        let ran = work.workload.run(server, &how)?;
        total.transactions += ran.transactions;
        total.client += ran.client;
        seconds += ran.transactions as f64 / ran.tps.max(1e-9);
    }
    total.tps = total.transactions as f64 / seconds.max(1e-9);
    Ok(total)
}

fn folder(method: &str, stage: Stage) -> String {
    format!("{method}-{}", stage.name())
}

/// At most so many of a range: the middle of each of as many equal parts.
fn spread_evenly(range: std::ops::Range<u64>, most: u64) -> Vec<u64> {
    let there = range.end.saturating_sub(range.start);
    let taken = there.min(most);
    let middle = |part: u64| range.start + (2 * part + 1) * there / (2 * taken.max(1));
    (0..taken).map(middle).collect()
}

/// What each program makes of the whole WAL of each step of a method.
fn archived(
    archive: &wal::Results,
    results: &Results,
    (method, filled): (&str, &BTreeMap<String, u64>),
) -> Vec<Archived> {
    let mut lines = Vec::new();
    for summary in &archive.summary {
        let Some(row) = archive.rows.get(summary.row) else {
            continue;
        };
        for stage in Stage::ALL {
            let name = folder(method, stage);
            let found = summary
                .folders
                .iter()
                .find(|figures| figures.folder == name);
            let (Some(found), Some(bytes)) = (found, results.wal_bytes(method, stage)) else {
                continue;
            };
            let figures = &found.figures;
            let ratio = figures.output_bytes as f64 / figures.original_bytes.max(1) as f64;
            let of = filled.get(&name).copied().unwrap_or_default();
            let sizes = sizes(archive, summary.row, &name);
            lines.push(Archived {
                method: method.to_owned(),
                stage,
                program: row.label.clone(),
                ratio,
                bytes: ratio * bytes,
                compress_s: figures.compress_s,
                segments: sizes.len() as u64,
                of,
                uncertainty: uncertainty(&sizes, of),
            });
        }
    }
    lines
}

/// What a program makes of each segment of a folder, which are all of one size.
fn sizes(archive: &wal::Results, row: usize, folder: &str) -> Vec<f64> {
    let of_folder = |measured: &&wal::Measurement| {
        let input = archive.inputs.get(measured.input);
        measured.row == row && input.is_some_and(|input| input.folder == folder)
    };
    let measured = archive.measurements.iter().filter(of_folder);
    measured
        .map(|measured| measured.output_bytes as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_step_is_sampled_in_its_middle() {
        assert_eq!(spread_evenly(10..22, 3), [12, 16, 20]);
        assert_eq!(spread_evenly(10..20, 1), [15]);
        assert_eq!(spread_evenly(10..12, 5), [10, 11]);
        assert!(spread_evenly(11..11, 5).is_empty());
    }
}
