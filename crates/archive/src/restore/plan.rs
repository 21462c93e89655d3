//! From which backup and along which timeline a target is reached: all of it is decided, and
//! checked against the archive, before a byte is written.
//!
//! A restore that silently ended somewhere else would be believed. So whatever the archive shows
//! to be in the way is an error that names it: branches of which nobody said which is meant, a
//! lost history, a backup that would have been passed over, a hole in the WAL, a target that is
//! not archived.

mod earliest;
mod forks;
mod found;
mod timeline;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{BackupLabel, Repository};

use super::RestoreOptions;
use super::partial_segments::{LeftOutPartial, Partials};
use super::target::{RecoveryTarget, TargetTimeline};
use super::whose::Whose;
use crate::archived::archived_wal::{ArchivedWal, Reach, Way};
use crate::archived::branches::Choice;
use crate::archived::stored_times::StoredTimes;
use crate::archived::timelines::{self, Timelines};
use crate::backups::backup_objects;
use crate::backups::backup_record::{BackupRecord, ListedBackup};
use crate::error::ArchiveError;
use crate::error::other_branch::OtherBranch;
use crate::packs::is_damage;
use crate::restore::plan::found::FoundAlong;
use crate::restore::wal_search::Found;
use crate::restore::{clock_steps, last_segments};
use crate::wal::expected_end::ExpectedEnd;
use crate::wal::wal_end::WalEnd;

/// What a restore is going to do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) backup: BackupRecord,
    pub(super) timeline: TimelineId,
    /// The end of the archived WAL on that timeline.
    pub(super) end: WalEnd,
    /// Where a named target was found.
    pub(super) found: Option<Found>,
    pub(super) superseded: Vec<OtherBranch>,
    pub(super) partials: Vec<LeftOutPartial>,
    /// Where the recovery is expected to end.
    pub(super) expected_end: Option<ExpectedEnd>,
    /// The first segment of the timeline itself, where it is not archived yet.
    pub(super) own_from: Option<SegmentName>,
    /// Whether a server that looks for the newest timeline comes to this one.
    pub(super) is_latest: bool,
}

/// Everything that is known of the archive, and what is asked for.
struct Planner<'a> {
    repository: &'a Repository,
    options: &'a RestoreOptions,
    /// The backup that was asked for.
    asked: Option<BackupRecord>,
    listed: &'a [ListedBackup],
    records: Vec<BackupRecord>,
    timelines: Timelines,
    wal: ArchivedWal,
    listed_wal: clock_steps::Listed,
    stored: StoredTimes,
    partials: Partials,
    /// Partial segments included.
    with_wal: BTreeSet<TimelineId>,
}

/// Decides how to restore; returns the part of the repository that it is restored from as well.
pub(super) async fn plan(
    repository: &Repository,
    options: &RestoreOptions,
) -> Result<(Repository, Plan), ArchiveError> {
    let whose = Whose::choose(repository, options).await?;
    let plan = plan_of(&whose, options).await;
    let plan = plan.map_err(|error| whose.name_older(error))?;
    whose.refuse_rolled_back().await?;
    Ok((whose.part, plan))
}

async fn plan_of(whose: &Whose, options: &RestoreOptions) -> Result<Plan, ArchiveError> {
    let planner = Planner::new(whose, options).await?;
    planner.refuse_too_early()?;
    let choice = planner.timeline().await?;
    let (backup, found) = planner.backup(&choice).await?;
    let found = found.map(|along| along.found);
    let timeline = planner.goal(&backup, choice.timeline);
    if options.recovery.timeline == TargetTimeline::Current && planner.asked.is_none() {
        let because = format!("which backup {} is of", backup.label);
        planner.warn_of_others(timeline, None, &because).await?;
    }
    planner.check_histories(&backup, timeline)?;
    let reached = planner.check_reach(&backup, timeline, found).await;
    let (timeline, (end, expected_end)) = match reached {
        Err(ArchiveError::BeyondArchive { target, end }) => {
            let reached = planner.reach_on_child(&backup, timeline, &end).await?;
            reached.ok_or(ArchiveError::BeyondArchive { target, end })?
        }
        reached => (timeline, reached?),
    };
    planner.refuse_after_fork(&choice, &backup).await?;
    let own_from = planner.own_from(&backup, timeline)?;
    let is_latest = planner.timelines.newest_from(backup.stop.timeline) == timeline;
    let partials = match planner.target() {
        RecoveryTarget::Latest => {
            let (known, goal) = (
                (&planner.wal, &planner.timelines),
                (timeline, end.last_record),
            );
            let partials = &planner.partials;
            partials.left_out(planner.repository, known, goal).await?
        }
        _ => Vec::new(),
    };
    Ok(Plan {
        backup,
        timeline,
        end,
        found,
        superseded: choice.superseded,
        partials,
        expected_end,
        own_from,
        is_latest,
    })
}

impl<'a> Planner<'a> {
    async fn new(
        whose: &'a Whose,
        options: &'a RestoreOptions,
    ) -> Result<Planner<'a>, ArchiveError> {
        let (repository, listed) = (&whose.part, &whose.backups);
        let asked = match &options.backup {
            Some(label) => Some(BackupRecord::read(repository, label).await?),
            None => None,
        };
        let records: Vec<BackupRecord> = listed
            .iter()
            .filter_map(|listed| listed.read.as_ref().ok().cloned())
            .collect();
        let Some(newest) = records.last() else {
            let mut reason = "the repository has none that is finished".to_owned();
            if let Some(ListedBackup {
                label,
                read: Err(error),
            }) = listed.last()
            {
                reason = format!("{label} cannot be read: {error}");
            }
            return Err(ArchiveError::NoBackup(reason));
        };
        let objects = repository.list_wal_objects().await?;
        let listing = objects.entries();
        let wal = ArchivedWal::of(&listing, newest.segment_size_bytes);
        let mut timelines = Timelines::read(repository, &listing).await;
        // Storage that fails for a moment has lost no history.
        if let Some(failure) = timelines.take_failure() {
            return Err(failure);
        }
        Ok(Planner {
            timelines,
            listed_wal: clock_steps::Listed::of(&objects),
            stored: StoredTimes::of(&listing),
            partials: Partials::of(&listing),
            with_wal: timelines::with_wal(&listing).collect(),
            repository,
            options,
            asked,
            listed,
            records,
            wal,
        })
    }

    fn target(&self) -> &RecoveryTarget {
        &self.options.recovery.target
    }

    /// The backup that was asked for, if it serves the target; otherwise the newest that does. A
    /// newer one that cannot be used is passed over for nobody who did not say so.
    async fn backup(
        &self,
        choice: &Choice,
    ) -> Result<(BackupRecord, Option<FoundAlong>), ArchiveError> {
        let goal = choice.timeline;
        if let Some(asked) = &self.asked {
            if let Some(obstacle) = self.obstacle(asked, goal, None) {
                let label = &asked.label;
                return Err(ArchiveError::NoBackup(format!("{label} {obstacle}")));
            }
            backup_objects::check_with_referred(self.repository, asked).await?;
            let found = self.found(choice, std::slice::from_ref(asked)).await?;
            return Ok((asked.clone(), found));
        }
        let found = self.found(choice, &self.records).await?;
        let mut obstacles = Vec::new();
        let mut passed_over = Vec::new();
        for listed in self.listed.iter().rev() {
            let label = &listed.label;
            match &listed.read {
                Err(error) if self.may_serve(label) => {
                    passed_over.push(format!("{label} cannot be read: {error}"));
                }
                Err(_) => {}
                Ok(record) => match self.obstacle(record, goal, found) {
                    Some(obstacle) => obstacles.push(format!("{label} {obstacle}")),
                    None => match self.damage(record).await? {
                        Some(damage) => passed_over.push(format!("{label} {damage}")),
                        None if passed_over.is_empty() => return Ok((record.clone(), found)),
                        None => {
                            return Err(ArchiveError::BackupUnusable {
                                problem: passed_over.join("; "),
                                older: label.clone(),
                            });
                        }
                    },
                },
            }
        }
        obstacles.append(&mut passed_over);
        Err(ArchiveError::NoBackup(obstacles.join("; ")))
    }

    /// Whether a backup that cannot be read may be one that the target wants: its label tells
    /// when it began.
    fn may_serve(&self, label: &BackupLabel) -> bool {
        match self.target() {
            RecoveryTarget::Time(time) => label.began_by(*time),
            _ => true,
        }
    }

    /// Why recovery from this backup cannot reach the target.
    fn obstacle(
        &self,
        record: &BackupRecord,
        goal: TimelineId,
        found: Option<FoundAlong>,
    ) -> Option<String> {
        let stop = record.stop;
        let after = |what: String| Some(format!("ended at {}, after {what}", stop.lsn));
        match self.target() {
            RecoveryTarget::Time(time) if stop.time > *time => {
                return Some(format!(
                    "ended at {}, after the target time {time}",
                    stop.time
                ));
            }
            RecoveryTarget::Lsn(lsn) if stop.lsn > *lsn => {
                return after(format!("the target position {lsn}"));
            }
            _ => {}
        }
        let goal = self.goal(record, goal);
        if let Some(FoundAlong { found, timeline }) = found {
            if stop.lsn > found.lsn {
                return after(format!("the target, which is at {}", found.lsn));
            }
            if timeline != goal {
                return Some(format!(
                    "is of timeline {goal}; the target is on timeline {timeline}"
                ));
            }
        }
        if self.timelines.passes(goal, stop.timeline, stop.lsn) {
            return None;
        }
        Some(format!(
            "ended at {} on timeline {}, which timeline {goal} does not contain",
            stop.lsn, stop.timeline
        ))
    }

    /// The timeline that a recovery from a backup follows: where `current` was asked for, that of the backup itself.
    fn goal(&self, record: &BackupRecord, chosen: TimelineId) -> TimelineId {
        match self.options.recovery.timeline {
            TargetTimeline::Current => record.stop.timeline,
            _ => chosen,
        }
    }

    /// Why a backup is worth nothing: a segment that it needs is not archived, or one of its objects is
    /// not there.
    async fn damage(&self, record: &BackupRecord) -> Result<Option<String>, ArchiveError> {
        if let Some(missing) = self.missing(record)? {
            return Ok(Some(format!("needs {missing}, which is not archived")));
        }
        match backup_objects::check_with_referred(self.repository, record).await {
            Ok(()) => Ok(None),
            Err(error) if is_damage(&error) => Ok(Some(format!("cannot be used: {error}"))),
            Err(error) => Err(error),
        }
    }

    /// The first segment without which a backup is worth nothing and that is not archived.
    fn missing(&self, record: &BackupRecord) -> Result<Option<String>, ArchiveError> {
        let missing = self.wal.missing(&record.required_segments()?)?;
        Ok(missing.first().map(ToString::to_string))
    }

    /// The latest time at which what ended is restored: PostgreSQL counts in microseconds.
    fn last_included(&self, target: Timestamp) -> Timestamp {
        match self.options.recovery.inclusive {
            true => target,
            false => target
                .checked_sub(SignedDuration::from_micros(1))
                .unwrap_or(target),
        }
    }

    /// Refuses a target that the archived WAL does not reach; returns where that WAL ends, and where the recovery is
    /// expected to.
    async fn check_reach(
        &self,
        backup: &BackupRecord,
        timeline: TimelineId,
        found: Option<Found>,
    ) -> Result<(WalEnd, Option<ExpectedEnd>), ArchiveError> {
        let way = self.wal.way(&self.timelines, timeline);
        let reach = way.reach(self.wal.number_at(backup.start.lsn))?;
        let packed = (self.repository, &self.listed_wal.packed);
        let end = last_segments::read(packed, &way, &reach, backup.stop).await?;
        if let Some(missing) = self.missing(backup)? {
            let label = &backup.label;
            let reason = format!("{label} needs {missing}, which is not archived");
            return Err(ArchiveError::NoBackup(reason));
        }
        let is_on_way = |record: &&BackupRecord| {
            let stop = record.stop;
            self.timelines.passes(timeline, stop.timeline, stop.lsn)
        };
        let mut expected_end = None;
        let stop = backup.stop.lsn;
        // A backup of a standby may end where a segment does. A server sees that it has come to a target by the record
        // after that.
        let last_number = reach.last_number;
        let ends_at_stop = last_number.is_none_or(|last| last < self.wal.number_at(stop));
        let is_reached = match self.target() {
            RecoveryTarget::Immediate => !ends_at_stop,
            RecoveryTarget::Latest => {
                let last = end.last_record.0.saturating_sub(u64::from(ends_at_stop));
                // A standby goes on from there.
                expected_end = (!self.options.standby).then_some(ExpectedEnd {
                    lsn: Lsn(last),
                    time: None,
                });
                reach.hole.is_none()
            }
            RecoveryTarget::Lsn(lsn) => *lsn <= end.last_record && !(ends_at_stop && *lsn >= stop),
            RecoveryTarget::Time(time) => {
                let (time, way): (_, &Way<'_>) = (&self.last_included(*time), &way);
                let (repository, from) = (self.repository, backup.stop);
                let wal = (repository, &self.listed_wal);
                if self.asked.is_none() {
                    clock_steps::check_backup(wal, way, backup, *time).await?;
                }
                if let Some(last) = reach.last_number {
                    expected_end = clock_steps::check(wal, way, (backup, last), *time).await?;
                }
                let others = self.records.iter().filter(is_on_way);
                clock_steps::warn_of_backups(backup, others, *time);
                last_segments::has_transaction_after(packed, way, &reach, from, *time).await?
            }
            // Found already.
            RecoveryTarget::Name(_) | RecoveryTarget::Xid(_) => {
                found.is_some() || reach.hole.is_none()
            }
        };
        match (is_reached, reach) {
            (true, _) => Ok((end, expected_end)),
            (
                false,
                Reach {
                    hole: Some(hole), ..
                },
            ) => Err(ArchiveError::WalMissing {
                first: hole.first.to_string(),
                last: hole.last.to_string(),
                segments: hole.segments,
                end: Box::new(end),
            }),
            (false, Reach { hole: None, .. }) => Err(ArchiveError::BeyondArchive {
                target: self.target().to_string(),
                end: Box::new(end),
            }),
        }
    }
}
