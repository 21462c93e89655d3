//! Tuples of B-trees, and the posting lists that stand for many (access/itup.h, access/nbtree.h,
//! access/nbtree/nbtdedup.c).
//!
//! ```text
//! tid (block u16 high, u16 low, number u16), info u16: 13 bits of length and 3 flags, then the key
//! posting list: the block is where the list begins, the number its length with 0x2000
//! ```

use walzip_pgformat::bytes::{read_u16, read_u32};

use crate::page::{Page, PageBytes, max_align};

const HEADER_LEN: usize = 8;
/// Bytes of a TID.
pub const TID_LEN: usize = 6;
/// The bits of a tuple's length in its information (`INDEX_SIZE_MASK`).
pub const LEN_MASK: u16 = 0x1FFF;
/// `INDEX_VAR_MASK`
const HAS_VARIABLE: u16 = 0x4000;
/// `INDEX_NULL_MASK`
const HAS_NULLS: u16 = 0x8000;
/// `INDEX_ALT_TID_MASK`
const ALT_TID: u16 = 0x2000;
/// `BT_IS_POSTING`
const IS_POSTING: u16 = 0x2000;
/// `BT_PIVOT_HEAP_TID_ATTR`
const HAS_ROW: u16 = 0x1000;
/// `BT_OFFSET_MASK`
const COUNT_MASK: u16 = 0x0FFF;

type Tid = [u8; TID_LEN];

/// A row: the two halves of its block's number, and the number of its line pointer.
pub type Row = (u16, u16, u16);

/// No block (`InvalidBlockNumber`).
pub const NO_BLOCK: u32 = u32::MAX;

/// A block and the number of a tuple.
pub type Place = (u32, u16);

/// The TID of a place.
pub fn tid((block, number): Place) -> [u8; TID_LEN] {
    let mut tid = [0; TID_LEN];
    tid[..2].copy_from_slice(&((block >> 16) as u16).to_le_bytes());
    tid[2..4].copy_from_slice(&(block as u16).to_le_bytes());
    tid[4..].copy_from_slice(&number.to_le_bytes());
    tid
}

/// The length of the tuple at the front of `bytes`, without its padding.
pub fn len(bytes: &[u8]) -> Option<usize> {
    let len = usize::from(read_u16(bytes, 6)? & LEN_MASK);
    (HEADER_LEN <= len && len <= bytes.len()).then_some(len)
}

/// Appends tuples, which stand one after the other, to a page.
pub fn append_all(page: &mut PageBytes, tuples: &[u8]) -> Option<()> {
    let mut rest = tuples;
    while !rest.is_empty() {
        let (tuple, behind) = rest.split_at_checked(len(rest)?)?;
        page.add_shifting(tuple, page.items() + 1)?;
        rest = behind;
    }
    Some(())
}

/// Numbers of items, `u16` each.
pub fn numbers(bytes: &[u8]) -> Vec<u16> {
    let (numbers, _) = bytes.as_chunks::<2>();
    let numbers = numbers.iter().map(|number| u16::from_le_bytes(*number));
    numbers.collect()
}

/// Takes the tuple at the front of `bytes`, with its padding.
pub fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = max_align((read_u16(bytes, 6)? & LEN_MASK).into());
    match len {
        0 => None,
        len => bytes.split_at_checked(len),
    }
}

/// Where the list of a posting tuple stands, and how many entries it has.
fn posting(tuple: &[u8]) -> Option<(usize, usize)> {
    let (number, info) = (read_u16(tuple, 4)?, read_u16(tuple, 6)?);
    if info & ALT_TID == 0 || number & IS_POSTING == 0 {
        return None;
    }
    let block = u32::from(read_u16(tuple, 0)?) << 16 | u32::from(read_u16(tuple, 2)?);
    let (at, count) = (block as usize, usize::from(number & COUNT_MASK));
    let is_there = at >= HEADER_LEN && at.checked_add(count * TID_LEN)? <= tuple.len();
    (is_there && count > 0).then_some((at, count))
}

/// The key of a tuple: what stands before its posting list.
pub fn key(tuple: &[u8]) -> Option<&[u8]> {
    let end = posting(tuple).map_or(tuple.len(), |(at, _)| at);
    tuple.get(HEADER_LEN..end)
}

/// The key of a tuple none of whose attributes is null.
pub fn key_without_nulls(tuple: &[u8]) -> Option<&[u8]> {
    match read_u16(tuple, 6)? & HAS_NULLS {
        0 => key(tuple),
        _ => None,
    }
}

/// Whether an attribute of a tuple has a variable length.
pub fn is_variable(tuple: &[u8]) -> Option<bool> {
    Some(read_u16(tuple, 6)? & HAS_VARIABLE != 0)
}

/// The first row that a tuple stands for: its block, and the number of its line pointer.
pub fn first_row(tuple: &[u8]) -> Option<Row> {
    let tid = tuple.get(posting(tuple).map_or(0, |(at, _)| at)..)?;
    Some((read_u16(tid, 0)?, read_u16(tid, 2)?, read_u16(tid, 4)?))
}

/// The key of a high key without nulls, and the row with which it is compared where keys are equal: it may lack
/// the attributes that tell it from others, and has its row behind its key (`_bt_truncate`).
pub fn high_key(tuple: &[u8]) -> Option<(&[u8], Row)> {
    let (number, info) = (read_u16(tuple, 4)?, read_u16(tuple, 6)?);
    let key = key_without_nulls(tuple)?;
    if info & ALT_TID == 0 || number & IS_POSTING != 0 {
        return Some((key, first_row(tuple)?));
    }
    if number & HAS_ROW == 0 {
        return Some((key, (0, 0, 0)));
    }
    let at = tuple.len().checked_sub(max_align(TID_LEN))?;
    let row = (
        read_u16(tuple, at)?,
        read_u16(tuple, at + 2)?,
        read_u16(tuple, at + 4)?,
    );
    Some((tuple.get(HEADER_LEN..at)?, row))
}

/// How many rows a tuple stands for.
pub fn tids_of(tuple: &[u8]) -> Option<usize> {
    read_u32(tuple, 4)?;
    Some(posting(tuple).map_or(1, |(_, count)| count))
}

/// A key with the rows that it stands for.
pub struct PostingList<'t> {
    tuple: &'t [u8],
    key_len: usize,
    tids: Vec<Tid>,
}

impl<'t> PostingList<'t> {
    /// The key and the rows of a tuple.
    pub fn of(tuple: &'t [u8]) -> Option<PostingList<'t>> {
        let len = usize::from(read_u16(tuple, 6)? & LEN_MASK);
        let key_len = posting(tuple).map_or(len, |(at, _)| at);
        tuple.get(..key_len)?;
        let mut list = PostingList {
            tuple,
            key_len,
            tids: Vec::new(),
        };
        list.extend(tuple)?;
        Some(list)
    }

    /// Adds the rows of another tuple.
    pub fn extend(&mut self, tuple: &[u8]) -> Option<()> {
        match posting(tuple) {
            Some((at, count)) => {
                let (tids, _) = tuple.get(at..at + count * TID_LEN)?.as_chunks();
                self.tids.extend_from_slice(tids);
            }
            None => self.tids.push(*tuple.first_chunk()?),
        }
        (self.tids.len() * TID_LEN <= usize::from(LEN_MASK)).then_some(())
    }

    /// Removes the rows at these ascending places.
    pub fn remove(&mut self, places: impl Iterator<Item = u16>) -> Option<()> {
        let mut places = places.peekable();
        let mut at = 0u16;
        self.tids.retain(|_| {
            let is_removed = places.next_if_eq(&at).is_some();
            at += 1;
            !is_removed
        });
        (places.peek().is_none() && !self.tids.is_empty()).then_some(())
    }

    /// The tuple (`_bt_form_posting`).
    pub fn tuple(&self) -> Option<Vec<u8>> {
        let count = self.tids.len();
        let len = match count {
            1 => self.key_len,
            _ => max_align(self.key_len + count * TID_LEN),
        };
        let mut tuple = self.tuple.get(..self.key_len)?.to_vec();
        let info = read_u16(&tuple, 6)? & !LEN_MASK & !ALT_TID;
        let info = info | u16::try_from(len).ok().filter(|len| *len <= LEN_MASK)?;
        if count > 1 {
            let key_len = self.key_len as u16;
            tuple[..2].fill(0);
            tuple[2..4].copy_from_slice(&key_len.to_le_bytes());
            tuple[4..6].copy_from_slice(&(count as u16 | IS_POSTING).to_le_bytes());
            tuple[6..8].copy_from_slice(&(info | ALT_TID).to_le_bytes());
            tuple.extend_from_slice(self.tids.as_flattened());
            tuple.resize(len, 0);
        } else {
            tuple[..TID_LEN].copy_from_slice(self.tids.first()?);
            tuple[6..8].copy_from_slice(&info.to_le_bytes());
        }
        Some(tuple)
    }
}

/// Puts the row of a new tuple into a posting list, and the list's last row into the tuple
/// (`_bt_swap_posting`). Returns the new posting tuple.
pub fn swap_posting(old: &[u8], new_tuple: &mut [u8], place: u16) -> Option<Vec<u8>> {
    let (at, count) = posting(old)?;
    let place = usize::from(place);
    if place == 0 || place >= count {
        return None;
    }
    let mut list = old.to_vec();
    let last: Tid = *list.get(at + (count - 1) * TID_LEN..)?.first_chunk()?;
    let from = at + place * TID_LEN;
    list.copy_within(from..at + (count - 1) * TID_LEN, from + TID_LEN);
    list[from..from + TID_LEN].copy_from_slice(new_tuple.get(..TID_LEN)?);
    new_tuple[..TID_LEN].copy_from_slice(&last);
    Some(list)
}

/// The reverse: the place, and the tuple as it was, of the posting tuple before and after and the
/// tuple behind it.
pub fn unswap_posting(old: &[u8], new: &[u8], tuple: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (at, count) = posting(old)?;
    if posting(new)? != (at, count) {
        return None;
    }
    let list = |tuple: &'_ [u8]| -> Option<Vec<Tid>> {
        Some(tuple.get(at..at + count * TID_LEN)?.as_chunks().0.to_vec())
    };
    let (before, after) = (list(old)?, list(new)?);
    let place = before
        .iter()
        .zip(&after)
        .position(|(one, other)| one != other)?;
    let mut tuple = tuple.to_vec();
    tuple.get_mut(..TID_LEN)?.copy_from_slice(&after[place]);
    Some((place as u16, tuple))
}

/// The places of the rows that a posting list lost; `None` if that is not how one tuple became
/// the other.
pub fn removed_tids(old: &[u8], new: &[u8]) -> Option<Vec<u16>> {
    posting(old)?;
    let (before, after) = (PostingList::of(old)?, PostingList::of(new)?);
    let mut left = after.tids.iter().peekable();
    let mut places = Vec::new();
    for (place, tid) in before.tids.iter().enumerate() {
        if left.next_if_eq(&tid).is_none() {
            places.push(place as u16);
        }
    }
    if left.peek().is_some() || places.is_empty() {
        return None;
    }
    let mut list = before;
    list.remove(places.iter().copied())?;
    (list.tuple()? == new).then_some(places)
}
