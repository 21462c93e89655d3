//! The shape of a record: the header fields that all records of a kind have in common.

use walzip_pgformat::Version;
use walzip_pgformat::wal::{Block, Compression, Image, RecordLayout};

use crate::model::relations::{RelationFork, Relations};

/// The length of main data of at least this length is coded with each record.
const FIXED_MAIN_LEN_MAX: usize = 64;
/// The `main_len` of such records.
pub const VARIABLE_MAIN_LEN: u8 = 255;
const HAS_ORIGIN: u8 = 1;
const HAS_TOPLEVEL_XID: u8 = 2;
const HAS_MAIN: u8 = 4;
const MAIN_IS_LONG: u8 = 8;
/// The back link is not the position of the record before, and is coded with each record.
pub const PREV_EXPLICIT: u8 = 16;
/// All flags.
pub const FLAGS_ALL: u8 = 31;

/// The part of a block reference that all records of a kind have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeBlock {
    /// The reference's id, as in the record.
    pub id: u8,
    /// `fork_flags`, as in the record.
    pub fork_flags: u8,
    /// `bimg_info`, 0 if there is no image.
    pub image_flags: u8,
    /// The relation's number.
    pub relation: u32,
}

/// The header fields that all records of a kind have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Resource manager.
    pub rmid: u8,
    /// `xl_info`.
    pub info: u8,
    /// The optional parts of the headers.
    pub flags: u8,
    /// Length of the main data in bytes, or [`VARIABLE_MAIN_LEN`].
    pub main_len: u8,
    /// The block references.
    pub blocks: Vec<ShapeBlock>,
}

fn image_flags(block: &Block) -> u8 {
    block.image.map_or(0, |image| image.flags)
}

fn relation_of(block: &Block) -> RelationFork {
    RelationFork {
        locator: block.locator,
        fork: block.fork(),
    }
}

impl Shape {
    /// Sets all but the blocks to the shape of a record.
    pub fn describe_header(&mut self, layout: &RecordLayout, prev_follows: bool) {
        self.rmid = layout.header.rmid;
        self.info = layout.header.info;
        self.flags = layout.origin.map_or(0, |_| HAS_ORIGIN)
            | layout.toplevel_xid.map_or(0, |_| HAS_TOPLEVEL_XID)
            | layout
                .main_header
                .map_or(0, |long| if long { MAIN_IS_LONG } else { 0 } | HAS_MAIN)
            | if prev_follows { 0 } else { PREV_EXPLICIT };
        self.main_len = match layout.main_len {
            len if len < FIXED_MAIN_LEN_MAX => len as u8,
            _ => VARIABLE_MAIN_LEN,
        };
    }

    /// Sets the blocks to those of a record.
    pub fn describe_blocks(&mut self, relations: &mut Relations, layout: &RecordLayout) {
        self.blocks.clear();
        self.blocks
            .extend(layout.blocks.iter().map(|block| ShapeBlock {
                id: block.id,
                fork_flags: block.fork_flags,
                image_flags: image_flags(block),
                relation: relations.number_of(relation_of(block)),
            }));
    }

    /// Whether two shapes are equal except for their blocks.
    pub fn header_is(&self, other: &Shape) -> bool {
        (self.rmid, self.info, self.flags, self.main_len)
            == (other.rmid, other.info, other.flags, other.main_len)
    }

    /// Whether the blocks are those of a record.
    pub fn blocks_are(&self, relations: &Relations, layout: &RecordLayout) -> bool {
        self.blocks.len() == layout.blocks.len()
            && self.blocks.iter().zip(&layout.blocks).all(|(own, block)| {
                own.id == block.id
                    && own.fork_flags == block.fork_flags
                    && own.image_flags == image_flags(block)
                    && relations.name_of(own.relation) == Some(relation_of(block))
            })
    }

    /// Sets the fields of the layout that the shape contains. Decoder only.
    pub fn prepare(
        &self,
        layout: &mut RecordLayout,
        relations: &mut Relations,
        version: &Version,
    ) -> Option<()> {
        layout.header.rmid = self.rmid;
        layout.header.info = self.info;
        layout.origin = (self.flags & HAS_ORIGIN != 0).then_some(0);
        layout.toplevel_xid = (self.flags & HAS_TOPLEVEL_XID != 0).then_some(0);
        layout.main_header = (self.flags & HAS_MAIN != 0).then_some(self.flags & MAIN_IS_LONG != 0);
        layout.main_len = match self.main_len {
            VARIABLE_MAIN_LEN => 0,
            len => usize::from(len),
        };
        layout.blocks.clear();
        for block in &self.blocks {
            let relation = relations.get_mut(block.relation)?;
            let image = (block.fork_flags & Block::HAS_IMAGE != 0).then_some(Image {
                len: 0,
                hole_offset: 0,
                hole_len: 0,
                flags: block.image_flags,
                compression: Compression::from_flags(block.image_flags, version.image_flags),
                start: 0,
            });
            layout.blocks.push(Block {
                id: block.id,
                fork_flags: block.fork_flags,
                data_len: 0,
                data_start: 0,
                image,
                locator: relation.name.locator,
                number: 0,
            });
        }
        Some(())
    }
}
