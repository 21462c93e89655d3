//! What the records of a segment say of time, as short as the index of a pack has it.
//!
//! A segment in a pack takes as long to decode as all before it. Who looks for a target time reads this instead.

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::Lsn;
use walzip_pgformat::bytes::read_u64;

/// What a segment says of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimesInBrief {
    /// Where the last whole record begins.
    pub(crate) last_record: Option<Lsn>,
    /// Nothing where no transaction ended.
    pub(crate) ends: Option<EndTimes>,
}

/// When the transactions of a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndTimes {
    pub(crate) earliest: Timestamp,
    pub(crate) latest: Timestamp,
    /// How much earlier than an end before it a commit was, at most.
    pub(crate) set_back: SignedDuration,
}

/// In the place of the earliest and of the latest time, where there are none.
const NO_EARLIEST: i64 = i64::MAX;
const NO_LATEST: i64 = i64::MIN;

impl TimesInBrief {
    /// Length of its bytes.
    pub(crate) const LEN: usize = 32;

    /// Adds the next end of a transaction, in the order of the WAL.
    pub(crate) fn add_end(&mut self, time: Timestamp, committed: bool) {
        let ends = self.ends.get_or_insert(EndTimes {
            earliest: time,
            latest: time,
            set_back: SignedDuration::ZERO,
        });
        if committed {
            ends.set_back = ends.set_back.max(ends.latest.duration_since(time));
        }
        ends.earliest = ends.earliest.min(time);
        ends.latest = ends.latest.max(time);
    }

    /// As it stands in the index of a pack.
    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let (mut earliest, mut latest, mut set_back) = (NO_EARLIEST, NO_LATEST, 0);
        if let Some(ends) = self.ends {
            (earliest, latest) = (ends.earliest.as_microsecond(), ends.latest.as_microsecond());
            set_back = micros(ends.set_back);
        }
        let last_record = self.last_record.map_or(0, |lsn| lsn.0);
        let mut bytes = [0; Self::LEN];
        let numbers = [last_record, earliest as u64, latest as u64, set_back];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The reverse. Nothing where no segment can say that.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<TimesInBrief> {
        let last_record = Some(Lsn(read_u64(bytes, 0)?)).filter(|lsn| lsn.0 > 0);
        let earliest = read_u64(bytes, 8)? as i64;
        let latest = read_u64(bytes, 16)? as i64;
        let set_back = read_u64(bytes, 24)?;
        let ends = match (earliest, latest, set_back) {
            (NO_EARLIEST, NO_LATEST, 0) => None,
            _ => Some(EndTimes {
                earliest: Timestamp::from_microsecond(earliest).ok()?,
                latest: Timestamp::from_microsecond(latest).ok()?,
                set_back: SignedDuration::from_micros(i64::try_from(set_back).ok()?),
            }),
        };
        let is_possible =
            |ends: &EndTimes| ends.set_back <= ends.latest.duration_since(ends.earliest);
        ends.is_none_or(|ends| ends.earliest <= ends.latest && is_possible(&ends))
            .then_some(TimesInBrief { last_record, ends })
    }
}

/// Microseconds of a duration between two times of a segment, which is never below zero.
fn micros(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn only_commits_are_set_back() {
        let mut brief = TimesInBrief::default();
        for (at, committed) in [
            (100, true),
            (103, false),
            (90, false),
            (101, true),
            (102, true),
        ] {
            brief.add_end(second(at), committed);
        }
        let ends = brief.ends.expect("ends");
        assert_eq!((ends.earliest, ends.latest), (second(90), second(103)));
        assert_eq!(ends.set_back, SignedDuration::from_secs(2));
    }

    #[test]
    fn comes_back_out_of_its_bytes_and_nothing_else_does() {
        let mut brief = TimesInBrief::default();
        assert_eq!(TimesInBrief::from_bytes(&brief.to_bytes()), Some(brief));
        brief.last_record = Some(Lsn(0x1000_0028));
        for at in [500, 400, 600] {
            brief.add_end(second(at), true);
            assert_eq!(TimesInBrief::from_bytes(&brief.to_bytes()), Some(brief));
        }
        let changed = |at: usize, number: u64| {
            let mut bytes = brief.to_bytes();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            TimesInBrief::from_bytes(&bytes)
        };
        // Later than the latest, earlier than the earliest, further back than there is time.
        assert_eq!(changed(8, 601_000_000), None);
        assert_eq!(changed(16, 399_000_000), None);
        assert_eq!(changed(24, 200_000_001), None);
        assert!(changed(24, 200_000_000).is_some());
        for number in [NO_EARLIEST, NO_LATEST, i64::MAX - 1, -1] {
            assert_eq!(changed(24, number as u64), None);
        }
        assert_eq!(changed(8, NO_EARLIEST as u64), None);
        assert_eq!(changed(16, NO_LATEST as u64), None);
        assert_eq!(TimesInBrief::from_bytes(&[0; 31]), None);
    }
}
