//! Where a new tuple goes among those of a B-tree's leaf page.
//!
//! Nothing in WAL says of what types the keys of an index are. So each index is looked at as if
//! its keys were ordered in one of a few ways, and the way that was right most often of late is
//! taken for the next tuple.

use std::cmp::Ordering;

use walzip_pgformat::bytes::read_u32;

use crate::btree_page::first_data;
use crate::index_tuple;
use crate::page::{Page, PageBytes};

/// Compares two keys.
type Order = fn(&[u8], &[u8]) -> Ordering;

/// The ways to order keys.
const ORDERS: [Order; 5] = [words_of_8, words_of_4, words_of_4_and_8, text, bytes];
/// What a wrong number counts for, and the part of all counts that is forgotten with each
/// unexpected one.
const WRONG: u16 = 512;
const FORGET: u16 = 16;

/// How well each way has done for one index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyOrders {
    wrong: [u16; ORDERS.len()],
}

impl KeyOrders {
    /// The count of each way.
    pub fn counts(&self) -> impl Iterator<Item = u16> {
        self.wrong.into_iter()
    }

    /// The number that a tuple is likely to get on a leaf page.
    pub fn expected(&self, page: &PageBytes, tuple: &[u8]) -> Option<u16> {
        let best = (0..ORDERS.len()).min_by_key(|&order| self.wrong[order])?;
        place(page, tuple, ORDERS[best])
    }

    /// Learns which number a tuple got that was not expected.
    pub fn learn(&mut self, page: &PageBytes, tuple: &[u8], number: u16) {
        for (wrong, order) in self.wrong.iter_mut().zip(ORDERS) {
            *wrong -= *wrong / FORGET;
            if place(page, tuple, order) != Some(number) {
                *wrong += WRONG;
            }
        }
    }
}

/// The number of the first item that is not before a tuple: of equal keys, the rows decide.
fn place(page: &PageBytes, tuple: &[u8], order: Order) -> Option<u16> {
    let (key, row) = (index_tuple::key(tuple)?, index_tuple::first_row(tuple)?);
    let (mut low, mut high) = (first_data(page)?, page.items() + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let item = page.item(middle)?;
        let is_before = match order(index_tuple::key(item)?, key) {
            Ordering::Less => true,
            Ordering::Equal => index_tuple::first_row(item)? < row,
            Ordering::Greater => false,
        };
        match is_before {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Some(low)
}

fn signed(word: &[u8; 4]) -> i32 {
    i32::from_le_bytes(*word)
}

fn words_of_4(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (one.as_chunks().0, other.as_chunks().0);
    one.iter().map(signed).cmp(other.iter().map(signed))
}

fn words_of_8(one: &[u8], other: &[u8]) -> Ordering {
    let signed = |word: &[u8; 8]| i64::from_le_bytes(*word);
    let (one, other) = (one.as_chunks().0, other.as_chunks().0);
    one.iter().map(signed).cmp(other.iter().map(signed))
}

fn words_of_4_and_8(one: &[u8], other: &[u8]) -> Ordering {
    let first = |key: &[u8]| key.first_chunk().map(signed);
    let order = first(one).cmp(&first(other));
    order.then_with(|| words_of_8(behind_8(one), behind_8(other)))
}

fn behind_8(key: &[u8]) -> &[u8] {
    key.get(8..).unwrap_or_default()
}

fn bytes(one: &[u8], other: &[u8]) -> Ordering {
    one.cmp(other)
}

/// By the bytes of a string of variable length (varatt.h).
fn text(one: &[u8], other: &[u8]) -> Ordering {
    contents(one).cmp(&contents(other))
}

fn contents(key: &[u8]) -> Option<&[u8]> {
    match key.first() {
        Some(&short) if short & 1 == 1 => key.get(1..usize::from(short >> 1)),
        _ => key.get(4..read_u32(key, 0)? as usize >> 2),
    }
}
