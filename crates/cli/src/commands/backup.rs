//! `walzip backup`: a base backup of the running cluster.

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::replication::ManifestChecksums;

use crate::connection_args::ConnectionArgs;
use crate::error::CommandError;
use crate::repo_args::{self, RepoArgs};
use crate::{root, runtime};

/// Take a base backup of the running cluster
///
/// The server's BASE_BACKUP is compressed and stored as it comes, then read back and compared with
/// the server's manifest. The backup is listed, and can be restored, only once all WAL that it
/// needs is in the repository. The user needs the
/// REPLICATION attribute, and pg_hba.conf has to let it in.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip backup --repo /var/lib/walzip -h /var/run/postgresql -U backup"
)]
pub struct BackupArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// Checkpoint at once, or spread over minutes to spare the server
    #[arg(short, long, value_enum, default_value_t = Checkpoint::Fast)]
    checkpoint: Checkpoint,

    /// The checksum that the server computes for each file
    #[arg(long, value_enum, default_value_t = Checksums::Crc32c)]
    manifest_checksums: Checksums,

    /// How long to wait for WAL to be archived [default: 60 before the copy, 3600 after it]
    #[arg(long, value_name = "SECONDS")]
    archive_timeout: Option<u64>,

    /// Do not read the backup back to prove it: faster, and a fault in the machine's memory or
    /// storage goes unnoticed until "walzip verify" or a restore
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checkpoint {
    Fast,
    Spread,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checksums {
    Crc32c,
    Sha256,
}

/// Runs the command.
pub fn run(args: BackupArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let location = args.repo.location(&config)?;
    root::refuse_foreign_repository(&location)?;
    let settings = args.connection.settings(&config)?;
    let defaults = BackupOptions::default();
    let timeout = args.archive_timeout.map(Duration::from_secs);
    let options = BackupOptions {
        fast_checkpoint: matches!(args.checkpoint, Checkpoint::Fast),
        checksums: match args.manifest_checksums {
            Checksums::Crc32c => ManifestChecksums::Crc32c,
            Checksums::Sha256 => ManifestChecksums::Sha256,
        },
        archive_timeout: timeout.unwrap_or(defaults.archive_timeout),
        wal_timeout: timeout.unwrap_or(defaults.wal_timeout),
        verify: !args.no_verify,
        ..defaults
    };
    let record = runtime::block_on_tidily(async {
        let repository = repo_args::open(&location).await?;
        Ok(backup(&repository, &settings, &options).await?)
    })?;
    writeln!(
        std::io::stdout(),
        "backup {}: {} bytes stored in {}, WAL {} to {}",
        record.label,
        record.original_bytes(),
        record.stored_bytes(),
        record.start.lsn,
        record.stop.lsn
    )
    .map_err(CommandError::stdout)
}
