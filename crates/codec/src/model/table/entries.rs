//! The entries of an index, in the order of their keys.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use walzip_pgformat::prefetch::prefetch;
use walzip_pgformat::wal::max_align;

use super::index_tuple::{
    BITMAP_LEN, HAS_NULLS, HAS_VARLENA, INDEX_TUPLE_HEADER_LEN, INFO_AT, SIZE_MASK,
};
use super::rows::{Row, RowValues, TableRows};
use super::shape::{KeyAttribute, KeyShape, Order, TableShape};
use super::sort_key::{self, FirstBytes, SORT_KEY_LEN_MAX, Sink};
use crate::model::values::attribute::Attribute;
use crate::model::values::tid::{Tid, read_tid, tid_bytes};
use crate::run_both::RunBoth;
use crate::streams::coder::get_u16;

/// Bytes of the tuples of a part of the entries.
const TUPLES_LEN_MAX: usize = 1 << 30;
/// Where a tuple begins: in the second part.
const SECOND: u32 = 1 << 31;
/// How many words show where half of them are.
const PIVOTS: usize = 500;
/// How many tuples ahead they are fetched.
const AHEAD: usize = 8;

/// Bytes of a sort key that are compared at a time, as a number in two halves.
type Words = (u64, u64);
const WORDS_LEN: usize = 16;

/// An attribute of the key, and where rows keep it.
#[derive(Clone, Copy, Debug)]
struct KeyPart {
    slot: usize,
    attribute: Attribute,
    key: KeyAttribute,
}

/// An entry that is being sorted.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Unsorted {
    words: Words,
    /// Where its tuple begins. Those of later rows begin later.
    start: u32,
    row: Row,
}

/// How the entries of an index are made of rows.
#[derive(Debug)]
struct Maker {
    parts: Vec<KeyPart>,
    /// The last slot that the key needs.
    last_slot: usize,
    /// The slots of attributes of the key, and of those that are not null in any entry.
    slots: u32,
    never_null: u32,
}

/// The rows that have an entry in an index, in the order of their keys and, where those are equal,
/// of their TIDs.
#[derive(Debug)]
pub struct Entries {
    rows: Arc<TableRows>,
    maker: Maker,
    /// The index tuples of all entries, in the order of the rows, in two parts.
    tuples: [Vec<u8>; 2],
    /// Where they begin, in the order of the keys.
    sorted: Vec<u32>,
}

impl Entries {
    /// Sorts rows by a key of their table, in two halves.
    pub fn sort(
        rows: Arc<TableRows>,
        shape: &TableShape,
        key: &KeyShape,
        run_both: RunBoth,
    ) -> Entries {
        let mut entries = Entries {
            maker: Maker::new(&rows, shape, key),
            rows,
            tuples: Default::default(),
            sorted: Vec::new(),
        };
        let all = entries.rows.all();
        let half = all.len() / 2;
        let mut unsorted = vec![Unsorted::default(); all.len()];
        let (rows, halves) = (all.split_at(half), unsorted.split_at_mut(half));
        let ((first, first_len), (second, second_len)) = both(
            run_both,
            || entries.make_all(rows.0, halves.0, 0),
            || entries.make_all(rows.1, halves.1, SECOND),
        );
        unsorted.copy_within(half..half + second_len, first_len);
        unsorted.truncate(first_len + second_len);
        let split = halve(&mut unsorted);
        let (less, others) = unsorted.split_at_mut(split);
        both(
            run_both,
            || entries.sort_all(less, 0, &mut Vec::new()),
            || entries.sort_all(others, 0, &mut Vec::new()),
        );
        entries.sorted = unsorted.iter().map(|entry| entry.start).collect();
        entries.tuples = [first, second];
        entries
    }

    /// Makes the tuples of rows that have one; returns them, and how many there are.
    fn make_all(&self, rows: &[Row], unsorted: &mut [Unsorted], part: u32) -> (Vec<u8>, usize) {
        let (mut tuples, mut made) = (Vec::new(), unsorted.iter_mut());
        let mut values = RowValues::default();
        let mut count = 0;
        for &row in rows {
            let start = tuples.len();
            self.rows
                .find_values(row, self.maker.last_slot, &mut values);
            if start > TUPLES_LEN_MAX || !self.maker.has_entry(&values) {
                continue;
            }
            let tid = self.rows.tid(row);
            if self
                .maker
                .make(&self.rows, &values, tid, &mut tuples)
                .is_none()
            {
                tuples.truncate(start);
                continue;
            }
            if start == 0 {
                let estimate = tuples.len().saturating_mul(rows.len());
                // Where there is less memory, it grows.
                let _ = tuples.try_reserve(estimate.min(self.rows.memory()));
            }
            let mut first = FirstBytes::default();
            self.maker.sort_key(&self.rows, &values, &mut first);
            let Some(made) = made.next() else {
                break;
            };
            *made = Unsorted {
                words: halves(first.bytes),
                start: start as u32 | part,
                row,
            };
            count += 1;
        }
        (tuples, count)
    }

    /// Sorts entries by the words of this number in their sort keys, and by those that follow.
    fn sort_all(&self, entries: &mut [Unsorted], number: usize, scratch: &mut Vec<u8>) {
        entries.sort_unstable();
        if WORDS_LEN * (number + 1) >= SORT_KEY_LEN_MAX {
            return;
        }
        for same in entries.chunk_by_mut(|one, other| one.words == other.words) {
            if same.len() == 1 {
                continue;
            }
            let mut differ = false;
            for entry in same.iter_mut() {
                self.sort_key(entry.row, scratch);
                entry.words = words_of(scratch, number + 1);
                differ |= scratch.len() > WORDS_LEN * (number + 1);
                // All keys are as long, for the most part.
                if !differ && self.maker.has_fixed_len() {
                    break;
                }
            }
            if differ {
                self.sort_all(same, number + 1, scratch);
            }
        }
    }

    fn sort_key(&self, row: Row, out: &mut Vec<u8>) {
        out.clear();
        let mut values = RowValues::default();
        self.rows
            .find_values(row, self.maker.last_slot, &mut values);
        self.maker.sort_key(&self.rows, &values, out);
    }

    /// Whether anything is known of their order.
    pub fn are_ordered(&self) -> bool {
        let first = self.maker.parts.first();
        first.is_some_and(|part| part.key.order != Order::Unknown)
    }

    /// The index tuple of the entry with a number.
    #[inline]
    pub fn tuple(&self, number: usize) -> Option<&[u8]> {
        let ahead = self.sorted.get(number.wrapping_add(AHEAD));
        if let Some(byte) = ahead.and_then(|&ahead| self.tuple_at(ahead).first()) {
            prefetch(byte);
        }
        let tuple = self.tuple_at(*self.sorted.get(number)?);
        tuple.get(..usize::from(get_u16(tuple, INFO_AT) & SIZE_MASK))
    }

    /// The tuple that begins here, and those after it.
    #[inline]
    fn tuple_at(&self, start: u32) -> &[u8] {
        let [first, second] = &self.tuples;
        let part = if start & SECOND == 0 { first } else { second };
        part.get((start & !SECOND) as usize..).unwrap_or_default()
    }

    /// Memory that they take beside the rows, and at most while they are sorted.
    pub fn memory(&self) -> usize {
        let tuples: usize = self.tuples.iter().map(Vec::len).sum();
        tuples + (4 + size_of::<Unsorted>()) * self.sorted.len()
    }

    /// The number of the entry of a TID, or of the one that would follow it. `None` if it is that of
    /// no row.
    pub fn position(&self, tid: Tid) -> Option<usize> {
        let row = self.rows.at(tid)?;
        let (mut wanted, mut scratch) = (Vec::new(), Vec::new());
        self.sort_key(row, &mut wanted);
        let number = self.sorted.partition_point(|&start| {
            let Some(other) = self.rows.at(read_tid(self.tuple_at(start), 0)) else {
                return false;
            };
            self.sort_key(other, &mut scratch);
            padded(&scratch, &wanted).then(other.cmp(&row)) == Ordering::Less
        });
        Some(number)
    }

    /// Makes the index tuple of the row with a TID; `None` if there is none, or it would be too long.
    pub fn make_at(&self, tid: Tid, tuple: &mut Vec<u8>) -> Option<()> {
        let mut values = RowValues::default();
        let row = self.rows.at(tid)?;
        self.rows
            .find_values(row, self.maker.last_slot, &mut values);
        tuple.clear();
        self.maker.make(&self.rows, &values, tid, tuple)
    }
}

/// Does two things, and returns what they make.
fn both<A: Send, B>(
    run_both: RunBoth,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    // Each runs once.
    let beside = Mutex::new((Some(one), None));
    let (mut other, mut made) = (Some(other), None);
    let run_beside = || {
        let mut beside = beside.lock().unwrap_or_else(PoisonError::into_inner);
        beside.1 = beside.0.take().map(|one| one());
    };
    run_both(&run_beside, &mut || {
        made = other.take().map(|other| other())
    });
    let (_, beside) = beside.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (beside, made) {
        (Some(one), Some(other)) => (one, other),
        _ => unreachable!("both were run"),
    }
}

/// Puts about half of the entries before all those whose words are greater; returns how many.
fn halve(entries: &mut [Unsorted]) -> usize {
    let step = entries.len() / PIVOTS + 1;
    let mut some: Vec<Words> = entries
        .iter()
        .step_by(step)
        .map(|entry| entry.words)
        .collect();
    some.sort_unstable();
    let Some(&pivot) = some.get(some.len() / 2) else {
        return 0;
    };
    let mut split = 0;
    for number in 0..entries.len() {
        if entries.get(number).is_some_and(|entry| entry.words < pivot) {
            entries.swap(split, number);
            split += 1;
        }
    }
    split
}

impl Maker {
    fn new(rows: &TableRows, shape: &TableShape, key: &KeyShape) -> Maker {
        let part = |key: &KeyAttribute| {
            Some(KeyPart {
                slot: rows.slot(key.attribute),
                attribute: *shape.attributes.get(usize::from(key.attribute))?,
                key: *key,
            })
        };
        let parts: Vec<KeyPart> = key.iter().filter_map(part).collect();
        let never_null = parts.iter().filter(|part| !part.key.nullable);
        let slots = |parts: &mut dyn Iterator<Item = &KeyPart>| {
            parts.fold(0, |slots, part| slots | 1u32 << part.slot)
        };
        Maker {
            last_slot: parts.iter().map(|part| part.slot).max().unwrap_or(0),
            slots: slots(&mut parts.iter()),
            never_null: slots(&mut never_null.into_iter()),
            parts,
        }
    }

    /// Attributes that are not null in any entry are not null.
    fn has_entry(&self, values: &RowValues) -> bool {
        values.present & self.never_null == self.never_null
    }

    /// The sort keys of all entries have as many bytes.
    fn has_fixed_len(&self) -> bool {
        let is_fixed = |part: &KeyPart| part.attribute.fixed().is_some() && !part.key.nullable;
        self.parts.iter().all(is_fixed)
    }

    fn sort_key(&self, rows: &TableRows, values: &RowValues, out: &mut impl Sink) {
        for part in &self.parts {
            if out.is_full() {
                return;
            }
            let value = rows.value(values, part.slot);
            sort_key::append(part.attribute, part.key, value, out);
        }
    }

    /// Appends the index tuple of a row. `None` if it would be too long for one.
    fn make(
        &self,
        rows: &TableRows,
        values: &RowValues,
        tid: Tid,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let start = out.len();
        let [b0, b1, b2, b3, o0, o1] = tid_bytes(tid);
        let has_nulls = values.present & self.slots != self.slots;
        let mut flags = 0;
        out.extend_from_slice(&[b0, b1, b2, b3, o0, o1, 0, 0]);
        if has_nulls {
            flags |= HAS_NULLS;
            out.resize(start + max_align(INDEX_TUPLE_HEADER_LEN + BITMAP_LEN), 0);
        }
        for (number, part) in self.parts.iter().enumerate() {
            let Some(value) = rows.value(values, part.slot) else {
                continue;
            };
            if has_nulls
                && let Some(bits) = out.get_mut(start + INDEX_TUPLE_HEADER_LEN + number / 8)
            {
                *bits |= 1 << (number % 8);
            }
            let align = match part.attribute.fixed() {
                Some((_, align)) => align,
                None => {
                    flags |= HAS_VARLENA;
                    let is_short = value.first().is_some_and(|first| first & 1 == 1);
                    if is_short { 1 } else { 4 }
                }
            };
            pad(out, start, align);
            match *value {
                [a, b, c, d] => out.extend_from_slice(&[a, b, c, d]),
                [a, b, c, d, e, f, g, h] => out.extend_from_slice(&[a, b, c, d, e, f, g, h]),
                _ if value.len() < 16 => {
                    for &byte in value {
                        out.push(byte);
                    }
                }
                _ => out.extend_from_slice(value),
            }
        }
        pad(out, start, 8);
        let len = u16::try_from(out.len() - start)
            .ok()
            .filter(|&len| len <= SIZE_MASK)?;
        let info = out.get_mut(start + INFO_AT..start + INFO_AT + 2)?;
        info.copy_from_slice(&(flags | len).to_le_bytes());
        Some(())
    }
}

/// Words of a sort key. Zeros follow its last byte.
fn words_of(key: &[u8], number: usize) -> Words {
    let bytes = key.get(WORDS_LEN * number..).unwrap_or_default();
    let mut padded = [0; WORDS_LEN];
    let len = bytes.len().min(WORDS_LEN);
    if let (Some(to), Some(from)) = (padded.get_mut(..len), bytes.get(..len)) {
        to.copy_from_slice(from);
    }
    halves(u128::from_be_bytes(padded))
}

fn halves(bytes: u128) -> Words {
    ((bytes >> 64) as u64, bytes as u64)
}

/// Appends the zeros that align what follows.
fn pad(out: &mut Vec<u8>, start: usize, align: usize) {
    let len = out.len() - start;
    let padding = len.next_multiple_of(align) - len;
    if padding > 0 {
        out.extend_from_slice([0; 8].get(..padding).unwrap_or_default());
    }
}

/// Compares bytes, which zeros follow.
fn padded(one: &[u8], other: &[u8]) -> Ordering {
    let shared = one.len().min(other.len());
    let (one, rest) = one.split_at(shared);
    let (other, rest_of_other) = other.split_at(shared);
    let has_any = |rest: &[u8]| rest.iter().any(|&byte| byte != 0);
    let by_rest = || has_any(rest).cmp(&has_any(rest_of_other));
    one.cmp(other).then_with(by_rest)
}
