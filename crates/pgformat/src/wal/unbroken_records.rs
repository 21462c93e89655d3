//! The records from one position to another, of which none may be missing.
//!
//! Each record names the one before it (`xl_prev`). Who asks whether something is *not* in the WAL has to know
//! that all of it was read.

use super::max_align;
use super::page_header::PageHeader;
use super::record::RecordHeader;
use super::records::{ReadRecord, Records, RecordsError};
use crate::PAGE_SIZE;
use crate::rmgr_id;
use crate::units::Lsn;

/// The bits of a record's info that belong to its resource manager, and what they are at a switch to the next
/// segment (`XLOG_SWITCH`): it takes what is left of its own.
const OPCODE_MASK: u8 = 0xF0;
const SWITCH: u8 = 0x40;

/// Reads the records of segments that follow one another.
#[derive(Debug)]
pub struct UnbrokenRecords {
    records: Records,
    start: Lsn,
    end: Lsn,
    /// Where the last record begins.
    last: Option<Lsn>,
    /// Everything before this was read.
    reached: Lsn,
}

/// What keeps the records from being read, all of them.
#[derive(Debug, thiserror::Error)]
pub enum BrokenRecords {
    /// A segment or a record is none.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// No record begins where the first one has to.
    #[error("no record begins at {0}")]
    NoFirst(Lsn),
    /// A record does not follow the one before it.
    #[error("the record at {found} does not follow the one at {last}")]
    Gap {
        /// Where the last record begins that was read.
        last: Lsn,
        /// Where the next one begins that can be read.
        found: Lsn,
    },
    /// There are no more records.
    #[error("the records end at {reached}, before {end}")]
    Short {
        /// Where they end.
        reached: Lsn,
        /// Where they were to end.
        end: Lsn,
    },
}

impl UnbrokenRecords {
    /// Those that begin at `start` and later, and before `end`. A record begins at `start`.
    pub fn new(start: Lsn, end: Lsn) -> UnbrokenRecords {
        UnbrokenRecords {
            records: Records::default(),
            start,
            end,
            last: None,
            reached: start,
        }
    }

    /// Hands over the records that end in the next segment, in their order, up to the first that is missing.
    pub fn read(
        &mut self,
        segment: &[u8],
        mut each: impl FnMut(ReadRecord<'_>),
    ) -> Result<(), BrokenRecords> {
        let segment_size = (segment.len() as u64).max(1);
        let UnbrokenRecords {
            records,
            start,
            end,
            last,
            reached,
        } = self;
        let mut broken = None;
        let read = records.read(segment, |record| {
            if record.lsn < *start || broken.is_some() {
                return;
            }
            if record.lsn >= *end {
                *reached = (*reached).max(*end);
                return;
            }
            match *last {
                None if record.lsn != *start => broken = Some(BrokenRecords::NoFirst(*start)),
                Some(last) if record.layout.header.prev != last.0 => {
                    let found = record.lsn;
                    broken = Some(BrokenRecords::Gap { last, found });
                }
                _ => {
                    *last = Some(record.lsn);
                    *reached = match is_switch(&record.layout.header) {
                        true => end_of_segment(record.lsn, segment_size),
                        false => end_of(&record, segment_size),
                    };
                    each(record);
                }
            }
        });
        match broken {
            Some(broken) => Err(broken),
            None => Ok(read?),
        }
    }

    /// Everything before this was read.
    pub fn reached(&self) -> Lsn {
        self.reached
    }

    /// All segments were read: whether all records were there.
    pub fn finish(self) -> Result<(), BrokenRecords> {
        let (reached, end) = (self.reached, self.end);
        match (self.last, reached >= end) {
            (None, _) => Err(BrokenRecords::NoFirst(self.start)),
            (Some(_), false) => Err(BrokenRecords::Short { reached, end }),
            (Some(_), true) => Ok(()),
        }
    }
}

/// Whether a record is the last one of its segment, of which it takes what is left.
pub fn is_switch(header: &RecordHeader) -> bool {
    header.rmid == rmgr_id::XLOG && header.info & OPCODE_MASK == SWITCH
}

/// Where a record ends, in segments of this size: the next one may begin there.
fn end_of(record: &ReadRecord<'_>, segment_size: u64) -> Lsn {
    let page = PAGE_SIZE as u64;
    let mut at = record.lsn.0;
    let mut left = max_align(record.bytes.len()) as u64;
    loop {
        let on_page = page - at % page;
        if left <= on_page {
            return Lsn(at.saturating_add(left));
        }
        left -= on_page;
        at = at.saturating_add(on_page);
        let header_len = match at.is_multiple_of(segment_size) {
            true => PageHeader::LONG_LEN,
            false => PageHeader::SHORT_LEN,
        };
        at = at.saturating_add(header_len as u64);
    }
}

/// Where the segment ends in which a position is.
fn end_of_segment(lsn: Lsn, segment_size: u64) -> Lsn {
    Lsn((lsn.0 - lsn.0 % segment_size).saturating_add(segment_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{LONG_HEADER, RECORD_HEADER_LEN, RecordHeader};

    /// The smallest that segments can be.
    const SEGMENT: usize = 1 << 20;

    /// Segments from the first one on with records of these lengths, the last one filled up by a switch.
    fn segments(lengths: &[usize], number: usize) -> (Vec<Vec<u8>>, Vec<Lsn>) {
        let (mut log, mut begins, mut prev) = (Vec::new(), Vec::new(), 0);
        let begin_page = |log: &mut Vec<u8>, remaining: usize| {
            let is_first = log.len().is_multiple_of(SEGMENT);
            let header = PageHeader {
                magic: 0xD110,
                flags: u16::from(remaining > 0) | if is_first { LONG_HEADER } else { 0 },
                timeline: 1,
                address: (SEGMENT + log.len()) as u64,
                remaining_len: remaining as u32,
            };
            log.extend(header.to_bytes());
            if is_first {
                log.extend(7_u64.to_le_bytes());
                log.extend((SEGMENT as u32).to_le_bytes());
                log.extend((PAGE_SIZE as u32).to_le_bytes());
            }
        };
        for (index, &len) in lengths.iter().enumerate() {
            if log.len().is_multiple_of(PAGE_SIZE) {
                begin_page(&mut log, 0);
            }
            let lsn = (SEGMENT + log.len()) as u64;
            let is_last = index + 1 == lengths.len();
            let record = record(len, prev, is_last);
            begins.push(Lsn(lsn));
            prev = lsn;
            let mut rest = record.as_slice();
            while !rest.is_empty() {
                if log.len().is_multiple_of(PAGE_SIZE) {
                    begin_page(&mut log, rest.len());
                }
                let room = PAGE_SIZE - log.len() % PAGE_SIZE;
                let (fits, left) = rest.split_at(room.min(rest.len()));
                log.extend(fits);
                rest = left;
            }
            log.resize(max_align(log.len()), 0);
        }
        log.resize(number * SEGMENT, 0);
        (log.chunks(SEGMENT).map(<[u8]>::to_vec).collect(), begins)
    }

    fn record(len: usize, prev: u64, is_switch: bool) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[8..16].copy_from_slice(&prev.to_le_bytes());
        record[16] = if is_switch { SWITCH } else { 0x20 };
        if len > RECORD_HEADER_LEN {
            record.push(254);
            record.extend(((len - RECORD_HEADER_LEN - 5) as u32).to_le_bytes());
            record.resize(len, 7);
        }
        record[0..4].copy_from_slice(&(len as u32).to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    fn read(segments: &[Vec<u8>], start: Lsn, end: Lsn) -> Result<Vec<Lsn>, BrokenRecords> {
        let mut records = UnbrokenRecords::new(start, end);
        let mut found = Vec::new();
        for segment in segments {
            records.read(segment, |record| found.push(record.lsn))?;
        }
        records.finish().map(|()| found)
    }

    /// Two segments, with a record across them, and a switch in the third.
    fn three() -> (Vec<Vec<u8>>, Vec<Lsn>) {
        let lengths = [100, 9000, 700_000, 600_000, 300, 900_000, 24];
        segments(&lengths, 3)
    }

    #[test]
    fn all_records_from_the_first_to_the_last_are_handed_over() {
        let (segments, begins) = three();
        let end_of_all = Lsn(4 * SEGMENT as u64);
        assert_eq!(
            read(&segments, begins[0], end_of_all).expect("whole"),
            begins
        );
        for (from, to) in [(0, 1), (1, 4), (2, 6), (5, 6)] {
            let found = read(&segments, begins[from], begins[to]);
            assert_eq!(found.expect("whole"), begins[from..to], "{from} to {to}");
        }
        // A record across segments is the last one.
        let found = read(&segments[..2], begins[3], begins[4]).expect("whole");
        assert_eq!(found, begins[3..4]);
    }

    #[test]
    fn what_is_missing_is_found() {
        let (segments, begins) = three();
        let end = Lsn(4 * SEGMENT as u64);
        let lacking = |segments: &[Vec<u8>]| read(segments, begins[0], end).expect_err("broken");
        assert!(matches!(lacking(&segments[1..]), BrokenRecords::NoFirst(_)));
        let gap = [segments[0].clone(), segments[2].clone()];
        assert!(!matches!(lacking(&gap), BrokenRecords::Short { .. }));
        assert!(matches!(
            lacking(&segments[..2]),
            BrokenRecords::Short { .. }
        ));
        assert!(matches!(lacking(&[]), BrokenRecords::NoFirst(_)));
        let between = Lsn(begins[1].0 + 8);
        let error = read(&segments, between, end).expect_err("no record begins there");
        assert!(matches!(error, BrokenRecords::NoFirst(_)));

        // Damage, on each of some places.
        for at in (100..SEGMENT).step_by(SEGMENT / 13) {
            let mut damaged = segments.clone();
            damaged[1][at] ^= 1;
            read(&damaged, begins[0], end).expect_err("damage");
        }
        let zeros = [segments[0].clone(), segments[1].clone(), vec![0; SEGMENT]];
        read(&zeros, begins[0], end).expect_err("no segment");
    }
}
