//! The tables whose files are being cut: their indexes are told from their rows.

use std::collections::HashMap;
use std::sync::Arc;

use walzip_codec::Extent;
use walzip_codec::table::TableShape;

use super::index::SHARED_BYTES_MAX;
use super::tables::{ROWS_MEMORY_MAX, Role, RowsPart, Table};
use crate::indexed_tables::IndexedTable;
use crate::two_threads::run_both;

/// What a file is.
#[derive(Clone, Copy, Debug)]
enum FileOf {
    Table(usize),
    /// An index of a table, and its number there.
    Index(usize, usize),
}

/// Tables by their files, and the one whose files are being cut.
#[derive(Debug, Default)]
pub(super) struct TablesOfCut {
    files: HashMap<Vec<u8>, FileOf>,
    shapes: Vec<TableShape>,
    /// The last table that was cut. Its indexes follow.
    last: Option<(usize, Arc<Table>)>,
    /// What the file is that is being cut.
    current: Option<FileOf>,
    /// Chunks of it so far.
    chunks: usize,
    /// The chunks that are cut are of such a file.
    pub(super) is_in_file: bool,
}

impl TablesOfCut {
    /// None of them was cut yet.
    pub(super) fn of(tables: &[IndexedTable]) -> TablesOfCut {
        let mut of = TablesOfCut::default();
        for (number, table) in tables.iter().enumerate() {
            let indexes = table.indexes.iter().enumerate();
            let indexes = indexes.map(|(index, file)| (file, FileOf::Index(number, index)));
            let files = std::iter::once((&table.file, FileOf::Table(number))).chain(indexes);
            of.files
                .extend(files.map(|(file, what)| (file.clone().into_bytes(), what)));
            of.shapes.push(table.shape.clone());
        }
        of
    }

    /// A file of whole pages is going to be cut: whether it is of a table.
    pub(super) fn begin(&mut self, (name, size_bytes): (&[u8], u64)) -> bool {
        let found = self.files.get(name).copied();
        self.current = found.filter(|_| size_bytes > SHARED_BYTES_MAX);
        self.chunks = 0;
        match self.current {
            None => false,
            Some(FileOf::Table(number)) => {
                let shape = self.shapes.get(number).cloned().unwrap_or_default();
                let table = Table::new(shape, ROWS_MEMORY_MAX, run_both);
                self.last = Some((number, Arc::new(table)));
                true
            }
            Some(FileOf::Index(table, _)) => {
                self.last.as_ref().is_some_and(|(last, _)| *last == table)
            }
        }
    }

    /// The file is cut.
    pub(super) fn end(&mut self) {
        self.is_in_file = false;
        if let (Some(FileOf::Table(_)), Some((_, table))) = (self.current, &self.last) {
            table.has_parts(self.chunks);
        }
    }

    /// What the next chunk of the file has to do with the table.
    pub(super) fn role(&mut self, extents: &[Extent]) -> Role {
        let number = self.chunks;
        self.chunks += 1;
        let Some((_, table)) = &self.last else {
            return Role::None;
        };
        let [Extent::Pages { first_block, .. }] = extents else {
            table.fail("it has a chunk of something else than pages");
            return Role::None;
        };
        match self.current {
            Some(FileOf::Table(_)) => Role::Rows(
                Arc::clone(table),
                RowsPart {
                    number,
                    first_block: *first_block,
                },
            ),
            Some(FileOf::Index(_, index)) => Role::Index(Arc::clone(table), index),
            None => Role::None,
        }
    }
}
