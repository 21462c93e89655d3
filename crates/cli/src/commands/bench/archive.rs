//! `walzip bench archive`: what does archiving take, by walzip and by other archivers?

use std::path::PathBuf;
use std::time::Duration;

use walzip_bench::archive::{self, Kind, Options};

use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude, make_repository};
use crate::error::CommandError;

/// Archive segments and get them back, beside other archivers
///
/// walzip, and pgBackRest, WAL-G and Barman where they are installed, push the segments and get them
/// back, by a call for each as a server makes them: one after the other, and with a pause between the
/// calls in which a server would replay. Repositories are in the temporary directory. Every file that
/// is got is compared with the original. Processor time includes what works in the background.
///
/// How many files wait while a server writes, what that does to its transactions, and how long a
/// recovery takes is not measured here: scripts/measure-archive does that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The temporary directory needs room for the segments four times; TMPDIR says where it is.

Examples:
  walzip bench archive /var/lib/postgresql/15/main --report archive.html
  walzip bench archive /mnt/old-wal --segments 50 --archiver walzip --archiver pgbackrest
  walzip bench archive pg_wal-copy --quick --replay-ms 0")]
pub struct ArchiveArgs {
    /// A folder of segments of one cluster, or a data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// How many segments, the newest ones [default: 24, with --quick 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    segments: Option<u32>,

    /// Only this archiver; may be repeated
    #[arg(long, value_name = "NAME", value_parser = archiver)]
    archiver: Vec<Kind>,

    /// Few segments, once
    #[arg(long)]
    quick: bool,

    /// How often each measurement is repeated [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// How long a server takes to replay a segment, in milliseconds [default: 100]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(..=60_000))]
    replay_ms: Option<u32>,

    #[command(flatten)]
    files: FileArgs,
}

fn archiver(name: &str) -> Result<Kind, String> {
    let named = Kind::ALL.into_iter().find(|kind| kind.program() == name);
    named.ok_or_else(|| format!("there are {}", Kind::ALL.map(Kind::program).join(", ")))
}

/// Runs the command.
pub fn run(args: ArchiveArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let options = Options {
        directory: args.directory,
        segments: args.segments.map(|count| count as usize),
        kinds: args.archiver,
        quick: args.quick,
        runs: args.runs,
        replay: args.replay_ms.map(|ms| Duration::from_millis(ms.into())),
        walzip: surroundings.walzip,
        make_repository,
        search_path: surroundings.search_path,
        temp_dir: surroundings.temp_dir,
        files: args.files.into(),
        cancel: surroundings.cancel,
    };
    let mut progress = StandardError::new();
    let results = archive::run(&options, &mut progress)?;
    progress.finish();
    conclude(
        &results,
        &results.stopped,
        (results.failed.len(), "archivers"),
    )
}
