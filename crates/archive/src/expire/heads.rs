//! Which branches of a cluster's history are alive, so that a retention is counted along each.
//!
//! A restored copy that archives into the same repository must not push the backups of production
//! out of it, and after a failover the old timeline must not keep its own for ever. Where a restore would
//! ask which of two timelines is meant, both are alive, and so is one of which only the history is archived.

use std::collections::BTreeMap;

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;

use super::facts::{ClusterFacts, Finished, time_of};

/// When something of a timeline was archived or backed up, for the first and the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activity {
    first: Timestamp,
    last: Timestamp,
}

/// A timeline that was not left for one that came after it, or of which that is not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) timeline: TimelineId,
    pub(super) last: Timestamp,
}

/// The heads, that with the newest activity first.
pub(super) fn heads(facts: &ClusterFacts, own: &[&Finished]) -> Vec<Head> {
    let activities = activities(facts, own);
    let is_left = |timeline: TimelineId, last: Timestamp| {
        activities.iter().any(|(&other, activity)| {
            activity.first >= last && facts.timelines.left_at(timeline, other).is_some()
        })
    };
    let mut heads: Vec<Head> = activities
        .iter()
        .filter(|&(&timeline, activity)| {
            facts.competing.contains_key(&timeline) || !is_left(timeline, activity.last)
        })
        .map(|(&timeline, activity)| Head {
            timeline,
            last: activity.last,
        })
        .collect();
    heads.sort_by_key(|head| std::cmp::Reverse((head.last, head.timeline)));
    heads
}

/// The last moment at which anything was archived or backed up.
pub(super) fn last_activity(facts: &ClusterFacts, own: &[&Finished]) -> Option<Timestamp> {
    let activities = activities(facts, own);
    activities.values().map(|activity| activity.last).max()
}

fn activities(facts: &ClusterFacts, own: &[&Finished]) -> BTreeMap<TimelineId, Activity> {
    let mut activities = BTreeMap::new();
    let mut add = |timeline: TimelineId, time: Timestamp| {
        let activity = activities.entry(timeline).or_insert(Activity {
            first: time,
            last: time,
        });
        activity.first = activity.first.min(time);
        activity.last = activity.last.max(time);
    };
    for entry in &facts.wal {
        if let Ok(WalFileName::Segment(segment) | WalFileName::Partial(segment)) =
            entry.name.parse()
        {
            add(segment.timeline, time_of(entry.modified));
        }
    }
    for backup in own {
        add(backup.stop.timeline, backup.stop.time);
    }
    // One that has begun, and whose first segment is not full yet.
    for entry in &facts.wal {
        if let Ok(WalFileName::History(timeline)) = entry.name.parse() {
            let time = time_of(entry.modified);
            let activity = Activity {
                first: time,
                last: time,
            };
            activities.entry(timeline).or_insert(activity);
        }
    }
    activities
}
