//! Pins: backups that stay, whatever the retention says.

use jiff::Timestamp;
use walzip_repo::{BackupLabel, Pin, RepoError, Repository};

use crate::error::ArchiveError;

/// Pins a finished backup.
pub async fn pin(
    repository: &Repository,
    label: &BackupLabel,
    reason: Option<String>,
) -> Result<Pin, ArchiveError> {
    check_stays(repository, label).await?;
    let pin = Pin {
        pinned: Timestamp::now(),
        reason,
    };
    match repository.pin(label, &pin).await {
        Err(RepoError::AlreadyExists { .. }) => {
            return Err(ArchiveError::Request(format!(
                "{label} is pinned already; \"walzip unpin {label}\" removes that pin"
            )));
        }
        put => put?,
    }
    // An expiry that began before the pin was there has marked the backup; a later one sees the pin.
    if let Err(error) = check_stays(repository, label).await {
        repository.unpin(label).await?;
        return Err(error);
    }
    Ok(pin)
}

/// Removes a pin; whether there was one.
pub async fn unpin(repository: &Repository, label: &BackupLabel) -> Result<bool, ArchiveError> {
    if of(repository, label).await?.is_none() {
        return Ok(false);
    }
    repository.unpin(label).await?;
    Ok(true)
}

/// The pin of a backup. One that is damaged is a pin without a reason.
pub(crate) async fn of(
    repository: &Repository,
    label: &BackupLabel,
) -> Result<Option<Pin>, ArchiveError> {
    match repository.read_pin(label).await {
        Err(RepoError::Corrupt { .. } | RepoError::NewerFormat { .. }) => Ok(Some(Pin {
            pinned: label.time(),
            reason: None,
        })),
        read => Ok(read?),
    }
}

async fn check_stays(repository: &Repository, label: &BackupLabel) -> Result<(), ArchiveError> {
    if repository.stays(label).await? {
        return Ok(());
    }
    let is_there = repository.list_backups().await?.contains(label);
    Err(match is_there {
        true => ArchiveError::BeingExpired {
            label: label.to_string(),
        },
        false => ArchiveError::NoSuchBackup(label.clone()),
    })
}
