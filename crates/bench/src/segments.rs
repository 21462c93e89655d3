//! Does the segment size matter for archiving?
//!
//! The same number of bytes is archived as many small segments and as few large ones, in every
//! way that people use: a process for each segment, as archive_command starts it. Afterwards
//! every file is compared with what it was made from.

mod csv;
mod measure;
mod published;
mod report;
mod results;
mod resume;
mod sets;
mod sshd;
mod text;
mod ways;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::contender::find_program;
use crate::output::{Files, check_space};
use crate::process::{Surroundings, memory_floor};
use crate::server::Installation;
use crate::{Cancel, Error, Input, Program, Progress, Provenance, Scratch, input};

use self::measure::{Runnable, Schedule};
use self::sets::Workshop;
use self::sshd::Sshd;

pub use published::{PUBLISHED, Published};
pub use results::{Caches, Failed, Figures, Measurement, Results, Row, Settings};
pub use sets::{Content, Set};
pub use ways::{Kind, WAYS, Way};

/// The sizes that were published.
const SIZES_MEGABYTES: &[u32] = &[16, 64];
/// What was published: 100 segments of 16 MB.
const TOTAL_MEGABYTES: u32 = 1600;
/// A little of everything.
const QUICK_MEGABYTES: u32 = 128;
/// How often each measurement is repeated unless the caller says otherwise.
const RUNS: u32 = 3;
/// Makes the kernel forget what files contain; root may write to it.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Makes a repository in a directory for a cluster: its system identifier and major.
pub type MakeRepository = fn(&Path, u64, u32) -> Result<(), String>;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Real WAL; without any, a throw-away server writes it.
    pub inputs: Vec<PathBuf>,
    /// The sizes of segments in MB (2^20 bytes); none for 16 and 64.
    pub sizes_megabytes: Vec<u32>,
    /// The size of each set of segments in MB.
    pub total_megabytes: Option<u32>,
    /// The contents; none for both.
    pub contents: Vec<Content>,
    /// The ways; none for all.
    pub ways: Vec<&'static Way>,
    /// Little data, one run.
    pub quick: bool,
    /// How often each measurement is repeated.
    pub runs: Option<u32>,
    /// Leave what files contain in memory.
    pub warm: bool,
    /// Where the programs of PostgreSQL are, if not where a distribution puts them.
    pub pg_bin: Option<PathBuf>,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// How to make a repository for it, which is not measured.
    pub make_repository: MakeRepository,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where a temporary directory is made; it is gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Asked before each process; kills the one that is running.
    pub cancel: Cancel,
}

impl Options {
    /// What was published, and walzip.
    pub fn new(
        walzip: PathBuf,
        make_repository: MakeRepository,
        search_path: OsString,
        temp_dir: PathBuf,
    ) -> Options {
        Options {
            inputs: Vec::new(),
            sizes_megabytes: Vec::new(),
            total_megabytes: None,
            contents: Vec::new(),
            ways: Vec::new(),
            quick: false,
            runs: None,
            warm: false,
            pg_bin: None,
            launcher: None,
            walzip,
            make_repository,
            search_path,
            temp_dir,
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    fn sizes(&self) -> Result<Vec<u64>, Error> {
        let mut sizes = match self.sizes_megabytes.is_empty() {
            true => SIZES_MEGABYTES.to_vec(),
            false => self.sizes_megabytes.clone(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        let is_possible = |size: &u32| size.is_power_of_two() && *size <= 1024;
        if let Some(wrong) = sizes.iter().find(|size| !is_possible(size)) {
            return Err(Error::Usage(format!(
                "segments cannot have {wrong} MB: PostgreSQL has the powers of two from 1 to 1024"
            )));
        }
        Ok(sizes.iter().map(|size| u64::from(*size) << 20).collect())
    }

    fn total_bytes(&self) -> u64 {
        let usual = match self.quick {
            true => QUICK_MEGABYTES,
            false => TOTAL_MEGABYTES,
        };
        u64::from(self.total_megabytes.unwrap_or(usual)) << 20
    }

    fn wants(&self, content: Content) -> bool {
        self.contents.is_empty() || self.contents.contains(&content)
    }
}

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
    let mut left_out = Vec::new();
    let (rows, _server) = find_rows(options, surroundings, &mut left_out)?;
    for reason in &left_out {
        progress.note(reason);
    }
    let caches = caches(options);
    if let Caches::Warm(reason) = &caches {
        progress.note(&format!("files may be in memory: {reason}"));
    }
    let sets = make_sets(options, surroundings, &mut left_out, progress)?;
    let settings = Settings {
        total_bytes: options.total_bytes(),
        runs: options.runs.unwrap_or(if options.quick { 1 } else { RUNS }),
        quick: options.quick,
        caches,
    };
    let described = rows.iter().map(|(row, _, _)| row.clone()).collect();
    let mut results = Results::new(provenance, settings, sets, described, left_out);
    if options.files.resume {
        results.resume(&options.files, progress)?;
    }
    Schedule {
        rows: &rows,
        results: &mut results,
        surroundings,
        make_repository: options.make_repository,
        files: &options.files,
        progress,
    }
    .measure_all();
    results.provenance.finish();
    results.summarise();
    Ok(results)
}

/// What takes part, and the SSH server that some of it needs.
fn find_rows(
    options: &Options,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
) -> Result<(Vec<Runnable>, Option<Sshd>), Error> {
    let asked = |way: &&Way| {
        options.ways.is_empty() || options.ways.iter().any(|asked| asked.name == way.name)
    };
    let mut rows: Vec<Runnable> = Vec::new();
    for way in WAYS.iter().filter(asked) {
        let path = match way.is_walzip() {
            true => options.walzip.is_file().then(|| options.walzip.clone()),
            false => find_program(way.program, surroundings.search_path),
        };
        match path {
            Some(path) => {
                let program = identify(way, &path, surroundings);
                rows.push((Row::new(way, program), way, path));
            }
            None => left_out.push(format!(
                "{} is left out: {} is not installed (package {})",
                way.name, way.program, way.package
            )),
        }
    }
    let server = start_sshd(&mut rows, surroundings, left_out);
    if rows.is_empty() {
        return Err(Error::Usage(format!(
            "no way to measure: {}",
            left_out.join("; ")
        )));
    }
    Ok((rows, server))
}

/// scp does not say its version; it comes with ssh, which does.
fn identify(way: &Way, path: &Path, surroundings: Surroundings<'_>) -> Program {
    if way.version.is_empty() {
        let ssh = find_program("ssh", surroundings.search_path);
        let of_ssh = ssh.map(|ssh| Program::identify(&ssh, way.package, &["-V"], surroundings));
        let of_itself = Program::identify(path, way.package, &["-V"], surroundings);
        return Program {
            version: of_ssh.map_or(of_itself.version, |ssh| ssh.version),
            ..of_itself
        };
    }
    Program::identify(path, way.package, way.version, surroundings)
}

/// Starts the SSH server when something needs it; without it, those ways are left out.
fn start_sshd(
    rows: &mut Vec<Runnable>,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
) -> Option<Sshd> {
    if !rows.iter().any(|(row, _, _)| row.kind == Kind::Ssh) {
        return None;
    }
    let started = match sshd::program(surroundings) {
        None => Err(format!(
            "sshd is not installed (package {})",
            sshd::SERVER_PACKAGE
        )),
        Some(_) if find_program("ssh", surroundings.search_path).is_none() => Err(format!(
            "ssh is not installed (package {})",
            sshd::CLIENT_PACKAGE
        )),
        Some(program) => Sshd::start(&program, surroundings).map_err(|error| error.to_string()),
    };
    match started {
        Ok(server) => Some(server),
        Err(reason) => {
            let mut without = Vec::new();
            rows.retain(|(row, _, _)| {
                if row.kind == Kind::Ssh {
                    without.push(row.way);
                }
                row.kind != Kind::Ssh
            });
            left_out.push(format!("{} are left out: {reason}", without.join(" and ")));
            None
        }
    }
}

/// Whether this process can, and is to, make the kernel forget what files contain.
fn caches(options: &Options) -> Caches {
    if options.warm {
        return Caches::Warm("as asked for".to_owned());
    }
    match std::fs::OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => Caches::Cold,
        Err(_) => Caches::Warm("only root can make the kernel forget them".to_owned()),
    }
}

fn make_sets(
    options: &Options,
    surroundings: Surroundings<'_>,
    left_out: &mut Vec<String>,
    progress: &mut impl Progress,
) -> Result<Vec<Set>, Error> {
    let sizes = options.sizes()?;
    let workshop = Workshop {
        directory: &surroundings.temp_dir.join("sources"),
        total_bytes: options.total_bytes(),
        cancel: surroundings.cancel,
    };
    let contents = [Content::Zeros, Content::Wal];
    let wanted = contents.iter().filter(|content| options.wants(**content));
    // All sets are there at once, one more is the archive, and a server takes some.
    let sets = (wanted.count() * sizes.len()) as u64;
    let needed = options.total_bytes().max(*sizes.last().unwrap_or(&0));
    check_space(surroundings.temp_dir, needed.saturating_mul(sets + 2))?;
    let mut made = Vec::new();
    if options.wants(Content::Zeros) {
        for size in &sizes {
            made.push(workshop.zeros(*size)?);
        }
    }
    if !options.wants(Content::Wal) {
        return Ok(made);
    }
    if !options.inputs.is_empty() {
        let inputs: Vec<Input> =
            input::gather(&options.inputs, None, false, surroundings, progress)?;
        for size in &sizes {
            made.push(workshop.given(&inputs, *size)?);
        }
        return Ok(made);
    }
    let installation = Installation::find(
        options.pg_bin.as_deref(),
        surroundings.search_path,
        // A server may run as another user, who cannot enter a directory of ours.
        &options.temp_dir,
        surroundings.cancel,
    );
    match installation {
        Ok(installation) => {
            for size in &sizes {
                made.push(workshop.generated(&installation, *size, progress)?);
            }
        }
        Err(error @ Error::Missing { .. }) => {
            let reason = format!("real WAL is left out: {error}, or name segments");
            progress.note(&reason);
            left_out.push(reason);
        }
        Err(error) => return Err(error),
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_postgresqls_and_the_published_ones_unless_named() {
        let mut options = Options::new(
            PathBuf::new(),
            |_, _, _| Ok(()),
            OsString::new(),
            PathBuf::new(),
        );
        assert_eq!(options.sizes().unwrap(), [16 << 20, 64 << 20]);
        assert_eq!(options.total_bytes(), 100 * (16 << 20));
        options.sizes_megabytes = vec![1024, 1, 1];
        assert_eq!(options.sizes().unwrap(), [1 << 20, 1 << 30]);
        options.sizes_megabytes = vec![3];
        let error = options.sizes().unwrap_err().to_string();
        assert!(error.contains("cannot have 3 MB"), "{error}");
    }
}
