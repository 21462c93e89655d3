//! `walzip check`: does archiving work?

use std::io::Write;
use std::time::Duration;

use crate::connection_args::ConnectionArgs;
use crate::error::CommandError;
use crate::repo_args::{self, RepoArgs};
use crate::runtime;

/// Check that the server's WAL arrives in the repository
///
/// Asks the server which cluster it is, forces a WAL switch and waits until the segment is in
/// the repository. On a standby, where no switch can be forced, only the first is done.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip check --repo /var/lib/walzip -h /var/run/postgresql"
)]
pub struct CheckArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// How long to wait for the segment
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    archive_timeout: u64,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub fn run(args: CheckArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let location = args.repo.location(&config)?;
    let settings = args.connection.settings(&config)?;
    let timeout = Duration::from_secs(args.archive_timeout);
    let arrived = runtime::block_on(async {
        let repository = repo_args::open(&location).await?;
        Ok(walzip_archive::check::check(&repository, &settings, timeout).await?)
    })?;
    let mut out = std::io::stdout();
    match arrived {
        Some(segment) => writeln!(out, "{segment} was archived and is in {location}"),
        None => writeln!(
            out,
            "the server is the repository's cluster; no segment was forced"
        ),
    }
    .map_err(CommandError::stdout)
}
