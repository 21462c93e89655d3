//! Record kinds: all that the headers of some records have in common, relations included.
//!
//! A kind is defined when it first occurs. After that it costs its rank among the kinds that have
//! followed the previous kind in a transaction, the most recent first. Most ranks are small.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use walzip_pgformat::Version;
use walzip_pgformat::wal::RecordLayout;

use super::block_data::BlockStreams;
use super::main_data::MainStreams;
use super::record_type::{BlockModel, block_model};
use super::shape::{FLAGS_ALL, PREV_EXPLICIT, Shape, ShapeBlock, VARIABLE_MAIN_LEN};
use crate::fast_hash::FastHash;
use crate::format_version::FormatVersion;
use crate::limits::{KIND_BLOCKS_MAX, KIND_BLOCKS_TOTAL_MAX, KINDS_MAX};
use crate::model::relations::Relations;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::recency::to_front;

/// Maximum number of kinds that are remembered as followers of a kind.
const SUCCESSORS_MAX: usize = 250;
/// The encoder compares a record with this number of followers before it looks its kind up by hash:
/// most records have one of the first.
const LIKELY_MAX: u8 = 4;
/// The rank that says "none of them".
const OTHER: u8 = 255;

/// A shape, and the streams of the records of this shape.
#[derive(Debug)]
pub struct Kind {
    /// The header fields that the records have in common.
    pub shape: Shape,
    /// The model of each block's data.
    pub block_models: Vec<BlockModel>,
    /// The streams of each block's data.
    pub block_streams: Vec<BlockStreams>,
    /// The streams of the main data.
    pub main: MainStreams,
    main_len: LazyStream,
}

/// All kinds of a segment.
#[derive(Debug)]
pub struct Kinds {
    list: Vec<Kind>,
    /// Number of block references of all kinds together.
    blocks_total: usize,
    numbers: HashMap<Shape, u32, FastHash>,
    /// The followers of each context, which is 0 for a new transaction, and otherwise the number
    /// of the transaction's previous kind plus 1.
    successors: Vec<Vec<u32>>,
    scratch: Shape,
    definitions: LazyStream,
    rank: LazyStream,
    id: LazyStream,
}

impl Kinds {
    /// An empty list.
    pub fn new() -> Kinds {
        Kinds {
            list: Vec::new(),
            blocks_total: 0,
            numbers: HashMap::default(),
            successors: vec![Vec::new()],
            scratch: Shape::default(),
            definitions: LazyStream::default(),
            rank: LazyStream::default(),
            id: LazyStream::default(),
        }
    }
}

impl Kinds {
    /// Codes the kind of the record in `layout`. The decoder fills the layout with the fields of
    /// the kind. Returns the kind's number, and whether the back link is coded with the record.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        version: &Version,
        relations: &mut Relations,
        context: &mut u32,
        layout: &mut RecordLayout,
        prev_follows: bool,
    ) -> Option<(usize, bool)> {
        let (wanted, found) = if C::ENCODING {
            self.find(relations, *context, layout, prev_follows)?
        } else {
            (0, 0)
        };
        let successors = self.successors.get_mut(*context as usize)?;
        let stream = self.rank.open(coder, StreamKind::KindRank, 1);
        let rank = coder.u8(stream, found);
        let number = if rank == OTHER {
            let stream = self.id.open(coder, StreamKind::KindId, 4);
            let number = coder.u32(stream, wanted);
            successors.truncate(SUCCESSORS_MAX - 1);
            successors.insert(0, number);
            number
        } else {
            to_front(successors, rank.into())?
        };
        if number as usize == self.list.len() {
            self.define(coder, relations)?;
        }
        let kind = self.list.get(number as usize)?;
        *context = number + 1;
        if !C::ENCODING {
            kind.shape.prepare(layout, relations, version)?;
        }
        Some((number as usize, kind.shape.flags & PREV_EXPLICIT != 0))
    }

    /// The kind with a number that [`Kinds::code`] returned.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut Kind> {
        self.list.get_mut(number)
    }

    /// The number of a record's kind, and its rank among the followers of the context.
    fn find(
        &mut self,
        relations: &mut Relations,
        context: u32,
        layout: &RecordLayout,
        prev_follows: bool,
    ) -> Option<(u32, u8)> {
        let successors = self.successors.get(context as usize)?;
        self.scratch.describe_header(layout, prev_follows);
        for (rank, number) in (0..LIKELY_MAX).zip(successors) {
            let shape = &self.list.get(*number as usize)?.shape;
            if shape.header_is(&self.scratch) && shape.blocks_are(relations, layout) {
                return Some((*number, rank));
            }
        }
        self.scratch.describe_blocks(relations, layout);
        let known = self.numbers.get(&self.scratch).copied();
        let number = known.unwrap_or(self.list.len() as u32);
        let mut ranks = (0..OTHER).zip(successors);
        let found = ranks.find(|(_, kind)| **kind == number);
        Some((number, found.map_or(OTHER, |(rank, _)| rank)))
    }

    /// Codes the definition of the next kind. The encoder's is in `scratch`.
    ///
    /// The number of kinds, of their blocks, and so of relations, is bounded: each takes far more
    /// memory than its definition has bytes.
    fn define<C: Coder>(&mut self, coder: &mut C, relations: &mut Relations) -> Option<()> {
        let stream = self.definitions.open(coder, StreamKind::Definitions, 1);
        let mut shape = std::mem::take(&mut self.scratch);
        shape.rmid = coder.u8(stream, shape.rmid);
        shape.info = coder.u8(stream, shape.info);
        shape.flags = coder.u8(stream, shape.flags);
        shape.main_len = coder.u8(stream, shape.main_len);
        let blocks = usize::from(coder.u8(stream, shape.blocks.len() as u8));
        self.blocks_total += blocks;
        if self.list.len() == KINDS_MAX
            || blocks > KIND_BLOCKS_MAX
            || self.blocks_total > KIND_BLOCKS_TOTAL_MAX
        {
            return None;
        }
        shape.blocks.resize(blocks, ShapeBlock::default());
        for block in &mut shape.blocks {
            block.id = coder.u8(stream, block.id);
            block.fork_flags = coder.u8(stream, block.fork_flags);
            block.image_flags = coder.u8(stream, block.image_flags);
            block.relation = relations.code(coder, stream, block.relation);
        }
        if coder.failed() || shape.flags & !FLAGS_ALL != 0 {
            return None;
        }
        if C::ENCODING {
            self.numbers.insert(shape.clone(), self.list.len() as u32);
        }
        self.successors.push(Vec::new());
        self.list.push(Kind::new(shape, coder.format()));
        Some(())
    }
}

impl Kind {
    fn new(shape: Shape, format: FormatVersion) -> Kind {
        let count = shape.blocks.len();
        Kind {
            block_models: shape
                .blocks
                .iter()
                .map(|block| block_model(shape.rmid, shape.info, block.id, format))
                .collect(),
            block_streams: (0..count).map(|_| BlockStreams::default()).collect(),
            main: MainStreams::new(&shape, format),
            main_len: LazyStream::default(),
            shape,
        }
    }

    /// Codes the length of the main data if the kind does not have it.
    pub fn code_main_len<C: Coder>(&mut self, coder: &mut C, layout: &mut RecordLayout) {
        if self.shape.main_len == VARIABLE_MAIN_LEN {
            let stream = self.main_len.open(coder, StreamKind::MainLen, 4);
            layout.main_len = coder.u32(stream, layout.main_len as u32) as usize;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::format_example;

    #[test]
    fn decodes_the_example_of_the_specification() {
        let mut reader = format_example::reader("model/records.md", "record kinds");
        let version = Version::from_page_magic(0xD118).expect("18");
        let mut relations = Relations::default();
        let mut kinds = Kinds::new();
        let mut context = 0;
        for _ in 0..3 {
            let mut layout = RecordLayout::default();
            let coded = kinds.code(
                &mut reader,
                version,
                &mut relations,
                &mut context,
                &mut layout,
                true,
            );
            assert_eq!(coded, Some((0, false)));
            assert_eq!((layout.header.rmid, layout.main_len), (10, 3));
            let locator = layout.blocks[0].locator;
            let numbers = [locator.tablespace, locator.database, locator.relation];
            assert_eq!(numbers, [1663, 5, 16384]);
            assert_eq!(layout.blocks[0].fork_flags, 0x20);
        }
        assert!(reader.exhausted() && !reader.failed());
    }
}
