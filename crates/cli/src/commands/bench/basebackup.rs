//! `walzip bench basebackup`: which compression is best for base backups?

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use walzip_bench::basebackup::{self, Options, Source};
use walzip_bench::workload::Workload;

use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude};
use crate::error::CommandError;

/// Compare compression methods and levels of base backups
///
/// Throw-away servers are filled with data and backed up by pg_basebackup with each method and
/// level that the server (PostgreSQL 15 or newer) compresses with, into a counter, and by walzip,
/// and pgBackRest where it is installed, into a repository. Time and size are ranked on each data set, and the ranks averaged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A manifest names data sets that you have downloaded and unpacked, relative to itself:
  [[data_set]]
  name = \"movies\"
  sql = [\"movies/tables.sql\"]
  csv = [{ file = \"movies/title.csv\", table = \"title\", options = \"HEADER\" }]
  dump = [\"movies/more.dump\"]           # for pg_restore
  commands = [[\"pgbench\", \"-i\"]]      # find the server by PGHOST, PGPORT, PGUSER, PGDATABASE
  then_sql = [\"movies/indexes.sql\"]
scripts/fetch-data-sets in the source downloads the seven data sets that were published, and
writes such a manifest.

A running server is only read, but each backup begins with a checkpoint, and the user needs
the REPLICATION attribute. Variables of libpq, such as PGPASSWORD and PGSSLMODE, count.

Examples:
  walzip bench basebackup --json basebackup.json
  walzip bench basebackup --data shop --scale 5 --loops 1
  walzip bench basebackup --server 'host=/var/run/postgresql user=backup'")]
pub struct BasebackupArgs {
    /// A generated data set; may be repeated [default: pgbench, shop, time-series]
    #[arg(long, value_enum, value_name = "NAME")]
    data: Vec<Generated>,

    /// The scale of generated data sets [default: about a gigabyte each, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,

    /// A manifest of data sets that were downloaded
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// A running server, by connection string; may be repeated
    #[arg(long, value_name = "STRING")]
    server: Vec<String>,

    /// Little data, some of the levels, one loop
    #[arg(long)]
    quick: bool,

    /// How often each backup is taken [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    loops: Option<u32>,

    /// Where the programs of PostgreSQL are [default: the newest that is installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Generated {
    Pgbench,
    Shop,
    Insert,
    Copy,
    TimeSeries,
}

impl Generated {
    fn workload(self) -> Workload {
        match self {
            Generated::Pgbench => Workload::Pgbench,
            Generated::Shop => Workload::Shop,
            Generated::Insert => Workload::Insert,
            Generated::Copy => Workload::Copy,
            Generated::TimeSeries => Workload::TimeSeries,
        }
    }
}

/// The scale of a data set that was asked for by name: about a gigabyte.
const SCALE: u32 = 40;

/// What libpq reads: its variables, and where the user's .pgpass and certificates are.
fn connection_environment() -> Vec<(OsString, OsString)> {
    let is_read = |name: &OsString| name.as_encoded_bytes().starts_with(b"PG") || name == "HOME";
    std::env::vars_os()
        .filter(|(name, _)| is_read(name))
        .collect()
}

/// Runs the command.
pub fn run(args: BasebackupArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let scale = args.scale.unwrap_or(if args.quick { 1 } else { SCALE });
    let generated = args.data.iter().map(|data| data.workload());
    let mut data_sets: Vec<Source> = generated
        .map(|workload| Source::Generated(workload, scale))
        .collect();
    if let Some(path) = &args.manifest {
        let downloaded = basebackup::manifest(path)?;
        data_sets.extend(downloaded.into_iter().map(Source::Downloaded));
    }
    data_sets.extend(args.server.into_iter().map(Source::Running));
    let options = Options {
        data_sets,
        scale: args.scale,
        quick: args.quick,
        loops: args.loops,
        pg_bin: args.pg_bin,
        files: args.files.into(),
        cancel: surroundings.cancel,
        launcher: Some(surroundings.walzip.clone()),
        connection_environment: connection_environment(),
        ..Options::new(
            surroundings.walzip,
            surroundings.search_path,
            surroundings.temp_dir,
        )
    };
    let mut progress = StandardError::new();
    let results = basebackup::run(&options, &mut progress)?;
    progress.finish();
    let failed = results.failed.iter().filter(|failed| !failed.unsupported);
    conclude(&results, &results.stopped, (failed.count(), "backups"))
}
