//! What records of PostgreSQL's write-ahead log do to pages.
//!
//! Whoever has a page as it was, and a record, can compute the page as it is after it: this does
//! so for records of tables, B-trees and the visibility map, of every major version, and for any
//! bytes: what a record or a page cannot be leaves the page as it is, or half changed, and always
//! in the same way. So both sides of a codec have the same pages, if not always the server's.
//! [`omitted_data`] computes what a record leaves out because it has an image of the page.
#![deny(unsafe_code)]

mod btree;
mod btree_deletion;
mod btree_page;
mod cache;
mod heap;
mod heap_prune;
mod index_tuple;
mod key_order;
mod key_shape;
mod leaves;
mod page;
mod pages;
mod record;
mod rules;
mod tuple;
mod visibility;

use walzip_pgformat::opcode::{heap as heap_opcode, heap2};
use walzip_pgformat::rmgr_id::{BTREE, HEAP, HEAP2};
use walzip_pgformat::wal::Block;

pub use btree::{split_data, split_rest};
pub use cache::{PageCache, PageKey};
pub use heap::{free_line_pointer, row_values};
pub use key_order::KeyOrders;
pub use leaves::Leaves;
pub use page::{LinePointer, Page, PageBytes, State};
pub use record::Record;
pub use rules::{Revision, Rules};

use pages::BlockPages;

/// Replays a record on the pages of its blocks that have no image. `None` where it is of a type
/// that is not replayed, or not what such a record can be.
pub fn redo(record: &Record<'_>, cache: &mut PageCache) -> Option<()> {
    let mut pages = BlockPages::new(cache, record);
    match record.layout.header.rmid {
        HEAP | HEAP2 => heap::redo(record, &mut pages),
        BTREE => btree::redo(record, &mut pages),
        _ => None,
    }
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
        _ => None,
    }
}
