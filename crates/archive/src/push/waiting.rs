//! What a server waits to have archived, seen from the repository.

use std::path::Path;

use walzip_repo::Repository;

use super::archive_status::ArchiveStatus;
use super::{PushOptions, WalFile, continuity, owner};
use crate::archived::comparing::{compare_with, has_copy};
use crate::archived::stored_wal::StoredWal;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// Refuses where the archive would refuse what a server waits to have archived, since another server archives under
/// its names. The first segment that waits tells.
pub async fn check_own(repository: &Repository, data_directory: &Path) -> Result<(), ArchiveError> {
    let status = ArchiveStatus::of(data_directory);
    let waiting = off_the_runtime(move || status.segments(|_| true)).await;
    let Some(first) = waiting.ok().and_then(|names| names.into_iter().next()) else {
        return Ok(());
    };
    let path = data_directory.join("pg_wal").join(&first);
    // It may be archived, and gone, by now.
    let Ok(file) = WalFile::open(&path).await else {
        return Ok(());
    };
    let options = PushOptions::default();
    // A cluster that is not registered, and what else is wrong, a push will name.
    let owned = owner(
        repository,
        &file.name,
        file.file.beginning(),
        &path,
        &options,
    )
    .await;
    let Ok(part) = owned else {
        return Ok(());
    };
    // Such a file says nothing of whose the archive's is.
    if file.check_content(&part).is_err() {
        return Ok(());
    }
    let Ok(stored) = StoredWal::get(&part, &first).await else {
        return Ok(());
    };
    let checked = match stored {
        Some(stored) => {
            let compared = compare_with(&part, stored, &first, &file.file).await;
            compared.map(|_| ())
        }
        None => continuity::check(&part, (&file.name, &file.file), &path, false).await,
    };
    match checked {
        Err(ArchiveError::Duplicate { .. })
            if has_copy(&part, &first, &file.file).await.unwrap_or(false) =>
        {
            Ok(())
        }
        Err(error @ (ArchiveError::Duplicate { .. } | ArchiveError::NotContinued { .. })) => {
            Err(error)
        }
        // What else is wrong, a push will say.
        _ => Ok(()),
    }
}
