//! The row that each transaction has put into a table last.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use walzip_pgformat::posting_list::number_of;
use walzip_pgformat::wal::RelFileLocator;

use crate::record::Record;

/// Transactions whose newest row is known.
const TRANSACTIONS_MAX: usize = 4096;

/// A row of a table: [`tid_number`](walzip_pgformat::posting_list::tid_number) of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestRow {
    /// The table.
    pub table: RelFileLocator,
    /// The row.
    pub row: u64,
}

/// The newest row of each transaction. Where there are too many transactions, all are forgotten.
#[derive(Clone, Default)]
pub struct NewestRows {
    rows: HashMap<u32, NewestRow, RandomState>,
}

impl NewestRows {
    /// The newest row of a transaction.
    pub fn of(&self, xid: u32) -> Option<NewestRow> {
        self.rows.get(&xid).copied()
    }

    /// A record has put a row on the page of its first block reference.
    pub(crate) fn learn(&mut self, record: &Record<'_>, number: Option<u16>) {
        let (Some(block), Some(number)) = (record.block(0), number) else {
            return;
        };
        if self.rows.len() >= TRANSACTIONS_MAX {
            self.rows.clear();
        }
        let newest = NewestRow {
            table: block.locator,
            row: number_of(block.number, number),
        };
        self.rows.insert(record.xid(), newest);
    }

    /// All of them, in the order of the transactions.
    pub fn known(&self) -> Vec<(u32, NewestRow)> {
        let mut known: Vec<_> = self.rows.iter().map(|(xid, row)| (*xid, *row)).collect();
        known.sort_unstable_by_key(|(xid, _)| *xid);
        known
    }
}
