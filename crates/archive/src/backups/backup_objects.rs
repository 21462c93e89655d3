//! Whether the objects of a backup are there, as long as they were: one listing for each backup. And
//! whose fault it is for another one.

use std::collections::BTreeMap;

use serde::Serialize;
use walzip_repo::{BackupLabel, LabelObject, RepoError, Repository};

use crate::backups::backup_record::{BackupRecord, ListedBackup, ObjectRecord};
use crate::error::ArchiveError;
use crate::read_each::read_each;

/// An object of a backup that is missing or has another size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    /// The label of the backup.
    pub backup: String,
    /// Its name within the backup.
    pub object: String,
    /// What is wrong, after "it".
    pub problem: String,
}

/// The objects of all backups with their sizes, as one listing shows them.
pub(crate) struct AllObjects(BTreeMap<BackupLabel, BTreeMap<String, LabelObject>>);

impl AllObjects {
    pub(crate) async fn list(repository: &Repository) -> Result<AllObjects, ArchiveError> {
        Ok(AllObjects(repository.list_labels_with_objects().await?))
    }

    /// Whether there is an object of this name below the label.
    pub(crate) fn has(&self, label: &BackupLabel, name: &str) -> bool {
        let objects = self.0.get(label);
        objects.is_some_and(|objects| objects.contains_key(name))
    }

    /// Which of these objects of a backup are missing or have other sizes.
    pub(crate) fn damaged<'r>(
        &self,
        record: &BackupRecord,
        objects: impl Iterator<Item = &'r ObjectRecord>,
    ) -> Result<Vec<DamagedObject>, ArchiveError> {
        let there = self.0.get(&record.label.parse()?);
        let size_of = |name: &str| Some(there?.get(name)?.size_bytes);
        Ok(compare(record, objects, size_of))
    }
}

/// The objects of finished backups that are missing or have other sizes, by one listing.
pub async fn damaged(repository: &Repository) -> Result<Vec<DamagedObject>, ArchiveError> {
    let listed = ListedBackup::all(repository).await?;
    let there = AllObjects::list(repository).await?;
    let mut damaged = Vec::new();
    for record in listed.iter().filter_map(|backup| backup.read.as_ref().ok()) {
        damaged.extend(there.damaged(record, record.objects())?);
    }
    Ok(damaged)
}

/// Refuses a backup of which one of these objects is missing or has another size.
pub(crate) async fn check<'r>(
    repository: &Repository,
    record: &BackupRecord,
    objects: impl Iterator<Item = &'r ObjectRecord>,
) -> Result<(), ArchiveError> {
    let damaged = damaged_of(repository, record, objects).await?;
    damaged.into_iter().next().map_or(Ok(()), |damaged| {
        Err(ArchiveError::Damaged {
            object: format!("{} of backup {}", damaged.object, damaged.backup),
            reason: format!("it {}", damaged.problem),
        })
    })
}

/// Those of these objects of one backup that are missing or have other sizes.
pub(crate) async fn damaged_of<'r>(
    repository: &Repository,
    record: &BackupRecord,
    objects: impl Iterator<Item = &'r ObjectRecord>,
) -> Result<Vec<DamagedObject>, ArchiveError> {
    let label: BackupLabel = record.label.parse()?;
    let there = repository.list_backup_objects(&label).await?;
    Ok(compare(record, objects, |name| there.get(name).copied()))
}

fn compare<'r>(
    record: &BackupRecord,
    objects: impl Iterator<Item = &'r ObjectRecord>,
    size_of: impl Fn(&str) -> Option<u64>,
) -> Vec<DamagedObject> {
    let damaged = objects.filter_map(|object| {
        let written = object.size_bytes;
        let problem = match size_of(&object.name) {
            None => "is missing".to_owned(),
            Some(bytes) if bytes == written => return None,
            Some(bytes) => format!("has {bytes} bytes, {written} were written"),
        };
        Some(DamagedObject {
            backup: record.label.clone(),
            object: object.name.clone(),
            problem,
        })
    });
    damaged.collect()
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
