//! What a server would replay of a segment, and what comes after that.
//!
//! A server that receives WAL writes it into files that were others before, and makes files for later out of old ones: behind the
//! last record there may be remains. They were written two segments before at least, and have other positions.

use std::ops::Range;

use walzip_pgformat::wal::{
    Event, PageHeader, RECORD_HEADER_LEN, RecordHeader, RecordLayout, SegmentHeader, SegmentReader,
    is_switch,
};
use walzip_pgformat::{Lsn, PAGE_SIZE, rmgr_id};

/// A record that a server would replay, or the part of it that is in the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    /// The offset at which the next one would begin. Behind a switch that is in the next segment.
    pub(crate) end: usize,
    /// The offset of the first byte behind its own.
    own_end: usize,
    /// It is more than a checkpoint, or what standbys need.
    pub(crate) is_change: bool,
    /// It ends here.
    pub(crate) is_whole: bool,
}

/// Whether the beginning of a record may be one that comes after the last: its header, as far as it is there, says so.
fn continues(beginning: &[u8], last: Option<Lsn>) -> bool {
    if beginning.len() < RECORD_HEADER_LEN {
        return true;
    }
    let header = RecordHeader::read(beginning);
    header.is_some_and(|header| last.is_none_or(|last| last.0 == header.prev))
}

/// Whether this is so of anything that a server would replay of a segment, or of the beginning of one, that has so many
/// bytes. It replays what follows without a gap: after that there may be remains of another segment.
pub(crate) fn any(
    reader: &mut SegmentReader<'_>,
    (header, len): (&SegmentHeader, usize),
    mut is_it: impl FnMut(Replayed) -> bool,
) -> bool {
    let mut layout = RecordLayout::default();
    let (mut last, mut is_begun) = (None, false);
    let goes_on = header.version.overwrite_contrecord;
    while let Some(event) = reader.next_event(&mut layout) {
        let reaches_end = reader.next_offset() == len;
        let own_end = reader.next_offset();
        let mut end = own_end;
        let (is_change, is_whole) = match event {
            Event::Record { lsn } => {
                let prev = layout.header.prev;
                if last.replace(lsn).is_some_and(|last| last.0 != prev) {
                    return false;
                }
                if is_switch(&layout.header) {
                    end = len;
                }
                let is_change = !matches!(layout.header.rmid, rmgr_id::XLOG | rmgr_id::STANDBY);
                (is_change, true)
            }
            // Only with its other part, in another segment.
            Event::Lead { whole } => (whole || reaches_end, whole),
            Event::Tail { .. } if !continues(reader.bytes(), last) => return false,
            Event::Tail { .. } => (reaches_end, false),
            // After a crash, a server goes on behind a record that it has not finished.
            Event::RunStart { state, .. } if is_begun && state.flags & goes_on == 0 => {
                return false;
            }
            Event::Other { .. } => return false,
            Event::RunStart { .. } | Event::RunEnd { .. } => {
                is_begun = true;
                continue;
            }
        };
        let replayed = Replayed {
            end,
            own_end,
            is_change,
            is_whole,
        };
        if is_it(replayed) {
            return true;
        }
        if end > own_end {
            return false;
        }
    }
    false
}

/// Where that ends which a server would replay of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedEnd {
    /// The offset behind the last byte of it. What is behind a switch is no part of it.
    pub(crate) offset: usize,
    /// The last record is a switch: nothing follows in the segment, whatever timeline is followed.
    pub(crate) is_switch: bool,
}

/// The end of the last record that is whole; nothing of what is no segment, nor the beginning of one.
pub(crate) fn end_of_records(segment: &[u8]) -> Option<ReplayedEnd> {
    Some(end_of(segment, |part| part.is_whole)?.0)
}

/// The end of what a server would replay of a segment with what follows in the next one.
pub(crate) fn end_with_next(segment: &[u8]) -> Option<usize> {
    let (end, _) = end_of(segment, |part| part.is_whole || part.end == segment.len())?;
    Some(end.offset)
}

/// The end of what a server would replay of a segment, with what follows in the next one, if all of that is before an offset,
/// and nothing behind says that it is of this segment too. A server replays nothing behind damage, and it may be found all the
/// same. Where the timeline was left before the offset (`left_at`), what begins on that page may be what a server was writing
/// when it crashed, and had told nobody of. Behind a switch there are pages of zeros, or remains.
pub(crate) fn end_before(segment: &[u8], at: usize, left_at: Option<usize>) -> Option<ReplayedEnd> {
    let len = segment.len();
    let (end, read_until) = end_of(segment, |part| part.is_whole || part.end == len)?;
    let may_be_torn = left_at.is_some_and(|left| left <= at);
    let is_last = end.offset <= at
        && !has_pages_from(segment, at.max(read_until))
        && (may_be_torn || !has_records_around(segment, at))
        && (!end.is_switch || are_remains(segment, end.offset));
    is_last.then_some(end)
}

/// Up to where a segment has to be archived, so that nothing is lost with it but records that a server replays: up to its beginning,
/// if nothing behind the last record says that it is of this segment. Where one record was begun there, and nothing after it,
/// up to the end of its header, which tells one record from all others. Nothing where there may be more.
pub(crate) fn needed_of_rest(segment: &[u8]) -> Option<usize> {
    let (end, read_until) = end_of(segment, |part| part.is_whole || part.end == segment.len())?;
    let at = end.offset.max(read_until);
    if has_pages_from(segment, at) {
        return None;
    }
    if at >= segment.len() || !has_records_around(segment, at) {
        return Some(0);
    }
    let after = at.next_multiple_of(8) + RECORD_HEADER_LEN;
    let page_end = at.next_multiple_of(PAGE_SIZE);
    let is_last = !has_records_in(segment, after..page_end);
    is_last.then_some(after)
}

/// The end of what counts, and where that ends which is read with it: a record that was begun may go on for some pages.
fn end_of(segment: &[u8], counts: impl Fn(&Replayed) -> bool) -> Option<(ReplayedEnd, usize)> {
    let header = SegmentHeader::read(segment).ok()?;
    let mut reader = SegmentReader::of_part(segment.into(), header);
    let mut end = ReplayedEnd {
        offset: 0,
        is_switch: false,
    };
    let mut read_until = 0;
    any(&mut reader, (&header, segment.len()), |part| {
        read_until = part.own_end;
        if counts(&part) {
            end = ReplayedEnd {
                offset: part.own_end,
                is_switch: part.end > part.own_end,
            };
        }
        false
    });
    Some((end, read_until))
}

/// Whether a page that begins at an offset or behind it has its position in the segment.
fn has_pages_from(segment: &[u8], at: usize) -> bool {
    let start = SegmentHeader::read(segment).map(|header| header.start.0);
    let is_own = |page: usize| {
        let read = segment.get(page..).and_then(PageHeader::read);
        read.is_some_and(|read| Ok(read.address.wrapping_sub(page as u64)) == start)
    };
    let mut pages = (at.next_multiple_of(PAGE_SIZE)..segment.len()).step_by(PAGE_SIZE);
    pages.any(is_own)
}

/// Whether each page behind that of an offset is of zeros, or of an older segment.
fn are_remains(segment: &[u8], at: usize) -> bool {
    let Ok(header) = SegmentHeader::read(segment) else {
        return false;
    };
    let behind = segment.get(at.next_multiple_of(PAGE_SIZE)..);
    let is_older = |page: &[u8]| {
        let read = PageHeader::read(page);
        read.is_some_and(|read| read.magic != 0 && read.address < header.start.0)
    };
    let mut pages = behind.unwrap_or_default().chunks(PAGE_SIZE);
    pages.all(|page| page.iter().all(|&byte| byte == 0) || is_older(page))
}

/// Whether a record begins on the page of an offset, of which some byte is at the offset or behind it, and which names a
/// predecessor in this segment or in the one before. Remains name older ones.
fn has_records_around(segment: &[u8], at: usize) -> bool {
    let page = at - at % PAGE_SIZE;
    let first = (at + 1).saturating_sub(RECORD_HEADER_LEN).max(page);
    has_records_in(segment, first..at.next_multiple_of(PAGE_SIZE))
}

fn has_records_in(segment: &[u8], range: Range<usize>) -> bool {
    let Ok(header) = SegmentHeader::read(segment) else {
        return true;
    };
    let start = header.start.0;
    let oldest = start.saturating_sub(header.segment_size.into()).max(1);
    let is_own = |offset: usize| {
        let read = segment.get(offset..).and_then(RecordHeader::read);
        read.is_some_and(|read| {
            let predecessors = oldest..start + offset as u64;
            read.total_len as usize >= RECORD_HEADER_LEN && predecessors.contains(&read.prev)
        })
    };
    let mut records = (range.start.next_multiple_of(8)..range.end).step_by(8);
    records.any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the last page of a segment what the file had before may look like a record that goes on in the next segment.
    #[test]
    fn the_beginning_of_a_record_comes_after_the_last_one() {
        let mut beginning = [0; RECORD_HEADER_LEN];
        beginning[..4].copy_from_slice(&10_000_u32.to_le_bytes());
        beginning[8..16].copy_from_slice(&0x100_0028_u64.to_le_bytes());
        let last = Some(Lsn(0x100_0028));
        assert!(continues(&beginning, last));
        assert!(!continues(&beginning, Some(Lsn(0x100_0090))));
        // The segment begins with it.
        assert!(continues(&beginning, None));
        // Its header goes on in the next segment.
        assert!(continues(&beginning[..16], Some(Lsn(0x100_0090))));
        assert!(!continues(&[b'o'; RECORD_HEADER_LEN], last));
        assert!(!continues(&[b'o'; RECORD_HEADER_LEN], None));
    }
}
