//! Which backup serves a recovery target.
//!
//! An object that is damaged is passed over with a warning: it must not stand in the way of a
//! restore that can do without it.

use walzip_repo::{BackupLabel, Repository};

use super::target::{Recovery, RecoveryTarget, TargetTimeline};
use crate::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::timelines::Timelines;

/// The backup that was asked for, if it serves the target; otherwise the newest that does.
pub(super) async fn select(
    repository: &Repository,
    asked: Option<&BackupLabel>,
    recovery: &Recovery,
) -> Result<BackupRecord, ArchiveError> {
    let listing = repository.list_wal().await?;
    let timelines = Timelines::read(repository, &listing).await;
    for error in &timelines.unreadable {
        tracing::warn!("passing over a timeline: {error}");
    }
    if let Some(label) = asked {
        let record = BackupRecord::read(repository, label).await?;
        return match obstacle(&record, recovery, &timelines) {
            None => Ok(record),
            Some(obstacle) => Err(ArchiveError::NoBackup(format!("{label} {obstacle}"))),
        };
    }
    let labels = repository.list_backups().await?;
    if labels.is_empty() {
        let reason = "the repository has none that is finished".to_owned();
        return Err(ArchiveError::NoBackup(reason));
    }
    let mut obstacles = Vec::new();
    for label in labels.iter().rev() {
        match BackupRecord::read(repository, label).await {
            Ok(record) => match obstacle(&record, recovery, &timelines) {
                None => return Ok(record),
                Some(obstacle) => obstacles.push(format!("{label} {obstacle}")),
            },
            Err(error) => {
                tracing::warn!("passing over backup {label}: {error}");
                obstacles.push(format!("{label} cannot be read"));
            }
        }
    }
    Err(ArchiveError::NoBackup(obstacles.join("; ")))
}

/// Why recovery from this backup cannot reach the target, as far as that can be known: where a
/// named point or a transaction lies is seen only during the replay.
fn obstacle(record: &BackupRecord, recovery: &Recovery, timelines: &Timelines) -> Option<String> {
    let stop = record.stop;
    match &recovery.target {
        RecoveryTarget::Time(time) if stop.time > *time => {
            return Some(format!(
                "ended at {}, after the target time {time}",
                stop.time
            ));
        }
        RecoveryTarget::Lsn(lsn) if stop.lsn > *lsn => {
            return Some(format!(
                "ended at {}, after the target position {lsn}",
                stop.lsn
            ));
        }
        _ => {}
    }
    let timeline = match recovery.timeline {
        TargetTimeline::Current => stop.timeline,
        TargetTimeline::Latest => timelines.newest_from(stop.timeline),
        TargetTimeline::Id(timeline) => timeline,
    };
    if timelines.passes(timeline, stop.timeline, stop.lsn) {
        return None;
    }
    Some(format!(
        "ended at {} on timeline {}, which timeline {timeline} does not contain",
        stop.lsn, stop.timeline
    ))
}
