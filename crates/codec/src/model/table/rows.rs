//! The rows of a table: of each line pointer that an index can point to, the values that keys have.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::bytes::{read_u16, read_u32};

use super::shape::{KEPT_MAX, TableShape};
use crate::model::heap::body::TUPLE_HEADER_LEN;
use crate::model::values::attribute::{Attribute, varlena_len, varlena_start};
use crate::model::values::tid::Tid;
use crate::streams::coder::{get_u16, get_u32};

/// Offset of the line pointers in a page (`SizeOfPageHeaderData`).
const PAGE_HEADER_LEN: usize = 24;
/// `LP_NORMAL`, `LP_REDIRECT`.
const NORMAL: u32 = 1;
const REDIRECT: u32 = 2;
/// `HEAP_ONLY_TUPLE`, in `t_infomask2`: no index points to it.
const HEAP_ONLY: u16 = 0x8000;
/// `HEAP_NATTS_MASK`.
const NATTS_MASK: u16 = 0x07FF;
/// `HEAP_HASNULL`, in `t_infomask`.
const HAS_NULL: u16 = 1;
/// Length of what a row begins with: its block `u32`, its line pointer `u16`.
const ROW_TID_LEN: usize = 6;
/// Memory for each row beside twice its bytes, of which the second ones are for the index tuple: what it is
/// found by and sorted by.
const OF_ENTRY: usize = 32;
/// Memory that rows can take at all: they are found by 32 bits.
const MEMORY_MAX: usize = 1 << 30;

/// Where a row is among the rows of its table: those are in the order of their TIDs.
pub type Row = u32;

/// The values of the rows of successive pages of a table.
#[derive(Debug, Default)]
pub struct TableRows {
    /// The attributes that are kept, in their order in the row.
    kept: Vec<Kept>,
    /// The number of the first row of each page, and at the end how many rows there are.
    first_rows: Vec<u32>,
    /// Where each row begins.
    starts: Vec<Row>,
    /// Of each row: its TID, a bit for each kept attribute that is not null, and the values of those.
    bytes: Vec<u8>,
    /// How much memory they may take.
    memory_max: usize,
    /// There are more.
    are_too_many: bool,
}

/// An attribute that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u16,
    /// The length of its values; 0 if they have any length.
    len: u16,
}

/// Where the values are that are kept of a row.
#[derive(Clone, Copy, Default)]
pub(super) struct RowValues {
    /// A bit for each slot that has a value.
    pub(super) present: u32,
    /// The offset and the length of each that is present.
    spans: [(u32, u32); KEPT_MAX],
}

impl TableRows {
    /// No rows of a table. All of them may take this much memory.
    pub fn new(shape: &TableShape, memory_max: usize) -> TableRows {
        let kept = |number| {
            let attribute = shape.attributes.get(usize::from(number))?;
            let len = attribute.fixed().map_or(0, |(len, _)| len as u16);
            Some(Kept { number, len })
        };
        TableRows {
            kept: shape.kept().into_iter().filter_map(kept).collect(),
            first_rows: vec![0],
            memory_max: memory_max.min(MEMORY_MAX),
            ..TableRows::default()
        }
    }

    /// Adds the rows of pages of the table, of which the first one has this block number.
    pub fn add_pages(&mut self, shape: &TableShape, first_block: u32, pages: &[u8]) {
        for (block, page) in (first_block..).zip(pages.as_chunks::<PAGE_SIZE>().0) {
            for number in 1..=line_pointers(page) {
                if let Some(tuple) = row_of(page, number) {
                    self.add(shape, tuple, (block, number));
                }
            }
            self.first_rows.push(self.starts.len() as u32);
        }
    }

    fn add(&mut self, shape: &TableShape, tuple: &[u8], (block, line_pointer): Tid) {
        let start = self.bytes.len();
        self.are_too_many |= self.memory() > self.memory_max;
        if self.are_too_many {
            return;
        }
        self.bytes.extend(block.to_le_bytes());
        self.bytes.extend(line_pointer.to_le_bytes());
        match self.read(shape, tuple) {
            Some(()) => self.starts.push(start as Row),
            None => self.bytes.truncate(start),
        }
    }

    /// Appends the values of a tuple. `None` if the attributes do not fit it.
    fn read(&mut self, shape: &TableShape, tuple: &[u8]) -> Option<()> {
        let infomask2 = read_u16(tuple, 18)?;
        let has_null = read_u16(tuple, 20)? & HAS_NULL != 0;
        let data = tuple.get(usize::from(*tuple.get(22)?)..)?;
        let bits_at = self.bytes.len();
        let bits_len = bits_len(self.kept.len());
        self.bytes.resize(bits_at + bits_len, 0);
        let (mut at, mut kept) = (0, 0);
        for (number, attribute) in (0..infomask2 & NATTS_MASK).zip(&shape.attributes) {
            let is_kept = self
                .kept
                .get(kept)
                .is_some_and(|kept| kept.number == number);
            let slot = kept;
            kept += usize::from(is_kept);
            if has_null {
                let bits = *tuple.get(TUPLE_HEADER_LEN + usize::from(number / 8))?;
                if bits >> (number % 8) & 1 == 0 {
                    continue;
                }
            }
            let (start, len) = locate(*attribute, data, at)?;
            at = start + len;
            if is_kept {
                *self.bytes.get_mut(bits_at + slot / 8)? |= 1 << (slot % 8);
                match *data.get(start..at)? {
                    [a, b, c, d] => self.bytes.extend_from_slice(&[a, b, c, d]),
                    [a, b, c, d, e, f, g, h] => {
                        self.bytes.extend_from_slice(&[a, b, c, d, e, f, g, h]);
                    }
                    ref value => self.bytes.extend_from_slice(value),
                }
            }
        }
        Some(())
    }

    /// Appends the rows of the pages that follow, of the same table.
    pub fn append(&mut self, mut next: TableRows) {
        let rows = self.starts.len() as u32;
        let bytes = self.bytes.len() as u32;
        let first_rows = next.first_rows.iter().skip(1);
        let memory = self.memory() + next.memory();
        self.are_too_many |= next.are_too_many || memory > self.memory_max;
        if self.are_too_many {
            return;
        }
        self.first_rows.extend(first_rows.map(|row| row + rows));
        self.starts
            .extend(next.starts.iter().map(|start| start + bytes));
        self.bytes.append(&mut next.bytes);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// There are more than may be: not all of them are here.
    pub fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// Memory that they take, and the entries of one index while those are sorted.
    pub fn memory(&self) -> usize {
        4 * self.first_rows.len() + OF_ENTRY * self.starts.len() + 2 * self.bytes.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Row] {
        &self.starts
    }

    /// The row of a TID.
    pub(super) fn at(&self, tid: Tid) -> Option<Row> {
        let (block, line_pointer) = tid;
        let block = block as usize;
        let first = *self.first_rows.get(block)? as usize;
        let end = *self.first_rows.get(block + 1)? as usize;
        let rows = self.starts.get(first..end)?;
        // Most pages have a row at every line pointer.
        let guess = rows.get(usize::from(line_pointer).wrapping_sub(1));
        if let Some(&row) = guess.filter(|&&row| self.tid(row) == tid) {
            return Some(row);
        }
        let found = rows.binary_search_by_key(&tid, |&row| self.tid(row));
        found.ok().and_then(|found| rows.get(found).copied())
    }

    /// The TID of a row.
    pub(super) fn tid(&self, row: Row) -> Tid {
        let at = row as usize;
        (get_u32(&self.bytes, at), get_u16(&self.bytes, at + 4))
    }

    /// Finds the values of a row, up to the one in a slot.
    #[inline]
    pub(super) fn find_values(&self, row: Row, last_slot: usize, values: &mut RowValues) {
        let mut at = row as usize + ROW_TID_LEN;
        let bits_len = bits_len(self.kept.len());
        values.present = 0;
        for (number, bits) in self
            .bytes
            .get(at..at + bits_len)
            .into_iter()
            .flatten()
            .enumerate()
        {
            values.present |= u32::from(*bits) << (8 * number);
        }
        at += bits_len;
        let kept = self.kept.iter().take(last_slot + 1);
        for (slot, (kept, span)) in kept.zip(&mut values.spans).enumerate() {
            if values.present >> slot & 1 == 0 {
                continue;
            }
            let len = match usize::from(kept.len) {
                0 => varlena_len(self.bytes.get(at..).unwrap_or_default()).unwrap_or_default(),
                len => len,
            };
            *span = (at as u32, len as u32);
            at += len;
        }
    }

    /// The value in a slot; `None` if it is null.
    #[inline]
    pub(super) fn value(&self, values: &RowValues, slot: usize) -> Option<&[u8]> {
        if values.present >> slot & 1 == 0 {
            return None;
        }
        let (at, len) = *values.spans.get(slot)?;
        self.bytes.get(at as usize..(at + len) as usize)
    }

    /// Where an attribute is among those that are kept.
    pub(super) fn slot(&self, number: u16) -> usize {
        self.kept.partition_point(|kept| kept.number < number)
    }
}

/// The start and the length of the value after `at`. It may go beyond the data.
#[inline]
fn locate(attribute: Attribute, data: &[u8], at: usize) -> Option<(usize, usize)> {
    match attribute.fixed() {
        Some((len, align)) => Some((at.next_multiple_of(align), len)),
        None => {
            let start = varlena_start(*data.get(at)?, at);
            Some((start, varlena_len(data.get(start..)?)?))
        }
    }
}

/// Bytes of the bits of as many attributes.
fn bits_len(kept: usize) -> usize {
    kept.div_ceil(8)
}

/// How many line pointers a page of a heap has; 0 if it is none.
fn line_pointers(page: &[u8; PAGE_SIZE]) -> u16 {
    let field = |at| read_u16(page, at).map_or(0, usize::from);
    let (lower, special) = (field(12), field(16));
    match special == PAGE_SIZE && (PAGE_HEADER_LEN..=PAGE_SIZE).contains(&lower) {
        true => ((lower - PAGE_HEADER_LEN) / 4) as u16,
        false => 0,
    }
}

fn line_pointer(page: &[u8; PAGE_SIZE], number: u16) -> Option<(usize, u32, usize)> {
    let at = PAGE_HEADER_LEN + 4 * usize::from(number.checked_sub(1)?);
    let bits = read_u32(page, at)?;
    Some((
        (bits & 0x7FFF) as usize,
        bits >> 15 & 3,
        (bits >> 17) as usize,
    ))
}

/// The tuple with the values of the row that an index points to by this line pointer.
fn row_of(page: &[u8; PAGE_SIZE], number: u16) -> Option<&[u8]> {
    let (mut offset, state, mut len) = line_pointer(page, number)?;
    match state {
        NORMAL => {}
        REDIRECT => {
            let target = u16::try_from(offset).ok()?;
            let state;
            (offset, state, len) = line_pointer(page, target)?;
            if target > line_pointers(page) || state != NORMAL {
                return None;
            }
        }
        _ => return None,
    }
    let tuple = page.get(offset..offset + len)?;
    let is_heap_only = read_u16(tuple, 18)? & HEAP_ONLY != 0;
    (state == REDIRECT || !is_heap_only).then_some(tuple)
}
