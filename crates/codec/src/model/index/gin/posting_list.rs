//! GIN posting lists (access/gin/ginpostinglist.c): heap places in ascending order.
//!
//! ```text
//! 0 first: block high u16, block low u16, offset u16   6 bytes u16   8 differences
//! ```
//!
//! A place counts as block * 2048 + offset; each difference takes as many bytes as it needs,
//! seven bits in each, the low ones first. Zeros fill up to an even length. The list is taken
//! apart into places, whose differences are coded for blocks and offsets apart.

use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

/// Bytes in front of the differences (`offsetof(GinPostingList, bytes)`).
pub const LIST_HEADER_LEN: usize = 8;
/// `MaxHeapTuplesPerPageBits`.
const OFFSET_BITS: u32 = 11;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Bytes of a difference at most (`MaxBytesPerInteger`).
const VARBYTE_MAX: usize = 7;
/// A difference of blocks of this and more is in a stream of its own.
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
    /// Codes a list of `count` places at the front of `bytes`; returns its length, even. The
    /// encoder's `places` are what [`read_list`] found in it; the decoder's bytes are zeros.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        count: usize,
        places: &mut Vec<u64>,
    ) -> usize {
        if !C::ENCODING {
            places.clear();
        }
        if count > 0 {
            let place = places.first().copied().unwrap_or_default();
            let first = self.first(coder, place);
            if !C::ENCODING {
                places.push(first);
            }
            self.others(coder, first, count, places);
        }
        if C::ENCODING {
            return LIST_HEADER_LEN + short_align(usize::from(get_u16(bytes, 6)));
        }
        write_list(bytes, places).unwrap_or_else(|| {
            coder.fail();
            LIST_HEADER_LEN
        })
    }

    fn first<C: Coder>(&mut self, coder: &mut C, place: u64) -> u64 {
        let stream = self.first_block.open(coder, StreamKind::PostingTid, 4);
        let block = coder.u32(stream, (place >> OFFSET_BITS) as u32);
        let stream = self.first_offset.open(coder, StreamKind::PostingTid, 2);
        let offset = coder.u16(stream, (place & OFFSET_MASK) as u16);
        u64::from(block) << OFFSET_BITS | u64::from(offset) & OFFSET_MASK
    }

    /// Codes the places behind the first one.
    fn others<C: Coder>(&mut self, coder: &mut C, first: u64, count: usize, places: &mut Vec<u64>) {
        if count == 1 {
            return;
        }
        let near_stream = self.near.open(coder, StreamKind::PostingTid, 2);
        let offset_stream = self.offset.open(coder, StreamKind::PostingOffset, 2);
        let mut last = first;
        for number in 1..count {
            let place = places.get(number).copied().unwrap_or_default();
            let blocks = (place >> OFFSET_BITS).wrapping_sub(last >> OFFSET_BITS);
            let near = coder.u16(near_stream, u16::try_from(blocks).unwrap_or(FAR));
            let blocks = if near == FAR {
                let stream = self.far.open(coder, StreamKind::PostingTid, 4);
                u64::from(coder.u32(stream, blocks as u32))
            } else {
                u64::from(near)
            };
            // Within a block offsets ascend; in the next one they begin anywhere.
            let base = if blocks == 0 { last & OFFSET_MASK } else { 0 };
            let offset = (place & OFFSET_MASK).wrapping_sub(base) as u16;
            let offset = coder.u16(offset_stream, offset);
            let block = (last >> OFFSET_BITS).wrapping_add(blocks) & u64::from(u32::MAX);
            last = block << OFFSET_BITS | (base + u64::from(offset)) & OFFSET_MASK;
            if !C::ENCODING {
                if coder.failed() {
                    return;
                }
                places.push(last);
            }
        }
    }
}

/// Reads the list at the front of `bytes`; `None` where writing it again would give other
/// bytes. Returns its length, even.
pub fn read_list(bytes: &[u8], places: &mut Vec<u64>) -> Option<usize> {
    places.clear();
    let header = bytes.get(..LIST_HEADER_LEN)?;
    let block = u64::from(get_u16(header, 0)) << 16 | u64::from(get_u16(header, 2));
    let offset = u64::from(get_u16(header, 4));
    let len = usize::from(get_u16(header, 6));
    let padded = bytes.get(LIST_HEADER_LEN..LIST_HEADER_LEN + short_align(len))?;
    let mut rest = &padded[..len];
    if offset > OFFSET_MASK || padded[len..] != [0; 1][..padded.len() - len] {
        return None;
    }
    let mut place = block << OFFSET_BITS | offset;
    places.push(place);
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
        // No shorter form exists.
        if last == 0 {
            return None;
        }
        place += delta;
        if place >> OFFSET_BITS > u64::from(u32::MAX) {
            return None;
        }
        places.push(place);
        rest = behind;
    }
    Some(LIST_HEADER_LEN + padded.len())
}

/// Writes a list to the front of zeros; `None` where it has no room or no places.
fn write_list(bytes: &mut [u8], places: &[u64]) -> Option<usize> {
    let (first, rest) = places.split_first()?;
    let mut at = LIST_HEADER_LEN;
    let mut last = *first;
    for place in rest {
        let mut delta = place.checked_sub(last)?;
        while delta > 0x7F {
            *bytes.get_mut(at)? = delta as u8 | 0x80;
            delta >>= 7;
            at += 1;
        }
        *bytes.get_mut(at)? = delta as u8;
        at += 1;
        last = *place;
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
            let mut places = vec![first];
            for delta in deltas {
                places.push(places[places.len() - 1] + delta);
            }
            let mut bytes = vec![0; 1000];
            let len = write_list(&mut bytes, &places).unwrap();
            let mut read = Vec::new();
            prop_assert_eq!(read_list(&bytes[..len], &mut read), Some(len));
            prop_assert_eq!(read, places);
        }
    }
}
