//! What records of PostgreSQL's write-ahead log do to pages.
//!
//! Whoever has a page as it was, and a record, can compute the page as it is after it: this does
//! so for records of tables, the visibility map and every type of index, of every major version, and for any
//! bytes: what a record or a page cannot be leaves the page as it is, or half changed, and always
//! in the same way. So both sides of a codec have the same pages, if not always the server's.
//! [`omitted_data`] computes what a record leaves out because it has an image of the page.
#![deny(unsafe_code)]

mod brin;
mod btree;
mod btree_deletion;
mod btree_page;
mod cache;
mod gin;
mod gin_entry;
mod gin_insertion;
mod gin_page;
mod gin_posting;
mod gin_rest;
mod gin_rows;
mod gist;
mod hash;
mod heap;
mod heap_prune;
mod heap_pruning;
mod heap_rest;
mod index_tables;
mod index_tuple;
mod key_order;
mod key_shape;
mod leaves;
mod line_changes;
mod newest_rows;
mod page;
mod pages;
mod record;
mod returns;
mod rules;
mod special;
mod spgist;
mod tuple;
mod visibility;

use walzip_pgformat::opcode::{heap as heap_opcode, heap2};
use walzip_pgformat::rmgr_id::{BRIN, BTREE, GIN, GIST, HASH, HEAP, HEAP2, SPGIST};
use walzip_pgformat::wal::Block;

pub use btree::is_split;
pub use cache::{Eviction, PageCache, PageKey};
pub use gin_rows::GinRows;
pub use heap::{free_line_pointer, indexed_values, row_values};
pub use index_tables::IndexTables;
pub use key_order::KeyOrders;
pub use leaves::Leaves;
pub use newest_rows::{NewestRow, NewestRows};
pub use page::{LinePointer, Page, PageBytes, State};
pub use record::Record;
pub use rules::{Revision, Rules};

use heap_rest::MainLeft;
use pages::BlockPages;

/// Replays a record on the pages of its blocks that have no image. `None` where it is of a type
/// that is not replayed, or not what such a record can be.
pub fn redo(record: &Record<'_>, cache: &mut PageCache) -> Option<()> {
    let mut pages = BlockPages::new(cache, record);
    match record.layout.header.rmid {
        HEAP | HEAP2 => heap::redo(record, &mut pages),
        BTREE => btree::redo(record, &mut pages),
        GIN if record.rules.replays_all() => gin::redo(record, &mut pages),
        GIST if record.rules.replays_all() => gist::redo(record, &mut pages),
        HASH if record.rules.replays_all() => hash::redo(record, &mut pages),
        SPGIST if record.rules.replays_all() => spgist::redo(record, &mut pages),
        BRIN if record.rules.replays_all() => brin::redo(record, &mut pages),
        _ => None,
    }
}

/// Data of a record that may follow from the page of the block reference 0, but for a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageData {
    /// The new right page of a split of a B-tree, block reference 1.
    Split,
    /// An entry of a GIN index that replaces one with fewer rows, block reference 0.
    GinEntry,
    /// The line pointers that pruning changes, block reference 0. Nothing is left of them.
    Pruning,
}

impl PageData {
    /// What data a record has that may follow. That does not depend on the data.
    pub fn of(record: &Record<'_>) -> Option<PageData> {
        match record.layout.header.rmid {
            BTREE if btree::is_split(record.layout) => Some(PageData::Split),
            GIN if record.rules.replays_all() && gin_insertion::is_leaf_entry(record) => {
                Some(PageData::GinEntry)
            }
            HEAP2 if record.rules.replays_all() && heap_rest::is_foretold(record) => {
                Some(PageData::Pruning)
            }
            _ => None,
        }
    }

    /// The id of the block reference that has the data.
    pub fn block(self) -> u8 {
        match self {
            PageData::Split => 1,
            PageData::GinEntry | PageData::Pruning => 0,
        }
    }

    /// Whether [`PageData::whole`] has to be asked if it makes the record of the rest again. Of pruning it does.
    pub fn is_uncertain(self) -> bool {
        self != PageData::Pruning
    }

    /// What is left, given the page as it is before the record, and the rows that are expected.
    pub fn rest(self, record: &Record<'_>, page: &PageBytes, rows: &GinRows) -> Option<Rest> {
        match self {
            PageData::Split => Some(Rest {
                follows: Follows::Data,
                data: btree::split_rest(record, page)?,
                main: None,
            }),
            PageData::GinEntry => {
                let (is_expected, data) = gin_rest::rest(record, page, rows)?;
                Some(Rest {
                    follows: if is_expected {
                        Follows::All
                    } else {
                        Follows::Data
                    },
                    data,
                    main: None,
                })
            }
            PageData::Pruning => {
                let (follows, main) = match heap_rest::rest(record, page)? {
                    MainLeft::All => (Follows::Data, None),
                    MainLeft::Part(main) => (Follows::All, Some(main)),
                };
                Some(Rest {
                    follows,
                    data: Vec::new(),
                    main,
                })
            }
        }
    }

    /// The reverse of [`PageData::rest`]: what a record has of which the rest is left.
    pub fn whole(
        self,
        record: &Record<'_>,
        page: &PageBytes,
        rows: &GinRows,
        follows: Follows,
    ) -> Option<Whole> {
        let data_only = |data| Whole { main: None, data };
        match self {
            PageData::Split => btree::split_data(record, page).map(data_only),
            PageData::GinEntry => {
                gin_rest::data(record, page, rows, follows == Follows::All).map(data_only)
            }
            PageData::Pruning => {
                let (main, data) = heap_rest::whole(record, page, follows == Follows::Data)?;
                Some(Whole {
                    main: Some(main),
                    data,
                })
            }
        }
    }
}

/// How much of a record follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Of a split and of pruning the data, of a GIN entry what the page has of it.
    Data,
    /// Of pruning the main data too, of a GIN entry the rows that are new.
    All,
}

/// What is left of a record.
#[derive(Clone, Debug)]
pub struct Rest {
    /// How much was taken out.
    pub follows: Follows,
    /// Of the data of the block reference.
    pub data: Vec<u8>,
    /// The main data, where they are others.
    pub main: Option<Vec<u8>>,
}

/// What a record has of which the rest is left.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The data of the block reference.
    pub data: Vec<u8>,
    /// The main data, where they may be others.
    pub main: Option<Vec<u8>>,
}

/// Computes the data of a block reference that the server left out because the record has an
/// image of its page: of the page before and the image. Nothing where it left out nothing.
pub fn omitted_data(
    record: &Record<'_>,
    block: &Block,
    before: &PageBytes,
    image: &PageBytes,
) -> Vec<u8> {
    let mut data = Vec::new();
    match try_omitted_data(record, block, before, image, &mut data) {
        Some(()) => data,
        None => Vec::new(),
    }
}

fn try_omitted_data(
    record: &Record<'_>,
    block: &Block,
    before: &PageBytes,
    image: &PageBytes,
    data: &mut Vec<u8>,
) -> Option<()> {
    let header = &record.layout.header;
    match header.rmid {
        GIN => return gin::omitted(record, block.id, before, image, data),
        HASH => return hash::omitted(record, block.id, before, image, data),
        _ => {}
    }
    if block.id != 0 {
        return None;
    }
    match (header.rmid, header.info & 0x70) {
        (HEAP, heap_opcode::INSERT) => heap::omitted_tuple(image, record.main_u16(0)?, data),
        (HEAP, heap_opcode::UPDATE | heap_opcode::HOT_UPDATE) => {
            let flags = record.main_u8(7)?;
            if flags & (heap::PREFIX_FROM_OLD | heap::SUFFIX_FROM_OLD) != 0 {
                return None;
            }
            heap::omitted_tuple(image, record.main_u16(12)?, data)
        }
        (HEAP2, heap2::MULTI_INSERT) => {
            for number in heap::multi_insert_numbers(record)? {
                data.resize(data.len().next_multiple_of(2), 0);
                let start = data.len();
                data.extend_from_slice(&[0; 2]);
                heap::omitted_tuple(image, number, data)?;
                let len = data.len() - start - heap::MULTI_HEADER_LEN;
                data[start..start + 2].copy_from_slice(&(len as u16).to_le_bytes());
            }
            Some(())
        }
        (HEAP2, heap2::PRUNE | heap2::PRUNE_VACUUM_SCAN | heap2::PRUNE_VACUUM_CLEANUP) => {
            heap_prune::omitted(record, before, image, data)
        }
        (BTREE, _) => btree::omitted(record, before, image, data),
        (BRIN, _) => brin::omitted(record, image, data),
        (GIST, _) => gist::omitted(record, before, image, data),
        _ => None,
    }
}
