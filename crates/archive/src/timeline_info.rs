//! What `info` says of each timeline: where it comes from, its times, and how far one can restore.
//!
//! Only the segments at the ends of the ranges are read. One that cannot be read has no times here;
//! `verify` says what is wrong with it.

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{Repository, WalEntry};

use crate::archived_wal::ArchivedWal;
use crate::backup_record::BackupRecord;
use crate::branches::readable;
use crate::error::ArchiveError;
use crate::restore::last_segments;
use crate::timelines::{self, Timelines};
use crate::wal_end::WalEnd;
use crate::wal_index::{self, TimelineWal};
use crate::wal_times::SegmentTimes;

/// Describes the archived WAL by timeline.
pub(crate) async fn timelines(
    repository: &Repository,
    listing: &[WalEntry],
    backups: &[BackupRecord],
    segment_size_bytes: u32,
) -> Result<Vec<TimelineWal>, ArchiveError> {
    let mut histories = Timelines::read(repository, listing).await;
    if let Some(failure) = histories.take_failure() {
        return Err(failure);
    }
    let lost = histories.without_history(timelines::with_wal(listing));
    let wal = ArchivedWal::of(listing, segment_size_bytes)?;
    let now = Timestamp::now();
    let mut described = wal_index::index(listing, segment_size_bytes)?;
    for timeline in &mut described {
        let id = TimelineId(timeline.timeline);
        timeline.history_missing = lost.contains(&id);
        if let Some((parent, at)) = histories.beginning(id) {
            timeline.parent = Some(parent.0);
            timeline.parted_at = Some(at.to_string());
        }
        for range in &mut timeline.ranges {
            let first = times(repository, &range.first).await?;
            range.first_time = first.first();
            range.last_time = match range.first == range.last {
                true => first.last(),
                false => times(repository, &range.last).await?.last(),
            };
        }
        timeline.restorable_to = end(repository, &histories, &wal, backups, id).await?;
        let last = timeline
            .restorable_to
            .as_ref()
            .and_then(|end| end.last_transaction);
        timeline.age_seconds = last.map(|last| now.duration_since(last).as_secs());
    }
    Ok(described)
}

async fn times(repository: &Repository, name: &str) -> Result<SegmentTimes, ArchiveError> {
    let Ok(WalFileName::Segment(segment)) = name.parse() else {
        return Ok(SegmentTimes::default());
    };
    let read = SegmentTimes::read(repository, segment).await;
    Ok(readable(read)?.unwrap_or_default())
}

/// Where the WAL after the newest backup on the way to a timeline ends.
async fn end(
    repository: &Repository,
    histories: &Timelines,
    wal: &ArchivedWal,
    backups: &[BackupRecord],
    timeline: TimelineId,
) -> Result<Option<WalEnd>, ArchiveError> {
    let serves =
        |backup: &&BackupRecord| histories.passes(timeline, backup.stop.timeline, backup.stop.lsn);
    let Some(backup) = backups.iter().rev().find(serves) else {
        return Ok(None);
    };
    let way = wal.way(histories, timeline);
    let reach = way.reach(wal.number_at(backup.start.lsn))?;
    let end = last_segments::read(repository, &way, &reach, backup.stop).await?;
    Ok(Some(end))
}
