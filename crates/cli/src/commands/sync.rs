//! `walzip sync`: what a repository lacks of the WAL that another one has.

use std::io::Write;

use serde::Serialize;
use walzip_archive::progress::Progress;
use walzip_archive::sync::{SyncOptions, Synced, sync};

use crate::each_repository::{each, write_heading};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::progress_line::ProgressLine;
use crate::repo_args::{self, Place, RepoArgs};
use crate::{running_as_root, runtime};

/// Bring repositories the WAL that others have and they lack
///
/// For a configuration file with several repositories, after one of them could not be reached or has
/// joined. Each gets what it lacks from the others, or the one that --repo N names. Every file is
/// proven by decoding before it is stored, and nothing is replaced. What "walzip expire" would remove
/// again is not brought: WAL from before a repository's oldest backup. To a repository without a
/// backup, all is brought. Backups are not copied: each repository has its own.
///
/// What could not be brought over is listed, and the exit code is then 104.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip sync --repo 2")]
pub struct SyncArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// How many files are on their way at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,

    /// Bring what follows pinned backups too: where nothing follows one, an expiry may have removed it
    #[arg(long)]
    pinned: bool,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,
}

/// What one repository got from the others.
#[derive(Serialize)]
struct Brought {
    from: Vec<From>,
}

#[derive(Serialize)]
struct From {
    repo: u16,
    clusters: Vec<Synced>,
    /// Why nothing came from there.
    error: Option<String>,
}

/// Runs the command.
pub fn run(args: SyncArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let all = args.repo.configured(&config, None)?;
    let targets = args.repo.places(&config, None)?;
    if all.len() < 2 || targets.iter().any(|place| place.number.is_none()) {
        let message = "the configuration file has to name several repositories";
        return Err(CommandError::new(Kind::OptionRequired, message)
            .hint("Add \"repo2\" and its settings. \"walzip repo copy\" copies a repository."));
    }
    let options = SyncOptions {
        parallel: usize::from(args.parallel),
        pinned: args.pinned,
        progress: Progress::default(),
    };
    let brought = each(&targets, |to| {
        running_as_root::refuse_foreign_repository(to)?;
        let brought = bring(&all, to, &options)?;
        if !args.json {
            print(to, &brought).map_err(CommandError::stdout)?;
        }
        Ok(brought)
    });
    if args.json {
        brought.print_json()?;
    }
    let brought = brought.finish()?;
    let from = brought.iter().flat_map(|brought| &brought.from);
    let silent = from.clone().filter(|from| from.error.is_some()).count();
    let clusters = from.flat_map(|from| &from.clusters);
    let problems: usize = clusters.map(|synced| synced.problems.len()).sum();
    match silent + problems {
        0 => Ok(()),
        count => Err(CommandError::new(
            Kind::Problems,
            format_args!("repositories and files that nothing could be brought of: {count}"),
        )),
    }
}

/// Brings one repository up to date. The others are asked in turn: what the first one has is not
/// lacked any more when the second one is asked.
fn bring(all: &[Place], to: &Place, options: &SyncOptions) -> Result<Brought, CommandError> {
    let mut from = Vec::new();
    let others = all.iter().filter(|place| place.number != to.number);
    for place in others {
        let synced = runtime::block_on(async {
            let _line = ProgressLine::show(&options.progress);
            let target = repo_args::open(to).await?;
            // One that is away is no reason not to ask the others.
            match repo_args::open(place).await {
                Ok(source) => Ok(Ok(sync(&source, &target, options).await?)),
                Err(error) => Ok(Err(error)),
            }
        })?;
        let (clusters, error) = match synced {
            Ok(clusters) => {
                for synced in &clusters {
                    let earlier = from
                        .iter_mut()
                        .flat_map(|from: &mut From| &mut from.clusters);
                    synced.solve(earlier);
                }
                (clusters, None)
            }
            Err(error) => (Vec::new(), Some(error.message().to_owned())),
        };
        from.push(From {
            repo: place.number.unwrap_or_default(),
            clusters,
            error,
        });
    }
    Ok(Brought { from })
}

fn print(to: &Place, brought: &Brought) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write_heading(&mut out, to)?;
    for From {
        repo,
        clusters,
        error,
    } in &brought.from
    {
        if let Some(error) = error {
            writeln!(out, "from repository {repo}: nothing: {error}")?;
        }
        for synced in clusters {
            for problem in &synced.problems {
                writeln!(
                    out,
                    "not brought from repository {repo}: {}: {}",
                    problem.name, problem.detail
                )?;
            }
            writeln!(
                out,
                "from repository {repo}: WAL files {}, {} bytes; not retained: {}",
                synced.wal_files, synced.stored_bytes, synced.not_retained
            )?;
        }
    }
    Ok(())
}
