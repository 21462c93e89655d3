//! Replay of SP-GiST indexes (access/spgist/spgxlog.c).
//!
//! The special space has 8 bytes: flags, numbers of redirections and of placeholders, page id, u16
//! each. A tuple begins with u32, whose two low bits are its state. Of a leaf tuple the other bits
//! are its length; the offset of the next one in its chain is u16 at 4, from 14 on 14 bits of that.
//! Of an inner tuple the upper 16 bits are the length of its prefix, and its length is u16 at 4.

use walzip_pgformat::bytes::{read_u16, read_u32};
use walzip_pgformat::opcode::spgist;

use crate::index_tuple::{self, LEN_MASK, NO_BLOCK, Place, tid};
use crate::page::{Page, PageBytes, max_align};
use crate::pages::BlockPages;
use crate::record::Record;
use crate::special::Special;

const OPCODE: u8 = 0xF0;

const SPECIAL_LEN: usize = 8;
type Opaque = Special<SPECIAL_LEN, 0>;
/// `SPGIST_PAGE_ID`
const PAGE_ID: u16 = 0xFF82;
/// `SPGIST_LEAF`
const LEAF: u16 = 1 << 2;
/// `SPGIST_NULLS`
const NULLS: u16 = 1 << 3;
/// Where the numbers of redirections and of placeholders stand in the special space.
const REDIRECTIONS_AT: usize = 2;
const PLACEHOLDERS_AT: usize = 4;

/// `SPGIST_REDIRECT`
const REDIRECT: u32 = 1;
/// `SPGIST_DEAD`
const DEAD: u32 = 2;
/// `SPGIST_PLACEHOLDER`
const PLACEHOLDER: u32 = 3;
const STATE_MASK: u32 = 3;

/// `SGDTSIZE`: bytes of a tuple that is not live any more.
const DEAD_LEN: usize = 16;
/// `SGITHDRSZ`
const INNER_HEADER_LEN: usize = 8;
const NEXT_AT: usize = 4;
/// From 14 on, the bits of the next tuple's offset.
const NEXT_MASK: u16 = 0x3FFF;
const POINTER_AT: usize = 6;
const XID_AT: usize = 12;
/// No block and no number (`ItemPointerSetInvalid`).
const NOWHERE: Place = (NO_BLOCK, 0);

/// Replays a record.
pub fn redo(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    match record.opcode(OPCODE) {
        spgist::ADD_LEAF => add_leaf(record, pages),
        spgist::MOVE_LEAFS => move_leaves(record, pages),
        spgist::ADD_NODE => add_node(record, pages),
        spgist::SPLIT_TUPLE => split_tuple(record, pages),
        spgist::PICKSPLIT => pick_split(record, pages),
        spgist::VACUUM_LEAF => vacuum_leaf(record, pages.page(0)?),
        spgist::VACUUM_ROOT => {
            let numbers = numbers(record, 12, record.main_u16(0)?)?;
            pages.page(0)?.remove(&numbers, record.rules)
        }
        spgist::VACUUM_REDIRECT => vacuum_redirections(record, pages.page(0)?),
        _ => None,
    }
}

/// Makes an empty page (`SpGistInitPage`).
fn init(page: &mut PageBytes, flags: u16) {
    page.init(SPECIAL_LEN);
    Opaque::change_flags(page, flags, 0);
    Opaque::put(page, 6, &PAGE_ID.to_le_bytes());
}

fn init_leaf(page: &mut PageBytes, has_nulls: bool) {
    init(page, LEAF | if has_nulls { NULLS } else { 0 });
}

/// Adds to a number in the special space.
fn count(page: &mut PageBytes, at: usize, more: i16) -> Option<()> {
    let number = Opaque::u16_at(page, at)?.wrapping_add_signed(more);
    Opaque::put(page, at, &number.to_le_bytes())
}

/// Numbers of tuples in the main data.
fn numbers(record: &Record<'_>, at: usize, count: u16) -> Option<Vec<u16>> {
    let bytes = record.main().get(at..at + 2 * usize::from(count))?;
    Some(index_tuple::numbers(bytes))
}

fn state(tuple: &[u8]) -> Option<u32> {
    Some(read_u32(tuple, 0)? & STATE_MASK)
}

/// Takes the leaf tuple at the front.
fn take_leaf<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = (read_u32(bytes, 0)? >> 2) as usize;
    take(bytes, len)
}

/// Takes the inner tuple at the front.
fn take_inner<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = read_u16(bytes, 4)?.into();
    take(bytes, len)
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    (len >= INNER_HEADER_LEN).then_some(taken)
}

/// Puts a tuple before another one, or in place of a placeholder (`addOrReplaceTuple`).
fn add_or_replace(page: &mut PageBytes, tuple: &[u8], number: u16) -> Option<()> {
    if number <= page.items() {
        if state(page.item(number)?)? != PLACEHOLDER {
            return None;
        }
        count(page, PLACEHOLDERS_AT, -1)?;
        page.delete_item(number)?;
    }
    page.add_shifting(tuple, number)
}

fn replace(page: &mut PageBytes, tuple: &[u8], number: u16) -> Option<()> {
    page.delete_item(number)?;
    page.add_shifting(tuple, number)
}

/// A tuple that is not live any more (`spgFormDeadTuple`).
fn dead_tuple(state: u32, place: Place, xid: u32) -> [u8; DEAD_LEN] {
    let mut tuple = [0; DEAD_LEN];
    let is_redirect = state == REDIRECT;
    let (place, xid) = if is_redirect {
        (place, xid)
    } else {
        (NOWHERE, 0)
    };
    tuple[..4].copy_from_slice(&(state | (DEAD_LEN as u32) << 2).to_le_bytes());
    tuple[POINTER_AT..XID_AT].copy_from_slice(&tid(place));
    tuple[XID_AT..].copy_from_slice(&xid.to_le_bytes());
    tuple
}

/// What tuples become that are deleted: the first one, and the others.
struct Becoming {
    first: u32,
    others: u32,
    place: Place,
    xid: u32,
}

/// Puts tuples that are not live in place of others (`spgPageIndexMultiDelete`).
fn delete(
    record: &Record<'_>,
    page: &mut PageBytes,
    numbers: &[u16],
    becoming: &Becoming,
) -> Option<()> {
    let Some(first) = numbers.first() else {
        return Some(());
    };
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    page.remove(&sorted, record.rules)?;
    for number in &sorted {
        let state = match number == first {
            true => becoming.first,
            false => becoming.others,
        };
        page.add_shifting(&dead_tuple(state, becoming.place, becoming.xid), *number)?;
        match state {
            REDIRECT => count(page, REDIRECTIONS_AT, 1)?,
            PLACEHOLDER => count(page, PLACEHOLDERS_AT, 1)?,
            _ => {}
        }
    }
    Some(())
}

/// Sets where a node of an inner tuple leads (`spgUpdateNodeLink`).
fn set_link(page: &mut PageBytes, number: u16, node: u16, place: Place) -> Option<()> {
    let tuple = page.item_mut(number)?;
    let mut at = INNER_HEADER_LEN + usize::from(read_u16(tuple, 2)?);
    for _ in 0..node {
        let len = usize::from(read_u16(tuple, at + 6)? & LEN_MASK);
        at += Some(len).filter(|len| *len >= INNER_HEADER_LEN)?;
    }
    tuple.get_mut(at..at + 6)?.copy_from_slice(&tid(place));
    Some(())
}

/// Sets the next tuple of a chain.
fn set_next(record: &Record<'_>, page: &mut PageBytes, number: u16, next: u16) -> Option<()> {
    let tuple = page.item_mut(number)?;
    let mask = match record.rules.major() {
        13 => u16::MAX,
        _ => NEXT_MASK,
    };
    let next = read_u16(tuple, NEXT_AT)? & !mask | next & mask;
    tuple
        .get_mut(NEXT_AT..NEXT_AT + 2)?
        .copy_from_slice(&next.to_le_bytes());
    Some(())
}

fn add_leaf(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (is_new, has_nulls) = (record.main_u8(0)? != 0, record.main_u8(1)? != 0);
    let (number, head) = (record.main_u16(2)?, record.main_u16(4)?);
    let block = record.block(0)?.number;
    let tuple = take_leaf(&mut record.main().get(10..)?)?;
    if let Some(page) = pages.page(0) {
        if is_new {
            init_leaf(page, has_nulls);
        }
        if number == head {
            replace(page, tuple, number)?;
        } else {
            add_or_replace(page, tuple, number)?;
            if head != 0 {
                set_next(record, page, head, number)?;
            }
        }
    }
    if record.block(1).is_some() {
        let (parent, node) = (record.main_u16(6)?, record.main_u16(8)?);
        set_link(pages.page(1)?, parent, node, (block, number))?;
    }
    Some(())
}

fn move_leaves(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let moves = record.main_u16(0)?;
    let inserts = match record.main_u8(3)? {
        0 => moves.checked_add(1)?,
        _ => 1,
    };
    let (xid, is_build) = (record.main_u32(12)?, record.main_u8(16)? != 0);
    let deleted = numbers(record, 20, moves)?;
    let inserted_at = 20 + 2 * usize::from(moves);
    let inserted = numbers(record, inserted_at, inserts)?;
    let mut tuples = record.main().get(inserted_at + 2 * inserted.len()..)?;
    let place = (record.block(1)?.number, *inserted.last()?);
    if let Some(page) = pages.page(1) {
        if record.main_u8(2)? != 0 {
            init_leaf(page, record.main_u8(4)? != 0);
        }
        for number in &inserted {
            add_or_replace(page, take_leaf(&mut tuples)?, *number)?;
        }
    }
    let becoming = Becoming {
        first: if is_build { PLACEHOLDER } else { REDIRECT },
        others: PLACEHOLDER,
        place,
        xid,
    };
    if let Some(page) = pages.page(0) {
        delete(record, page, &deleted, &becoming)?;
    }
    set_link(
        pages.page(2)?,
        record.main_u16(6)?,
        record.main_u16(8)?,
        place,
    )
}

fn add_node(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (number, new_number) = (record.main_u16(0)?, record.main_u16(2)?);
    let tuple = take_inner(&mut record.main().get(20..)?)?;
    let Some(new) = record.block(1) else {
        return replace(pages.page(0)?, tuple, number);
    };
    let place = (new.number, new_number);
    if let Some(page) = pages.page(1) {
        if record.main_u8(4)? != 0 {
            init(page, 0);
        }
        add_or_replace(page, tuple, new_number)?;
    }
    let is_build = record.main_u8(16)? != 0;
    if let Some(page) = pages.page(0) {
        let (state, counted) = match is_build {
            true => (PLACEHOLDER, PLACEHOLDERS_AT),
            false => (REDIRECT, REDIRECTIONS_AT),
        };
        replace(
            page,
            &dead_tuple(state, place, record.main_u32(12)?),
            number,
        )?;
        count(page, counted, 1)?;
    }
    let parent = record.main_u8(5)?;
    set_link(
        pages.page(parent)?,
        record.main_u16(6)?,
        record.main_u16(8)?,
        place,
    )
}

fn split_tuple(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (prefix_number, postfix_number) = (record.main_u16(0)?, record.main_u16(2)?);
    let (is_new, is_same) = (record.main_u8(4)? != 0, record.main_u8(5)? != 0);
    let mut tuples = record.main().get(6..)?;
    let (prefix, postfix) = (take_inner(&mut tuples)?, take_inner(&mut tuples)?);
    if let Some(page) = pages.page(1).filter(|_| !is_same) {
        if is_new {
            init(page, 0);
        }
        add_or_replace(page, postfix, postfix_number)?;
    }
    let page = pages.page(0)?;
    replace(page, prefix, prefix_number)?;
    match is_same {
        true => add_or_replace(page, postfix, postfix_number),
        false => Some(()),
    }
}

/// A leaf page whose tuples go to two pages, under a new inner tuple.
fn pick_split(record: &Record<'_>, pages: &mut BlockPages<'_>) -> Option<()> {
    let (deletes, inserts) = (record.main_u16(2)?, record.main_u16(4)?);
    let is_root_split = record.main_u8(0)? != 0;
    let has_nulls = record.main_u8(11)? != 0;
    let inner_number = record.main_u16(8)?;
    let (xid, is_build) = (record.main_u32(20)?, record.main_u8(24)? != 0);
    let deleted = numbers(record, 28, deletes)?;
    let inserted_at = 28 + 2 * deleted.len();
    let inserted = numbers(record, inserted_at, inserts)?;
    let selected_at = inserted_at + 2 * inserted.len();
    let selected = record
        .main()
        .get(selected_at..selected_at + inserted.len())?;
    let mut tuples = record.main().get(selected_at + inserted.len()..)?;
    let inner = take_inner(&mut tuples)?;
    let inner_place = (record.block(2)?.number, inner_number);
    for (id, init_at) in [(0, 6), (1, 7)] {
        let is_new = record.main_u8(init_at)? != 0;
        let Some(page) = pages.page(id) else {
            continue;
        };
        if is_new {
            init_leaf(page, has_nulls);
        } else if id == 0 {
            let becoming = Becoming {
                first: if is_build { PLACEHOLDER } else { REDIRECT },
                others: PLACEHOLDER,
                place: inner_place,
                xid,
            };
            delete(record, page, &deleted, &becoming)?;
        }
    }
    for (number, selected) in inserted.iter().zip(selected) {
        let tuple = take_leaf(&mut tuples)?;
        if let Some(page) = pages.page(u8::from(*selected != 0)) {
            add_or_replace(page, tuple, *number)?;
        }
    }
    if let Some(page) = pages.page(2) {
        if record.main_u8(10)? != 0 {
            init(page, if has_nulls { NULLS } else { 0 });
        }
        add_or_replace(page, inner, inner_number)?;
    }
    let (parent, node) = (record.main_u16(14)?, record.main_u16(16)?);
    match (record.main_u8(12)? != 0, is_root_split) {
        (true, _) => set_link(pages.page(2)?, parent, node, inner_place),
        (false, false) => set_link(pages.page(3)?, parent, node, inner_place),
        (false, true) => Some(()),
    }
}

fn vacuum_leaf(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let counts = [0, 2, 4, 4, 6, 6].map(|at| record.main_u16(at));
    let mut at = 16;
    let mut lists = Vec::with_capacity(counts.len());
    for count in counts {
        let list = numbers(record, at, count?)?;
        at += 2 * list.len();
        lists.push(list);
    }
    let [dead, placeholders, move_from, move_to, chain_from, chain_to] = lists.try_into().ok()?;
    let becoming = |state| Becoming {
        first: state,
        others: state,
        place: NOWHERE,
        xid: 0,
    };
    delete(record, page, &dead, &becoming(DEAD))?;
    delete(record, page, &placeholders, &becoming(PLACEHOLDER))?;
    for (from, to) in move_from.iter().zip(&move_to) {
        let (one, other) = (page.line_pointer(*from)?, page.line_pointer(*to)?);
        page.set_line_pointer(*from, other)?;
        page.set_line_pointer(*to, one)?;
    }
    delete(record, page, &move_from, &becoming(PLACEHOLDER))?;
    for (from, to) in chain_from.iter().zip(&chain_to) {
        set_next(record, page, *from, *to)?;
    }
    Some(())
}

/// Redirections become placeholders, and placeholders at the end go.
fn vacuum_redirections(record: &Record<'_>, page: &mut PageBytes) -> Option<()> {
    let (becoming, first) = (record.main_u16(0)?, record.main_u16(2)?);
    let at = if record.rules.major() >= 16 { 10 } else { 8 };
    for number in numbers(record, at, becoming)? {
        let tuple = page.item_mut(number)?;
        let word = read_u32(tuple, 0)? | PLACEHOLDER;
        tuple.get_mut(..4)?.copy_from_slice(&word.to_le_bytes());
        tuple
            .get_mut(POINTER_AT..XID_AT)?
            .copy_from_slice(&tid(NOWHERE));
        count(page, REDIRECTIONS_AT, -1)?;
        count(page, PLACEHOLDERS_AT, 1)?;
    }
    if first == 0 {
        return Some(());
    }
    let removed: Vec<u16> = (first..=page.items()).collect();
    if removed.is_empty() {
        return Some(());
    }
    count(page, PLACEHOLDERS_AT, (removed.len() as i16).checked_neg()?)?;
    page.remove(&removed, record.rules)
}

const _: () = assert!(max_align(DEAD_LEN) == DEAD_LEN);
