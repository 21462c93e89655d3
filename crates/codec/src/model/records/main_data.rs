//! The main data of records: the fields of the structures in access/*xlog.h.

use walzip_pgformat::rmgr_id;

use super::shape::{Shape, record_type};
use crate::coder::{Coder, Slot};
use crate::rows_by_len::RowsByLen;
use crate::stream_kind::StreamKind;

/// The first version of the format with models for GiST and SP-GiST.
pub const GIST_FROM: u8 = 2;

/// The widths of the leading fields of the main data, by resource manager and record type.
/// What follows, or has no row, is coded as a row of bytes.
fn field_widths(rmid: u8, info: u8, format: u8) -> &'static [u8] {
    match (rmid, record_type(rmid, info)) {
        // xl_xact_commit, xl_xact_abort: xact_time, xinfo
        (rmgr_id::XACT, 0x00 | 0x20) => &[8, 4],
        // xl_heap_insert: offnum, flags
        (rmgr_id::HEAP, 0x00) => &[2, 1],
        // xl_heap_delete, xl_heap_lock: xmax, offnum, infobits_set, flags
        (rmgr_id::HEAP, 0x10 | 0x60) => &[4, 2, 1, 1],
        // xl_heap_update: old_xmax, old_offnum, old_infobits_set, flags, new_xmax, new_offnum
        (rmgr_id::HEAP, 0x20 | 0x40) => &[4, 2, 1, 1, 4, 2],
        // xl_heap_inplace, xl_heap_confirm: offnum
        (rmgr_id::HEAP, 0x50 | 0x70) => &[2],
        // xl_heap_multi_insert: flags, padding, ntuples
        (rmgr_id::HEAP2, 0x50) => &[1, 1, 2],
        // xl_heap_visible: snapshotConflictHorizon, flags
        (rmgr_id::HEAP2, 0x40) => &[4, 1],
        // xl_heap_lock_updated: xmax, offnum, infobits_set, flags
        (rmgr_id::HEAP2, 0x60) => &[4, 2, 1, 1],
        // xl_btree_insert: offnum
        (rmgr_id::BTREE, 0x00 | 0x10 | 0x20 | 0x50) => &[2],
        // xl_btree_split: level, firstrightoff, newitemoff, postingoff
        (rmgr_id::BTREE, 0x30 | 0x40) => &[4, 2, 2, 2],
        // xl_btree_dedup: nintervals
        (rmgr_id::BTREE, 0x60) => &[2],
        // spgxlogAddLeaf: newPage, storesNulls, offnumLeaf, offnumHeadLeaf, offnumParent, nodeI;
        // SpGistLeafTupleData: state and size, nextOffset or t_info, heapPtr
        (rmgr_id::SPGIST, 0x10) if format >= GIST_FROM => &[1, 1, 2, 2, 2, 2, 4, 2, 4, 2],
        _ => &[],
    }
}

/// The streams of the main data of one kind.
#[derive(Debug)]
pub struct MainStreams {
    fields: Vec<(u8, Slot)>,
    rest: RowsByLen,
}

impl MainStreams {
    /// For records of a shape, in this version of the format.
    pub fn new(shape: &Shape, format: u8) -> MainStreams {
        let widths = field_widths(shape.rmid, shape.info, format);
        MainStreams {
            fields: widths
                .iter()
                .map(|&width| (width, Slot::default()))
                .collect(),
            rest: RowsByLen::default(),
        }
    }

    /// Codes all of the main data.
    pub fn code<C: Coder>(&mut self, coder: &mut C, main: &mut [u8]) {
        let mut at = 0;
        for (width, slot) in &mut self.fields {
            let width = usize::from(*width);
            if at + width > main.len() {
                break;
            }
            let stream = slot.open(coder, StreamKind::MainField, width);
            coder.bytes_at(stream, main, at, width);
            at += width;
        }
        self.rest.code(coder, StreamKind::MainRow, &mut main[at..]);
    }
}
