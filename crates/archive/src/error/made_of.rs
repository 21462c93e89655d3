//! How errors are made of others.

use std::io::{self, ErrorKind};
use std::path::Path;

use walzip_repo::{BackupLabel, ClusterIdentity, RepoError};

use super::ArchiveError;
use crate::wal::content::ContentError;

impl ArchiveError {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> ArchiveError {
        ArchiveError::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// A disk of this machine has no room for a file.
    pub fn is_full(&self) -> bool {
        let is_full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        matches!(self, ArchiveError::File { source, .. } if is_full(source.kind()))
    }

    /// What it means that the description of a backup cannot be read which somebody has named.
    pub(crate) fn of_named_backup(self, label: &BackupLabel) -> ArchiveError {
        match self {
            ArchiveError::Repository(RepoError::NotFound { .. }) => {
                ArchiveError::NoSuchBackup(label.clone())
            }
            other => other,
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
