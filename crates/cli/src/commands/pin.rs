//! `walzip pin` and `unpin`: backups that stay, whatever the retention says.

use std::io::Write;

use walzip_archive::pins;
use walzip_repo::BackupLabel;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{self, RepoArgs};
use crate::{running_as_root, runtime};

/// Keep a backup until it is unpinned
///
/// "walzip expire" keeps a pinned backup, the backups that it needs and the WAL of its own moment,
/// whatever the retention says. Of the WAL after it only what the retention keeps stays, so that it may
/// come to be restored to its own moment only. "walzip info" shows pins.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip pin 20261121-220130F 'before the migration' --repo /var/lib/walzip")]
pub struct PinArgs {
    /// The backup, as "walzip info" shows it
    #[arg(value_name = "LABEL")]
    label: String,

    /// Why, for who sees it later
    #[arg(value_name = "REASON")]
    reason: Option<String>,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Let a pinned backup be expired
///
/// Nothing is removed: the next "walzip expire" treats it as any other backup.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip unpin 20261121-220130F --repo /var/lib/walzip")]
pub struct UnpinArgs {
    /// The backup, as "walzip info" shows it
    #[arg(value_name = "LABEL")]
    label: String,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Runs `pin`.
pub fn run(args: PinArgs) -> Result<(), CommandError> {
    let location = args.repo.sole_place(&args.repo.config()?)?;
    let label: BackupLabel = args.label.parse()?;
    running_as_root::refuse_foreign_repository(&location)?;
    runtime::block_on(async {
        let repository = repo_args::open(&location).await?;
        Ok(pins::pin(&repository, &label, args.reason).await?)
    })?;
    writeln!(std::io::stdout(), "{label} is pinned").map_err(CommandError::stdout)
}

/// Runs `unpin`.
pub fn run_unpin(args: UnpinArgs) -> Result<(), CommandError> {
    let location = args.repo.sole_place(&args.repo.config()?)?;
    let label: BackupLabel = args.label.parse()?;
    running_as_root::refuse_foreign_repository(&location)?;
    let was_pinned = runtime::block_on(async {
        let repository = repo_args::open(&location).await?;
        Ok(pins::unpin(&repository, &label).await?)
    })?;
    match was_pinned {
        true => writeln!(std::io::stdout(), "{label} is not pinned any more")
            .map_err(CommandError::stdout),
        false => {
            let message = format!("{label} is not pinned");
            Err(CommandError::new(Kind::OptionInvalid, message))
        }
    }
}
