//! Any bytes as records, with the length and the checksum that make the reader believe them.
//!
//! A fuzzer does not find checksums by chance, so that [`wal_segment`] hardly gets past them.
#![no_main]

#[path = "../../crates/pgformat/tests/postgresql/rewrite.rs"]
mod rewrite;

use libfuzzer_sys::fuzz_target;
use walzip_pgformat::version::VERSIONS;
use walzip_pgformat::wal::{
    DirectoryCopy, PageHeader, PageState, RECORD_HEADER_LEN, RecordHeader, SegmentHeader,
    SegmentWriter, TellingRecords, TimedRecord, UnbrokenRecords, changed_directories,
    committed_transactions, dropped_directories, made_directory, made_initial_fork,
};
use walzip_pgformat::{Lsn, SystemId, TimelineId};

fuzz_target!(|input: &[u8]| {
    let Some((&[version, flags], mut rest)) = input.split_first_chunk() else {
        return;
    };
    let version = &VERSIONS[usize::from(version) % VERSIONS.len()];
    let header = SegmentHeader {
        version,
        flags: u16::from(flags),
        timeline: TimelineId(1),
        start: Lsn(1 << 24),
        system_id: SystemId(7),
        segment_size: 1 << 24,
        remaining_len: 0,
    };
    let mut writer = SegmentWriter::new(header, input.len());
    writer.start_run(
        PageState {
            page: 0,
            flags: 0,
            timeline: 1,
        },
        0,
        Vec::new(),
    );
    // Each record is a length of two bytes and that many bytes.
    while let Some((&len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(len)).min(behind.len());
        let (content, behind) = behind.split_at(len);
        rest = behind;
        if let Some(record) = believable(content) {
            writer.record(&record);
        }
    }
    let segment = writer.into_bytes();
    let written = rewrite::rewritten(&segment).map(|(written, _)| written);
    assert!(
        written.is_some_and(|written| written == segment),
        "not written back identically"
    );
    search(&segment, version.major);
});

/// What looks for single records has to get over any of them.
fn search(segment: &[u8], major: u32) {
    let mut telling = TellingRecords::default();
    telling.feed(segment);
    telling.finish();
    let first = Lsn((1 << 24) + PageHeader::LONG_LEN as u64);
    let mut unbroken = UnbrokenRecords::new(first, Lsn(u64::MAX));
    let read = unbroken.read(segment, |record| {
        let (bytes, layout) = (record.bytes, record.layout);
        changed_directories(bytes, layout, record.version, |_| ());
        dropped_directories(bytes, layout, record.version, |_| ());
        committed_transactions(bytes, layout, record.version, |_| ());
        let _ = made_directory(bytes, layout, record.version);
        let _ = made_initial_fork(bytes, layout);
        let _ = DirectoryCopy::read(bytes, layout);
        let _ = TimedRecord::read(bytes, layout, major);
    });
    let _ = (read, unbroken.finish());
}

/// The bytes with their length, zeros and checksum where a record has them.
fn believable(content: &[u8]) -> Option<Vec<u8>> {
    if content.len() < RECORD_HEADER_LEN {
        return None;
    }
    let mut record = content.to_vec();
    let total_len = u32::try_from(record.len()).ok()?;
    record[..4].copy_from_slice(&total_len.to_le_bytes());
    record[18..20].fill(0);
    let crc = RecordHeader::checksum(&record);
    record[20..24].copy_from_slice(&crc.to_le_bytes());
    Some(record)
}
