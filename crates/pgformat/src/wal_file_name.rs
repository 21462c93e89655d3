//! The names of the files in `pg_wal` that PostgreSQL archives.
//!
//! Four kinds exist (access/xlog_internal.h): segments, partial segments, timeline
//! histories and backup histories. Parsing is strict: a name is of one of these forms to
//! the last character, or it is refused, so that printing a parsed name gives it back.
//!
//! A segment's name carries its position in two 32-bit halves, and the low half counts
//! segments, not bytes. Positions therefore need the segment size, which is never assumed.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::units::{Lsn, TimelineId};

/// The smallest segment size that `initdb --wal-segsize` accepts: 1 MiB.
pub const SEGMENT_SIZE_BYTES_MIN: u32 = 1 << 20;

/// The largest segment size that `initdb --wal-segsize` accepts: 1 GiB.
pub const SEGMENT_SIZE_BYTES_MAX: u32 = 1 << 30;

/// Whether a server can have segments of this size: a power of two from 1 MiB to 1 GiB.
pub const fn is_segment_size(segment_size_bytes: u32) -> bool {
    segment_size_bytes.is_power_of_two()
        && segment_size_bytes >= SEGMENT_SIZE_BYTES_MIN
        && segment_size_bytes <= SEGMENT_SIZE_BYTES_MAX
}

/// The name of a file that PostgreSQL hands to `archive_command`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WalFileName {
    /// `000000010000000000000002`: a whole segment.
    Segment(SegmentName),
    /// `000000010000000000000002.partial`: the last, incomplete segment of a timeline.
    Partial(SegmentName),
    /// `00000002.history`: how a timeline came to be.
    History(TimelineId),
    /// `000000010000000000000002.00000028.backup`: where a base backup began and ended.
    BackupHistory {
        /// The segment in which the backup began.
        segment: SegmentName,
        /// The offset in that segment, in bytes, at which it began.
        offset: u32,
    },
}

/// The three numbers in a segment's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The timeline on which the segment was written.
    pub timeline: TimelineId,
    /// The high 32 bits of the positions in the segment (`log`).
    pub log: u32,
    /// The number of the segment within those 4 GiB (`seg`).
    pub segment: u32,
}

/// Why a text or a number names no WAL file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalFileNameError {
    /// The text has none of the four forms.
    #[error("\"{0}\" is not the name of a WAL segment, a timeline history or a backup history")]
    NotAName(String),
    /// No server has segments of this size.
    #[error("{0} bytes is not a WAL segment size: a power of two from 1 MiB to 1 GiB")]
    SegmentSize(u32),
    /// The name is impossible with segments of this size.
    #[error("{name} cannot exist with WAL segments of {segment_size_bytes} bytes")]
    BeyondLog {
        /// The segment's name.
        name: SegmentName,
        /// The segment size it was held against.
        segment_size_bytes: u32,
    },
    /// The number is beyond the last position that 64 bits can hold.
    #[error("WAL segment number {0} is beyond the end of the log")]
    BeyondEnd(u64),
}

impl SegmentName {
    /// The name of the segment with this number, counting from the start of the log.
    pub fn from_number(
        timeline: TimelineId,
        number: u64,
        segment_size_bytes: u32,
    ) -> Result<Self, WalFileNameError> {
        let per_log = segments_per_log(segment_size_bytes)?;
        let log =
            u32::try_from(number / per_log).map_err(|_| WalFileNameError::BeyondEnd(number))?;
        // The remainder is below 4096, the most segments that 4 GiB can have.
        Ok(Self {
            timeline,
            log,
            segment: (number % per_log) as u32,
        })
    }

    /// The name of the segment that holds the byte at `position`.
    pub fn from_lsn(
        timeline: TimelineId,
        position: Lsn,
        segment_size_bytes: u32,
    ) -> Result<Self, WalFileNameError> {
        segments_per_log(segment_size_bytes)?;
        let number = position.0 / u64::from(segment_size_bytes);
        Self::from_number(timeline, number, segment_size_bytes)
    }

    /// The number of the segment, counting from the start of the log.
    pub fn number(self, segment_size_bytes: u32) -> Result<u64, WalFileNameError> {
        let per_log = segments_per_log(segment_size_bytes)?;
        let segment = u64::from(self.segment);
        if segment >= per_log {
            return Err(WalFileNameError::BeyondLog {
                name: self,
                segment_size_bytes,
            });
        }
        Ok(u64::from(self.log) * per_log + segment)
    }

    /// The position of the segment's first byte.
    pub fn start(self, segment_size_bytes: u32) -> Result<Lsn, WalFileNameError> {
        Ok(Lsn(
            self.number(segment_size_bytes)? * u64::from(segment_size_bytes)
        ))
    }

    /// The positions in the segment. The last segment of all has none: its end does not
    /// fit into 64 bits.
    pub fn range(self, segment_size_bytes: u32) -> Result<Range<Lsn>, WalFileNameError> {
        let start = self.start(segment_size_bytes)?;
        match start.0.checked_add(u64::from(segment_size_bytes)) {
            Some(end) => Ok(start..Lsn(end)),
            None => Err(WalFileNameError::BeyondEnd(
                self.number(segment_size_bytes)?,
            )),
        }
    }

    /// The segment before it on the same timeline; the first one of all has none.
    pub fn previous(self, segment_size_bytes: u32) -> Result<Option<Self>, WalFileNameError> {
        let number = self.number(segment_size_bytes)?.checked_sub(1);
        number
            .map(|number| Self::from_number(self.timeline, number, segment_size_bytes))
            .transpose()
    }

    /// The segment that follows on the same timeline.
    pub fn next(self, segment_size_bytes: u32) -> Result<Self, WalFileNameError> {
        // A number is at most 2^44 here, so that adding one cannot overflow.
        let number = self.number(segment_size_bytes)? + 1;
        Self::from_number(self.timeline, number, segment_size_bytes)
    }
}

/// How many segments 4 GiB have (`XLogSegmentsPerXLogId`).
fn segments_per_log(segment_size_bytes: u32) -> Result<u64, WalFileNameError> {
    if is_segment_size(segment_size_bytes) {
        Ok((1 << 32) / u64::from(segment_size_bytes))
    } else {
        Err(WalFileNameError::SegmentSize(segment_size_bytes))
    }
}

impl WalFileName {
    /// The timeline that the name carries.
    pub fn timeline(self) -> TimelineId {
        match self {
            Self::History(timeline) => timeline,
            Self::Segment(name) | Self::Partial(name) => name.timeline,
            Self::BackupHistory { segment, .. } => segment.timeline,
        }
    }

    /// The segment that the name carries; a timeline history has none.
    pub fn segment(self) -> Option<SegmentName> {
        match self {
            Self::Segment(name) | Self::Partial(name) => Some(name),
            Self::BackupHistory { segment, .. } => Some(segment),
            Self::History(_) => None,
        }
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:08X}{:08X}{:08X}",
            self.timeline.0, self.log, self.segment
        )
    }
}

impl fmt::Display for WalFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(name) => name.fmt(f),
            Self::Partial(name) => write!(f, "{name}.partial"),
            Self::History(timeline) => write!(f, "{:08X}.history", timeline.0),
            Self::BackupHistory { segment, offset } => write!(f, "{segment}.{offset:08X}.backup"),
        }
    }
}

impl FromStr for SegmentName {
    type Err = WalFileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(WalFileName::Segment(name)) => Ok(name),
            _ => Err(WalFileNameError::NotAName(text.to_owned())),
        }
    }
}

impl FromStr for WalFileName {
    type Err = WalFileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.as_bytes()).ok_or_else(|| WalFileNameError::NotAName(text.to_owned()))
    }
}

fn parse(text: &[u8]) -> Option<WalFileName> {
    let (timeline, rest) = hex8(text)?;
    // Timeline 0 is PostgreSQL's "none".
    let timeline = TimelineId((timeline != 0).then_some(timeline)?);
    if rest == b".history" {
        return Some(WalFileName::History(timeline));
    }
    let (log, rest) = hex8(rest)?;
    let (segment, rest) = hex8(rest)?;
    let name = SegmentName {
        timeline,
        log,
        segment,
    };
    match rest {
        b"" => Some(WalFileName::Segment(name)),
        b".partial" => Some(WalFileName::Partial(name)),
        _ => match hex8(rest.strip_prefix(b".")?)? {
            (offset, b".backup") => Some(WalFileName::BackupHistory {
                segment: name,
                offset,
            }),
            _ => None,
        },
    }
}

/// Reads eight hexadecimal digits, upper case as PostgreSQL prints them.
fn hex8(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(8)?;
    let value = digits.iter().try_fold(0, |value, digit| match digit {
        b'0'..=b'9' => Some(value << 4 | u32::from(digit - b'0')),
        b'A'..=b'F' => Some(value << 4 | u32::from(digit - b'A' + 10)),
        _ => None,
    })?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    fn segment(timeline: u32, log: u32, segment: u32) -> SegmentName {
        SegmentName {
            timeline: TimelineId(timeline),
            log,
            segment,
        }
    }

    #[test]
    fn reads_and_prints_every_kind_of_name() {
        let two = segment(1, 0, 2);
        for (text, name) in [
            ("000000010000000000000002", WalFileName::Segment(two)),
            (
                "000000010000000000000002.partial",
                WalFileName::Partial(two),
            ),
            ("00000002.history", WalFileName::History(TimelineId(2))),
            (
                "000000010000000000000002.00000028.backup",
                WalFileName::BackupHistory {
                    segment: two,
                    offset: 0x28,
                },
            ),
            (
                "FFFFFFFFFFFFFFFF000000FF",
                WalFileName::Segment(segment(u32::MAX, u32::MAX, 0xFF)),
            ),
        ] {
            assert_eq!(text.parse(), Ok(name));
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_not_exactly_a_name() {
        for text in [
            "",
            "00000001",
            "00000002.History",
            "00000002.history ",
            "00000000.history",
            "00000001000000000000000",
            "0000000100000000000000022",
            "00000001000000000000000g",
            "00000001000000000000000a",
            "+0000001000000000000000A",
            "000000000000000000000002",
            "000000010000000000000002.part",
            "000000010000000000000002.00000028",
            "000000010000000000000002.28.backup",
            "000000010000000000000002.0000002G.backup",
            "000000010000000000000002.00000028.backup.gz",
            "../000000010000000000000002",
            "0000000100000000000000\u{e9}",
        ] {
            assert_eq!(
                text.parse::<WalFileName>(),
                Err(WalFileNameError::NotAName(text.to_owned()))
            );
        }
        assert!(
            "000000010000000000000002.partial"
                .parse::<SegmentName>()
                .is_err()
        );
    }

    #[test]
    fn places_a_segment_in_the_log_by_the_segment_size() {
        let name = segment(1, 2, 3);
        let start = |size| name.start(size).map(|lsn| lsn.to_string());
        assert_eq!(start(MIB).as_deref(), Ok("2/300000"));
        assert_eq!(start(16 * MIB).as_deref(), Ok("2/3000000"));
        assert_eq!(start(64 * MIB).as_deref(), Ok("2/C000000"));
        assert_eq!(start(1024 * MIB).as_deref(), Ok("2/C0000000"));
        assert_eq!(
            name.range(16 * MIB),
            Ok(Lsn(0x2_0300_0000)..Lsn(0x2_0400_0000))
        );
    }

    #[test]
    fn names_the_segment_that_holds_a_position() {
        let timeline = TimelineId(1);
        let name = |lsn, size| SegmentName::from_lsn(timeline, Lsn(lsn), size);
        assert_eq!(name(0x2_0300_0000, 16 * MIB), Ok(segment(1, 2, 3)));
        assert_eq!(name(0x2_03FF_FFFF, 16 * MIB), Ok(segment(1, 2, 3)));
        assert_eq!(name(0x2_0400_0000, 16 * MIB), Ok(segment(1, 2, 4)));
        assert_eq!(name(u64::MAX, MIB), Ok(segment(1, u32::MAX, 4095)));
    }

    #[test]
    fn carries_into_the_next_log_after_its_last_segment() {
        assert_eq!(segment(1, 0, 255).next(16 * MIB), Ok(segment(1, 1, 0)));
        assert_eq!(segment(1, 0, 3).next(1024 * MIB), Ok(segment(1, 1, 0)));
        assert_eq!(
            segment(1, u32::MAX, 255).next(16 * MIB),
            Err(WalFileNameError::BeyondEnd(1 << 40))
        );
    }

    #[test]
    fn the_last_segment_of_the_log_has_no_range() {
        let last = segment(1, u32::MAX, 255);
        assert_eq!(last.start(16 * MIB), Ok(Lsn(0xFFFF_FFFF_FF00_0000)));
        assert!(last.range(16 * MIB).is_err());
    }

    #[test]
    fn refuses_a_segment_beyond_its_log_and_sizes_no_server_has() {
        let name = segment(1, 0, 256);
        assert_eq!(
            name.number(16 * MIB),
            Err(WalFileNameError::BeyondLog {
                name,
                segment_size_bytes: 16 * MIB
            })
        );
        for size in [0, 1, 3 * MIB, MIB / 2, 1 << 31] {
            assert_eq!(name.start(size), Err(WalFileNameError::SegmentSize(size)));
            assert!(SegmentName::from_lsn(TimelineId(1), Lsn(0), size).is_err());
        }
    }
}
