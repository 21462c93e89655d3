//! A damaged file gives an error or the right bytes; never others, never a panic, and never
//! more memory than its header accounts for.
//!
//! Behind its checksums, almost no damage is seen by the models. So most of this damages the
//! content of a member and seals it again, as someone would who wants to do harm.

use std::sync::OnceLock;

use proptest::prelude::*;
use walzip_codec::{DecodeError, Header, Level, VERSION, decode, encode};

use crate::compatibility::golden_files;
use crate::counting_allocator::peak_of;
use crate::inputs::{BEGINNINGS, PAGE, noise, small_segment, text};
use crate::member_file::{MemberFile, block, number, push_number};

/// Bytes that decoding may hold: what the format's limits allow for an original of this
/// length, the original, and some tables.
fn memory_bound(original_len: usize) -> usize {
    (64 << 20) + 40 * original_len
}

#[track_caller]
fn is_refused_or_right(what: &str, file: &[u8], original: &[u8]) {
    let (result, peak) = peak_of(|| decode(file));
    if let Ok(decoded) = result {
        assert!(decoded == original, "{what} decodes to other bytes");
    }
    let bound = memory_bound(original.len());
    assert!(
        peak <= bound,
        "{what}: {peak} bytes of memory, above {bound}"
    );
}

#[test]
fn every_flipped_bit_of_a_file_is_an_error_or_harmless() {
    for (major, beginning) in BEGINNINGS {
        let original = small_segment(beginning);
        let mut file = encode(&original, Level::default()).expect("encodes");
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            is_refused_or_right(&format!("{major}, bit {bit}"), &file, &original);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_flipped_bit_of_a_golden_file_is_an_error_or_harmless() {
    for (name, mut file) in golden_files() {
        let original = decode(&file).expect("a golden file decodes");
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            is_refused_or_right(&format!("{name}, bit {bit}"), &file, &original);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// The members whose content is damaged: one page of records of each major.
fn contents() -> Vec<(&'static str, Vec<u8>, MemberFile)> {
    BEGINNINGS
        .iter()
        .map(|&(major, beginning)| {
            let original = beginning[..PAGE].to_vec();
            let file = encode(&original, Level::default()).expect("encodes");
            (major, original, MemberFile::open(&file))
        })
        .collect()
}

/// The golden files of one member that has content, but for those that are mixed: changing
/// what stands in their place is the business of the fuzzer `mixing_decode`.
fn golden_contents() -> &'static [(String, Vec<u8>, MemberFile)] {
    static CONTENTS: OnceLock<Vec<(String, Vec<u8>, MemberFile)>> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        golden_files()
            .into_iter()
            .filter(|(_, file)| {
                let header = Header::read(file).expect("a header");
                header.original_len > 0 && header.member_len == file.len() as u64
            })
            .filter(|(name, _)| !name.contains("mixed"))
            .map(|(name, file)| {
                let original = decode(&file).expect("a golden file decodes");
                (name, original, MemberFile::open(&file))
            })
            .collect()
    })
}

#[test]
fn a_member_that_is_sealed_again_decodes() {
    for (major, original, member) in contents() {
        let sealed = member.seal(&member.content);
        assert!(decode(&sealed).as_deref() == Ok(&original[..]), "{major}");
    }
}

#[test]
fn every_flipped_bit_of_the_content_is_an_error() {
    for (major, original, member) in contents() {
        let mut content = member.content.clone();
        let directory_len = number(&mut &content[..]) as usize + 4;
        for at in 0..content.len() {
            // Of what the directory says each bit counts; of the streams, one a byte is tried.
            let bits = if at < directory_len || walzip_testing::is_thorough() {
                0..8
            } else {
                at % 8..at % 8 + 1
            };
            for bit in bits {
                content[at] ^= 1 << bit;
                let what = format!("{major}, content {at}, bit {bit}");
                is_refused_or_right(&what, &member.seal(&content), &original);
                content[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn every_truncation_of_the_content_is_an_error() {
    for (major, original, member) in contents() {
        for len in (0..member.content.len()).step_by(3) {
            let what = format!("{major}, {len} bytes of content");
            is_refused_or_right(&what, &member.seal(&member.content[..len]), &original);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if walzip_testing::is_thorough() { 20_000 } else { 1_000 }
    ))]

    /// Several places at once, with the values that numbers go wrong by.
    #[test]
    fn content_changed_in_several_places_is_an_error(
        which in 0..BEGINNINGS.len(),
        places in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(vec![0u8, 1, 0x7F, 0x80, 0xFF]), 1usize..9),
            1..6,
        ),
    ) {
        let (major, original, member) = contents().swap_remove(which);
        let mut content = member.content.clone();
        for (place, value, len) in places {
            let start = place.index(content.len());
            let end = (start + len).min(content.len());
            content[start..end].fill(value);
        }
        is_refused_or_right(major, &member.seal(&content), &original);
    }

    /// The same of every feature of the format. The originals are long but for the most part
    /// zeros, so that this takes its time.
    #[test]
    fn content_of_golden_files_changed_in_several_places_is_an_error(
        which in any::<prop::sample::Index>(),
        places in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 1usize..3),
            1..4,
        ),
    ) {
        let (name, original, member) = which.get(golden_contents());
        let mut content = member.content.clone();
        for (place, value, len) in places {
            let start = place.index(content.len());
            let end = (start + len).min(content.len());
            content[start..end].fill(value);
        }
        is_refused_or_right(name, &member.seal(&content), original);
    }

    #[test]
    fn any_content_is_an_error(content in prop::collection::vec(any::<u8>(), 0..400)) {
        let (major, original, member) = contents().swap_remove(0);
        is_refused_or_right(major, &member.seal(&content), &original);
    }
}

#[test]
fn a_length_that_is_not_there_costs_no_memory() {
    let file = encode(BEGINNINGS[0].1, Level::default()).expect("encodes");
    let member = MemberFile::open(&file);
    for original_len in [0, 1, 1 << 24, 1 << 30] {
        let claimed = member.clone().with_original_len(original_len);
        let (result, peak) = peak_of(|| decode(&claimed.seal(&member.content)));
        assert!(result.is_err(), "{original_len}");
        assert!(peak < 80 << 20, "{original_len}: {peak} bytes");
    }
    let too_long = member.clone().with_original_len((1 << 30) + 1);
    let refused = decode(&too_long.seal(&member.content));
    assert!(
        matches!(refused, Err(DecodeError::Corrupt(_))),
        "{refused:?}"
    );
}

/// Any number of the streams as a length: but for the list of parts of the segment, which comes
/// first and may rightly say that the original is long and zeros.
#[test]
fn a_length_in_a_stream_costs_no_memory_before_its_bytes_are_there() {
    let (_, _, member) = contents().swap_remove(0);
    let directory_len = number(&mut &member.content[..]) as usize;
    let claimed = member.clone().with_original_len(1 << 30);
    for at in directory_len + 64..member.content.len() - 4 {
        let mut content = member.content.clone();
        content[at..at + 4].copy_from_slice(&((1u32 << 30) - 1).to_le_bytes());
        let (result, peak) = peak_of(|| decode(&claimed.seal(&content)));
        assert!(result.is_err(), "{at}");
        assert!(peak < 96 << 20, "{at}: {peak} bytes");
    }
}

#[test]
fn a_block_that_claims_more_than_the_original_has_is_an_error() {
    let original = text(1000);
    let file = encode(&original, Level::default()).expect("encodes");
    let member = MemberFile::open(&file).with_original_len(10);
    let refused = decode(&member.seal(&original));
    assert!(
        matches!(refused, Err(DecodeError::Corrupt(_))),
        "{refused:?}"
    );
}

#[test]
fn what_is_no_file_of_ours_is_said_to_be_none() {
    for bytes in [&b""[..], b"W", b"WAL", b"\x28\xB5\x2F\xFD", &noise(100, 9)] {
        let expected = if b"WALZ".starts_with(bytes) && !bytes.is_empty() {
            DecodeError::Truncated("header")
        } else {
            DecodeError::NotWalzip
        };
        assert_eq!(decode(bytes), Err(expected.clone()));
        assert_eq!(Header::read(bytes), Err(expected));
    }
}

#[test]
fn a_version_that_is_not_known_is_said_to_be_one() {
    let mut file = encode(b"text", Level::default()).expect("encodes");
    for version in [VERSION + 1, 0, 255] {
        file[4] = version;
        let refused = decode(&file).expect_err("not a version of ours");
        assert_eq!(
            refused.to_string(),
            format!("format version {version}, this walzip reads up to {VERSION}")
        );
    }
}

/// Each mixed block costs tables and a pass over the directory, even if it stands for nothing.
#[test]
fn a_block_behind_mixed_streams_is_an_error() {
    let mixed = golden_files()
        .into_iter()
        .filter(|(name, _)| name.contains("mixed"));
    let mut tried = 0;
    for (name, file) in mixed {
        let member = MemberFile::open(&file);
        assert!(decode(&member.seal_blocks(&member.body)).is_ok(), "{name}");
        for behind in [block(2, 0, &[0]), block(0, 0, &[])] {
            let body = [&member.body[..], &behind].concat();
            let refused = decode(&member.seal_blocks(&body));
            assert_eq!(
                refused,
                Err(DecodeError::Corrupt("a block behind mixed streams")),
                "{name}"
            );
        }
        tried += 1;
    }
    assert!(tried > 0);
}

/// A directory that names more streams than it has room for, or than a member may have.
#[test]
fn a_directory_that_lies_is_an_error() {
    let (_, _, member) = contents().swap_remove(0);
    for count in [1, 1000, 1 << 20, (1 << 20) + 1, u64::MAX] {
        let mut directory = vec![0];
        push_number(&mut directory, count);
        directory.push(255);
        let mut content = Vec::new();
        push_number(&mut content, directory.len() as u64);
        content.extend(directory);
        let (result, peak) = peak_of(|| decode(&member.seal(&content)));
        assert!(result.is_err(), "{count} streams");
        assert!(peak < 80 << 20, "{count} streams: {peak} bytes");
    }
}
