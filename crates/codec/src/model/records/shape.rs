//! The shape of a record: what its headers say without numbers of its own.

use walzip_pgformat::Version;
use walzip_pgformat::wal::{Block, Compression, Image, RecordLayout};

use crate::model::relations::{RelationFork, Relations};

/// Main data of this length and more has its length coded with each record.
const FIXED_MAIN_LEN_MAX: usize = 64;
/// The main length of a kind whose records have different ones.
pub const VARIABLE_MAIN_LEN: u8 = 255;
const HAS_ORIGIN: u8 = 1;
const HAS_TOPLEVEL_XID: u8 = 2;
const HAS_MAIN: u8 = 4;
const MAIN_IS_LONG: u8 = 8;
/// The back link is coded with each record.
pub const PREV_EXPLICIT: u8 = 16;
/// All flags that there are.
pub const FLAGS_ALL: u8 = 31;

/// What one block reference of a kind is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeBlock {
    /// As in the record.
    pub id: u8,
    /// As in the record.
    pub fork_flags: u8,
    /// `bimg_info`, 0 where there is no image.
    pub image_flags: u8,
    /// The relation's number.
    pub relation: u32,
}

/// What all records of a kind have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Resource manager.
    pub rmid: u8,
    /// `xl_info`.
    pub info: u8,
    /// Which parts the header has.
    pub flags: u8,
    /// Bytes of the main data, or that records have different ones.
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
    /// Makes it the shape of a record, but for its blocks.
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

    /// Adds the blocks of the record.
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

    /// They differ in their blocks at most.
    pub fn header_is(&self, other: &Shape) -> bool {
        (self.rmid, self.info, self.flags, self.main_len)
            == (other.rmid, other.info, other.flags, other.main_len)
    }

    /// What [`Shape::describe_blocks`] would make of the record.
    pub fn blocks_are(&self, relations: &Relations, layout: &RecordLayout) -> bool {
        self.blocks.len() == layout.blocks.len()
            && self.blocks.iter().zip(&layout.blocks).all(|(own, block)| {
                own.id == block.id
                    && own.fork_flags == block.fork_flags
                    && own.image_flags == image_flags(block)
                    && relations.name_of(own.relation) == Some(relation_of(block))
            })
    }

    /// Sets everything in the layout that the shape says.
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
