//! Tables whose indexes are told from their rows: those are taken out of the table's chunks as they
//! pass by, encoded or decoded, and sorted for one index after the other.
//!
//! The threads that work on chunks take them in the order of the stream, in which a table's chunks come
//! before those of its indexes. So whoever waits for rows or entries waits for threads that are at work.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use walzip_codec::RunBoth;
use walzip_codec::limits::ROWS_MEMORY_MAX;
use walzip_codec::table::{Entries, TableRows, TableShape};
use walzip_pgformat::PAGE_SIZE;

use super::index::{Index, StoredTable};
use crate::coding::two_threads::run_both;

/// Memory of the rows of a table and of the entries of an index, in bytes. A backup tells no index from
/// a table with more, although a reader takes more: so it and a restore stay below 500 MB.
pub(crate) const WRITTEN_ROWS_MEMORY_MAX: usize = 320 << 20;

/// What a chunk has to do with a table.
#[derive(Clone, Debug, Default)]
pub(crate) enum Role {
    /// Nothing.
    #[default]
    None,
    /// It has a part of the rows.
    Rows(Arc<Table>, RowsPart),
    /// It is of the index with this number, after all rows.
    Index(Arc<Table>, usize),
}

/// Which part of the rows a chunk has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsPart {
    /// Its number: 0 is the first one.
    pub(crate) number: usize,
    /// The number of its first page in the table.
    pub(crate) first_block: u32,
}

/// What the chunks of a backup have to do with its tables, in their order.
pub(crate) struct Roles<'i> {
    index: &'i Index,
    /// The table whose chunks came last: its number in the index.
    last: Option<(usize, Arc<Table>)>,
}

impl<'i> Roles<'i> {
    /// No chunk has come yet.
    pub(crate) fn of(index: &'i Index) -> Roles<'i> {
        Roles { index, last: None }
    }

    /// The role of the next chunk that comes.
    pub(crate) fn of_chunk(&mut self, number: usize) -> Role {
        let tables = &self.index.tables;
        let is_before = |table: &StoredTable| table.first_chunk as usize <= number;
        let Some(table_number) = tables.partition_point(is_before).checked_sub(1) else {
            return Role::None;
        };
        let Some(stored) = tables.get(table_number) else {
            return Role::None;
        };
        if self
            .last
            .as_ref()
            .is_none_or(|(last, _)| *last != table_number)
        {
            let table = Table::new(stored.shape.clone(), ROWS_MEMORY_MAX, run_both);
            table.has_parts(stored.chunks as usize);
            self.last = Some((table_number, Arc::new(table)));
        }
        let Some((_, table)) = &self.last else {
            return Role::None;
        };
        let part = number - stored.first_chunk as usize;
        if part < stored.chunks as usize {
            let first = stored.first_chunk as usize;
            let before = self.index.chunks.get(first..number).unwrap_or_default();
            let bytes: u64 = before
                .iter()
                .map(|chunk| u64::from(chunk.original_bytes))
                .sum();
            let part = RowsPart {
                number: part,
                first_block: (bytes / PAGE_SIZE as u64) as u32,
            };
            return Role::Rows(Arc::clone(table), part);
        }
        match self.index.chunks.get(number).and_then(|chunk| chunk.index) {
            Some([_, index]) => Role::Index(Arc::clone(table), index as usize),
            None => Role::None,
        }
    }
}

/// A table, and what is in use of it.
#[derive(Debug)]
pub(crate) struct Table {
    shape: TableShape,
    /// How much memory its rows may take.
    memory_max: usize,
    /// How to sort them.
    run_both: RunBoth,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    rows: Rows,
    /// The entries of one index, and how many use them.
    entries: Option<(usize, Arc<Entries>)>,
    users: usize,
}

#[derive(Debug)]
enum Rows {
    Coming {
        /// Those of all parts before this one.
        next: usize,
        rows: TableRows,
        waiting: BTreeMap<usize, TableRows>,
        /// How many parts there are, once that is known.
        parts: Option<usize>,
    },
    Whole(Arc<TableRows>),
    /// There are none, for this reason.
    Missing(String),
}

impl Table {
    /// Its rows are still to come.
    pub(crate) fn new(shape: TableShape, memory_max: usize, run_both: RunBoth) -> Table {
        let rows = TableRows::new(&shape, memory_max);
        Table {
            shape,
            memory_max,
            run_both,
            state: Mutex::new(State {
                rows: Rows::Coming {
                    next: 0,
                    rows,
                    waiting: BTreeMap::new(),
                    parts: None,
                },
                entries: None,
                users: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn shape(&self) -> &TableShape {
        &self.shape
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of the rows is going to come.
    pub(crate) fn part(&self, part: RowsPart) -> Part<'_> {
        Part { table: self, part }
    }

    /// There are so many parts, all of which were handed over, if nothing more.
    pub(crate) fn has_parts(&self, count: usize) {
        let mut state = self.locked();
        if let Rows::Coming { parts, .. } = &mut state.rows {
            *parts = Some(count);
        }
        state.rows.go_on();
        self.changed.notify_all();
    }

    /// Rows that have not come by now will not come.
    pub(crate) fn fail(&self, reason: &str) {
        let mut state = self.locked();
        if matches!(state.rows, Rows::Coming { .. }) {
            state.rows = Rows::Missing(reason.to_owned());
        }
        self.changed.notify_all();
    }

    /// The entries of an index, while they are in use. Waits for the rows, and until the entries of
    /// another index are not in use any more.
    pub(crate) fn entries(&self, index: usize) -> Result<InUse<'_>, String> {
        let mut state = self.locked();
        loop {
            match &state.rows {
                Rows::Missing(reason) => return Err(reason.clone()),
                Rows::Whole(rows) => match &state.entries {
                    Some((held, entries)) if *held == index => {
                        let entries = Arc::clone(entries);
                        state.users += 1;
                        return Ok(InUse {
                            table: self,
                            entries,
                        });
                    }
                    _ if state.users == 0 => {
                        let rows = Arc::clone(rows);
                        // The others are let go of before these are made.
                        state.entries = None;
                        let key = self.shape.indexes.get(index);
                        let key = key.ok_or_else(|| "its table has no such index".to_owned())?;
                        let entries = Entries::sort(rows, &self.shape, key, self.run_both);
                        state.entries = Some((index, Arc::new(entries)));
                        continue;
                    }
                    _ => {}
                },
                Rows::Coming { .. } => {}
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Rows {
    /// Takes the parts that follow, and looks whether they are all.
    fn go_on(&mut self) {
        let Rows::Coming {
            next,
            rows,
            waiting,
            parts,
        } = self
        else {
            return;
        };
        while let Some(found) = waiting.remove(next) {
            rows.append(found);
            *next += 1;
        }
        let mut all = waiting.values().chain(std::iter::once(&*rows));
        if all.any(TableRows::are_too_many) {
            *self = Rows::Missing("its table has too many rows".to_owned());
        } else if *parts == Some(*next) {
            *self = Rows::Whole(Arc::new(std::mem::take(rows)));
        }
    }
}

/// Entries that somebody uses.
pub(crate) struct InUse<'t> {
    table: &'t Table,
    pub(crate) entries: Arc<Entries>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.table.locked().users -= 1;
        self.table.changed.notify_all();
    }
}

/// A part of the rows of a table. Where it is let go of before they have come, nobody waits for them.
pub(crate) struct Part<'t> {
    table: &'t Table,
    part: RowsPart,
}

impl Part<'_> {
    /// Takes the rows out of the pages of the part.
    pub(crate) fn take(self, pages: &[u8]) {
        let shape = &self.table.shape;
        let mut found = TableRows::new(shape, self.table.memory_max);
        found.add_pages(shape, self.part.first_block, pages);
        let mut state = self.table.locked();
        if let Rows::Coming { waiting, .. } = &mut state.rows {
            waiting.insert(self.part.number, found);
        }
        state.rows.go_on();
        drop(state);
        self.table.changed.notify_all();
        std::mem::forget(self);
    }

    /// They will not come.
    pub(crate) fn fail(self, reason: &str) {
        self.table.fail(reason);
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.table.fail("its rows could not be read");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    use walzip_codec::table::{Attribute, KeyAttribute, Order};

    /// A table of which nothing is known but a number, and two indexes on that.
    fn table(memory_max: usize) -> Table {
        let key = KeyAttribute {
            attribute: 0,
            order: Order::Signed,
            descending: false,
            nullable: false,
            nulls_first: false,
        };
        let shape = TableShape {
            attributes: vec![Attribute::Fixed4],
            indexes: vec![vec![key], vec![key]],
        };
        Table::new(shape, memory_max, run_both)
    }

    /// A page with a row for each number.
    fn page(numbers: &[i32]) -> Vec<u8> {
        let mut page = vec![0; PAGE_SIZE];
        let lower = 24 + 4 * numbers.len() as u16;
        page[12..14].copy_from_slice(&lower.to_le_bytes());
        page[16..18].copy_from_slice(&(PAGE_SIZE as u16).to_le_bytes());
        for (at, number) in numbers.iter().enumerate() {
            let offset = PAGE_SIZE - 32 * (at + 1);
            let pointer = offset as u32 | 1 << 15 | 28 << 17;
            page[24 + 4 * at..28 + 4 * at].copy_from_slice(&pointer.to_le_bytes());
            page[offset + 18] = 1;
            page[offset + 22] = 24;
            page[offset + 24..offset + 28].copy_from_slice(&number.to_le_bytes());
        }
        page
    }

    fn add(table: &Table, number: usize, numbers: &[i32]) {
        let part = RowsPart {
            number,
            first_block: number as u32,
        };
        table.part(part).take(&page(numbers));
    }

    /// The numbers that the entries have, in their order.
    fn numbers(entries: &Entries) -> Vec<u8> {
        let tuples = (0..).map_while(|number| entries.tuple(number));
        tuples.map(|tuple| tuple[8]).collect()
    }

    #[test]
    fn rows_come_in_any_order_and_are_waited_for() {
        let table = table(ROWS_MEMORY_MAX);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| table.entries(0).map(|in_use| numbers(&in_use.entries)));
            add(&table, 2, &[4, 1]);
            add(&table, 0, &[3, 5]);
            table.has_parts(3);
            thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            add(&table, 1, &[2]);
            assert_eq!(waiting.join().expect("no panic"), Ok(vec![1, 2, 3, 4, 5]));
        });
    }

    #[test]
    fn one_index_after_the_other_has_its_entries() {
        let table = table(ROWS_MEMORY_MAX);
        add(&table, 0, &[3, 5]);
        table.has_parts(1);
        thread::scope(|scope| {
            let first = table.entries(0).expect("entries");
            let again = table.entries(0).expect("the same");
            assert!(Arc::ptr_eq(&first.entries, &again.entries));
            let other = scope.spawn(|| table.entries(1).map(|in_use| numbers(&in_use.entries)));
            drop(first);
            thread::sleep(Duration::from_millis(20));
            assert!(!other.is_finished());
            drop(again);
            assert_eq!(other.join().expect("no panic"), Ok(vec![3, 5]));
        });
        assert!(table.entries(2).is_err());
    }

    #[test]
    fn nobody_waits_for_what_does_not_come() {
        let failed = table(ROWS_MEMORY_MAX);
        add(&failed, 1, &[1]);
        failed.has_parts(2);
        let part = RowsPart {
            number: 0,
            first_block: 0,
        };
        failed.part(part).fail("chunk 7 is damaged");
        let refused = failed.entries(0).map(|_| ());
        assert_eq!(refused, Err("chunk 7 is damaged".to_owned()));
        let dropped = table(ROWS_MEMORY_MAX);
        drop(dropped.part(part));
        assert!(dropped.entries(0).is_err());
        let too_large = table(100);
        add(&too_large, 0, &[7; 100]);
        too_large.has_parts(1);
        assert!(too_large.entries(0).is_err());
    }
}
