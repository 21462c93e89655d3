//! What a server would replay of a segment.

use walzip_pgformat::wal::{
    Event, RECORD_HEADER_LEN, RecordHeader, RecordLayout, SegmentHeader, SegmentReader, is_switch,
};
use walzip_pgformat::{Lsn, rmgr_id};

/// A record that a server would replay, or the part of it that is in the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    /// The offset of the first byte behind it.
    pub(crate) end: usize,
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
        let mut end = reader.next_offset();
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
            is_change,
            is_whole,
        };
        if is_it(replayed) {
            return true;
        }
    }
    false
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
