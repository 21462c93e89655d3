//! Tuples of tables (access/htup_details.h): the header and its fields.
//!
//! ```text
//! xmin u32, xmax u32, cid u32, ctid (block u16 high, u16 low, number u16),
//! infomask2 u16, infomask u16, hoff u8, then null bitmap and data
//! ```

use std::borrow::Cow;

use walzip_pgformat::bytes::{read_u16, read_u32};

/// Bytes of the fixed header (`SizeofHeapTupleHeader`).
pub const HEADER_LEN: usize = 23;
const XMIN_AT: usize = 0;
const XMAX_AT: usize = 4;
const CID_AT: usize = 8;
const CTID_AT: usize = 12;
/// Where `t_infomask2` stands. `t_infomask` and `t_hoff` follow.
pub const INFOMASK2_AT: usize = 18;
/// Where `t_infomask` stands.
pub const INFOMASK_AT: usize = 20;
/// Where `t_hoff` stands.
pub const HOFF_AT: usize = 22;

const XMAX_KEYSHR_LOCK: u16 = 0x0010;
const COMBO_CID: u16 = 0x0020;
const XMAX_EXCL_LOCK: u16 = 0x0040;
const XMAX_LOCK_ONLY: u16 = 0x0080;
const XMIN_COMMITTED: u16 = 0x0100;
const XMIN_INVALID: u16 = 0x0200;
const XMAX_COMMITTED: u16 = 0x0400;
const XMAX_INVALID: u16 = 0x0800;
const XMAX_IS_MULTI: u16 = 0x1000;
const MOVED: u16 = 0xC000;
const LOCK_MASK: u16 = XMAX_KEYSHR_LOCK | XMAX_EXCL_LOCK;
const XMAX_BITS: u16 = XMAX_COMMITTED | XMAX_INVALID | XMAX_IS_MULTI | LOCK_MASK | XMAX_LOCK_ONLY;
/// In `t_infomask2`.
const KEYS_UPDATED: u16 = 0x2000;
const HOT_UPDATED: u16 = 0x4000;
const HEAP_ONLY: u16 = 0x8000;

/// `t_ctid` of a row that moved to another partition (`HeapTupleHeaderSetMovedPartitions`).
pub const MOVED_PARTITIONS: (u32, u16) = (u32::MAX, 0xFFFD);

/// A tuple as records carry it.
pub struct Tuple<'t> {
    /// `t_infomask2` and `t_infomask`.
    pub masks: [u8; 4],
    /// `t_hoff`
    pub hoff: u8,
    /// What follows the fixed header.
    pub body: Cow<'t, [u8]>,
}

impl<'t> Tuple<'t> {
    /// Reads an `xl_heap_header` and what follows.
    pub fn of_record(data: &'t [u8]) -> Option<Tuple<'t>> {
        let (&[a, b, c, d, hoff], body) = data.split_first_chunk()?;
        Some(Tuple {
            masks: [a, b, c, d],
            hoff,
            body: body.into(),
        })
    }

    /// The tuple as a transaction puts it on a page.
    pub fn inserted(&self, xid: u32, tid: (u32, u16)) -> Vec<u8> {
        let mut tuple = vec![0; HEADER_LEN];
        tuple[XMIN_AT..XMIN_AT + 4].copy_from_slice(&xid.to_le_bytes());
        tuple[INFOMASK2_AT..HOFF_AT].copy_from_slice(&self.masks);
        tuple[HOFF_AT] = self.hoff;
        set_ctid(&mut tuple, tid);
        tuple.extend_from_slice(&self.body);
        tuple
    }
}

fn put<const N: usize>(tuple: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    *tuple.get_mut(at..)?.first_chunk_mut()? = bytes;
    Some(())
}

fn change(tuple: &mut [u8], at: usize, set: u16, clear: u16) -> Option<()> {
    let mask = (read_u16(tuple, at)? & !clear) | set;
    put(tuple, at, mask.to_le_bytes())
}

/// Sets `t_xmin`.
pub fn set_xmin(tuple: &mut [u8], xid: u32) -> Option<()> {
    put(tuple, XMIN_AT, xid.to_le_bytes())
}

/// Sets `t_xmax`.
pub fn set_xmax(tuple: &mut [u8], xid: u32) -> Option<()> {
    put(tuple, XMAX_AT, xid.to_le_bytes())
}

/// Sets the command id, as one that is no combination.
pub fn set_cid(tuple: &mut [u8], cid: u32) -> Option<()> {
    change(tuple, INFOMASK_AT, 0, COMBO_CID)?;
    put(tuple, CID_AT, cid.to_le_bytes())
}

/// Sets `t_ctid`.
pub fn set_ctid(tuple: &mut [u8], (block, number): (u32, u16)) -> Option<()> {
    put(tuple, CTID_AT, ((block >> 16) as u16).to_le_bytes())?;
    put(tuple, CTID_AT + 2, (block as u16).to_le_bytes())?;
    put(tuple, CTID_AT + 4, number.to_le_bytes())
}

/// Clears what the masks say of `t_xmax`.
pub fn clear_xmax(tuple: &mut [u8]) -> Option<()> {
    change(tuple, INFOMASK_AT, 0, XMAX_BITS | MOVED)?;
    change(tuple, INFOMASK2_AT, 0, KEYS_UPDATED)
}

/// Says whether a newer version on the same page follows.
pub fn set_hot_updated(tuple: &mut [u8], is_hot: bool) -> Option<()> {
    let set = if is_hot { HOT_UPDATED } else { 0 };
    change(tuple, INFOMASK2_AT, set, HOT_UPDATED)
}

/// Sets the bits that a record says (`fix_infomask_from_infobits`).
pub fn set_infobits(tuple: &mut [u8], infobits: u8) -> Option<()> {
    let bits = [
        (0x01, XMAX_IS_MULTI),
        (0x02, XMAX_LOCK_ONLY),
        (0x04, XMAX_EXCL_LOCK),
        (0x08, XMAX_KEYSHR_LOCK),
    ];
    let set = bits.iter().filter(|(bit, _)| infobits & bit != 0);
    let set = set.fold(0, |set, (_, mask)| set | mask);
    change(tuple, INFOMASK_AT, set, 0)?;
    let keys = if infobits & 0x10 != 0 {
        KEYS_UPDATED
    } else {
        0
    };
    change(tuple, INFOMASK2_AT, keys, 0)
}

/// Sets the hints that a look at a tuple leaves (`HeapTupleSatisfiesVacuum`), if all transactions
/// but one have ended and were committed. Returns the one that deleted or replaced the tuple.
pub fn leave_hints(tuple: &mut [u8], running: u32) -> Option<Option<u32>> {
    let mask = read_u16(tuple, INFOMASK_AT)?;
    let (xmin, xmax) = (read_u32(tuple, XMIN_AT)?, read_u32(tuple, XMAX_AT)?);
    let mut hints = 0;
    if mask & (XMIN_COMMITTED | XMIN_INVALID) == 0 && xmin != running {
        hints |= XMIN_COMMITTED;
    }
    let has_xmax = mask & XMAX_INVALID == 0;
    let is_locked_only = is_locked_only(tuple)?;
    if has_xmax && xmax != running && mask & XMAX_COMMITTED == 0 {
        hints |= match (is_locked_only, mask & XMAX_IS_MULTI) {
            (true, _) => XMAX_INVALID,
            (false, 0) => XMAX_COMMITTED,
            (false, _) => 0,
        };
    }
    change(tuple, INFOMASK_AT, hints, 0)?;
    Some((has_xmax && !is_locked_only).then_some(xmax))
}

/// What pruning asks of a tuple.
pub struct Fate {
    /// Its insertion is known to be aborted.
    pub is_aborted: bool,
    /// The transaction that deleted or replaced it.
    pub ended_by: Option<u32>,
    /// No index refers to it (`HEAP_ONLY_TUPLE`).
    pub is_heap_only: bool,
    /// A newer version on the same page follows.
    pub is_hot_updated: bool,
}

/// What the header of a tuple says.
pub fn fate(tuple: &[u8]) -> Option<Fate> {
    let (mask, mask2) = (
        read_u16(tuple, INFOMASK_AT)?,
        read_u16(tuple, INFOMASK2_AT)?,
    );
    let has_end = mask & (XMAX_INVALID | XMAX_IS_MULTI) == 0 && !is_locked_only(tuple)?;
    Some(Fate {
        is_aborted: mask & (XMIN_COMMITTED | XMIN_INVALID) == XMIN_INVALID,
        ended_by: if has_end {
            Some(read_u32(tuple, XMAX_AT)?)
        } else {
            None
        },
        is_heap_only: mask2 & HEAP_ONLY != 0,
        is_hot_updated: mask2 & HOT_UPDATED != 0,
    })
}

/// `HEAP_XMAX_IS_LOCKED_ONLY`
pub fn is_locked_only(tuple: &[u8]) -> Option<bool> {
    let mask = read_u16(tuple, INFOMASK_AT)?;
    Some(mask & XMAX_LOCK_ONLY != 0 || mask & (XMAX_IS_MULTI | LOCK_MASK) == XMAX_EXCL_LOCK)
}

/// Sets both masks.
pub fn set_masks(tuple: &mut [u8], infomask2: u16, infomask: u16) -> Option<()> {
    put(tuple, INFOMASK2_AT, infomask2.to_le_bytes())?;
    put(tuple, INFOMASK_AT, infomask.to_le_bytes())
}
