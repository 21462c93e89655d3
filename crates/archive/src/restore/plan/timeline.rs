//! Along which timeline a recovery goes: the one that was asked for, or the only one that is meant.

use walzip_pgformat::{Lsn, TimelineId};

use super::Planner;
use crate::archived::branches::{Branches, Choice, readable};
use crate::archived::competing::lost_histories;
use crate::archived::wal_times::{last_record, read_segment};
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::restore::target::{RecoveryTarget, TargetTimeline};

impl Planner<'_> {
    /// The timeline to follow.
    pub(super) async fn timeline(&self) -> Result<Choice, ArchiveError> {
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
        let lost = lost_histories(
            &self.timelines,
            self.with_wal.iter().copied(),
            &self.records,
        );
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
            // It may be before what has begun and has no WAL yet, in WAL of the timeline that was left.
            RecoveryTarget::Immediate
            | RecoveryTarget::Lsn(_)
            | RecoveryTarget::Name(_)
            | RecoveryTarget::Xid(_) => {
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
            // Whichever backup is taken, it ends before they part.
            (Some(apart_at), RecoveryTarget::Immediate)
                if (self.records.iter()).all(|record| record.stop.lsn <= apart_at) =>
            {
                Ok(choice)
            }
            // Seen when the target is found.
            (Some(_), RecoveryTarget::Name(_) | RecoveryTarget::Xid(_)) => Ok(choice),
            (Some(_), _) => Err(self.competing(&choice)),
        }
    }

    /// A timeline is followed for a reason that was asked for. Where nobody had asked, another one may have been.
    pub(super) async fn warn_of_others(
        &self,
        followed: TimelineId,
        asked: Option<&BackupRecord>,
        because: &str,
    ) -> Result<(), ArchiveError> {
        let sole = match self.sole_timeline(asked).await {
            // Of a name and a transaction it is asked when they are found, and of a position when it is reached.
            Ok(choice) if !(choice.competing.is_empty() && choice.begun.is_empty()) => {
                Err(self.competing(&choice))
            }
            sole => sole,
        };
        match sole {
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
    /// meant to be on that one, and so may the end of a backup.
    pub(super) async fn refuse_after_fork(
        &self,
        choice: &Choice,
        backup: &BackupRecord,
    ) -> Result<(), ArchiveError> {
        let apart_at = choice.begun.iter().map(|other| other.parted_at).min();
        let Some(apart_at) = apart_at else {
            return Ok(());
        };
        let is_common = match self.target() {
            RecoveryTarget::Lsn(lsn) => self.is_before_parting(*lsn, apart_at, choice).await?,
            RecoveryTarget::Immediate => backup.stop.lsn <= apart_at,
            _ => true,
        };
        match is_common {
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

    /// A server asks for the histories of the numbers from its own to that of its target, and for those of the
    /// numbers that follow, to find a free one when it is promoted. It ends where one is not there that has to be.
    pub(super) fn check_histories(
        &self,
        backup: &BackupRecord,
        timeline: TimelineId,
    ) -> Result<(), ArchiveError> {
        let lost = self
            .timelines
            .without_history(self.with_wal.iter().copied());
        let newest = self.timelines.newest_from(timeline);
        let next = TimelineId(newest.0.saturating_add(1));
        let is_absent = |of: &&TimelineId| self.timelines.unreadable(**of).is_none();
        let first = backup.start.timeline.min(timeline);
        let mut asked = lost.iter().filter(|of| (first..=next).contains(of));
        match asked.find(is_absent) {
            Some(&of) => Err(self.history_lost(vec![of])),
            None => Ok(()),
        }
    }

    fn history_lost(&self, timelines: Vec<TimelineId>) -> ArchiveError {
        let with_wal = self.with_wal.iter().copied();
        self.timelines.history_lost(timelines, with_wal)
    }

    pub(super) fn competing(&self, choice: &Choice) -> ArchiveError {
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
}
