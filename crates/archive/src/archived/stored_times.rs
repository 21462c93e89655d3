//! When WAL was stored, by the store's clock: it is one clock for all servers that archive there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::WalEntry;

/// When the segments of a cluster were stored, and the first file of each timeline.
#[derive(Debug, Default)]
pub(crate) struct StoredTimes {
    /// When each was stored; false where that may have been earlier, of one in a pack.
    segments: BTreeMap<SegmentName, (Timestamp, bool)>,
    first: BTreeMap<TimelineId, Timestamp>,
}

impl StoredTimes {
    /// Of a listing. Of a segment in a pack only the time is known at which the newest one in its pack was stored.
    pub(crate) fn of(entries: &[WalEntry]) -> StoredTimes {
        let mut stored = StoredTimes::default();
        for entry in entries {
            let Ok(time) = Timestamp::try_from(entry.modified) else {
                continue;
            };
            let timeline = match entry.name.parse() {
                Ok(WalFileName::Segment(segment)) => {
                    stored
                        .segments
                        .insert(segment, (time, entry.packed.is_none()));
                    segment.timeline
                }
                Ok(WalFileName::History(timeline)) => timeline,
                _ => continue,
            };
            let first = stored.first.entry(timeline).or_insert(time);
            *first = time.min(*first);
        }
        stored
    }

    /// When a timeline had begun at the latest: its history is stored as soon as a server follows it.
    pub(crate) fn first_of(&self, timeline: TimelineId) -> Option<Timestamp> {
        self.first.get(&timeline).copied()
    }

    /// When a segment was stored at the latest.
    pub(crate) fn latest_of(&self, segment: SegmentName) -> Option<Timestamp> {
        self.segments.get(&segment).map(|(time, _)| *time)
    }

    /// When a segment was stored, if that is known.
    pub(crate) fn of_segment(&self, segment: SegmentName) -> Option<Timestamp> {
        let known = self
            .segments
            .get(&segment)
            .filter(|(_, is_known)| *is_known);
        known.map(|(time, _)| *time)
    }
}
