//! Codes records with images of pages that are known: without the images.
//!
//! The encoder takes an image out of a record, and gives the record the data that the server would
//! have written without it. The record is then coded as any other. The decoder replays it on the
//! page, and has the image, but for what is coded as a difference.

use walzip_pgformat::rmgr_id::{HEAP, HEAP2};
use walzip_pgformat::wal::{Compression, RecordLayout};
use walzip_pgformat::{Lsn, PAGE_SIZE};
use walzip_replay::{Page, PageBytes, PageCache, PageKey, Record, Rules, omitted_data};

use super::assembly::{Change, assemble, assembled_len};
use super::forms::{Form, FormKey};
use super::history::{History, fill, without_hole};
use super::rests::{Rests, change_main};
use crate::model::pages::difference::BlockDifferences;
use crate::model::pages::recreation::{OPAQUE, Recreation};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Choices, Coder, LazyStream, Proof, get_u16};
use crate::streams::kind::StreamKind;

/// Mark of a block reference that has no image.
const NO_IMAGE: u8 = 0;
/// Mark of an image that is the page after replay.
const EXACT: u8 = 1;
/// Mark of an image with a difference from that page.
const DIFFERENT: u8 = 2;
/// The form of the image follows.
const OTHER_FORM: u8 = 4;
/// The hole of the image follows.
const OTHER_HOLE: u8 = 8;
const MARKS_MAX: u8 = DIFFERENT | OTHER_FORM | OTHER_HOLE;

/// Differing bytes of which it is not asked whether they cost less than the image.
const DIFFERING_FEW: usize = 256;
/// Of the bytes of a page without its hole, those that may be new in a difference: one of so many.
const NEW_PART: usize = 3;

/// The images of a segment.
pub struct ForetoldImages {
    rules: Rules,
    /// Marks, where no image and where one was to be expected.
    marks: [LazyStream; 2],
    form: LazyStream,
    hole: LazyStream,
    differences: Differences,
    recreation: Recreation,
    changes: Vec<Change>,
    folded: Vec<Folded>,
    /// Memory of images that are done.
    spare: Vec<Box<PageBytes>>,
    /// Whether each block's page is known, and an image to be expected.
    foretold: Vec<Option<bool>>,
    record: Vec<u8>,
    /// The expected number of the record's tuple on its leaf page.
    number: Option<u16>,
    rests: Rests,
}

/// What the pages are that differ.
#[derive(Clone, Copy, Default)]
enum Kind {
    Table,
    #[default]
    Other,
}

impl Kind {
    fn of(layout: &RecordLayout) -> Kind {
        match layout.header.rmid {
            HEAP | HEAP2 => Kind::Table,
            _ => Kind::Other,
        }
    }
}

/// The differences of each kind.
#[derive(Default)]
struct Differences {
    tables: BlockDifferences,
    others: BlockDifferences,
}

impl Differences {
    fn of(&mut self, kind: Kind) -> &mut BlockDifferences {
        match kind {
            Kind::Table => &mut self.tables,
            Kind::Other => &mut self.others,
        }
    }
}

/// An image that was taken out of a record.
struct Folded {
    /// Its block's place among the record's block references.
    place: usize,
    key: PageKey,
    kind: Kind,
    page: Box<PageBytes>,
    form: Form,
    hole: (usize, usize),
    mark: u8,
}

/// The page to decode an image of, or to take apart.
fn empty_page(spare: &mut Vec<Box<PageBytes>>) -> Box<PageBytes> {
    spare.pop().unwrap_or_else(|| Box::new([0; PAGE_SIZE]))
}

impl ForetoldImages {
    /// For a segment of this length, whose records are replayed by these rules.
    pub fn new(rules: Rules, segment_len: usize) -> ForetoldImages {
        ForetoldImages {
            rules,
            marks: [LazyStream::default(); 2],
            form: LazyStream::default(),
            hole: LazyStream::default(),
            differences: Differences::default(),
            recreation: Recreation::new(segment_len),
            changes: Vec::new(),
            folded: Vec::new(),
            spare: Vec::new(),
            foretold: Vec::new(),
            record: Vec::new(),
            number: None,
            rests: Rests::new(rules),
        }
    }

    /// Takes the images that are foretold out of a record, and other data that follow from pages,
    /// before the record is coded. [`ForetoldImages::follow`] comes after that. Encoder only.
    pub fn take_out(
        &mut self,
        choices: Choices,
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) {
        self.clear();
        self.changes.clear();
        self.changes.resize(layout.blocks.len(), Change::None);
        for place in 0..layout.blocks.len() {
            let block = &layout.blocks[place];
            let is_wanted = choices.uses(OptionalModel::ForetoldImages);
            if is_wanted && block.image.is_some() && history.foretells(block).is_some() {
                self.fold(choices.proof, history, place, layout, record);
            }
        }
        if !self.folded.is_empty() && self.try_folded(history, layout, record).is_none() {
            self.clear();
        }
        self.rests.take_out(choices, history, layout, record);
        self.number = history.expected_number(layout, record);
        if let Some(expected) = self.number {
            change_number(layout, record, |number| number.wrapping_sub(expected));
        }
    }

    /// A record as replay sees it.
    fn seen<'r>(&self, layout: &'r RecordLayout, bytes: &'r [u8]) -> Record<'r> {
        Record {
            rules: self.rules,
            layout,
            bytes,
        }
    }

    /// Forgets the images of the last record.
    fn clear(&mut self) {
        let pages = self.folded.drain(..).map(|folded| folded.page);
        self.spare.extend(pages);
    }

    /// Takes one image out, if its bytes can be made of its page again.
    fn fold(
        &mut self,
        proof: Proof,
        history: &History,
        place: usize,
        layout: &RecordLayout,
        record: &[u8],
    ) -> Option<()> {
        let block = layout.blocks.get(place)?;
        let image = block.image.as_ref()?;
        let packed = record.get(image.start..image.start + usize::from(image.len))?;
        let mut compressor = OPAQUE;
        if image.compression != Compression::None {
            compressor = self.recreation.recreate(image, packed, proof);
            if compressor == OPAQUE {
                return None;
            }
        } else if !self.recreation.decompress(image, packed) {
            return None;
        }
        let mut page = empty_page(&mut self.spare);
        fill(&mut page, image, self.recreation.page(image));
        let key = PageKey::from(block);
        let mut data = Vec::new();
        if block.data_len == 0 {
            let record = self.seen(layout, record);
            data = omitted_data(&record, block, history.cache.peek(&key)?, &page);
        }
        self.changes[place] = Change::Fold(data);
        self.folded.push(Folded {
            place,
            key,
            kind: Kind::of(layout),
            page,
            form: Form {
                flags: image.flags,
                compressor,
                has_data: block.data_len != 0,
            },
            hole: (image.hole_offset.into(), image.hole_len.into()),
            mark: NO_IMAGE,
        });
        Some(())
    }

    /// Replays the record without its images on copies of the pages, and leaves those images in
    /// that are not like their pages. What is replayed may look at the page of another block, which has
    /// none if its image stays: so that is done again with those that are left.
    fn try_folded(
        &mut self,
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) -> Option<()> {
        while !self.folded.is_empty() {
            let mut without = layout.clone();
            assemble(&mut without, record, &self.changes, &mut self.record)?;
            let replayed = history.try_replay(&self.seen(&without, &self.record));
            let before = self.folded.len();
            self.leave_in(&replayed);
            if self.folded.len() == before {
                *layout = without;
                std::mem::swap(record, &mut self.record);
                break;
            }
        }
        Some(())
    }

    /// Compares the images with pages after replay, and leaves those in that are not like them.
    fn leave_in(&mut self, replayed: &PageCache) {
        let (changes, differences) = (&mut self.changes, &mut self.differences);
        let mut expected = empty_page(&mut self.spare);
        self.folded.retain_mut(|folded| {
            without_hole(replayed, &folded.key, &mut expected);
            folded.mark = DIFFERENT;
            if expected == folded.page {
                folded.mark = EXACT;
                return true;
            }
            let bytes = expected.iter().zip(&folded.page[..]);
            let differing = bytes.filter(|(one, other)| one != other).count();
            let new_max = (PAGE_SIZE - folded.hole.1) / NEW_PART;
            let is_like = differing <= DIFFERING_FEW
                || differences
                    .of(folded.kind)
                    .new_bytes(&expected, &folded.page)
                    <= new_max;
            if !is_like {
                changes[folded.place] = Change::None;
            }
            is_like
        });
        self.spare.push(expected);
    }

    /// Codes for each block reference of a known page whether it has an image that was taken out,
    /// and what image that is.
    fn code_marks<C: Coder>(
        &mut self,
        coder: &mut C,
        history: &mut History,
        lsn: Lsn,
        layout: &RecordLayout,
    ) {
        let mut taken = std::mem::take(&mut self.folded).into_iter().peekable();
        for (place, block) in layout.blocks.iter().enumerate() {
            let Some(is_foretold) = self.foretold.get(place).copied().flatten() else {
                continue;
            };
            let mut has_image = block.image.is_some();
            if !has_image {
                let this = taken.next_if(|folded| folded.place == place);
                let key = Form::key(layout, block);
                let this = self.code_mark(coder, history, is_foretold, key, this);
                has_image = this.is_some();
                self.folded.extend(this.map(|this| Folded {
                    place,
                    key: PageKey::from(block),
                    kind: Kind::of(layout),
                    ..this
                }));
            }
            if has_image && !is_foretold {
                let from = &mut history.learned.images_from;
                *from = (*from).max(lsn);
            }
            if coder.failed() {
                return;
            }
        }
    }

    fn code_mark<C: Coder>(
        &mut self,
        coder: &mut C,
        history: &mut History,
        is_foretold: bool,
        key: FormKey,
        this: Option<Folded>,
    ) -> Option<Folded> {
        let expected = history.learned.forms.get(&key).copied().unwrap_or_default();
        let mut known = NO_IMAGE;
        if let Some(this) = &this {
            let form = if this.form == expected { 0 } else { OTHER_FORM };
            let hole = if this.hole == this.page.hole() {
                0
            } else {
                OTHER_HOLE
            };
            known = this.mark | form | hole;
        }
        let stream = &mut self.marks[usize::from(is_foretold)];
        let stream = stream.open(coder, StreamKind::ForetoldMark, 1);
        let mark = coder.u8(stream, known);
        if mark == NO_IMAGE {
            return None;
        }
        if mark > MARKS_MAX || !matches!(mark & (EXACT | DIFFERENT), EXACT | DIFFERENT) {
            coder.fail();
            return None;
        }
        let mut this = this.unwrap_or_else(|| Folded {
            place: 0,
            key: PageKey::default(),
            kind: Kind::default(),
            page: empty_page(&mut self.spare),
            form: expected,
            hole: (0, 0),
            mark: NO_IMAGE,
        });
        this.mark = mark;
        if mark & OTHER_FORM != 0 {
            this.form.code(coder, &mut self.form);
            history.learned.forms.insert(key, this.form);
        }
        if mark & OTHER_HOLE != 0 {
            let stream = self.hole.open(coder, StreamKind::ImageHole, 2);
            this.hole.0 = usize::from(coder.u16(stream, this.hole.0 as u16));
            this.hole.1 = usize::from(coder.u16(stream, this.hole.1 as u16));
        }
        Some(this)
    }

    /// Codes the images that differ from the pages after replay, and keeps them as pages.
    fn code_differences<C: Coder>(&mut self, coder: &mut C, history: &mut History) {
        for folded in &mut self.folded {
            if folded.mark & DIFFERENT == 0 {
                // What the hole has is needed where the image has another one.
                if !C::ENCODING && folded.mark & OTHER_HOLE != 0 {
                    history.expected(&folded.key, &mut folded.page);
                }
                history.note_used(&folded.key);
                continue;
            }
            let mut expected = empty_page(&mut self.spare);
            history.expected(&folded.key, &mut expected);
            let differences = self.differences.of(folded.kind);
            differences.code_block(coder, &expected, &mut folded.page);
            self.spare.push(expected);
            if coder.failed() {
                return;
            }
            history.keep(&folded.key, &folded.page);
        }
    }

    /// Codes what the decoder needs besides a record that was coded, and replays it. The decoder's
    /// record gets its data back; [`ForetoldImages::unfold`] gives it its images.
    pub fn follow<C: Coder>(
        &mut self,
        coder: &mut C,
        history: &mut History,
        lsn: Lsn,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) {
        self.foretold.clear();
        let foretold = layout.blocks.iter().map(|at| history.foretells(at));
        self.foretold.extend(foretold);
        if !C::ENCODING {
            self.clear();
        }
        if !C::ENCODING {
            self.number = history.expected_number(layout, record);
        }
        if let Some(expected) = self.number {
            let number = change_number(layout, record, |number| number.wrapping_add(expected));
            if number != expected {
                history.learn_number(layout, record, number);
            }
        }
        self.rests.code(coder, history, layout, record);
        self.code_marks(coder, history, lsn, layout);
        if coder.failed() {
            return;
        }
        history.begin_record(layout);
        history.replay(self.rules, layout, record);
        self.code_differences(coder, history);
        history.keep_images(layout, record, &mut self.recreation);
        history.learn_leaves(layout, record);
        history.learn_rows(&self.seen(layout, record));
    }

    /// Gives a record its images back. Decoder only, after [`ForetoldImages::follow`].
    pub fn unfold(
        &mut self,
        history: &History,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) -> Option<()> {
        if self.folded.is_empty() {
            return Some(());
        }
        self.unfold_blocks(history, layout, true)?;
        assemble(layout, record, &self.changes, &mut self.record)?;
        std::mem::swap(record, &mut self.record);
        Some(())
    }

    /// The length that a record has with its images. Decoder only, after
    /// [`ForetoldImages::follow`].
    pub fn unfolded_len(
        &mut self,
        history: &History,
        layout: &mut RecordLayout,
        record: &[u8],
    ) -> Option<usize> {
        if self.folded.is_empty() {
            return Some(record.len());
        }
        self.unfold_blocks(history, layout, false)?;
        assembled_len(layout, &self.changes)
    }

    /// What becomes of the blocks of a record that gets its images back; the bytes of images are
    /// there if they are needed to know their length, or wanted.
    fn unfold_blocks(
        &mut self,
        history: &History,
        layout: &RecordLayout,
        wants_bytes: bool,
    ) -> Option<()> {
        self.changes.clear();
        self.changes.resize(layout.blocks.len(), Change::None);
        for folded in &self.folded {
            let (page, hole) = match folded.mark & OTHER_HOLE {
                // By now it is what the image is of, but for its hole.
                0 => {
                    let page = history.cache.peek(&folded.key)?;
                    (page, page.hole())
                }
                _ => (&*folded.page, folded.hole),
            };
            let mut image = folded.form.image(self.rules.version, hole);
            let (front, back) = (page.get(..hole.0)?, page.get(hole.0 + hole.1..)?);
            let mut bytes = Vec::new();
            if image.compression != Compression::None {
                let place = self.recreation.page(&image);
                let (place, rest) = place.split_at_mut_checked(hole.0)?;
                place.copy_from_slice(front);
                rest.copy_from_slice(back);
                if !self.recreation.compress(&image, folded.form.compressor) {
                    return None;
                }
                bytes.extend_from_slice(self.recreation.packed());
                image.len = u16::try_from(bytes.len()).ok()?;
            } else {
                if wants_bytes {
                    bytes.reserve_exact(image.page_len());
                    bytes.extend_from_slice(front);
                    bytes.extend_from_slice(back);
                }
                image.len = image.page_len() as u16;
            }
            self.changes[folded.place] = Change::Unfold {
                image,
                bytes,
                has_data: folded.form.has_data,
            };
        }
        Some(())
    }
}

/// Changes the number at the front of a record's main data. Returns the new one.
fn change_number(
    layout: &mut RecordLayout,
    record: &mut [u8],
    change: impl FnOnce(u16) -> u16,
) -> u16 {
    let number = change(get_u16(record, layout.main_start));
    change_main(layout, record, &number.to_le_bytes());
    number
}
