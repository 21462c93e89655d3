//! No bytes at all make a reader panic, and what is not a record is carried as it is.

use std::io::Write;

use proptest::prelude::*;
use walzip_pgformat::backup_label::{BackupHistory, BackupLabel};
use walzip_pgformat::control_file::ControlFile;
use walzip_pgformat::history::TimelineHistory;
use walzip_pgformat::pglz::{CharSign, Compressor, decompress};
use walzip_pgformat::units::TimelineId;
use walzip_pgformat::wal::{EdgeReader, Event, RecordHeader, RecordLayout, SegmentReader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, PAGE_SIZE};

use crate::beginnings::BEGINNINGS;
use crate::rewrite::rewritten;

/// One thing that goes wrong with a file.
#[derive(Clone, Debug)]
enum Damage {
    Set { at: usize, value: u8 },
    FlipBit { at: usize, bit: u8 },
    Zero { at: usize, len: usize },
    Copy { from: usize, to: usize, len: usize },
    Truncate { len: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    // Page headers and record headers are where damage does most.
    let at = prop_oneof![
        3 => 0..16384usize,
        1 => 0..64usize,
        1 => 8192..8256usize,
    ];
    let len = prop_oneof![1..64usize, Just(8192usize)];
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, value)| Damage::Set { at, value }),
        (at.clone(), 0..8u8).prop_map(|(at, bit)| Damage::FlipBit { at, bit }),
        (at.clone(), len.clone()).prop_map(|(at, len)| Damage::Zero { at, len }),
        (at.clone(), at.clone(), len).prop_map(|(from, to, len)| Damage::Copy { from, to, len }),
        at.prop_map(|len| Damage::Truncate { len }),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let len_now = bytes.len();
    let inside = |at: usize, len: usize| at.min(len_now)..at.saturating_add(len).min(len_now);
    match *damage {
        Damage::Set { at, value } => bytes[inside(at, 1)].fill(value),
        Damage::FlipBit { at, bit } => {
            bytes[inside(at, 1)]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << bit);
        }
        Damage::Zero { at, len } => bytes[inside(at, len)].fill(0),
        Damage::Copy { from, to, len } => {
            let len = inside(from, len).len().min(inside(to, len).len());
            bytes.copy_within(inside(from, len), inside(to, len).start);
        }
        Damage::Truncate { len } => bytes.truncate(len),
    }
}

/// Where the records lie that are whole on one page, as offset and length.
fn records_on_one_page(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let start = reader.header().start;
    let mut layout = RecordLayout::default();
    let mut found = Vec::new();
    while let Some(event) = reader.next_event(&mut layout) {
        if let Event::Record { lsn } = event {
            let at = usize::try_from(lsn.0 - start.0).expect("within the segment");
            let len = reader.bytes().len();
            if at / PAGE_SIZE == (at + len - 1) / PAGE_SIZE {
                found.push((at, len));
            }
        }
    }
    found
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    prop::collection::vec(damage(), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn writes_damaged_segments_back_identically(
        which in 0..BEGINNINGS.len(),
        damages in damages(),
    ) {
        let mut bytes = BEGINNINGS[which].1.to_vec();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        if let Some((written, _)) = rewritten(&bytes) {
            prop_assert!(written == bytes);
        }
    }

    #[test]
    fn writes_records_with_odd_headers_and_a_right_checksum_back_identically(
        which in 0..BEGINNINGS.len(),
        nth: usize,
        edits in prop::collection::vec((0..64usize, any::<u8>()), 1..4),
    ) {
        let mut bytes = BEGINNINGS[which].1.to_vec();
        let records = records_on_one_page(&bytes);
        let (at, len) = records[nth % records.len()];
        let record = &mut bytes[at..at + len];
        // The length stays, so that the checksum can be set right.
        edits.iter().for_each(|(offset, value)| record[(4 + offset) % len] = *value);
        let total_len = u32::try_from(len).expect("on one page");
        record[..4].copy_from_slice(&total_len.to_le_bytes());
        let crc = RecordHeader::checksum(record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        let (written, _) = rewritten(&bytes).expect("the first page is whole");
        prop_assert!(written == bytes);
    }

    #[test]
    fn writes_segments_with_a_valid_first_page_and_any_rest_back_identically(
        which in 0..BEGINNINGS.len(),
        kept in 40..9000usize,
        rest in prop::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let bytes = [&BEGINNINGS[which].1[..kept], &rest].concat();
        let (written, _) = rewritten(&bytes).expect("the first page is whole");
        prop_assert!(written == bytes);
    }

    #[test]
    fn finds_the_edges_of_damaged_segments_without_a_panic(
        which in 0..BEGINNINGS.len(),
        damages in damages(),
    ) {
        const SMALLEST: u32 = 1 << 20;
        let mut bytes = BEGINNINGS[which].1.to_vec();
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        bytes.resize(SMALLEST as usize, 0);
        bytes[32..36].copy_from_slice(&SMALLEST.to_le_bytes());
        let mut reader = EdgeReader::default();
        prop_assert!(reader.write_all(&bytes).is_ok());
        if let Some(edges) = reader.finish() {
            edges.begin.discontinuity(&edges.end);
        }
    }

    #[test]
    fn compresses_and_decompresses_any_bytes(
        seed in prop::collection::vec(any::<u8>(), 1..64),
        edits in prop::collection::vec((any::<u16>(), any::<u8>()), 0..40),
        len in 0..20_000usize,
        signed: bool,
    ) {
        let mut src: Vec<u8> = seed.iter().copied().cycle().take(len).collect();
        for (at, value) in edits {
            if let Some(byte) = src.get_mut(usize::from(at)) {
                *byte = value;
            }
        }
        let sign = if signed { CharSign::Signed } else { CharSign::Unsigned };
        let mut packed = Vec::new();
        if Compressor::new().compress(&src, &mut packed, sign) {
            prop_assert!(packed.len() < len * 3 / 4 + 1);
            let mut again = vec![0; len];
            prop_assert_eq!(decompress(&packed, &mut again), Ok(()));
            prop_assert!(again == src);
        }
    }

    #[test]
    fn decompresses_no_bytes_into_a_panic(
        src in prop::collection::vec(any::<u8>(), 0..400),
        len in 0..9000usize,
    ) {
        let _: Result<(), _> = decompress(&src, &mut vec![0; len]);
    }

    #[test]
    fn reads_no_text_into_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _: Result<_, _> = ControlFile::read(&bytes);
        let _: Result<_, _> = BackupLabel::read(&bytes);
        let _: Result<_, _> = BackupHistory::read(&bytes);
        let _: Result<_, _> = TimelineHistory::read(TimelineId(7), &bytes);
    }

    #[test]
    fn prints_every_name_that_it_reads(text in "[0-9A-F.]{0,40}(history|partial|backup)?") {
        if let Ok(name) = text.parse::<WalFileName>() {
            prop_assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn reads_the_name_of_every_segment(
        timeline in 1..=u32::MAX,
        position: u64,
        exponent in 20..=30u32,
    ) {
        let size = 1 << exponent;
        let name = SegmentName::from_lsn(TimelineId(timeline), Lsn(position), size)?;
        prop_assert_eq!(name.to_string().parse(), Ok(WalFileName::Segment(name)));
        prop_assert_eq!(name.start(size)?, Lsn(position / u64::from(size) * u64::from(size)));
        prop_assert_eq!(name.number(size)?, position / u64::from(size));
        let previous = name.previous(size)?;
        prop_assert_eq!(previous.map(|name| name.next(size)).transpose()?, previous.and(Some(name)));
        prop_assert_eq!(previous.is_none(), position < u64::from(size));
    }
}
