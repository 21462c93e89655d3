//! Codes records in order. The other files of this folder code their parts.

use walzip_pgformat::wal::{Compression, IMAGE_HAS_HOLE, RecordLayout, SegmentHeader};
use walzip_pgformat::{Lsn, Version};

use super::block_data::Context;
use super::heap_fields::{is_update, new_line_pointer_at, update_old_line_pointer};
use super::heap_rows::HeapRecord;
use super::kind::Kinds;
use super::xid::Xids;
use crate::model::foretold::{History, is_leaf_insertion};
use crate::model::index::gin::extracted_tuples::ExtractedTuples;
use crate::model::index::known_rows::KnownRows;
use crate::model::pages::image::ImageModel;
use crate::model::relations::Relations;
use crate::model::rows::change::ChangeScratch;
use crate::model::rows::image_versions::{ImageVersions, KnownVersions};
use crate::model::rows::recent::RecentRows;
use crate::model::rows::versions::RowVersions;
use crate::optional_model::OptionalModel;
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// The state after the records coded so far.
pub struct Model {
    version: &'static Version,
    xids: Xids,
    kinds: Kinds,
    relations: Relations,
    images: ImageModel,
    prev: u64,
    prev_explicit: LazyStream,
    origin: LazyStream,
    toplevel_xid: LazyStream,
    main: Vec<u8>,
    rows: RecentRows,
    versions: RowVersions,
    change_scratch: ChangeScratch,
    extracted: ExtractedTuples,
    /// The numbers of the relations whose heap tuples are collected, in the order of the first one
    /// of each (encoder only).
    with_bodies: Vec<u32>,
    len_max: usize,
}

impl Model {
    /// The state at the start of a segment.
    pub fn new(header: &SegmentHeader, segment_len: usize) -> Model {
        Model {
            version: header.version,
            xids: Xids::default(),
            kinds: Kinds::new(),
            relations: Relations::default(),
            images: ImageModel::new(segment_len),
            prev: 0,
            prev_explicit: LazyStream::default(),
            origin: LazyStream::default(),
            toplevel_xid: LazyStream::default(),
            main: Vec::new(),
            rows: RecentRows::default(),
            versions: RowVersions::new(segment_len),
            change_scratch: ChangeScratch::default(),
            extracted: ExtractedTuples::new(segment_len),
            with_bodies: Vec::new(),
            len_max: segment_len,
        }
    }

    /// Codes a record. The encoder passes its bytes in `record` and its header fields in `layout`.
    /// The decoder fills both, unless the coder fails. The past is what the WAL before has left,
    /// if that is known.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
        past: Option<&History>,
    ) {
        if self.try_code(coder, layout, record, past).is_none() {
            coder.fail();
        }
    }

    /// The record began at `lsn`: that is the back link of the next one.
    pub fn end_record(&mut self, lsn: Lsn) {
        self.prev = lsn.0;
    }

    /// Codes the collected heap tuples. The encoder calls it after the last record.
    pub fn finish(&mut self, coder: &mut StreamWriter) {
        for number in std::mem::take(&mut self.with_bodies) {
            if let Some(relation) = self.relations.get_mut(number) {
                relation.heap.finish(coder, None);
            }
        }
    }

    fn try_code<C: Coder>(
        &mut self,
        coder: &mut C,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
        past: Option<&History>,
    ) -> Option<()> {
        layout.header.xid = self.xids.code(coder, layout.header.xid);
        let (number, prev_explicit) = self.kinds.code(
            coder,
            self.version,
            &mut self.relations,
            self.xids.context()?,
            layout,
            layout.header.prev == self.prev,
        )?;
        if prev_explicit {
            let stream = self.prev_explicit.open(coder, StreamKind::PrevExplicit, 8);
            layout.header.prev = coder.u64(stream, layout.header.prev);
        } else if !C::ENCODING {
            layout.header.prev = self.prev;
        }
        // It is looked for with the tuple.
        let leaf_of =
            past.filter(|_| coder.format().has_leaf_blocks() && is_leaf_insertion(layout));
        self.code_references(coder, number, layout, leaf_of.is_some())?;
        self.code_main(coder, number, layout, record, past)?;
        if coder.failed() {
            return None;
        }
        self.code_data(coder, number, layout, record, past)?;
        if let Some(past) = leaf_of {
            self.code_leaf_block(coder, number, layout, record, past)?;
        }
        if !C::ENCODING {
            layout.main_start = record.len();
            record.extend_from_slice(&self.main);
            layout.write_headers(record);
        }
        Some(())
    }

    /// Codes the fields of the headers that differ within a kind.
    fn code_references<C: Coder>(
        &mut self,
        coder: &mut C,
        number: usize,
        layout: &mut RecordLayout,
        is_block_later: bool,
    ) -> Option<()> {
        let kind = self.kinds.get_mut(number)?;
        if let Some(origin) = &mut layout.origin {
            let stream = self.origin.open(coder, StreamKind::Origin, 2);
            *origin = coder.u16(stream, *origin);
        }
        if let Some(xid) = &mut layout.toplevel_xid {
            let stream = self.toplevel_xid.open(coder, StreamKind::ToplevelXid, 4);
            *xid = coder.u32(stream, *xid);
        }
        for (index, block) in layout.blocks.iter_mut().enumerate() {
            let relation = self
                .relations
                .get_mut(kind.shape.blocks.get(index)?.relation)?;
            if !is_block_later {
                block.number = relation.block_numbers.code(coder, block.number);
            }
            if block.fork_flags & walzip_pgformat::wal::Block::HAS_DATA != 0 {
                let len = &mut kind.block_streams.get_mut(index)?.len;
                let stream = len.open(coder, StreamKind::BlockDataLen, 2);
                block.data_len = coder.u16(stream, block.data_len);
            }
            if let Some(image) = &mut block.image {
                self.images
                    .code_hole(coder, image, image.flags & IMAGE_HAS_HOLE != 0);
                if image.compression == Compression::None && image.page_len() > u16::MAX.into() {
                    return None;
                }
            }
        }
        kind.code_main_len(coder, layout);
        Some(())
    }

    /// Codes the main data. It comes before block data, which is read according to it.
    fn code_main<C: Coder>(
        &mut self,
        coder: &mut C,
        number: usize,
        layout: &RecordLayout,
        record: &[u8],
        past: Option<&History>,
    ) -> Option<()> {
        self.main.clear();
        if C::ENCODING {
            let end = layout.main_start + layout.main_len;
            self.main
                .extend_from_slice(record.get(layout.main_start..end)?);
        } else {
            // Bounds what a hostile length allocates: streams contain nearly all of main data.
            let most = coder
                .content_len()
                .saturating_mul(4)
                .saturating_add(1 << 16);
            if layout.main_len > self.len_max.min(most) {
                return None;
            }
            self.main.resize(layout.main_len, 0);
        }
        let kind = self.kinds.get_mut(number)?;
        let expected = past.and_then(|past| {
            let at = new_line_pointer_at(kind.shape.rmid, kind.shape.info)?;
            Some((at, past.new_line_pointer(layout.blocks.first()?)?))
        });
        kind.main.code(coder, &mut self.main, expected);
        Some(())
    }

    fn code_data<C: Coder>(
        &mut self,
        coder: &mut C,
        number: usize,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
        past: Option<&History>,
    ) -> Option<()> {
        let kind = self.kinds.get_mut(number)?;
        let old_row = past
            .filter(|_| is_update(kind.shape.rmid, kind.shape.info))
            .and_then(|past| past.old_row(layout, update_old_line_pointer(&self.main)));
        if !C::ENCODING {
            record.clear();
            record.resize(layout.headers_len(), 0);
        }
        for index in 0..layout.blocks.len() {
            self.code_image(coder, (number, index), layout, record, past)?;
            self.code_block_data(coder, (number, index), layout, record, (past, old_row))?;
        }
        Some(())
    }

    /// Codes the image of a block, if it has one.
    fn code_image<C: Coder>(
        &mut self,
        coder: &mut C,
        (number, index): (usize, usize),
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
        past: Option<&History>,
    ) -> Option<()> {
        let kind = self.kinds.get_mut(number)?;
        let number = kind.shape.blocks.get(index)?.relation;
        let last_block = layout.blocks.last().map_or(0, |block| block.number);
        let block = layout.blocks.get_mut(index)?;
        let Some(image) = &mut block.image else {
            return Some(());
        };
        let relation = self.relations.get_mut(number)?;
        let table = past.and_then(|past| past.table_of(block.locator));
        // What is told from pages has the rows on them anyway.
        let remembers = past.is_none() && coder.format().has_image_rows();
        let mut versions = remembers.then_some(ImageVersions {
            known: KnownVersions {
                relation: number,
                rows: &self.rows,
                versions: &mut self.versions,
                of_records: false,
            },
            scratch: &mut self.change_scratch,
        });
        let known = (table, versions.as_mut());
        self.images
            .code(coder, relation, block.number, image, record, known);
        if C::ENCODING && relation.heap.take_has_new_bodies() {
            self.with_bodies.push(number);
        }
        if coder.failed() {
            return None;
        }
        if remembers && index == 0 && block.data_len == 0 {
            let record = HeapRecord {
                rmid: kind.shape.rmid,
                info: kind.shape.info,
                main: &self.main,
                data: &[],
                relation: number,
                block: block.number,
                last_block,
            };
            let newest = &mut self.xids.transaction()?.newest_row;
            record.add_row_of_image(&mut self.rows, &self.versions, newest);
        }
        Some(())
    }

    /// Codes the data of a block, if it has some.
    fn code_block_data<C: Coder>(
        &mut self,
        coder: &mut C,
        (number, index): (usize, usize),
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
        (past, old_row): (Option<&History>, Option<&[u8]>),
    ) -> Option<()> {
        let kind = self.kinds.get_mut(number)?;
        let last_block = layout.blocks.last().map_or(0, |block| block.number);
        let block = layout.blocks.get_mut(index)?;
        if block.data_len == 0 {
            return Some(());
        }
        let shape_block = kind.shape.blocks.get(index)?;
        let relation = self.relations.get_mut(shape_block.relation)?;
        if !C::ENCODING {
            block.data_start = record.len();
            record.resize(block.data_start + usize::from(block.data_len), 0);
        }
        let end = block.data_start + usize::from(block.data_len);
        let data = coder.part(record, block.data_start, end);
        let model = *kind.block_models.get(index)?;
        let streams = kind.block_streams.get_mut(index)?;
        let transaction = self.xids.transaction()?;
        self.change_scratch.recent.amount = transaction.amount;
        let mut context = Context {
            main: &self.main,
            last_block,
            old_row,
            known: KnownRows {
                relation: shape_block.relation,
                rows: &self.rows,
                versions: &self.versions,
                newest: transaction.newest_row,
                table: past.and_then(|past| past.table_of(block.locator)),
                extracted: &mut self.extracted,
            },
            scratch: &mut self.change_scratch,
        };
        model.code(coder, streams, relation, &mut context, data);
        transaction.amount = self.change_scratch.recent.amount;
        if index == 0 && !coder.failed() {
            let record = HeapRecord {
                rmid: kind.shape.rmid,
                info: kind.shape.info,
                main: &self.main,
                data,
                relation: shape_block.relation,
                block: block.number,
                last_block,
            };
            record.add_rows(
                &mut self.rows,
                &mut self.versions,
                &mut transaction.newest_row,
            );
        }
        if C::ENCODING && relation.heap.take_has_new_bodies() {
            self.with_bodies.push(shape_block.relation);
        }
        (!coder.failed()).then_some(())
    }

    /// Codes the block of the leaf page that a tuple was put into.
    fn code_leaf_block<C: Coder>(
        &mut self,
        coder: &mut C,
        number: usize,
        layout: &mut RecordLayout,
        record: &[u8],
        past: &History,
    ) -> Option<()> {
        let kind = self.kinds.get_mut(number)?;
        let relation = kind.shape.blocks.first()?.relation;
        let relation = self.relations.get_mut(relation)?;
        let is_wanted = !C::ENCODING || coder.choices().uses(OptionalModel::LeafBlocks);
        let expected = match is_wanted {
            true => past.expected_leaf(layout, record),
            false => None,
        };
        let block = layout.blocks.first_mut()?;
        let numbers = &mut relation.block_numbers;
        block.number = numbers.code_expected(coder, expected, block.number);
        (!coder.failed()).then_some(())
    }
}
