//! The tables whose files are being cut: their indexes are told from their rows.

use std::collections::HashMap;
use std::sync::Arc;

use walzip_codec::Extent;
use walzip_codec::table::TableShape;

use super::index::SHARED_BYTES_MAX;
use super::tables::{Role, RowsPart, Table, WRITTEN_ROWS_MEMORY_MAX};
use crate::coding::two_threads::run_both;
use crate::server::indexed_tables::IndexedTable;

/// What a file is.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileOf {
    Table(usize),
    /// An index of a table, and its number there.
    Index(usize, usize),
}

/// Tables by their files, and the one whose files are being cut.
#[derive(Debug, Default)]
pub(super) struct CutTables {
    files: HashMap<Vec<u8>, FileOf>,
    shapes: Vec<TableShape>,
    /// The last table that was cut. Its indexes follow.
    last: Option<(usize, Arc<Table>)>,
    /// The number of the next of its indexes that may follow: in a stream they are in the order of their
    /// numbers.
    next_index: usize,
    /// What the file is that is being cut, if it is of a table.
    current: Option<FileOf>,
    /// Chunks of it so far.
    chunks: usize,
}

impl CutTables {
    /// None of them was cut yet.
    pub(super) fn of(tables: &[IndexedTable]) -> CutTables {
        let mut of = CutTables::default();
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

    /// What a file is, if it is of a table. An index is so only after its table and the indexes before it:
    /// in another directory than the table it may come at any time.
    pub(super) fn find(&self, (name, size_bytes): (&[u8], u64)) -> Option<FileOf> {
        let file = *self
            .files
            .get(name)
            .filter(|_| size_bytes > SHARED_BYTES_MAX)?;
        let last = self.last.as_ref().map(|(number, _)| *number);
        match file {
            FileOf::Index(table, index) if last != Some(table) || index < self.next_index => None,
            file => Some(file),
        }
    }

    /// A file is going to be cut.
    pub(super) fn begin(&mut self, file: FileOf) {
        self.current = Some(file);
        self.chunks = 0;
        match file {
            FileOf::Table(number) => {
                let shape = self.shapes.get(number).cloned().unwrap_or_default();
                let table = Table::new(shape, WRITTEN_ROWS_MEMORY_MAX, run_both);
                self.last = Some((number, Arc::new(table)));
                self.next_index = 0;
            }
            FileOf::Index(_, index) => self.next_index = index + 1,
        }
    }

    /// The file is cut.
    pub(super) fn end(&mut self) {
        let file = self.current.take();
        if let (Some(FileOf::Table(_)), Some((_, table))) = (file, &self.last) {
            table.has_parts(self.chunks);
        }
    }

    /// What the next chunk has to do with a table.
    pub(super) fn role(&mut self, extents: &[Extent]) -> Role {
        let (Some(file), Some((_, table))) = (self.current, &self.last) else {
            return Role::None;
        };
        let number = self.chunks;
        self.chunks += 1;
        let [Extent::Pages { first_block, .. }] = extents else {
            table.fail("it has a chunk of something else than pages");
            return Role::None;
        };
        match file {
            FileOf::Table(_) => Role::Rows(
                Arc::clone(table),
                RowsPart {
                    number,
                    first_block: *first_block,
                },
            ),
            FileOf::Index(_, index) => Role::Index(Arc::clone(table), index),
        }
    }
}
