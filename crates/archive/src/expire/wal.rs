//! Which WAL of a cluster is kept.
//!
//! Positions grow along every timeline, so that a segment before the start of all kept backups is
//! of no use to any of them, whatever its timeline is. What lies after the start of one is kept as
//! long as that backup can reach it. In both cases it goes only if it was archived before the
//! oldest kept backup began: a cluster that was restored to an old moment writes old positions
//! again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{PackName, WalEntry};

use super::facts::{ClusterFacts, Finished, time_of};
use super::plan::{KeptWal, WalName, WalReason};
use crate::archived::branches::BEGINNING_SEGMENTS;
use crate::archived::timelines::with_wal;

/// The longest time between two checkpoints (`checkpoint_timeout`): so much older than a backup's
/// beginning the WAL can be that it needs.
const CHECKPOINT_MAX: SignedDuration = SignedDuration::from_hours(24);

/// What decides about the WAL of a cluster.
#[derive(Debug, Default)]
pub(super) struct Needs<'a> {
    /// The backups from which every moment after them can be restored.
    pub(super) from: Vec<&'a Finished>,
    /// Those that are kept, from which perhaps only their own moment can.
    pub(super) kept: Vec<&'a Finished>,
    /// When the oldest began that may need WAL and does not say which.
    pub(super) unknown: Option<Timestamp>,
    /// What was archived from this moment on stays.
    pub(super) recent: Timestamp,
}

/// What goes, in the order in which it goes, and why the rest stays.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) removed: Vec<WalName>,
    /// The packs of which everything is removed.
    pub(super) packs: Vec<PackName>,
    pub(super) kept: Vec<KeptWal>,
}

/// Sorts the WAL of a cluster of which nothing goes.
pub(super) fn keep_all(facts: &ClusterFacts, why: WalReason) -> Sorted {
    let reasons = facts.wal.iter().map(|entry| (entry, Some(why)));
    sorted(reasons.collect(), Vec::new())
}

/// Sorts the WAL of a cluster.
pub(super) fn sort(facts: &ClusterFacts, needs: &Needs<'_>) -> Sorted {
    let sorter = Sorter::new(facts, needs);
    let mut reasons: Vec<_> = facts
        .wal
        .iter()
        .map(|entry| (entry, sorter.reason(entry)))
        .collect();
    keep_beginnings(facts, needs, &mut reasons);
    let packs = keep_packs(facts, &mut reasons);
    sorted(reasons, packs)
}

struct Sorter<'a> {
    facts: &'a ClusterFacts,
    needs: &'a Needs<'a>,
    required: BTreeSet<SegmentName>,
    is_uncertain: bool,
}

impl<'a> Sorter<'a> {
    fn new(facts: &'a ClusterFacts, needs: &'a Needs<'a>) -> Sorter<'a> {
        let required = needs.kept.iter().flat_map(|kept| &kept.required);
        let lost = facts.timelines.without_history(with_wal(&facts.wal));
        Sorter {
            facts,
            needs,
            required: required.copied().collect(),
            is_uncertain: !lost.is_empty(),
        }
    }

    /// Why an object stays; nothing where it goes.
    fn reason(&self, entry: &WalEntry) -> Option<WalReason> {
        let Ok(name) = entry.name.parse::<WalFileName>() else {
            return Some(WalReason::Foreign);
        };
        let Some(segment) = name.segment() else {
            return Some(WalReason::History);
        };
        if self.required.contains(&segment) {
            return Some(WalReason::Required);
        }
        let mut after = self
            .needs
            .from
            .iter()
            .filter(|from| !is_before(segment, from));
        if self.is_uncertain && after.next().is_some() {
            return Some(WalReason::Uncertain);
        }
        if after.any(|from| self.reaches(from, segment.timeline)) {
            return Some(WalReason::Reachable);
        }
        let archived = time_of(entry.modified);
        let held = self.needs.unknown.map(|unknown| {
            let earlier = unknown.saturating_sub(CHECKPOINT_MAX);
            earlier.unwrap_or(Timestamp::MIN)
        });
        if held.is_some_and(|held| archived >= held) {
            return Some(WalReason::MayBeNeeded);
        }
        (archived >= self.needs.recent).then_some(WalReason::Recent)
    }

    /// Whether a recovery from a backup can come to a timeline.
    fn reaches(&self, from: &Finished, timeline: TimelineId) -> bool {
        let passes = |timelines_of, at| self.facts.timelines.passes(timeline, timelines_of, at);
        passes(from.stop.timeline, from.stop.lsn) || passes(from.start.timeline, from.start.lsn)
    }
}

/// Whether a segment ends before recovery from a backup starts. One whose position cannot be told
/// does not.
fn is_before(segment: SegmentName, from: &Finished) -> bool {
    let size = from.segment_size_bytes;
    let range = segment.range(size);
    range.is_ok_and(|range| range.end <= from.start.lsn)
}

/// Keeps the segments that tell when a timeline was born, as long as a restore has another branch to
/// tell it from.
fn keep_beginnings(
    facts: &ClusterFacts,
    needs: &Needs<'_>,
    reasons: &mut [(&WalEntry, Option<WalReason>)],
) {
    let segment_of = |entry: &WalEntry| match entry.name.parse() {
        Ok(WalFileName::Segment(segment)) => Some(segment),
        _ => None,
    };
    let mut living: BTreeSet<TimelineId> =
        needs.kept.iter().map(|kept| kept.stop.timeline).collect();
    let kept = reasons.iter().filter(|(_, reason)| reason.is_some());
    living.extend(kept.filter_map(|(entry, _)| Some(segment_of(entry)?.timeline)));
    if living.len() < 2 {
        return;
    }
    let size = needs.kept.last().map(|kept| kept.segment_size_bytes);
    let mut begun: BTreeMap<TimelineId, usize> = BTreeMap::new();
    for (entry, reason) in reasons {
        let Some(segment) = segment_of(entry).filter(|of| living.contains(&of.timeline)) else {
            continue;
        };
        let Some((_, switch)) = facts.timelines.beginning(segment.timeline) else {
            continue;
        };
        let range = size.and_then(|size| segment.range(size).ok());
        if range.is_some_and(|range| range.end <= Lsn(switch.0)) {
            continue;
        }
        let count = begun.entry(segment.timeline).or_default();
        if *count < BEGINNING_SEGMENTS {
            *count += 1;
            reason.get_or_insert(WalReason::Beginning);
        }
    }
}

/// A pack goes when nothing in it is needed; what is only in a pack goes with it. Returns the packs
/// that go.
fn keep_packs(
    facts: &ClusterFacts,
    reasons: &mut [(&WalEntry, Option<WalReason>)],
) -> Vec<PackName> {
    let needed = reasons.iter().filter(|(_, reason)| reason.is_some());
    let needed: BTreeSet<&str> = needed.map(|(entry, _)| entry.name.as_str()).collect();
    let is_needed = |pack: &&PackName| pack.segments().any(|name| needed.contains(name.as_str()));
    let (kept, going): (Vec<&PackName>, Vec<&PackName>) = facts.packs.iter().partition(is_needed);
    let kept: BTreeSet<String> = kept.into_iter().flat_map(PackName::segments).collect();
    for (entry, reason) in reasons {
        if entry.packed.is_some() && kept.contains(&entry.name) {
            reason.get_or_insert(WalReason::Packed);
        }
    }
    going.into_iter().cloned().collect()
}

fn sorted(reasons: Vec<(&WalEntry, Option<WalReason>)>, packs: Vec<PackName>) -> Sorted {
    let mut kept: BTreeMap<WalReason, KeptWal> = BTreeMap::new();
    let mut removed: Vec<(Option<(u32, u32)>, &WalEntry)> = Vec::new();
    for (entry, reason) in reasons {
        let Some(reason) = reason else {
            let segment = entry.name.parse().ok().and_then(WalFileName::segment);
            removed.push((segment.map(|of| (of.log, of.segment)), entry));
            continue;
        };
        let kept = kept.entry(reason).or_insert(KeptWal {
            reason,
            objects: 0,
            stored_bytes: 0,
        });
        kept.objects += 1;
        kept.stored_bytes += entry.size_bytes;
    }
    // The oldest positions first, whatever their timeline.
    removed.sort_by_key(|(position, entry)| (*position, &entry.name));
    let name = |(_, entry): (_, &WalEntry)| WalName {
        name: entry.name.clone(),
        stored_bytes: entry.size_bytes,
        is_packed: entry.packed.is_some(),
    };
    Sorted {
        packs,
        removed: removed.into_iter().map(name).collect(),
        kept: kept.into_values().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archived::timelines::Timelines;
    use std::time::SystemTime;
    use walzip_repo::ClusterIdentity;

    fn name(number: u32) -> String {
        format!("0000000100000000{number:08X}")
    }

    fn entry(number: u32, is_packed: bool) -> WalEntry {
        WalEntry {
            name: name(number),
            size_bytes: 10,
            modified: SystemTime::UNIX_EPOCH,
            packed: is_packed.then_some(SystemTime::UNIX_EPOCH),
        }
    }

    fn pack(first: u32, count: usize) -> PackName {
        PackName::new(&name(first), count, SystemTime::UNIX_EPOCH).expect("a name")
    }

    /// Segments 0 to 9 of which those from `needed` on stay; 3 is an object of its own as well.
    fn sorted_packs(needed: u32, packs: &[PackName]) -> (Vec<PackName>, Vec<String>) {
        let facts = ClusterFacts {
            cluster: ClusterIdentity {
                system_id: 1,
                major: 15,
            },
            wal: (0..10).map(|number| entry(number, number != 3)).collect(),
            packs: packs.to_vec(),
            timelines: Timelines::default(),
            competing: std::collections::BTreeMap::new(),
            lost: Vec::new(),
            aside: Vec::new(),
            packs_aside: Vec::new(),
        };
        let reason = |number: u32| (number >= needed).then_some(WalReason::Reachable);
        let mut reasons: Vec<_> = facts.wal.iter().zip((0..10).map(reason)).collect();
        let going = keep_packs(&facts, &mut reasons);
        let sorted = sorted(reasons, going);
        let removed = sorted.removed.into_iter().map(|wal| wal.name);
        (sorted.packs, removed.collect())
    }

    #[test]
    fn a_pack_goes_when_nothing_in_it_is_needed() {
        let packs = [pack(0, 5), pack(5, 5)];
        let (going, removed) = sorted_packs(5, &packs);
        assert_eq!((going, removed.len()), (packs[..1].to_vec(), 5));
        // One segment that is needed keeps all; what is an object of its own goes alone.
        let (going, removed) = sorted_packs(4, &packs);
        assert_eq!((going, removed), (Vec::new(), vec![name(3)]));
        let (going, removed) = sorted_packs(10, &packs);
        assert_eq!((going.len(), removed.len()), (2, 10));
    }

    /// Two runs with other settings have made packs of the same segments.
    #[test]
    fn packs_that_overlap_go_each_by_itself() {
        let packs = [pack(0, 4), pack(0, 10)];
        let (going, removed) = sorted_packs(5, &packs);
        assert_eq!((going, removed), (packs[..1].to_vec(), vec![name(3)]));
    }
}
