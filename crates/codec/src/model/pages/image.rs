//! Page images in records. One that the server compressed (`wal_compression`) is coded as its page,
//! if compressing that again gives the same bytes; otherwise its bytes are stored.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{Compression, Image};

use super::page::{ImageContext, PageModel};
use super::recreation::{OPAQUE, Recreation};
use crate::model::index::known_table::KnownTable;
use crate::model::relations::Relation;
use crate::model::rows::image_versions::ImageVersions;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// The state of the image model.
pub struct ImageModel {
    hole_offset: LazyStream,
    hole_len: LazyStream,
    flag: LazyStream,
    opaque_len: LazyStream,
    opaque: LazyStream,
    page: PageModel,
    recreation: Recreation,
}

impl ImageModel {
    /// For a segment of this length.
    pub fn new(segment_len: usize) -> ImageModel {
        ImageModel {
            hole_offset: LazyStream::default(),
            hole_len: LazyStream::default(),
            flag: LazyStream::default(),
            opaque_len: LazyStream::default(),
            opaque: LazyStream::default(),
            page: PageModel::default(),
            recreation: Recreation::new(segment_len),
        }
    }

    /// Codes the offset and the length of the hole.
    pub fn code_hole<C: Coder>(&mut self, coder: &mut C, image: &mut Image, has_hole: bool) {
        if has_hole {
            let stream = self.hole_offset.open(coder, StreamKind::ImageHole, 2);
            image.hole_offset = coder.u16(stream, image.hole_offset);
            let stream = self.hole_len.open(coder, StreamKind::ImageHole, 2);
            image.hole_len = coder.u16(stream, image.hole_len);
            if usize::from(image.hole_offset) + usize::from(image.hole_len) > PAGE_SIZE {
                coder.fail();
                image.hole_len = 0;
            }
        }
    }

    /// Codes the image. The decoder appends it to `record`.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        relation: &mut Relation,
        block: u32,
        image: &mut Image,
        record: &mut Vec<u8>,
        (table, versions): (Option<KnownTable<'_>>, Option<&mut ImageVersions<'_>>),
    ) {
        let context = ImageContext {
            block,
            hole_offset: usize::from(image.hole_offset),
            hole_len: usize::from(image.hole_len),
            table,
        };
        if !C::ENCODING {
            image.start = record.len();
        }
        let start = image.start;
        if image.compression == Compression::None {
            if !C::ENCODING {
                image.len = image.page_len() as u16;
                record.resize(start + image.page_len(), 0);
            }
            let page = coder.part(record, start, start + image.page_len());
            return self.page.code(coder, relation, page, context, versions);
        }
        let flag = if C::ENCODING && coder.choices().uses(OptionalModel::RecreatedImages) {
            let packed = &record[start..start + usize::from(image.len)];
            self.recreation
                .recreate(image, packed, coder.choices().proof)
        } else {
            OPAQUE
        };
        let stream = self.flag.open(coder, StreamKind::ModelFlag, 1);
        let flag = coder.u8(stream, flag);
        if flag == OPAQUE {
            return self.code_opaque(coder, image, record);
        }
        let page = self.recreation.page(image);
        if !C::ENCODING {
            page.fill(0);
        }
        self.page.code(coder, relation, page, context, versions);
        if !C::ENCODING {
            if coder.failed() || !self.recreation.compress(image, flag) {
                return coder.fail();
            }
            let packed = self.recreation.packed();
            image.len = packed.len() as u16;
            record.extend_from_slice(packed);
        }
    }

    fn code_opaque<C: Coder>(&mut self, coder: &mut C, image: &mut Image, record: &mut Vec<u8>) {
        let stream = self.opaque_len.open(coder, StreamKind::ImageHole, 2);
        image.len = coder.u16(stream, image.len);
        if !C::ENCODING {
            record.resize(image.start + usize::from(image.len), 0);
        }
        let stream = self.opaque.open(coder, StreamKind::RawImage, 1);
        let packed = coder.part(record, image.start, image.start + usize::from(image.len));
        coder.bytes(stream, packed);
    }
}
