//! The archived WAL, ordered by timeline, with its gaps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName, WalFileNameError};
use walzip_repo::{Repository, WalEntry};

use crate::archived::stored_wal;
use crate::backups::backup_record::{BackupRecord, Moment};
use crate::error::ArchiveError;
use crate::wal::wal_end::WalEnd;

/// PostgreSQL's default segment size, for a repository without a segment to tell.
pub(crate) const DEFAULT_SEGMENT_SIZE: u32 = 16 << 20;

/// How many segments are tried for one whose header tells the segment size.
const HEADERS_TRIED: usize = 5;

/// The WAL of one timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineWal {
    /// The timeline's number.
    pub timeline: u32,
    /// Whether its history is archived. Timeline 1 has none.
    pub has_history: bool,
    /// Whether its history is lost: it has WAL or descendants, and no history that can be read.
    pub history_missing: bool,
    /// The timeline that it left.
    pub parent: Option<u32>,
    /// Where it left that timeline.
    pub parted_at: Option<String>,
    /// How far one can restore along it, from the newest backup on the way to it.
    pub restorable_to: Option<WalEnd>,
    /// The spans of moments along it to which one can restore, oldest first: between them, WAL is
    /// missing.
    pub recovery_windows: Vec<RecoveryWindow>,
    /// Seconds since the last transaction up to which one can restore.
    pub age_seconds: Option<i64>,
    /// How many whole segments there are.
    pub segments: u64,
    /// Their size before they were encoded.
    pub original_bytes: u64,
    /// The size of everything of this timeline in the repository.
    pub stored_bytes: u64,
    /// Segments without a gap between them, in order.
    pub ranges: Vec<SegmentRange>,
    /// What is missing between the ranges.
    pub gaps: Vec<SegmentRange>,
    /// Partial segments: where a timeline was left.
    pub partial: Vec<String>,
}

/// A span of moments to any of which one can restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryWindow {
    /// The oldest backup in it.
    pub backup: String,
    /// The earliest moment, at which that backup ended.
    pub from: Moment,
    /// The latest one.
    pub to: WalEnd,
    /// The segments that are missing after it, where there are later ones.
    pub then_missing: Option<SegmentRange>,
}

/// Consecutive segments of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentRange {
    /// The name of the first.
    pub first: String,
    /// The name of the last.
    pub last: String,
    /// How many they are.
    pub segments: u64,
    /// The earliest time in a record of the first; none for a gap.
    pub first_time: Option<Timestamp>,
    /// The latest time in a record of the last; none for a gap.
    pub last_time: Option<Timestamp>,
}

#[derive(Default)]
struct Collected {
    has_history: bool,
    stored_bytes: u64,
    segments: Vec<SegmentName>,
    partial: Vec<String>,
}

/// Sorts a listing by timeline. The listing is in the order of names, which is the order of
/// positions within a timeline.
pub(crate) fn index(
    listing: &[WalEntry],
    segment_size_bytes: u32,
) -> Result<Vec<TimelineWal>, ArchiveError> {
    let mut timelines: BTreeMap<TimelineId, Collected> = BTreeMap::new();
    for entry in listing {
        // What PostgreSQL would not have named so is none of its WAL.
        let Ok(name) = entry.name.parse::<WalFileName>() else {
            continue;
        };
        let collected = timelines.entry(name.timeline()).or_default();
        collected.stored_bytes += entry.size_bytes;
        match name {
            // One of another size is in nobody's way.
            WalFileName::Segment(segment) if segment.number(segment_size_bytes).is_ok() => {
                collected.segments.push(segment);
            }
            WalFileName::Segment(_) => {}
            WalFileName::Partial(_) => collected.partial.push(entry.name.clone()),
            WalFileName::History(_) => collected.has_history = true,
            WalFileName::BackupHistory { .. } => {}
        }
    }
    let timeline = |(timeline, collected): (TimelineId, Collected)| {
        let (ranges, gaps) = ranges_and_gaps(&collected.segments, segment_size_bytes)?;
        Ok(TimelineWal {
            timeline: timeline.0,
            has_history: collected.has_history,
            history_missing: false,
            parent: None,
            parted_at: None,
            restorable_to: None,
            recovery_windows: Vec::new(),
            age_seconds: None,
            segments: collected.segments.len() as u64,
            original_bytes: collected.segments.len() as u64 * u64::from(segment_size_bytes),
            stored_bytes: collected.stored_bytes,
            ranges,
            gaps,
            partial: collected.partial,
        })
    };
    timelines.into_iter().map(timeline).collect()
}

fn ranges_and_gaps(
    segments: &[SegmentName],
    segment_size_bytes: u32,
) -> Result<(Vec<SegmentRange>, Vec<SegmentRange>), WalFileNameError> {
    let mut ranges: Vec<(SegmentName, u64, u64)> = Vec::new();
    for &segment in segments {
        let number = segment.number(segment_size_bytes)?;
        match ranges.last_mut() {
            Some((_, _, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((segment, number, number)),
        }
    }
    let range = |timeline, first: u64, last: u64| {
        let name = |number| SegmentName::from_number(timeline, number, segment_size_bytes);
        let (first_name, last_name) = (name(first)?, name(last)?);
        let (first_name, last_name) = (first_name.to_string(), last_name.to_string());
        let segments = last - first + 1;
        Ok::<_, WalFileNameError>(SegmentRange {
            first: first_name,
            last: last_name,
            segments,
            first_time: None,
            last_time: None,
        })
    };
    let whole = ranges
        .iter()
        .map(|&(name, first, last)| range(name.timeline, first, last));
    let between = ranges.iter().zip(ranges.iter().skip(1));
    let gaps = between
        .filter(|((_, _, before), (_, after, _))| before < after)
        .map(|((name, _, before), (_, after, _))| range(name.timeline, before + 1, after - 1));
    Ok((
        whole.collect::<Result<_, _>>()?,
        gaps.collect::<Result<_, _>>()?,
    ))
}

/// The segment size of the archived WAL, from the header of one of its objects or from a pack, or else
/// from a backup. `None` when no segment is archived, or none of the first few can be read and
/// there is no backup.
pub(crate) async fn segment_size(
    repository: &Repository,
    listing: &[WalEntry],
) -> Result<Option<u32>, ArchiveError> {
    let segments = listing.iter().filter(|entry| {
        matches!(
            entry.name.parse(),
            Ok(WalFileName::Segment(_) | WalFileName::Partial(_))
        )
    });
    // Of segments in the same pack one is as good as the others.
    let mut tried = Vec::new();
    for entry in segments {
        if entry.packed.is_some() && tried.contains(&entry.packed) {
            continue;
        }
        if tried.len() >= HEADERS_TRIED {
            break;
        }
        tried.push(entry.packed);
        if let Some(size) = stored_wal::segment_size(repository, &entry.name).await? {
            return Ok(Some(size));
        }
    }
    match tried.is_empty() {
        true => Ok(None),
        false => segment_size_of_backups(repository).await,
    }
}

/// The segment size that the newest backup says.
async fn segment_size_of_backups(repository: &Repository) -> Result<Option<u32>, ArchiveError> {
    for label in repository.list_backups().await?.iter().rev() {
        let record = BackupRecord::read_any(repository, label).await;
        if let Ok(record) = record
            && record.cluster() == Some(repository.cluster())
        {
            return Ok(Some(record.segment_size_bytes));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn listing(names: &[&str]) -> Vec<WalEntry> {
        let entry = |name: &&str| WalEntry {
            name: (*name).to_owned(),
            size_bytes: 10,
            modified: SystemTime::UNIX_EPOCH,
            packed: None,
        };
        names.iter().map(entry).collect()
    }

    #[test]
    fn shows_the_ranges_of_each_timeline_and_the_gaps_between_them() {
        let listing = listing(&[
            "0000000100000000000000FE",
            "0000000100000000000000FF",
            "000000010000000100000000",
            "000000010000000100000000.00000028.backup",
            "000000010000000100000003",
            "000000010000000100000004.partial",
            "000000020000000100000004",
            "00000002.history",
            "not-wal",
        ]);
        let timelines = index(&listing, 16 << 20).expect("valid names");
        let range = |first: &str, last: &str, segments| SegmentRange {
            first: first.to_owned(),
            last: last.to_owned(),
            segments,
            first_time: None,
            last_time: None,
        };
        assert_eq!(timelines.len(), 2);
        let one = &timelines[0];
        assert_eq!((one.timeline, one.segments, one.stored_bytes), (1, 4, 60));
        assert_eq!(
            one.ranges,
            [
                range("0000000100000000000000FE", "000000010000000100000000", 3),
                range("000000010000000100000003", "000000010000000100000003", 1),
            ]
        );
        assert_eq!(
            one.gaps,
            [range(
                "000000010000000100000001",
                "000000010000000100000002",
                2
            )]
        );
        assert_eq!(one.partial, ["000000010000000100000004.partial"]);
        let two = &timelines[1];
        assert!(two.has_history && two.gaps.is_empty());
    }
}
