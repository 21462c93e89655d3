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
use crate::archived::branches::{Branches, Choice, readable};
use crate::archived::stored_times::StoredTimes;
use crate::archived::timelines::{self, Timelines};
use crate::archived::wal_times::{last_record, read_segment};
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
    planner.check_histories(timeline)?;
    let reached = planner.check_reach(&backup, timeline, found).await;
    let (timeline, (end, expected_end)) = match reached {
        Err(ArchiveError::BeyondArchive { target, end }) => {
            let reached = planner.reach_on_child(&backup, timeline, &end).await?;
            reached.ok_or(ArchiveError::BeyondArchive { target, end })?
        }
        reached => (timeline, reached?),
    };
    planner.refuse_after_fork(&choice).await?;
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

    /// The timeline to follow.
    async fn timeline(&self) -> Result<Choice, ArchiveError> {
        let asked = self.asked.as_ref();
        let newest = asked
            .or(self.records.last())
            .map(|record| record.stop.timeline);
        let newest = newest.unwrap_or_default();
        match self.options.recovery.timeline {
            TargetTimeline::Current => Ok(Choice::told(newest)),
            TargetTimeline::Latest => {
                let latest = self.timelines.highest_from(newest);
                self.warn_of_others(latest, asked, "which has the highest number")
                    .await?;
                Ok(Choice::told(latest))
            }
            TargetTimeline::Id(timeline) => {
                self.check_known(timeline)?;
                Ok(Choice::told(timeline))
            }
            TargetTimeline::Sole => match (asked, self.target()) {
                // The end of a backup lies on its own timeline, wherever others went.
                (Some(record), RecoveryTarget::Immediate) => Ok(Choice::told(record.stop.timeline)),
                _ => self.sole_timeline(asked).await,
            },
        }
    }

    async fn sole_timeline(&self, asked: Option<&BackupRecord>) -> Result<Choice, ArchiveError> {
        let lost = self
            .timelines
            .without_history(self.with_wal.iter().copied());
        if !lost.is_empty() {
            return Err(self.history_lost(lost));
        }
        let mut candidates: Vec<TimelineId> = self.wal.timelines().collect();
        candidates.extend(self.records.iter().map(|record| record.stop.timeline));
        candidates.extend(self.timelines.known());
        candidates.sort();
        candidates.dedup();
        if let Some(BackupRecord { stop, .. }) = asked {
            candidates.retain(|&goal| self.timelines.passes(goal, stop.timeline, stop.lsn));
        }
        let moment = match self.target() {
            RecoveryTarget::Time(time) => Some(self.last_included(*time)),
            _ => None,
        };
        let branches = Branches {
            repository: self.repository,
            timelines: &self.timelines,
            wal: &self.wal,
            backups: &self.records,
            stored: &self.stored,
        };
        let choice = match self.target() {
            RecoveryTarget::Latest | RecoveryTarget::Time(_) => {
                branches.choose(&candidates, moment).await?
            }
            RecoveryTarget::Immediate => branches.choose_with_wal(&candidates).await?,
            // It may be before what has begun and has no WAL yet, in WAL of the timeline that was left.
            RecoveryTarget::Lsn(_) | RecoveryTarget::Name(_) | RecoveryTarget::Xid(_) => {
                let mut choice = branches.choose_with_wal(&candidates).await?;
                if let Some(choice) = &mut choice {
                    branches.add_begun(&candidates, choice).await?;
                }
                choice
            }
        };
        let Some(choice) = choice else {
            let reason = "no timeline of the archive existed at the target".to_owned();
            return Err(ArchiveError::NoBackup(reason));
        };
        let apart_at = choice.competing.iter().map(|other| other.parted_at).min();
        match (apart_at, self.target()) {
            (None, _) => Ok(choice),
            // Before they part, all are the same.
            (Some(apart_at), RecoveryTarget::Lsn(lsn))
                if self.is_before_parting(*lsn, apart_at, &choice).await? =>
            {
                Ok(choice)
            }
            // Seen when the target is found.
            (Some(_), RecoveryTarget::Name(_) | RecoveryTarget::Xid(_)) => Ok(choice),
            (Some(_), _) => Err(self.competing(&choice)),
        }
    }

    /// A timeline is followed for a reason that was asked for. Where nobody had asked, another one may have been.
    async fn warn_of_others(
        &self,
        followed: TimelineId,
        asked: Option<&BackupRecord>,
        because: &str,
    ) -> Result<(), ArchiveError> {
        match self.sole_timeline(asked).await {
            Ok(choice) if choice.timeline == followed => {}
            Ok(choice) => tracing::warn!(
                "timeline {followed} is followed, {because}; the youngest one that went on is timeline {}",
                choice.timeline
            ),
            Err(error @ ArchiveError::BranchesCompete { .. }) => tracing::warn!(
                "timeline {followed} is followed, {because}; {error}. --target-timeline names another one"
            ),
            Err(ArchiveError::HistoryLost { .. } | ArchiveError::NoBackup(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A position that is reached after another timeline has left this one, of which there is only the history, may be
    /// meant to be on that one.
    async fn refuse_after_fork(&self, choice: &Choice) -> Result<(), ArchiveError> {
        let apart_at = choice.begun.iter().map(|other| other.parted_at).min();
        let (RecoveryTarget::Lsn(lsn), Some(apart_at)) = (self.target(), apart_at) else {
            return Ok(());
        };
        match self.is_before_parting(*lsn, apart_at, choice).await? {
            true => Ok(()),
            false => Err(self.competing(choice)),
        }
    }

    /// Whether a recovery to a position ends before timelines part. An inclusive one replays the first record that begins
    /// there or after it: that has to be one which they have in common.
    async fn is_before_parting(
        &self,
        target: Lsn,
        apart_at: Lsn,
        choice: &Choice,
    ) -> Result<bool, ArchiveError> {
        if target > apart_at || !self.options.recovery.inclusive {
            return Ok(target <= apart_at);
        }
        let number = self.wal.number_at(Lsn(apart_at.0.saturating_sub(1)));
        if self.wal.number_at(target) + 1 < number {
            return Ok(true);
        }
        // One that has no WAL yet has not got its copy of the segment.
        let others = choice.competing.iter().map(|other| other.timeline);
        for timeline in std::iter::once(choice.timeline).chain(others) {
            let segment = self.wal.way(&self.timelines, timeline).segment(number)?;
            if !self.wal.missing(&[segment])?.is_empty() {
                continue;
            }
            let read = readable(read_segment(self.repository, segment).await)?;
            if let Some(last_common) = read.and_then(|content| last_record(&content, apart_at)) {
                return Ok(target <= last_common);
            }
        }
        Ok(false)
    }

    /// A timeline that was asked for has to be known, with everything on the way to it.
    fn check_known(&self, timeline: TimelineId) -> Result<(), ArchiveError> {
        let lost = self.timelines.without_history(std::iter::once(timeline));
        match lost.contains(&timeline) {
            false => Ok(()),
            true if self.wal.timelines().any(|known| known == timeline) => {
                Err(self.history_lost(vec![timeline]))
            }
            true => Err(ArchiveError::NoBackup(format!(
                "the archive has no timeline {timeline}"
            ))),
        }
    }

    /// A server asks for the history of its timeline, and for those of the numbers that follow, to find a
    /// free one when it is promoted. It ends where one is not there that has to be.
    fn check_histories(&self, timeline: TimelineId) -> Result<(), ArchiveError> {
        let lost = self
            .timelines
            .without_history(self.with_wal.iter().copied());
        let newest = self.timelines.newest_from(timeline);
        let next = TimelineId(newest.0.saturating_add(1));
        let is_absent = |of: &&TimelineId| self.timelines.unreadable(**of).is_none();
        let mut asked = lost.iter().filter(|of| (timeline..=next).contains(of));
        match asked.find(is_absent) {
            Some(&of) => Err(self.history_lost(vec![of])),
            None => Ok(()),
        }
    }

    fn history_lost(&self, timelines: Vec<TimelineId>) -> ArchiveError {
        let first = timelines.first().copied().unwrap_or_default();
        ArchiveError::HistoryLost {
            damage: self.timelines.unreadable(first).map(ToString::to_string),
            timelines,
        }
    }

    fn competing(&self, choice: &Choice) -> ArchiveError {
        ArchiveError::BranchesCompete {
            timeline: choice.timeline,
            put_away: choice.put_away.clone(),
            born: choice.born,
            others: choice
                .competing
                .iter()
                .chain(&choice.begun)
                .cloned()
                .collect(),
        }
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
        let is_reached = match self.target() {
            RecoveryTarget::Immediate => true,
            RecoveryTarget::Latest => {
                // A standby goes on from there.
                expected_end = (!self.options.standby).then_some(ExpectedEnd {
                    lsn: end.last_record,
                    time: None,
                });
                reach.hole.is_none()
            }
            RecoveryTarget::Lsn(lsn) => *lsn <= end.last_record,
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
