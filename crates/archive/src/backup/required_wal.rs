//! Which segments a backup cannot do without.

use walzip_pgformat::wal_file_name::SegmentName;

use crate::backups::backup_record::RequiredWal;
use crate::backups::pg_manifest::WalRange;
use crate::error::ArchiveError;

/// The segments that hold the ranges.
///
/// The segment in which a timeline was left is needed under its child's name only: the child
/// begins it with a copy, and the parent's own may exist as `.partial` alone.
pub(crate) fn required_wal(
    ranges: &[WalRange],
    segment_size_bytes: u32,
) -> Result<Vec<RequiredWal>, ArchiveError> {
    let mut required = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let segment = |lsn| SegmentName::from_lsn(range.timeline, lsn, segment_size_bytes);
        let first_segment = segment(range.start)?;
        let is_last_timeline = index + 1 == ranges.len();
        let end = if is_last_timeline {
            // The byte at the end itself is not needed.
            range.end.0.saturating_sub(1).max(range.start.0)
        } else {
            let left_in = range.end.0 - range.end.0 % u64::from(segment_size_bytes);
            if left_in <= range.start.0 {
                continue;
            }
            left_in - 1
        };
        let last_segment = segment(walzip_pgformat::Lsn(end))?;
        required.push(RequiredWal {
            first_segment,
            last_segment,
        });
    }
    Ok(required)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::{Lsn, TimelineId};

    fn segments(ranges: &[(u32, u64, u64)]) -> Vec<String> {
        let ranges: Vec<WalRange> = ranges
            .iter()
            .map(|&(timeline, start, end)| WalRange {
                timeline: TimelineId(timeline),
                start: Lsn(start),
                end: Lsn(end),
            })
            .collect();
        let required = required_wal(&ranges, 16 << 20).expect("valid");
        let names = required.iter().flat_map(|range| {
            let first = range.first_segment.number(16 << 20).expect("valid");
            let last = range.last_segment.number(16 << 20).expect("valid");
            (first..=last).map(|number| {
                SegmentName::from_number(range.first_segment.timeline, number, 16 << 20)
            })
        });
        names.map(|name| name.expect("valid").to_string()).collect()
    }

    #[test]
    fn needs_every_segment_from_the_start_to_the_byte_before_the_stop() {
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x200_0138)]),
            ["000000010000000000000002"]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x300_0000)]),
            ["000000010000000000000002"]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x300_0001)]),
            ["000000010000000000000002", "000000010000000000000003"]
        );
    }

    #[test]
    fn needs_the_segment_of_a_switch_on_the_new_timeline_only() {
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x350_0000), (2, 0x350_0000, 0x400_0001)]),
            [
                "000000010000000000000002",
                "000000020000000000000003",
                "000000020000000000000004"
            ]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x250_0000), (2, 0x250_0000, 0x260_0000)]),
            ["000000020000000000000002"]
        );
    }
}
