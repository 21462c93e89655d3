//! A record as replay sees it, and the pages of its blocks.

use walzip_pgformat::bytes::{read_u16, read_u32};
use walzip_pgformat::wal::{Block, RecordLayout};

use crate::rules::Rules;

/// A record, read into its layout.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// What it is replayed by.
    pub rules: Rules,
    /// Its headers, and where its parts lie.
    pub layout: &'r RecordLayout,
    /// Its bytes.
    pub bytes: &'r [u8],
}

impl<'r> Record<'r> {
    /// The main data.
    pub fn main(&self) -> &'r [u8] {
        let start = self.layout.main_start;
        self.bytes
            .get(start..start + self.layout.main_len)
            .unwrap_or_default()
    }

    /// A number in the main data.
    pub fn main_u16(&self, at: usize) -> Option<u16> {
        read_u16(self.main(), at)
    }

    /// A number in the main data.
    pub fn main_u32(&self, at: usize) -> Option<u32> {
        read_u32(self.main(), at)
    }

    /// A byte of the main data.
    pub fn main_u8(&self, at: usize) -> Option<u8> {
        self.main().get(at).copied()
    }

    /// The transaction.
    pub fn xid(&self) -> u32 {
        self.layout.header.xid
    }

    /// The resource manager's part of the info bits, without its flags.
    pub fn opcode(&self, mask: u8) -> u8 {
        self.layout.header.info & mask
    }

    /// The block reference with an id.
    pub fn block(&self, id: u8) -> Option<&'r Block> {
        self.layout.blocks.iter().find(|block| block.id == id)
    }

    /// The data of the block reference with an id, empty if it has none.
    pub fn data(&self, id: u8) -> &'r [u8] {
        self.block(id).map_or(&[], |block| self.data_of(block))
    }

    /// The data of a block reference.
    pub fn data_of(&self, block: &Block) -> &'r [u8] {
        let end = block.data_start + usize::from(block.data_len);
        self.bytes.get(block.data_start..end).unwrap_or_default()
    }
}
