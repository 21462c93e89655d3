//! Stale bytes: what is left of line pointers and items where a page has its hole.
//!
//! PostgreSQL moves items together where others are removed, and does not clear what it leaves
//! behind. So most stale bytes are copies of others on their page, and these are known when the
//! hole is coded.

use walzip_pgformat::PAGE_SIZE;

use super::stale_copies::{Copy, Places, source};
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// The distance of a copy of zeros.
const ZEROS: u16 = 0;
/// The distance that says "the last one".
const LAST: u16 = 1;

/// The streams of the stale bytes of one relation.
#[derive(Debug, Default)]
pub struct StaleStreams {
    literals: LazyStream,
    len: LazyStream,
    distance: LazyStream,
    bytes: LazyStream,
}

impl StaleStreams {
    /// Codes the bytes from `lower` to `upper`. All others of the page are known.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        places: &mut Places,
        page: &mut [u8; PAGE_SIZE],
        lower: usize,
        upper: usize,
    ) {
        if C::ENCODING {
            places.begin(page, lower, upper);
        }
        let (mut at, mut last) = (lower, 0);
        while at < upper {
            let mut copy = Copy::default();
            if C::ENCODING {
                copy = places.next(page, at, upper, last);
            }
            let stream = self.literals.open(coder, StreamKind::StaleRun, 2);
            let literals = usize::from(coder.u16(stream, copy.literals as u16));
            if literals > upper - at {
                return coder.fail();
            }
            let stream = self.bytes.open(coder, StreamKind::StaleByte, 1);
            let bytes = coder.part(page, at, at + literals);
            coder.bytes(stream, bytes);
            at += literals;
            if at == upper {
                return;
            }
            copy = self.code_copy(coder, copy, last);
            if copy.len == 0 || copy.len > upper - at || coder.failed() {
                return coder.fail();
            }
            if !C::ENCODING && !make(page, copy, at, upper) {
                return coder.fail();
            }
            if copy.distance != 0 {
                last = copy.distance;
            }
            at += copy.len;
        }
    }

    /// Codes the length of a copy and its distance.
    fn code_copy<C: Coder>(&mut self, coder: &mut C, copy: Copy, last: usize) -> Copy {
        let stream = self.len.open(coder, StreamKind::StaleRun, 2);
        let len = coder.u16(stream, copy.len as u16);
        let known = match copy.distance {
            0 => ZEROS,
            distance if distance == last => LAST,
            distance => distance as u16,
        };
        let stream = self.distance.open(coder, StreamKind::StaleRun, 2);
        let distance = match coder.u16(stream, known) {
            LAST => last,
            distance => usize::from(distance),
        };
        if distance >= PAGE_SIZE {
            coder.fail();
        }
        Copy {
            len: usize::from(len),
            distance,
            ..copy
        }
    }
}

/// Makes a copy to `at`. Returns `false` if its source is not known.
fn make(page: &mut [u8; PAGE_SIZE], copy: Copy, at: usize, upper: usize) -> bool {
    let end = at + copy.len;
    if copy.distance == 0 {
        page[at..end].fill(0);
        return true;
    }
    let from = source(at, copy.distance);
    if from >= upper && from + copy.len <= PAGE_SIZE {
        page.copy_within(from..from + copy.len, at);
        return true;
    }
    if from >= at {
        return false;
    }
    // A source that reaches into the copy repeats.
    for to in at..end {
        page[to] = page[to - copy.distance];
    }
    true
}
