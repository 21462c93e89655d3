//! Long segments in parts: each is a member, and together they are the segment again.

use proptest::prelude::*;
use walzip_codec::{Claims, DecodeError, Encoder, Header, Level, decode, decode_member};
use walzip_testing::samples;

use crate::inputs::{BEGINNINGS, PAGE, SMALL_SEGMENT, small_segment};
use crate::member_file::MemberFile;

/// The members of an input, encoded in parts of so many bytes.
fn members(input: &[u8], part_len: usize, level: Level) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(level, true).with_part_len(part_len);
    let mut rest = input;
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(encoder.member_len(rest).min(rest.len()));
        members.push(encoder.encode(part).expect("encodes"));
        rest = behind;
    }
    members
}

/// Every member is a part where it ought to be, and all are the input.
#[track_caller]
fn come_back(what: &str, input: &[u8], part_len: usize, level: Level) -> Vec<u8> {
    let members = members(input, part_len, level);
    assert_eq!(members.len(), input.len().div_ceil(part_len), "{what}");
    let first = Header::read(&members[0]).expect("a header").identity;
    let first = first.unwrap_or_else(|| panic!("{what}: the first part is foreign"));
    for (number, member) in members.iter().enumerate() {
        let offset = number * part_len;
        let header = Header::read(member).expect("a header");
        let identity = header.identity.expect("WAL");
        assert_eq!(identity.start.0, first.start.0 + offset as u64, "{what}");
        let of_first = walzip_codec::WalIdentity {
            start: first.start,
            ..identity
        };
        assert_eq!(of_first, first, "{what}");
        // A part needs no other to be decoded.
        let (part, len) = decode_member(member, Claims::Bounded).expect("decodes");
        assert_eq!(len, member.len());
        let end = input.len().min(offset + part_len);
        assert!(part == input[offset..end], "{what}, part {number}");
    }
    let file = members.concat();
    assert!(decode(&file).as_deref() == Ok(input), "{what}");
    file
}

#[test]
fn records_go_on_from_part_to_part() {
    for (major, beginning) in BEGINNINGS {
        let segment = small_segment(beginning);
        for level in [Level::MIN, Level::default(), Level::MAX] {
            come_back(major, &segment[..2 * PAGE], PAGE, level);
            come_back(major, &segment, 16 * PAGE, level);
        }
    }
}

#[test]
fn samples_in_parts_come_back_and_are_not_much_larger() {
    for sample in samples::all().iter().take(4) {
        let segment = sample.read();
        let whole = come_back(&sample.workload, &segment, segment.len(), Level::MIN);
        let parts = come_back(&sample.workload, &segment, segment.len() / 4, Level::MIN);
        // Parts this short begin anew where the model has just learned what there is.
        let most = whole.len() * 3 / 2 + 4096;
        assert!(
            parts.len() <= most,
            "{}: {} bytes, in parts {}",
            sample.workload,
            whole.len(),
            parts.len()
        );
    }
}

#[test]
fn what_follows_a_segment_in_parts_begins_anew() {
    let first = small_segment(BEGINNINGS[2].1);
    let second = small_segment(BEGINNINGS[4].1);
    let input = [&first[..], &second, b"and text"].concat();
    let starts: Vec<Option<u64>> = members(&input, SMALL_SEGMENT / 2, Level::MIN)
        .iter()
        .map(|member| Header::read(member).expect("a header").identity)
        .map(|identity| identity.map(|identity| identity.start.0 % SMALL_SEGMENT as u64))
        .collect();
    let half = Some(SMALL_SEGMENT as u64 / 2);
    assert_eq!(starts, [Some(0), half, Some(0), half, None]);
}

/// A part of the segment of a beginning, as a file of its own, and its content.
fn second_part() -> MemberFile {
    let segment = small_segment(BEGINNINGS[2].1);
    MemberFile::open(&members(&segment, PAGE, Level::MIN)[1])
}

#[test]
fn a_part_that_no_encoder_writes_is_refused() {
    const START: usize = 14;
    const SEGMENT_SIZE: usize = 22;
    let part = second_part();
    let seal = |member: &MemberFile| member.seal(&member.content);
    assert_eq!(decode(&seal(&part)).expect("decodes").len(), PAGE);
    let refused = |member: MemberFile| {
        let error = decode(&seal(&member)).expect_err("no encoder writes it");
        assert_eq!(error, DecodeError::Corrupt("identity of no segment"));
    };
    // Formats 1 to 4 have no parts.
    refused(part.clone().with_version(4));
    let size = SMALL_SEGMENT as u32;
    for segment_size in [0, 1, size - 1, size / 2, size * 3, 1 << 31] {
        refused(
            part.clone()
                .with_identity(SEGMENT_SIZE, &segment_size.to_le_bytes()),
        );
    }
    let start = |start: usize| (start as u64).to_le_bytes();
    // Not at a page, and beyond the end of the segment.
    refused(part.clone().with_identity(START, &start(PAGE / 2)));
    let at_the_end = part
        .clone()
        .with_identity(START, &start(SMALL_SEGMENT - PAGE));
    refused(at_the_end.with_original_len(PAGE as u64 + 1));
    // As the first part its first page has a header of other length and place.
    let first = part.with_identity(START, &start(0));
    assert!(decode(&seal(&first)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parts_of_any_length_come_back(
        number in 0..BEGINNINGS.len(),
        pages in 1usize..9,
        changes in proptest::collection::vec((0usize..20 * PAGE, any::<u8>()), 0..6),
    ) {
        let mut segment = small_segment(BEGINNINGS[number].1);
        segment.truncate(20 * PAGE + 77);
        for (at, byte) in changes {
            // What says that it is a segment stays.
            if at >= 40 {
                segment[at] = byte;
            }
        }
        come_back("a changed segment", &segment, pages * PAGE, Level::MIN);
    }
}
