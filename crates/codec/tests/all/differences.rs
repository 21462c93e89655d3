//! Changed blocks come back from what they were told from, and from nothing else.

use std::fs;
use std::sync::OnceLock;

use proptest::prelude::*;
use walzip_codec::{
    CHUNK_LEN_MAX, DecodeError, EncodeError, Extent, Header, Level, MemberKind, decode,
    decode_differences, encode_differences,
};
use walzip_pgformat::page_checksum::page_checksum;

use crate::counting_allocator::peak_of;
use crate::inputs::{PAGE, noise};
use crate::member_file::MemberFile;

const GOLDEN: &str = "tests/golden/differences/v7_differences.wz";

/// Pages of a server, those of a golden file.
fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let file = fs::read("tests/golden/v7_heap_pages.wz").expect("a golden file");
        let mut base = decode(&file).expect("pages");
        base.truncate(base.len() / PAGE * PAGE);
        base
    })
}

/// What a server might have made of them, and more.
fn changed() -> Vec<u8> {
    let mut bytes = base().to_vec();
    for page in bytes.chunks_exact_mut(PAGE) {
        page.copy_within(8000..8100, 4000);
        page.copy_within(2000..2300, 2060);
        page[3000..3040].fill(0);
        page.iter_mut().step_by(1013).for_each(|byte| *byte ^= 0x55);
    }
    bytes
}

fn pages(relation: u32, first_block: u32, len: usize) -> Extent {
    Extent::Pages {
        relation,
        first_block,
        pages: (len / PAGE) as u32,
    }
}

fn other(len: usize) -> Extent {
    Extent::Bytes { len: len as u32 }
}

#[track_caller]
fn comes_back(extents: &[Extent], bytes: &[u8], base: &[u8], level: Level) -> Vec<u8> {
    let member = encode_differences(extents, bytes, base, level, true);
    let member = member.expect("encodes").expect("whole blocks");
    assert_eq!(
        Header::read(&member).expect("a header").kind,
        MemberKind::Differences
    );
    assert!(decode_differences(&member, base).as_deref() == Ok(bytes));
    member
}

#[test]
fn changed_pages_come_back_at_every_level_and_are_small() {
    let bytes = changed();
    for level in 1..=9 {
        let level = Level::new(level).expect("a level");
        let member = comes_back(&[pages(3, 5, bytes.len())], &bytes, base(), level);
        assert!(member.len() < bytes.len() / 40, "{} bytes", member.len());
    }
}

#[test]
fn a_golden_file_decodes_to_what_it_did_when_it_was_made() {
    let member = fs::read(GOLDEN).expect("a golden file");
    assert!(decode_differences(&member, base()).as_deref() == Ok(&changed()[..]));
}

#[test]
fn checksums_of_pages_need_no_bytes_where_they_fit() {
    let with_checksums = |bytes: &[u8], first: u32, wrong: bool| {
        let mut bytes = bytes.to_vec();
        for (block, page) in (first..).zip(bytes.as_chunks_mut::<PAGE>().0) {
            let checksum = page_checksum(page, block) ^ u16::from(wrong);
            page[8..10].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes
    };
    let base = with_checksums(base(), 7, false);
    let len = base.len();
    let lens = [false, true].map(|wrong| {
        let bytes = with_checksums(&changed(), 7, wrong);
        comes_back(&[pages(0, 7, len)], &bytes, &base, Level::MIN).len()
    });
    assert!(lens[0] < lens[1], "{lens:?}");
    // A checksum of 0, which is none, and pages that were none.
    comes_back(&[pages(0, 7, len)], &changed(), &vec![0; len], Level::MIN);
    comes_back(&[pages(0, 7, len)], &vec![0; len], &base, Level::MIN);
}

#[test]
fn blocks_of_anything_come_back_in_any_order_of_extents() {
    let bytes = changed();
    let half = bytes.len() / PAGE / 2 * PAGE;
    let extents = [
        other(PAGE),
        pages(9, u32::MAX, half - PAGE),
        pages(2, 0, 0),
        pages(4, 1, PAGE),
        pages(9, 3, bytes.len() - half - 2 * PAGE),
        other(PAGE),
    ];
    comes_back(&extents, &bytes, base(), Level::MIN);
    let any = noise(bytes.len(), 3);
    comes_back(&extents, &any, base(), Level::MIN);
    comes_back(&extents, &bytes, &any, Level::MIN);
    comes_back(&[], &[], &[], Level::MIN);
}

#[test]
fn nothing_is_told_from_what_has_another_length() {
    let (bytes, len) = (changed(), base().len());
    let extents = [pages(0, 0, len)];
    let shorter = &base()[..len - PAGE];
    let refused = encode_differences(&extents, &bytes, shorter, Level::MIN, true);
    assert!(matches!(refused, Err(EncodeError::Base { .. })));
    let fewer = [pages(0, 0, len - PAGE)];
    let refused = encode_differences(&fewer, &bytes, base(), Level::MIN, true);
    assert!(matches!(refused, Err(EncodeError::Extents { .. })));
    // Not of whole blocks.
    for extents in [vec![other(100)], vec![other(100), other(PAGE - 100)]] {
        let len = extents.iter().map(|extent| extent.len() as usize).sum();
        let part = &bytes[..len];
        let member = encode_differences(&extents, part, &base()[..len], Level::MIN, true);
        assert_eq!(member.expect("no error"), None);
    }
    let long = vec![0; CHUNK_LEN_MAX + PAGE];
    let extents = [pages(0, 0, long.len())];
    let refused = encode_differences(&extents, &long, &long, Level::MIN, true);
    assert!(matches!(refused, Err(EncodeError::TooLong { .. })));
}

#[test]
fn a_member_is_decoded_with_its_base_only() {
    let bytes = changed();
    let member = comes_back(&[pages(0, 0, bytes.len())], &bytes, base(), Level::MIN);
    assert_eq!(decode(&member), Err(DecodeError::BaseNeeded));
    let mut other = base().to_vec();
    other[5000] ^= 1;
    let shorter = &base()[PAGE..];
    for wrong in [&other[..], shorter, &[]] {
        let refused = decode_differences(&member, wrong);
        assert_eq!(refused, Err(DecodeError::OtherBase));
    }
    // A header that takes another base for the right one.
    let file = MemberFile::open(&member);
    let hash = blake3::hash(&other);
    let lying = file.clone().with_identity(0, hash.as_bytes());
    let refused = decode_differences(&lying.seal(&file.content), &other);
    assert_eq!(refused, Err(DecodeError::HashMismatch));
    // Other kinds of members are told from nothing.
    let alone = walzip_codec::encode(&bytes, Level::MIN).expect("encodes");
    assert!(decode_differences(&alone, base()).is_err());
}

#[track_caller]
fn is_refused_or_right(member: &[u8], bytes: &[u8]) {
    let (decoded, peak) = peak_of(|| decode_differences(member, base()));
    if let Ok(decoded) = decoded {
        assert!(decoded == bytes, "decodes to other bytes");
    }
    assert!(
        peak < (64 << 20) + 40 * bytes.len(),
        "{peak} bytes of memory"
    );
}

#[test]
fn every_flipped_bit_and_every_end_is_an_error_or_harmless() {
    let mut member = fs::read(GOLDEN).expect("a golden file");
    let bytes = changed();
    for len in 0..member.len() {
        assert!(decode_differences(&member[..len], base()).is_err(), "{len}");
    }
    for bit in 0..member.len() * 8 {
        member[bit / 8] ^= 1 << (bit % 8);
        is_refused_or_right(&member, &bytes);
        member[bit / 8] ^= 1 << (bit % 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What lies behind the checksums.
    #[test]
    fn damaged_streams_are_refused_or_harmless(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let member = fs::read(GOLDEN).expect("a golden file");
        let file = MemberFile::open(&member);
        let mut content = file.content.clone();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        is_refused_or_right(&file.seal(&content), &changed());
    }

    /// Edits as no server makes them.
    #[test]
    fn whatever_was_changed_comes_back(
        edits in prop::collection::vec(
            (0usize..PAGE * 3, 0usize..PAGE * 3, 0usize..700, 0u8..3), 0..30),
        is_relation: bool,
    ) {
        let base = &base()[..3 * PAGE];
        let mut bytes = base.to_vec();
        for (from, to, len, what) in edits {
            let len = len.min(bytes.len() - from).min(bytes.len() - to);
            match what {
                0 => bytes.copy_within(from..from + len, to),
                1 => bytes[to..to + len].fill(from as u8),
                _ => bytes[to..to + len].copy_from_slice(&noise(len, from as u64)),
            }
        }
        let extent = if is_relation { pages(1, 8, bytes.len()) } else { other(bytes.len()) };
        comes_back(&[extent], &bytes, base, Level::MIN);
    }
}
