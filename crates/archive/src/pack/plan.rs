//! Which segments are packed together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::layout::{MAX_PACK_ORIGINAL_BYTES, MAX_PACK_SEGMENTS};
use walzip_repo::{WalEntry, WalListing, WalPack};

/// Longer segments would take too much memory.
const PACKED_SEGMENT_MAX: u64 = 512 << 20;

/// WAL of a directory of segments, one of which a pack has all its segments in.
const DIRECTORY_BYTES: u64 = 4 << 30;

/// A pack of one segment saves nothing, and a segment of its own is found in one request.
pub(super) const LEAST_SEGMENTS: usize = 2;

/// An object that is going to be packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) stored_bytes: u64,
    pub(super) archived: SystemTime,
}

/// What there is to do for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Packs of which some segments are objects of their own still.
    pub(super) unsettled: Vec<WalPack>,
    /// Consecutive segments that go into a pack.
    pub(super) packs: Vec<Vec<Candidate>>,
}

/// What to pack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The newest segments of each timeline that stay.
    pub(super) newest: usize,
    /// How many segments a pack has at most.
    pub(super) segments: usize,
    /// Whether packs are made that more segments may follow.
    pub(super) all: bool,
    /// The size of segments.
    pub(super) segment_size: u64,
}

impl Rules {
    /// How many segments a pack has at most.
    fn capacity(self) -> usize {
        if self.segment_size > PACKED_SEGMENT_MAX {
            return 1;
        }
        let by_size = MAX_PACK_ORIGINAL_BYTES / self.segment_size.max(1);
        let by_size = usize::try_from(by_size).unwrap_or(MAX_PACK_SEGMENTS);
        by_size.min(self.segments).clamp(1, MAX_PACK_SEGMENTS)
    }
}

impl Plan {
    pub(super) fn of(listing: &WalListing, rules: Rules) -> Plan {
        let single: BTreeSet<&str> = listing.single.iter().map(|of| of.name.as_str()).collect();
        let is_single = |name: String| single.contains(name.as_str());
        let unsettled = listing.packs.iter();
        let unsettled = unsettled.filter(|pack| pack.name.segments().any(is_single));
        let in_packs: BTreeSet<String> = listing
            .packs
            .iter()
            .flat_map(|pack| pack.name.segments())
            .collect();
        let mut timelines: BTreeMap<TimelineId, Vec<&WalEntry>> = BTreeMap::new();
        for entry in &listing.single {
            if let Ok(WalFileName::Segment(segment)) = entry.name.parse() {
                timelines.entry(segment.timeline).or_default().push(entry);
            }
        }
        let mut packs = Vec::new();
        for entries in timelines.into_values() {
            let old = entries.len().saturating_sub(rules.newest);
            let old = entries.get(..old).unwrap_or_default().iter();
            let candidates = old.filter(|entry| !in_packs.contains(&entry.name));
            packs.extend(runs(candidates.copied(), rules));
        }
        Plan {
            unsettled: unsettled.cloned().collect(),
            packs,
        }
    }
}

/// Consecutive segments, cut where a pack is full, and where their directory ends. Whoever packs makes
/// the same packs of what is there.
fn runs<'e>(entries: impl Iterator<Item = &'e WalEntry>, rules: Rules) -> Vec<Vec<Candidate>> {
    let mut runs: Vec<Vec<Candidate>> = Vec::new();
    let mut next: Option<String> = None;
    let mut is_full = Vec::new();
    for entry in entries {
        let Some((directory, number)) = position(&entry.name) else {
            continue;
        };
        if next.as_ref() != Some(&entry.name) || is_full.last() == Some(&true) {
            runs.push(Vec::new());
            is_full.push(false);
        }
        let after = number.wrapping_add(1);
        next = Some(format!("{directory}{after:08X}"));
        if let (Some(run), Some(is_full)) = (runs.last_mut(), is_full.last_mut()) {
            run.push(Candidate {
                name: entry.name.clone(),
                stored_bytes: entry.size_bytes,
                archived: entry.modified,
            });
            let ends_directory = u64::from(after) * rules.segment_size >= DIRECTORY_BYTES;
            *is_full = run.len() >= rules.capacity() || ends_directory;
        }
    }
    let wanted = runs.into_iter().zip(is_full);
    let wanted =
        wanted.filter(|(run, is_full)| run.len() >= LEAST_SEGMENTS && (*is_full || rules.all));
    wanted.map(|(run, _)| run).collect()
}

/// The directory of a segment, and its number there.
fn position(name: &str) -> Option<(&str, u32)> {
    let (directory, number) = name.split_at_checked(16)?;
    Some((directory, u32::from_str_radix(number, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        newest: 0,
        segments: MAX_PACK_SEGMENTS,
        all: false,
        segment_size: 16 << 20,
    };

    fn listing(single: &[(&str, std::ops::Range<u32>)], packs: &[(&str, usize)]) -> WalListing {
        let name = |directory: &str, number: u32| format!("{directory}{number:08X}");
        let entry = |name: String| WalEntry {
            name,
            size_bytes: 10,
            modified: SystemTime::UNIX_EPOCH,
            packed: None,
        };
        let single = single.iter().flat_map(|(directory, numbers)| {
            let numbers = numbers.clone();
            numbers.map(move |number| entry(name(directory, number)))
        });
        let pack = |&(first, count): &(&str, usize)| WalPack {
            name: walzip_repo::PackName::new(first, count, SystemTime::UNIX_EPOCH).expect("a name"),
            size_bytes: 100,
            modified: SystemTime::UNIX_EPOCH,
        };
        WalListing {
            single: single.collect(),
            packs: packs.iter().map(pack).collect(),
        }
    }

    fn packed(listing: &WalListing, rules: Rules) -> Vec<(String, usize)> {
        let packs = Plan::of(listing, rules).packs.into_iter();
        packs
            .map(|pack| (pack[0].name[8..].to_owned(), pack.len()))
            .collect()
    }

    fn expected(packs: &[(&str, usize)]) -> Vec<(String, usize)> {
        let packs = packs.iter();
        packs.map(|&(first, len)| (first.to_owned(), len)).collect()
    }

    #[test]
    fn packs_end_when_they_are_full_and_with_their_directory() {
        let archive = listing(
            &[
                ("0000000100000000", 1..256),
                ("0000000100000001", 0..70),
                ("0000000200000001", 192..256),
            ],
            &[],
        );
        let full = [("0000000000000001", 255), ("00000001000000C0", 64)];
        assert_eq!(packed(&archive, RULES), expected(&full));
        let all = Rules { all: true, ..RULES };
        let mut with_rest = full.to_vec();
        with_rest.insert(1, ("0000000100000000", 70));
        assert_eq!(packed(&archive, all), expected(&with_rest));
        // The newest of each timeline.
        let rules = Rules {
            newest: 71,
            ..RULES
        };
        assert_eq!(packed(&archive, rules), []);
        let smaller = Rules {
            segment_size: 1 << 20,
            ..RULES
        };
        let fewer = Rules {
            segments: 70,
            ..RULES
        };
        let found = [
            ("0000000000000001", 70),
            ("0000000000000047", 70),
            ("000000000000008D", 70),
            ("00000000000000D3", 45),
            ("0000000100000000", 70),
            ("00000001000000C0", 64),
        ];
        assert_eq!(packed(&archive, fewer), expected(&found));
        let archive = listing(&[("0000000100000000", 5..1000)], &[]);
        let found = [
            ("0000000000000005", 256),
            ("0000000000000105", 256),
            ("0000000000000205", 256),
        ];
        assert_eq!(packed(&archive, smaller), expected(&found));
    }

    #[test]
    fn a_hole_ends_a_pack_and_what_is_packed_stays() {
        let archive = listing(
            &[("0000000100000000", 0..10), ("0000000100000000", 11..256)],
            &[("000000010000000000000014", 2)],
        );
        let found = [("0000000000000016", 234)];
        assert_eq!(packed(&archive, RULES), expected(&found));
        let all = Rules { all: true, ..RULES };
        let found = [
            ("0000000000000000", 10),
            ("000000000000000B", 9),
            ("0000000000000016", 234),
        ];
        assert_eq!(packed(&archive, all), expected(&found));
        assert_eq!(Plan::of(&archive, RULES).unsettled.len(), 1);
    }

    #[test]
    fn long_segments_make_packs_of_few_and_of_none() {
        let archive = listing(&[("0000000100000000", 0..4)], &[]);
        let of_size = |segment_size| Rules {
            all: true,
            segment_size,
            ..RULES
        };
        let found = packed(&archive, of_size(512 << 20));
        assert_eq!(found, expected(&[("0000000000000000", 4)]));
        assert_eq!(packed(&archive, of_size(1 << 30)), []);
    }
}
