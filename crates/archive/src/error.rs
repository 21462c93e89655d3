//! Errors, told apart by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use walzip_codec::{DecodeError, EncodeError};
use walzip_pgformat::control_file::ControlFileError;
use walzip_pgformat::wal_file_name::WalFileNameError;
use walzip_repo::{ClusterIdentity, RepoError};

use crate::archiver::Archiver;
use crate::content::ContentError;
use crate::replication::ServerError;
use crate::restore::TimeError;

/// Why an operation on the archive failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The request contradicts itself or the state of things: ask for something else.
    #[error("{0}")]
    Request(String),

    /// A text does not say at which moment recovery is to end.
    #[error(transparent)]
    Time(#[from] TimeError),

    /// The name is none that PostgreSQL archives.
    #[error(transparent)]
    Name(#[from] WalFileNameError),

    /// A local file or directory could not be used.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File {
        /// What was tried: "read", "write", "rename".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A local file is not what its name says, or changed while it was read.
    #[error("{path} cannot be archived: {reason}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What contradicts what.
        reason: String,
    },

    /// The control file of a data directory cannot be believed.
    #[error("{path}: {source}", path = path.display())]
    ControlFile {
        /// The control file.
        path: PathBuf,
        /// What is wrong with it.
        source: ControlFileError,
    },

    /// The repository belongs to another cluster.
    #[error("{what} belongs to {found}, the repository to {repository}")]
    Mismatch {
        /// What was compared: a file, a data directory, a server.
        what: String,
        /// Its cluster.
        found: ClusterIdentity,
        /// The repository's cluster.
        repository: ClusterIdentity,
    },

    /// The archive has other content under this name. Nothing was changed.
    #[error("{name} is in the archive already, with different content")]
    Duplicate {
        /// The WAL file's name.
        name: String,
    },

    /// An object in the repository cannot be decoded.
    #[error("{object} in the repository cannot be decoded: {source}")]
    Undecodable {
        /// The WAL file's name, or the backup's label and object.
        object: String,
        /// Why not.
        source: DecodeError,
    },

    /// An object in the repository is not what it has to be.
    #[error("{object} in the repository is damaged: {reason}")]
    Damaged {
        /// The WAL file's name, or the backup's label and object.
        object: String,
        /// What contradicts what.
        reason: String,
    },

    /// The file could not be encoded; nothing was archived.
    #[error("{name} could not be encoded: {source}")]
    Encode {
        /// The WAL file's name.
        name: String,
        /// Why not.
        source: EncodeError,
    },

    /// The server archives nothing.
    #[error("archive_mode is off on the server: none of its WAL is archived")]
    ArchiveModeOff,

    /// Nothing is set that would archive.
    #[error("archive_command is empty on the server: its WAL waits in pg_wal for one")]
    NoArchiveCommand,

    /// The server took a segment for archived that is not in the repository.
    #[error("the server reports {segment} as archived, and the repository does not have it")]
    ArchivedElsewhere {
        /// The segment.
        segment: String,
        /// What the server said.
        archiver: Box<Archiver>,
    },

    /// WAL did not arrive in the archive in time.
    #[error("{segment} was not archived within {waited_seconds} seconds{}", because(.failure))]
    NotArchived {
        /// The first segment that is missing.
        segment: String,
        /// How long the repository was watched.
        waited_seconds: u64,
        /// The last failure that the server's archiver reports, if it is not past.
        failure: Option<String>,
        /// What the server said, if it could be asked.
        archiver: Option<Box<Archiver>>,
    },

    /// The role may not make the server end a segment, so that nothing shows that WAL arrives.
    #[error("whether WAL arrives cannot be checked: {0}")]
    SwitchRefused(ServerError),

    /// No backup in the repository serves the request.
    #[error("no backup to restore: {0}")]
    NoBackup(String),

    /// A directory to restore into holds something.
    #[error("{path} is not empty", path = path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },

    /// A fault in walzip or a library below it.
    #[error("internal error: {0}")]
    Internal(String),

    /// The repository failed.
    #[error(transparent)]
    Repository(RepoError),

    /// The server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl ArchiveError {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> ArchiveError {
        ArchiveError::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// What a damaged local file is, as opposed to a damaged stored object.
    pub(crate) fn invalid_file(
        path: &Path,
        error: ContentError,
        repository: ClusterIdentity,
    ) -> ArchiveError {
        match error {
            ContentError::Cluster(found) => ArchiveError::Mismatch {
                what: path.display().to_string(),
                found,
                repository,
            },
            other => ArchiveError::Invalid {
                path: path.to_owned(),
                reason: other.to_string(),
            },
        }
    }

    /// A stored object with content that does not belong under its name.
    pub(crate) fn invalid_object(
        name: &str,
        error: ContentError,
        repository: ClusterIdentity,
    ) -> ArchiveError {
        match error {
            ContentError::Cluster(found) => ArchiveError::Mismatch {
                what: name.to_owned(),
                found,
                repository,
            },
            other => ArchiveError::Damaged {
                object: name.to_owned(),
                reason: other.to_string(),
            },
        }
    }
}

impl From<RepoError> for ArchiveError {
    /// One variant for one fact: who finds a mismatch does not matter to the caller.
    fn from(error: RepoError) -> ArchiveError {
        match error {
            RepoError::Mismatch {
                repository,
                cluster,
            } => ArchiveError::Mismatch {
                what: "the cluster".to_owned(),
                found: cluster,
                repository,
            },
            RepoError::Corrupt { key, detail } => ArchiveError::Damaged {
                object: key,
                reason: detail,
            },
            other => ArchiveError::Repository(other),
        }
    }
}

fn because(failure: &Option<String>) -> String {
    failure
        .as_ref()
        .map(|failure| format!("; {failure}"))
        .unwrap_or_default()
}
