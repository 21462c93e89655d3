//! Chunks of relation files come back, whatever their pages are, and only they are taken for
//! members of pages.

use std::sync::OnceLock;

use proptest::prelude::*;
use walzip_codec::{
    CHUNK_LEN_MAX, ChunkEncoder, Claims, DecodeError, EncodeError, Extent, Header, Level,
    MemberKind, decode, decode_member, encode_chunk,
};

use crate::compatibility::golden_files;
use crate::counting_allocator::peak_of;
use crate::inputs::{PAGE, noise, text};
use crate::member_file::MemberFile;

/// Pages that a server wrote: those of the golden files.
fn real_pages() -> &'static [Vec<u8>] {
    static PAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let files = golden_files().into_iter();
        let of_pages = files.filter(|(_, file)| kind_of(file) == MemberKind::Pages);
        let originals = of_pages.map(|(name, file)| decode(&file).expect(&name));
        let pages = originals.flat_map(|original| {
            let pages = original.chunks_exact(PAGE);
            pages.map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        pages.collect()
    })
}

fn kind_of(file: &[u8]) -> MemberKind {
    Header::read(file).expect("a header").kind
}

fn pages_of(relation: u32, first_block: u32, bytes: &[u8]) -> Extent {
    Extent::Pages {
        relation,
        first_block,
        pages: (bytes.len() / PAGE) as u32,
    }
}

#[track_caller]
fn comes_back(extents: &[Extent], bytes: &[u8], level: Level) -> Vec<u8> {
    let file = encode_chunk(extents, bytes, level, true).expect("encodes");
    assert!(decode(&file).as_deref() == Ok(bytes), "other bytes");
    let (decoded, len) = decode_member(&file, Claims::Bounded).expect("decodes");
    assert!(decoded == bytes && len == file.len());
    file
}

#[test]
fn real_pages_come_back_at_every_level() {
    let bytes = real_pages().concat();
    for level in 1..=9 {
        let level = Level::new(level).expect("a level");
        let file = comes_back(&[pages_of(7, 0, &bytes)], &bytes, level);
        assert_eq!(kind_of(&file), MemberKind::Pages);
        assert!(file.len() < bytes.len() / 5, "{} bytes", file.len());
    }
}

#[test]
fn a_run_of_pages_may_be_of_any_relation_and_begin_anywhere() {
    let pages = real_pages();
    let bytes = pages.concat();
    let each = |(number, page): (usize, &Vec<u8>)| {
        let first_block = (number as u32 * 7919).wrapping_mul(1 << 20);
        pages_of(u32::MAX - number as u32 % 3, first_block, page)
    };
    let extents: Vec<Extent> = pages.iter().enumerate().map(each).collect();
    comes_back(&extents, &bytes, Level::MIN);
    // Numbers of pages go round.
    comes_back(&[pages_of(0, u32::MAX - 3, &bytes)], &bytes, Level::MIN);
}

/// What an encoder remembers of a relation is no condition for anything.
#[test]
fn chunks_of_one_encoder_come_back_without_each_other() {
    let pages = real_pages();
    let mut encoder = ChunkEncoder::new(Level::MIN, true);
    for (number, page) in pages.iter().chain(pages.iter().rev()).enumerate() {
        // Now and then it is a page of another relation than before.
        let extent = pages_of(number as u32 / 5 % 3, number as u32, page);
        let file = encoder.encode(&[extent], page).expect("encodes");
        assert!(decode(&file).as_deref() == Ok(&page[..]), "{number}");
    }
}

#[test]
fn other_bytes_lie_anywhere_between_pages() {
    let page = &real_pages()[1];
    let (before, behind) = (text(30), noise(777, 3));
    let bytes = [&before[..], page, page, &behind].concat();
    let other = |bytes: &[u8]| Extent::Bytes {
        len: bytes.len() as u32,
    };
    let nothing = [Extent::Bytes { len: 0 }, pages_of(1, 0, &[])];
    let some = [other(&before), pages_of(5, 3, page), pages_of(5, 4, page)];
    let extents = [&nothing[..], &some, &nothing, &[other(&behind)]].concat();
    let file = comes_back(&extents, &bytes, Level::MIN);
    assert_eq!(kind_of(&file), MemberKind::Pages);
}

#[test]
fn a_chunk_without_pages_and_one_that_gains_nothing_are_foreign() {
    let words = text(100);
    let len = words.len() as u32;
    let file = comes_back(&[Extent::Bytes { len }], &words, Level::MIN);
    assert_eq!(kind_of(&file), MemberKind::Foreign);
    let nothing = comes_back(&[], &[], Level::MIN);
    assert_eq!(kind_of(&nothing), MemberKind::Foreign);
    let any = noise(4 * PAGE, 5);
    let file = comes_back(&[pages_of(0, 0, &any)], &any, Level::MIN);
    assert_eq!(kind_of(&file), MemberKind::Foreign);
    assert!(file.len() < any.len() + 100);
}

#[test]
fn extents_have_the_length_of_the_chunk() {
    let bytes = vec![0; 2 * PAGE];
    for pages in [0, 1, 3, u32::MAX] {
        let extent = Extent::Pages {
            relation: 0,
            first_block: 0,
            pages,
        };
        let refused = encode_chunk(&[extent], &bytes, Level::MIN, true);
        assert!(matches!(refused, Err(EncodeError::Extents { .. })));
    }
}

#[test]
fn a_chunk_has_at_most_16_mib() {
    let bytes = vec![0; CHUNK_LEN_MAX];
    let file = comes_back(&[pages_of(0, 0, &bytes)], &bytes, Level::MIN);
    assert_eq!(kind_of(&file), MemberKind::Pages);
    assert!(file.len() < 300, "{} bytes", file.len());
    let longer = vec![0; CHUNK_LEN_MAX + PAGE];
    let refused = encode_chunk(&[pages_of(0, 0, &longer)], &longer, Level::MIN, true);
    assert!(matches!(refused, Err(EncodeError::TooLong { .. })));
    // Nor does a file claim more.
    let member = MemberFile::open(&file);
    let claimed = member.clone().with_original_len(CHUNK_LEN_MAX as u64 + 1);
    let refused = decode(&claimed.seal(&member.content));
    assert!(matches!(refused, Err(DecodeError::Corrupt(_))));
}

/// What few bytes claim costs no more memory than a chunk and its streams may have.
#[test]
fn a_chunk_of_zeros_takes_little_memory() {
    let bytes = vec![0; CHUNK_LEN_MAX];
    let (file, encoding) =
        peak_of(|| encode_chunk(&[pages_of(0, 0, &bytes)], &bytes, Level::MIN, true));
    let file = file.expect("encodes");
    let (decoded, decoding) = peak_of(|| decode(&file));
    assert!(decoded.as_deref() == Ok(&bytes[..]));
    println!("{} and {} bytes", encoding, decoding);
    assert!(encoding < 16 << 20, "{encoding} bytes");
    assert!(decoding < (16 << 20) + (8 << 20), "{decoding} bytes");
}

/// Extents that say what no encoder says.
#[test]
fn extents_that_are_no_chunk_are_an_error() {
    let bytes = real_pages()[..3].concat();
    let file = comes_back(&[pages_of(0, 0, &bytes)], &bytes, Level::MIN);
    let member = MemberFile::open(&file);
    let begin = [&[1u8][..], &[0; 4], &[0; 4], &3u32.to_le_bytes(), &[0]].concat();
    let found = member.content.windows(begin.len()).position(|w| w == begin);
    let at = found.expect("the list of extents");
    let pages = |number: u32| (9, number.to_le_bytes());
    let relation = |number: u32| (1, number.to_le_bytes());
    let changes = [
        pages(0),
        pages(2),
        pages(4),
        pages(u32::MAX),
        relation(1),
        relation(u32::MAX),
    ];
    for (offset, value) in changes {
        let mut content = member.content.clone();
        content[at + offset..at + offset + 4].copy_from_slice(&value);
        let refused = decode(&member.seal(&content));
        assert!(
            matches!(refused, Err(DecodeError::Corrupt(_))),
            "{refused:?}"
        );
    }
    for kind in [0, 2, 3, 255] {
        let mut content = member.content.clone();
        content[at] = kind;
        assert!(decode(&member.seal(&content)).is_err(), "{kind}");
    }
}

/// How a page is spoiled.
#[derive(Clone, Debug)]
enum Spoil {
    /// Some bytes are others.
    Bytes(Vec<(prop::sample::Index, u8)>),
    /// A bit of the header is another.
    HeaderBit(usize),
    /// From here on it is another page: half of it was written.
    Torn(prop::sample::Index, prop::sample::Index),
    /// From here on it is zeros.
    Cut(prop::sample::Index),
    /// Its bytes begin elsewhere.
    Turned(prop::sample::Index),
    /// A part of it is copied to another place.
    Copied([prop::sample::Index; 3]),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        prop::collection::vec((index(), any::<u8>()), 1..8).prop_map(Spoil::Bytes),
        (0usize..24 * 8).prop_map(Spoil::HeaderBit),
        (index(), index()).prop_map(|(at, other)| Spoil::Torn(at, other)),
        index().prop_map(Spoil::Cut),
        index().prop_map(Spoil::Turned),
        [index(), index(), index()].prop_map(Spoil::Copied),
    ]
}

fn spoiled(page: &[u8], spoil: &Spoil) -> Vec<u8> {
    let mut page = page.to_vec();
    match spoil {
        Spoil::Bytes(bytes) => bytes
            .iter()
            .for_each(|(at, value)| page[at.index(PAGE)] = *value),
        Spoil::HeaderBit(bit) => page[bit / 8] ^= 1 << (bit % 8),
        Spoil::Torn(at, other) => {
            let at = at.index(PAGE / 512) * 512;
            page[at..].copy_from_slice(&other.get(real_pages())[at..]);
        }
        Spoil::Cut(at) => page[at.index(PAGE)..].fill(0),
        Spoil::Turned(by) => page.rotate_left(by.index(PAGE)),
        Spoil::Copied([from, to, len]) => {
            let (from, to) = (from.index(PAGE), to.index(PAGE));
            let len = len.index(PAGE - from.max(to));
            page.copy_within(from..from + len, to);
        }
    }
    page
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if walzip_testing::is_thorough() { 5_000 } else { 400 }
    ))]

    #[test]
    fn any_pages_come_back(
        pages in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(spoil(), 0..3), 0u32..3, any::<bool>()),
            1..12,
        ),
        first_block in any::<u32>(),
        level in 1u8..=3,
    ) {
        let mut bytes = Vec::new();
        let mut extents = Vec::new();
        for (page, spoils, relation, is_other) in &pages {
            let page = page.get(real_pages());
            let page = spoils.iter().fold(page.clone(), |page, spoil| spoiled(&page, spoil));
            bytes.extend_from_slice(&page);
            let first_block = first_block.wrapping_add(extents.len() as u32);
            extents.push(match *is_other && spoils.is_empty() {
                true => Extent::Bytes { len: PAGE as u32 },
                false => pages_of(*relation, first_block, &page),
            });
        }
        comes_back(&extents, &bytes, Level::new(level).expect("a level"));
    }

    #[test]
    fn any_bytes_come_back(
        seed in any::<u64>(),
        pages in 0usize..4,
        header in any::<[u8; 24]>(),
        lower in 24u16..200,
        upper in 200u16..8193,
    ) {
        let mut bytes = noise(pages * PAGE, seed);
        // Some that look like pages at first.
        for page in bytes.chunks_exact_mut(PAGE).skip(1) {
            page[..24].copy_from_slice(&header);
            page[12..14].copy_from_slice(&lower.to_le_bytes());
            page[14..16].copy_from_slice(&upper.to_le_bytes());
            page[16..18].copy_from_slice(&upper.max(8176).to_le_bytes());
            page[2000..].fill(0);
        }
        comes_back(&[pages_of(0, seed as u32, &bytes)], &bytes, Level::MIN);
    }
}
