//! `repo copy`: a copy of a repository, and what it lacks.

use object_store::ObjectStore;
use walzip_repo::{CopiedRepository, CopyRepositoryOptions, CopyStep, Repository, copy_repository};

use crate::backups::backup_objects;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};

/// Copies a repository to a store, or brings a copy there up to date. What backups need and the
/// repository has lost counts as damaged: it cannot be copied, and a backup without it is none.
pub async fn copy(
    repository: &Repository,
    to: &dyn ObjectStore,
    options: CopyRepositoryOptions,
    progress: &Progress,
) -> Result<CopiedRepository, ArchiveError> {
    let tell = |step| match step {
        CopyStep::Begin(total) => progress.begin(Phase::CopyingRepository, total),
        CopyStep::Done(bytes) => progress.add(bytes),
    };
    let mut copied = copy_repository(repository, to, options, &tell).await?;
    for lost in backup_objects::damaged(repository).await? {
        let key = format!("object {} of backup {}", lost.object, lost.backup);
        copied.damaged.push((key, format!("it {}", lost.problem)));
    }
    Ok(copied)
}
