//! Whether the objects of a backup are there, as long as they were: one listing for each backup.

use walzip_repo::{BackupLabel, Repository};

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
        let referred = BackupRecord::read(repository, &label.parse()?).await?;
        check(repository, &referred).await
    });
    checked.await.into_iter().collect()
}
