//! Records over segments that follow one another.

use walzip_pgformat::Lsn;
use walzip_pgformat::wal::{Event, RecordLayout, Records, RecordsError, SegmentReader};

use walzip_testing::samples;

/// The positions of records that end in a segment, and where one begins whose rest is in the next.
fn alone(segment: &[u8]) -> (Vec<Lsn>, Option<Lsn>) {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let mut layout = RecordLayout::default();
    let (mut records, mut broken_off) = (Vec::new(), None);
    while let Some(event) = reader.next_event(&mut layout) {
        match event {
            Event::Record { lsn } => records.push(lsn),
            Event::Tail { lsn } => broken_off = Some(lsn),
            _ => {}
        }
    }
    (records, broken_off)
}

fn positions(records: &mut Records, segment: &[u8]) -> (Vec<Lsn>, Result<(), RecordsError>) {
    let mut positions = Vec::new();
    let read = records.read(segment, |record| {
        assert_eq!(record.bytes.len(), record.layout.header.total_len as usize);
        positions.push(record.lsn);
    });
    (positions, read)
}

#[test]
fn a_record_that_goes_on_in_the_next_segment_is_put_together() {
    let (mut joined, mut broken) = (0, 0);
    let mut samples = samples::all().iter().peekable();
    while let Some(sample) = samples.next() {
        let Some(next) = samples
            .peek()
            .filter(|next| next.workload == sample.workload)
        else {
            continue;
        };
        let (first, second) = (sample.read(), next.read());
        let ends = |segment: &[u8]| {
            let start = SegmentReader::new(segment)
                .expect("a segment")
                .header()
                .start;
            (start, Lsn(start.0 + segment.len() as u64))
        };
        if ends(&first).1 != ends(&second).0 {
            continue;
        }
        let mut records = Records::default();
        let (found, read) = positions(&mut records, &first);
        read.expect("valid");
        let (expected, broken_off) = alone(&first);
        assert_eq!(found, expected, "{}", sample.path.display());
        let (found, read) = positions(&mut records, &second);
        read.expect("valid");
        let expected: Vec<Lsn> = broken_off.into_iter().chain(alone(&second).0).collect();
        assert_eq!(found, expected, "{}", next.path.display());
        joined += usize::from(broken_off.is_some());
        // Where a segment is missing between them, the parts are of two records.
        let mut records = Records::default();
        positions(&mut records, &first).1.expect("valid");
        let (_, again) = positions(&mut records, &first);
        broken += usize::from(again.is_err());
        if let Err(error) = again {
            assert!(matches!(error, RecordsError::Broken(lsn) if Some(lsn) == broken_off));
        }
    }
    assert!(joined > 0 && broken > 0 || samples::all().is_empty());
}
