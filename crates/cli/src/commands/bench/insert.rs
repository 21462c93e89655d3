//! `walzip bench insert`: what does `wal_compression` cost an insert?

use std::path::PathBuf;

use clap::ValueEnum;
use walzip_bench::insert::{self, Options};

use super::generate::parameter;
use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude};
use crate::error::CommandError;

/// Measure what wal_compression costs inserts and indexes
///
/// The insert benchmark, on a throw-away server for each method: rows in the order of their
/// primary key (l.i0), three secondary indexes (l.x), further rows under all of them (l.i1);
/// once with a database that fits shared_buffers and once with one of four times their size. With
/// --memory, a third time with a server that is IO-bound: it and the page cache that it fills are
/// limited together, by a memory cgroup, which takes root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip bench insert --quick
  walzip bench insert --rows 20000000 --set max_wal_size=16GB --runs 3 --report report.html
  walzip bench insert --database fits --method off --method lz4
  walzip bench insert --database io-bound --memory 25%")]
pub struct InsertArgs {
    /// Measure only this method: off, pglz, lz4 or zstd [default: all that the server has]
    #[arg(long, value_name = "METHOD")]
    method: Vec<String>,

    /// Whether the database fits shared_buffers
    #[arg(long, value_enum, default_value_t = Database::Both)]
    database: Database,

    /// Measure an IO-bound database too, with so much memory for server and page cache together:
    /// 512MB, 2GB, or a part of the database, such as 25%
    #[arg(long, value_name = "SIZE")]
    memory: Option<insert::MemoryLimit>,

    /// Rows of the first step [default: 5000000, with --quick 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    rows: Option<u64>,

    /// Rows of the last step [default: a fifth of those]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    further_rows: Option<u64>,

    /// How many clients insert at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// What the rows follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Do not wait for the disk: fsync = off [default with --quick]
    #[arg(long)]
    no_fsync: bool,

    /// Set a parameter of the servers, such as max_wal_size=16GB
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    set: Vec<(String, String)>,

    /// How often everything is repeated, each time with new servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// A look within two minutes: few rows, small segments
    #[arg(long)]
    quick: bool,

    /// Where initdb and postgres are [default: the newest PostgreSQL that is installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

/// Which databases to measure with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Database {
    /// It fits.
    Fits,
    /// It is four times as large.
    Exceeds,
    /// It exceeds what server and page cache have together [a quarter of it, or --memory].
    IoBound,
    /// The first two, one after the other.
    Both,
}

impl Database {
    fn memories(self) -> Vec<insert::Memory> {
        match self {
            Database::Fits => vec![insert::Memory::Fits],
            Database::Exceeds => vec![insert::Memory::Exceeds],
            Database::IoBound => vec![insert::Memory::IoBound],
            Database::Both => insert::Memory::ALL.to_vec(),
        }
    }
}

/// Runs the command.
pub fn run(args: InsertArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let quick = args.quick;
    let rows = args.rows.unwrap_or(if quick { 50_000 } else { 5_000_000 });
    let mut memories = args.database.memories();
    if args.memory.is_some() && !memories.contains(&insert::Memory::IoBound) {
        memories.push(insert::Memory::IoBound);
    }
    let options = Options {
        methods: args.method,
        memories,
        memory_limit: args.memory.unwrap_or(insert::MemoryLimit::Percent(25)),
        rows,
        further_rows: args.further_rows.unwrap_or((rows / 5).max(100)),
        clients: args.clients,
        seed: args.seed,
        fsync: !(args.no_fsync || quick),
        runs: args.runs,
        parameters: args.set,
        quick,
        pg_bin: args.pg_bin,
        search_path: surroundings.search_path,
        temp_dir: surroundings.temp_dir,
        files: args.files.into(),
        cancel: surroundings.cancel,
    };
    let mut progress = StandardError::new();
    let results = insert::run(&options, &mut progress)?;
    progress.finish();
    conclude(&results, &results.stopped, (0, ""))
}
