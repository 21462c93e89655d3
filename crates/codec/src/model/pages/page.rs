//! Page images (storage/bufpage.h), uncompressed and without their holes.
//!
//! ```text
//! 0 pd_lsn u32 u32   8 pd_checksum u16   10 pd_flags u16   12 pd_lower u16   14 pd_upper u16
//! 16 pd_special u16   18 pd_pagesize_version u16   20 pd_prune_xid u32   24 line pointers
//! ```

use walzip_pgformat::PAGE_SIZE;

use super::items::{Items, PAGE_HEADER_LEN, PointerStreams};
use crate::model::heap::body::TUPLE_HEADER_LEN;
use crate::model::index::gin::entry_fields::EntryFields;
use crate::model::index::item_spans::ItemSpans;
use crate::model::index::known_table::KnownTable;
use crate::model::index::page_tuples::TupleFields;
use crate::model::index::tuple::{Place, tuple_len};
use crate::model::relations::Relation;
use crate::model::rows::image_versions::ImageVersions;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Choices, Coder, LazyStream, get_u16, get_u32};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// Length of the special space of B-tree, hash and GiST pages. Its last two bytes tell which.
const BTREE_SPECIAL_LEN: usize = 16;
/// `MAX_BT_CYCLE_ID`: the page ids of hash and GiST are above it.
const BTREE_CYCLE_ID_MAX: u16 = 0xFF7F;
/// Length of the special space of GIN, BRIN, SP-GiST and sequence pages.
pub const GIN_SPECIAL_LEN: usize = 8;
/// `GIN_DATA`, `GIN_LEAF`, `GIN_LIST`, `GIN_COMPRESSED`: flags in the last two bytes.
const GIN_DATA: u16 = 1;
const GIN_LEAF: u16 = 1 << 1;
const GIN_LIST: u16 = 1 << 4;
const GIN_COMPRESSED: u16 = 1 << 7;
/// All flags of GIN.
pub const GIN_FLAGS_ALL: u16 = 0xFF;
/// Offset of the posting lists on a leaf of a posting tree, after the page's right bound.
const GIN_SEGMENTS_AT: usize = 32;

/// How a page is coded. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// As bytes.
    Raw = 0,
    /// Heap tuples.
    Heap = 1,
    /// Index tuples of a B-tree. The first one may be the high key.
    Btree = 2,
    /// Items of any form.
    Items = 3,
    /// Index tuples of other indexes.
    Tuples = 4,
    /// GIN entries.
    GinEntries = 5,
    /// GIN posting lists, which PostgreSQL calls segments, instead of line pointers and items.
    GinSegments = 6,
}

impl Class {
    const ALL: [Class; 7] = [
        Class::Raw,
        Class::Heap,
        Class::Btree,
        Class::Items,
        Class::Tuples,
        Class::GinEntries,
        Class::GinSegments,
    ];

    /// The class that replaces this one if the encoder leaves a model out.
    fn used(self, choices: Choices) -> Class {
        let gin = choices.uses(OptionalModel::Gin);
        match self {
            _ if !choices.uses(OptionalModel::Pages) => Class::Raw,
            Class::GinEntries if !gin => Class::Items,
            Class::GinSegments if !gin => Class::Raw,
            class => class,
        }
    }

    fn from_id(id: u8) -> Option<Class> {
        Class::ALL.get(usize::from(id)).copied()
    }
}

/// The streams of the pages of one class.
#[derive(Debug, Default)]
struct ClassStreams {
    lsn: LazyStream,
    checksum: LazyStream,
    flags: LazyStream,
    lower: LazyStream,
    special: LazyStream,
    version: LazyStream,
    prune_xid: LazyStream,
    special_rows: RowsByLen,
    bound: LazyStream,
    pointers: PointerStreams,
}

/// The state of the page model.
#[derive(Debug, Default)]
pub struct PageModel {
    class: LazyStream,
    classes: [ClassStreams; Class::ALL.len()],
    items: Items,
    tuples: TupleFields,
    entries: EntryFields,
}

/// What is known of an image besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct ImageContext<'h> {
    /// Block number of the page.
    pub block: u32,
    /// Offset of the hole in the page; 0 if there is none.
    pub hole_offset: usize,
    /// Length of the hole, in bytes.
    pub hole_len: usize,
    /// The table whose rows its index tuples point to, if that is known.
    pub table: Option<KnownTable<'h>>,
}

/// Offsets of the parts of a page.
#[derive(Clone, Copy, Debug)]
struct PageShape {
    lower: usize,
    /// Offset of the special space in the image, which has no hole.
    special_at: usize,
}

impl PageModel {
    /// Codes an uncompressed image.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        relation: &mut Relation,
        page: &mut [u8],
        image: ImageContext<'_>,
        versions: Option<&mut ImageVersions<'_>>,
    ) {
        let class = if C::ENCODING {
            let class = self.class_of(relation, page, image).unwrap_or(Class::Raw);
            class.used(coder.choices())
        } else {
            Class::Raw
        };
        let stream = self.class.open(coder, StreamKind::ImageClass, 1);
        let Some(class) = Class::from_id(coder.u8(stream, class as u8)) else {
            return coder.fail();
        };
        if class == Class::Raw {
            let stream = relation.raw_pages.open(coder, StreamKind::RawPage, 1);
            return coder.bytes(stream, page);
        }
        let streams = &mut self.classes[class as usize];
        let Some(shape) = streams.code_header(coder, page, image) else {
            return coder.fail();
        };
        if class == Class::GinSegments {
            let stream = streams.bound.open(coder, StreamKind::PageField, 8);
            let bound = coder.part(page, PAGE_HEADER_LEN, GIN_SEGMENTS_AT);
            coder.bytes(stream, bound);
            let segments = coder.part(page, GIN_SEGMENTS_AT, shape.special_at);
            return relation.gin_pages.segments(coder, segments);
        }
        let count = (shape.lower - PAGE_HEADER_LEN) / 4;
        self.items
            .code_pointers(coder, &mut streams.pointers, count);
        self.code_items(coder, class, relation, page, (image, versions), shape);
        self.items.code_places(
            coder,
            &mut self.classes[class as usize].pointers,
            page,
            image.hole_len,
            shape.special_at,
        );
    }

    fn code_items<C: Coder>(
        &mut self,
        coder: &mut C,
        class: Class,
        relation: &mut Relation,
        page: &mut [u8],
        (image, mut versions): (ImageContext<'_>, Option<&mut ImageVersions<'_>>),
        shape: PageShape,
    ) {
        match class {
            Class::Btree | Class::Tuples => {
                return self.code_tuples(coder, class, relation, page, image, shape);
            }
            Class::GinEntries => {
                let (entries, gin) = (&mut self.entries, &mut relation.gin_pages);
                let model = |coder: &mut C, bytes: &mut [u8], spans: &mut ItemSpans| {
                    gin.page_entries(coder, bytes, spans, entries);
                };
                return self
                    .items
                    .code_together(coder, page, image.hole_len, 0, model);
            }
            _ => {}
        }
        let len = matches!(class, Class::Heap | Class::Items)
            .then(|| relation.item_len.open(coder, StreamKind::TupleLen, 2));
        if class == Class::Heap
            && let Some(ImageVersions { known, .. }) = &mut versions
        {
            known.begin(image.block, self.items.pointers());
        }
        for item in 0..self.items.len() {
            if coder.failed() {
                return;
            }
            let tid = (image.block, self.items.number(item));
            let (relation, versions) = (&mut *relation, versions.as_deref_mut());
            let model = |coder: &mut C, bytes: &mut [u8]| match class {
                Class::Heap => relation.heap.page_tuple(coder, bytes, tid, versions),
                _ => {
                    relation.items.code(coder, StreamKind::ItemBody, bytes);
                    bytes.len()
                }
            };
            self.items
                .code_item(coder, page, image.hole_len, item, len, model);
        }
    }

    fn code_tuples<C: Coder>(
        &mut self,
        coder: &mut C,
        class: Class,
        relation: &mut Relation,
        page: &mut [u8],
        image: ImageContext<'_>,
        shape: PageShape,
    ) {
        let special_at = shape.special_at;
        let is_leaf = class != Class::Btree || get_u32(page, special_at + 8) == 0;
        let place = if is_leaf { Place::Leaf } else { Place::Inner };
        let has_high_key = class == Class::Btree && get_u32(page, special_at + 4) != 0;
        // A high key is the first item. It is coded last: it is an upper bound of the others.
        let first = usize::from(has_high_key && self.items.len() > 0);
        let (tuples, index) = (&mut self.tuples, &mut relation.index);
        let model = |coder: &mut C, bytes: &mut [u8], spans: &mut ItemSpans| {
            index.page_tuples(coder, bytes, spans, tuples, place, image.table);
        };
        self.items
            .code_together(coder, page, image.hole_len, first, model);
    }

    /// The encoder's choice of the class, and the page's items. `None` if it is no valid page.
    fn class_of(
        &mut self,
        relation: &mut Relation,
        page: &[u8],
        image: ImageContext<'_>,
    ) -> Option<Class> {
        let lower = usize::from(get_u16(page, 12));
        let upper = usize::from(get_u16(page, 14));
        let special = usize::from(get_u16(page, 16));
        let is_page = PAGE_HEADER_LEN <= lower
            && lower <= upper
            && upper <= special
            && special <= PAGE_SIZE
            && upper - lower == image.hole_len
            && (image.hole_len == 0 || image.hole_offset == lower)
            && page.len() == PAGE_SIZE - image.hole_len;
        if !is_page {
            return None;
        }
        let last = get_u16(page, page.len() - 2);
        let special_len = PAGE_SIZE - special;
        let gin_segments = GIN_DATA | GIN_LEAF | GIN_COMPRESSED;
        if special_len == GIN_SPECIAL_LEN && last & GIN_DATA != 0 && last <= GIN_FLAGS_ALL {
            let fits = last & gin_segments == gin_segments
                && upper == special
                && relation
                    .gin_pages
                    .are_segments(page.get(GIN_SEGMENTS_AT..lower)?);
            return fits.then_some(Class::GinSegments);
        }
        if !(lower - PAGE_HEADER_LEN).is_multiple_of(4) {
            return None;
        }
        self.items.read(page, lower, upper, special)?;
        let all = |is_valid: fn(&[u8]) -> bool| self.items.all(page, image.hole_len, is_valid);
        Some(match special_len {
            0 if all(|item| item.len() > TUPLE_HEADER_LEN) => Class::Heap,
            BTREE_SPECIAL_LEN if all(|item| tuple_len(item) == Some(item.len())) => {
                if last <= BTREE_CYCLE_ID_MAX {
                    Class::Btree
                } else {
                    Class::Tuples
                }
            }
            GIN_SPECIAL_LEN if last & GIN_LIST != 0 && last <= GIN_FLAGS_ALL => {
                if all(|item| tuple_len(item) == Some(item.len())) {
                    Class::Tuples
                } else {
                    Class::Items
                }
            }
            GIN_SPECIAL_LEN if last <= GIN_FLAGS_ALL => Class::GinEntries,
            _ => Class::Items,
        })
    }
}

impl ClassStreams {
    /// Codes the page header and the special space.
    fn code_header<C: Coder>(
        &mut self,
        coder: &mut C,
        page: &mut [u8],
        image: ImageContext<'_>,
    ) -> Option<PageShape> {
        let stream = self.lsn.open(coder, StreamKind::PageField, 8);
        let lsn = u64::from(get_u32(page, 0)) << 32 | u64::from(get_u32(page, 4));
        let lsn = coder.u64(stream, lsn);
        coder.put(page, 0, ((lsn >> 32) as u32).to_le_bytes());
        coder.put(page, 4, (lsn as u32).to_le_bytes());
        let stream = self.checksum.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 8);
        let stream = self.flags.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 10);
        let lower = if image.hole_len == 0 {
            let stream = self.lower.open(coder, StreamKind::PageField, 2);
            usize::from(coder.u16_at(stream, page, 12))
        } else {
            image.hole_offset
        };
        coder.put(page, 12, (lower as u16).to_le_bytes());
        coder.put(page, 14, ((lower + image.hole_len) as u16).to_le_bytes());
        let stream = self.special.open(coder, StreamKind::PageField, 2);
        let special = usize::from(coder.u16_at(stream, page, 16));
        let stream = self.version.open(coder, StreamKind::PageField, 2);
        coder.u16_at(stream, page, 18);
        let stream = self.prune_xid.open(coder, StreamKind::PageField, 4);
        coder.u32_at(stream, page, 20);
        let fits = lower >= PAGE_HEADER_LEN
            && lower + image.hole_len <= special
            && special <= PAGE_SIZE
            && page.len() == PAGE_SIZE - image.hole_len;
        if !fits {
            return None;
        }
        let special_at = special - image.hole_len;
        let end = page.len();
        let bytes = coder.part(page, special_at, end);
        self.special_rows
            .code(coder, StreamKind::PageSpecial, bytes);
        Some(PageShape { lower, special_at })
    }
}
