//! GIN posting lists ([`walzip_pgformat::posting_list`]). The model codes the TIDs: differences of
//! blocks and of offsets, each in streams of their own.

use walzip_pgformat::posting_list::{
    LIST_HEADER_LEN, OFFSET_BITS, OFFSET_MASK, short_align, write_list,
};

use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

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
    /// Memory to work with.
    fields: Option<Box<ListFields>>,
}

/// The fields of successive lists, each field together, as they stand in the streams.
#[derive(Debug, Default)]
pub struct ListFields {
    first_blocks: Vec<u32>,
    first_offsets: Vec<u16>,
    nears: Vec<u16>,
    fars: Vec<u32>,
    offsets: Vec<u16>,
    /// Numbers of first TIDs, of differences and of far differences that were taken.
    taken: (usize, usize, usize),
}

impl ListFields {
    /// Forgets all lists.
    pub fn clear(&mut self) {
        self.first_blocks.clear();
        self.first_offsets.clear();
        self.nears.clear();
        self.fars.clear();
        self.offsets.clear();
        self.taken = (0, 0, 0);
    }

    /// Adds the encoder's next list.
    pub fn add(&mut self, tids: &[u64]) {
        let Some((&first, others)) = tids.split_first() else {
            return;
        };
        self.first_blocks.push((first >> OFFSET_BITS) as u32);
        self.first_offsets.push((first & OFFSET_MASK) as u16);
        let mut last = first;
        for &tid in others {
            let blocks = (tid >> OFFSET_BITS).wrapping_sub(last >> OFFSET_BITS);
            let near = u16::try_from(blocks).unwrap_or(FAR);
            if near == FAR {
                self.fars.push(blocks as u32);
            }
            // Offsets ascend within a block. In another block the offset has no base.
            let base = if blocks == 0 { last & OFFSET_MASK } else { 0 };
            self.nears.push(near);
            self.offsets
                .push((tid & OFFSET_MASK).wrapping_sub(base) as u16);
            last = tid;
        }
    }

    /// Makes room for the decoder's next list, which has `count` TIDs.
    pub fn expect(&mut self, count: usize) {
        if let Some(others) = count.checked_sub(1) {
            self.first_blocks.push(0);
            self.first_offsets.push(0);
            let len = self.nears.len() + others;
            self.nears.resize(len, 0);
            self.offsets.resize(len, 0);
        }
    }

    /// Puts the TIDs of the next list into `tids`: as many as were expected.
    pub fn take(&mut self, count: usize, tids: &mut Vec<u64>) {
        tids.clear();
        let Some(others) = count.checked_sub(1) else {
            return;
        };
        let (list, start, _) = self.taken;
        let block = self.first_blocks.get(list).copied().unwrap_or_default();
        let offset = self.first_offsets.get(list).copied().unwrap_or_default();
        let mut last = u64::from(block) << OFFSET_BITS | u64::from(offset) & OFFSET_MASK;
        tids.push(last);
        let nears = self.nears.iter().zip(&self.offsets);
        for (&near, &offset) in nears.skip(start).take(others) {
            let mut blocks = u64::from(near);
            if near == FAR {
                let far = self.fars.get(self.taken.2).copied();
                blocks = far.unwrap_or_default().into();
                self.taken.2 += 1;
            }
            let base = if blocks == 0 { last & OFFSET_MASK } else { 0 };
            let block = (last >> OFFSET_BITS).wrapping_add(blocks) & u64::from(u32::MAX);
            last = block << OFFSET_BITS | (base + u64::from(offset)) & OFFSET_MASK;
            tids.push(last);
        }
        self.taken.0 += 1;
        self.taken.1 += others;
    }
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
        let mut fields = self.fields.take().unwrap_or_default();
        fields.clear();
        match C::ENCODING {
            true => fields.add(tids),
            false => fields.expect(count),
        }
        self.code_fields(coder, &mut fields);
        if !C::ENCODING && !coder.failed() {
            fields.take(count, tids);
        }
        self.fields = Some(fields);
        if C::ENCODING {
            return LIST_HEADER_LEN + short_align(usize::from(get_u16(bytes, 6)));
        }
        write_list(bytes, tids).unwrap_or_else(|| {
            coder.fail();
            LIST_HEADER_LEN
        })
    }

    /// Codes the fields of lists. The decoder expects some.
    pub fn code_fields<C: Coder>(&mut self, coder: &mut C, fields: &mut ListFields) {
        if fields.first_blocks.is_empty() {
            return;
        }
        let stream = self.first_block.open(coder, StreamKind::PostingTid, 4);
        coder.u32s(stream, &mut fields.first_blocks);
        let stream = self.first_offset.open(coder, StreamKind::PostingTid, 2);
        coder.u16s(stream, &mut fields.first_offsets);
        if fields.nears.is_empty() {
            return;
        }
        let stream = self.near.open(coder, StreamKind::PostingTid, 2);
        coder.u16s(stream, &mut fields.nears);
        let stream = self.offset.open(coder, StreamKind::PostingOffset, 2);
        coder.u16s(stream, &mut fields.offsets);
        if !C::ENCODING {
            let fars = fields.nears.iter().filter(|&&near| near == FAR).count();
            fields.fars.resize(fars, 0);
        }
        if !fields.fars.is_empty() {
            let stream = self.far.open(coder, StreamKind::PostingTid, 4);
            coder.u32s(stream, &mut fields.fars);
        }
    }
}
