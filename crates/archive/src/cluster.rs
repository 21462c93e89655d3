//! Which cluster a data directory holds, or a server runs.

pub(crate) mod choice;
pub(crate) mod placement;
pub(crate) mod replay_start;
pub(crate) mod running_server;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walzip_pgformat::control_file::{ControlFile, ControlFileError};
use walzip_repo::{ClusterIdentity, RepoError, Repository};

use crate::coding;
use crate::error::ArchiveError;
use crate::files::regular_file;
use crate::server::replication::{Connection, ConnectionSettings, Mode};

/// How often a control file is read again that seems to be in the middle of a write.
const READ_ATTEMPTS: usize = 5;
/// More than any control file has.
const LEN_MAX: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Where the cluster's identity is read from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The control file in this data directory.
    DataDirectory(PathBuf),
    /// A running server.
    Server(Box<ConnectionSettings>),
}

impl Source {
    /// Whose the data directory is, or the server.
    pub(crate) async fn identity(&self) -> Result<ClusterIdentity, ArchiveError> {
        match self {
            Source::DataDirectory(path) => of_data_directory(path).await,
            Source::Server(settings) => of_server(settings).await,
        }
    }
}

async fn of_server(settings: &ConnectionSettings) -> Result<ClusterIdentity, ArchiveError> {
    let mut connection = Connection::open(settings, Mode::Replication).await?;
    let system = connection.identify_system().await?;
    let major = connection.major()?;
    connection.close().await;
    Ok(ClusterIdentity {
        system_id: system.system_id.0,
        major,
    })
}

/// Reads `global/pg_control` of a data directory, whose server may be running.
pub(crate) async fn read_control_file(data_directory: &Path) -> Result<ControlFile, ArchiveError> {
    let path = data_directory.join("global").join("pg_control");
    let mut attempt = 1;
    loop {
        let content = read(path.clone()).await?;
        match ControlFile::read(&content) {
            Ok(control_file) => return Ok(control_file),
            // A server that writes the file at this moment is no reason to fail.
            Err(ControlFileError::Checksum { .. }) if attempt < READ_ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(source) => return Err(ArchiveError::ControlFile { path, source }),
        }
    }
}

async fn read(path: PathBuf) -> Result<Vec<u8>, ArchiveError> {
    let read = move || {
        let content = regular_file::read_at_once(&path, LEN_MAX);
        content.map_err(|error| ArchiveError::file("read", &path, error))
    };
    coding::off_the_runtime(read).await
}

/// The cluster of a data directory.
pub(crate) async fn of_data_directory(
    data_directory: &Path,
) -> Result<ClusterIdentity, ArchiveError> {
    let control_file = read_control_file(data_directory).await?;
    Ok(ClusterIdentity {
        system_id: control_file.system_id.0,
        major: control_file.version.major,
    })
}

/// The part of the repository that belongs to a data directory's cluster; nothing for a directory
/// without a control file, which is of none yet.
pub(crate) async fn part_of_data_directory(
    repository: &Repository,
    data_directory: &Path,
) -> Result<Option<Repository>, ArchiveError> {
    let found = match of_data_directory(data_directory).await {
        Ok(found) => found,
        Err(ArchiveError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let part = part_of(repository, found, || data_directory.display().to_string()).await?;
    Ok(Some(part))
}

/// The part of the repository that belongs to this cluster, which is refused when it is not
/// registered.
pub(crate) async fn part_of(
    repository: &Repository,
    found: ClusterIdentity,
    what: impl FnOnce() -> String,
) -> Result<Repository, ArchiveError> {
    repository.of(found).await.map_err(|error| match error {
        RepoError::Mismatch {
            repository,
            cluster,
        } => ArchiveError::Mismatch {
            what: what(),
            found: cluster,
            repository,
        },
        error => error.into(),
    })
}
