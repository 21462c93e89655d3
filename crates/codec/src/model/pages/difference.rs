//! Blocks as differences against the blocks that stood in their places before: what is copied from
//! there, and what is new.
//!
//! PostgreSQL changes few bytes of a block at a time: it adds items at the front of those that are
//! there, sets bits and transaction ids in others, and moves them together where some are removed.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::page_checksum::{page_checksum, stored_checksum};

use super::difference_copies::{Copy, Places, Source};
use super::items::PAGE_HEADER_LEN;
use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

/// Form of a page: `pd_checksum` is 0.
const NO_CHECKSUM: u8 = 0;
/// Form of a page: `pd_checksum` is the one that PostgreSQL computes.
const CHECKSUM_FITS: u8 = 1;
/// Form of a page: `pd_checksum` is another one, and follows.
const CHECKSUM_FOLLOWS: u8 = 2;

/// Sources of a copy: the same place of the base, zeros, and the distance of the last copy that was
/// moved.
const SAME_PLACE: u16 = 0;
const ZEROS: u16 = 1;
const LAST_MOVED: u16 = 2;
/// With the distance added, a place of the base: so many bytes behind, modulo the length of a block.
const MOVED: usize = 2;
/// With the distance added, a place of the block itself: so many bytes before.
const OWN: usize = MOVED + PAGE_SIZE;

/// The number in the stream of a source; the distance of the last moved copy is known.
fn code_of(source: Source, last: usize) -> u16 {
    match source {
        Source::Base(0) => SAME_PLACE,
        Source::Zeros => ZEROS,
        Source::Base(distance) if distance == last => LAST_MOVED,
        Source::Base(distance) => (MOVED + distance) as u16,
        Source::Own(distance) => (OWN + distance) as u16,
    }
}

/// The source that a number stands for.
fn source_of(code: u16, last: usize) -> Option<Source> {
    match code {
        SAME_PLACE => Some(Source::Base(0)),
        ZEROS => Some(Source::Zeros),
        LAST_MOVED => Some(Source::Base(last)),
        code => {
            let code = usize::from(code);
            match code.checked_sub(OWN) {
                Some(distance) if (1..PAGE_SIZE).contains(&distance) => Some(Source::Own(distance)),
                Some(_) => None,
                None => Some(Source::Base(code - MOVED)),
            }
        }
    }
}

/// The streams of the blocks of one relation, or of those of no relation.
#[derive(Debug, Default)]
struct DifferenceStreams {
    form: LazyStream,
    checksum: LazyStream,
    lsn: [LazyStream; 2],
    flags: LazyStream,
    lower: LazyStream,
    upper: LazyStream,
    special: LazyStream,
    version: LazyStream,
    prune_xid: LazyStream,
    literals: LazyStream,
    len: LazyStream,
    source: LazyStream,
    replaced: LazyStream,
    new: LazyStream,
}

/// The blocks of a chunk.
#[derive(Debug, Default)]
pub struct BlockDifferences {
    relations: Vec<DifferenceStreams>,
    others: DifferenceStreams,
    places: Places,
}

impl BlockDifferences {
    /// Codes a page of the relation with this number, which is at most the number of those that had
    /// pages before. The decoder's page is zeros.
    pub fn code_page<C: Coder>(
        &mut self,
        coder: &mut C,
        (number, block): (usize, u32),
        base: &[u8; PAGE_SIZE],
        page: &mut [u8; PAGE_SIZE],
    ) {
        if number == self.relations.len() {
            self.relations.push(DifferenceStreams::default());
        }
        let Some(streams) = self.relations.get_mut(number) else {
            return coder.fail();
        };
        let form = streams.code_form(coder, block, page);
        streams.code_header(coder, base, page);
        streams.code_copies(coder, &mut self.places, base, page, PAGE_HEADER_LEN);
        if form == CHECKSUM_FITS && !C::ENCODING {
            let checksum = page_checksum(page, block);
            coder.put(page, 8, checksum.to_le_bytes());
        }
    }

    /// Bytes of a block that are not copied from anywhere. Encoder only.
    pub fn new_bytes(&mut self, base: &[u8; PAGE_SIZE], block: &[u8; PAGE_SIZE]) -> usize {
        self.places.begin();
        let (mut at, mut last, mut before, mut new) = (0, 0, Source::Base(0), 0);
        while at < PAGE_SIZE {
            let copy = self.places.next(base, block, at, (before, last));
            before = copy.source;
            if let Source::Base(distance @ 1..) = copy.source {
                last = distance;
            }
            new += copy.literals;
            at += copy.literals + copy.len;
        }
        new
    }

    /// Codes a block of no relation.
    pub fn code_block<C: Coder>(
        &mut self,
        coder: &mut C,
        base: &[u8; PAGE_SIZE],
        block: &mut [u8; PAGE_SIZE],
    ) {
        self.others
            .code_copies(coder, &mut self.places, base, block, 0);
    }
}

impl DifferenceStreams {
    fn code_form<C: Coder>(&mut self, coder: &mut C, block: u32, page: &mut [u8; PAGE_SIZE]) -> u8 {
        let mut known = NO_CHECKSUM;
        if C::ENCODING {
            known = match stored_checksum(page) {
                0 => NO_CHECKSUM,
                stored if stored == page_checksum(page, block) => CHECKSUM_FITS,
                _ => CHECKSUM_FOLLOWS,
            };
        }
        let stream = self.form.open(coder, StreamKind::DifferenceForm, 1);
        let form = coder.u8(stream, known);
        if form > CHECKSUM_FOLLOWS {
            coder.fail();
        }
        if C::ENCODING && form == CHECKSUM_FITS {
            page[8..10].fill(0);
        }
        if form == CHECKSUM_FOLLOWS {
            let stream = self.checksum.open(coder, StreamKind::DifferenceField, 2);
            coder.u16_at(stream, page, 8);
        }
        form
    }

    /// Codes the header but for the checksum.
    fn code_header<C: Coder>(
        &mut self,
        coder: &mut C,
        base: &[u8; PAGE_SIZE],
        page: &mut [u8; PAGE_SIZE],
    ) {
        for (half, at) in self.lsn.iter_mut().zip([0, 4]) {
            let stream = half.open(coder, StreamKind::DifferenceField, 4);
            coder.u32_at(stream, page, at);
        }
        let fields = [
            (&mut self.flags, 10),
            (&mut self.lower, 12),
            (&mut self.upper, 14),
            (&mut self.special, 16),
            (&mut self.version, 18),
        ];
        for (field, at) in fields {
            let stream = field.open(coder, StreamKind::DifferenceField, 2);
            let before = get_u16(base, at);
            let grown = coder.u16(stream, get_u16(page, at).wrapping_sub(before));
            coder.put(page, at, before.wrapping_add(grown).to_le_bytes());
        }
        let stream = self.prune_xid.open(coder, StreamKind::DifferenceField, 4);
        coder.u32_at(stream, page, 20);
    }

    /// Codes the bytes from `start` on.
    fn code_copies<C: Coder>(
        &mut self,
        coder: &mut C,
        places: &mut Places,
        base: &[u8; PAGE_SIZE],
        block: &mut [u8; PAGE_SIZE],
        start: usize,
    ) {
        if C::ENCODING {
            places.begin();
        }
        let (mut at, mut last, mut before) = (start, 0, Source::Base(0));
        while at < PAGE_SIZE && !coder.failed() {
            let mut copy = Copy::default();
            if C::ENCODING {
                copy = places.next(base, block, at, (before, last));
            }
            let stream = self.literals.open(coder, StreamKind::DifferenceRun, 2);
            let literals = usize::from(coder.u16(stream, copy.literals as u16));
            let left = (PAGE_SIZE - at).checked_sub(literals);
            let Some(left) = left else {
                return coder.fail();
            };
            let is_end = left == 0;
            if !is_end {
                let Some(coded) = self.code_copy(coder, copy, (last, left)) else {
                    return coder.fail();
                };
                copy = coded;
            }
            let (stream, kind) = match !is_end && copy.source == before {
                true => (&mut self.replaced, StreamKind::DifferenceReplaced),
                false => (&mut self.new, StreamKind::DifferenceByte),
            };
            if literals > 0 {
                let stream = stream.open(coder, kind, 1);
                let bytes = coder.part(block, at, at + literals);
                coder.bytes(stream, bytes);
                at += literals;
            }
            if is_end {
                return;
            }
            if !C::ENCODING && !make(base, block, at, copy) {
                return coder.fail();
            }
            before = copy.source;
            if let Source::Base(distance @ 1..) = copy.source {
                last = distance;
            }
            at += copy.len;
        }
    }

    /// Codes the length of a copy and its source; `None` where a block cannot have it.
    fn code_copy<C: Coder>(
        &mut self,
        coder: &mut C,
        copy: Copy,
        (last, left): (usize, usize),
    ) -> Option<Copy> {
        let stream = self.len.open(coder, StreamKind::DifferenceRun, 2);
        let len = usize::from(coder.u16(stream, copy.len as u16));
        let stream = self.source.open(coder, StreamKind::DifferenceRun, 2);
        let code = coder.u16(stream, code_of(copy.source, last));
        let source = source_of(code, last)?;
        ((1..=left).contains(&len)).then_some(Copy {
            source,
            len,
            ..copy
        })
    }
}

/// Makes a copy to `at`. Returns `false` if its source is not there.
fn make(base: &[u8; PAGE_SIZE], block: &mut [u8; PAGE_SIZE], at: usize, copy: Copy) -> bool {
    let end = at + copy.len;
    match copy.source {
        Source::Zeros => block.get_mut(at..end).is_some_and(|to| {
            to.fill(0);
            true
        }),
        Source::Base(distance) => {
            let from = (at + distance) % PAGE_SIZE;
            let source = base.get(from..from + copy.len);
            match (source, block.get_mut(at..end)) {
                (Some(source), Some(to)) => {
                    to.copy_from_slice(source);
                    true
                }
                _ => false,
            }
        }
        Source::Own(distance) => {
            let Some(from) = at.checked_sub(distance) else {
                return false;
            };
            // A source that reaches into the copy repeats.
            for offset in 0..copy.len {
                block[at + offset] = block[from + offset];
            }
            true
        }
    }
}
