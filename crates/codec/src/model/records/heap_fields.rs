//! Fields of the main data and the data of heap records (access/heapam_xlog.h).

use walzip_pgformat::opcode::heap;
use walzip_pgformat::rmgr_id::HEAP;

use super::record_type::opcode;
use crate::model::heap::body::TUPLE_HEADER_LEN;
use crate::model::heap::tuple::RECORD_TUPLE_HEADER_LEN;
use crate::model::rows::versions::Kept;
use crate::streams::coder::get_u16;

/// `XLH_UPDATE_CONTAINS_OLD_TUPLE` in xl_heap_update's flags.
const CONTAINS_OLD_TUPLE: u8 = 1 << 2;
/// `XLH_UPDATE_PREFIX_FROM_OLD`.
const PREFIX_FROM_OLD: u8 = 1 << 5;
/// `XLH_UPDATE_SUFFIX_FROM_OLD`.
const SUFFIX_FROM_OLD: u8 = 1 << 6;
/// Offset of the old version's line pointer number in xl_heap_update.
const UPDATE_OLD_OFFSET_AT: usize = 4;
/// Offset of the flags in xl_heap_update.
pub const UPDATE_FLAGS_AT: usize = 7;
/// Offset of the new version's line pointer number in xl_heap_update.
const UPDATE_NEW_OFFSET_AT: usize = 12;
/// `SizeOfHeapUpdate`: size of xl_heap_update, in bytes.
const UPDATE_LEN: usize = 14;
/// Offset of ntuples in xl_heap_multi_insert.
pub const MULTI_INSERT_COUNT_AT: usize = 2;

/// Size of the lengths of prefix and suffix before the tuple, in bytes.
pub fn update_fields_len(main: &[u8]) -> usize {
    let flags = main.get(UPDATE_FLAGS_AT).copied().unwrap_or(0);
    2 * (usize::from(flags & PREFIX_FROM_OLD != 0) + usize::from(flags & SUFFIX_FROM_OLD != 0))
}

/// The prefix and suffix that an update keeps. `None` if the record has the whole tuple.
pub fn update_kept(main: &[u8], data: &[u8]) -> Option<Kept> {
    let flags = main.get(UPDATE_FLAGS_AT).copied().unwrap_or(0);
    let has_prefix = flags & PREFIX_FROM_OLD != 0;
    let has_suffix = flags & SUFFIX_FROM_OLD != 0;
    let field = |number: usize| usize::from(get_u16(data, 2 * number));
    (has_prefix || has_suffix).then(|| Kept {
        prefix: if has_prefix { field(0) } else { 0 },
        suffix: if has_suffix {
            field(has_prefix.into())
        } else {
            0
        },
    })
}

/// The values of the old version, if the main data has them.
pub fn update_old_values(main: &[u8]) -> Option<&[u8]> {
    let flags = *main.get(UPDATE_FLAGS_AT)?;
    (flags & CONTAINS_OLD_TUPLE != 0).then_some(())?;
    values_of(main.get(UPDATE_LEN..)?)
}

/// The line pointer number of the old version.
pub fn update_old_line_pointer(main: &[u8]) -> u16 {
    get_u16(main, UPDATE_OLD_OFFSET_AT)
}

/// Number of tuples of a multi-insert.
pub fn multi_insert_count(main: &[u8]) -> usize {
    usize::from(get_u16(main, MULTI_INSERT_COUNT_AT))
}

/// The values of a tuple that begins with `xl_heap_header`.
pub fn values_of(tuple: &[u8]) -> Option<&[u8]> {
    let hoff = tuple.get(RECORD_TUPLE_HEADER_LEN - 1).copied();
    let before = usize::from(hoff.unwrap_or(0)).saturating_sub(TUPLE_HEADER_LEN);
    tuple.get(RECORD_TUPLE_HEADER_LEN + before..)
}

/// Where a record's main data has the line pointer number of its new tuple.
pub fn new_line_pointer_at(rmid: u8, info: u8) -> Option<usize> {
    match (rmid, opcode(rmid, info)) {
        (HEAP, heap::INSERT) => Some(0),
        (HEAP, heap::UPDATE | heap::HOT_UPDATE) => Some(UPDATE_NEW_OFFSET_AT),
        _ => None,
    }
}

/// The record replaces a version of a row.
pub fn is_update(rmid: u8, info: u8) -> bool {
    new_line_pointer_at(rmid, info) == Some(UPDATE_NEW_OFFSET_AT)
}
