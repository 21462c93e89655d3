//! `walzip pack`: archived WAL into packs.

use std::io::Write;

use clap::value_parser;
use serde::Serialize;
use walzip_archive::pack::{NEWEST_KEPT, PackOptions, Packed, Packing, SEGMENTS_MAX, pack};
use walzip_archive::progress::Progress;

use crate::each_repository::{each, write_heading};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::level_args::LevelArgs;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, Place, RepoArgs};
use crate::{running_as_root, runtime};

/// Put archived WAL segments together in packs
///
/// A pack is one object with up to 256 consecutive segments of a timeline, or 4 GiB of WAL, that were
/// archived one by one. Each may be told from those before it, so a pack is smaller, and to get a
/// segment out of it those before it are decoded too. The newest segments of each timeline stay as
/// they are, and so does what makes no full pack yet. With smaller packs (--segments) one segment is
/// decoded sooner, and damage reaches less far.
///
/// Every pack is decoded and compared before it is put, and read back from the repository before the
/// segments' own objects are removed. When this is interrupted, every segment is there, and the next run goes on. Commands
/// may archive, get, verify and expire at the same time.
///
/// An older walzip, which knows of no packs, refuses the repository from then on: first install this
/// version wherever one archives, restores or looks after it. What could not be packed is listed, and
/// the exit code is then 104. Without --repo, this is done in all repositories of the configuration
/// file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip pack --repo /var/lib/walzip --dry-run
  walzip pack --repo /var/lib/walzip")]
pub struct PackArgs {
    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    level: LevelArgs,

    /// Leave so many segments as they are, the newest of each timeline
    #[arg(long, value_name = "N", default_value_t = NEWEST_KEPT)]
    newest: usize,

    /// How many segments a pack has at most
    #[arg(long, value_name = "N", default_value_t = SEGMENTS_MAX)]
    #[arg(value_parser = value_parser!(u16).range(2..=i64::from(SEGMENTS_MAX)))]
    segments: u16,

    /// Also make packs that are not full: what is archived later goes into another one
    #[arg(long)]
    all: bool,

    /// Only say what would be packed
    #[arg(long)]
    dry_run: bool,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,
}

/// What became of one repository.
#[derive(Serialize)]
struct PackedRepository {
    dry_run: bool,
    clusters: Vec<Packing>,
}

/// Runs the command.
pub fn run(args: PackArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let options = PackOptions {
        level: args.level.for_wal(&config)?,
        newest: args.newest,
        segments: args.segments.into(),
        all: args.all,
        dry_run: args.dry_run,
        scratch: std::env::temp_dir(),
        progress: Progress::default(),
    };
    let places = args.repo.places(&config, None)?;
    let packed = each(&places, |place| {
        let packed = pack_one(place, &options)?;
        if !args.json {
            print(place, &packed).map_err(CommandError::stdout)?;
        }
        Ok(packed)
    });
    if args.json {
        packed.print_json()?;
    }
    let packed = packed.finish()?;
    let clusters = packed.iter().flat_map(|packed| &packed.clusters);
    match clusters.map(|packing| packing.problems.len()).sum() {
        0_usize => Ok(()),
        count => Err(CommandError::new(
            Kind::Problems,
            format_args!("packs that could not be made or finished: {count}"),
        )),
    }
}

fn pack_one(place: &Place, options: &PackOptions) -> Result<PackedRepository, CommandError> {
    if !options.dry_run {
        running_as_root::refuse_foreign_repository(place)?;
    }
    runtime::block_on(async {
        let _line = ProgressLine::show(&options.progress);
        let repository = repo_args::open(place).await?;
        Ok(PackedRepository {
            dry_run: options.dry_run,
            clusters: pack(&repository, options).await?,
        })
    })
}

fn print(place: &Place, packed: &PackedRepository) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write_heading(&mut out, place)?;
    let (made, finished) = match packed.dry_run {
        true => ("would pack", "would finish"),
        false => ("packed", "finished"),
    };
    for packing in &packed.clusters {
        for pack in &packing.settled {
            writeln!(out, "{finished}: {}", described(pack))?;
        }
        for pack in &packing.packs {
            writeln!(out, "{made}: {}", described(pack))?;
        }
        for problem in &packing.problems {
            writeln!(
                out,
                "not packed: from {} on: {}",
                problem.first, problem.detail
            )?;
        }
        let segments: u64 = packing.packs.iter().map(|pack| pack.segments).sum();
        writeln!(
            out,
            "{made} of {}: packs {}, segments {segments}",
            packing.cluster,
            packing.packs.len()
        )?;
    }
    Ok(())
}

/// Which segments, and how large they were and are.
fn described(pack: &Packed) -> String {
    let sizes = match (pack.single_bytes, pack.stored_bytes) {
        (Some(before), Some(after)) => format!("{before} bytes, now {after}"),
        (Some(bytes), None) | (None, Some(bytes)) => format!("{bytes} bytes"),
        (None, None) => String::new(),
    };
    format!(
        "{} to {}, segments {}, {sizes}",
        pack.first, pack.last, pack.segments
    )
}
