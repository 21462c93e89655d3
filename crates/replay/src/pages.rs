//! The pages of a record's blocks.

use walzip_pgformat::wal::Block;

use crate::cache::{PageCache, PageKey};
use crate::page::PageBytes;
use crate::record::Record;
use crate::visibility;

/// The pages of the blocks that a record names. A block with an image has none: its page is the
/// image.
pub struct BlockPages<'c> {
    cache: &'c mut PageCache,
    blocks: &'c [Block],
}

impl<'c> BlockPages<'c> {
    /// Of a record. A page that the record begins anew is made of zeros.
    pub fn new(cache: &'c mut PageCache, record: &Record<'c>) -> BlockPages<'c> {
        let blocks = &record.layout.blocks;
        for block in blocks {
            if block.image.is_none() && block.fork_flags & Block::WILL_INIT != 0 {
                cache.get_or_new(PageKey::from(block)).fill(0);
            }
        }
        BlockPages { cache, blocks }
    }

    fn block(&self, id: u8) -> Option<&'c Block> {
        self.blocks.iter().find(|block| block.id == id)
    }

    /// The page of a block reference, if it is known.
    pub fn page(&mut self, id: u8) -> Option<&mut PageBytes> {
        let block = self.block(id)?;
        match block.image {
            Some(_) => None,
            None => self.cache.get_mut(&PageKey::from(block)),
        }
    }

    /// Clears the bits of a block in the visibility map, as the server does without naming the map.
    pub fn clear_visibility(&mut self, id: u8, is_cleared: bool) {
        if let Some(block) = self.block(id).filter(|_| is_cleared) {
            let map = PageKey {
                fork: visibility::FORK,
                block: visibility::map_block(block.number),
                ..PageKey::from(block)
            };
            let (at, shift) = visibility::place(block.number);
            if let Some(byte) = self.cache.get_mut(&map).and_then(|map| map.get_mut(at)) {
                *byte &= !(visibility::VALID_BITS << shift);
            }
        }
    }
}
