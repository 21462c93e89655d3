//! What two timelines share of the segment in which one leaves the other.
//!
//! A server that is promoted makes the first segment of its timeline out of the last one of the timeline that it leaves: it
//! copies that byte for byte up to the switch (`XLogInitNewTimeline`, `XLogFileCopy`, access/transam/xlog.c, 13 to 18). The
//! copied pages keep the timeline that they had. Two servers that left a timeline at the same position have the same
//! history. What they wrote then differs, and shows that a later timeline comes from only one of the two.

use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::wal::replayed;

/// A timeline that is left in the first segment of a later one, which has a copy of what is before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedSegment {
    /// The first segment of the later timeline.
    pub(crate) first: SegmentName,
    /// The timeline that is left.
    pub(crate) parent: TimelineId,
    /// Where it is left.
    pub(crate) switch: Lsn,
    /// The same in bytes from the start of the segment.
    pub(crate) end: usize,
}

impl SharedSegment {
    /// Those of a segment, if a history says that its timeline begins in it; the timeline that was left last comes first.
    pub(crate) fn all(
        segment: SegmentName,
        size: u32,
        history: &TimelineHistory,
    ) -> Vec<SharedSegment> {
        let Ok(range) = segment.range(size) else {
            return Vec::new();
        };
        let begins_here = began(history).is_some_and(|switch| range.contains(&switch));
        let mut all: Vec<SharedSegment> = history
            .parts()
            .filter(|(_, switch)| begins_here && range.start < *switch && *switch < range.end)
            .map(|(parent, switch)| SharedSegment {
                first: segment,
                parent,
                switch,
                end: (switch.0 - range.start.0) as usize,
            })
            .collect();
        all.reverse();
        all
    }

    /// The files that may have what the timeline that is left has of the segment.
    pub(crate) fn of_parent(&self) -> [WalFileName; 2] {
        let of_parent = SegmentName {
            timeline: self.parent,
            ..self.first
        };
        [
            WalFileName::Segment(of_parent),
            WalFileName::Partial(of_parent),
        ]
    }

    /// Says what is wrong where the two differ, so many bytes from the start of the segment.
    pub(crate) fn why(&self, at: usize) -> String {
        let SharedSegment {
            first,
            parent,
            switch,
            end,
        } = self;
        let at = Lsn(switch.0 - *end as u64 + at as u64);
        format!(
            "timeline {} left timeline {parent} at {switch}, and has other WAL of that from {at} on",
            first.timeline
        )
    }
}

/// Where a history's own timeline begins.
pub(crate) fn began(history: &TimelineHistory) -> Option<Lsn> {
    history.parts().last().map(|(_, switch)| switch)
}

/// Where an archived file first differs from another one before an end, and both have records there or after it. What
/// comes after the last record was never written: a server that is promoted may have received less than another one, and
/// what was in the file before it got its name is left in it then.
pub(crate) async fn difference(
    repository: &Repository,
    name: &str,
    (file, end): (&StableFile, usize),
) -> Result<Option<usize>, ArchiveError> {
    let (store, cluster) = (repository.store(), repository.cluster());
    let Some(stored) = StoredWal::get_unopened(store, cluster, name).await? else {
        return Ok(None);
    };
    let Some(at) = file.first_difference(name, stored, end).await? else {
        return Ok(None);
    };
    // One at a time: each may have a gigabyte.
    let own_end = records_end(file.content().await?).await;
    let Some(stored) = StoredWal::get_unopened(store, cluster, name).await? else {
        return Ok(None);
    };
    let archived_end = records_end(stored.content(name).await?).await;
    Ok((at < own_end.min(archived_end)).then_some(at))
}

async fn records_end(segment: Vec<u8>) -> usize {
    let end = off_the_runtime(move || replayed::end_of_records(&segment)).await;
    end.map_or(0, |end| end.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 16 << 20;

    fn shared(segment: &str, timeline: u32, history: &str) -> Vec<(u32, usize)> {
        let Ok(WalFileName::Segment(segment)) = segment.parse() else {
            panic!("{segment} is no segment");
        };
        let history = TimelineHistory::read(TimelineId(timeline), history.as_bytes());
        let all = SharedSegment::all(segment, SIZE, &history.expect("a history"));
        all.iter()
            .map(|shared| (shared.parent.0, shared.end))
            .collect()
    }

    #[test]
    fn a_first_segment_has_a_copy_of_each_timeline_that_was_left_in_it() {
        let history = "1\t0/F000100\tx\n2\t0/F000200\tx\n";
        let first = "00000003000000000000000F";
        assert_eq!(shared(first, 3, history), [(2, 0x200), (1, 0x100)]);
        let other = "000000030000000000000010";
        assert_eq!(shared(other, 3, history), []);
        let history = "1\t0/E000100\tx\n2\t0/F000200\tx\n";
        assert_eq!(shared(first, 3, history), [(2, 0x200)]);
        // Nothing is before the switch.
        assert_eq!(shared(first, 3, "2\t0/F000000\tx\n"), []);
        // Timeline 2 was followed, and not reached.
        let history = "1\t0/F000300\tx\n2\t0/F000200\tx\n";
        assert_eq!(shared(first, 3, history), [(1, 0x200)]);
    }
}
