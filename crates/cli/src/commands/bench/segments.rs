//! `walzip bench segments`: does the segment size matter for archiving?

use std::path::PathBuf;

use clap::ValueEnum;
use walzip_bench::segments::{self, Content, METHODS, Method, Options, Target};

use super::standard_error::StandardError;
use super::{FileArgs, Surroundings, conclude, make_repository};
use crate::error::CommandError;

/// Archive the same bytes as small and as large segments
///
/// Each segment is archived by a process of its own, as archive_command does it: by cp, by dd
/// that waits for the disk, by scp and rsync over an SSH server on the loopback address that
/// this command starts, and by walzip. Every file is compared afterwards. Run as root, the
/// kernel is made to forget all files before each measurement.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without PATH, a throw-away server of each segment size writes the WAL. What the files and the
archive need of temporary space is about six times --total; TMPDIR says where.

Examples:
  walzip bench segments --json segments.json
  walzip bench segments --quick --way cp --way archive-push
  walzip bench segments --target /mnt/archive --way cp --way archive-push
  walzip bench segments --target backup@nas:/srv/wal --way scp --way rsync
  walzip bench segments --target s3://bucket/bench --content wal
  walzip bench segments --size 1 --size 16 --size 1024 --content wal")]
pub struct SegmentsArgs {
    /// Real WAL: segments, or folders of segments; other sizes are cut out of them
    #[arg(value_name = "PATH")]
    inputs: Vec<PathBuf>,

    /// A size of segments in MB: a power of two up to 1024; may be repeated [default: 16, 64]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=1024))]
    size: Vec<u32>,

    /// How much to archive of each size in MB [default: 1600 as published, with --quick 128]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    total: Option<u32>,

    /// Only this content
    #[arg(long, value_enum)]
    content: Option<OnlyContent>,

    /// Archive into this directory, such as a mounted one; by scp and rsync into one at a host that
    /// ssh reaches without asking, user@host:/path; or by walzip into a store (s3://, gs://, az://,
    /// sftp://) [default: a temporary directory]
    #[arg(long, value_name = "DIR|HOST|URL")]
    target: Option<Target>,

    /// The configuration of ssh for that host [default: the user's own]
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,

    /// Only this way to archive; may be repeated
    #[arg(long, value_name = "NAME", value_parser = way)]
    way: Vec<&'static Method>,

    /// Little data, once
    #[arg(long)]
    quick: bool,

    /// How often each measurement is repeated [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Leave files in memory: what other programs have there is then not forgotten either
    #[arg(long)]
    warm: bool,

    /// Where the programs of PostgreSQL are [default: the newest that is installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnlyContent {
    /// Zeros, as published
    Zeros,
    /// Real WAL
    Wal,
}

fn way(name: &str) -> Result<&'static Method, String> {
    Method::named(name).ok_or_else(|| {
        let names: Vec<_> = METHODS.iter().map(|way| way.name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Runs the command.
pub fn run(args: SegmentsArgs, surroundings: Surroundings) -> Result<(), CommandError> {
    let content = args.content.map(|content| match content {
        OnlyContent::Zeros => Content::Zeros,
        OnlyContent::Wal => Content::Wal,
    });
    let options = Options {
        inputs: args.inputs,
        sizes_megabytes: args.size,
        total_megabytes: args.total,
        contents: content.into_iter().collect(),
        target: args.target,
        ssh_config: args.ssh_config,
        methods: args.way,
        quick: args.quick,
        runs: args.runs,
        warm: args.warm,
        pg_bin: args.pg_bin,
        files: args.files.into(),
        cancel: surroundings.cancel,
        launcher: Some(surroundings.walzip.clone()),
        stores: super::stores::stores(),
        ..Options::new(
            surroundings.walzip,
            make_repository,
            surroundings.search_path,
            surroundings.temp_dir,
        )
    };
    let mut progress = StandardError::new();
    let results = segments::run(&options, &mut progress)?;
    progress.finish();
    let failed = results.failed.iter().filter(|failed| !failed.refused);
    conclude(&results, &results.stopped, (failed.count(), "ways"))
}
