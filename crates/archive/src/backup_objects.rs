//! Whether the objects of a backup are there, as long as they were: one listing for each backup. And
//! whose fault it is for another one.

use walzip_repo::{BackupLabel, RepoError, Repository};

use crate::backup_record::{BackupRecord, ObjectRecord};
use crate::error::ArchiveError;
use crate::read_each::read_each;

/// Refuses a backup of which one of these objects is missing or has another size.
pub(crate) async fn check<'r>(
    repository: &Repository,
    record: &BackupRecord,
    objects: impl Iterator<Item = &'r ObjectRecord>,
) -> Result<(), ArchiveError> {
    let wrong = wrong(repository, record, objects).await?;
    wrong.into_iter().next().map_or(Ok(()), |(name, reason)| {
        Err(ArchiveError::Damaged {
            object: format!("{name} of backup {}", record.label),
            reason: format!("it {reason}"),
        })
    })
}

/// The names of those objects of a backup that are missing or have other sizes, and which of it.
pub(crate) async fn wrong<'r>(
    repository: &Repository,
    record: &BackupRecord,
    objects: impl Iterator<Item = &'r ObjectRecord>,
) -> Result<Vec<(String, String)>, ArchiveError> {
    let label: BackupLabel = record.label.parse()?;
    let there = repository.list_backup_objects(&label).await?;
    let wrong = objects.filter_map(|object| {
        let written = object.size_bytes;
        let reason = match there.get(&object.name) {
            None => "is missing".to_owned(),
            Some(&bytes) if bytes == written => return None,
            Some(bytes) => format!("has {bytes} bytes, {written} were written"),
        };
        Some((object.name.clone(), reason))
    });
    Ok(wrong.collect())
}

/// Refuses a backup that cannot be restored, by itself or by the backups that it refers to, since an
/// object is missing or has another size.
pub(crate) async fn check_with_referred(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<(), ArchiveError> {
    check(repository, record, record.restored_objects()).await?;
    let checked = read_each(&record.references, async |label| {
        let checked = async {
            let referred = BackupRecord::read(repository, &label.parse()?).await?;
            check(repository, &referred, referred.restored_objects()).await
        };
        let checked = checked.await;
        checked.map_err(|error| needed(&record.label, label, error))
    });
    checked.await.into_iter().collect()
}

/// An error at a backup that another one needs: it names both.
pub(crate) fn needed(by: &str, reference: &str, error: ArchiveError) -> ArchiveError {
    let reason = match error {
        ArchiveError::Damaged { object, reason } => format!("{object}: {reason}"),
        ArchiveError::Repository(RepoError::NotFound { key }) => {
            format!("{key} is missing")
        }
        // What may pass is no damage.
        error @ (ArchiveError::Repository(_) | ArchiveError::Internal(_)) => return error,
        error => error.to_string(),
    };
    ArchiveError::Damaged {
        object: format!("backup {by}, which needs backup {reference},"),
        reason,
    }
}
