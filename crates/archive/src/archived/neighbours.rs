//! Whether segments of an archive continue one another.
//!
//! A copy of a server that archives into the same repository leaves segments of two servers there, one after the other.
//! Each is whole by itself.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::wal::{Discontinuity, SegmentBegin, SegmentEdges, SegmentEnd};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

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

/// The segment before the first one of a timeline, if this is that: the timeline that it left at this position has it.
pub(crate) fn before_branch(
    segment: SegmentName,
    size: u32,
    (parent, switch): (TimelineId, Lsn),
) -> Option<SegmentName> {
    let number = segment.number(size).ok()?;
    let is_first = switch.0 / u64::from(size) == number;
    let before = number.checked_sub(1).filter(|_| is_first)?;
    SegmentName::from_number(parent, before, size).ok()
}

async fn read(repository: &Repository, name: &str) -> Option<SegmentEdges> {
    let stored = StoredWal::get(repository, name).await;
    stored.ok()??.proof(name).await.ok()?.edges.finish()
}
