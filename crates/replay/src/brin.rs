//! Replay of BRIN indexes (access/brin/brin_xlog.c).
//!
//! A page of the map of ranges has TIDs from [`MAP_AT`] on. The special space has 8 bytes, of which
//! the last two are the kind of the page.

use walzip_pgformat::opcode::brin;

use crate::index_tuple::{NO_BLOCK, TID_LEN, tid};
use crate::page::{HEADER_LEN, LINE_POINTER_LEN, LinePointer, Page, PageBytes, max_align};
use crate::pages::BlockPages;
use crate::record::Record;

const OPCODE: u8 = 0x70;
/// `XLOG_BRIN_INIT_PAGE`
const INIT_PAGE: u8 = 0x80;

const SPECIAL_LEN: usize = 8;
/// `BRIN_PAGETYPE_META`
const META: u16 = 0xF091;
/// `BRIN_META_MAGIC`
const MAGIC: u32 = 0xA810_9CFA;
/// `BRIN_PAGETYPE_REVMAP`
const MAP: u16 = 0xF092;
/// `BRIN_PAGETYPE_REGULAR`
const REGULAR: u16 = 0xF093;
const MAP_AT: usize = HEADER_LEN;
/// `REVMAP_PAGE_MAXITEMS`
const MAP_ITEMS: u32 = ((walzip_pgformat::PAGE_SIZE - MAP_AT - SPECIAL_LEN) / TID_LEN) as u32;
/// Where the last page of the map stands in the metapage, and the end of its data.
const LAST_MAP_AT: usize = HEADER_LEN + 12;
const META_END: usize = HEADER_LEN + 16;

/// Replays a record.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        brin::CREATE_INDEX => {
            let meta = pages.page(0)?;
            init(meta, META)?;
            let version = u32::from(record.main_u16(4)?);
            for (at, number) in [(0, MAGIC), (4, version), (8, record.main_u32(0)?)] {
                meta.put(HEADER_LEN + at, &number.to_le_bytes())?;
            }
            meta.set_bounds(META_END, meta.upper());
            Some(())
        }
        brin::INSERT => insert(record, pages, 0),
        brin::UPDATE => {
            if let Some(page) = pages.page(2) {
                delete_in_place(page, record.main_u16(0)?)?;
            }
            insert(record, pages, 4)
        }
        brin::SAMEPAGE_UPDATE => pages
            .page(0)?
            .overwrite(record.main_u16(0)?, record.data(0)),
        brin::REVMAP_EXTEND => {
            let last = record.main_u32(0)?;
            if let Some(meta) = pages.page(0) {
                meta.put(LAST_MAP_AT, &last.to_le_bytes())?;
                meta.set_bounds(META_END, meta.upper());
            }
            init(pages.page(1)?, MAP)
        }
        brin::DESUMMARIZE => {
            let (per_range, block) = (record.main_u32(0)?, record.main_u32(4)?);
            if let Some(map) = pages.page(0) {
                set_map(map, per_range, block, tid((NO_BLOCK, 0)))?;
            }
            delete_in_place(pages.page(1)?, record.main_u16(8)?)
        }
        _ => None,
    }
}

/// Makes an empty page (`brin_page_init`).
fn init(page: &mut PageBytes, kind: u16) -> Option<()> {
    page.init(SPECIAL_LEN);
    page.put(page.special() + 6, &kind.to_le_bytes())
}

/// An insertion, whose fields begin at `at` in the main data.
fn insert(record: &Record<'_>, pages: &mut BlockPages<'_>, at: usize) -> Option<()> {
    let (block, per_range) = (record.main_u32(at)?, record.main_u32(at + 4)?);
    let number = record.main_u16(at + 8)?;
    let home = record.block(0)?.number;
    let done = pages.page(0).map(|page| {
        if record.layout.header.info & INIT_PAGE != 0 {
            init(page, REGULAR)?;
        }
        page.add_overwriting(record.data(0), number)
    });
    set_map(pages.page(1)?, per_range, block, tid((home, number)))?;
    done.unwrap_or(Some(()))
}

/// Sets where the summary of a block's range stands (`brinSetHeapBlockItemptr`).
fn set_map(map: &mut PageBytes, per_range: u32, block: u32, tid: [u8; TID_LEN]) -> Option<()> {
    let item = block.checked_div(per_range)? % MAP_ITEMS;
    map.put(MAP_AT + item as usize * TID_LEN, &tid)
}

/// Deletes an item without moving line pointers (`PageIndexTupleDeleteNoCompact`).
fn delete_in_place(page: &mut PageBytes, number: u16) -> Option<()> {
    let range = page.item_range(number)?;
    let (len, upper) = (max_align(range.len()), page.upper());
    if !page.is_sane() || range.start < upper || range.start + len > page.special() {
        return None;
    }
    let is_last = number == page.items();
    page.set_line_pointer(number, LinePointer::UNUSED)?;
    page.copy_within(upper..range.start, upper + len);
    let lower = page.lower() - if is_last { LINE_POINTER_LEN } else { 0 };
    page.set_bounds(lower, upper + len);
    for other in 1..=page.items() {
        let pointer = page.line_pointer(other)?;
        if pointer.has_storage() && usize::from(pointer.offset) <= range.start {
            let offset = pointer.offset.checked_add(len as u16)?;
            page.set_line_pointer(other, LinePointer { offset, ..pointer })?;
        }
    }
    Some(())
}

/// The data of the first block reference, which are left out because there is an image.
pub fn omitted(record: &Record<'_>, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let at = match record.opcode(OPCODE) {
        brin::INSERT => 8,
        brin::UPDATE => 12,
        brin::SAMEPAGE_UPDATE => 0,
        _ => return None,
    };
    out.extend_from_slice(image.item(record.main_u16(at)?)?);
    Some(())
}
