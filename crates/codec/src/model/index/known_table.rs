//! The rows of an index's table, as far as earlier WAL has left their pages.

use walzip_pgformat::wal::RelFileLocator;
use walzip_replay::{PageCache, PageKey, indexed_values};

use crate::model::rows::recent::Row;
use crate::model::values::tid::Tid;

/// The table of an index, some of whose pages are known.
#[derive(Clone, Copy)]
pub struct KnownTable<'h> {
    pages: &'h PageCache,
    table: RelFileLocator,
}

impl std::fmt::Debug for KnownTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.table.fmt(f)
    }
}

impl<'h> KnownTable<'h> {
    /// A table among these pages.
    pub fn new(pages: &'h PageCache, table: RelFileLocator) -> KnownTable<'h> {
        KnownTable { pages, table }
    }

    /// The row that an index tuple points to.
    pub fn row(&self, tid: Tid) -> Option<Row<'h>> {
        Some(Row::of_values(tid, self.values(tid)?))
    }

    /// The values of that row.
    pub fn values(&self, (block, line_pointer): Tid) -> Option<&'h [u8]> {
        let page = self.pages.peek(&PageKey {
            locator: self.table,
            fork: 0,
            block,
        })?;
        indexed_values(page, line_pointer)
    }
}
