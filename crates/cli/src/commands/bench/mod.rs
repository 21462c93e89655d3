//! `walzip bench`: measured on the user's own data, against what else there is.

mod archived;
mod basebackup;
mod generate;
mod insert;
mod segments;
pub mod standard_error;
mod wal;
mod wal_compression;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;

use walzip_bench::{Cancel, Error};

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
    Wal(wal::WalArgs),
    WalCompression(wal_compression::WalCompressionArgs),
    Insert(insert::InsertArgs),
    Segments(segments::SegmentsArgs),
    Basebackup(basebackup::BasebackupArgs),
    Generate(generate::GenerateArgs),
}

/// What an experiment takes from the process that runs it.
struct Surroundings {
    /// This program, which is a contender too.
    walzip: PathBuf,
    search_path: OsString,
    temp_dir: PathBuf,
    cancel: Cancel,
}

impl Surroundings {
    fn new() -> Result<Surroundings, CommandError> {
        let internal = |error| CommandError::caused(Kind::Internal, "cannot begin", &error);
        Ok(Surroundings {
            walzip: std::env::current_exe().map_err(internal)?,
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            temp_dir: std::env::temp_dir(),
            cancel: Cancel::on_signals().map_err(internal)?,
        })
    }
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    let surroundings = Surroundings::new()?;
    match args.experiment {
        Experiment::Wal(args) => wal::run(args, surroundings),
        Experiment::Insert(args) => insert::run(args, surroundings),
        Experiment::WalCompression(args) => wal_compression::run(args, surroundings),
        Experiment::Segments(args) => segments::run(args, surroundings),
        Experiment::Basebackup(args) => basebackup::run(args, surroundings),
        Experiment::Generate(args) => generate::run(args, surroundings),
    }
}

/// Prints what an experiment found.
fn print(results: &impl Display) -> Result<(), CommandError> {
    write!(std::io::stdout(), "{results}").map_err(CommandError::stdout)
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
            Error::Server { .. } => Kind::DbConnect,
            Error::Stopped { .. } | Error::Interrupted => Kind::Problems,
        };
        CommandError::new(kind, chain(&error))
    }
}
