//! Pins: backups that stay, whatever the retention says.

use std::collections::HashSet;

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{BackupLabel, Pin, RepoError, Repository, WalEntry};

use crate::backups::backup_record::{BackupRecord, ListedBackup};
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

/// The backups of a cluster after which an expiry leaves all WAL. Those that stay for a pin alone, their own or that of
/// one that needs them, are none, unless WAL follows them: then nothing was removed there.
#[derive(Debug)]
pub(crate) struct FollowedBackups {
    /// Their descriptions.
    pub(crate) records: Vec<BackupRecord>,
    /// Whether every description in the repository could be read.
    pub(crate) are_readable: bool,
    /// Whether the cluster has any backup, of which kind ever.
    pub(crate) has_any: bool,
}

impl FollowedBackups {
    /// Finds them beside the WAL that is listed. `with_pinned`: a pin makes no difference.
    pub(crate) async fn read(
        repository: &Repository,
        listing: &[WalEntry],
        with_pinned: bool,
    ) -> Result<FollowedBackups, ArchiveError> {
        let mut found = FollowedBackups {
            records: Vec::new(),
            are_readable: true,
            has_any: false,
        };
        // What those need that count, and those that do not. They need older ones.
        let (mut needed, mut needed_by_pins) = (HashSet::new(), HashSet::new());
        for ListedBackup { label, read } in ListedBackup::all(repository).await?.into_iter().rev() {
            let Ok(record) = read else {
                found.are_readable = false;
                continue;
            };
            if record.cluster() != Some(repository.cluster()) {
                continue;
            }
            found.has_any = true;
            let is_needed = with_pinned || needed.contains(label.as_str());
            let is_for_pins = !is_needed
                && (needed_by_pins.contains(label.as_str())
                    || of(repository, &label).await?.is_some());
            let counts = !is_for_pins || is_followed(&record, listing)?;
            let of_these = match counts {
                true => &mut needed,
                false => &mut needed_by_pins,
            };
            of_these.extend(record.references.iter().cloned());
            if counts {
                found.records.push(record);
            }
        }
        Ok(found)
    }
}

/// Whether the segment after those that a backup needs is listed. An expiry that keeps the backup for a pin alone
/// removes it.
fn is_followed(record: &BackupRecord, listing: &[WalEntry]) -> Result<bool, ArchiveError> {
    let size = record.segment_size_bytes;
    let required = record.required_segments()?;
    let Some(last) = required.last() else {
        return Ok(true);
    };
    let next = last.number(size)? + 1;
    let is_next = |entry: &WalEntry| match entry.name.parse() {
        Ok(WalFileName::Segment(segment)) => segment.number(size) == Ok(next),
        _ => false,
    };
    Ok(listing.iter().any(is_next))
}
