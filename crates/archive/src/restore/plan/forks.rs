//! What a plan has to know of the points at which timelines leave one another.

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::SegmentName;

use super::Planner;
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::restore::target::{RecoveryTarget, TargetTimeline};
use crate::wal::expected_end::ExpectedEnd;
use crate::wal::wal_end::WalEnd;

impl Planner<'_> {
    /// The first segment that a timeline has for itself, where it is not archived yet: the recovery must not get an older
    /// timeline's in its place.
    pub(super) fn own_from(
        &self,
        backup: &BackupRecord,
        timeline: TimelineId,
    ) -> Result<Option<SegmentName>, ArchiveError> {
        let way = self.wal.way(&self.timelines, timeline);
        let first = self.wal.number_at(backup.start.lsn);
        let last = way.reach(first)?.last_number;
        let next = last.map_or(first, |last| last + 1);
        let Some((own, left, switch)) = way.own_from(next)? else {
            return Ok(None);
        };
        let parents = self.wal.missing(&[SegmentName {
            timeline: left,
            ..own
        }])?;
        let is_archived = parents.is_empty() && self.timelines.is_on_way(left, own.timeline);
        let to_the_point = match is_archived {
            true => format!(
                " To restore up to that point: --target-timeline {left} --target-lsn {switch} --target-exclusive"
            ),
            false => String::new(),
        };
        tracing::warn!(
            "timeline {} left timeline {left} at {switch}, and has not archived its segment {own} yet: a recovery goes \
             no further than the segment before, and a standby waits. To go on, copy {own} from pg_wal of the server that \
             wrote it into pg_wal of the restored cluster before its start.{to_the_point}",
            own.timeline
        );
        Ok(Some(own))
    }

    /// A target time that the archived WAL of a timeline does not reach may lie in what only a child of it has archived:
    /// the segment in which that one left it, after all that is archived of the parent. The recovery ends on the way,
    /// before anything of the child.
    pub(super) async fn reach_on_child(
        &self,
        backup: &BackupRecord,
        timeline: TimelineId,
        parents_end: &WalEnd,
    ) -> Result<Option<(TimelineId, (WalEnd, Option<ExpectedEnd>))>, ArchiveError> {
        let is_time = matches!(self.target(), RecoveryTarget::Time(_));
        if !is_time || self.options.recovery.timeline != TargetTimeline::Sole {
            return Ok(None);
        }
        let stop = backup.stop;
        let descendants = self.timelines.known().filter_map(|child| {
            let (last_common, left) = self.timelines.common(timeline, child)?;
            let is_descendant = child != timeline
                && last_common == timeline
                && self.timelines.passes(child, stop.timeline, stop.lsn);
            // One that left earlier lacks what the parent has.
            (is_descendant && left > parents_end.last_record).then_some((left, child))
        });
        let Some((_, child)) = descendants.max() else {
            return Ok(None);
        };
        self.check_histories(backup, child)?;
        match self.check_reach(backup, child, None).await {
            Ok(reached) => Ok(Some((child, reached))),
            Err(ArchiveError::BeyondArchive { .. } | ArchiveError::WalMissing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
