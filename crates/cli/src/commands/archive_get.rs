//! `walzip archive-get`: what `restore_command` calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use walzip_archive::get::{GetOptions, Got, get, get_of_data_directory};
use walzip_repo::{ClusterIdentity, open_store};

use crate::cluster_args;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{Place, RepoArgs};
use crate::store_args::ARCHIVE_TIMEOUT;
use crate::{running_as_root, runtime};

/// Get a WAL file from the archive (restore_command)
///
/// DEST appears complete or not at all, after every byte was checked. In a repository that was kept
/// through upgrades, the file is the newest cluster's, or in a data directory that cluster's. When
/// the archive does not have the file, which PostgreSQL asks for at the end of a recovery, the exit
/// code is 1 and nothing is printed. Storage that fails is tried again for some seconds, and storage
/// on another host for a minute.
///
/// Without --repo, the repositories of the configuration file are asked in the order of their
/// numbers, and the first one that has the file and can give it is taken. Where none has it and one
/// gave no answer, the exit code is not 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, in postgresql.conf of a standby, which asks again by itself:
  restore_command = 'walzip archive-get --repo /var/lib/walzip %f %p'

A recovery does not ask again: PostgreSQL takes every exit code up to 125 for the end of the WAL,
and opens the database. \"walzip restore\" writes a command at which it stops instead. By hand:
  restore_command = 'walzip archive-get --repo /var/lib/walzip %f %p || exit $(($? == 1 ? 1 : 126))'")]
pub struct ArchiveGetArgs {
    /// The file's name: %f of restore_command
    name: String,

    /// Where to write it: %p of restore_command
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    #[command(flatten)]
    repo: RepoArgs,
}

/// How long to wait before each further attempt when the repository's storage fails: a recovery
/// that gets no answer has to be started again by somebody.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
];

/// How long a store may be asked where another repository can answer as well.
const TIMEOUT_OF_ONE_OF_SEVERAL: Duration = Duration::from_secs(15);

/// Runs the command.
pub fn run(args: ArchiveGetArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let timeout = match args.repo.places(&config, None)?.len() {
        1 => ARCHIVE_TIMEOUT,
        _ => TIMEOUT_OF_ONE_OF_SEVERAL,
    };
    let places = args.repo.places(&config, Some(timeout))?;
    let directory = args
        .destination
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    running_as_root::refuse_foreign_directory(directory.unwrap_or(Path::new(".")))?;
    let got = runtime::block_on(async {
        // A store on another host has been asked again already.
        let pauses = match places.iter().all(|place| place.is_local()) {
            true => &PAUSES[..],
            false => &[],
        };
        for &pause in pauses {
            match from_any(&places, &args).await {
                Err(error) if error.kind() == Kind::Service => {
                    tracing::warn!("{}; trying again", error.message());
                    tokio::time::sleep(pause).await;
                }
                other => return other,
            }
        }
        from_any(&places, &args).await
    })?;
    match got {
        Got::Found {
            original_bytes,
            stored_bytes,
        } => {
            tracing::info!(
                "got {}: {original_bytes} bytes, stored as {stored_bytes}",
                args.name
            );
            Ok(())
        }
        Got::NotFound => {
            tracing::info!("{} is not in the archive", args.name);
            Err(CommandError::silent(Kind::NotInArchive))
        }
    }
}

/// Gets it from the first repository that has it and can give it. The archive does not have it if
/// no repository has: one that gave no answer might.
async fn from_any(places: &[Place], args: &ArchiveGetArgs) -> Result<Got, CommandError> {
    let mut failed: Option<CommandError> = None;
    let mut cluster = None;
    for place in places {
        match from(place, args, &mut cluster).await {
            Ok(Got::NotFound) => {}
            Ok(found) => {
                if let Some(error) = failed {
                    tracing::warn!("{}; {} is from {place}", error.message(), args.name);
                }
                return Ok(found);
            }
            Err(error) => {
                let error = place.name_in(error);
                if let Some(earlier) = failed.replace(error) {
                    tracing::warn!("{}", earlier.message());
                }
            }
        }
    }
    failed.map_or(Ok(Got::NotFound), Err)
}

/// Gets it from one repository. Where no data directory says whose file is meant, it is that of the
/// cluster that the first repository takes it to be: another one's would be wrong.
async fn from(
    place: &Place,
    args: &ArchiveGetArgs,
    cluster: &mut Option<ClusterIdentity>,
) -> Result<Got, CommandError> {
    let (name, destination) = (&args.name, &args.destination);
    // PostgreSQL runs restore_command in the data directory, and %p is relative to it. With
    // an absolute path, the current directory says nothing about who asks.
    let data_directory = destination.is_relative().then(|| PathBuf::from("."));
    if let Some(data_directory) = data_directory
        .as_deref()
        .filter(|path| has_control_file(path))
    {
        let store = open_store(place, &place.settings)?;
        return Ok(get_of_data_directory(&store, data_directory, name, destination).await?);
    }
    let repository = cluster_args::open(place, None).await?;
    let expected = *cluster.get_or_insert(repository.cluster());
    if repository.cluster() != expected {
        let message = format!("it is of {}, and not of {expected}", repository.cluster());
        return Err(CommandError::new(Kind::ArchiveMismatch, message));
    }
    let options = GetOptions { data_directory };
    Ok(get(&repository, name, destination, &options).await?)
}

/// Whether a directory is a cluster's. What cannot be looked at may be one's, and the reader of the
/// control file says why not.
fn has_control_file(directory: &Path) -> bool {
    let control_file = directory.join("global").join("pg_control");
    control_file.try_exists().unwrap_or(true)
}
