//! Which segments are archived, and how far they lead along a timeline.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::WalEntry;

use crate::archived::timelines::Timelines;
use crate::error::ArchiveError;

/// The whole segments of an archive, by timeline.
#[derive(Clone, Debug)]
pub(crate) struct ArchivedWal {
    segment_size_bytes: u32,
    numbers: BTreeMap<TimelineId, BTreeSet<u64>>,
}

/// Consecutive segments that are not archived, although later ones are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) first: SegmentName,
    pub(crate) last: SegmentName,
    pub(crate) segments: u64,
}

/// How far the archived WAL leads from somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The number of the last segment before the hole or the end; nothing where the first one is
    /// not archived.
    pub(crate) last_number: Option<u64>,
    /// What is missing before the end.
    pub(crate) hole: Option<Hole>,
}

impl ArchivedWal {
    /// Sorts a listing. What PostgreSQL would not have named so, with segments of this size, is none of
    /// its WAL.
    pub(crate) fn of(listing: &[WalEntry], segment_size_bytes: u32) -> ArchivedWal {
        let mut numbers: BTreeMap<TimelineId, BTreeSet<u64>> = BTreeMap::new();
        for entry in listing {
            if let Ok(WalFileName::Segment(segment)) = entry.name.parse()
                && let Ok(number) = segment.number(segment_size_bytes)
            {
                numbers.entry(segment.timeline).or_default().insert(number);
            }
        }
        ArchivedWal {
            segment_size_bytes,
            numbers,
        }
    }

    /// The timelines of which there is a segment.
    pub(crate) fn timelines(&self) -> impl Iterator<Item = TimelineId> + '_ {
        self.numbers.keys().copied()
    }

    pub(crate) fn has(&self, timeline: TimelineId, number: u64) -> bool {
        let of_timeline = self.numbers.get(&timeline);
        of_timeline.is_some_and(|numbers| numbers.contains(&number))
    }

    /// Those of the segments that are not archived.
    pub(crate) fn missing(
        &self,
        segments: &[SegmentName],
    ) -> Result<Vec<SegmentName>, ArchiveError> {
        let mut missing = Vec::new();
        for &segment in segments {
            let number = segment.number(self.segment_size_bytes)?;
            if !self.has(segment.timeline, number) {
                missing.push(segment);
            }
        }
        Ok(missing)
    }

    /// The numbers of a timeline's segments from this one on, in order.
    pub(crate) fn numbers_from(
        &self,
        timeline: TimelineId,
        first: u64,
    ) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let of_timeline = self.numbers.get(&timeline).into_iter();
        of_timeline.flat_map(move |numbers| numbers.range(first..).copied())
    }

    /// The number of the segment that holds the byte at `position`.
    pub(crate) fn number_at(&self, position: Lsn) -> u64 {
        position.0 / u64::from(self.segment_size_bytes)
    }

    /// The name of the segment with this number.
    pub(crate) fn name(
        &self,
        timeline: TimelineId,
        number: u64,
    ) -> Result<SegmentName, ArchiveError> {
        let size = self.segment_size_bytes;
        Ok(SegmentName::from_number(timeline, number, size)?)
    }

    /// The WAL that leads to `goal`.
    pub(crate) fn way<'a>(&'a self, timelines: &'a Timelines, goal: TimelineId) -> Way<'a> {
        Way {
            wal: self,
            timelines,
            goal,
        }
    }
}

/// The segments from the oldest ancestor of a timeline to its own end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    wal: &'a ArchivedWal,
    timelines: &'a Timelines,
    goal: TimelineId,
}

impl Way<'_> {
    /// The segment with this number on the way: its last byte decides, since a child has its own
    /// copy of the segment in which it left its parent.
    pub(crate) fn segment(&self, number: u64) -> Result<SegmentName, ArchiveError> {
        let name = self.wal.name(self.goal, number)?;
        let timeline = match self.timelines.history(self.goal) {
            None => self.goal,
            Some(history) => {
                let range = name.range(self.wal.segment_size_bytes)?;
                history.timeline_at(Lsn(range.end.0 - 1))
            }
        };
        Ok(SegmentName { timeline, ..name })
    }

    /// The number of the segment that holds the byte at `position`.
    pub(crate) fn number_at(&self, position: Lsn) -> u64 {
        self.wal.number_at(position)
    }

    /// Where the segment with this number begins.
    pub(crate) fn begin(&self, number: u64) -> Lsn {
        Lsn(number.saturating_mul(self.wal.segment_size_bytes.into()))
    }

    /// The number of a segment, if it is one of this size.
    pub(crate) fn number(&self, segment: SegmentName) -> Option<u64> {
        segment.number(self.wal.segment_size_bytes).ok()
    }

    /// The timeline that it leads to.
    pub(crate) fn goal(&self) -> TimelineId {
        self.goal
    }

    /// Where it leaves one timeline for the next.
    pub(crate) fn switches(&self) -> impl Iterator<Item = Lsn> {
        let history = self.timelines.history(self.goal).into_iter();
        history.flat_map(|history| history.ancestors.iter().map(|ancestor| ancestor.switch))
    }

    /// A segment that is not archived, if it is the first one that its timeline has for itself: older timelines may have
    /// copies of it, or their own of this number, which are not on the way. Where the older timeline is left is told
    /// with it.
    pub(crate) fn own_from(
        &self,
        number: u64,
    ) -> Result<Option<(SegmentName, TimelineId, Lsn)>, ArchiveError> {
        let own = self.segment(number)?;
        let Some((parent, switch)) = self.timelines.beginning(own.timeline) else {
            return Ok(None);
        };
        let is_first = self.number_at(switch) == number;
        let is_archived = self.wal.has(own.timeline, number);
        Ok((is_first && !is_archived).then_some((own, parent, switch)))
    }

    fn is_archived(&self, number: u64) -> Result<bool, ArchiveError> {
        let timeline = self.segment(number)?.timeline;
        Ok(self.is_of(timeline) && self.wal.has(timeline, number))
    }

    /// Whether the archive's WAL of a timeline is on the way, where the timeline is.
    fn is_of(&self, timeline: TimelineId) -> bool {
        self.timelines.is_on_way(timeline, self.goal)
    }

    /// The number of the newest archived segment on the way.
    pub(crate) fn newest(&self) -> Result<Option<u64>, ArchiveError> {
        let mut newest = None;
        for (&timeline, numbers) in &self.wal.numbers {
            for &number in numbers.iter().rev() {
                if Some(number) <= newest {
                    break;
                }
                if self.segment(number)?.timeline == timeline && self.is_of(timeline) {
                    newest = Some(number);
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// How far the WAL leads without a hole, from the segment with this number on.
    pub(crate) fn reach(&self, first: u64) -> Result<Reach, ArchiveError> {
        let newest = self.newest()?.filter(|&newest| newest >= first);
        let Some(newest) = newest else {
            return Ok(Reach {
                last_number: None,
                hole: None,
            });
        };
        let mut number = first;
        while number <= newest && self.is_archived(number)? {
            number += 1;
        }
        let hole = match number > newest {
            true => None,
            false => self.hole(number)?,
        };
        Ok(Reach {
            last_number: number.checked_sub(1).filter(|&last| last >= first),
            hole,
        })
    }

    /// The number of the oldest archived segment on the way that is newer than this one. Of the
    /// segments between them, of which there can be any number, none is looked at.
    fn next(&self, number: u64) -> Result<Option<u64>, ArchiveError> {
        let mut next: Option<u64> = None;
        for (&timeline, numbers) in &self.wal.numbers {
            for &later in numbers.range(number + 1..) {
                if next.is_some_and(|next| later >= next) {
                    break;
                }
                if self.segment(later)?.timeline == timeline && self.is_of(timeline) {
                    next = Some(later);
                    break;
                }
            }
        }
        Ok(next)
    }

    /// The hole that begins with this segment, if there is a later one.
    fn hole(&self, first: u64) -> Result<Option<Hole>, ArchiveError> {
        let Some(after) = self.next(first)? else {
            return Ok(None);
        };
        Ok(Some(Hole {
            first: self.segment(first)?,
            last: self.segment(after - 1)?,
            segments: after - first,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const SIZE: u32 = 16 << 20;

    fn wal(names: &[&str]) -> ArchivedWal {
        let entry = |name: &&str| WalEntry {
            name: (*name).to_owned(),
            size_bytes: 10,
            modified: SystemTime::UNIX_EPOCH,
            packed: None,
        };
        let listing: Vec<WalEntry> = names.iter().map(entry).collect();
        ArchivedWal::of(&listing, SIZE)
    }

    fn history(timeline: u32, text: &str) -> Timelines {
        let mut timelines = Timelines::default();
        timelines.insert(TimelineId(timeline), text.as_bytes());
        timelines
    }

    #[test]
    fn follows_a_switch_with_the_childs_copy_of_the_segment() {
        let wal = wal(&[
            "000000010000000000000001",
            "000000010000000000000002",
            "000000010000000000000003",
            "000000020000000000000002",
            "000000020000000000000003",
        ]);
        let timelines = history(2, "1\t0/2500000\treason\n");
        let reach = |goal| {
            let way = wal.way(&timelines, TimelineId(goal));
            way.reach(1).expect("valid").last_number
        };
        assert_eq!((reach(1), reach(2)), (Some(3), Some(3)));
        let way = wal.way(&timelines, TimelineId(2));
        let timelines_of = [1, 2, 3].map(|number| way.segment(number).expect("valid").timeline.0);
        assert_eq!(timelines_of, [1, 2, 2]);
    }

    #[test]
    fn names_the_first_hole_and_what_is_before_it() {
        let wal = wal(&[
            "000000010000000000000001",
            "000000010000000000000004",
            "000000010000000000000006",
        ]);
        let timelines = Timelines::default();
        let way = wal.way(&timelines, TimelineId(1));
        let reach = way.reach(1).expect("valid");
        assert_eq!(reach.last_number, Some(1));
        let hole = reach.hole.expect("a hole");
        assert_eq!(hole.segments, 2);
        assert_eq!(hole.first.to_string(), "000000010000000000000002");
        assert_eq!(hole.last.to_string(), "000000010000000000000003");
        assert_eq!(way.reach(4).expect("valid").last_number, Some(4));
        assert_eq!(way.reach(5).expect("valid").last_number, None);
        let beyond = way.reach(7).expect("valid");
        assert_eq!((beyond.last_number, beyond.hole), (None, None));
    }

    #[test]
    fn a_hole_of_any_length_is_named_at_once() {
        let wal = wal(&["000000010000000000000001", "00000001FFFFFFFF000000FF"]);
        let timelines = Timelines::default();
        let reach = wal.way(&timelines, TimelineId(1)).reach(1).expect("valid");
        let hole = reach.hole.expect("a hole");
        assert_eq!(hole.segments, (1 << 40) - 3);
        assert_eq!(hole.last.to_string(), "00000001FFFFFFFF000000FE");
    }

    /// A parent's own copy of the segment of the switch goes on after the switch.
    #[test]
    fn does_not_take_the_parents_copy_for_the_childs() {
        let wal = wal(&[
            "000000010000000000000001",
            "000000010000000000000002",
            "000000020000000000000003",
        ]);
        let timelines = history(2, "1\t0/2500000\treason\n");
        let way = wal.way(&timelines, TimelineId(2));
        let reach = way.reach(1).expect("valid");
        assert_eq!(reach.last_number, Some(1));
        let missing = reach.hole.expect("a hole").first;
        assert_eq!(missing.to_string(), "000000020000000000000002");
    }
}
