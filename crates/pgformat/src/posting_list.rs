//! GIN posting lists (access/gin/ginpostinglist.c): heap TIDs in ascending order.
//!
//! ```text
//! 0 first: block high u16, block low u16, offset u16   6 bytes u16   8 differences
//! ```
//!
//! A TID is the number block * 2048 + offset. Each difference is a varint: seven bits a byte, the
//! low ones first. A zero pads the list to an even length.

use crate::bytes::read_u16;

/// Size of the header, in bytes (`offsetof(GinPostingList, bytes)`).
pub const LIST_HEADER_LEN: usize = 8;
/// `MaxHeapTuplesPerPageBits`: bits of the offset in a TID's number.
pub const OFFSET_BITS: u32 = 11;
/// The offset in a TID's number.
pub const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// `MaxBytesPerInteger`: maximum length of a difference, in bytes.
pub const VARBYTE_MAX: usize = 7;

/// `SHORTALIGN`.
pub const fn short_align(len: usize) -> usize {
    (len + 1) & !1
}

/// The number of a TID: block high `u16`, block low `u16`, offset `u16`. `None` where the offset has
/// more bits than it can have.
pub fn tid_number(tid: &[u8]) -> Option<u64> {
    let block = u64::from(read_u16(tid, 0)?) << 16 | u64::from(read_u16(tid, 2)?);
    let offset = u64::from(read_u16(tid, 4)?);
    (offset <= OFFSET_MASK).then_some(block << OFFSET_BITS | offset)
}

/// The number of the TID with a block and a line pointer's number, of which the low eleven bits count.
pub fn number_of(block: u32, offset: u16) -> u64 {
    u64::from(block) << OFFSET_BITS | u64::from(offset) & OFFSET_MASK
}

/// The TID of a number.
pub fn tid_of(number: u64) -> [u8; 6] {
    let block = (number >> OFFSET_BITS) as u32;
    let mut tid = [0; 6];
    tid[0..2].copy_from_slice(&((block >> 16) as u16).to_le_bytes());
    tid[2..4].copy_from_slice(&(block as u16).to_le_bytes());
    tid[4..6].copy_from_slice(&((number & OFFSET_MASK) as u16).to_le_bytes());
    tid
}

/// Reads the list at the front of `bytes` and returns its padded length. `None` if writing the
/// TIDs again would give other bytes.
pub fn read_list(bytes: &[u8], tids: &mut Vec<u64>) -> Option<usize> {
    tids.clear();
    let len = usize::from(read_u16(bytes, 6)?);
    let padded = bytes.get(LIST_HEADER_LEN..LIST_HEADER_LEN + short_align(len))?;
    let (mut rest, padding) = padded.split_at(len);
    let mut tid = tid_number(bytes)?;
    if padding.iter().any(|&byte| byte != 0) {
        return None;
    }
    tids.push(tid);
    while let Some((&first, mut behind)) = rest.split_first() {
        let mut delta = u64::from(first & 0x7F);
        let mut last = first;
        let mut shift = 7;
        while last & 0x80 != 0 {
            (last, behind) = behind.split_first().map(|(&byte, rest)| (byte, rest))?;
            if shift == 7 * VARBYTE_MAX {
                return None;
            }
            delta |= u64::from(last & 0x7F) << shift;
            shift += 7;
        }
        // PostgreSQL writes the shortest form: its last byte is not 0.
        if last == 0 {
            return None;
        }
        tid += delta;
        if tid >> OFFSET_BITS > u64::from(u32::MAX) {
            return None;
        }
        tids.push(tid);
        rest = behind;
    }
    Some(LIST_HEADER_LEN + padded.len())
}

/// Writes a list to the front of `bytes`, which are zeros, and returns its padded length. `None`
/// if it does not fit or there are no TIDs.
pub fn write_list(bytes: &mut [u8], tids: &[u64]) -> Option<usize> {
    let (first, rest) = tids.split_first()?;
    let mut at = LIST_HEADER_LEN;
    let mut last = *first;
    for tid in rest {
        let mut delta = tid.checked_sub(last)?;
        while delta > 0x7F {
            *bytes.get_mut(at)? = delta as u8 | 0x80;
            delta >>= 7;
            at += 1;
        }
        *bytes.get_mut(at)? = delta as u8;
        at += 1;
        last = *tid;
    }
    let header: &mut [u8; LIST_HEADER_LEN] = bytes.first_chunk_mut()?;
    header[0..6].copy_from_slice(&tid_of(*first));
    header[6..8].copy_from_slice(&((at - LIST_HEADER_LEN) as u16).to_le_bytes());
    (short_align(at) <= bytes.len()).then_some(short_align(at))
}

/// A list of TIDs, padded. `None` if there are none, or they do not ascend.
pub fn list_of(tids: &[u64]) -> Option<Vec<u8>> {
    let mut list = vec![0; short_align(LIST_HEADER_LEN + VARBYTE_MAX * tids.len())];
    let len = write_list(&mut list, tids)?;
    list.truncate(len);
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn writes_what_it_reads(deltas in prop::collection::vec(1u64..1 << 30, 0..50), first in 0u64..1 << 40) {
            let mut tids = vec![first];
            for delta in deltas {
                tids.push(tids[tids.len() - 1] + delta);
            }
            let mut bytes = vec![0; 1000];
            let len = write_list(&mut bytes, &tids).unwrap();
            let mut read = Vec::new();
            prop_assert_eq!(read_list(&bytes[..len], &mut read), Some(len));
            prop_assert_eq!(read, tids);
        }
    }
}
