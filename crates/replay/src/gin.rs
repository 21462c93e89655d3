//! Replay of GIN indexes (access/gin/ginxlog.c): the tree of keys, the lists of what is pending,
//! and the metapage. Trees of rows are in [`crate::gin_posting`].

use walzip_pgformat::opcode::gin;

use crate::gin_entry;
use crate::gin_insertion::{IS_DATA, IS_LEAF, NewEntry, OPCODE};
use crate::gin_page::{
    COMPRESSED, COUNT_AT, DATA, DELETED, FULL_ROW, INCOMPLETE_SPLIT, LEAF, LIST, META, Opaque,
    RIGHT_AT, init,
};
use crate::gin_posting;
use crate::index_tuple::{NO_BLOCK, TID_LEN, append_all, tid};
use crate::page::{HEADER_LEN, Page, PageBytes};
use crate::pages::BlockPages;
use crate::record::Record;

/// Size of `GinMetaPageData`, in bytes.
const META_LEN: usize = 56;
/// Where it stands in `ginxlogUpdateMeta`, and what comes behind it.
const UPDATED_META_AT: usize = 16;
const PREVIOUS_TAIL_AT: usize = 72;
const NEW_RIGHT_LINK_AT: usize = 76;
const TUPLES_AT: usize = 80;

/// Replays a record.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        gin::CREATE_PTREE => {
            let page = pages.page(0)?;
            init(page, DATA | LEAF | COMPRESSED);
            let len = usize::try_from(record.main_u32(0)?).ok()?;
            let lists = record.main().get(4..)?.get(..len)?;
            gin_posting::put_lists(page, lists)
        }
        gin::INSERT => insert(record, pages),
        gin::VACUUM_PAGE => gin_entry::vacuum(pages.page(0)?, record.data(0)),
        gin::VACUUM_DATA_LEAF_PAGE => gin_posting::recompress(pages.page(0)?, record.data(0)),
        gin::DELETE_PAGE => delete_page(record, pages),
        gin::UPDATE_META_PAGE => update_meta(record, pages),
        gin::INSERT_LISTPAGE => insert_list_page(record, pages.page(0)?),
        gin::DELETE_LISTPAGE => delete_list_pages(record, pages),
        _ => None,
    }
}

/// The block number whose halves stand in main data, the high one first.
fn main_block(record: &Record<'_>, at: usize) -> Option<u32> {
    Some(u32::from(record.main_u16(at)?) << 16 | u32::from(record.main_u16(at + 2)?))
}

fn insert(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let flags = record.main_u16(0)?;
    let mut right_child = None;
    if flags & IS_LEAF == 0 {
        right_child = Some(main_block(record, 6)?);
        if let Some(child) = pages.page(1) {
            Opaque::change_flags(child, 0, INCOMPLETE_SPLIT)?;
        }
    }
    let (page, data) = (pages.page(0)?, record.data(0));
    match (flags & IS_DATA != 0, right_child) {
        (true, None) => gin_posting::recompress(page, data),
        (true, Some(right)) => gin_posting::insert_downlink(page, data, right),
        (false, right) => insert_entry(page, NewEntry::of(data)?, right),
    }
}

fn insert_entry(page: &mut PageBytes, entry: NewEntry<'_>, right: Option<u32>) -> Option<()> {
    if let Some(right) = right {
        let downlink = page.item_mut(entry.number)?.get_mut(..TID_LEN)?;
        downlink.copy_from_slice(&tid((right, 0)));
    }
    if entry.replaces {
        page.delete_item(entry.number)?;
    }
    page.add_shifting(entry.tuple, entry.number)
}

fn delete_page(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (number, right) = (record.main_u16(0)?, record.main_u32(4)?);
    if let Some(left) = pages.page(2) {
        Opaque::put(left, RIGHT_AT, &right.to_le_bytes())?;
    }
    if let Some(page) = pages.page(0) {
        Opaque::change_flags(page, DELETED, 0)?;
        page.set_prune_xid(record.main_u32(8)?);
    }
    gin_posting::delete_downlink(pages.page(1)?, number)
}

/// Makes a metapage of the data that stand in a record.
fn init_meta(page: &mut PageBytes, record: &Record<'_>, at: usize) -> Option<()> {
    init(page, META);
    page.put(HEADER_LEN, record.main().get(at..at + META_LEN)?)?;
    page.set_bounds(HEADER_LEN + META_LEN, page.upper());
    Some(())
}

fn update_meta(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    if let Some(meta) = pages.page(0) {
        init_meta(meta, record, UPDATED_META_AT)?;
    }
    if record.main_u32(TUPLES_AT)? as i32 > 0 {
        let tail = pages.page(1)?;
        append_all(tail, record.data(1))?;
        let rows = Opaque::u16_at(tail, COUNT_AT)?.wrapping_add(1);
        Opaque::put(tail, COUNT_AT, &rows.to_le_bytes())
    } else if record.main_u32(PREVIOUS_TAIL_AT)? != NO_BLOCK {
        let right = record.main_u32(NEW_RIGHT_LINK_AT)?;
        Opaque::put(pages.page(1)?, RIGHT_AT, &right.to_le_bytes())
    } else {
        Some(())
    }
}

fn insert_list_page(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let right = record.main_u32(0)?;
    let is_last = right == NO_BLOCK;
    init(page, LIST | if is_last { FULL_ROW } else { 0 });
    Opaque::put(page, RIGHT_AT, &right.to_le_bytes())?;
    Opaque::put(page, COUNT_AT, &u16::from(is_last).to_le_bytes())?;
    append_all(page, record.data(0))
}

fn delete_list_pages(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    if let Some(meta) = pages.page(0) {
        init_meta(meta, record, 0)?;
    }
    for block in record.layout.blocks.iter().filter(|block| block.id > 0) {
        if let Some(page) = pages.page(block.id) {
            init(page, DELETED);
        }
    }
    Some(())
}

/// The data of a block reference that are left out because there is an image.
pub fn omitted(
    record: &Record<'_>,
    block: u8,
    before: &PageBytes,
    image: &PageBytes,
    out: &mut Vec<u8>,
) -> Option<()> {
    match (record.opcode(OPCODE), block) {
        (gin::INSERT, 0) if record.main_u16(0)? & IS_DATA == 0 => omitted_entry(before, image, out),
        (gin::INSERT, 0) if record.main_u16(0)? & IS_LEAF == 0 => {
            gin_posting::omitted_downlink(before, image, out)
        }
        (gin::INSERT | gin::VACUUM_DATA_LEAF_PAGE, 0) => {
            gin_posting::omitted_actions(before, image, out)
        }
        (gin::VACUUM_PAGE, 0) => gin_entry::omitted_tids(before, image, out),
        (gin::UPDATE_META_PAGE, 1) => {
            for number in before.items() + 1..=image.items() {
                out.extend_from_slice(image.item(number)?);
            }
            Some(())
        }
        _ => None,
    }
}

/// The entry that is new on a page: the last one that was put there, which lies before all others.
fn omitted_entry(before: &PageBytes, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let replaces = match image.items().checked_sub(before.items())? {
        0 => true,
        1 => false,
        _ => return None,
    };
    let upper = image.upper() as u16;
    let number = (1..=image.items()).find(|&number| {
        let pointer = image.line_pointer(number);
        pointer.is_some_and(|pointer| pointer.offset == upper)
    })?;
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&[replaces.into(), 0]);
    out.extend_from_slice(image.item(number)?);
    Some(())
}
