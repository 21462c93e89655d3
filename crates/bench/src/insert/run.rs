//! Measures.

use std::time::Instant;

use super::options::Options;
use super::published::PUBLISHED;
use super::results::{Measurement, Memory, Results, Step};
use crate::clock::Clock;
use crate::error::Error;
use crate::output::check_space;
use crate::progress::Progress;
use crate::provenance::Provenance;
use crate::server::{Installation, Phase, Server};
use crate::workload::{Transactions, Workload, insert_phases as phases};

/// What it takes at most with its WAL, when each row brings an image of its own.
const DISK_BYTES_PER_ROW: u64 = 2_000;

/// Measures; what stops it after the first measurement is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    options.files.check()?;
    let provenance = Provenance::gather(None);
    options.check_memory(&provenance)?;
    options.check_limit()?;
    check_space(&options.temp_dir, options.all_rows() * DISK_BYTES_PER_ROW)?;
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        &options.temp_dir,
        &options.cancel,
    )?;
    let (methods, mut left_out) = installation.choose_wal_compressions(&options.methods)?;
    let (options, impossible) = possible(options, &installation)?;
    left_out.extend(impossible);
    let options = &options;
    left_out.iter().for_each(|reason| progress.note(reason));
    let mut results = Results {
        experiment: "insert",
        provenance,
        server: installation.program.clone(),
        settings: options.settings(),
        work: options.work(),
        methods,
        left_out,
        measurements: Vec::new(),
        resumed: None,
        published: PUBLISHED,
        stopped: None,
    };
    let earlier = match options.files.resume {
        true => results.resume(options, progress)?,
        false => Vec::new(),
    };
    let servers = results.methods.len() * options.memories.len() * results.work.runs as usize;
    let mut experiment = Experiment {
        options,
        installation: &installation,
        results: &mut results,
        earlier,
        progress,
        clock: Clock::new(servers * Step::ALL.len(), Step::ALL.len()),
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

/// What can be measured here, and why the rest cannot.
fn possible(
    options: &Options,
    installation: &Installation,
) -> Result<(Options, Option<String>), Error> {
    let mut options = options.clone();
    if !options.memories.contains(&Memory::IoBound) {
        return Ok((options, None));
    }
    let limit = options.memory_limit_megabytes() << 20;
    let Some(reason) = installation.no_memory_limit(limit)? else {
        return Ok((options, None));
    };
    let reason = format!("The IO-bound database is not possible here: {reason}");
    options.memories.retain(|memory| *memory != Memory::IoBound);
    match options.memories.is_empty() {
        true => Err(Error::Usage(reason)),
        false => Ok((options, Some(reason))),
    }
}

struct Experiment<'a, P> {
    options: &'a Options,
    installation: &'a Installation,
    results: &'a mut Results,
    earlier: Vec<Measurement>,
    progress: &'a mut P,
    clock: Clock,
}

impl<P: Progress> Experiment<'_, P> {
    fn measure_all(&mut self) -> Result<(), Error> {
        let mut turns = Vec::new();
        for run in 1..=self.results.work.runs {
            for (index, memory) in self.options.memories.iter().enumerate() {
                let mut methods = self.results.methods.clone();
                let turn = (run as usize - 1 + index) % methods.len().max(1);
                methods.rotate_left(turn);
                turns.extend(methods.into_iter().map(|method| (*memory, method, run)));
            }
        }
        // All of it first: what is written meanwhile never has less than the earlier run.
        turns.retain(|(memory, method, run)| !self.take_over((*memory, method.as_str(), *run)));
        for (memory, method, run) in turns {
            self.measure((memory, method.as_str(), run))?;
            self.options.files.save(self.results)?;
        }
        Ok(())
    }

    /// Takes over what an earlier run has, if it has every step of a server.
    fn take_over(&mut self, which: (Memory, &str, u32)) -> bool {
        let of_server = |run: &&Measurement| (run.memory, run.method.as_str(), run.run) == which;
        let taken: Vec<Measurement> = self.earlier.iter().filter(of_server).cloned().collect();
        if taken.len() < Step::ALL.len() {
            return false;
        }
        taken.iter().for_each(|_| self.clock.skip());
        if let Some(resumed) = &mut self.results.resumed {
            resumed.measurements += taken.len();
        }
        self.results.measurements.extend(taken);
        true
    }

    /// One server from its beginning to its end.
    fn measure(&mut self, (memory, method, run): (Memory, &str, u32)) -> Result<(), Error> {
        let options = self.options;
        let megabytes = options.shared_buffers_megabytes(memory);
        let mut settings = self
            .results
            .settings
            .clone()
            .set("wal_compression", self.installation.wal_compression(method))
            .set("shared_buffers", format!("{megabytes}MB"));
        if memory == Memory::IoBound {
            settings = options.limited(settings);
        }
        let server = self.installation.start(&settings)?;
        phases::create(&server)?;
        for (kind, step) in Step::ALL.into_iter().enumerate() {
            let (name, database) = (step.name(), memory.about());
            let label = format!("wal_compression = {method}, {database}, run {run}: {name}");
            self.progress.step(&self.clock.step(&label));
            let begin = Instant::now();
            let (operations, phase) = match step {
                Step::Load => insert(&server, options, options.rows, 0)?,
                Step::Index => index(&server, options)?,
                Step::Insert => insert(&server, options, options.further_rows, 1)?,
            };
            self.clock.finish(kind, begin.elapsed());
            let size = server.sql("SELECT pg_database_size(current_database())")?;
            self.results.measurements.push(Measurement {
                memory,
                method: method.to_owned(),
                run,
                step,
                operations,
                database_bytes: size.parse().ok(),
                phase,
            });
        }
        Ok(())
    }
}

fn insert(server: &Server, options: &Options, rows: u64, part: u64) -> Result<(u64, Phase), Error> {
    let how = Transactions {
        scale: 1,
        count: rows / phases::ROWS_PER_TRANSACTION,
        clients: options.clients,
        seed: options.seed.wrapping_add(part),
    };
    let phase = server.phase(|server| Workload::Insert.run(server, &how))?;
    let transactions = phase.transactions.unwrap_or_default();
    Ok((transactions * phases::ROWS_PER_TRANSACTION, phase))
}

fn index(server: &Server, options: &Options) -> Result<(u64, Phase), Error> {
    let phase = server.phase(phases::index)?;
    Ok((options.rows * phases::INDEXES.len() as u64, phase))
}
