//! Replay takes any page and any record: it does something, and always the same.

use proptest::collection::vec;
use proptest::prelude::*;
use walzip_pgformat::Version;
use walzip_pgformat::opcode::heap2;
use walzip_pgformat::rmgr_id::{BRIN, BTREE, GIN, GIST, HASH, HEAP, HEAP2, SPGIST};
use walzip_pgformat::wal::{Block, RecordHeader, RecordLayout, RelFileLocator};
use walzip_replay::{
    Follows, GinRows, Page, PageBytes, PageCache, PageData, PageKey, Record, Revision, Rules,
    free_line_pointer, omitted_data, redo, row_values,
};

const PAGE: usize = 8192;
/// Block references of a record.
const BLOCKS: usize = 5;

/// A page with items that may be anything, and a header that is likely to be one.
fn page() -> impl Strategy<Value = Box<PageBytes>> {
    let words = vec(any::<u32>(), 0..60);
    let header = (any::<[u8; 12]>(), 0..3u8, any::<[u16; 3]>());
    (header, words, vec(any::<u8>(), 0..4000), 0..3u8).prop_map(|(header, words, bytes, kind)| {
        let ((start, sane, bounds), mut page) = (header, Box::new([0; PAGE]));
        page[..12].copy_from_slice(&start);
        let special = PAGE - [0, 16, 8][usize::from(kind)];
        let upper = special - bytes.len() / 8 * 8;
        page[upper..upper + bytes.len() / 8 * 8].copy_from_slice(&bytes[..bytes.len() / 8 * 8]);
        let room = ((upper - 24) / 4).min(words.len());
        for (place, word) in words[..room].iter().enumerate() {
            let offset = upper as u32 + (word & 0xFFF) / 8 * 8;
            let word = if word % 5 == 0 {
                *word
            } else {
                word & 0x00FF_8000 | offset & 0x7FFF
            };
            page[24 + 4 * place..28 + 4 * place].copy_from_slice(&word.to_le_bytes());
        }
        let known = [(24 + 4 * room) as u16, upper as u16, special as u16];
        let bounds = if sane == 0 { bounds } else { known };
        for (at, bound) in [12, 14, 16].into_iter().zip(bounds) {
            page[at..at + 2].copy_from_slice(&bound.to_le_bytes());
        }
        page
    })
}

#[derive(Clone, Debug)]
struct AnyRecord {
    major: usize,
    rmid: u8,
    info: u8,
    main: Vec<u8>,
    data: [Vec<u8>; BLOCKS],
    fork_flags: [u8; BLOCKS],
}

fn record() -> impl Strategy<Value = AnyRecord> {
    let small = vec(prop_oneof![Just(0u8), 0..40u8, any::<u8>()], 0..100);
    let data = || vec(prop_oneof![3 => 0..40u8, 1 => any::<u8>()], 0..200);
    let rmid = prop::sample::select(vec![HEAP, HEAP2, BTREE, GIN, GIST, SPGIST, HASH, BRIN]);
    let flags = any::<[u8; BLOCKS]>().prop_map(|flags| flags.map(|flag| flag & Block::WILL_INIT));
    (
        0..6usize,
        rmid,
        any::<u8>(),
        small,
        std::array::from_fn(|_| data()),
        flags,
    )
        .prop_map(|(major, rmid, info, main, data, fork_flags)| AnyRecord {
            major,
            rmid,
            info: info & 0xF0,
            main,
            data,
            fork_flags,
        })
}

impl AnyRecord {
    fn layout(&self, bytes: &mut Vec<u8>) -> RecordLayout {
        let mut layout = RecordLayout {
            header: RecordHeader {
                xid: 700,
                rmid: self.rmid,
                info: self.info,
                ..RecordHeader::default()
            },
            ..RecordLayout::default()
        };
        for (id, data) in (0..).zip(&self.data) {
            layout.blocks.push(Block {
                id,
                fork_flags: self.fork_flags[usize::from(id)],
                data_len: data.len() as u16,
                data_start: bytes.len(),
                image: None,
                locator: RelFileLocator::default(),
                number: id.into(),
            });
            bytes.extend_from_slice(data);
        }
        layout.main_start = bytes.len();
        layout.main_len = self.main.len();
        bytes.extend_from_slice(&self.main);
        layout
    }
}

/// The rest of a record that prunes its page, with the place of a horizon.
fn pruning() -> impl Strategy<Value = AnyRecord> {
    let opcode = prop::sample::select(vec![
        heap2::PRUNE,
        heap2::PRUNE_VACUUM_SCAN,
        heap2::PRUNE_VACUUM_CLEANUP,
    ]);
    (0..6usize, opcode, 0..4u32, any::<u8>()).prop_map(|(major, info, horizon, flags)| {
        let (horizon, older) = (horizon.to_le_bytes(), major < 4);
        AnyRecord {
            major,
            rmid: HEAP2,
            info,
            main: match older {
                true => [&horizon[..], &[0; 4]].concat(),
                false => [&[0, flags], &horizon[..]].concat(),
            },
            data: Default::default(),
            fork_flags: [0; BLOCKS],
        }
    })
}

fn key(block: u32) -> PageKey {
    PageKey {
        block,
        ..PageKey::default()
    }
}

fn replayed(pages: &[Box<PageBytes>; BLOCKS], record: &Record<'_>) -> Vec<PageBytes> {
    let mut cache = PageCache::new(8);
    for (block, page) in (0..).zip(pages) {
        *cache.get_or_new(key(block)) = **page;
    }
    let _ = redo(record, &mut cache);
    (0..BLOCKS as u32)
        .map(|block| *cache.get_or_new(key(block)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn records_of_pruning_are_made_of_their_rests(page in page(), record in pruning()) {
        let (rows, follows) = (GinRows::default(), Follows::All);
        let version = Version::from_major(13 + record.major as u32).expect("a supported major");
        let rules = Rules { version, revision: Revision::Third };
        let with = |record: &AnyRecord, ask: &dyn Fn(PageData, &Record<'_>)| {
            let mut bytes = Vec::new();
            let layout = record.layout(&mut bytes);
            let record = Record { rules, layout: &layout, bytes: &bytes };
            if let Some(data) = PageData::of(&record) {
                ask(data, &record);
            }
        };
        with(&record, &|data, rest| {
            let Some(whole) = data.whole(rest, &page, &rows, follows) else {
                return;
            };
            let mut record = record.clone();
            record.main = whole.main.expect("main data");
            record.data[0] = whole.data.clone();
            with(&record, &|data, seen| {
                let rest = data.rest(seen, &page, &rows).expect("a rest");
                let mut left = record.clone();
                left.main = rest.main.unwrap_or(left.main);
                left.data[0] = rest.data;
                with(&left, &|data, left| {
                    let again = data.whole(left, &page, &rows, rest.follows).expect("whole");
                    assert_eq!(again.main.as_ref(), Some(&record.main));
                    assert_eq!(again.data, record.data[0]);
                });
            });
        });
    }

    #[test]
    fn any_record_does_the_same_to_any_pages(
        pages in std::array::from_fn::<_, BLOCKS, _>(|_| page()),
        record in record(),
        revision in 0..3_usize,
    ) {
        let mut bytes = Vec::new();
        let layout = record.layout(&mut bytes);
        let major = 13 + record.major as u32;
        let version = Version::from_major(major).expect("a supported major");
        let revision = [Revision::First, Revision::Second, Revision::Third][revision];
        let rules = Rules { version, revision };
        let record = Record { rules, layout: &layout, bytes: &bytes };
        prop_assert!(replayed(&pages, &record) == replayed(&pages, &record));
        for block in &layout.blocks {
            let _ = omitted_data(&record, block, &pages[0], &pages[1]);
        }
        if let Some(data) = PageData::of(&record) {
            let mut rows = GinRows::default();
            rows.learn(&record);
            for follows in [Follows::Data, Follows::All] {
                let _ = data.whole(&record, &pages[0], &rows, follows);
            }
            let _ = data.rest(&record, &pages[0], &rows);
        }
        for number in 0..70 {
            let _ = row_values(&pages[0], number);
        }
        prop_assert!(free_line_pointer(&pages[0]) <= pages[0].items() + 1);
    }
}

#[test]
fn a_cache_keeps_what_was_used_last_and_no_more_than_it_may() {
    let mut cache = PageCache::new(3);
    for block in [1, 2, 3] {
        cache.get_or_new(key(block))[0] = block as u8;
    }
    // All were used: the hand passes them, and takes the first one.
    cache.get_or_new(key(4))[0] = 4;
    assert!(cache.peek(&key(1)).is_none());
    assert!(cache.get_mut(&key(2)).is_some());
    cache.get_or_new(key(5))[0] = 5;
    assert_eq!(cache.len(), 3);
    assert!(cache.peek(&key(2)).is_some() && cache.peek(&key(3)).is_none());
    assert_eq!(cache.peek(&key(5)).map(|page| page[0]), Some(5));
}
