//! Whether the objects of a backup are there, as long as they were: one listing for each backup. And
//! whose fault it is for another one.

use walzip_repo::{BackupLabel, RepoError, Repository};

use crate::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::read_each::read_each;

/// Refuses a backup of which an object is missing or cut short.
pub(crate) async fn check(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<(), ArchiveError> {
    let label: BackupLabel = record.label.parse()?;
    let there = repository.list_backup_objects(&label).await?;
    let mut objects = record.objects();
    match objects.find(|object| there.get(&object.name) != Some(&object.size_bytes)) {
        None => Ok(()),
        Some(object) => Err(ArchiveError::Damaged {
            object: format!("{} of backup {label}", object.name),
            reason: format!(
                "it is missing, or does not have its {} bytes",
                object.size_bytes
            ),
        }),
    }
}

/// The same, with the backups that it refers to.
pub(crate) async fn check_with_referred(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<(), ArchiveError> {
    check(repository, record).await?;
    let checked = read_each(&record.references, async |label| {
        let checked = async {
            let referred = BackupRecord::read(repository, &label.parse()?).await?;
            check(repository, &referred).await
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
