//! Inputs that are made here, out of the first pages of segments of every major.

use walzip_pgformat::wal::{
    Event, PageState, RecordHeader, RecordLayout, SegmentReader, SegmentWriter,
};

/// Bytes of a WAL page.
pub const PAGE: usize = 8192;
/// Bytes of the smallest segments.
pub const SMALL_SEGMENT: usize = 1 << 20;

/// The first pages of segments of each major; and the records of
/// `pg15_gist_and_spgist.xz`, which is three pages out of a load of points, ranges and names,
/// written from the first page on as [`with_records`] does; and of a queue, whose status changes
/// its length, and a table of accounts with fields that change on both sides of a text, which the
/// last one has with its old rows; of tables with GIN indexes of every kind whose keys are taken
/// out of rows; and of texts, some in jsonb.
pub const BEGINNINGS: &[(&str, &[u8])] = &[
    (
        "13",
        include_bytes!("../../../pgformat/tests/data/wal/pg13-oltp"),
    ),
    (
        "14",
        include_bytes!("../../../pgformat/tests/data/wal/pg14-oltp-on"),
    ),
    (
        "15",
        include_bytes!("../../../pgformat/tests/data/wal/pgbench-lz4"),
    ),
    (
        "16",
        include_bytes!("../../../pgformat/tests/data/wal/pg16-oltp"),
    ),
    (
        "17",
        include_bytes!("../../../pgformat/tests/data/wal/pg17-oltp"),
    ),
    (
        "18",
        include_bytes!("../../../pgformat/tests/data/wal/pg18-oltp-pglz"),
    ),
    (
        "15, with indexes of GiST and SP-GiST",
        include_bytes!("../inputs/pg15_gist"),
    ),
    (
        "15, with updates of known rows",
        include_bytes!("../inputs/pg15_row_versions"),
    ),
    (
        "15, with REPLICA IDENTITY FULL",
        include_bytes!("../inputs/pg15_replica_identity_full"),
    ),
    (
        "15, with GIN indexes",
        include_bytes!("../inputs/pg15_gin_keys"),
    ),
    ("15, with texts", include_bytes!("../inputs/pg15_words")),
];

/// A whole segment of 1 MiB: two pages of records, and zeros.
pub fn small_segment(beginning: &[u8]) -> Vec<u8> {
    let mut segment = beginning.to_vec();
    segment[32..36].copy_from_slice(&(SMALL_SEGMENT as u32).to_le_bytes());
    segment.resize(SMALL_SEGMENT, 0);
    segment
}

/// The records of a segment, changed, and with checksums that are right again.
pub fn with_records(
    segment: &[u8],
    change: impl FnOnce(&mut Vec<(RecordLayout, Vec<u8>)>),
) -> Vec<u8> {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let mut records = Vec::new();
    let mut layout = RecordLayout::default();
    while let Some(event) = reader.next_event(&mut layout) {
        if matches!(event, Event::Record { .. }) {
            records.push((layout.clone(), reader.bytes().to_vec()));
        }
    }
    change(&mut records);
    let mut writer = SegmentWriter::new(*reader.header(), segment.len());
    let state = PageState {
        page: 0,
        flags: 0,
        timeline: reader.header().timeline.0,
    };
    writer.start_run(state, 0, Vec::new());
    for (_, record) in &mut records {
        let checksum = RecordHeader::checksum(record);
        record[20..24].copy_from_slice(&checksum.to_le_bytes());
        writer.record(record);
    }
    writer.into_bytes()
}

/// Bytes without any order, the same for the same seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| next().to_le_bytes())
        .take(len.div_ceil(8))
        .flatten()
        .collect();
    bytes.truncate(len);
    bytes
}

/// Something like a log file.
pub fn text(lines: usize) -> Vec<u8> {
    (0..lines)
        .flat_map(|n| {
            let line = format!(
                "2026-11-21 22:{:02}:{:02} UTC [{}] LOG:  duration: {}.{:03} ms\n",
                n / 60 % 60,
                n % 60,
                1000 + n % 7,
                n % 13,
                n * 7919 % 1000
            );
            line.into_bytes()
        })
        .collect()
}
