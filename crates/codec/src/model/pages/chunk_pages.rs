//! Whole pages of relations: as an image without its hole, with what the hole has and the
//! checksum besides.

use std::sync::Arc;

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::page_checksum::{page_checksum, stored_checksum};

use super::items::PAGE_HEADER_LEN;
use super::known_relations::KnownRelations;
use super::page::{ImageContext, PageModel};
use super::stale::StaleStreams;
use super::stale_copies::Places;
use crate::model::index::tuple::IndexStreams;
use crate::model::relations::{Relation, RelationFork};
use crate::model::table::entries::Entries;
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

/// Form of a page: all its bytes are zero.
const ZEROS: u8 = 0;
/// Form of a page whose hole is zeros.
const CLEAN: u8 = 1;
/// Form of a page whose hole has stale bytes.
const STALE: u8 = 2;
/// Form of a page without a hole.
const FULL: u8 = 3;
/// The bits of the form.
const FORM: u8 = 3;
/// Flag: the checksum is the one that PostgreSQL computes.
const CHECKSUM_FITS: u8 = 4;

/// A relation of a chunk.
#[derive(Debug)]
struct ChunkRelation {
    relation: Relation,
    form: LazyStream,
    hole_offset: LazyStream,
    hole_len: LazyStream,
    stale: StaleStreams,
}

/// The pages of a chunk.
#[derive(Debug, Default)]
pub struct ChunkPages {
    relations: Vec<ChunkRelation>,
    /// Numbers of relations that have bodies of heap tuples, in the order of their first one.
    with_bodies: Vec<usize>,
    pages: PageModel,
    image: Image,
    places: Places,
    /// The entries of the index that the pages are of.
    entries: Option<Arc<Entries>>,
}

/// A page without its hole.
#[derive(Debug)]
struct Image(Box<[u8; PAGE_SIZE]>);

impl Default for Image {
    fn default() -> Self {
        Image(Box::new([0; PAGE_SIZE]))
    }
}

/// Where the hole of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    lower: usize,
    upper: usize,
}

impl Hole {
    /// That of a page, if it has one.
    fn of(page: &[u8; PAGE_SIZE]) -> Option<Hole> {
        let lower = usize::from(get_u16(page, 12));
        let upper = usize::from(get_u16(page, 14));
        let fits = PAGE_HEADER_LEN <= lower && lower < upper && upper <= PAGE_SIZE;
        fits.then_some(Hole { lower, upper })
    }
}

impl ChunkPages {
    /// Pages of an index of which the entries are known.
    pub fn of_entries(entries: Arc<Entries>) -> ChunkPages {
        ChunkPages {
            entries: Some(entries),
            ..ChunkPages::default()
        }
    }

    /// Codes a page of the relation with this number, which is at most the number of those that
    /// had pages before, and the number of the page. The decoder's page is zeros.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        number: usize,
        block: u32,
        page: &mut [u8; PAGE_SIZE],
    ) {
        if number == self.relations.len() {
            self.relations
                .push(ChunkRelation::new(self.entries.as_ref()));
        }
        let Some(relation) = self.relations.get_mut(number) else {
            return coder.fail();
        };
        let Some(form) = relation.code_form(coder, block, page) else {
            return;
        };
        let Some(hole) = relation.code_hole(coder, form, page) else {
            return coder.fail();
        };
        self.image.code(
            coder,
            &mut self.pages,
            &mut relation.relation,
            hole,
            (form, block),
            page,
        );
        if form & FORM == STALE {
            relation
                .stale
                .code(coder, &mut self.places, page, hole.lower, hole.upper);
        }
        if form & CHECKSUM_FITS != 0 && !C::ENCODING {
            let checksum = page_checksum(page, block);
            coder.put(page, 8, checksum.to_le_bytes());
        }
        if C::ENCODING && relation.relation.heap.take_has_new_bodies() {
            self.with_bodies.push(number);
        }
    }

    /// Codes the collected heap tuples. The encoder calls it after the last page, with what is
    /// known of the relation of each number.
    pub fn finish(&mut self, coder: &mut StreamWriter, names: &[u32], known: &mut KnownRelations) {
        for number in std::mem::take(&mut self.with_bodies) {
            if let (Some(relation), Some(&name)) =
                (self.relations.get_mut(number), names.get(number))
            {
                let attributes = known.get(name);
                let found = relation.relation.heap.finish(coder, attributes);
                known.keep(name, found);
            }
        }
    }
}

impl ChunkRelation {
    fn new(entries: Option<&Arc<Entries>>) -> ChunkRelation {
        let mut relation = Relation::new(RelationFork::default());
        if let Some(entries) = entries {
            relation.index = IndexStreams::of_entries(Arc::clone(entries));
        }
        ChunkRelation {
            relation,
            form: LazyStream::default(),
            hole_offset: LazyStream::default(),
            hole_len: LazyStream::default(),
            stale: StaleStreams::default(),
        }
    }

    /// Codes the form of a page; `None` where that is all, or where it is unknown.
    fn code_form<C: Coder>(
        &mut self,
        coder: &mut C,
        block: u32,
        page: &[u8; PAGE_SIZE],
    ) -> Option<u8> {
        let known = if C::ENCODING {
            form_of(page, block)
        } else {
            ZEROS
        };
        let stream = self.form.open(coder, StreamKind::PageForm, 1);
        let form = coder.u8(stream, known);
        if form > FORM | CHECKSUM_FITS || form == ZEROS | CHECKSUM_FITS {
            coder.fail();
            return None;
        }
        (form != ZEROS).then_some(form)
    }

    /// Codes where the hole is; `None` if it is nowhere on a page.
    fn code_hole<C: Coder>(
        &mut self,
        coder: &mut C,
        form: u8,
        page: &[u8; PAGE_SIZE],
    ) -> Option<Hole> {
        if form & FORM == FULL {
            return Some(Hole { lower: 0, upper: 0 });
        }
        let known = Hole::of(page).unwrap_or(Hole { lower: 0, upper: 0 });
        let stream = self.hole_offset.open(coder, StreamKind::ImageHole, 2);
        let lower = usize::from(coder.u16(stream, known.lower as u16));
        let stream = self.hole_len.open(coder, StreamKind::ImageHole, 2);
        let len = usize::from(coder.u16(stream, (known.upper - known.lower) as u16));
        let upper = lower + len;
        (PAGE_HEADER_LEN <= lower && len > 0 && upper <= PAGE_SIZE).then_some(Hole { lower, upper })
    }
}

/// The form of a page with this number.
fn form_of(page: &[u8; PAGE_SIZE], block: u32) -> u8 {
    let (words, _) = page.as_chunks();
    let is_zero = |word: &[u8; 8]| u64::from_le_bytes(*word) == 0;
    if words.iter().all(is_zero) {
        return ZEROS;
    }
    let form = match Hole::of(page) {
        None => FULL,
        Some(hole) if page[hole.lower..hole.upper].iter().all(|&byte| byte == 0) => CLEAN,
        Some(_) => STALE,
    };
    let stored = stored_checksum(page);
    match stored != 0 && stored == page_checksum(page, block) {
        true => form | CHECKSUM_FITS,
        false => form,
    }
}

impl Image {
    /// Codes what is not in the hole of a page.
    fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        pages: &mut PageModel,
        relation: &mut Relation,
        hole: Hole,
        (form, block): (u8, u32),
        page: &mut [u8; PAGE_SIZE],
    ) {
        let Hole { lower, upper } = hole;
        let image = &mut self.0[..PAGE_SIZE - (upper - lower)];
        if C::ENCODING {
            image[..lower].copy_from_slice(&page[..lower]);
            image[lower..].copy_from_slice(&page[upper..]);
            if form & CHECKSUM_FITS != 0 {
                image[8..10].fill(0);
            }
        } else {
            image.fill(0);
        }
        let context = ImageContext {
            block,
            hole_offset: lower,
            hole_len: upper - lower,
            table: None,
        };
        pages.code(coder, relation, image, context, None);
        if !C::ENCODING {
            page[..lower].copy_from_slice(&image[..lower]);
            page[upper..].copy_from_slice(&image[lower..]);
        }
    }
}
