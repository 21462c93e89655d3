//! The trees of rows of GIN indexes (access/gin/ginxlog.c, gindatapage.c).
//!
//! A leaf has posting lists, one after the other, from [`DATA_AT`] to `pd_lower`. Another page has
//! posting items there: a block, high `u16` first, and a TID.

use walzip_pgformat::bytes::read_u16;
use walzip_pgformat::posting_list::{LIST_HEADER_LEN, list_of, read_list, short_align, tid_number};

use crate::gin_page::{COMPRESSED, COUNT_AT, Opaque};
use crate::page::{HEADER_LEN, Page, PageBytes};

/// Where the data begin: behind the TID that bounds the page.
const DATA_AT: usize = HEADER_LEN + 8;
/// Bytes of a posting item.
const ITEM_LEN: usize = 10;

/// `GIN_SEGMENT_DELETE`
const DELETE: u8 = 1;
/// `GIN_SEGMENT_INSERT`
pub const INSERT: u8 = 2;
/// `GIN_SEGMENT_REPLACE`
const REPLACE: u8 = 3;
/// `GIN_SEGMENT_ADDITEMS`
const ADD_ITEMS: u8 = 4;
const TID_LEN: usize = 6;

/// The lists of a leaf.
fn lists(page: &PageBytes) -> Option<&[u8]> {
    match Opaque::flags(page)? & COMPRESSED {
        0 => None,
        _ => page.get(DATA_AT..page.lower()),
    }
}

/// Puts the lists of a leaf on it.
pub fn put_lists(page: &mut PageBytes, lists: &[u8]) -> Option<()> {
    let end = DATA_AT + lists.len();
    if end > Opaque::at(page)? {
        return None;
    }
    page.put(DATA_AT, lists)?;
    page.set_bounds(end, page.upper());
    Some(())
}

/// Takes the list at the front of `bytes`, with its padding.
pub fn take_list<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = LIST_HEADER_LEN + short_align(read_u16(bytes, 6)?.into());
    take(bytes, len)
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

/// Changes the lists of a leaf (`ginRedoRecompress`).
pub fn recompress(page: &mut PageBytes, actions: &[u8]) -> Option<()> {
    let mut old = lists(page)?;
    let mut new = Vec::with_capacity(old.len() + actions.len());
    let mut number = 0_u16;
    let count = read_u16(actions, 0)?;
    let mut rest = actions.get(2..)?;
    for _ in 0..count {
        let action = take(&mut rest, 2)?;
        while number < action[0].into() {
            new.extend_from_slice(take_list(&mut old)?);
            number += 1;
        }
        match action[1] {
            INSERT => {
                new.extend_from_slice(take_list(&mut rest)?);
                continue;
            }
            REPLACE => {
                take_list(&mut old)?;
                new.extend_from_slice(take_list(&mut rest)?);
            }
            ADD_ITEMS => {
                let count = usize::from(u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?));
                let items = take(&mut rest, count * TID_LEN)?;
                new.extend_from_slice(&with_items(take_list(&mut old)?, items)?);
            }
            DELETE => {
                take_list(&mut old)?;
            }
            _ => return None,
        }
        number = number.checked_add(1)?;
    }
    new.extend_from_slice(old);
    put_lists(page, &new)
}

/// A list with more TIDs.
fn with_items(list: &[u8], items: &[u8]) -> Option<Vec<u8>> {
    let mut tids = Vec::new();
    read_list(list, &mut tids)?;
    for item in items.chunks_exact(TID_LEN) {
        tids.push(tid_number(item)?);
    }
    tids.sort_unstable();
    tids.dedup();
    list_of(&tids)
}

/// Where posting item `number` stands, and how many there are.
fn posting_item(page: &PageBytes, number: u16) -> Option<(usize, u16)> {
    let count = Opaque::u16_at(page, COUNT_AT)?;
    let at = DATA_AT + usize::from(number.checked_sub(1)?) * ITEM_LEN;
    (number <= count && at + ITEM_LEN <= Opaque::at(page)?).then_some((at, count))
}

fn set_count(page: &mut PageBytes, count: u16) -> Option<()> {
    Opaque::put(page, COUNT_AT, &count.to_le_bytes())?;
    let lower = DATA_AT + usize::from(count) * ITEM_LEN;
    page.set_bounds(lower, page.upper());
    Some(())
}

/// Puts a posting item before another one, which gets another block (`ginxlogInsertDataInternal`).
pub fn insert_downlink(page: &mut PageBytes, data: &[u8], right: u32) -> Option<()> {
    let (number, item) = (read_u16(data, 0)?, data.get(2..2 + ITEM_LEN)?);
    let (at, count) = posting_item(page, number)?;
    let end = DATA_AT + usize::from(count) * ITEM_LEN;
    if end + ITEM_LEN > Opaque::at(page)? {
        return None;
    }
    page.put(at, &((right >> 16) as u16).to_le_bytes())?;
    page.put(at + 2, &(right as u16).to_le_bytes())?;
    page.copy_within(at..end, at + ITEM_LEN);
    page.put(at, item)?;
    set_count(page, count + 1)
}

/// Removes a posting item.
pub fn delete_downlink(page: &mut PageBytes, number: u16) -> Option<()> {
    let (at, count) = posting_item(page, number)?;
    let end = DATA_AT + usize::from(count) * ITEM_LEN;
    if end > Opaque::at(page)? {
        return None;
    }
    page.copy_within(at + ITEM_LEN..end, at);
    set_count(page, count - 1)
}

/// The posting item that is new in an image.
pub fn omitted_downlink(before: &PageBytes, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let (_, count) = posting_item(image, 1)?;
    for number in 1..=count {
        let (at, _) = posting_item(image, number)?;
        let item = image.get(at..at + ITEM_LEN)?;
        if before.get(at..at + ITEM_LEN)? != item || number == count {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(item);
            return Some(());
        }
    }
    None
}

/// The changes that make the lists of an image of those of the page before. They need not be the
/// server's.
pub fn omitted_actions(before: &PageBytes, image: &PageBytes, out: &mut Vec<u8>) -> Option<()> {
    let (old, new) = (all_lists(lists(before)?)?, all_lists(lists(image)?)?);
    let pairs = || old.iter().zip(&new);
    let front = pairs().take_while(|(one, other)| one == other).count();
    let behind = old[front..].iter().rev().zip(new[front..].iter().rev());
    let back = behind.take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[front..old.len() - back], &new[front..new.len() - back]);
    let actions = old.len().max(new.len()) as u16;
    out.extend_from_slice(&actions.to_le_bytes());
    for number in 0..usize::from(actions) {
        let list = front + number.min(old.len());
        out.push(u8::try_from(list).ok()?);
        match (old.get(number), new.get(number)) {
            (Some(old), Some(new)) => match added_items(old, new) {
                Some(items) => {
                    out.push(ADD_ITEMS);
                    out.extend_from_slice(&((items.len() / TID_LEN) as u16).to_le_bytes());
                    out.extend_from_slice(&items);
                }
                None => {
                    out.push(REPLACE);
                    out.extend_from_slice(new);
                }
            },
            (None, Some(new)) => {
                out.push(INSERT);
                out.extend_from_slice(new);
            }
            (_, None) => out.push(DELETE),
        }
    }
    Some(())
}

fn all_lists(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut lists = Vec::new();
    while !bytes.is_empty() {
        lists.push(take_list(&mut bytes)?);
    }
    Some(lists)
}

/// The TIDs that make a list another one.
fn added_items(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    read_list(old, &mut before)?;
    read_list(new, &mut after)?;
    let items = without(&after, &before)?;
    let items: Vec<u8> = items
        .into_iter()
        .flat_map(walzip_pgformat::posting_list::tid_of)
        .collect();
    (with_items(old, &items)? == new).then_some(items)
}

/// The numbers of the TIDs of a list without those of another one, if it has all of them.
pub fn without(tids: &[u64], others: &[u64]) -> Option<Vec<u64>> {
    let mut others = others.iter().peekable();
    let left = tids
        .iter()
        .copied()
        .filter(|tid| others.next_if_eq(&tid).is_none());
    let left = left.collect();
    others.peek().is_none().then_some(left)
}
