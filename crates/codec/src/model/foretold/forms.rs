//! What an image is besides its page.

use walzip_pgformat::Version;
use walzip_pgformat::opcode::heap2;
use walzip_pgformat::rmgr_id::{HEAP2, XLOG};
use walzip_pgformat::wal::{Block, Compression, Image, RecordLayout};

use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// `XLOG_FPI_FOR_HINT`
const FPI_FOR_HINT: u8 = 0xA0;

/// The record has an image because hints changed.
pub fn is_hint(layout: &RecordLayout) -> bool {
    layout.header.rmid == XLOG && layout.header.info & 0xF0 == FPI_FOR_HINT
}

/// The page gets no new position where hints are not logged.
pub fn keeps_position(layout: &RecordLayout, block: &Block) -> bool {
    let header = &layout.header;
    header.rmid == HEAP2 && header.info & 0x70 == heap2::VISIBLE && block.id == 1
}

/// Images of what records are likely to have the same form: the resource manager, the info bits
/// and the id of the block reference.
pub type FormKey = (u8, u8, u8);

/// The form of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// `bimg_info`
    pub flags: u8,
    /// What compressed it ([`crate::model::pages::recreation`]); 0 where nothing did.
    pub compressor: u8,
    /// The record's own data is that of the block, though it has an image.
    pub has_data: bool,
}

impl Form {
    /// The key of the form of a block's image.
    pub fn key(layout: &RecordLayout, block: &Block) -> FormKey {
        (layout.header.rmid, layout.header.info, block.id)
    }

    /// Codes a form that is not the one which was expected.
    pub fn code<C: Coder>(&mut self, coder: &mut C, stream: &mut LazyStream) {
        let stream = stream.open(coder, StreamKind::ForetoldForm, 1);
        self.flags = coder.u8(stream, self.flags);
        self.compressor = coder.u8(stream, self.compressor);
        self.has_data = coder.u8(stream, self.has_data.into()) != 0;
    }

    /// An image of this form, as yet without its length.
    pub fn image(self, version: &Version, hole: (usize, usize)) -> Image {
        Image {
            len: 0,
            hole_offset: hole.0 as u16,
            hole_len: hole.1 as u16,
            flags: self.flags,
            compression: Compression::from_flags(self.flags, version.image_flags),
            start: 0,
        }
    }
}
