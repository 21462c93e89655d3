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
    blocks: Vec<BlockPage>,
}

struct BlockPage {
    id: u8,
    key: PageKey,
    is_image: bool,
}

impl<'c> BlockPages<'c> {
    /// Of a record. A page that the record begins anew is made of zeros.
    pub fn new(cache: &'c mut PageCache, record: &Record<'_>) -> BlockPages<'c> {
        let mut blocks = Vec::with_capacity(record.layout.blocks.len());
        for block in &record.layout.blocks {
            let (key, is_image) = (PageKey::from(block), block.image.is_some());
            if !is_image && block.fork_flags & Block::WILL_INIT != 0 {
                cache.get_or_new(key).fill(0);
            }
            let id = block.id;
            blocks.push(BlockPage { id, key, is_image });
        }
        BlockPages { cache, blocks }
    }

    /// The page of a block reference, if it is known.
    pub fn page(&mut self, id: u8) -> Option<&mut PageBytes> {
        let block = self.blocks.iter().find(|block| block.id == id)?;
        match block.is_image {
            true => None,
            false => self.cache.get_mut(&block.key),
        }
    }

    /// Clears the bits of a block in the visibility map, as the server does without naming the map.
    pub fn clear_visibility(&mut self, id: u8, is_cleared: bool) {
        let found = self.blocks.iter().find(|block| block.id == id);
        if let Some(BlockPage { key, .. }) = found.filter(|_| is_cleared) {
            let map = PageKey {
                fork: visibility::FORK,
                block: visibility::map_block(key.block),
                ..*key
            };
            let (at, shift) = visibility::place(key.block);
            if let Some(byte) = self.cache.get_mut(&map).and_then(|map| map.get_mut(at)) {
                *byte &= !(visibility::VALID_BITS << shift);
            }
        }
    }
}
