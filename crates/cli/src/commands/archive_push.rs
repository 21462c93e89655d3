//! `walzip archive-push`: what `archive_command` calls.

use std::path::{Path, PathBuf};

use futures::future::join_all;
use tokio::sync::OnceCell;
use walzip_archive::push::{PushOptions, PushOutcome, Pushed, WalFile};

use crate::each_repository::found;
use crate::error::CommandError;
use crate::level_args::LevelArgs;
use crate::repo_args::{self, Place, RepoArgs};
use crate::store_args::ARCHIVE_TIMEOUT;
use crate::{running_as_root, runtime};

/// Archive a WAL file (archive_command)
///
/// PostgreSQL removes the file after success. So success means that an object in the repository
/// decodes to exactly these bytes and is durable. Pushing an identical file again succeeds; a
/// different file under the same name, or a file of another cluster, is refused.
///
/// Without --repo, the file goes into all repositories of the configuration file. Where one of them
/// cannot take it, the others have it, and PostgreSQL tries again: "walzip sync" is for the time
/// after it was taken out of the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, in postgresql.conf:
  archive_command = 'walzip archive-push --repo /var/lib/walzip %p'

The level may also stand in the configuration file, as \"level\".
Prints nothing on success (with -v, what was done). All exit codes lie below 126, so that
PostgreSQL keeps the file and tries again.")]
pub struct ArchivePushArgs {
    /// The file: %p of archive_command
    path: PathBuf,

    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    level: LevelArgs,

    /// Do not decode the object to prove it before it is stored: faster, and a fault in walzip
    /// or in the machine's memory goes unnoticed until the WAL is needed
    #[arg(long)]
    no_verify: bool,
}

/// Runs the command.
pub fn run(args: ArchivePushArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, Some(ARCHIVE_TIMEOUT))?;
    let pushed = runtime::block_on(async {
        let file = OnceCell::new();
        let pushes = places.iter().map(|place| push(place, &file, &args));
        Ok(join_all(pushes).await)
    })?;
    found(&places, pushed).finish().map(|_| ())
}

/// Pushes to one repository, at the same time as to the others. The first one opens the file.
async fn push(
    place: &Place,
    file: &OnceCell<WalFile>,
    args: &ArchivePushArgs,
) -> Result<(), CommandError> {
    running_as_root::refuse_foreign_repository(place)?;
    let options = PushOptions {
        level: args.level.for_wal(&place.config)?,
        verify: !args.no_verify,
        data_directory: data_directory_of(&args.path),
    };
    let repository = repo_args::open(place).await?;
    let file = file.get_or_try_init(|| WalFile::open(&args.path)).await?;
    tell(place, &file.push(&repository, &options).await?);
    Ok(())
}

fn tell(place: &Place, pushed: &Pushed) {
    match pushed.outcome {
        PushOutcome::Stored => tracing::info!(
            "archived {}{}: {} bytes in {}",
            pushed.name,
            place.in_which(),
            pushed.original_bytes,
            pushed.stored_bytes
        ),
        PushOutcome::AlreadyStored => {
            tracing::info!(
                "{} was archived before{}, and is identical",
                pushed.name,
                place.in_which()
            )
        }
    }
}

/// The data directory of a file in `pg_wal`. PostgreSQL runs `archive_command` in that directory,
/// and %p is relative to it.
fn data_directory_of(path: &Path) -> Option<PathBuf> {
    let pg_wal = path.parent()?;
    if pg_wal.file_name()? != "pg_wal" {
        return None;
    }
    match pg_wal.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => Some(directory.to_owned()),
        _ => Some(PathBuf::from(".")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_data_directory_of_what_archive_command_names() {
        let found = |path| data_directory_of(Path::new(path));
        assert_eq!(found("pg_wal/00000002.history"), Some(PathBuf::from(".")));
        assert_eq!(
            found("/d/pg_wal/00000002.history"),
            Some(PathBuf::from("/d"))
        );
        assert_eq!(found("/d/00000002.history"), None);
        assert_eq!(found("00000002.history"), None);
    }
}
