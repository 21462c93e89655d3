//! `walzip bench generate`: WAL samples from a server that does what users do.

use std::path::PathBuf;

use walzip_bench::generate::{self, Options};
use walzip_bench::workload::Workload;

use super::standard_error::StandardError;
use super::{Surroundings, conclude};
use crate::error::CommandError;

/// Write WAL samples with a throw-away server
///
/// A server is started in a temporary directory, loaded, and worked on until it has written the
/// segments; then it is gone. The segments are complete, follow one another, and begin with the
/// transactions. Beside them, generated.json says where they come from. pgbench's rows are
/// padding; the other workloads' are not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads:
  pgbench      pgbench's own transactions
  shop         text, uuid, numeric, jsonb; B-tree and GIN; inserts, updates, deletes
  insert       rows in key order under three secondary indexes
  copy         bulk loads by COPY
  time-series  reports of many devices, and hourly sums
  documents    rows under GIN, GiST, SP-GiST, hash and BRIN indexes

Examples:
  walzip bench generate --workload shop --segments 20 --output samples/shop
  walzip bench generate --workload time-series --scale 10 --wal-compression lz4 \\
      --pg-bin /usr/lib/postgresql/17/bin --set wal_level=logical --output samples/series
  walzip bench wal samples")]
pub struct GenerateArgs {
    /// What the server does (see below)
    #[arg(long, value_name = "NAME")]
    workload: Workload,

    /// How much data there is: about 16 MB for each unit, pgbench's own for pgbench
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,

    /// What the data follows from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many segments to write
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    segments: u64,

    /// A new directory for them
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// Take the WAL of loading the data instead of that of the transactions
    #[arg(long)]
    loading: bool,

    /// How many clients work at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// off, pglz, lz4 or zstd, as the server was built
    #[arg(long, value_name = "METHOD", default_value = "off")]
    wal_compression: String,

    /// Size of a segment in MB: a power of two up to 1024
    #[arg(long, value_name = "MB", default_value_t = 16)]
    wal_segsize: u32,

    /// Make a cluster with checksums on its pages
    #[arg(long)]
    data_checksums: bool,

    /// Set a parameter of the server, such as max_wal_size=4GB
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    set: Vec<(String, String)>,

    /// Where initdb and postgres are [default: the newest PostgreSQL that is installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
}

/// A parameter of a server and its value, from NAME=VALUE.
pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("there is no =")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs the command.
pub fn run(args: GenerateArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let options = Options {
        workload: args.workload,
        scale: args.scale,
        seed: args.seed,
        segments: args.segments,
        output: args.output,
        loading: args.loading,
        clients: args.clients,
        wal_compression: args.wal_compression,
        segment_megabytes: args.wal_segsize,
        checksums: args.data_checksums,
        parameters: args.set,
        pg_bin: args.pg_bin,
        search_path: surroundings.search_path,
        temp_dir: surroundings.temp_dir,
        cancel: surroundings.cancel,
    };
    let mut progress = StandardError::new();
    let results = generate::run(&options, &mut progress)?;
    progress.finish();
    conclude(&results, &results.stopped, (0, ""))
}
