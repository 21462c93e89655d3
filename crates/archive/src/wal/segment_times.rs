//! What the records of a segment say of time.
//!
//! A segment is read alone, so that a record which lies on its border is not among
//! them; [`crate::restore::wal_search`] puts those together.

use jiff::Timestamp;
use walzip_pgformat::wal::{
    Event, PageHeader, RecordLayout, SegmentReader, TimedRecord, UnixMicros,
};
use walzip_pgformat::{Lsn, TimelineId};

use crate::wal::times_in_brief::TimesInBrief;

/// A record with a time, and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) lsn: Lsn,
    pub(crate) record: TimedRecord,
}

/// What the records of one segment say.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentTimes {
    /// In the order of their positions.
    pub(crate) timed: Vec<Timed>,
    /// Where the last whole record begins.
    pub(crate) last_record: Option<Lsn>,
}

impl SegmentTimes {
    /// Reads what a server would replay of a segment. What is no WAL has no records.
    pub(crate) fn of(segment: &[u8]) -> SegmentTimes {
        SegmentTimes::read_while(segment, |last, prev| last.is_none_or(|last| last.0 == prev))
    }

    /// Reads all records of a segment, also those that the file had before it got its name, after the last one. The indexes
    /// of packs were made so up to 2026-11-30.
    pub(crate) fn with_remains(segment: &[u8]) -> SegmentTimes {
        SegmentTimes::read_while(segment, |_, _| true)
    }

    /// Reads records as long as one follows the last one: it has the position of that.
    fn read_while(segment: &[u8], follows: impl Fn(Option<Lsn>, u64) -> bool) -> SegmentTimes {
        let mut times = SegmentTimes::default();
        let Ok(mut reader) = SegmentReader::new(segment) else {
            return times;
        };
        let major = reader.header().version.major;
        let mut layout = RecordLayout::default();
        while let Some(event) = reader.next_event(&mut layout) {
            if let Event::Record { lsn } = event {
                if !follows(times.last_record, layout.header.prev) {
                    break;
                }
                times.last_record = Some(lsn);
                if let Some(record) = TimedRecord::read(reader.bytes(), &layout, major) {
                    times.timed.push(Timed { lsn, record });
                }
            }
        }
        times
    }

    /// The same as the index of a pack has it.
    pub(crate) fn in_brief(&self) -> TimesInBrief {
        let mut brief = TimesInBrief {
            last_record: self.last_record,
            ends: None,
        };
        for timed in &self.timed {
            if let (TimedRecord::TransactionEnd { committed, .. }, Some(time)) =
                (&timed.record, timed.time())
            {
                brief.add_end(time, *committed);
            }
        }
        brief
    }

    /// The earliest time in the segment, for people.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.earliest_written().or(self.checkpoints().min())
    }

    /// The latest time in the segment, for people.
    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.written().max().or(self.checkpoints().max())
    }

    /// The earliest time of a record that has the time at which it was written: what comes before
    /// the segment is older. A checkpoint's record says when the checkpoint began, which may be
    /// minutes and many segments earlier.
    pub(crate) fn earliest_written(&self) -> Option<Timestamp> {
        self.written().min()
    }

    fn written(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let written = self.timed.iter().filter(|timed| !timed.is_checkpoint());
        written.filter_map(Timed::time)
    }

    fn checkpoints(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let checkpoints = self.timed.iter().filter(|timed| timed.is_checkpoint());
        checkpoints.filter_map(Timed::time)
    }

    /// The latest end of a transaction from this position on. A recovery to a time stops at the
    /// first end of a transaction that is later.
    pub(crate) fn last_transaction(&self, from: Lsn) -> Option<Timestamp> {
        self.latest(from, |record| {
            matches!(record, TimedRecord::TransactionEnd { .. })
        })
    }

    /// The latest commit from this position on. A prepared transaction counts too: whoever prepared it may have
    /// committed its other parts elsewhere.
    pub(crate) fn last_commit(&self, from: Lsn) -> Option<Timestamp> {
        self.latest(from, |record| {
            matches!(
                record,
                TimedRecord::Prepared { .. }
                    | TimedRecord::TransactionEnd {
                        committed: true,
                        ..
                    }
            )
        })
    }

    /// The latest time before this position: what comes after it was written later.
    pub(crate) fn last_before(&self, position: Lsn) -> Option<Timestamp> {
        let before = self.timed.iter().filter(|timed| timed.lsn < position);
        before.filter_map(Timed::time).max()
    }

    /// The times of the commits from this position on.
    pub(crate) fn commits_from(&self, position: Lsn) -> Vec<Option<Timestamp>> {
        let later = self.timed.iter().filter(|timed| timed.lsn >= position);
        let is_commit = |timed: &&Timed| {
            matches!(
                timed.record,
                TimedRecord::TransactionEnd {
                    committed: true,
                    ..
                }
            )
        };
        later.filter(is_commit).map(Timed::time).collect()
    }

    fn latest(&self, from: Lsn, counts: impl Fn(&TimedRecord) -> bool) -> Option<Timestamp> {
        let timed = self.timed.iter().filter(|timed| timed.lsn >= from);
        let counted = timed.filter(|timed| counts(&timed.record));
        counted.filter_map(Timed::time).max()
    }

    /// Where a timeline begins: its first record names the one that it left.
    pub(crate) fn beginning(&self, of: TimelineId) -> Option<&Timed> {
        self.timed.iter().find(|timed| {
            matches!(
                timed.record,
                TimedRecord::Checkpoint { timeline, previous_timeline, .. }
                    if timeline == of && previous_timeline != of
            )
        })
    }
}

impl Timed {
    /// Whether the record is the one that begins at this position: nothing but a page header may
    /// lie between them.
    pub(crate) fn is_right_after(&self, position: Lsn) -> bool {
        let between = self.lsn.0.checked_sub(position.0);
        between.is_some_and(|between| between <= PageHeader::LONG_LEN as u64)
    }

    fn is_checkpoint(&self) -> bool {
        matches!(self.record, TimedRecord::Checkpoint { .. })
    }

    /// When the record was written; of a checkpoint, when it began.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        self.record.time().and_then(timestamp)
    }
}

/// A moment that can be shown; a damaged record may have one that cannot.
pub(crate) fn timestamp(time: UnixMicros) -> Option<Timestamp> {
    Timestamp::from_microsecond(time.0).ok()
}

/// Where the last record of a segment begins that begins before a position; it may go on in the next segment.
pub(crate) fn last_record(segment: &[u8], before: Lsn) -> Option<Lsn> {
    let mut reader = SegmentReader::new(segment).ok()?;
    let (mut layout, mut last) = (RecordLayout::default(), None);
    while let Some(event) = reader.next_event(&mut layout) {
        if let Event::Record { lsn } | Event::Tail { lsn } = event
            && lsn < before
        {
            last = Some(lsn);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::testing::{Record, segment};

    #[test]
    fn what_the_file_had_before_it_got_its_name_is_no_record() {
        let rows = |lengths: &[usize]| {
            let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, 1)).collect();
            segment(1, &rows)
        };
        let (own, remains) = (rows(&[100, 60]), rows(&[60, 60, 40, 60]));
        let left = [&own[..208], &remains[208..]].concat();
        let last = |times: SegmentTimes| times.last_record.map(|lsn| lsn.0 - (1 << 20));
        assert_eq!(last(SegmentTimes::of(&left)), Some(144));
        assert_eq!(last(SegmentTimes::with_remains(&left)), Some(208));
        assert_eq!(last(SegmentTimes::of(&remains)), Some(208));
    }
}
