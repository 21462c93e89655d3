//! Where segments of real servers begin and end, and whether one continues another.

use std::fs::File;
use std::io::Write;

use walzip_pgformat::Lsn;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{
    Discontinuity, EdgeReader, Event, RecordHeader, RecordLayout, SegmentEdges, SegmentHeader,
    SegmentReader,
};
use walzip_testing::samples;

fn edges_in_steps(segment: &[u8], step: usize) -> SegmentEdges {
    let mut reader = EdgeReader::default();
    for part in segment.chunks(step) {
        reader.write_all(part).expect("taken");
    }
    reader.finish().expect("a segment")
}

fn edges(segment: &[u8]) -> SegmentEdges {
    edges_in_steps(segment, segment.len())
}

/// The samples that follow one another in one workload.
fn neighbours() -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = samples::all().windows(2).filter_map(|pair| {
        let [one, other] = pair else { return None };
        let (before, next) = (one.read(), other.read());
        let header = |segment: &[u8]| SegmentHeader::read(segment).expect("a segment");
        let (end, start) = (
            header(&before).start.0 + before.len() as u64,
            header(&next).start.0,
        );
        (one.workload == other.workload && end == start).then_some((before, next))
    });
    pairs.collect()
}

#[test]
fn segments_of_one_server_continue_one_another() {
    let neighbours = neighbours();
    let mut crossing = 0;
    for (before, next) in &neighbours {
        let (before, next) = (edges(before), edges(next));
        assert_eq!(next.begin.discontinuity(&before.end), None);
        let length = before.begin.discontinuity(&before.end);
        crossing += usize::from(matches!(length, Some(Discontinuity::OtherLength { .. })));
    }
    assert!(
        neighbours.is_empty() || crossing > 0,
        "none crosses a border"
    );
}

#[test]
fn the_edges_are_those_that_a_reader_of_records_finds() {
    for sample in samples::all() {
        let segment = sample.read();
        let found = edges(&segment);
        assert_eq!(edges_in_steps(&segment, 5_000), found, "{sample:?}");
        let file = File::open(&sample.path).expect("a file");
        let read = EdgeReader::read_from(&file).expect("read");
        assert_eq!(read, Some(found.clone()), "{sample:?}");
        // The end of the segment, told to a segment that would come after its last record.
        let mut reader = SegmentReader::new(&segment).expect("a segment");
        let mut layout = RecordLayout::default();
        let (mut first, mut whole, mut tail) = (None, None, None);
        while let Some(event) = reader.next_event(&mut layout) {
            match event {
                Event::Record { lsn } => {
                    first.get_or_insert(Lsn(layout.header.prev));
                    (whole, tail) = (Some(lsn), None);
                }
                Event::Tail { lsn } => tail = Some((lsn, reader.bytes().to_vec())),
                _ => {}
            }
        }
        let text = format!("{found:?}");
        let named = |what: &str| assert!(text.contains(what), "{what} {sample:?}");
        match first {
            Some(prev) => named(&format!("prev: Some({prev:?})")),
            None => named("prev: None"),
        }
        match &tail {
            Some((lsn, bytes)) => named(&format!(
                "tail: Some(Tail {{ lsn: {lsn:?}, total_len: {}, len: {}",
                u32::from_le_bytes(*bytes.first_chunk().expect("a length")),
                bytes.len()
            )),
            None => named(&format!("last_whole: {whole:?}, tail: None")),
        }
    }
}

#[test]
fn another_servers_segment_is_told() {
    let mut checksums = 0;
    for (before, next) in neighbours() {
        let end = edges(&before).end;
        let told = |next: &[u8]| edges(next).begin.discontinuity(&end);
        let remaining = RecordStart::of(&next);
        // Its first record comes after another one.
        let mut other = next.clone();
        other[remaining.prev_offset] ^= 8;
        assert!(matches!(
            told(&other),
            Some(Discontinuity::OtherRecord { .. })
        ));
        let mut anew = next.clone();
        anew[remaining.prev_offset..][..8].fill(0);
        assert_eq!(told(&anew), Some(Discontinuity::Anew));
        // The record that runs over the border has other content.
        if remaining.len > 0 {
            let mut other = next.clone();
            other[40] ^= 1;
            assert!(matches!(
                told(&other),
                Some(Discontinuity::WrongChecksum { .. })
            ));
            let mut shorter = next.clone();
            shorter[16] ^= 1;
            assert!(matches!(
                told(&shorter),
                Some(Discontinuity::OtherLength { .. })
            ));
            checksums += 1;
        }
        // What ended before its segment did says nothing.
        let mut unfinished = before.clone();
        unfinished[PAGE_SIZE..].fill(0);
        let unfinished = edges(&unfinished).end;
        let found = edges(&next).begin.discontinuity(&unfinished);
        assert!(
            !matches!(found, Some(Discontinuity::WrongChecksum { .. })),
            "{found:?}"
        );
    }
    assert!(checksums > 0 || samples::all().is_empty());
}

/// Where the first record of a segment names the one before it, if that is on the first page.
struct RecordStart {
    len: usize,
    prev_offset: usize,
}

impl RecordStart {
    fn of(segment: &[u8]) -> RecordStart {
        let mut len = SegmentHeader::read(segment)
            .expect("a segment")
            .remaining_len as usize;
        let all = len;
        let (mut page, mut at) = (0, 40);
        while len > PAGE_SIZE - at {
            len -= PAGE_SIZE - at;
            (page, at) = (page + 1, 24);
        }
        let mut start = page * PAGE_SIZE + (at + len).next_multiple_of(8);
        if start.is_multiple_of(PAGE_SIZE) {
            start += 24;
        }
        assert!(RecordHeader::read(&segment[start..]).is_some());
        // The last 8 bytes of a page may have the first ones of a record.
        let next_page = (start + 1).next_multiple_of(PAGE_SIZE);
        let prev_offset = match start + 8 >= next_page {
            true => next_page + 24 + (start + 8 - next_page),
            false => start + 8,
        };
        RecordStart {
            len: all,
            prev_offset,
        }
    }
}

#[test]
fn what_is_no_whole_segment_has_no_edges() {
    let mut reader = EdgeReader::default();
    reader.write_all(&[0; 3 * PAGE_SIZE]).expect("taken");
    assert!(reader.finish().is_none());
    let Some(sample) = samples::of_workload("idle") else {
        return;
    };
    let segment = sample.read();
    for len in [0, 1, PAGE_SIZE, segment.len() - 1] {
        let mut reader = EdgeReader::default();
        reader.write_all(&segment[..len]).expect("taken");
        assert!(reader.finish().is_none(), "{len}");
    }
}

const SIZE: usize = 1 << 20;

/// Segments of 1 MiB from position 1 MiB on, with records of these lengths.
fn segments(record_lens: &[usize]) -> Vec<Vec<u8>> {
    let mut written: Vec<u8> = Vec::new();
    let mut prev = 40u64;
    let mut left = 0;
    let payload = |written: &mut Vec<u8>, left: usize| {
        if !written.len().is_multiple_of(PAGE_SIZE) {
            return;
        }
        let address = (SIZE + written.len()) as u64;
        let long = address.is_multiple_of(SIZE as u64);
        let flags = u16::from(left > 0) | if long { 2 } else { 0 };
        written.extend(0xD110u16.to_le_bytes());
        written.extend(flags.to_le_bytes());
        written.extend(1u32.to_le_bytes());
        written.extend(address.to_le_bytes());
        written.extend((left as u64).to_le_bytes());
        if long {
            written.extend(7u64.to_le_bytes());
            written.extend((SIZE as u32).to_le_bytes());
            written.extend((PAGE_SIZE as u32).to_le_bytes());
        }
    };
    for &len in record_lens {
        payload(&mut written, left);
        let lsn = (SIZE + written.len()) as u64;
        let mut record = vec![0x5A; len];
        let header = RecordHeader {
            total_len: len as u32,
            prev,
            ..RecordHeader::default()
        };
        record[..24].copy_from_slice(&header.to_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        left = len;
        for byte in record {
            payload(&mut written, left);
            written.push(byte);
            left -= 1;
        }
        written.resize(written.len().next_multiple_of(8), 0);
        prev = lsn;
    }
    written.resize(written.len().next_multiple_of(SIZE), 0);
    written.chunks(SIZE).map(<[u8]>::to_vec).collect()
}

#[test]
fn a_record_of_several_segments_is_followed() {
    let own = segments(&[100, 2_500_000, 100]);
    let other = segments(&[300, 2_500_000, 100]);
    assert_eq!((own.len(), other.len()), (3, 3));
    let told = |before: &[u8], next: &[u8]| edges(next).begin.discontinuity(&edges(before).end);
    for at in 0..2 {
        assert_eq!(told(&own[at], &own[at + 1]), None);
        assert_eq!(told(&other[at], &other[at + 1]), None);
        // The second one has nothing of its own but the middle of the record.
        let found = told(&own[at], &other[at + 1]);
        assert!(
            matches!(found, Some(Discontinuity::OtherLength { .. })),
            "{at}: {found:?}"
        );
    }
}

/// A standby may have the switch record, and behind it what the file had before.
#[test]
fn a_segment_ends_with_its_switch() {
    let mut switched = segments(&[100, 24]).remove(0);
    let at = 40 + 104;
    switched[at + 16] = 0x40;
    let mut with_remains = switched.clone();
    for remains in [at + 24, at + 80] {
        with_remains[remains..remains + 4].copy_from_slice(&56u32.to_le_bytes());
    }
    assert_eq!(edges(&with_remains).end, edges(&switched).end);
    // Without the switch these are records.
    with_remains[at + 16] = 0;
    assert_ne!(edges(&with_remains).end, edges(&switched).end);
}

/// After a crash: the record that began in the last 8 bytes of a page was lost, and the next page begins anew.
#[test]
fn a_record_that_was_lost_after_its_first_bytes_names_nothing() {
    // The first page of the second segment ends with 8 bytes of a record.
    let to_border = SIZE - 40 - (SIZE / PAGE_SIZE - 1) * 24;
    let own = segments(&[to_border + PAGE_SIZE - 40 - 8, 200, 100]);
    let (first, mut second) = (own[0].clone(), own[1].clone());
    assert_eq!(edges(&second).begin.discontinuity(&edges(&first).end), None);
    let page = &mut second[PAGE_SIZE..2 * PAGE_SIZE];
    page.fill(0);
    page[..2].copy_from_slice(&0xD110u16.to_le_bytes());
    page[2..4].copy_from_slice(&8u16.to_le_bytes());
    page[4] = 1;
    page[8..16].copy_from_slice(&((2 * SIZE + PAGE_SIZE) as u64).to_le_bytes());
    let header = RecordHeader {
        total_len: 42,
        prev: 40,
        ..RecordHeader::default()
    };
    page[24..48].copy_from_slice(&header.to_bytes());
    assert_eq!(edges(&second).begin.discontinuity(&edges(&first).end), None);
}

/// The border lies in the header of the record: 8 or 16 bytes of it are in the segment before.
#[test]
fn a_header_that_lies_on_the_border_is_put_together() {
    let first_len = SIZE - 40 - (SIZE / PAGE_SIZE - 1) * 24;
    for in_first in [8, 16, 24, 32, 9_000] {
        let pair = segments(&[first_len - in_first, 30_000, 100]);
        let (before, next) = (&pair[0], &pair[1]);
        let end = edges(before).end;
        assert_eq!(edges(next).begin.discontinuity(&end), None, "{in_first}");
        // One byte of the data is another, in either part.
        let mut other = next.clone();
        other[PAGE_SIZE + 100] ^= 1;
        let found = edges(&other).begin.discontinuity(&end);
        assert!(
            matches!(found, Some(Discontinuity::WrongChecksum { .. })),
            "{in_first}: {found:?}"
        );
        if in_first > 24 {
            let mut other = before.clone();
            *other.last_mut().expect("bytes") ^= 1;
            let end = edges(&other).end;
            let found = edges(next).begin.discontinuity(&end);
            assert!(
                matches!(found, Some(Discontinuity::WrongChecksum { .. })),
                "{in_first}: {found:?}"
            );
        }
    }
}

#[test]
fn what_is_kept_of_a_long_record_is_short() {
    let pair = segments(&[100, 1_500_000, 100]);
    assert_eq!(pair.len(), 2);
    let (before, next) = (edges(&pair[0]), edges(&pair[1]));
    assert_eq!(next.begin.discontinuity(&before.end), None);
    assert!(format!("{before:?}{next:?}").len() < 2_000);
    let mut other = pair[0].clone();
    other[SIZE / 2 + 1_000] ^= 1;
    let found = next.begin.discontinuity(&edges(&other).end);
    assert!(
        matches!(found, Some(Discontinuity::WrongChecksum { .. })),
        "{found:?}"
    );
}
