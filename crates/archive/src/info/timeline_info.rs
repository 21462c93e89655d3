//! What `info` says of each timeline: where it comes from, its times, and how far one can restore.
//!
//! Only the segments at the ends of the ranges are read. One that cannot be read has no times here;
//! `verify` says what is wrong with it.

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{Repository, WalEntry};

use crate::archived::archived_wal::{ArchivedWal, Hole, Reach, Way};
use crate::archived::branches::readable;
use crate::archived::packed_times::PackedTimes;
use crate::archived::timelines::{self, Timelines};
use crate::archived::wal_index::{self, RecoveryWindow, SegmentRange, TimelineWal};
use crate::archived::wal_times::SegmentTimes;
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::restore::last_segments;

/// Describes the archived WAL by timeline. Of the backups, all files have to be there.
pub(crate) async fn timelines(
    (repository, packed): (&Repository, &PackedTimes),
    (listing, histories): (&[WalEntry], &Timelines),
    backups: &[BackupRecord],
    segment_size_bytes: u32,
) -> Result<Vec<TimelineWal>, ArchiveError> {
    let lost = histories.without_history(timelines::with_wal(listing));
    let wal = ArchivedWal::of(listing, segment_size_bytes);
    let now = Timestamp::now();
    let mut described = wal_index::index(listing, segment_size_bytes)?;
    for timeline in &mut described {
        let id = TimelineId(timeline.timeline);
        timeline.history_missing = lost.contains(&id);
        // The archive's timeline of that number may be another server's.
        let parted = histories.beginning(id);
        if let Some((parent, at)) = parted.filter(|(parent, _)| histories.is_on_way(*parent, id)) {
            timeline.parent = Some(parent.0);
            timeline.parted_at = Some(at.to_string());
        }
        for range in &mut timeline.ranges {
            let wal = (repository, packed);
            let first = times(wal, &range.first).await?;
            range.first_time = first.first;
            range.last_time = match range.first == range.last {
                true => first.last,
                false => times(wal, &range.last).await?.last,
            };
        }
        // `restore` refuses where the history is missing.
        if !timeline.history_missing {
            let windows = Windows::find(histories, &wal, backups, id)?;
            timeline.recovery_windows = windows.read(repository, packed).await?;
        }
        let newest = timeline.recovery_windows.last();
        timeline.restorable_to = newest.map(|window| window.to.clone());
        let last = timeline
            .restorable_to
            .as_ref()
            .and_then(|end| end.last_transaction);
        timeline.age_seconds = last.map(|last| now.duration_since(last).as_secs());
    }
    Ok(described)
}

/// WAL that is missing after a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingWal {
    /// The newest backup from which one can restore, up to there.
    pub backup: String,
    /// What is missing.
    pub segments: SegmentRange,
}

/// What keeps a restore from getting from the newest backup to the newest WAL of a timeline, if anything does.
/// A server that was promoted has never archived what its primary left behind.
pub(crate) fn missing_wal(
    (listing, histories): (&[WalEntry], &Timelines),
    backups: &[BackupRecord],
    timeline: TimelineId,
    segment_size_bytes: u32,
) -> Result<Option<MissingWal>, ArchiveError> {
    let wal = ArchivedWal::of(listing, segment_size_bytes);
    let windows = Windows::find(histories, &wal, backups, timeline)?;
    let newest = windows.found.last();
    Ok(newest.and_then(|(backup, reach)| {
        Some(MissingWal {
            backup: backup.label.clone(),
            segments: missing(reach.hole?),
        })
    }))
}

fn missing(hole: Hole) -> SegmentRange {
    SegmentRange {
        first: hole.first.to_string(),
        last: hole.last.to_string(),
        segments: hole.segments,
        first_time: None,
        last_time: None,
    }
}

/// The first and the last time in a segment, for people.
#[derive(Default)]
struct FirstAndLast {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

async fn times(
    (repository, packed): (&Repository, &PackedTimes),
    name: &str,
) -> Result<FirstAndLast, ArchiveError> {
    let Ok(WalFileName::Segment(segment)) = name.parse() else {
        return Ok(FirstAndLast::default());
    };
    let brief = packed.get(repository, segment).await?;
    if let Some(ends) = brief.and_then(|brief| brief.ends) {
        return Ok(FirstAndLast {
            first: Some(ends.earliest),
            last: Some(ends.latest),
        });
    }
    let read = readable(SegmentTimes::read(repository, segment).await)?;
    Ok(read.map_or(FirstAndLast::default(), |times| FirstAndLast {
        first: times.first(),
        last: times.last(),
    }))
}

/// The backups on the way to a timeline, where each span of WAL begins that nothing is missing from.
struct Windows<'a> {
    way: Way<'a>,
    found: Vec<(&'a BackupRecord, Reach)>,
}

impl<'a> Windows<'a> {
    fn find(
        histories: &'a Timelines,
        wal: &'a ArchivedWal,
        backups: &'a [BackupRecord],
        timeline: TimelineId,
    ) -> Result<Windows<'a>, ArchiveError> {
        let way = wal.way(histories, timeline);
        let mut found: Vec<(&BackupRecord, Reach)> = Vec::new();
        let serves = |backup: &&BackupRecord| {
            histories.passes(timeline, backup.stop.timeline, backup.stop.lsn)
        };
        for backup in backups.iter().filter(serves) {
            let last = found.last().and_then(|(_, reach)| reach.last_number);
            if last.is_some_and(|last| way.number_at(backup.stop.lsn) <= last) {
                continue;
            }
            if wal.missing(&backup.required_segments()?)?.is_empty() {
                let reach = way.reach(wal.number_at(backup.start.lsn))?;
                found.push((backup, reach));
            }
        }
        Ok(Windows { way, found })
    }

    async fn read(
        &self,
        repository: &Repository,
        packed: &PackedTimes,
    ) -> Result<Vec<RecoveryWindow>, ArchiveError> {
        let mut windows = Vec::new();
        for (backup, reach) in &self.found {
            windows.push(RecoveryWindow {
                backup: backup.label.clone(),
                from: backup.stop,
                to: last_segments::read((repository, packed), &self.way, reach, backup.stop)
                    .await?,
                then_missing: reach.hole.map(missing),
            });
        }
        Ok(windows)
    }
}
