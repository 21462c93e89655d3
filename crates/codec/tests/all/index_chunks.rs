//! Chunks of indexes that are told from the rows of their tables come back, whatever the pages of
//! both are, and are not decoded without those rows.

use std::sync::Arc;

use proptest::prelude::*;
use walzip_codec::table::{Entries, TableRows, in_row_order};
use walzip_codec::{
    ChunkEncoder, DecodeError, Extent, Header, Level, MemberKind, RunBoth, decode,
    decode_index_chunk, encode_chunk,
};

use crate::member_file::MemberFile;
use crate::table_pages::{PAGE, Row, State, long_index, rows, shape, table, text_index};

const GOLDEN: &[u8] = include_bytes!("../golden/index_pages/v10_index_pages.wz");
const GOLDEN_LISTS: &[u8] = include_bytes!("../golden/index_pages/v10_posting_lists.wz");

fn in_turn(beside: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
    here();
    beside();
}

fn at_a_time(beside: &(dyn Fn() + Sync), here: &mut dyn FnMut()) {
    std::thread::scope(|scope| {
        scope.spawn(beside);
        here();
    });
}

/// The entries of both indexes, of a table's pages, which come in parts.
fn entries(pages: &[u8]) -> [Arc<Entries>; 2] {
    let shape = shape();
    let mut all = TableRows::new(&shape, 1 << 20);
    for (number, part) in pages.chunks(3 * PAGE).enumerate() {
        let mut rows = TableRows::new(&shape, 1 << 20);
        rows.add_pages(&shape, 3 * number as u32, part);
        all.append(rows);
    }
    let all = Arc::new(all);
    [(0, in_turn as RunBoth), (1, at_a_time as RunBoth)].map(|(index, run_both)| {
        let key = &shape.indexes[index];
        Arc::new(Entries::sort(Arc::clone(&all), &shape, key, run_both))
    })
}

fn extents(bytes: &[u8]) -> [Extent; 1] {
    [Extent::Pages {
        relation: 0,
        first_block: 1,
        pages: (bytes.len() / PAGE) as u32,
    }]
}

/// A chunk by itself and as it is told, which comes back.
#[track_caller]
fn lens(bytes: &[u8], entries: &Arc<Entries>, level: Level) -> (usize, Option<usize>) {
    let plain = encode_chunk(&extents(bytes), bytes, level, false).expect("encodes");
    let mut encoder = ChunkEncoder::new(level, true);
    let encoded = encoder.encode_index(&extents(bytes), bytes, entries);
    let (member, is_told) = encoded.expect("encodes");
    let kind = Header::read(&member).expect("a header").kind;
    assert_eq!(kind == MemberKind::IndexPages, is_told);
    let decoded = match is_told {
        true => {
            assert_eq!(decode(&member), Err(DecodeError::TableNeeded));
            decode_index_chunk(&member, entries)
        }
        false => {
            assert!(decode_index_chunk(&member, entries).is_err());
            decode(&member)
        }
    };
    assert!(decoded.as_deref() == Ok(bytes), "{:?}", decoded.err());
    (plain.len(), is_told.then_some(member.len()))
}

#[test]
fn an_index_is_a_small_part_of_what_it_is_by_itself() {
    let rows = rows(6000, 1);
    let (pages, tids) = table(&rows);
    let [by_text, by_long] = entries(&pages);
    for level in [1, 3, 9].map(|level| Level::new(level).expect("a level")) {
        let (plain, told) = lens(&text_index(&rows, &tids), &by_text, level);
        let told = told.expect("gains");
        assert!(told < plain / 6, "{told} of {plain}");
        let (plain, told) = lens(&long_index(&rows, &tids), &by_long, level);
        let told = told.expect("gains");
        assert!(told < plain / 6, "{told} of {plain}");
    }
}

#[test]
fn golden_files_decode_to_what_they_did_when_they_were_made() {
    let rows = rows(900, 10);
    let (pages, tids) = table(&rows);
    let [by_text, by_long] = entries(&pages);
    let decoded = decode_index_chunk(GOLDEN, &by_text);
    assert!(decoded.expect("decodes") == text_index(&rows, &tids));
    let decoded = decode_index_chunk(GOLDEN_LISTS, &by_long);
    assert!(decoded.expect("decodes") == long_index(&rows, &tids));
}

#[test]
fn rows_of_another_table_are_found_out() {
    let rows = rows(900, 10);
    let (pages, _) = table(&rows);
    let [_, by_long] = entries(&pages);
    assert!(decode_index_chunk(GOLDEN, &by_long).is_err());
    let mut others = rows;
    others[450].number ^= 1;
    let (pages, _) = table(&others);
    let [by_text, _] = entries(&pages);
    assert!(decode_index_chunk(GOLDEN, &by_text).is_err());
    let [none, _] = entries(&[]);
    assert!(decode_index_chunk(GOLDEN, &none).is_err());
}

#[test]
fn a_member_of_an_index_needs_its_version() {
    let rows = rows(900, 10);
    let [by_text, _] = entries(&table(&rows).0);
    let member = MemberFile::open(GOLDEN);
    for version in 1..=Header::read(GOLDEN).expect("a header").version.number() {
        let other = member.clone().with_version(version).seal(&member.content);
        let decoded = decode_index_chunk(&other, &by_text);
        assert_eq!(decoded.is_ok(), version >= 10, "as {version}");
    }
}

/// Line pointers may overlap: a page can claim many times its bytes.
#[test]
fn more_rows_than_may_be_are_found_out_at_once() {
    let shape = shape();
    let mut page = vec![0; PAGE];
    let row = Row {
        text: Some("x".repeat(60)),
        ..rows(1, 1).remove(0)
    };
    let normal = Row {
        state: State::Normal,
        ..row
    };
    let (one, _) = table(&[normal]);
    page.copy_from_slice(&one);
    let pointer: [u8; 4] = page[24..28].try_into().expect("4 bytes");
    for at in (24..4024).step_by(4) {
        page[at..at + 4].copy_from_slice(&pointer);
    }
    page[12..14].copy_from_slice(&4024u16.to_le_bytes());
    let mut some = TableRows::new(&shape, 20_000);
    some.add_pages(&shape, 0, &page);
    assert!(some.are_too_many() && some.memory() < 20_500);
    let mut all = TableRows::new(&shape, 1 << 20);
    all.add_pages(&shape, 0, &page);
    assert!(!all.are_too_many() && all.len() == 1000);
    // As docs/format/model/table.md counts: an int, a text of 60 bytes, a bigint.
    assert_eq!(all.memory(), 4 + 4 + 1000 * (44 + 2 * (1 + 4 + 61 + 8)));
    let mut sum = TableRows::new(&shape, 300_000);
    sum.append(all);
    assert!(!sum.are_too_many());
    let mut more = TableRows::new(&shape, 300_000);
    more.add_pages(&shape, 1, &page);
    sum.append(more);
    assert!(sum.are_too_many());
}

#[test]
fn entries_in_the_order_of_the_rows_are_told_from_others() {
    let mut rows = rows(600, 3);
    rows.iter_mut().for_each(|row| row.state = State::Normal);
    let (_, tids) = table(&rows);
    let orders = |bytes: &[u8]| {
        let pages = bytes.as_chunks::<PAGE>().0.iter();
        let orders = pages.filter_map(in_row_order);
        orders.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    };
    let (following, all) = orders(&text_index(&rows, &tids));
    assert!(all > 500 && following < all / 2, "{following} of {all}");
    for (number, row) in rows.iter_mut().enumerate() {
        *row = Row {
            text: None,
            number: number as i32,
            ..row.clone()
        };
    }
    let (following, all) = orders(&text_index(&rows, &tids));
    assert!(all > 500 && following == all, "{following} of {all}");
    let (pages, _) = table(&rows);
    assert_eq!(orders(&pages), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The index was written at another moment than the table, and both may be damaged.
    #[test]
    fn comes_back_whatever_the_pages_are(
        seed in any::<u64>(),
        count in 1usize..700,
        changed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
        in_table in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
        since in 0usize..100,
    ) {
        let mut rows = rows(count, seed);
        let (pages, tids) = table(&rows);
        let mut indexes = [text_index(&rows, &tids), long_index(&rows, &tids)];
        for row in rows.iter_mut().take(since) {
            row.number = row.number.wrapping_mul(7);
            row.state = State::Normal;
        }
        let (mut later, _) = table(&rows);
        if since == 0 {
            later = pages;
        }
        for (at, byte) in &in_table {
            let at = at.index(later.len());
            later[at] = *byte;
        }
        for (index, entries) in indexes.iter_mut().zip(entries(&later)) {
            for (at, byte) in &changed {
                let at = at.index(index.len());
                index[at] = *byte;
            }
            lens(index, &entries, Level::MIN);
        }
    }

    #[test]
    fn a_changed_member_is_no_other_chunk(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let rows = rows(900, 10);
        let (pages, tids) = table(&rows);
        let [by_text, _] = entries(&pages);
        let member = MemberFile::open(GOLDEN);
        let mut content = member.content.clone();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let changed = member.clone().seal(&content);
        if let Ok(decoded) = decode_index_chunk(&changed, &by_text) {
            prop_assert!(decoded == text_index(&rows, &tids));
        }
    }
}
