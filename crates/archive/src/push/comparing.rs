//! Whether what has a file's name already is the file.

use bytes::Bytes;
use walzip_codec::DecodeError;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{RepoError, Repository};

use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;

/// Compares with what has the name already; returns its size as it is stored.
pub(super) async fn compare(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<u64, ArchiveError> {
    let Some(stored) = StoredWal::get(repository, name).await? else {
        // The next attempt will find the name free, or taken for good.
        let reason = "the name was taken, and nothing has it now";
        return Err(ArchiveError::Repository(RepoError::Unavailable {
            key: name.to_owned(),
            source: reason.into(),
        }));
    };
    compare_with(stored, name, file).await
}

pub(super) async fn compare_with(
    stored: StoredWal,
    name: &str,
    file: &StableFile,
) -> Result<u64, ArchiveError> {
    let stored_bytes = stored.stored_bytes();
    if let StoredWal::Single(object) = &stored
        && is_rebuilt(name, file, object.clone()).await
    {
        return Ok(stored_bytes);
    }
    // What a get refuses is not archived, whatever its content.
    let is_single = matches!(stored, StoredWal::Single(_));
    match file.is_in(name, stored).await {
        Ok(true) => Ok(stored_bytes),
        Ok(false) => Err(ArchiveError::Duplicate {
            name: name.to_owned(),
        }),
        // A pack has others too, and what a later version wrote is not damaged.
        Err(error) if is_single && is_broken(&error) => Err(ArchiveError::DamagedThere {
            name: name.to_owned(),
            error: Box::new(error),
        }),
        Err(error) => Err(error),
    }
}

/// Whether a history that is archived was made of the WAL, and is otherwise this one.
async fn is_rebuilt(name: &str, file: &StableFile, object: Bytes) -> bool {
    let Ok(WalFileName::History(timeline)) = name.parse() else {
        return false;
    };
    let archived = StoredWal::Single(object).content(name).await;
    archived.is_ok_and(|archived| own_history::is_rebuilt_of(timeline, &archived, file.beginning()))
}

/// Whether an object can be decoded by nobody.
pub(super) fn is_broken(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Damaged { .. } => true,
        ArchiveError::Undecodable { source, .. } => !matches!(
            source,
            DecodeError::UnsupportedVersion { .. } | DecodeError::Disproportionate { .. }
        ),
        _ => false,
    }
}
