//! Segments that are told from the pages that they have themselves, as the levels from 4 on make them.
//!
//! The golden files `v14_pg*` and `v14_mixed` are of the first pages of segments of the sequences `v13_*` of
//! `history.rs`, with zeros behind them. `v14_many` is of the segment below of which no decoder keeps all pages: how
//! pages go is part of the format.

use walzip_codec::{
    Encoder, Header, HistoryDecoder, HistoryEncoder, Level, MemberKind, decode, encode,
    encode_verified,
};

use walzip_pgformat::rmgr_id::HEAP;
use walzip_pgformat::wal::{
    Block, PageState, RecordLayout, RelFileLocator, SegmentHeader, SegmentWriter,
};

use crate::compatibility::golden_files;
use crate::counting_allocator::peak_of;
use crate::history::segments;
use crate::inputs::BEGINNINGS;

fn level(level: u8) -> Level {
    Level::new(level).expect("a level")
}

fn kind(file: &[u8]) -> MemberKind {
    Header::read(file).expect("a header").kind
}

#[test]
fn a_segment_is_told_from_its_own_pages_from_level_4_on() {
    let segment = &segments("v13_pg16_rows")[2];
    for number in 1..=9 {
        let file = encode_verified(segment, level(number)).expect("encodes");
        let expected = match number {
            1..=3 => MemberKind::Wal,
            _ => MemberKind::WalAlone,
        };
        assert_eq!(kind(&file), expected, "level {number}");
        assert!(decode(&file).expect("decodes") == *segment);
    }
}

/// The rows and pages of these segments say much of what comes after them.
#[test]
fn it_takes_fewer_bytes() {
    for (name, most) in [("v13_pg16_rows", 95), ("v9_pg15_leaves", 95)] {
        let len_of = |number| -> usize {
            let segments = segments(name).into_iter();
            let lens =
                segments.map(|segment| encode(&segment, level(number)).expect("encodes").len());
            lens.sum()
        };
        let (simply, own) = (len_of(3), len_of(4));
        assert!(own * 100 <= simply * most, "{name}: {own} of {simply}");
    }
}

/// Each part has its own pages.
#[test]
fn a_segment_in_parts_comes_back() {
    let segment = &segments("v13_pg18_rows")[3];
    let mut encoder = Encoder::new(level(4), true).with_part_len(256 << 10);
    let parts = segment.chunks(256 << 10);
    let members: Vec<Vec<u8>> = parts
        .map(|part| encoder.encode(part).expect("encodes"))
        .collect();
    assert!(
        members
            .iter()
            .all(|member| kind(member) == MemberKind::WalAlone)
    );
    assert!(decode(&members.concat()).expect("decodes") == *segment);
}

/// It stands for no history, and leaves none, whether it is decoded or passed.
#[test]
fn between_segments_of_a_history_it_begins_anew() {
    let segments = segments("v13_pg16_rows");
    let mut encoder = HistoryEncoder::new(level(6));
    let files: Vec<Vec<u8>> = segments
        .iter()
        .enumerate()
        .map(|(number, segment)| match number {
            0 | 2 => encoder.encode_alone(segment),
            _ => encoder.encode(segment),
        })
        .map(|file| file.expect("encodes"))
        .collect();
    let expected = [6, 4, 6, 4, 4].map(|number| match number {
        6 => MemberKind::WalAlone,
        _ => MemberKind::WalAfter,
    });
    let kinds: Vec<MemberKind> = files.iter().map(|file| kind(file)).collect();
    assert_eq!(kinds, expected);
    let (mut decoder, mut passing) = (HistoryDecoder::new(), HistoryDecoder::new());
    for (file, segment) in files.iter().zip(&segments) {
        let mut back = Vec::new();
        decoder.decode(file, &mut back).expect("decodes");
        assert!(back == *segment);
        passing.pass(file).expect("passed");
        assert!(passing.history_hash() == decoder.history_hash());
    }
}

/// Rows on many pages that the records begin themselves, and then one more on each: more pages than are kept of so
/// little WAL.
fn segment_of_many_pages(pages: u32) -> Vec<u8> {
    let mut header = BEGINNINGS[2].1[..40].to_vec();
    header[8..16].fill(0);
    header[32..36].copy_from_slice(&(1u32 << 20).to_le_bytes());
    let header = SegmentHeader::read(&header).expect("a header");
    let mut writer = SegmentWriter::new(header, 0);
    let state = PageState {
        page: 0,
        flags: 0,
        timeline: 1,
    };
    writer.start_run(state, 0, Vec::new());
    // xl_heap_header, a byte of padding, and an integer; then xl_heap_insert.
    let tuple = [1, 0, 0, 8, 24, 0, 7, 0, 0, 0];
    for number in 0..2 * pages {
        let is_first = number < pages;
        let init = if is_first { Block::WILL_INIT } else { 0 };
        let mut layout = RecordLayout::default();
        layout.header.rmid = HEAP;
        layout.header.info = if is_first { 0x80 } else { 0 };
        layout.header.xid = 700 + number;
        layout.blocks.push(Block {
            id: 0,
            fork_flags: Block::HAS_DATA | init,
            data_len: tuple.len() as u16,
            data_start: 0,
            image: None,
            locator: RelFileLocator {
                tablespace: 1663,
                database: 5,
                relation: 16384,
            },
            number: number % pages,
        });
        layout.main_header = Some(false);
        layout.main_len = 3;
        let mut record = vec![0; layout.headers_len()];
        record.extend_from_slice(&tuple);
        record.extend_from_slice(&[if is_first { 1 } else { 2 }, 0, 0]);
        layout.write_headers(&mut record);
        writer.record(&record);
    }
    writer.into_bytes()
}

/// What a decoder keeps of pages is bounded by the length of the original: these would take 45 MB.
#[test]
fn pages_beyond_the_bound_go() {
    let segment = segment_of_many_pages(5500);
    assert!(segment.len() < 1 << 20, "{}", segment.len());
    let file = encode_verified(&segment, level(4)).expect("encodes");
    assert_eq!(kind(&file), MemberKind::WalAlone);
    let (original, peak) = peak_of(|| decode(&file).expect("decodes"));
    assert!(original == segment);
    let golden = golden_files().into_iter();
    let mut golden = golden.filter(|(name, _)| name == "v14_many_own_pages.wz");
    let (_, golden) = golden.next().expect("a golden file");
    assert!(decode(&golden).expect("decodes") == segment);
    println!("{} bytes, {peak} to decode", segment.len());
    assert!(peak < 32 << 20, "{peak} bytes for {}", segment.len());
}
