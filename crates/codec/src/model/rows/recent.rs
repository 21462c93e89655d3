//! The rows that transactions have inserted recently. New index entries point to them.
//!
//! Rows have numbers, and two links. One leads from each row of a transaction to the one before.
//! The other leads from each row to the transaction's next row of the same relation, because a
//! transaction that copies many rows makes their index entries afterwards, in the same order.

use crate::model::values::tid::Tid;
use crate::streams::coder::get_u16;

/// Number of bytes of rows that are kept. When there are twice as many, the oldest are dropped.
const KEPT_LEN: usize = 1 << 20;
/// From this number of bytes on, there is room for as many as there may be: what grows again and
/// again is copied each time, and leaves holes.
const GROWN_LEN: usize = 1 << 18;
/// Number of rows that are kept, likewise: rows may be empty.
const KEPT_ROWS: usize = 1 << 16;
/// Number of rows of a transaction among which one of the same relation is looked for.
const LOOK_BACK: usize = 16;

/// The number of a row, counted from 1 in the order of the records.
pub type RowNumber = u32;

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The relation's number.
    pub relation: u32,
    /// Its address.
    pub tid: Tid,
    /// Its values without the first `missing` bytes, which its record does not have.
    values: &'a [u8],
    missing: usize,
    is_whole: bool,
}

impl<'a> Row<'a> {
    /// A row of which all values are known, and the relation's number is not.
    pub fn of_values(tid: Tid, values: &'a [u8]) -> Row<'a> {
        Row {
            relation: 0,
            tid,
            values,
            missing: 0,
            is_whole: true,
        }
    }

    /// Its record has all of its values.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// All values. `None` if the record did not have all.
    pub fn all_values(&self) -> Option<&'a [u8]> {
        (self.missing == 0).then_some(self.values)
    }

    /// The offset of the first known byte of the values.
    pub fn known_from(&self) -> usize {
        self.missing
    }

    /// The `len` bytes of the values at the offset `at`, if they are known.
    pub fn get(&self, at: usize, len: usize) -> Option<&[u8]> {
        let at = at.checked_sub(self.missing)?;
        self.values.get(at..at + len)
    }

    /// The first offset in the values, a multiple of `align`, where the known bytes are `wanted`,
    /// which has at least two bytes.
    pub fn find(&self, wanted: &[u8], align: usize) -> Option<usize> {
        let last = self.values.len().checked_sub(wanted.len())?;
        let head = get_u16(wanted, 0);
        let mut at = self.missing.next_multiple_of(align) - self.missing;
        while at <= last {
            // Comparing two bytes first rules out nearly all offsets.
            if get_u16(self.values, at) == head && self.values[at..].starts_with(wanted) {
                return Some(at + self.missing);
            }
            at += align;
        }
        None
    }
}

/// A row, stored compactly: there are many. Offsets within a row fit 16 bits, and the bytes and
/// numbers of a member's rows fit 32.
#[derive(Clone, Copy, Debug)]
struct Entry {
    relation: u32,
    block: u32,
    line_pointer: u16,
    missing: u16,
    /// The offset of its bytes, counted from the first byte that was ever added.
    start: u32,
    len: u16,
    is_whole: bool,
    /// The transaction's previous row, 0 if there is none.
    before: RowNumber,
    /// The transaction's next row of the same relation, 0 until there is one.
    next: RowNumber,
    /// The first row of the same record.
    first_of_record: RowNumber,
}

impl Entry {
    fn tid(&self) -> Tid {
        (self.block, self.line_pointer)
    }
}

/// A row that is added.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// The relation's number.
    pub relation: u32,
    /// Its address.
    pub tid: Tid,
    /// See [`Row`].
    pub values: &'a [u8],
    /// See [`Row`].
    pub missing: usize,
    /// See [`Row`].
    pub is_whole: bool,
    /// It is the first row of its record.
    pub begins_record: bool,
}

/// The recent rows of all transactions.
#[derive(Debug, Default)]
pub struct RecentRows {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Number of rows dropped.
    dropped_rows: RowNumber,
    /// Number of bytes dropped.
    dropped_len: usize,
}

impl RecentRows {
    /// Adds a row after the transaction's newest one, and sets `newest` to it.
    pub fn add(&mut self, newest: &mut RowNumber, row: NewRow<'_>) {
        if self.bytes.len() >= 2 * KEPT_LEN || self.entries.len() >= 2 * KEPT_ROWS {
            self.drop_old();
        }
        let start = (self.dropped_len + self.bytes.len()) as u32;
        debug_assert!(row.values.len().max(row.missing) <= usize::from(u16::MAX));
        if self.bytes.len() >= GROWN_LEN && self.bytes.capacity() < 2 * KEPT_LEN {
            self.bytes
                .reserve_exact(2 * KEPT_LEN + usize::from(u16::MAX) - self.bytes.len());
        }
        self.bytes.extend_from_slice(row.values);
        let number = self.dropped_rows + self.entries.len() as RowNumber + 1;
        let first_of_record = match self.entry(*newest) {
            Some(last) if !row.begins_record => last.first_of_record,
            _ => number,
        };
        if let Some(last) = self.newest_of(*newest, row.relation)
            && let Some(last) = self.entry_mut(last)
        {
            last.next = number;
        }
        self.entries.push(Entry {
            relation: row.relation,
            block: row.tid.0,
            line_pointer: row.tid.1,
            missing: row.missing as u16,
            start,
            len: row.values.len() as u16,
            is_whole: row.is_whole,
            before: *newest,
            next: 0,
            first_of_record,
        });
        *newest = number;
    }

    fn drop_old(&mut self) {
        let end = self.dropped_len + self.bytes.len();
        let too_early = end.saturating_sub(KEPT_LEN);
        let long_ago = self
            .entries
            .partition_point(|entry| (entry.start as usize) < too_early);
        let rows = long_ago.max(self.entries.len().saturating_sub(KEPT_ROWS));
        let start = self
            .entries
            .get(rows)
            .map_or(end, |entry| entry.start as usize);
        self.bytes.drain(..start - self.dropped_len);
        self.dropped_len = start;
        self.entries.drain(..rows);
        self.dropped_rows += rows as RowNumber;
    }

    fn entry(&self, number: RowNumber) -> Option<&Entry> {
        let index = number.checked_sub(self.dropped_rows)?.checked_sub(1)?;
        self.entries.get(index as usize)
    }

    fn entry_mut(&mut self, number: RowNumber) -> Option<&mut Entry> {
        let index = number.checked_sub(self.dropped_rows)?.checked_sub(1)?;
        self.entries.get_mut(index as usize)
    }

    /// The row with this number, unless it was dropped.
    pub fn get(&self, number: RowNumber) -> Option<Row<'_>> {
        let entry = self.entry(number)?;
        let start = (entry.start as usize).checked_sub(self.dropped_len)?;
        Some(Row {
            relation: entry.relation,
            tid: entry.tid(),
            values: self.bytes.get(start..start + usize::from(entry.len))?,
            missing: usize::from(entry.missing),
            is_whole: entry.is_whole,
        })
    }

    /// Whether the row with this number is known and has this address.
    pub fn is_at(&self, number: RowNumber, tid: Tid) -> bool {
        self.entry(number).is_some_and(|entry| entry.tid() == tid)
    }

    /// The transaction's row of the same relation after this one, or else the row after it.
    pub fn next_like(&self, number: RowNumber) -> RowNumber {
        let next = self.entry(number).map_or(0, |entry| entry.next);
        if next == 0 {
            number.wrapping_add(1)
        } else {
            next
        }
    }

    /// The numbers of a transaction's rows, the newest first.
    pub fn back(&self, newest: RowNumber) -> impl Iterator<Item = RowNumber> + '_ {
        std::iter::successors(Some(newest), |&number| Some(self.entry(number)?.before))
            .take_while(|&number| self.entry(number).is_some())
    }

    /// The newest row of the relation among a transaction's last [`LOOK_BACK`] rows.
    fn newest_of(&self, newest: RowNumber, relation: u32) -> Option<RowNumber> {
        self.back(newest).take(LOOK_BACK).find(|&number| {
            self.entry(number)
                .is_some_and(|row| row.relation == relation)
        })
    }

    /// The row that the next entry of an index is expected to be for. `last` is the row of the
    /// index's last entry, of whatever transaction.
    pub fn expected(&self, newest: RowNumber, last: RowNumber) -> RowNumber {
        let Some(entry) = self.entry(last) else {
            return self.first_of_record(newest);
        };
        if entry.next != 0 {
            return entry.next;
        }
        let of_relation = self.newest_of(newest, entry.relation);
        self.first_of_record(of_relation.unwrap_or(newest))
    }

    fn first_of_record(&self, number: RowNumber) -> RowNumber {
        let first = self.entry(number).map(|entry| entry.first_of_record);
        first.unwrap_or(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(relation: u32, line_pointer: u16, values: &[u8]) -> NewRow<'_> {
        NewRow {
            relation,
            tid: (0, line_pointer),
            values,
            missing: 0,
            is_whole: true,
            begins_record: true,
        }
    }

    #[test]
    fn expects_the_rows_of_a_relation_in_their_order() {
        let mut rows = RecentRows::default();
        let mut newest = 0;
        for (relation, line_pointer) in [(7, 1), (8, 1), (7, 2)] {
            rows.add(&mut newest, row(relation, line_pointer, b"x"));
        }
        assert_eq!(rows.expected(newest, 0), 3);
        assert_eq!(rows.expected(newest, 1), 3);
        assert_eq!(rows.expected(newest, 2), 2);
        assert_eq!(rows.back(newest).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn expects_a_record_of_many_rows_from_its_first_one_on() {
        let mut rows = RecentRows::default();
        let mut newest = 0;
        for line_pointer in 1..=40 {
            let begins_record = line_pointer == 1;
            let row = row(7, line_pointer, b"x");
            rows.add(
                &mut newest,
                NewRow {
                    begins_record,
                    ..row
                },
            );
        }
        assert_eq!(rows.expected(newest, 0), 1);
        assert_eq!(rows.expected(newest, 1), 2);
    }

    #[test]
    fn forgets_what_is_too_long_ago() {
        let mut rows = RecentRows::default();
        let mut newest = 0;
        let values = vec![1; 8000];
        for line_pointer in 1..=400 {
            rows.add(&mut newest, row(7, line_pointer, &values));
        }
        assert!(rows.get(1).is_none());
        assert_eq!(rows.get(newest).unwrap().tid, (0, 400));
        assert!(rows.bytes.len() <= 2 * KEPT_LEN + values.len());
        assert!(rows.back(newest).count() < 400);
        for line_pointer in 1..=200_000u32 {
            rows.add(&mut newest, row(7, line_pointer as u16, b""));
        }
        assert!(rows.entries.len() < 2 * KEPT_ROWS);
    }
}
