//! WAL samples: segments that a throw-away server writes while it works.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cancel::Cancel;
use crate::error::Error;
use crate::input;
use crate::output::{check_space, write_file};
use crate::progress::Progress;
use crate::progress::Step;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::server::{Installation, Server, Settings, Written};
use crate::text::{counted, megabytes};
use crate::workload::{Transactions, Workload};

/// The file that says where the segments come from.
const DESCRIPTION: &str = "generated.json";
/// How many transactions show how much WAL one writes.
const FIRST_TRANSACTIONS: u64 = 200;
/// What loading a unit of scale takes at most, with its indexes and its WAL.
const BYTES_PER_SCALE: u64 = 60 << 20;

/// What to generate, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the server does.
    pub workload: Workload,
    /// How much data there is: about 16 MB each.
    pub scale: u32,
    /// What the data follows from.
    pub seed: u64,
    /// How many segments are wanted.
    pub segments: u64,
    /// A directory for them.
    pub output: PathBuf,
    /// Take the WAL of loading the data, instead of that of the transactions.
    pub loading: bool,
    /// How many clients work at a time.
    pub clients: u32,
    /// `wal_compression`.
    pub wal_compression: String,
    /// The size of a segment.
    pub segment_megabytes: u32,
    /// Whether pages have checksums.
    pub checksums: bool,
    /// Further parameters of the server, with their values.
    pub parameters: Vec<(String, String)>,
    /// Where PostgreSQL's programs are; otherwise the newest that is installed.
    pub pg_bin: Option<PathBuf>,
    /// Where programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where the server is made; it is gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// Ends the server and what it does.
    pub cancel: Cancel,
}

/// What was generated.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine and the moment.
    pub provenance: Provenance,
    /// The server.
    pub server: Program,
    /// How it was set.
    pub settings: Settings,
    /// What it did.
    pub workload: Workload,
    /// On how much data.
    pub scale: u32,
    /// From which seed.
    pub seed: u64,
    /// With how many clients.
    pub clients: u32,
    /// Whether this is the WAL of loading the data.
    pub loading: bool,
    /// How many transactions wrote the segments, and what follows the last of them.
    pub transactions: u64,
    /// What they hold.
    pub wal: Written,
    /// The segments.
    pub segments: Vec<Segment>,
    /// Why there are fewer than were asked for.
    pub stopped: Option<String>,
}

/// A segment that was written.
#[derive(Clone, Debug, Serialize)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The BLAKE3 hash of its bytes.
    pub blake3: String,
}

/// Makes a server work until it has written the segments, and copies them.
///
/// Segments that were complete when something stopped it are kept.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    let Options {
        output, temp_dir, ..
    } = options;
    fs::create_dir_all(output).map_err(|source| Error::file(output, source))?;
    // Whatever is in there is somebody's: segments have the same names in every cluster.
    let mut entries = fs::read_dir(output).map_err(|source| Error::file(output, source))?;
    if entries.next().is_some() {
        return Err(Error::NotEmpty(output.clone()));
    }
    let description = output.join(DESCRIPTION);
    let segment_bytes = u64::from(options.segment_megabytes) << 20;
    let needed = u64::from(options.scale) * BYTES_PER_SCALE + options.segments * segment_bytes * 2;
    check_space(temp_dir, needed)?;
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        &options.search_path,
        temp_dir,
        &options.cancel,
    )?;
    let settings = options.settings(&installation);
    let mut results = Results {
        experiment: "generate",
        provenance: Provenance::gather(None),
        server: installation.program.clone(),
        settings: settings.clone(),
        workload: options.workload,
        scale: options.scale,
        seed: options.seed,
        clients: options.clients,
        loading: options.loading,
        transactions: 0,
        wal: Written::default(),
        segments: Vec::new(),
        stopped: None,
    };
    progress.note(&format!(
        "starting {} and loading {} at scale {}",
        installation.program.version, options.workload, options.scale
    ));
    let server = installation.start(&settings)?;
    let mut run = Run {
        options,
        server: &server,
        results: &mut results,
        progress,
        begin: Instant::now(),
    };
    match run.generate() {
        Err(error) if run.results.segments.is_empty() => return Err(error),
        Err(error) => results.stopped = Some(error.reason()),
        Ok(()) => {}
    }
    results.provenance.finish();
    write_file(&description, |to| {
        serde_json::to_writer_pretty(&mut *to, &results)?;
        writeln!(to)
    })?;
    Ok(results)
}

impl Options {
    fn settings(&self, installation: &Installation) -> Settings {
        let compression = installation.wal_compression(&self.wal_compression);
        let settings = Settings::volatile()
            .segment_megabytes(self.segment_megabytes)
            .checksums(self.checksums)
            .set("wal_compression", compression)
            .keep_all_wal();
        self.parameters
            .iter()
            .fold(settings, |settings, (name, value)| {
                settings.set(name, value)
            })
    }
}

struct Run<'a, P> {
    options: &'a Options,
    server: &'a Server,
    results: &'a mut Results,
    progress: &'a mut P,
    begin: Instant,
}

impl<P: Progress> Run<'_, P> {
    fn generate(&mut self) -> Result<(), Error> {
        let Options {
            workload,
            scale,
            seed,
            ..
        } = *self.options;
        if self.options.loading {
            let from = self.begin()?;
            workload.load(self.server, scale, seed)?;
            self.server.switch_segment()?;
            self.collect(from)?;
            if self.missing() > 0 {
                let there = counted(self.results.segments.len(), "segment");
                let reason = format!("loading scale {scale} writes no more than {there}");
                self.results.stopped = Some(reason);
            }
            return Ok(());
        }
        workload.load(self.server, scale, seed)?;
        self.server.sql("CHECKPOINT")?;
        let from = self.begin()?;
        let mut count = FIRST_TRANSACTIONS;
        for slice in 1.. {
            self.show();
            let how = Transactions {
                scale,
                count,
                clients: self.options.clients,
                seed: seed.wrapping_add(slice),
            };
            self.results.transactions += workload.run(self.server, &how)?.transactions;
            let written = self.collect(from)?;
            if self.missing() == 0 {
                break;
            }
            // A few segments at a time, so that there is progress to be seen.
            let each = (written / self.results.transactions.max(1)).max(1);
            let wanted = self.missing().min(4) * self.server.segment_bytes();
            count = (wanted / each).clamp(1, count * 20);
        }
        Ok(())
    }

    /// Begins with a segment of its own.
    fn begin(&mut self) -> Result<u64, Error> {
        self.server.switch_segment()?;
        self.server.wal_position()
    }

    fn missing(&self) -> u64 {
        let there = self.results.segments.len() as u64;
        self.options.segments.saturating_sub(there)
    }

    /// Copies the segments that are complete by now; returns how much was written.
    fn collect(&mut self, from: u64) -> Result<u64, Error> {
        let to = self.server.wal_position()?;
        // The position behind a switch is that of the first page's header.
        let size = self.server.segment_bytes();
        let first = from / size + self.results.segments.len() as u64;
        for number in first..(to / size).min(first + self.missing()) {
            let (name, path) = self.server.segment(number)?;
            let target = self.options.output.join(&name);
            write_file(&target, |to| {
                io::copy(&mut File::open(&path)?, to)?;
                Ok(())
            })?;
            let blake3 = input::hash(&target).map_err(|source| Error::file(&target, source))?;
            let bytes = number * size..(number + 1) * size;
            self.results.wal += self.server.written(bytes)?;
            self.results.segments.push(Segment {
                name,
                bytes: size,
                blake3: blake3.to_string(),
            });
        }
        Ok(to - from)
    }

    fn show(&mut self) {
        let (done, missing) = (self.results.segments.len(), self.missing());
        let elapsed = self.begin.elapsed();
        let each = elapsed.checked_div(done as u32);
        let step = Step {
            done,
            total: done + missing as usize,
            label: format!(
                "{}: {} transactions",
                self.options.workload, self.results.transactions
            ),
            elapsed,
            remaining: each.map(|each: Duration| each * missing as u32),
        };
        self.progress.step(&step);
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        writeln!(
            f,
            "{}, {:.1} MB, of {} at scale {}, seed {}, by {}",
            counted(self.segments.len(), "segment"),
            megabytes(bytes),
            self.workload,
            self.scale,
            self.seed,
            self.server.version,
        )?;
        let what = match self.loading {
            true => "loading the data".to_owned(),
            false => counted(self.transactions as usize, "transaction"),
        };
        writeln!(
            f,
            "{what}; {} records, {} full-page images, which are {:.0} % of the bytes",
            self.wal.records,
            self.wal.images,
            self.wal.image_share() * 100.0,
        )?;
        match &self.stopped {
            Some(reason) => writeln!(f, "Incomplete: {reason}."),
            None => Ok(()),
        }
    }
}
