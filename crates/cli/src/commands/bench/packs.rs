//! `walzip bench packs`: what do packs of WAL save, and what do they take?

use std::path::PathBuf;

use walzip_bench::packs::{self, Options};

use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude, make_repository};
use crate::error::CommandError;

/// Pack segments in packs of several lengths
///
/// Consecutive segments are archived one by one in a temporary repository, and packed by `walzip pack`
/// in packs of each length. Beside what is stored stand the processor time and the memory of packing,
/// the time of decoding all, and the time of a call that gets one segment. Every segment that is got
/// is compared with the original.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The temporary directory needs room for the segments twice; TMPDIR says where it is.

Examples:
  walzip bench packs /var/lib/postgresql/15/main --report packs.html
  walzip bench packs /mnt/old-wal --segments 256 --length 64 --length 256")]
pub struct PacksArgs {
    /// A folder of segments of one cluster, or a data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// How many segments, the newest ones [default: 64, with --quick 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    segments: Option<u32>,

    /// Packs of at most so many segments; may be repeated [default: 16, 64 and 256, with --quick 4 and 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    length: Vec<u16>,

    /// The level of walzip [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    level: Option<u8>,

    /// Few segments
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    files: FileArgs,
}

/// Runs the command.
pub fn run(args: PacksArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let options = Options {
        directory: args.directory,
        segments: args.segments.map(|count| count as usize),
        lengths: args.length,
        level: args.level,
        quick: args.quick,
        walzip: surroundings.walzip,
        make_repository,
        search_path: surroundings.search_path,
        temp_dir: surroundings.temp_dir,
        files: args.files.into(),
        cancel: surroundings.cancel,
    };
    let mut progress = StandardError::new();
    let results = packs::run(&options, &mut progress)?;
    progress.finish();
    conclude(&results, &results.stopped, (results.failed.len(), "ways"))
}
