//! From where to where segments go, when they were written, and how fast.

use serde::Serialize;
use walzip_pgformat::wal::{Event, RecordLayout, SegmentReader};

use crate::record_facts::{first_number, is_checkpoint, is_end_of_transaction};

/// From 1970 to 2000, where PostgreSQL begins to count.
const EPOCH_SECONDS: i64 = 946_684_800;
/// Over a shorter time there is no rate.
const SECONDS_MIN: f64 = 1.0;

/// What segments say of when and where they were written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Activity {
    /// The position of the first byte.
    pub first_position: Option<u64>,
    /// The position behind the last byte.
    pub end_position: Option<u64>,
    /// Records that begin in them.
    pub records: u64,
    /// Transactions that end in them.
    pub transactions: u64,
    /// Checkpoints whose record is in them.
    pub checkpoints: u64,
    /// The first and the last end of a transaction.
    pub first_time: Option<Moment>,
    /// The last one.
    pub last_time: Option<Moment>,
    #[serde(skip)]
    clusters: Vec<u64>,
}

/// The end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// When, in UTC.
    pub time: String,
    /// Where in the WAL.
    pub position: u64,
    #[serde(skip)]
    microseconds: i64,
}

impl Activity {
    /// Adds a segment; what is none says nothing.
    pub fn add(&mut self, bytes: &[u8]) {
        let Ok(mut reader) = SegmentReader::new(bytes) else {
            return;
        };
        let header = reader.header();
        let (start, system) = (header.start.0, header.system_id.0);
        if !self.clusters.contains(&system) {
            self.clusters.push(system);
        }
        let end = start + bytes.len() as u64;
        self.first_position = Some(self.first_position.map_or(start, |first| first.min(start)));
        self.end_position = Some(self.end_position.map_or(end, |last| last.max(end)));
        let mut layout = RecordLayout::default();
        while let Some(event) = reader.next_event(&mut layout) {
            let Event::Record { lsn } = event else {
                continue;
            };
            self.records += 1;
            self.checkpoints += u64::from(is_checkpoint(&layout));
            if is_end_of_transaction(&layout) {
                self.transactions += 1;
                let time = first_number(&layout, reader.bytes()).map(u64::cast_signed);
                if let Some(moment) = time.and_then(|time| Moment::of(time, lsn.0)) {
                    self.moment(moment);
                }
            }
        }
    }

    fn moment(&mut self, moment: Moment) {
        let is_first = |first: &Moment| moment.position < first.position;
        if self.first_time.as_ref().is_none_or(is_first) {
            self.first_time = Some(moment.clone());
        }
        let is_last = |last: &Moment| moment.position > last.position;
        if self.last_time.as_ref().is_none_or(is_last) {
            self.last_time = Some(moment);
        }
    }

    /// Seconds from the first end of a transaction to the last.
    pub fn seconds(&self) -> Option<f64> {
        let (first, last) = (self.first_time.as_ref()?, self.last_time.as_ref()?);
        Some((last.microseconds - first.microseconds) as f64 / 1e6)
    }

    /// Bytes of WAL in a second, between these; none over less than a second, or of several
    /// clusters.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let (first, last) = (self.first_time.as_ref()?, self.last_time.as_ref()?);
        let seconds = self.seconds().filter(|seconds| *seconds >= SECONDS_MIN)?;
        let bytes = last.position.checked_sub(first.position)?;
        (self.clusters.len() == 1).then(|| bytes as f64 / seconds)
    }
}

impl Moment {
    fn of(microseconds: i64, position: u64) -> Option<Moment> {
        let since_1970 = microseconds.checked_add(EPOCH_SECONDS * 1_000_000)?;
        let time = jiff::Timestamp::from_microsecond(since_1970).ok()?;
        (microseconds > 0).then(|| Moment {
            time: time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
            position,
            microseconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(moments: &[(i64, u64)]) -> Activity {
        let mut activity = Activity {
            clusters: vec![7],
            ..Activity::default()
        };
        for &(microseconds, position) in moments {
            activity.moment(Moment::of(microseconds, position).unwrap());
        }
        activity
    }

    #[test]
    fn a_rate_is_between_the_first_and_the_last_transaction_whatever_their_order() {
        let found = activity(&[(4_000_000, 9000), (2_000_000, 1000), (3_000_000, 4000)]);
        assert_eq!(found.seconds(), Some(2.0));
        assert_eq!(found.bytes_per_second(), Some(4000.0));
        let first = found.first_time.unwrap();
        assert_eq!(first.time, "2000-01-01 00:00:02.000 UTC");
    }

    #[test]
    fn less_than_a_second_and_two_clusters_have_no_rate() {
        assert_eq!(activity(&[(1, 1), (999_999, 2)]).bytes_per_second(), None);
        let mut two = activity(&[(1, 1), (9_000_000, 2)]);
        two.clusters.push(8);
        assert_eq!(two.bytes_per_second(), None);
        assert_eq!(Moment::of(0, 1), None);
    }
}
