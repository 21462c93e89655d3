//! Until when a timeline was written to, by the clocks of the servers and by the store's.

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};

use super::{BranchBackup, Branches, readable};
use crate::error::ArchiveError;
use crate::error::other_branch::OtherBranch;

/// How many segments are asked how far a server's clock is from the store's.
const CLOCK_SEGMENTS: usize = 3;
/// A clock that is nearer to the store's is as good as it: a segment is stored a while after its last commit.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(15);
/// A history is stored as soon as the timeline is born, whatever the clock of its server said.
const STORED_WITHIN: SignedDuration = SignedDuration::from_hours(2);
/// No clock is farther from the store's. WAL of which it seems so was brought there later, by a copy of the
/// repository.
const CLOCK_MAX: SignedDuration = SignedDuration::from_hours(26);

/// Until when a timeline is known to have been written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    /// Nothing was committed after the point in question.
    Over,
    /// A commit or a backup at this time.
    Until(Timestamp),
    /// Its WAL cannot be read: it counts as alive.
    Unknown,
}

impl<B: BranchBackup> Branches<'_, B> {
    /// Until when a timeline was written to after `from`. A segment without commits that was
    /// written before `since` ends the search: what came before it is older still.
    pub(crate) async fn life(
        &self,
        timeline: TimelineId,
        from: Lsn,
        since: Option<Timestamp>,
    ) -> Result<Life, ArchiveError> {
        Ok(self.life_with_segment(timeline, from, since).await?.0)
    }

    /// The same, and the segment that says so.
    pub(super) async fn life_with_segment(
        &self,
        timeline: TimelineId,
        from: Lsn,
        since: Option<Timestamp>,
    ) -> Result<(Life, Option<SegmentName>), ArchiveError> {
        let backed_up = self.backed_up(timeline, from);
        let first = self.wal.number_at(from);
        for number in self.wal.numbers_from(timeline, first).rev() {
            let segment = self.wal.name(timeline, number)?;
            let Some(times) = readable(self.times(segment).await)? else {
                return Ok((Life::Unknown, None));
            };
            if let Some(commit) = times.last_commit(from) {
                return Ok((backed_up.max(Life::Until(commit)), Some(segment)));
            }
            // What the segment in question has besides was written before the point.
            if number == first {
                break;
            }
            // What comes before this segment is older still.
            match (times.earliest_written(), since) {
                (Some(first), Some(since)) if first < since => {
                    return Ok((backed_up.max(Life::Until(first)), Some(segment)));
                }
                _ => {}
            }
        }
        // Segments after the point without a commit in them: there is nothing to lack.
        Ok((backed_up, None))
    }

    /// Whether a timeline was written to after the first file of another one was stored, by the store's clock. It was
    /// not if the last that was written to it was stored before.
    pub(super) async fn went_on(
        &self,
        (branch, last, written): (&OtherBranch, Timestamp, Option<SegmentName>),
        (other, born): (TimelineId, Timestamp),
    ) -> Result<bool, ArchiveError> {
        let Some(begun) = self.stored.first_of(other) else {
            return Ok(false);
        };
        let is_older = |segment| self.stored.latest_of(segment).is_none_or(|of| of <= begun);
        // Where the first file was stored long after the birth, its time says nothing of that: the repository is a copy.
        if begun.duration_since(born) > STORED_WITHIN || written.is_none_or(is_older) {
            return Ok(false);
        }
        let is_after = |behind| last.saturating_add(behind).is_ok_and(|last| last > begun);
        Ok(is_after(SignedDuration::ZERO)
            || is_after(CLOCK_MAX) && is_after(self.clock_behind(branch, begun).await?))
    }

    /// How far the clock of a timeline's server is behind the store's: no farther than the time from the last
    /// commit in a segment to the moment when it was stored. Segments before the point in question tell it, since
    /// those after it may have been kept back. Where they were stored after the other timeline had `begun`, they
    /// say nothing: a copy of a repository has its histories first.
    async fn clock_behind(
        &self,
        branch: &OtherBranch,
        begun: Timestamp,
    ) -> Result<SignedDuration, ArchiveError> {
        let timeline = branch.timeline;
        let end = self.wal.number_at(branch.parted_at);
        let earlier = self.wal.numbers_from(timeline, 0).filter(|&of| of < end);
        let mut last: Vec<u64> = earlier.rev().take(CLOCK_SEGMENTS).collect();
        last.reverse();
        let mut least = None;
        for number in last {
            let segment = self.wal.name(timeline, number)?;
            let stored = self.stored.of_segment(segment);
            let Some(stored) = stored.filter(|stored| *stored <= begun) else {
                continue;
            };
            let times = readable(self.times(segment).await)?;
            let commit = times.and_then(|times| times.last_commit(Lsn(0)));
            let behind = commit.map(|commit| stored.duration_since(commit));
            least = behind.into_iter().chain(least).min();
        }
        let behind = least.unwrap_or_default();
        let is_of_clock = (CLOCK_TOLERANCE..=CLOCK_MAX).contains(&behind.abs());
        Ok(if is_of_clock {
            behind
        } else {
            SignedDuration::ZERO
        })
    }

    fn backed_up(&self, timeline: TimelineId, from: Lsn) -> Life {
        let stops = self.backups.iter().map(BranchBackup::stop);
        let of_timeline = stops.filter(|stop| stop.timeline == timeline && stop.lsn > from);
        let last = of_timeline.map(|stop| stop.time).max();
        last.map_or(Life::Over, Life::Until)
    }
}
