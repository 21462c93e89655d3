//! `walzip bench`: measured on the user's own data, against what else there is.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use walzip_bench::contender::Request;
use walzip_bench::wal::{self, Options};
use walzip_bench::{Cancel, Error, Progress, Step};

use crate::error::{CommandError, chain};
use crate::exit_code::Kind;

/// Measure compressors on your own WAL
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum Experiment {
    Wal(WalArgs),
}

/// Compare programs and levels on WAL segments
///
/// Every program compresses and decompresses every segment as a process of its own; a figure
/// exists only when the round trip gave back every byte. zstd -1 is always measured, and sizes
/// are given relative to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip bench wal --pg-wal /var/lib/postgresql/15/main/pg_wal
  walzip bench wal --contender walzip --contender zstd:1-9 --json results.json segments/
  walzip bench wal --published --report report.html segments/")]
struct WalArgs {
    /// Segments, folders of segments, or folders of such folders; .xz files are unpacked
    #[arg(value_name = "PATH", required_unless_present = "pg_wal")]
    inputs: Vec<PathBuf>,

    /// Also the newest complete segments of this pg_wal directory, from copies
    #[arg(long, value_name = "DIR")]
    pg_wal: Option<PathBuf>,

    /// Compare this program: all its levels, one (NAME:3), or some (NAME:1-9)
    #[arg(long, value_name = "NAME[:LEVELS]")]
    contender: Vec<Request>,

    /// Compare every program at every level
    #[arg(long, conflicts_with = "contender")]
    all: bool,

    /// Compare what was published in 2017 with every walzip level
    #[arg(long, conflicts_with = "all")]
    published: bool,

    /// Only the first segment of each folder, once
    #[arg(long)]
    quick: bool,

    /// How often each measurement is repeated [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Let walzip skip the proof by decoding
    #[arg(long)]
    no_verify: bool,

    /// Write every measurement to FILE, one a line
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write everything to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with charts to FILE (HTML, complete in itself)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    let Experiment::Wal(args) = args.experiment;
    let internal = |error| CommandError::caused(Kind::Internal, "cannot begin", &error);
    let walzip = std::env::current_exe().map_err(internal)?;
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let options = Options {
        inputs: args.inputs,
        pg_wal: args.pg_wal,
        contenders: args.contender,
        all: args.all,
        published: args.published,
        quick: args.quick,
        runs: args.runs,
        no_verify: args.no_verify,
        csv: args.csv,
        json: args.json,
        report: args.report,
        cancel: Cancel::on_signals().map_err(internal)?,
        ..Options::new(walzip, search_path, std::env::temp_dir())
    };
    let mut progress = StandardError {
        rewrite: std::io::stderr().is_terminal(),
    };
    let results = wal::run(&options, &mut progress)?;
    progress.finish();
    write!(std::io::stdout(), "{results}").map_err(CommandError::stdout)?;
    match (results.stopped, results.failed.len()) {
        (Some(reason), _) => Err(CommandError::new(
            Kind::Problems,
            format_args!("stopped early: {reason}"),
        )),
        (None, 0) => Ok(()),
        (None, failed) => Err(CommandError::new(
            Kind::Problems,
            format_args!("{failed} round trips failed; the figures leave them out"),
        )),
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        let kind = match &error {
            Error::Usage(_) => Kind::Usage,
            Error::Missing { .. } => Kind::FeatureNotSupported,
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Kind::FileMissing
            }
            Error::File { .. } => Kind::FileRead,
            Error::Unpack { .. } => Kind::FileInvalid,
            Error::NoSpace { .. } => Kind::FileWrite,
            Error::Interrupted => Kind::Problems,
        };
        CommandError::new(kind, chain(&error))
    }
}

/// One line that is rewritten on a terminal, a line each otherwise.
struct StandardError {
    rewrite: bool,
}

impl StandardError {
    /// Progress that cannot be shown is no reason to stop measuring.
    fn show(&self, text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn finish(&self) {
        if self.rewrite {
            self.show("\r\x1b[K");
        }
    }
}

impl Progress for StandardError {
    fn note(&mut self, text: &str) {
        self.finish();
        self.show(&format!("{text}\n"));
    }

    fn step(&mut self, step: &Step) {
        let remaining = match step.remaining {
            Some(time) => format!(", about {} s left", time.as_secs()),
            None => String::new(),
        };
        let line = format!(
            "[{}/{}{remaining}] {}",
            step.done + 1,
            step.total,
            step.label
        );
        match self.rewrite {
            true => self.show(&format!("\r\x1b[K{line}")),
            false => self.show(&format!("{line}\n")),
        }
    }
}
