//! Which indexes have their entries in the order of the rows, as some of their pages show.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use walzip_codec::table::in_row_order;
use walzip_pgformat::PAGE_SIZE;

use crate::server::indexed_tables::IndexedTable;

/// How many pages of an index are looked at.
const PAGES: u64 = 8;
/// Of these many tuples, one may point elsewhere.
const STRAYS_PART: usize = 8;

/// Takes out the indexes whose entries are in the order of the rows, and tables without others.
pub(super) fn without_such(root: &Path, tables: Vec<IndexedTable>) -> Vec<IndexedTable> {
    let others = |mut table: IndexedTable| {
        let indexes = table.indexes.drain(..).zip(table.shape.indexes.drain(..));
        let others: Vec<_> = indexes
            .filter(|(file, _)| !is_in_row_order(&root.join(file)))
            .collect();
        (table.indexes, table.shape.indexes) = others.into_iter().unzip();
        table
    };
    let tables = tables.into_iter().map(others);
    tables.filter(|table| !table.indexes.is_empty()).collect()
}

/// What cannot be read is not.
fn is_in_row_order(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let blocks = file
        .metadata()
        .map_or(0, |metadata| metadata.len() / PAGE_SIZE as u64);
    let mut page = Box::new([0; PAGE_SIZE]);
    let (mut following, mut all) = (0, 0);
    for number in 1..=PAGES {
        let block = number * blocks / (PAGES + 1);
        if file
            .read_exact_at(page.as_mut_slice(), block * PAGE_SIZE as u64)
            .is_ok()
            && let Some((of_page, all_of_page)) = in_row_order(&page)
        {
            following += of_page;
            all += all_of_page;
        }
    }
    all > 0 && all - following <= all / STRAYS_PART
}
