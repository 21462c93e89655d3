//! A chunk of relation files as streams, and back.
//!
//! The stream `Extents` is a list of parts of the chunk: 0 ends it; 1 is pages: the number of
//! their relation, of the first page in it, and how many there are, u32 each; 2 is other bytes:
//! their number, u32.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use walzip_pgformat::PAGE_SIZE;

use crate::error::{DecodeError, DecodeToError, EncodeError};
use crate::fast_hash::FastHash;
use crate::limits::CHUNK_LEN_MAX;
use crate::model::{ChunkPages, KnownRelations};
use crate::original::{Original, PIECE_LEN};
use crate::streams::coder::{Choices, Coder, LazyStream, StreamId};
use crate::streams::filled::Filled;
use crate::streams::kind::StreamKind;
use crate::streams::{StreamReader, StreamWriter};

/// The list of extents ends.
pub const END: u8 = 0;
/// Pages of a relation follow.
pub const PAGES: u8 = 1;
/// Other bytes follow.
pub const BYTES: u8 = 2;

const BAD: DecodeError = DecodeError::Corrupt("streams do not make a chunk");

/// What a part of a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Whole pages of 8 KB of one relation fork.
    Pages {
        /// Any number that is the same for the same relation within the chunk.
        relation: u32,
        /// The number in the relation of the first page.
        first_block: u32,
        /// How many pages there are.
        pages: u32,
    },
    /// Any other bytes.
    Bytes {
        /// How many there are.
        len: u32,
    },
}

impl Extent {
    /// Bytes of the chunk that it stands for.
    pub fn len(self) -> u64 {
        match self {
            Extent::Pages { pages, .. } => u64::from(pages) * PAGE_SIZE as u64,
            Extent::Bytes { len } => u64::from(len),
        }
    }

    /// It stands for no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Includes an extent of the bytes behind it. Returns `false` where no extent can stand for
    /// both.
    pub fn include(&mut self, next: Extent) -> bool {
        let (len, more) = match (self, next) {
            (
                Extent::Pages {
                    relation,
                    first_block,
                    pages,
                },
                Extent::Pages {
                    relation: other,
                    first_block: block,
                    pages: more,
                },
            ) if *relation == other && first_block.checked_add(*pages) == Some(block) => {
                (pages, more)
            }
            (Extent::Bytes { len }, Extent::Bytes { len: more }) => (len, more),
            _ => return false,
        };
        let sum = len.checked_add(more);
        *len = sum.unwrap_or(*len);
        sum.is_some()
    }
}

/// Whether a chunk of so many bytes is one, and its extents are.
pub fn check(extents: &[Extent], len: usize) -> Result<(), EncodeError> {
    if len > CHUNK_LEN_MAX {
        let max = CHUNK_LEN_MAX;
        return Err(EncodeError::TooLong { len, max });
    }
    let lens = extents.iter().map(|extent| extent.len());
    let extents = lens.fold(0, u64::saturating_add);
    match extents == len as u64 {
        true => Ok(()),
        false => Err(EncodeError::Extents { extents, len }),
    }
}

/// The streams of a chunk; `None` where the format's limits are too narrow for it.
pub fn encode(
    extents: &[Extent],
    mut bytes: &[u8],
    mut model: ChunkPages,
    choices: Choices,
    known: &mut KnownRelations,
) -> Option<Vec<Filled>> {
    let mut coder = StreamWriter::new(choices);
    let list = LazyStream::default().open(&mut coder, StreamKind::Extents, 1);
    let mut other = LazyStream::default();
    let mut numbers: HashMap<u32, u32, FastHash> = HashMap::default();
    let mut names = Vec::new();
    let mut page = Box::new([0; PAGE_SIZE]);
    for extent in extents.iter().filter(|extent| !extent.is_empty()) {
        let (part, rest) = bytes.split_at_checked(usize::try_from(extent.len()).ok()?)?;
        bytes = rest;
        match *extent {
            Extent::Pages {
                relation,
                first_block,
                pages,
            } => {
                let next = numbers.len() as u32;
                let number = *numbers.entry(relation).or_insert(next);
                if number == next {
                    names.push(relation);
                }
                coder.u8(list, PAGES);
                for value in [number, first_block, pages] {
                    coder.u32(list, value);
                }
                let (pages, _) = part.as_chunks::<PAGE_SIZE>();
                for (offset, bytes) in (0..).zip(pages) {
                    page.copy_from_slice(bytes);
                    let block = first_block.wrapping_add(offset);
                    model.code(&mut coder, number as usize, block, &mut page);
                }
            }
            Extent::Bytes { len } => {
                coder.u8(list, BYTES);
                coder.u32(list, len);
                let stream = other.open(&mut coder, StreamKind::FileBytes, 1);
                coder.append(stream, part);
            }
        }
        if coder.failed() {
            return None;
        }
    }
    coder.u8(list, END);
    model.finish(&mut coder, &names, known);
    (!coder.failed()).then(|| coder.into_streams())
}

/// Makes the chunk of streams, of a length.
pub fn decode(
    streams: StreamReader<'_>,
    model: ChunkPages,
    len: usize,
    original: &mut Original<'_>,
) -> Result<(), DecodeToError> {
    let mut decoder = Decoder {
        coder: streams,
        model,
        other: LazyStream::default(),
        relations: 0,
        left: len,
        bytes: Vec::new(),
    };
    let list = LazyStream::default().open(&mut decoder.coder, StreamKind::Extents, 1);
    loop {
        match decoder.coder.u8(list, 0) {
            _ if decoder.coder.failed() => return Err(BAD.into()),
            END => break,
            PAGES => decoder.pages(list, original)?,
            BYTES => decoder.other(list, original)?,
            _ => return Err(BAD.into()),
        }
    }
    if !decoder.coder.exhausted() || decoder.left != 0 {
        return Err(BAD.into());
    }
    original.write(&decoder.bytes)
}

struct Decoder<'s> {
    coder: StreamReader<'s>,
    model: ChunkPages,
    other: LazyStream,
    /// Relations that had pages.
    relations: u32,
    /// Bytes of the chunk that are yet to come.
    left: usize,
    /// Bytes that are yet to be handed over.
    bytes: Vec<u8>,
}

impl Decoder<'_> {
    fn pages(&mut self, list: StreamId, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        let [relation, first_block, pages] = [0; 3].map(|zero| self.coder.u32(list, zero));
        let fits = pages as usize <= self.left / PAGE_SIZE;
        if self.coder.failed() || pages == 0 || !fits || relation > self.relations {
            return Err(BAD.into());
        }
        self.relations = self.relations.max(relation + 1);
        for offset in 0..pages {
            let start = self.bytes.len();
            self.bytes.resize(start + PAGE_SIZE, 0);
            let page = self.bytes.last_chunk_mut().ok_or(BAD)?;
            let block = first_block.wrapping_add(offset);
            self.model
                .code(&mut self.coder, relation as usize, block, page);
            if self.coder.failed() {
                return Err(BAD.into());
            }
            self.left -= PAGE_SIZE;
            self.hand_over(original)?;
        }
        Ok(())
    }

    fn other(&mut self, list: StreamId, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        let len = self.coder.u32(list, 0) as usize;
        if self.coder.failed() || len == 0 || len > self.left.min(self.coder.content_len()) {
            return Err(BAD.into());
        }
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        let stream = self.other.open(&mut self.coder, StreamKind::FileBytes, 1);
        let bytes = self.bytes.get_mut(start..).ok_or(BAD)?;
        self.coder.bytes(stream, bytes);
        if self.coder.failed() {
            return Err(BAD.into());
        }
        self.left -= len;
        self.hand_over(original)
    }

    /// What is ready, in whole pieces.
    fn hand_over(&mut self, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        if self.bytes.len() >= PIECE_LEN {
            let len = self.bytes.len() - self.bytes.len() % PIECE_LEN;
            original.write_front(&mut self.bytes, len)?;
        }
        Ok(())
    }
}
