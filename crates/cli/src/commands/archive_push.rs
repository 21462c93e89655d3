//! `walzip archive-push`: what `archive_command` calls.

use std::path::PathBuf;

use crate::asynchronous::{self, AsyncArgs, push::Call};
use crate::destinations::Destinations;
use crate::error::CommandError;
use crate::level_args::LevelArgs;
use crate::repo_args::RepoArgs;
use crate::runtime;
use crate::store_args::ARCHIVE_TIMEOUT;

/// Archive a WAL file (archive_command)
///
/// PostgreSQL removes the file after success. So success means that an object in the repository
/// decodes to exactly these bytes and is durable. Pushing an identical file again succeeds; a
/// different file under the same name, or a file of another cluster, is refused.
///
/// Without --repo, the file goes into all repositories of the configuration file. Where one of them
/// cannot take it, the others have it, and PostgreSQL tries again: "walzip sync" is for the time
/// after it was taken out of the file.
///
/// With --archive-async, a worker in the background pushes all segments that are ready, several at a
/// time. A call succeeds when its segment is in the archive, as always, and finds most of them there.
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

    #[command(flatten)]
    background: AsyncArgs,
}

/// Runs the command.
pub fn run(args: ArchivePushArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, Some(ARCHIVE_TIMEOUT))?;
    let count = config.repositories().len();
    // By a flag, somebody has meant it.
    let is_by_variable = std::env::var_os("WALZIP_REPO").is_some();
    if let ([place], 2.., true) = (places.as_slice(), count, is_by_variable) {
        tracing::warn!(
            "WALZIP_REPO is set: the file goes into {place} alone, and the configuration file has {count} repositories"
        );
    }
    let data_directory = asynchronous::data_directory_of(&args.path);
    let destinations = Destinations::new(&places, &args.level, !args.no_verify, data_directory)?;
    let spool_path = args.background.spool_path(&config);
    let call = spool_path.and_then(|path| Call::of(&args.path, &destinations, path.as_deref()));
    if args.background.is_worker() {
        return match call? {
            Some(call) => call.work(args.background.process_max(&config)?),
            None => Err(asynchronous::no_work()),
        };
    }
    // PostgreSQL's WAL does not wait until somebody has mended the spool. One that others can write in is not
    // used: they could acknowledge what is in no repository.
    let call = call.unwrap_or_else(|error| {
        tracing::warn!("{}; this call pushes the file itself", error.message());
        None
    });
    if let Some(outcome) = call.and_then(|call| call.wait()) {
        return outcome;
    }
    let spool_path = args.background.usual_spool_path(&config);
    asynchronous::push::note_pushed(&args.path, &destinations, spool_path);
    runtime::block_on(async { Ok(destinations.push(&args.path).await) })?
        .pushed
        .finish()
        .map(|_| ())
}
