//! GIN posting lists (access/gin/ginpostinglist.c): heap TIDs in ascending order.
//!
//! ```text
//! 0 first: block high u16, block low u16, offset u16   6 bytes u16   8 differences
//! ```
//!
//! A TID is the number block * 2048 + offset. Each difference is a varint: seven bits a byte, the
//! low ones first. A zero pads the list to an even length. The model codes the TIDs: differences
//! of blocks and of offsets, each in streams of their own.

use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

/// Size of the header, in bytes (`offsetof(GinPostingList, bytes)`).
pub const LIST_HEADER_LEN: usize = 8;
/// `MaxHeapTuplesPerPageBits`: bits of the offset in a TID's number.
const OFFSET_BITS: u32 = 11;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// `MaxBytesPerInteger`: maximum length of a difference, in bytes.
const VARBYTE_MAX: usize = 7;
/// The difference of blocks that means "the difference follows in the stream `far`".
const FAR: u16 = u16::MAX;

/// The streams of the lists of one index.
#[derive(Debug, Default)]
pub struct ListStreams {
    first_block: LazyStream,
    first_offset: LazyStream,
    near: LazyStream,
    far: LazyStream,
    offset: LazyStream,
}

/// `SHORTALIGN`.
pub const fn short_align(len: usize) -> usize {
    (len + 1) & !1
}

impl ListStreams {
    /// Codes a list of `count` TIDs at the front of `bytes` and returns its padded length. The
    /// encoder's `tids` come from [`read_list`]. The decoder's bytes are zeros.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        count: usize,
        tids: &mut Vec<u64>,
    ) -> usize {
        if !C::ENCODING {
            tids.clear();
        }
        if count > 0 {
            let tid = tids.first().copied().unwrap_or_default();
            let first = self.first(coder, tid);
            if !C::ENCODING {
                tids.push(first);
            }
            self.others(coder, first, count, tids);
        }
        if C::ENCODING {
            return LIST_HEADER_LEN + short_align(usize::from(get_u16(bytes, 6)));
        }
        write_list(bytes, tids).unwrap_or_else(|| {
            coder.fail();
            LIST_HEADER_LEN
        })
    }

    fn first<C: Coder>(&mut self, coder: &mut C, tid: u64) -> u64 {
        let stream = self.first_block.open(coder, StreamKind::PostingTid, 4);
        let block = coder.u32(stream, (tid >> OFFSET_BITS) as u32);
        let stream = self.first_offset.open(coder, StreamKind::PostingTid, 2);
        let offset = coder.u16(stream, (tid & OFFSET_MASK) as u16);
        u64::from(block) << OFFSET_BITS | u64::from(offset) & OFFSET_MASK
    }

    /// Codes the TIDs after the first one.
    fn others<C: Coder>(&mut self, coder: &mut C, first: u64, count: usize, tids: &mut Vec<u64>) {
        if count == 1 {
            return;
        }
        let near_stream = self.near.open(coder, StreamKind::PostingTid, 2);
        let offset_stream = self.offset.open(coder, StreamKind::PostingOffset, 2);
        let mut last = first;
        for number in 1..count {
            let tid = tids.get(number).copied().unwrap_or_default();
            let blocks = (tid >> OFFSET_BITS).wrapping_sub(last >> OFFSET_BITS);
            let near = coder.u16(near_stream, u16::try_from(blocks).unwrap_or(FAR));
            let blocks = if near == FAR {
                let stream = self.far.open(coder, StreamKind::PostingTid, 4);
                u64::from(coder.u32(stream, blocks as u32))
            } else {
                u64::from(near)
            };
            // Offsets ascend within a block. In another block the offset has no base.
            let base = if blocks == 0 { last & OFFSET_MASK } else { 0 };
            let offset = (tid & OFFSET_MASK).wrapping_sub(base) as u16;
            let offset = coder.u16(offset_stream, offset);
            let block = (last >> OFFSET_BITS).wrapping_add(blocks) & u64::from(u32::MAX);
            last = block << OFFSET_BITS | (base + u64::from(offset)) & OFFSET_MASK;
            if !C::ENCODING {
                if coder.failed() {
                    return;
                }
                tids.push(last);
            }
        }
    }
}

/// Reads the list at the front of `bytes` and returns its padded length. `None` if writing the
/// TIDs again would give other bytes.
pub fn read_list(bytes: &[u8], tids: &mut Vec<u64>) -> Option<usize> {
    tids.clear();
    let header = bytes.get(..LIST_HEADER_LEN)?;
    let block = u64::from(get_u16(header, 0)) << 16 | u64::from(get_u16(header, 2));
    let offset = u64::from(get_u16(header, 4));
    let len = usize::from(get_u16(header, 6));
    let padded = bytes.get(LIST_HEADER_LEN..LIST_HEADER_LEN + short_align(len))?;
    let mut rest = &padded[..len];
    if offset > OFFSET_MASK || padded[len..] != [0; 1][..padded.len() - len] {
        return None;
    }
    let mut tid = block << OFFSET_BITS | offset;
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
fn write_list(bytes: &mut [u8], tids: &[u64]) -> Option<usize> {
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
    let block = (first >> OFFSET_BITS) as u32;
    let header: &mut [u8; LIST_HEADER_LEN] = bytes.first_chunk_mut()?;
    header[0..2].copy_from_slice(&((block >> 16) as u16).to_le_bytes());
    header[2..4].copy_from_slice(&(block as u16).to_le_bytes());
    header[4..6].copy_from_slice(&((first & OFFSET_MASK) as u16).to_le_bytes());
    header[6..8].copy_from_slice(&((at - LIST_HEADER_LEN) as u16).to_le_bytes());
    (short_align(at) <= bytes.len()).then_some(short_align(at))
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
