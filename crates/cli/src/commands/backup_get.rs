//! `walzip backup-get`: one file out of a backup.

use std::io::{self, Write};
use std::path::PathBuf;

use walzip_archive::backup_get::backup_get;
use walzip_repo::BackupLabel;

use crate::cluster_args::{self, ClusterArgs};
use crate::error::CommandError;
use crate::output_file::OutputFile;
use crate::repo_args::RepoArgs;
use crate::runtime;

/// Get one file out of a backup
///
/// Only the parts of the backup that hold the file are read. FILE is proven against the backup's
/// manifest before DEST appears.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip backup-get --repo /var/lib/walzip base/16384/2619 /tmp/2619")]
pub struct BackupGetArgs {
    /// The file's path below the data directory; in a tablespace, pg_tblspc/OID/...
    file: String,

    /// Where to write it
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// The backup [default: the newest]
    #[arg(long, value_name = "LABEL")]
    backup: Option<BackupLabel>,

    /// Replace DEST if it exists
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Runs the command.
pub fn run(args: BackupGetArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let location = args.repo.place(&config)?;
    let output = OutputFile::create(&args.destination, args.force, true)?;
    let (got, output) = runtime::block_on(async {
        let repository = cluster_args::open(&location, args.cluster.cluster).await?;
        Ok(backup_get(&repository, args.backup.as_ref(), &args.file, output).await?)
    })?;
    let is_file = output.is_provisional();
    output.publish()?;
    if !is_file {
        // It may be what the content went to.
        return Ok(());
    }
    writeln!(
        io::stdout(),
        "{} of backup {}: {} bytes",
        args.file,
        got.label,
        got.size_bytes
    )
    .map_err(CommandError::stdout)
}
