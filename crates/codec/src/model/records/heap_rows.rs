//! The rows in the data of heap records (access/heapam_xlog.h).

use walzip_pgformat::opcode::{heap, heap2};
use walzip_pgformat::rmgr_id::{HEAP, HEAP2};

use super::heap_fields::{
    multi_insert_count, update_fields_len, update_kept, update_old_line_pointer, values_of,
};
use super::record_type::opcode;
use crate::model::heap::tuple::multi_insert_end;
use crate::model::rows::recent::{NewRow, RecentRows, RowNumber};
use crate::model::rows::versions::{RowVersions, VersionId};
use crate::model::values::tid::Tid;
use crate::streams::coder::get_u16;

/// `XLOG_HEAP_INIT_PAGE`: the rows are the first ones of a new page.
const INIT_PAGE: u8 = 0x80;
/// Offset of the new version's line pointer number in xl_heap_update.
const UPDATE_NEW_OFFSET_AT: usize = 12;
/// Offset of the line pointer numbers in xl_heap_multi_insert.
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
    /// The block number of the record's last reference.
    pub last_block: u32,
}

impl HeapRecord<'_> {
    /// Adds the rows of the record to `versions`, and to `rows` if they get index entries. A new
    /// version by XLOG_HEAP_HOT_UPDATE gets none.
    pub fn add_rows(
        &self,
        rows: &mut RecentRows,
        versions: &mut RowVersions,
        newest: &mut RowNumber,
    ) {
        match (self.rmid, opcode(self.rmid, self.info)) {
            (HEAP, heap::INSERT) => {
                if let Some(values) = values_of(self.data) {
                    let row = self.row(get_u16(self.main, 0), values);
                    rows.add(newest, row);
                    versions.add(self.version(versions, row.tid), *newest);
                }
            }
            (HEAP, heap::UPDATE | heap::HOT_UPDATE) => self.add_version(rows, versions, newest),
            (HEAP2, heap2::MULTI_INSERT) => self.add_many(rows, versions, newest),
            _ => {}
        }
    }

    /// Adds the row of a record whose block has an image in place of data, if it gets index entries
    /// and an image has it.
    pub fn add_row_of_image(
        &self,
        rows: &mut RecentRows,
        versions: &RowVersions,
        newest: &mut RowNumber,
    ) {
        let line_pointer = match (self.rmid, opcode(self.rmid, self.info)) {
            (HEAP, heap::INSERT) => get_u16(self.main, 0),
            (HEAP, heap::UPDATE) => get_u16(self.main, UPDATE_NEW_OFFSET_AT),
            _ => return,
        };
        let tid = (self.block, line_pointer);
        if let Some(values) = versions.on_image(self.relation, tid) {
            rows.add(newest, self.row(line_pointer, values));
        }
    }

    fn add_version(
        &self,
        rows: &mut RecentRows,
        versions: &mut RowVersions,
        newest: &mut RowNumber,
    ) {
        let tuple = self.data.get(update_fields_len(self.main)..);
        let Some(values) = tuple.and_then(values_of) else {
            return;
        };
        let kept = update_kept(self.main, self.data).unwrap_or_default();
        let row = NewRow {
            missing: kept.prefix,
            is_whole: kept.prefix == 0 && kept.suffix == 0,
            ..self.row(get_u16(self.main, UPDATE_NEW_OFFSET_AT), values)
        };
        let old = (self.last_block, update_old_line_pointer(self.main));
        let ids = (self.version(versions, old), self.version(versions, row.tid));
        versions.update(rows, ids, kept, values);
        if opcode(self.rmid, self.info) == heap::UPDATE {
            rows.add(newest, row);
        }
    }

    fn add_many(&self, rows: &mut RecentRows, versions: &mut RowVersions, newest: &mut RowNumber) {
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
            if let Some(values) = values_of(tuple) {
                let row = NewRow {
                    begins_record: number == 0,
                    ..self.row(line_pointer, values)
                };
                rows.add(newest, row);
                versions.add(self.version(versions, row.tid), *newest);
            }
            at = end;
        }
    }

    /// The first row of the record, on its block 0.
    fn row<'v>(&self, line_pointer: u16, values: &'v [u8]) -> NewRow<'v> {
        NewRow {
            relation: self.relation,
            tid: (self.block, line_pointer),
            values,
            missing: 0,
            is_whole: true,
            begins_record: true,
        }
    }

    fn version(&self, versions: &RowVersions, tid: Tid) -> VersionId {
        versions.id(self.relation, tid)
    }
}
