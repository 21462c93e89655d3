//! `walzip bench wal-compression`: what does `wal_compression` do?

use std::path::PathBuf;

use walzip_bench::contender::Request;
use walzip_bench::wal_compression::{self, Options, READERS_ROWS};
use walzip_bench::workload::Workload;

use super::generate::parameter;
use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude};
use crate::error::CommandError;

/// Compare the server's settings of wal_compression
///
/// Each method gets a throw-away server, which loads data and runs transactions on it, then
/// inserts rows into a table of their own and updates each of them. What it
/// wrote is read from its WAL; then programs compress some of the segments, as they would in
/// archive_command. Without options, that is what was published: pgbench at scale 100 and
/// 200,000 transactions, for which 8 GB must be free in TMPDIR.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip bench wal-compression --quick
  walzip bench wal-compression --standby --method off --method lz4
  walzip bench wal-compression --checkpoints 3 --report report.html
  walzip bench wal-compression --workload shop --scale 20 --transactions 50000 \\
      --set max_wal_size=4GB --method off --method lz4 --json results.json")]
pub struct WalCompressionArgs {
    /// Measure only this method: off, pglz, lz4 or zstd [default: all that the server has]
    #[arg(long, value_name = "METHOD")]
    method: Vec<String>,

    /// What the servers do: pgbench, shop, insert, copy, time-series or documents
    #[arg(long, value_name = "NAME", default_value = "pgbench")]
    workload: Workload,

    /// How much data there is: about 16 MB for each unit [default: 100, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,

    /// How many transactions [default: 200000, with --quick 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,

    /// How many clients work at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// What the clients' choices follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many rows are inserted into a table of their own, and then updated [default: 1500000 as a
    /// reader of the article did, with --quick 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows: Option<u64>,

    /// Give each server a standby on this machine: what it receives, and how far behind it is
    #[arg(long)]
    standby: bool,

    /// So many checkpoints during the transactions, for every method alike
    #[arg(long, value_name = "N")]
    checkpoints: Option<u32>,

    /// Do not wait for the disk: fsync = off [default with --quick]
    #[arg(long)]
    no_fsync: bool,

    /// Set a parameter of the servers, such as shared_buffers=2GB
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    set: Vec<(String, String)>,

    /// How often everything is repeated, each time with new servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Compress with this program: all its levels, one (NAME:3), or some (NAME:1-9)
    #[arg(long, value_name = "NAME[:LEVELS]")]
    contender: Vec<Request>,

    /// How many segments of each step the programs get at most; sizes then have an uncertainty
    /// [default: all, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    segments: Option<u64>,

    /// A look within two minutes: little data, small segments, few programs
    #[arg(long)]
    quick: bool,

    /// Where initdb and postgres are [default: the newest PostgreSQL that is installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

/// Runs the command.
pub fn run(args: WalCompressionArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let quick = args.quick;
    let options = Options {
        methods: args.method,
        workload: args.workload,
        scale: args.scale.unwrap_or(if quick { 1 } else { 100 }),
        transactions: args
            .transactions
            .unwrap_or(if quick { 2_000 } else { 200_000 }),
        clients: args.clients,
        seed: args.seed,
        checkpoints: args.checkpoints,
        rows: args
            .rows
            .unwrap_or(if quick { 20_000 } else { READERS_ROWS }),
        standby: args.standby,
        fsync: !(args.no_fsync || quick),
        runs: args.runs,
        parameters: args.set,
        segments: args.segments.or(quick.then_some(3)),
        contenders: args.contender,
        quick,
        pg_bin: args.pg_bin,
        launcher: Some(surroundings.walzip.clone()),
        walzip: surroundings.walzip,
        search_path: surroundings.search_path,
        temp_dir: surroundings.temp_dir,
        files: args.files.into(),
        cancel: surroundings.cancel,
    };
    let mut progress = StandardError::new();
    let results = wal_compression::run(&options, &mut progress)?;
    progress.finish();
    let failed = results.archive.iter().map(|archive| archive.failed.len());
    conclude(&results, &results.stopped, (failed.sum(), "round trips"))
}
