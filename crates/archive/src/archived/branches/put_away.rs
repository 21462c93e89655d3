//! How a timeline is put away, should it be one that was abandoned.

use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};

use super::{BranchBackup, Branches};
use crate::error::ArchiveError;
use crate::error::other_branch::PutAway;

impl<B: BranchBackup> Branches<'_, B> {
    /// How a timeline is put away, or what it has from the segment of a number on.
    pub(super) fn put_away(
        &self,
        timeline: TimelineId,
        from: Option<u64>,
    ) -> Result<PutAway, ArchiveError> {
        let goes_with = |other: &TimelineId| {
            let left_at = self.timelines.left_at(timeline, *other);
            left_at.is_some_and(|at| from.is_none_or(|from| self.wal.number_at(at) > from))
        };
        let with: Vec<TimelineId> = self.timelines.known().filter(goes_with).collect();
        let begun = with.iter().find(|&&other| !self.has_content(other));
        Ok(match begun {
            Some(&begun) => PutAway::Left(begun),
            None => PutAway::Parts {
                from: from.map(|from| self.wal.name(timeline, from)).transpose()?,
                with,
            },
        })
    }

    /// The segment in which a timeline was left, if what comes before in it is nowhere else: the child has not archived
    /// its copy.
    pub(super) fn needed_by_child(
        &self,
        left_at: Lsn,
        child: TimelineId,
    ) -> Result<Option<SegmentName>, ArchiveError> {
        let number = self.wal.number_at(left_at);
        let way = self.wal.way(self.timelines, child);
        let own = way.segment(number)?;
        let is_missing = way.begin(number) < left_at && !self.wal.missing(&[own])?.is_empty();
        let stops = self.backups.iter().map(BranchBackup::stop);
        let is_expired = self.wal.numbers_from(child, number + 1).next().is_some()
            && !self.timelines.need_fork(
                child,
                left_at,
                stops.map(|stop| (stop.timeline, stop.lsn)),
            );
        Ok((is_missing && !is_expired).then_some(own))
    }

    /// The number of the first segment that a timeline has for itself, after another one has left it. That in which
    /// it was left is needed where a backup ends there.
    pub(super) fn own_from(&self, timeline: TimelineId, left_at: Lsn) -> Result<u64, ArchiveError> {
        let number = self.wal.number_at(left_at);
        let first = self.wal.name(timeline, number)?;
        let is_needed = self.backups.iter().any(|backup| backup.requires(first));
        Ok(number + u64::from(is_needed))
    }
}
