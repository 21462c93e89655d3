//! Where items stand after a record has removed others: as the server moves them together, and, by
//! the first revision, as walzip did once.

use walzip_pgformat::Version;
use walzip_pgformat::opcode::{btree, heap2};
use walzip_pgformat::rmgr_id::{BTREE, HEAP2};
use walzip_pgformat::wal::{Block, RecordHeader, RecordLayout};
use walzip_replay::{
    LinePointer, Page, PageBytes, PageCache, PageKey, Record, Revision, Rules, State, redo,
};

const ITEM: usize = 24;
const RUNNING: u32 = 900;
const XMIN_COMMITTED: u8 = 1;
const XMAX_INVALID: u8 = 8;

/// A page with items of [`ITEM`] bytes, each at an offset, and with a special space.
fn page(offsets: &[u16], special_len: usize) -> PageBytes {
    let mut page = [0; 8192];
    page.init(special_len);
    page.set_bounds(
        24 + 4 * offsets.len(),
        usize::from(*offsets.iter().min().expect("items")),
    );
    for (number, &offset) in (1..).zip(offsets) {
        let pointer = LinePointer {
            offset,
            state: State::Normal,
            len: ITEM as u16,
        };
        page.set_line_pointer(number, pointer).expect("a place");
        let item = page.item_mut(number).expect("an item");
        // Of a tuple of a table that is its xmin.
        item[0] = number as u8;
        item[21] = XMAX_INVALID;
    }
    page
}

fn after(
    page: PageBytes,
    (rmid, info): (u8, u8),
    rules: Rules,
    main: &[u8],
    data: &[u8],
) -> PageBytes {
    let bytes = [data, main].concat();
    let layout = RecordLayout {
        header: RecordHeader {
            xid: RUNNING,
            rmid,
            info,
            ..RecordHeader::default()
        },
        blocks: vec![Block {
            id: 0,
            fork_flags: 0,
            data_len: data.len() as u16,
            data_start: 0,
            image: None,
            locator: Default::default(),
            number: 0,
        }],
        main_start: data.len(),
        main_len: main.len(),
        ..RecordLayout::default()
    };
    let record = Record {
        rules,
        layout: &layout,
        bytes: &bytes,
    };
    let mut cache = PageCache::new(1);
    *cache.get_or_new(PageKey::default()) = page;
    redo(&record, &mut cache).expect("replayed");
    *cache.get_or_new(PageKey::default())
}

/// The items that are left, the one at the end of the page first.
fn order(page: &PageBytes) -> Vec<u8> {
    let numbers = 1..=page.items();
    let stored =
        numbers.filter_map(|number| Some((page.line_pointer(number)?, page.item(number)?[0])));
    let mut items: Vec<_> = stored
        .map(|(pointer, first)| (pointer.offset, first))
        .collect();
    items.sort_unstable();
    items.into_iter().rev().map(|(_, first)| first).collect()
}

fn rules(major: u32, revision: Revision) -> Rules {
    Rules {
        version: Version::from_major(major).expect("a supported major"),
        revision,
    }
}

/// Pruning removes the second item.
fn pruned(page: PageBytes, rules: Rules) -> PageBytes {
    let main = [0u8; 8];
    after(
        page,
        (HEAP2, heap2::PRUNE),
        rules,
        &main,
        &2u16.to_le_bytes(),
    )
}

#[test]
fn pruning_puts_items_in_the_order_of_their_numbers_from_14_on() {
    let mixed = page(&[8000, 7900, 8050, 7800], 0);
    for (major, revision, expected) in [
        (13, Revision::Second, [3, 1, 4]),
        (14, Revision::Second, [1, 3, 4]),
        (16, Revision::Second, [1, 3, 4]),
        (14, Revision::First, [3, 1, 4]),
    ] {
        let pruned = pruned(mixed, rules(major, revision));
        assert_eq!(order(&pruned), expected, "{major} {revision:?}");
        assert_eq!(pruned.upper(), 8192 - 3 * ITEM);
    }
}

#[test]
fn pruning_leaves_the_hints_of_a_look_at_each_tuple() {
    let mut before = page(&[8100, 8000, 7900, 7800], 0);
    // Inserted by the transaction that prunes, and deleted by one that has ended.
    let mut change = |number, xmin: u32, xmax: u32, mask| {
        let item = before.item_mut(number).expect("an item");
        item[..4].copy_from_slice(&xmin.to_le_bytes());
        item[4..8].copy_from_slice(&xmax.to_le_bytes());
        item[21] = mask;
    };
    change(3, RUNNING, 0, XMAX_INVALID);
    change(4, 5, 700, 0);
    before.set_prune_xid(600);
    let hints = |page: &PageBytes| [1, 3, 4].map(|number| page.item(number).expect("an item")[21]);
    let pruned_by = |revision| pruned(before, rules(15, revision));
    let second = pruned_by(Revision::Second);
    let deleted = XMIN_COMMITTED | 4;
    assert_eq!(
        hints(&second),
        [XMIN_COMMITTED | XMAX_INVALID, XMAX_INVALID, deleted]
    );
    assert_eq!(second.prune_xid(), 700);
    let first = pruned_by(Revision::First);
    assert_eq!(hints(&first), [XMAX_INVALID, XMAX_INVALID, 0]);
    assert_eq!(first.prune_xid(), 600);
}

#[test]
fn one_or_two_items_are_removed_from_an_index_page_one_by_one() {
    let offsets = [8000, 7900, 8050, 7800, 7700, 7600];
    let removed = |numbers: &[u16], rules| {
        let counts = [numbers.len() as u16, 0].map(u16::to_le_bytes).concat();
        let main = [&[0; 4], &counts[..], &[0; 8]].concat();
        let data: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        order(&after(
            page(&offsets, 16),
            (BTREE, btree::DELETE),
            rules,
            &main,
            &data,
        ))
    };
    let (first, second) = (rules(15, Revision::First), rules(15, Revision::Second));
    assert_eq!(removed(&[2, 5], second), [3, 1, 4, 6]);
    assert_eq!(removed(&[2, 4, 5], second), [1, 3, 6]);
    assert_eq!(removed(&[2, 4, 5], first), [3, 1, 6]);
    assert_eq!(removed(&[2, 4, 5], rules(13, Revision::Second)), [3, 1, 6]);
}
