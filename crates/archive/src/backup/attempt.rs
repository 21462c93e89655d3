//! The beginning and the end of an attempt at a backup: whose label it has, and what it leaves.

use std::collections::HashSet;

use jiff::Timestamp;
use walzip_repo::{BackupLabel, BackupType, BackupWriter, RepoError, Repository};

use crate::backups::backup_record::BackupRecord;
use crate::backups::chunks::kept::{self, How, Kept};
use crate::backups::chunks::prior::Prior;
use crate::error::ArchiveError;

/// What of the options of a backup decides under which label it is made, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) backup_type: BackupType,
    /// Go on with a full backup that was interrupted.
    pub(crate) resume: bool,
    /// How the chunks are encoded.
    pub(crate) how: How,
}

/// Goes on with a full backup that was interrupted, or claims a label.
pub(crate) async fn start(
    repository: &Repository,
    wanted: Wanted,
    prior: Option<&Prior>,
) -> Result<(BackupWriter, Option<Kept>), ArchiveError> {
    if wanted.resume
        && prior.is_none()
        && let Some((writer, kept)) = resume(repository, wanted.how).await?
    {
        return Ok((writer, Some(kept)));
    }
    Ok((claim(repository, wanted, prior).await?, None))
}

/// Claims the next attempt at the newest backup, if that is a full one that was interrupted and has
/// something to begin with.
async fn resume(
    repository: &Repository,
    how: How,
) -> Result<Option<(BackupWriter, Kept)>, ArchiveError> {
    let Some(interrupted) = repository.interrupted_backup().await? else {
        return Ok(None);
    };
    let Some(kept) = Kept::read(repository, &interrupted, how).await else {
        return Ok(None);
    };
    let writer = repository.continue_backup(&interrupted).await?;
    if let Some(writer) = &writer {
        tracing::info!(
            "backup {} was interrupted, and is continued: attempt {}",
            writer.label(),
            writer.attempt()
        );
    }
    Ok(writer.map(|writer| (writer, kept)))
}

/// Removes what only another attempt would need. No other one can finish any more.
pub(crate) async fn remove_others(
    repository: &Repository,
    (label, attempt): (&BackupLabel, u32),
    (record, pack_bytes): (&BackupRecord, u64),
) {
    let mut packs = record.files.iter().flat_map(|files| &files.packs);
    if attempt == 1 && !packs.any(|pack| pack.size_bytes >= pack_bytes) {
        return;
    }
    let own: HashSet<&str> = record
        .objects()
        .map(|object| object.name.as_str())
        .collect();
    let removed = async {
        let objects = repository.list_backup_objects(label).await?;
        let others = objects.into_keys().filter(|name| !own.contains(&**name));
        repository.remove_backup_objects(label, others).await
    };
    if let Err(error) = removed.await {
        tracing::warn!("what backup {label} does not need stays beside it: {error}");
    }
}

/// What a failure means, where another attempt has finished the backup. Where what an earlier attempt
/// has stored is damaged or cannot be read, no later one takes it.
pub(crate) async fn failed(
    repository: &Repository,
    (label, attempt): (&BackupLabel, u32),
    error: ArchiveError,
) -> ArchiveError {
    if let Ok(true) = repository.stays(label).await
        && let Ok(record) = BackupRecord::read(repository, label).await
        && record.attempts.unwrap_or(1) != attempt
    {
        remove_others(repository, (label, attempt), (&record, 0)).await;
        return ArchiveError::FinishedElsewhere {
            label: label.to_string(),
            source: Box::new(error),
        };
    }
    if attempt > 1
        && let Err(failure) = forget_unreadable(repository, (label, attempt), &error).await
    {
        tracing::warn!("--no-resume begins anew: {failure}");
    }
    error
}

/// Removes notes of packs that no attempt can use: of all where anything is damaged, and of a pack of an
/// earlier attempt that cannot be read.
async fn forget_unreadable(
    repository: &Repository,
    (label, attempt): (&BackupLabel, u32),
    error: &ArchiveError,
) -> Result<(), ArchiveError> {
    let unreadable = match error {
        ArchiveError::Damaged { .. } => None,
        ArchiveError::Repository(RepoError::Unavailable { key, .. }) => {
            let name = key.strip_prefix(&format!("backup/{label}/"));
            let earlier = name.filter(|name| !name.starts_with(&format!("{attempt}/")));
            let Some(notes) = earlier.and_then(kept::notes_of) else {
                return Ok(());
            };
            Some(notes)
        }
        _ => return Ok(()),
    };
    let objects = repository.list_backup_objects(label).await?;
    let is_lost = |name: &String| match &unreadable {
        Some(notes) => name == notes,
        None => kept::is_notes(name),
    };
    let notes: Vec<String> = objects.into_keys().filter(is_lost).collect();
    if notes.is_empty() {
        return Ok(());
    }
    repository.remove_backup_objects(label, notes).await?;
    match unreadable {
        Some(notes) => tracing::warn!(
            "what {notes} names cannot be read, and is not used again: the next backup copies it anew"
        ),
        None => tracing::warn!(
            "what earlier attempts at backup {label} have stored is not used again: the next \
             backup begins anew"
        ),
    }
    Ok(())
}

/// Claims a label. Without a backup to compare with, it is that of a full one.
async fn claim(
    repository: &Repository,
    wanted: Wanted,
    prior: Option<&Prior>,
) -> Result<BackupWriter, ArchiveError> {
    let backup_type = match prior {
        Some(_) => wanted.backup_type,
        None => BackupType::Full,
    };
    let references = prior.map_or_else(Vec::new, Prior::labels);
    let writer = repository
        .start_backup_of(backup_type, Timestamp::now(), references)
        .await?;
    // An expiry that has begun before the claim has marked what it removes; a later one sees the
    // claim.
    if let Some(prior) = prior
        && let Err(error) = prior.check_stays(repository).await
    {
        writer.give_up().await?;
        return Err(error);
    }
    match prior {
        Some(prior) => tracing::info!("backup {} begins, after {}", writer.label(), prior.label),
        None => tracing::info!("backup {} begins", writer.label()),
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_repo::ClusterIdentity;
    use walzip_repo::testing::memory_store;

    #[tokio::test]
    async fn what_cannot_be_read_back_is_not_kept_again() {
        let cluster = ClusterIdentity {
            system_id: 7_710_755_210_953_377_699,
            major: 15,
        };
        let made = Repository::init(memory_store(), cluster).await;
        let (repository, _) = made.expect("made");
        let writer = repository.start_backup().await.expect("claimed");
        for name in ["chunks.0000", "chunks.0001", "2/chunks.0000"] {
            let object = writer.create_object(name).await.expect("begun");
            object.finish().await.expect("finished");
        }
        let label = writer.label();
        let unreadable = |name: &str| {
            let key = format!("backup/{label}/{name}");
            let source = "Input/output error".into();
            ArchiveError::Repository(RepoError::Unavailable { key, source })
        };
        let damaged = ArchiveError::Damaged {
            object: "pack.0000".to_owned(),
            reason: "a test".to_owned(),
        };
        for (error, left) in [
            // Its own may have failed while it was put.
            (unreadable("2/pack.0000"), 3),
            (unreadable("index.zst.0000"), 3),
            (unreadable("pack.0001"), 2),
            (unreadable("pack.0001"), 2),
            (damaged, 0),
        ] {
            failed(&repository, (label, 2), error).await;
            let objects = repository.list_backup_objects(label).await.expect("listed");
            let notes = objects.keys().filter(|name| kept::is_notes(name));
            assert_eq!(notes.count(), left);
        }
    }
}
