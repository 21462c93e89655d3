//! `walzip bench wal`: which program and level is best for archived segments?

use std::path::PathBuf;

use walzip_bench::Sample;
use walzip_bench::contender::Request;
use walzip_bench::wal::{self, Options};

use super::archived::{self, Choice, Wanted};
use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude};
use crate::error::CommandError;
use crate::exit_code::Kind;

/// Compare programs and levels on WAL segments
///
/// Every program compresses and decompresses every segment as a process of its own; a figure
/// exists only when the round trip gave back every byte. zstd -1 is always measured, and sizes
/// are given relative to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip bench wal --pg-wal /var/lib/postgresql/15/main/pg_wal
  walzip bench wal --repo /var/lib/walzip --segments 20 --spread
  walzip bench wal --contender walzip --contender zstd:1-9 --json results.json segments/
  walzip bench wal --published --sample 100 --json r.json --resume archive/
  walzip bench wal --published --report report.html segments/")]
pub struct WalArgs {
    /// Segments, folders of segments, or folders of such folders; .xz files are unpacked
    #[arg(value_name = "PATH", required_unless_present_any = ["pg_wal", "repo"])]
    inputs: Vec<PathBuf>,

    /// Also the newest complete segments of this pg_wal directory, from copies
    #[arg(long, value_name = "DIR")]
    pg_wal: Option<PathBuf>,

    /// Also the newest segments of this repository's archive, fetched into a temporary directory
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,

    /// How many segments of --pg-wal or --repo [default: 10, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    segments: Option<u16>,

    /// Take the segments of --repo evenly from the whole archive instead of its end
    #[arg(long, requires = "repo")]
    spread: bool,

    /// Take N of the segments at random instead: of PATH, or of --repo's archive
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["pg_wal", "segments", "spread", "quick"])]
    sample: Option<u32>,

    /// What the choice of --sample follows from
    #[arg(long, value_name = "S", default_value_t = 1, requires = "sample")]
    seed: u64,

    /// Compare this program: all its levels, one (NAME:3), or some (NAME:1-9)
    #[arg(long, value_name = "NAME[:LEVELS]")]
    contender: Vec<Request>,

    /// Compare every program at every level
    #[arg(long, conflicts_with = "contender")]
    all: bool,

    /// Compare what was published in 2017, nine programs at nine levels each, with every walzip level [with --quick: eleven of these 81 pairs]
    #[arg(long, conflicts_with = "all")]
    published: bool,

    /// Only the first segment of each folder, once
    #[arg(long)]
    quick: bool,

    /// How often each measurement is made; what takes more than 20 s is measured once [default: 3, with
    /// --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Let walzip skip the proof by decoding
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    files: FileArgs,
}

/// Runs the command.
pub fn run(args: WalArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let sample = args.sample.map(|segments| Sample {
        segments: segments as usize,
        seed: args.seed,
    });
    if sample.is_some() && args.repo.is_some() && !args.inputs.is_empty() {
        return Err(CommandError::new(
            Kind::Usage,
            "--sample is of an archive or of files: name --repo or PATH",
        ));
    }
    let mut options = Options {
        inputs: args.inputs,
        pg_wal: args.pg_wal,
        contenders: args.contender,
        all: args.all,
        published: args.published,
        quick: args.quick,
        segments: args.segments.map(usize::from),
        runs: args.runs,
        no_verify: args.no_verify,
        // Of an archive, only what is chosen is fetched.
        sample: sample.filter(|_| args.repo.is_none()),
        files: args.files.into(),
        cancel: surroundings.cancel,
        launcher: Some(surroundings.walzip.clone()),
        ..Options::new(
            surroundings.walzip,
            surroundings.search_path,
            surroundings.temp_dir,
        )
    };
    let mut progress = StandardError::new();
    options.files.check()?;
    // Gone when the results are printed, whatever happens before.
    let _fetched = match &args.repo {
        None => None,
        Some(location) => {
            let wanted = Wanted {
                choice: match (sample, args.spread) {
                    (Some(sample), _) => Choice::AtRandom(sample),
                    (None, true) => Choice::Spread(options.segments()),
                    (None, false) => Choice::Newest(options.segments()),
                },
                temp_dir: &options.temp_dir,
                cancel: &options.cancel,
            };
            let fetched = archived::fetch(location, &wanted, &mut progress)?;
            options.sampled = fetched.sampled();
            options.inputs.push(fetched.folder());
            Some(fetched)
        }
    };
    let results = wal::run(&options, &mut progress)?;
    progress.finish();
    conclude(
        &results,
        &results.stopped,
        (results.failed.len(), "round trips"),
    )
}
