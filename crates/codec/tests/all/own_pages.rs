//! Segments that are told from the pages that they have themselves, as the levels from 4 on make them.

use walzip_codec::{
    Encoder, Header, HistoryDecoder, HistoryEncoder, Level, MemberKind, decode, encode,
    encode_verified,
};

use crate::compatibility::golden_files;
use crate::counting_allocator::peak_of;
use crate::history::segments;

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

/// What a decoder keeps of pages is bounded by the length of the original.
#[test]
fn decoding_takes_memory_in_proportion_to_the_original() {
    for (name, file) in golden_files() {
        if kind(&file) == MemberKind::WalAlone && !name.contains("mixed") {
            let (original, peak) = peak_of(|| decode(&file).expect("decodes"));
            let most = (16 << 20) + 12 * original.len();
            assert!(peak < most, "{name}: {peak} bytes for {}", original.len());
        }
    }
}
