//! Which chunks have the tables from whose rows others are told.

use std::sync::{Arc, Weak};

use super::index::{Chunk, StoredTable};
use super::tables::{Role, Table};

/// The tables of the chunks that were stored.
#[derive(Default)]
pub(super) struct StoredTables {
    /// Not kept alive: their rows are held in memory.
    tables: Vec<(Weak<Table>, StoredTable)>,
    /// How many chunks are told from each.
    told: Vec<usize>,
}

impl StoredTables {
    /// Takes note of the chunk with a number. Returns the numbers of the table and of the index from
    /// whose entries it is told, if it is.
    pub(super) fn include(&mut self, role: &Role, chunk: usize) -> Option<[u32; 2]> {
        match role {
            Role::None => None,
            Role::Rows(table, part) if part.number == 0 => {
                let stored = StoredTable {
                    first_chunk: chunk as u32,
                    chunks: 1,
                    shape: table.shape().clone(),
                };
                self.tables.push((Arc::downgrade(table), stored));
                self.told.push(0);
                None
            }
            Role::Rows(..) => {
                if let Some((_, stored)) = self.tables.last_mut() {
                    stored.chunks += 1;
                }
                None
            }
            Role::Index(table, index) => {
                let is_same = |(of, _): &(Weak<Table>, _)| of.as_ptr() == Arc::as_ptr(table);
                let number = self.tables.iter().rposition(is_same)?;
                *self.told.get_mut(number)? += 1;
                Some([number as u32, *index as u32])
            }
        }
    }

    /// Those from which any chunk is told, which gets their new numbers.
    pub(super) fn finish(self, chunks: &mut [Chunk]) -> Vec<StoredTable> {
        let mut numbers = Vec::with_capacity(self.told.len());
        let mut kept = Vec::new();
        for ((_, stored), told) in self.tables.into_iter().zip(self.told) {
            numbers.push(kept.len() as u32);
            if told > 0 {
                kept.push(stored);
            }
        }
        for [table, _] in chunks.iter_mut().filter_map(|chunk| chunk.index.as_mut()) {
            if let Some(&number) = numbers.get(*table as usize) {
                *table = number;
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backups::chunks::tables::RowsPart;
    use crate::coding::two_threads::run_both;
    use walzip_codec::limits::ROWS_MEMORY_MAX;
    use walzip_codec::table::TableShape;

    #[test]
    fn tables_that_were_stored_are_let_go_of() {
        let mut stored = StoredTables::default();
        let part = RowsPart {
            number: 0,
            first_block: 0,
        };
        let begin = |stored: &mut StoredTables, chunk| {
            let table = Table::new(TableShape::default(), ROWS_MEMORY_MAX, run_both);
            let table = Arc::new(table);
            stored.include(&Role::Rows(Arc::clone(&table), part), chunk);
            table
        };
        let first = begin(&mut stored, 0);
        let rows = Arc::downgrade(&first);
        drop(first);
        assert!(rows.upgrade().is_none());
        let second = begin(&mut stored, 1);
        let told = stored.include(&Role::Index(second, 0), 2);
        assert_eq!(told, Some([1, 0]));
    }
}
