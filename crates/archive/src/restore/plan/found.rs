//! Where in the archived WAL a target is that is a transaction or a restore point.

use std::collections::BTreeMap;

use walzip_pgformat::TimelineId;

use super::Planner;
use crate::archived::branches::Choice;
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::error::other_branch::OtherBranch;
use crate::restore::target::RecoveryTarget;
use crate::restore::wal_search::{self, Found, Wanted};

/// Where the target is, and the timeline that is followed there.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundAlong {
    pub(super) found: Found,
    pub(super) timeline: TimelineId,
}

impl Planner<'_> {
    /// Where a transaction or a restore point is that is the target: on what the timelines have in common that may be
    /// meant.
    pub(super) async fn found(
        &self,
        choice: &Choice,
        records: &[BackupRecord],
    ) -> Result<Option<FoundAlong>, ArchiveError> {
        let Some(wanted) = self.wanted() else {
            return Ok(None);
        };
        let found = match self.find(&wanted, choice, records).await {
            // It may be on another one.
            Err(ArchiveError::TargetNotFound { .. }) if !choice.competing.is_empty() => {
                return Err(self.competing(choice));
            }
            found => found?,
        };
        // A record that begins where they part is of one of them. Where it is not replayed, that makes no difference.
        let is_replayed = self.options.recovery.inclusive;
        let is_after = |other: &OtherBranch| match is_replayed {
            true => found.found.lsn >= other.parted_at,
            false => found.found.lsn > other.parted_at,
        };
        match choice.competing.iter().chain(&choice.begun).any(is_after) {
            true => Err(self.competing(choice)),
            false => Ok(Some(found)),
        }
    }

    fn wanted(&self) -> Option<Wanted> {
        match self.target() {
            // WAL has the lower half, and PostgreSQL compares no more.
            RecoveryTarget::Xid(xid) => Some(Wanted::Transaction(*xid as u32)),
            RecoveryTarget::Name(name) => Some(Wanted::RestorePoint(name.clone().into_bytes())),
            _ => None,
        }
    }

    /// Looks for the target from the newest backup's WAL back to the oldest's, along the timeline that a recovery from
    /// that backup follows. PostgreSQL stops at the first that it meets after a backup, so there must not be two.
    async fn find(
        &self,
        wanted: &Wanted,
        choice: &Choice,
        records: &[BackupRecord],
    ) -> Result<FoundAlong, ArchiveError> {
        let mut before: BTreeMap<TimelineId, u64> = BTreeMap::new();
        let mut hole = None;
        for record in records.iter().rev() {
            let goal = self.goal(record, choice.timeline);
            if self.obstacle(record, goal, None).is_some() {
                continue;
            }
            let way = self.wal.way(&self.timelines, goal);
            let first = self.wal.number_at(record.start.lsn);
            let reach = way.reach(first)?;
            hole = hole.or(reach.hole);
            let before_later = before.get(&goal).copied();
            let last = reach.last_number.min(before_later.or(reach.last_number));
            let segments = (first..last.map_or(first, |last| last + 1)).map(|n| way.segment(n));
            let segments = segments.collect::<Result<Vec<_>, _>>()?;
            tracing::info!(
                "looking for the target in {} segments after backup {}",
                segments.len(),
                record.label
            );
            let found = wal_search::search(self.repository, segments, wanted).await?;
            let reachable = found.iter().filter(|found| found.lsn >= record.start.lsn);
            let reachable: Vec<Found> = reachable.copied().collect();
            match reachable.as_slice() {
                [] => {}
                [one] if one.lsn >= record.stop.lsn => {
                    return Ok(FoundAlong {
                        found: *one,
                        timeline: goal,
                    });
                }
                // While the backup was taken: an older backup reaches it.
                [_] => {}
                [one, other, ..] => {
                    let (first, second) = (one.lsn, other.lsn);
                    return Err(ArchiveError::Request(format!(
                        "the target is in the WAL more than once, at {first} and at {second}: \
                         --target-lsn names one"
                    )));
                }
            }
            before.insert(goal, self.wal.number_at(record.stop.lsn));
        }
        Err(ArchiveError::TargetNotFound {
            target: self.target().to_string(),
            timeline: choice.timeline,
            hole: hole.map(|hole| hole.first.to_string()),
            superseded: choice
                .superseded
                .iter()
                .map(|other| other.timeline)
                .collect(),
        })
    }
}
