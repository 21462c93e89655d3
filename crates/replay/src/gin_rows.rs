//! The rows that a GIN entry is likely to get: those that are pending for its key, or else the
//! newest one of the transaction.
//!
//! What is inserted with `fastupdate` stands in lists first (access/gin/ginfast.c), a tuple for each
//! key of each row. Later all rows of a key are put into its entry at once.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use walzip_pgformat::opcode::{gin, heap, heap2};
use walzip_pgformat::posting_list::tid_number;
use walzip_pgformat::rmgr_id::{GIN, HEAP, HEAP2};
use walzip_pgformat::wal::RelFileLocator;

use crate::gin_entry;
use crate::gin_insertion::{NewEntry, is_leaf_entry};
use crate::heap::multi_insert_numbers;
use crate::index_tuple::{self, NO_BLOCK};
use crate::newest_rows::NewestRows;
use crate::record::Record;

/// Tuples of lists, and bytes of their keys. Where there would be more, those go that are done.
const PENDING_MAX: usize = 1 << 19;
const KEY_BYTES_MAX: usize = 16 << 20;
/// As many may stay when there is to be room.
const KEPT_MAX: usize = PENDING_MAX / 4 * 3;
const KEY_BYTES_KEPT_MAX: usize = KEY_BYTES_MAX / 4 * 3;
/// Tuples that are looked at for the rows of a key.
const LOOKED_AT_MAX: usize = 1024;
/// Indexes whose lists are known. Where there would be more, all is forgotten.
const LISTS_MAX: usize = 1 << 16;
/// Deleted pages of lists that are remembered.
const DELETED_MAX: usize = 1 << 16;
const NONE: u32 = u32::MAX;

/// Rows that are expected in GIN entries.
#[derive(Clone, Default)]
pub struct GinRows {
    newest: NewestRows,
    pending: Vec<Pending>,
    keys: Vec<u8>,
    /// The last tuple of each hash of an index and a key.
    last: HashMap<u64, u32, RandomState>,
    /// The list of each index: another one after it was emptied.
    lists: HashMap<RelFileLocator, u32, RandomState>,
    /// Pages of lists that were deleted: what was pending on them before the place.
    deleted: HashMap<(u32, u32), u32, RandomState>,
    lists_made: u32,
    hasher: RandomState,
}

/// A tuple of a list.
#[derive(Clone, Copy)]
struct Pending {
    row: u64,
    list: u32,
    /// The page of the list.
    block: u32,
    key_start: u32,
    key_len: u16,
    is_done: bool,
    /// The tuple of the same hash before it.
    before: u32,
}

impl GinRows {
    /// The rows that an entry with a key is likely to get, or the first ones of them.
    pub fn expected(&self, record: &Record<'_>, key: &[u8]) -> Vec<u64> {
        let Some(block) = record.block(0) else {
            return Vec::new();
        };
        let pending = self.pending_of(block.locator, key);
        let pending = pending
            .iter()
            .rev()
            .filter_map(|at| self.pending.get(*at as usize));
        let mut rows: Vec<u64> = pending.map(|pending| pending.row).collect();
        if rows.is_empty() {
            rows.extend(self.newest.of(record.xid()).map(|newest| newest.row));
        }
        rows
    }

    /// The newest row of each transaction.
    pub fn newest(&self) -> &NewestRows {
        &self.newest
    }

    /// The places of the tuples that are pending for a key.
    fn pending_of(&self, index: RelFileLocator, key: &[u8]) -> Vec<u32> {
        let mut places = Vec::new();
        let Some(list) = self.lists.get(&index).copied() else {
            return places;
        };
        let hash = self.hasher.hash_one((list, key));
        let mut next = self.last.get(&hash).copied().unwrap_or(NONE);
        let mut looked_at = 0;
        while let Some(pending) = self.pending.get(next as usize)
            && looked_at < LOOKED_AT_MAX
        {
            if pending.list == list && self.key(pending) == key {
                looked_at += 1;
                if !pending.is_done {
                    places.push(next);
                }
            }
            next = pending.before;
        }
        places
    }

    fn key(&self, pending: &Pending) -> &[u8] {
        let start = pending.key_start as usize;
        let key = self.keys.get(start..start + usize::from(pending.key_len));
        key.unwrap_or_default()
    }

    /// What is known, in an order that only depends on what was learned.
    pub fn known(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (xid, newest) in self.newest.known() {
            bytes.extend_from_slice(&xid.to_le_bytes());
            bytes.extend_from_slice(&newest.row.to_le_bytes());
        }
        for pending in self.pending.iter().filter(|pending| !pending.is_done) {
            bytes.extend_from_slice(&pending.list.to_le_bytes());
            bytes.extend_from_slice(&pending.row.to_le_bytes());
            bytes.extend_from_slice(self.key(pending));
        }
        bytes
    }

    /// Learns from a record, after it was replayed.
    pub fn learn(&mut self, record: &Record<'_>) {
        let header = &record.layout.header;
        match (header.rmid, header.info & 0xF0) {
            (HEAP, info) => {
                let number = match info & 0x70 {
                    heap::INSERT => record.main_u16(0),
                    heap::UPDATE | heap::HOT_UPDATE => record.main_u16(12),
                    _ => None,
                };
                self.newest.learn(record, number);
            }
            (HEAP2, info) if info & 0x70 == heap2::MULTI_INSERT => {
                let numbers = multi_insert_numbers(record);
                self.newest
                    .learn(record, numbers.and_then(|numbers| numbers.last().copied()));
            }
            (GIN, gin::INSERT) if is_leaf_entry(record) => self.learn_entry(record),
            (GIN, gin::INSERT_LISTPAGE) => self.learn_list(record, 0),
            (GIN, gin::UPDATE_META_PAGE) => self.learn_list(record, 1),
            (GIN, gin::DELETE_LISTPAGE) => self.learn_deletion(record),
            _ => {}
        }
    }

    /// Makes room: forgets what is not pending any more, or else everything.
    fn make_room(&mut self) {
        let deleted = std::mem::take(&mut self.deleted);
        let current: HashSet<u32> = self.lists.values().copied().collect();
        let (pending, keys) = self.take_pending();
        for (at, pending) in (0..).zip(pending) {
            let deleted = deleted.get(&(pending.list, pending.block));
            let is_left = deleted.is_some_and(|before| at < *before);
            if !pending.is_done && !is_left && current.contains(&pending.list) {
                let start = pending.key_start as usize;
                let key = keys.get(start..start + usize::from(pending.key_len));
                self.push(pending, key.unwrap_or_default());
            }
        }
        let is_full = self.pending.len() > KEPT_MAX || self.keys.len() > KEY_BYTES_KEPT_MAX;
        if is_full || self.lists.len() >= LISTS_MAX {
            self.take_pending();
            self.lists.clear();
        }
    }

    /// Takes all tuples of lists, and their keys.
    fn take_pending(&mut self) -> (Vec<Pending>, Vec<u8>) {
        self.last = HashMap::default();
        (
            std::mem::take(&mut self.pending),
            std::mem::take(&mut self.keys),
        )
    }

    fn push(&mut self, pending: Pending, key: &[u8]) {
        let hash = self.hasher.hash_one((pending.list, key));
        let key_start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        let before = self.last.insert(hash, self.pending.len() as u32);
        self.pending.push(Pending {
            key_start,
            key_len: key.len() as u16,
            before: before.unwrap_or(NONE),
            ..pending
        });
    }

    fn learn_deletion(&mut self, record: &Record<'_>) {
        let Some(index) = record.block(0).map(|block| block.locator) else {
            return;
        };
        if record.main_u32(0) == Some(NO_BLOCK) {
            self.lists.remove(&index);
            return;
        }
        let Some(list) = self.lists.get(&index).copied() else {
            return;
        };
        for block in record.layout.blocks.iter().filter(|block| block.id > 0) {
            let place = (list, block.number);
            if self.deleted.len() >= DELETED_MAX && !self.deleted.contains_key(&place) {
                self.deleted.clear();
            }
            self.deleted.insert(place, self.pending.len() as u32);
        }
    }

    /// The list of an index.
    fn list(&mut self, index: RelFileLocator) -> u32 {
        let next = self.lists_made.wrapping_add(1);
        let list = *self.lists.entry(index).or_insert(next);
        if list == next {
            self.lists_made = next;
        }
        list
    }

    /// What is in an entry is not pending any more.
    fn learn_entry(&mut self, record: &Record<'_>) {
        let Some(entry) = NewEntry::of(record.data(0)) else {
            return;
        };
        let (Some(block), Some(key)) = (record.block(0), gin_entry::key(entry.tuple)) else {
            return;
        };
        let rows = gin_entry::rows(entry.tuple);
        for at in self.pending_of(block.locator, key) {
            if let Some(pending) = self.pending.get_mut(at as usize) {
                let has_row = |rows: &Vec<u64>| rows.binary_search(&pending.row).is_ok();
                pending.is_done = rows.as_ref().is_none_or(has_row);
            }
        }
    }

    fn learn_list(&mut self, record: &Record<'_>, id: u8) {
        let Some(block) = record.block(id) else {
            return;
        };
        let mut rest = record.data_of(block);
        while let Some(len) = index_tuple::len(rest) {
            let (tuple, behind) = rest.split_at(len);
            rest = behind;
            let (Some(row), Some(key)) = (tid_number(tuple), tuple.get(8..)) else {
                return;
            };
            if self.pending.len() >= PENDING_MAX
                || self.keys.len() + key.len() > KEY_BYTES_MAX
                || self.lists.len() >= LISTS_MAX
            {
                self.make_room();
            }
            let pending = Pending {
                row,
                list: self.list(block.locator),
                block: block.number,
                key_start: 0,
                key_len: 0,
                is_done: false,
                before: NONE,
            };
            self.push(pending, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walzip_pgformat::Version;
    use walzip_pgformat::posting_list::{list_of, tid_of};
    use walzip_pgformat::wal::{Block, RecordHeader, RecordLayout};

    use super::*;
    use crate::rules::{Revision, Rules};

    /// What happens to one index: rows of keys.
    #[derive(Clone, Debug)]
    enum Step {
        /// A tuple of a list, on a page.
        Insert(u8, u64, u32),
        /// An entry gets rows.
        Entry(u8, Vec<u64>),
        /// A page of the list goes, and it may have been the last one.
        Delete(u32, bool),
        /// There is no room.
        MakeRoom,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..5_u8, 1..40_u64, 0..4_u32).prop_map(|(key, row, page)| Step::Insert(key, row, page)),
            2 => (0..5_u8, prop::collection::btree_set(1..40_u64, 1..9))
                .prop_map(|(key, rows)| Step::Entry(key, rows.into_iter().collect())),
            1 => (0..4_u32, any::<bool>()).prop_map(|(page, is_last)| Step::Delete(page, is_last)),
            1 => Just(Step::MakeRoom),
        ];
        prop::collection::vec(step, 0..40)
    }

    fn with_record(info: u8, main: &[u8], data: &[u8], block: u32, then: impl FnOnce(&Record<'_>)) {
        let mut layout = RecordLayout {
            header: RecordHeader {
                xid: 9,
                rmid: GIN,
                info,
                ..RecordHeader::default()
            },
            ..RecordLayout::default()
        };
        for (id, number, data_len) in [(0, block, data.len()), (1, block, 0)] {
            layout.blocks.push(Block {
                id,
                fork_flags: 0,
                data_len: data_len as u16,
                data_start: 0,
                image: None,
                locator: RelFileLocator::default(),
                number,
            });
        }
        let bytes = [data, main].concat();
        layout.main_start = data.len();
        layout.main_len = main.len();
        let rules = Rules {
            version: Version::from_major(15).expect("a major"),
            revision: Revision::Third,
        };
        then(&Record {
            rules,
            layout: &layout,
            bytes: &bytes,
        });
    }

    fn key(number: u8) -> [u8; 8] {
        [number; 8]
    }

    fn apply(rows: &mut GinRows, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Insert(number, row, page) => {
                    let tuple = [&tid_of(*row)[..], &[16, 0], &key(*number)].concat();
                    let main = [0; 8];
                    with_record(gin::INSERT_LISTPAGE, &main, &tuple, *page, |record| {
                        rows.learn(record);
                    });
                }
                Step::Entry(number, tids) => {
                    let list = list_of(tids).expect("a list");
                    let len = (16 + list.len()).next_multiple_of(8);
                    let head = [0x8000_u16, 16, tids.len() as u16, len as u16];
                    let mut data = vec![1, 0, 1, 0];
                    data.extend(head.iter().flat_map(|field| field.to_le_bytes()));
                    data.extend_from_slice(&key(*number));
                    data.extend_from_slice(&list);
                    data.resize(4 + len, 0);
                    with_record(gin::INSERT, &[2, 0], &data, 1, |record| rows.learn(record));
                }
                Step::Delete(page, is_last) => {
                    let head = if *is_last { NO_BLOCK } else { 3 };
                    let main = head.to_le_bytes();
                    with_record(gin::DELETE_LISTPAGE, &main, &[], *page, |record| {
                        rows.learn(record);
                    });
                }
                Step::MakeRoom => rows.make_room(),
            }
        }
    }

    fn expected(rows: &GinRows, number: u8) -> Vec<u64> {
        let mut found = Vec::new();
        with_record(gin::INSERT, &[2, 0], &[], 1, |record| {
            found = rows.expected(record, &key(number));
        });
        found
    }

    #[test]
    fn rows_are_expected_in_the_order_of_their_list_until_they_are_in_an_entry() {
        let mut rows = GinRows::default();
        let inserted = [(1, 30), (1, 7), (2, 8), (1, 12)];
        let insert = |&(key, row)| Step::Insert(key, row, 0);
        apply(&mut rows, &inserted.iter().map(insert).collect::<Vec<_>>());
        assert_eq!(expected(&rows, 1), [30, 7, 12]);
        apply(&mut rows, &[Step::Entry(1, vec![3, 7, 30]), Step::MakeRoom]);
        assert_eq!(expected(&rows, 1), [12]);
        assert_eq!(expected(&rows, 2), [8]);
        apply(&mut rows, &[Step::Delete(0, true), Step::Insert(2, 9, 1)]);
        assert_eq!(expected(&rows, 2), [9]);
        assert_eq!(expected(&rows, 1), []);
    }

    proptest! {
        #[test]
        fn the_same_is_known_of_the_same_records(steps in steps()) {
            // Each has another hash.
            let (mut rows, mut same) = (GinRows::default(), GinRows::default());
            apply(&mut rows, &steps);
            apply(&mut same, &steps);
            prop_assert!(rows.known() == same.known());
            for number in 0..5 {
                prop_assert_eq!(expected(&rows, number), expected(&same, number));
            }
        }
    }
}
