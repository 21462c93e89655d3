//! Segments that are told from those before them come back, after those and after nothing else.
//!
//! The golden files are sequences of segments of 1 MB: `pg13` and `pg18_pglz` of pgbench, and for each
//! major `changes`: inserts, updates, deletes, locks, vacuums and freezing of a table with two B-trees
//! that split and lose pages, and checkpoints between them. The example `history` made them. The
//! first ones are of format 7, `v8_*` are of the same segments. `v9_*` are of rows in no order in a
//! table with B-trees on numbers, texts, uuids, times and on several of them. `v11_*` are of a table with
//! GIN, GiST, SP-GiST, hash and BRIN indexes, its rows inserted, updated, deleted and vacuumed. `v12_many_pages`
//! is of two hash indexes that were made large for rows that never came: 115,000 pages, which are more than a history
//! keeps. 34 MB of messages came between the two, and are left out. `v13_*` are of a table with uuids, texts and
//! arrays under B-trees and GIN, whose rows are updated before and after the pages of its indexes are first seen.
//! What replay does is part of the format, and they hold it. `left.txt` has the hash of what each sequence leaves.

use std::fs;
use std::path::Path;

use walzip_codec::{
    DecodeError, DecodeToError, EncodeError, Header, HistoryDecoder, HistoryEncoder, Level,
    MemberKind, OptionalModel, decode, encode,
};

use crate::counting_allocator::peak_of;
use crate::inputs::noise;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/history");

/// Memory that a decoder of segments of a MB takes at most, without the pages of its history.
const DECODER_MAX: usize = 64 << 20;

/// Golden files of segments that follow one another: in the order of their WAL.
fn golden(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(FOLDER).join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("a folder of golden files")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 4, "{}", folder.display());
    let read = |path| fs::read(path).expect("a golden file");
    paths.iter().map(read).collect()
}

/// Decodes files one after the other. Their headers have the hashes of the originals.
fn decoded(files: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, DecodeToError> {
    let mut decoder = HistoryDecoder::new();
    let decode = |file: &Vec<u8>| {
        let mut segment = Vec::new();
        decoder.decode(file, &mut segment)?;
        Ok(segment)
    };
    files.iter().map(decode).collect()
}

pub fn segments(name: &str) -> Vec<Vec<u8>> {
    decoded(&golden(name)).expect("segments")
}

fn encoded(segments: &[Vec<u8>], level: u8) -> Result<Vec<Vec<u8>>, EncodeError> {
    let mut encoder = HistoryEncoder::new(Level::new(level).expect("a level"));
    segments
        .iter()
        .map(|segment| encoder.encode(segment))
        .collect()
}

fn kinds(files: &[Vec<u8>]) -> Vec<MemberKind> {
    let kind = |file: &Vec<u8>| Header::read(file).expect("a header").kind;
    files.iter().map(kind).collect()
}

/// Each sequence of golden files.
const ALL: [&str; 23] = [
    "pg13",
    "pg13_changes",
    "pg14_changes",
    "pg15_changes",
    "pg16_changes",
    "pg17_changes",
    "pg18_changes",
    "pg18_pglz",
    "v8_pg13_changes",
    "v8_pg14_changes",
    "v8_pg15_changes",
    "v8_pg16_changes",
    "v8_pg17_changes",
    "v8_pg18_changes",
    "v9_pg13_leaves",
    "v9_pg15_leaves",
    "v9_pg18_leaves",
    "v11_pg13_indexes",
    "v11_pg16_indexes",
    "v11_pg18_indexes",
    "v13_pg13_rows",
    "v13_pg16_rows",
    "v13_pg18_rows",
];

/// More pages than a history keeps. Its memory is too much for tests that keep several histories.
const MANY_PAGES: &str = "v12_many_pages";

#[test]
fn golden_files_decode_to_what_they_did_when_they_were_made() {
    for name in ALL {
        let files = golden(name);
        assert_eq!(kinds(&files), vec![MemberKind::WalAfter; files.len()]);
        for segment in segments(name) {
            assert_eq!(segment.len(), 1 << 20);
        }
    }
}

/// The pages after the last segment as well: most get no image any more.
#[test]
fn what_is_passed_leaves_what_decoding_leaves() {
    for name in ALL {
        let mut segments = segments(name);
        // Told from nothing, and nothing before it is known after it.
        segments.insert(1, noise(5000, 1));
        let (mut decoder, mut passing) = (HistoryDecoder::new(), HistoryDecoder::new());
        for file in encoded(&segments, 1).expect("encoded") {
            let decoded = decoder.decode(&file, &mut std::io::sink());
            decoded.expect("decodes");
            passing.pass(&file).expect("passed");
            assert!(passing.history_hash() == decoder.history_hash(), "{name}");
        }
        assert!(HistoryDecoder::new().pass(b"no member").is_err());
    }
}

#[test]
fn golden_files_leave_what_they_did_when_they_were_made() {
    let left = |name: &&str| {
        let files = golden(name);
        let mut decoder = HistoryDecoder::new();
        for file in &files {
            let decoded = decoder.decode(file, &mut std::io::sink());
            decoded.expect("decodes");
        }
        let hash = decoder.history_hash();
        // Not beside the other: of many pages, each takes 640 MiB.
        drop(decoder);
        let mut passing = HistoryDecoder::new();
        for file in &files {
            passing.pass(file).expect("passed");
        }
        assert!(passing.history_hash() == hash, "{name}");
        format!("{}  {name}\n", blake3::Hash::from_bytes(hash))
    };
    let left: String = ALL.iter().chain([&MANY_PAGES]).map(left).collect();
    let expected = Path::new(FOLDER).join("left.txt");
    let expected = fs::read_to_string(expected).expect("left.txt");
    assert!(left == expected, "{left}");
}

#[test]
fn segments_come_back_at_every_level_and_are_small() {
    for name in ALL {
        let segments = segments(name);
        for level in [1, 3, 6, 9] {
            let files = encoded(&segments, level).expect("encodes");
            assert_eq!(kinds(&files), vec![MemberKind::WalAfter; files.len()]);
            assert!(decoded(&files).expect("decodes") == segments);
            let level = Level::new(level).expect("a level");
            let last = segments.last().expect("segments");
            let alone = encode(last, level).expect("encodes").len();
            let after = files.last().expect("files").len();
            assert!(after * 5 < alone * 4, "{name}: {after} of {alone} bytes");
        }
    }
}

/// Segments take more without each of the models that tell data from pages.
#[test]
fn what_follows_from_pages_is_not_stored() {
    let len = |mut encoder: HistoryEncoder, segments: &[Vec<u8>]| {
        let files = segments.iter().map(|segment| encoder.encode(segment));
        let files: Result<Vec<_>, EncodeError> = files.collect();
        let files = files.expect("encodes");
        assert!(decoded(&files).expect("decodes") == segments);
        files.iter().map(Vec::len).sum::<usize>()
    };
    for (name, model, part) in [
        ("v11_pg16_indexes", OptionalModel::GinEntries, 20),
        ("v11_pg16_indexes", OptionalModel::Pruning, 200),
        ("v13_pg16_rows", OptionalModel::LeafKeys, 10),
        ("v13_pg16_rows", OptionalModel::WholeRows, 20),
    ] {
        let segments = segments(name);
        let all = len(HistoryEncoder::new(Level::MIN), &segments);
        let without = len(HistoryEncoder::new(Level::MIN).without(model), &segments);
        assert!(
            without > all + all / part,
            "{model:?}: {without}, with it {all}"
        );
    }
}

#[test]
fn a_segment_needs_those_before_it() {
    for name in ALL {
        let files = golden(name);
        assert_eq!(decode(&files[0]), Err(DecodeError::HistoryNeeded));
        for missing in 0..files.len() - 1 {
            let mut files = files.clone();
            files.remove(missing);
            assert!(decoded(&files[missing..]).is_err(), "{name} {missing}");
            assert!(decoded(&files).is_err(), "{name} {missing}");
        }
        let mut swapped = files.clone();
        swapped.swap(1, 2);
        assert!(decoded(&swapped).is_err());
    }
}

/// What is encoded alone stands for no history, on both sides.
#[test]
fn what_is_no_segment_ends_a_history_and_another_begins() {
    let mut inputs = segments("pg13");
    inputs.insert(2, noise(70_000, 5));
    inputs.insert(5, Vec::new());
    inputs[4].truncate(300_000);
    let other = segments("pg18_pglz");
    inputs.extend(other.iter().take(2).cloned());
    inputs.remove(1);
    let files = encoded(&inputs, 1).expect("encodes");
    assert!(decoded(&files).expect("decodes") == inputs);
    assert!(kinds(&files).contains(&MemberKind::Foreign));
    assert_eq!(kinds(&files).last(), Some(&MemberKind::WalAfter));
}

/// A record that was begun on a timeline that ended, and other WAL in its place.
#[test]
fn segments_may_be_missing_or_come_again() {
    let segments = segments("pg13");
    let order = [0, 1, 3, 3, 2, 5, 0];
    let inputs: Vec<Vec<u8>> = order.iter().map(|&at| segments[at].clone()).collect();
    let files = encoded(&inputs, 3).expect("encodes");
    assert!(decoded(&files).expect("decodes") == inputs);
}

#[test]
fn damage_is_found() {
    let files = golden("pg13");
    let last = files.len() - 1;
    for at in (0..files[last].len()).step_by(97) {
        let mut files = files.clone();
        files[last][at] ^= 0x10;
        assert!(decoded(&files[last..]).is_err(), "{at}");
    }
    let mut cut = files.clone();
    cut[last].truncate(files[last].len() / 2);
    assert!(decoded(&cut).is_err());
}

#[test]
fn segments_that_are_damaged_come_back() {
    let mut segments = segments("pg18_pglz");
    for (number, segment) in segments.iter_mut().enumerate() {
        for at in (5000 + number * 377..segment.len()).step_by(40_009) {
            segment[at] ^= 0x21;
        }
    }
    let files = encoded(&segments, 1).expect("encodes");
    assert!(decoded(&files).expect("decodes") == segments);
}

#[test]
fn a_decoder_takes_little_more_than_its_pages() {
    let files = golden("pg13");
    let (segments, peak) = peak_of(|| decoded(&files).expect("decodes"));
    let pages: usize = segments.iter().map(Vec::len).sum();
    assert!(peak < DECODER_MAX + 8 * pages, "{peak}");
}
