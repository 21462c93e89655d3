//! `walzip receive`: WAL as it is written, over a replication connection.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, try_join_all};
use walzip_archive::ArchiveError;
use walzip_archive::receive::{
    Destination, PushFailure, ReceiveOptions, Received, receive, stored_segments,
};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::ClusterIdentity;

use crate::connection_args::ConnectionArgs;
use crate::destinations::Destinations;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::level_args::LevelArgs;
use crate::repo_args::RepoArgs;
use crate::store_args::ARCHIVE_TIMEOUT;
use crate::{running_as_root, runtime};

/// Receive WAL as it is written, and archive it
///
/// The WAL is synced in the local directory before the server is told that it is received. Whole
/// segments go from there into the repository, or into all repositories of the configuration file,
/// and then from the directory. Where that fails, receiving goes on, and they wait in the directory.
///
/// What can be lost differs by tier. The directory: nothing that is committed, if
/// synchronous_standby_names names walzip (its application_name, unless another one is set) and this
/// host lives on; without that, what was written in the last moment. The repository: up to a segment
/// more, the one that is being received, and what waits in the directory. So archive_timeout is not
/// needed, which fills a segment for every interval.
///
/// The slot keeps the server from removing WAL that is not received. Set max_slot_wal_keep_size on
/// the server, so that a receiver that is away for too long does not fill its disk. With
/// synchronous_commit = remote_apply, commits would wait for ever: nothing is applied here.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip receive --slot walzip --create-slot --if-not-exists --directory /var/lib/walzip-receive \\
      --repo s3://wal-archive/db1 -h db1 -U replicator

It runs until SIGTERM or SIGINT, and then ends with 0. When the server goes away it connects again.
After a promotion it goes on along the new timeline; the last segment of the old one becomes
NAME.partial in the repository, unless the server archives its own (archive_mode).

While it runs, \"walzip backup\" needs no archive_command: leave that as it is, or set archive_mode
to off. Where that is on, an empty archive_command makes PostgreSQL keep all its WAL.

To restore what is only in the directory, copy it into pg_wal of the restored cluster before its
first start, NAME.partial as NAME, since it has a segment's length:
  for f in DIR/0*; do cp \"$f\" PGDATA/pg_wal/\"$(basename \"$f\" .partial)\"; done"
)]
pub struct ReceiveArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Where WAL is synced: an existing directory for this server alone
    #[arg(short = 'D', long, value_name = "DIR")]
    #[arg(env = "WALZIP_RECEIVE_DIRECTORY", hide_env_values = true)]
    directory: Option<PathBuf>,

    /// The physical replication slot
    #[arg(short = 'S', long, value_name = "NAME")]
    slot: String,

    /// Make the slot first; it keeps WAL from then on
    #[arg(long)]
    create_slot: bool,

    /// With --create-slot, take a slot that is there already
    #[arg(long, requires = "create_slot")]
    if_not_exists: bool,

    /// End with an error when the server goes away
    #[arg(short, long)]
    no_loop: bool,

    /// How often the server is told how far the WAL is received, if there is nothing new
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    status_interval: u64,

    /// Where the server has removed WAL that was not received, go on behind the gap: no restore gets
    /// across it, so take a backup then
    #[arg(long)]
    accept_gap: bool,

    /// Do not decode an object to prove it before it is stored: faster, and a fault in walzip or in
    /// the machine's memory goes unnoticed until the WAL is needed
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    level: LevelArgs,
}

/// Runs the command.
pub fn run(args: ReceiveArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, Some(ARCHIVE_TIMEOUT))?;
    let settings = args.connection.settings(&config)?;
    let directory = args.directory.or(config.receive_directory);
    let directory = directory.ok_or_else(|| {
        CommandError::new(
            Kind::OptionRequired,
            "no directory is named to receive into",
        )
        .hint("Use -D, the variable WALZIP_RECEIVE_DIRECTORY, or the key \"receive-directory\".")
    })?;
    running_as_root::refuse_foreign_directory(&directory)?;
    if !directory.is_dir() {
        let message = format!("the directory {} does not exist", directory.display());
        return Err(CommandError::new(Kind::FileMissing, message)
            .hint("Make it, on a disk that survives this host's crash."));
    }
    let destinations = Destinations::new(&places, &args.level, !args.no_verify, None)?;
    let options = ReceiveOptions {
        slot: args.slot.parse()?,
        create_slot: args.create_slot,
        if_not_exists: args.if_not_exists,
        directory,
        status_interval: Duration::from_secs(args.status_interval),
        reconnects: !args.no_loop,
        accepts_gap: args.accept_gap,
    };
    let signal = runtime::signals()
        .map_err(|error| CommandError::of_system("cannot handle signals", &error))?;
    let stop = async {
        let _ = signal.await;
    };
    let repositories = Repositories(destinations);
    let received = runtime::block_on(async {
        let received = receive(&settings, &repositories, &options, stop).await;
        Ok(received?)
    })?;
    report(&received, &options.directory)
}

/// Says how far each tier is.
fn report(received: &Received, directory: &Path) -> Result<(), CommandError> {
    let position = |position: Option<Lsn>| match position {
        Some(position) => format!("up to {position}"),
        None => "nothing new".to_owned(),
    };
    writeln!(
        std::io::stdout(),
        "received and synced in {}: {}; archived: {}; still to be archived: {}",
        directory.display(),
        position(received.synced),
        position(received.stored),
        match received.waiting {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        }
    )
    .map_err(CommandError::stdout)
}

struct Repositories<'p>(Destinations<'p>);

impl Destination for Repositories<'_> {
    fn push<'f>(
        &'f self,
        path: &'f Path,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'f, Result<(), PushFailure>> {
        let pushed = async move {
            let pushed = self.0.push_received(path, cluster).await.pushed;
            match pushed.all() {
                Ok(_) => Ok(()),
                Err(failures) => Err(failure(&failures)),
            }
        };
        pushed.boxed_local()
    }

    fn begin_session(&self, first: SegmentName) {
        self.0.begin_session(first);
    }

    fn stored(
        &self,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'_, Result<Vec<Vec<SegmentName>>, ArchiveError>> {
        let stored = async move {
            let repositories = self.0.repositories().await?;
            let segments = repositories.iter();
            try_join_all(segments.map(|repository| stored_segments(repository, cluster))).await
        };
        stored.boxed_local()
    }
}

fn failure(failures: &[CommandError]) -> PushFailure {
    let messages: Vec<&str> = failures.iter().map(CommandError::message).collect();
    PushFailure {
        message: messages.join("; "),
        is_taken: failures
            .iter()
            .all(|failure| failure.kind() == Kind::ArchiveDuplicate),
    }
}
