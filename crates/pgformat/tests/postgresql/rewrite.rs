//! Takes a segment apart and puts it together again. The fuzz targets use this file as well.

use walzip_pgformat::bytes::read_u32;
use walzip_pgformat::wal::{Event, PageState, RecordLayout, SegmentReader, SegmentWriter};

/// One part of a run of pages: the bytes without the headers between them.
enum Part {
    Lead { bytes: Vec<u8>, whole: bool },
    Record(Vec<u8>),
    Tail(Vec<u8>),
}

/// What was counted on the way.
#[derive(Debug, Default)]
pub struct Counts {
    pub records: usize,
    pub runs: usize,
    pub other_bytes: usize,
}

/// Reads a segment and writes it again, with each record's headers written from their
/// fields. `None` if its first page is not a segment's.
pub fn rewritten(segment: &[u8]) -> Option<(Vec<u8>, Counts)> {
    let mut reader = SegmentReader::new(segment).ok()?;
    let mut writer = SegmentWriter::new(*reader.header(), segment.len());
    let mut layout = RecordLayout::default();
    let mut counts = Counts::default();
    let mut start: Option<(PageState, u32)> = None;
    let mut parts = Vec::new();
    while let Some(event) = reader.next_event(&mut layout) {
        match event {
            Event::RunStart {
                state,
                remaining_len,
            } => {
                assert!(
                    start.replace((state, remaining_len)).is_none(),
                    "a run within a run"
                );
                counts.runs += 1;
            }
            Event::Lead { whole } => {
                parts.push(Part::Lead {
                    bytes: reader.bytes().to_vec(),
                    whole,
                });
            }
            Event::Record { .. } => {
                counts.records += 1;
                parts.push(Part::Record(with_new_headers(&mut layout, reader.bytes())));
            }
            Event::Tail { .. } => parts.push(Part::Tail(reader.bytes().to_vec())),
            Event::RunEnd { offset } => {
                let (state, remaining_len) = start.take().expect("a run has begun");
                writer.start_run(state, remaining_len, reader.changes().to_vec());
                parts
                    .drain(..)
                    .for_each(|part| write(&mut writer, part, remaining_len));
                assert_eq!(writer.len(), offset, "the run ends elsewhere");
            }
            Event::Other { start, end } => {
                assert_eq!(start, writer.len(), "bytes left out or read twice");
                counts.other_bytes += end - start;
                writer.other(&segment[start..end]);
            }
        }
    }
    assert!(
        start.is_none() && parts.is_empty(),
        "the last run has no end"
    );
    Some((writer.into_bytes(), counts))
}

fn write(writer: &mut SegmentWriter, part: Part, remaining_len: u32) {
    match part {
        Part::Record(bytes) => writer.record(&bytes),
        Part::Lead { bytes, whole } => {
            writer.fragment(&bytes, remaining_len as usize);
            if whole {
                writer.padding();
            }
        }
        Part::Tail(bytes) => {
            let total_len = read_u32(&bytes, 0).expect("a record's length is never divided");
            writer.fragment(&bytes, total_len as usize);
        }
    }
}

/// The record with its headers erased and written from the layout.
fn with_new_headers(layout: &mut RecordLayout, record: &[u8]) -> Vec<u8> {
    let mut written = record.to_vec();
    let headers_len = layout.headers_len();
    written[..headers_len].fill(0xAA);
    layout.write_headers(&mut written);
    assert_eq!(written, record, "the headers say something else");
    written
}
