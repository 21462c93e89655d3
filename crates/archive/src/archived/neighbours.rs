//! Whether segments of an archive continue one another.
//!
//! A copy of a server that archives into the same repository leaves segments of two servers there, one after the other.
//! Each is whole by itself.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::Lsn;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal::{Discontinuity, SegmentBegin, SegmentEdges, SegmentEnd};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::Repository;

use crate::archived::shared_segment;
use crate::archived::stored_wal::StoredWal;

/// Where the segments of a cluster meet that were read.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Begins of segments, and the one before, which was not read yet.
    begins: BTreeMap<SegmentName, (SegmentName, SegmentBegin)>,
    /// Ends of segments, by the name of the one after, which was not read yet.
    ends: BTreeMap<SegmentName, (SegmentName, SegmentEnd)>,
    found: Vec<NotContinued>,
}

/// A segment that does not continue the one before it.
#[derive(Clone, Debug)]
pub(crate) struct NotContinued {
    pub(crate) segment: SegmentName,
    pub(crate) before: SegmentName,
    pub(crate) why: Discontinuity,
}

impl Neighbours {
    /// Takes a file that was read, and compares it with those beside it that were. Only whole segments have edges.
    pub(crate) fn add(&mut self, name: &str, edges: Option<SegmentEdges>) {
        let (Some(edges), Ok(WalFileName::Segment(segment))) = (edges, name.parse()) else {
            return;
        };
        let SegmentEdges {
            segment_size,
            begin,
            end,
        } = edges;
        match (self.ends.remove(&segment), segment.previous(segment_size)) {
            (Some(before), _) => self.compare(&before, (segment, &begin)),
            (None, Ok(Some(previous))) => {
                self.begins.insert(segment, (previous, begin));
            }
            (None, _) => {}
        }
        // A last one has no next.
        let Ok(next) = segment.next(segment_size) else {
            return;
        };
        match self.begins.remove(&next) {
            Some((_, begin)) => self.compare(&(segment, end), (next, &begin)),
            None => {
                self.ends.insert(next, (segment, end));
            }
        }
    }

    fn compare(
        &mut self,
        (before, end): &(SegmentName, SegmentEnd),
        (segment, begin): (SegmentName, &SegmentBegin),
    ) {
        if let Some(why) = begin.discontinuity(end) {
            self.found.push(NotContinued {
                segment,
                before: *before,
                why,
            });
        }
    }

    /// Reads those beside them that were not, as far as they are listed. What cannot be read is compared with nothing.
    pub(crate) async fn read_others(
        &mut self,
        repository: &Repository,
        is_listed: impl Fn(&str) -> bool,
    ) {
        let before = self.begins.values().map(|(previous, _)| *previous);
        let others: BTreeSet<SegmentName> = before.chain(self.ends.keys().copied()).collect();
        for name in others.iter().map(SegmentName::to_string) {
            if is_listed(&name) {
                let edges = read(repository, &name).await;
                self.add(&name, edges);
            }
        }
    }

    /// Compares the first segments of timelines with the one before of the timeline that each left: `before` says
    /// which that is.
    pub(crate) async fn compare_branches(
        &mut self,
        repository: &Repository,
        before: impl Fn(SegmentName) -> Option<SegmentName>,
    ) {
        let begins = std::mem::take(&mut self.begins);
        for (segment, (_, begin)) in begins {
            if let Some(before) = before(segment)
                && let Some(edges) = read(repository, &before.to_string()).await
            {
                self.compare(&(before, edges.end), (segment, &begin));
            }
        }
    }

    /// Those that have one beside them which was not read.
    pub(crate) fn alone(
        &self,
        is_listed: impl Fn(&str) -> bool,
        before: impl Fn(SegmentName) -> Option<SegmentName>,
    ) -> BTreeSet<SegmentName> {
        let is_there = |segment: &SegmentName| is_listed(&segment.to_string());
        let begins = self.begins.iter();
        let begins = begins
            .filter(|(segment, (previous, _))| is_there(previous) || before(**segment).is_some());
        let ends = self.ends.iter().filter(|(next, _)| is_there(next));
        let begins = begins.map(|(segment, _)| *segment);
        begins
            .chain(ends.map(|(_, (segment, _))| *segment))
            .collect()
    }

    /// The segments that do not continue the one before.
    pub(crate) fn found(self) -> Vec<NotContinued> {
        self.found
    }
}

/// The segment before the first one of a timeline, if this is that: it is of the timeline that had begun there. That may
/// be an ancestor of the one that was left: both may have been left in this segment.
pub(crate) fn before_branch(
    segment: SegmentName,
    size: u32,
    history: &TimelineHistory,
) -> Option<SegmentName> {
    let range = segment.range(size).ok()?;
    let is_first = shared_segment::began(history).is_some_and(|switch| range.contains(&switch));
    let before = segment.previous(size).ok()?.filter(|_| is_first)?;
    let timeline = history.timeline_at(Lsn(range.start.0 - 1));
    Some(SegmentName { timeline, ..before })
}

async fn read(repository: &Repository, name: &str) -> Option<SegmentEdges> {
    let stored = StoredWal::get(repository, name).await;
    stored.ok()??.proof(name).await.ok()?.edges.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::TimelineId;

    #[test]
    fn what_is_before_a_first_segment_is_of_the_timeline_that_had_begun_there() {
        let before = |segment: &str, timeline, history: &str| {
            let Ok(WalFileName::Segment(segment)) = segment.parse() else {
                panic!("{segment} is no segment");
            };
            let history = TimelineHistory::read(TimelineId(timeline), history.as_bytes());
            let before = before_branch(segment, 16 << 20, &history.expect("a history"));
            before.map(|before| before.to_string())
        };
        let one = "1\t0/F000100\tx\n";
        let of_first = Some("00000001000000000000000E".to_owned());
        assert_eq!(before("00000002000000000000000F", 2, one), of_first);
        assert_eq!(before("000000020000000000000010", 2, one), None);
        // Both forks lie in one segment: timeline 2 has none before it.
        let both = "1\t0/F000100\tx\n2\t0/F000200\tx\n";
        assert_eq!(before("00000003000000000000000F", 3, both), of_first);
        let later = "1\t0/F000100\tx\n2\t0/10000200\tx\n";
        let of_second = Some("00000002000000000000000F".to_owned());
        assert_eq!(before("000000030000000000000010", 3, later), of_second);
        let at_the_border = "1\t0/F000000\tx\n";
        assert_eq!(
            before("00000002000000000000000F", 2, at_the_border),
            of_first
        );
    }
}
