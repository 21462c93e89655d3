//! `walzip upgrade`: the same repository after pg_upgrade.

use std::io::Write;

use walzip_archive::init::{Source, upgrade_at};

use crate::each_repository::each;
use crate::error::CommandError;
use crate::repo_args::{Place, RepoArgs};
use crate::source_args::SourceArgs;
use crate::{running_as_root, runtime};

/// Go on in the same repository after pg_upgrade
///
/// pg_upgrade makes a cluster with another system identifier and a newer major version, whose WAL
/// the repository refuses until this command has registered it. Nothing of the older cluster is
/// changed: its backups and its WAL stay where they are, and "restore --backup" restores them. The
/// new cluster needs a base backup of its own, at once: no restore leads from the old backups
/// through the upgrade.
///
/// The cluster is read from the new data directory, or asked of the running server when a
/// connection flag is given or no data directory is known. Doing it twice is harmless. An older
/// major version is refused, and so is another cluster of the same one: that takes a repository of
/// its own. Whether a newer cluster is the older one's, walzip cannot tell. One that was registered by
/// mistake is taken back, as long as it has neither WAL nor backups, by removing the last record that
/// "repo ls cluster" shows: repo rm KEY --force --confirm.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip upgrade --repo /var/lib/walzip --pgdata /var/lib/postgresql/18/main
  walzip check --repo /var/lib/walzip
  walzip backup --repo /var/lib/walzip"
)]
pub struct UpgradeArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Let the new cluster have the same major version: pg_upgrade was rolled back after this
    /// command, and done again
    #[arg(long)]
    same_major: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// Runs the command.
pub fn run(args: UpgradeArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, None)?;
    let source = args.source.source(&config)?;
    each(&places, |place| {
        upgrade_one(place, &source, args.same_major)
    })
    .finish()
    .map(|_| ())
}

fn upgrade_one(location: &Place, source: &Source, same_major: bool) -> Result<(), CommandError> {
    running_as_root::refuse_foreign_repository(location)?;
    let done = runtime::block_on(async {
        Ok(upgrade_at(location, &location.settings, source, same_major).await?)
    })?;
    let mut out = std::io::stdout();
    match done.created {
        true => writeln!(
            out,
            "repository {location}: {} is registered; take a backup of it now (walzip backup)",
            done.cluster
        ),
        false => writeln!(
            out,
            "repository {location}: {} was registered before, nothing to do",
            done.cluster
        ),
    }
    .map_err(CommandError::stdout)
}
