//! Which table an index is of.
//!
//! Nothing in WAL says it. A transaction that puts a row into a table puts its entries into the indexes
//! next: an index to which a tuple goes that points to the transaction's newest row is one of that
//! row's table.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use walzip_pgformat::opcode::{btree, gin};
use walzip_pgformat::posting_list::tid_number;
use walzip_pgformat::rmgr_id::{BTREE, GIN};
use walzip_pgformat::wal::RelFileLocator;

use crate::newest_rows::{NewestRow, NewestRows};
use crate::record::Record;

/// Indexes whose table is known. Where there would be more, all are forgotten.
const INDEXES_MAX: usize = 1 << 14;

/// The tables of indexes.
#[derive(Clone, Default)]
pub struct IndexTables {
    tables: HashMap<RelFileLocator, RelFileLocator, RandomState>,
}

impl IndexTables {
    /// The table of an index.
    pub fn of(&self, index: RelFileLocator) -> Option<RelFileLocator> {
        self.tables.get(&index).copied()
    }

    /// Learns from a record that puts a tuple into a leaf page of a B-tree, or tuples into the list of
    /// a GIN index.
    pub fn learn(&mut self, record: &Record<'_>, newest: &NewestRows) {
        let header = &record.layout.header;
        let id = match (header.rmid, header.info & 0xF0) {
            (BTREE, btree::INSERT_LEAF) | (GIN, gin::INSERT_LISTPAGE) => 0,
            (GIN, gin::UPDATE_META_PAGE) => 1,
            _ => return,
        };
        if let Some(block) = record.block(id) {
            let newest = newest.of(record.xid());
            self.learn_tuple(block.locator, record.data_of(block), newest);
        }
    }

    /// A tuple went to an index, from a transaction with this newest row.
    fn learn_tuple(&mut self, index: RelFileLocator, tuple: &[u8], newest: Option<NewestRow>) {
        let Some(newest) = newest.filter(|newest| tid_number(tuple) == Some(newest.row)) else {
            return;
        };
        if self.of(index) == Some(newest.table) {
            return;
        }
        if self.tables.len() >= INDEXES_MAX && !self.tables.contains_key(&index) {
            self.tables.clear();
        }
        self.tables.insert(index, newest.table);
    }

    /// All of them, in the order of the indexes.
    pub fn known(&self) -> Vec<(RelFileLocator, RelFileLocator)> {
        let tables = self.tables.iter();
        let mut known: Vec<_> = tables.map(|(index, table)| (*index, *table)).collect();
        known.sort_unstable();
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Revision, Rules};
    use walzip_pgformat::Version;
    use walzip_pgformat::posting_list::tid_of;
    use walzip_pgformat::rmgr_id::HEAP;
    use walzip_pgformat::wal::{Block, RecordHeader, RecordLayout};

    fn relation(relation: u32) -> RelFileLocator {
        RelFileLocator {
            tablespace: 1663,
            database: 5,
            relation,
        }
    }

    /// What a record with a tuple for row 1 of the newest row's page teaches.
    fn learned(rmid: u8, info: u8, id: u8) -> Option<RelFileLocator> {
        let tuple = tid_of(1);
        let layout = RecordLayout {
            header: RecordHeader {
                xid: 9,
                rmid,
                info,
                ..RecordHeader::default()
            },
            blocks: vec![Block {
                id,
                fork_flags: 0,
                data_len: tuple.len() as u16,
                data_start: 0,
                image: None,
                locator: relation(10),
                number: 0,
            }],
            ..RecordLayout::default()
        };
        let record = Record {
            rules: Rules {
                version: Version::from_major(16).expect("a version"),
                revision: Revision::Third,
            },
            layout: &layout,
            bytes: &tuple,
        };
        let mut newest = NewestRows::default();
        let mut heap = layout.clone();
        heap.blocks[0].locator = relation(1);
        heap.blocks[0].id = 0;
        newest.learn(
            &Record {
                layout: &heap,
                ..record
            },
            Some(1),
        );
        let mut tables = IndexTables::default();
        tables.learn(&record, &newest);
        tables.of(relation(10))
    }

    #[test]
    fn records_that_put_a_tuple_into_an_index_teach() {
        for (rmid, info, id) in [(BTREE, 0x00, 0), (GIN, 0x70, 0), (GIN, 0x60, 1)] {
            assert_eq!(learned(rmid, info, id), Some(relation(1)));
        }
        for (rmid, info, id) in [
            (BTREE, 0x00, 1),
            (BTREE, 0x10, 0),
            (BTREE, 0x30, 0),
            (GIN, 0x60, 0),
            (GIN, 0x20, 0),
            (HEAP, 0x00, 0),
        ] {
            assert_eq!(learned(rmid, info, id), None);
        }
    }

    #[test]
    fn an_index_is_of_the_table_of_the_newest_row() {
        let mut tables = IndexTables::default();
        let newest = |table| {
            Some(NewestRow {
                table: relation(table),
                row: 7 << 11 | 3,
            })
        };
        let tuple = tid_of(7 << 11 | 3);
        let (index, other) = (relation(10), relation(11));
        tables.learn_tuple(index, &tuple, None);
        tables.learn_tuple(index, &tid_of(7 << 11 | 4), newest(1));
        tables.learn_tuple(index, &[], newest(1));
        assert_eq!(tables.of(index), None);
        tables.learn_tuple(index, &tuple, newest(1));
        tables.learn_tuple(other, &tuple, newest(2));
        assert_eq!(tables.of(index), Some(relation(1)));
        tables.learn_tuple(index, &tuple, newest(3));
        let known = [(index, relation(3)), (other, relation(2))];
        assert_eq!(tables.known(), known);
    }

    #[test]
    fn where_there_are_too_many_all_are_forgotten() {
        let mut tables = IndexTables::default();
        let tuple = tid_of(1);
        let newest = Some(NewestRow {
            table: relation(0),
            row: 1,
        });
        for index in 1..=INDEXES_MAX as u32 {
            tables.learn_tuple(relation(index), &tuple, newest);
        }
        tables.learn_tuple(relation(1), &tuple, newest);
        assert_eq!(tables.known().len(), INDEXES_MAX);
        tables.learn_tuple(relation(0), &tuple, newest);
        assert_eq!(tables.known().len(), 1);
    }
}
