//! The layout of index tuples (`IndexTupleData`, access/itup.h), and of posting lists of B-trees
//! (access/nbtree.h).
//!
//! ```text
//! 0 t_tid: block high u16, block low u16, offset u16   6 t_info u16   8 key, posting list
//! ```

use crate::model::values::tid::TID_LEN;

/// The size of the header, in bytes.
pub const INDEX_TUPLE_HEADER_LEN: usize = 8;
/// Offset of `t_info`.
pub const INFO_AT: usize = 6;
/// `INDEX_SIZE_MASK`: the tuple's length in `t_info`, in bytes.
pub const SIZE_MASK: u16 = 0x1FFF;
/// `INDEX_ALT_TID_MASK`, in `t_info`: `t_tid` is not the TID of a heap tuple.
pub const ALT_TID: u16 = 0x2000;
/// `INDEX_VAR_MASK`, in `t_info`: the key has an attribute of variable length.
pub const HAS_VARLENA: u16 = 0x4000;
/// `INDEX_NULL_MASK`, in `t_info`: a null bitmap precedes the key.
pub const HAS_NULLS: u16 = 0x8000;
/// The size of the null bitmap (`IndexAttributeBitMapData`), in bytes.
pub const BITMAP_LEN: usize = 4;
/// `BT_IS_POSTING`, in the offset of `t_tid`: the tuple has a posting list.
pub const IS_POSTING: u16 = 0x2000;
/// `BT_OFFSET_MASK`, in the same offset: the number of TIDs in the posting list.
pub const POSTING_COUNT: u16 = 0x0FFF;

/// Start and end of the posting list, if the tuple has one that fits into it.
pub fn posting_list(info: u16, offset: u16, block: u32, len: usize) -> Option<(usize, usize)> {
    if info & ALT_TID == 0 || offset & IS_POSTING == 0 {
        return None;
    }
    let start = block as usize;
    let end = start.checked_add(usize::from(offset & POSTING_COUNT) * TID_LEN)?;
    (start >= INDEX_TUPLE_HEADER_LEN && end <= len).then_some((start, end))
}
