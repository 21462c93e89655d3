//! Any bytes come back, and cost little where nothing is known of them.

use proptest::prelude::*;
use walzip_codec::{
    Encoder, Header, Level, OptionalModel, StreamKind, account, decode, encode, encode_verified,
    encode_without,
};
use walzip_pgformat::wal::RECORD_HEADER_LEN;
use walzip_testing::samples;

use crate::inputs::{BEGINNINGS, PAGE, SMALL_SEGMENT, noise, small_segment, text, with_records};

fn level(number: u8) -> Level {
    Level::new(number).expect("a level")
}

/// Encodes and decodes; the encoding is not proven before.
#[track_caller]
fn round_trip(what: &str, input: &[u8], level: Level) -> Vec<u8> {
    let file = encode(input, level).expect("encodes");
    assert!(
        decode(&file).as_deref() == Ok(input),
        "{what} at level {level} does not come back"
    );
    file
}

/// As [`round_trip`], and the bytes were understood as WAL.
#[track_caller]
fn wal_round_trip(what: &str, input: &[u8], level: Level) -> Vec<u8> {
    let file = round_trip(what, input, level);
    let header = Header::read(&file).expect("a header");
    assert!(header.identity.is_some(), "{what} was taken for foreign");
    file
}

fn samples_at(level: Level) {
    for sample in samples::all() {
        wal_round_trip(&sample.workload, &sample.read(), level);
    }
}

#[test]
fn every_sample_comes_back_at_the_default_level() {
    samples_at(Level::default());
}

#[test]
fn samples_come_back_at_every_level() {
    if walzip_testing::is_thorough() {
        for number in 1..=9 {
            samples_at(level(number));
        }
        return;
    }
    for (workload, number) in [
        ("oltp-steady", 1),
        ("pg18full-oltp-zstd", 1),
        ("bulk-copy", 9),
    ] {
        if let Some(sample) = samples::of_workload(workload) {
            wal_round_trip(workload, &sample.read(), level(number));
        }
    }
}

#[test]
fn small_segments_come_back_at_every_level() {
    for (major, beginning) in BEGINNINGS {
        let segment = small_segment(beginning);
        for number in 1..=9 {
            let file = wal_round_trip(major, &segment, level(number));
            assert!(
                file.len() < beginning.len(),
                "{major}: {} bytes",
                file.len()
            );
        }
    }
}

#[test]
fn keys_of_gin_indexes_follow_from_rows() {
    let (_, beginning) = BEGINNINGS
        .iter()
        .find(|(name, _)| name.contains("GIN"))
        .expect("one with GIN");
    let kinds = account(&small_segment(beginning), Level::default());
    let kinds = kinds.expect("zstd works").expect("a segment");
    let keys = kinds.iter().find(|kind| kind.kind == StreamKind::IndexKey);
    // What is left: trigrams with a letter that is not ASCII, eight bytes each.
    let bytes = keys.map_or(0, |keys| keys.stream_bytes);
    assert!(bytes <= 9 * 3 * 8, "{bytes}");
}

#[test]
fn texts_take_less_in_words() {
    let (_, beginning) = BEGINNINGS
        .iter()
        .find(|(name, _)| name.contains("texts"))
        .expect("one with texts");
    let segment = small_segment(beginning);
    let level = Level::default();
    let with = encode(&segment, level).expect("zstd works").len();
    let without = encode_without(&segment, level, OptionalModel::Words);
    let without = without.expect("zstd works").len();
    assert!(with * 5 < without * 4, "{with} bytes, {without} without");
}

#[test]
fn foreign_bytes_come_back() {
    let header = &BEGINNINGS[0].1[..40];
    let inputs: &[(&str, Vec<u8>)] = &[
        ("nothing", Vec::new()),
        ("one byte", vec![7]),
        ("text", text(10_000)),
        ("noise", noise(100_000, 1)),
        ("zeros", vec![0; 1 << 20]),
        ("the beginning of a header", header[..39].to_vec()),
        (
            "a file of ours",
            encode(header, Level::default()).expect("encodes"),
        ),
    ];
    for (what, input) in inputs {
        for number in [1, 3, 9] {
            let file = round_trip(what, input, level(number));
            assert_eq!(
                Header::read(&file).expect("a header").identity,
                None,
                "{what}"
            );
        }
    }
}

#[test]
fn a_header_followed_by_anything_comes_back() {
    let header = &BEGINNINGS[2].1[..40];
    for (what, junk) in [
        ("nothing", Vec::new()),
        ("a byte", vec![1]),
        ("noise", noise(SMALL_SEGMENT, 2)),
        ("zeros", vec![0; SMALL_SEGMENT]),
        ("text", text(2000)),
    ] {
        let input = [header, &junk[..]].concat();
        wal_round_trip(what, &input, Level::default());
    }
}

#[test]
fn segments_cut_anywhere_come_back() {
    for (major, beginning) in BEGINNINGS {
        let lens = (40..200).chain((200..beginning.len()).step_by(97));
        for len in lens.chain([PAGE - 1, PAGE, PAGE + 1, PAGE + 24, PAGE + 25]) {
            wal_round_trip(major, &beginning[..len], level(1));
        }
    }
}

/// The first MiB of samples, in which much happens, and which take a moment each.
fn busy_inputs() -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<(String, Vec<u8>)> = BEGINNINGS
        .iter()
        .map(|(major, beginning)| (format!("PostgreSQL {major}"), small_segment(beginning)))
        .collect();
    for sample in samples::all() {
        let mut segment = sample.read();
        segment.truncate(32 * PAGE);
        inputs.push((sample.workload.clone(), segment));
    }
    inputs
}

#[test]
fn damaged_pages_in_the_middle_come_back() {
    for (what, input) in busy_inputs() {
        for (number, damage) in [noise(PAGE, 3), vec![0; PAGE], noise(20, 4)]
            .iter()
            .enumerate()
        {
            let mut segment = input.clone();
            let page = (segment.len() / PAGE / 2).min(1 + number) * PAGE;
            segment[page..page + damage.len()].copy_from_slice(damage);
            wal_round_trip(&what, &segment, level(1));
        }
    }
}

#[test]
fn the_tail_of_an_older_segment_comes_back() {
    for (what, input) in busy_inputs() {
        let mut segment = input.clone();
        let start = u64::from_le_bytes(segment[8..16].try_into().expect("eight bytes"));
        // From the second page on, everything belongs to a segment of long ago.
        for page in (PAGE..segment.len()).step_by(PAGE) {
            let old = start.wrapping_sub(1 << 32).wrapping_add(page as u64);
            segment[page + 8..page + 16].copy_from_slice(&old.to_le_bytes());
        }
        wal_round_trip(&what, &segment, level(1));
    }
}

/// As a server leaves it that crashed in the middle of a record and went on behind it: the
/// next page begins with a new record and says that the old one is lost.
#[test]
fn an_overwritten_continuation_comes_back() {
    let mut found = 0;
    for (what, mut segment) in busy_inputs() {
        for page in (PAGE..segment.len()).step_by(PAGE) {
            let flags = segment[page + 2];
            if flags & 1 != 0 {
                found += 1;
                let magic = u16::from_le_bytes([segment[page], segment[page + 1]]);
                let overwrite = if magic >= 0xD121 { 4 } else { 8 };
                segment[page + 2] = (flags & !1) | overwrite;
                segment[page + 16..page + 20].fill(0);
            }
        }
        wal_round_trip(&what, &segment, level(1));
    }
    assert!(found > 0, "no page goes on with a record of before");
}

/// A continued record whose padding is not zero, and one that is cut within its padding.
#[test]
fn the_end_of_a_continued_record_comes_back_whatever_follows_it() {
    let mut tried = 0;
    for (what, segment) in busy_inputs() {
        let contrecord = (0..segment.len())
            .step_by(PAGE)
            .find(|page| segment[page + 2] & 1 != 0);
        let Some(page) = contrecord else { continue };
        let field = segment[page + 16..page + 20]
            .try_into()
            .expect("four bytes");
        let left = u32::from_le_bytes(field) as usize;
        let header_len = if page == 0 { 40 } else { 24 };
        let end = page + header_len + left;
        if left > PAGE - header_len - 8 || end.is_multiple_of(8) {
            continue;
        }
        tried += 1;
        wal_round_trip(&what, &segment[..end], level(1));
        let mut dirty = segment.clone();
        dirty[end] = 1;
        wal_round_trip(&what, &dirty, level(1));
    }
    assert!(tried > 0 || samples::all().is_empty(), "no such record");
}

#[test]
fn segments_one_after_the_other_are_members_of_one_file() {
    let first = small_segment(BEGINNINGS[0].1);
    let second = small_segment(BEGINNINGS[5].1);
    let both = [&first[..], &second].concat();
    let encoder = Encoder::new(level(1), true);
    assert_eq!(encoder.member_len(&both), SMALL_SEGMENT);
    let file = round_trip("two segments", &both, level(1));
    let parts = [first, second].map(|segment| encode_verified(&segment, level(1)));
    assert!(file == parts.map(|part| part.expect("encodes")).concat());
}

/// What `zstd` would write at the same level of its own, but for its checksum.
fn zstd_len(input: &[u8], level: i32) -> usize {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(input.len()));
    zstd_safe::compress(&mut packed, input, level).expect("zstd works")
}

#[test]
fn foreign_bytes_cost_at_most_64_bytes_over_zstd() {
    let mut inputs = vec![
        ("nothing", Vec::new()),
        ("one byte", vec![7]),
        ("text", text(10_000)),
        ("noise", noise(3 << 20, 5)),
        ("zeros", vec![0; 1 << 20]),
    ];
    if let Some(sample) = samples::of_workload("bulk-copy") {
        // Without its first byte, a segment is as foreign as anything.
        inputs.push(("a shifted segment", sample.read().split_off(1)));
    }
    for (what, input) in &inputs {
        for (ours, zstd) in [(1, 1), (2, 2), (3, 3), (4, 6), (5, 9)] {
            let file = encode(input, level(ours)).expect("encodes");
            let over = file.len() as i64 - zstd_len(input, zstd) as i64;
            assert!(over <= 64, "{what} at level {ours}: {over} bytes over zstd");
        }
    }
}

#[test]
fn what_cannot_be_compressed_costs_at_most_64_bytes_and_a_thousandth() {
    let header = BEGINNINGS[2].1[..40].to_vec();
    for len in [0, 1, 100, 8192, 1 << 20] {
        for number in [1, 3, 9] {
            let foreign = noise(len, 6);
            let file = encode(&foreign, level(number)).expect("encodes");
            assert!(file.len() <= len + 64 + len / 1000, "{len}: {}", file.len());
            // A segment that is not one but for its first bytes: its identity comes on top.
            let wal = [&header[..], &foreign[40.min(len)..]].concat();
            let file = encode(&wal, level(number)).expect("encodes");
            let most = wal.len() + 64 + 26 + 40 + wal.len() / 1000;
            assert!(file.len() <= most, "{len} of WAL: {}", file.len());
        }
    }
}

/// Where bytes are changed, and to what.
fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    let places = (any::<prop::sample::Index>(), any::<u8>(), 1u8..=24);
    prop::collection::vec(places, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if walzip_testing::is_thorough() { 4096 } else { 192 }
    ))]

    /// Records whose checksum is wrong are no records: this is about what is around them.
    #[test]
    fn changed_segments_come_back(
        which in 0..BEGINNINGS.len(),
        mutations in mutations(),
    ) {
        let mut segment = BEGINNINGS[which].1.to_vec();
        mutate(&mut segment, &mutations);
        prop_assert_eq!(decode(&encode(&segment, level(1)).unwrap()), Ok(segment.clone()));
        let file = encode_verified(&segment, level(1));
        prop_assert_eq!(decode(&file.unwrap()), Ok(segment));
    }

    /// Records with a right checksum and data that no server would write.
    #[test]
    fn changed_records_come_back(
        which in 0..BEGINNINGS.len(),
        mutations in mutations(),
    ) {
        let segment = with_changed_records(BEGINNINGS[which].1, &mutations);
        prop_assert_eq!(decode(&encode(&segment, level(1)).unwrap()), Ok(segment.clone()));
        let file = encode_verified(&segment, level(1));
        prop_assert_eq!(decode(&file.unwrap()), Ok(segment));
    }

    #[test]
    fn any_bytes_come_back(bytes: Vec<u8>) {
        prop_assert_eq!(decode(&encode_verified(&bytes, level(2)).unwrap()), Ok(bytes));
    }
}

fn mutate(bytes: &mut [u8], mutations: &[(prop::sample::Index, u8, u8)]) {
    for (place, value, len) in mutations {
        let start = place.index(bytes.len());
        let end = (start + usize::from(*len)).min(bytes.len());
        // Few bytes of a structure may be anything; so most changes are of one byte.
        let end = if value & 3 == 0 { end } else { start + 1 };
        bytes[start..end].fill(*value);
    }
}

/// Changes the data of records behind their fixed headers, and makes their checksums right.
fn with_changed_records(segment: &[u8], mutations: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    with_records(segment, |records| {
        for (place, value, len) in mutations {
            let record = &mut place.get_mut(&mut records[..]).1;
            let data = &mut record[RECORD_HEADER_LEN..];
            if !data.is_empty() {
                let at = usize::from(*value) * usize::from(*len) % data.len();
                let end = (at + usize::from(len % 3) + 1).min(data.len());
                data[at..end].iter_mut().for_each(|byte| *byte ^= value | 1);
            }
        }
    })
}
