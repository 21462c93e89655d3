//! The rows in the data of heap records (access/heapam_xlog.h).

use walzip_pgformat::rmgr_id;

use super::block_data::{multi_insert_count, update_fields_len, update_prefix_len};
use super::heap_tuple::{RECORD_TUPLE_HEADER_LEN, TUPLE_HEADER_LEN, multi_insert_end};
use super::main_data::record_type;
use super::recent_rows::{NewRow, RecentRows, RowNumber};
use crate::coder::get_u16;

/// `XLOG_HEAP_INIT_PAGE`: the rows are the first ones of a new page.
const INIT_PAGE: u8 = 0x80;
/// Where the line pointer of the new version stands in xl_heap_update.
const UPDATE_NEW_OFFSET_AT: usize = 12;
/// Where the line pointers begin in xl_heap_multi_insert.
const MULTI_INSERT_OFFSETS_AT: usize = 4;

/// A record with data for its block 0.
#[derive(Clone, Copy, Debug)]
pub struct HeapRecord<'a> {
    /// Resource manager.
    pub rmid: u8,
    /// `xl_info`.
    pub info: u8,
    /// The main data.
    pub main: &'a [u8],
    /// The data of block 0.
    pub data: &'a [u8],
    /// The relation's number.
    pub relation: u32,
    /// The block's number.
    pub block: u32,
}

impl HeapRecord<'_> {
    /// Adds the rows of the record that get index entries. New versions of a row that need
    /// none (XLOG_HEAP_HOT_UPDATE) are not among them.
    pub fn add_rows(&self, rows: &mut RecentRows, newest: &mut RowNumber) {
        match (self.rmid, record_type(self.rmid, self.info)) {
            (rmgr_id::HEAP, 0x00) => {
                self.add_row(rows, newest, get_u16(self.main, 0), self.data, 0, true);
            }
            (rmgr_id::HEAP, 0x20) => {
                let tuple = self.data.get(update_fields_len(self.main)..);
                let line_pointer = get_u16(self.main, UPDATE_NEW_OFFSET_AT);
                let missing = update_prefix_len(self.main, self.data);
                let tuple = tuple.unwrap_or_default();
                self.add_row(rows, newest, line_pointer, tuple, missing, true);
            }
            (rmgr_id::HEAP2, 0x50) => self.add_many(rows, newest),
            _ => {}
        }
    }

    fn add_many(&self, rows: &mut RecentRows, newest: &mut RowNumber) {
        let mut at = 0usize;
        for number in 0..multi_insert_count(self.main) {
            at = at.next_multiple_of(2);
            let end = multi_insert_end(self.data, at);
            let Some(tuple) = self.data.get(at + 2..end) else {
                return;
            };
            let line_pointer = match self.info & INIT_PAGE {
                0 => get_u16(self.main, MULTI_INSERT_OFFSETS_AT + 2 * number),
                _ => number as u16 + 1,
            };
            self.add_row(rows, newest, line_pointer, tuple, 0, number == 0);
            at = end;
        }
    }

    /// Adds a row of which the record has `xl_heap_header` and what is behind it.
    fn add_row(
        &self,
        rows: &mut RecentRows,
        newest: &mut RowNumber,
        line_pointer: u16,
        tuple: &[u8],
        missing: usize,
        begins_record: bool,
    ) {
        let hoff = tuple.get(RECORD_TUPLE_HEADER_LEN - 1).copied();
        let before = usize::from(hoff.unwrap_or(0)).saturating_sub(TUPLE_HEADER_LEN);
        let Some(values) = tuple.get(RECORD_TUPLE_HEADER_LEN + before..) else {
            return;
        };
        rows.add(
            newest,
            NewRow {
                relation: self.relation,
                tid: (self.block, line_pointer),
                values,
                missing,
                begins_record,
            },
        );
    }
}
