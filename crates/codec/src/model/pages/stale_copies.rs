//! Finds stale bytes elsewhere on their page. Encoder only.

use walzip_pgformat::PAGE_SIZE;

use super::alike::common;
use super::page::{GIN_FLAGS_ALL, GIN_SPECIAL_LEN};
use crate::streams::coder::{get, get_u16};

/// Positions that are compared: PostgreSQL puts line pointers at multiples of 4, tuples of 8.
const STEP: usize = 4;
/// The same on pages of GIN, whose posting lists have numbers of any length.
const LIST_STEP: usize = 1;
/// The shortest copy from a new distance, in bytes.
const COPY_MIN: usize = 8;
/// The shortest one from the last distance.
const REPEAT_MIN: usize = 4;
/// Places with the same beginning that are tried.
const TRIED_MAX: usize = 6;
/// A copy of so many bytes is taken without looking for a longer one.
const ENOUGH: usize = 192;
const HASH_BITS: u32 = 11;

/// Where a copy comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// Bytes before it that are copied from nowhere.
    pub literals: usize,
    /// Bytes of the copy; 0 where the literals are all that is left.
    pub len: usize,
    /// From its first byte back to its source, modulo the length of a page; 0 for zeros.
    pub distance: usize,
}

/// The places of a page by what begins there.
#[derive(Debug)]
pub struct Places {
    heads: Box<[u16; 1 << HASH_BITS]>,
    /// For each place, the one before it with the same hash.
    before: Box<[u16; PAGE_SIZE]>,
    step: usize,
}

const NONE: u16 = u16::MAX;

impl Default for Places {
    fn default() -> Self {
        Places {
            heads: Box::new([NONE; 1 << HASH_BITS]),
            before: Box::new([NONE; PAGE_SIZE]),
            step: STEP,
        }
    }
}

impl Places {
    /// Begins with a page, of which all but the hole from `lower` to `upper` is known.
    pub fn begin(&mut self, page: &[u8; PAGE_SIZE], lower: usize, upper: usize) {
        self.heads.fill(NONE);
        self.step = match has_lists(page) {
            true => LIST_STEP,
            false => STEP,
        };
        self.add(page, 0, lower);
        self.add(page, upper, PAGE_SIZE);
    }

    /// Adds the places from `start` to `end`, of whose bytes all are known.
    fn add(&mut self, page: &[u8; PAGE_SIZE], start: usize, end: usize) {
        let mut at = start.next_multiple_of(self.step);
        while at + COPY_MIN <= end {
            let bytes = u64::from_le_bytes(get(page, at));
            if bytes != 0 {
                let head = &mut self.heads[hash(bytes)];
                self.before[at] = std::mem::replace(head, at as u16);
            }
            at += self.step;
        }
    }

    /// The next copy of what stands from `start` to `upper`. Everything before `start` is known,
    /// and `last` is the distance of the copy before.
    pub fn next(
        &mut self,
        page: &[u8; PAGE_SIZE],
        start: usize,
        upper: usize,
        last: usize,
    ) -> Copy {
        let mut at = start.next_multiple_of(self.step);
        while at < upper {
            let found = longest(page, at, upper, last, self);
            if let Some(copy) = found {
                let copy = extend_back(page, copy, start, at, upper);
                let end = start + copy.literals + copy.len;
                self.add(page, start, end);
                return copy;
            }
            at += self.step;
        }
        Copy {
            literals: upper - start,
            ..Copy::default()
        }
    }
}

/// Whether a page is of a GIN index.
fn has_lists(page: &[u8; PAGE_SIZE]) -> bool {
    let has_special = usize::from(get_u16(page, 16)) == PAGE_SIZE - GIN_SPECIAL_LEN;
    let flags = get_u16(page, PAGE_SIZE - 2);
    has_special && flags <= GIN_FLAGS_ALL
}

/// The longest copy at `at` that is found: its length and its distance.
fn longest(
    page: &[u8; PAGE_SIZE],
    at: usize,
    upper: usize,
    last: usize,
    places: &Places,
) -> Option<(usize, usize)> {
    let zeros = page[at..upper]
        .iter()
        .take_while(|&&byte| byte == 0)
        .count();
    if zeros >= COPY_MIN || at + zeros == upper {
        return Some((zeros, 0));
    }
    let len_from = |source: usize| match source {
        _ if source < at => common(&page[source..], &page[at..upper]),
        _ if source >= upper => common(&page[source..], &page[at..upper]),
        _ => 0,
    };
    let repeat = if last != 0 {
        len_from(source(at, last))
    } else {
        0
    };
    let (mut best, mut distance) = (repeat, last);
    if repeat < REPEAT_MIN {
        best = 0;
    }
    let mut place = places.heads[hash(u64::from_le_bytes(get(page, at)))];
    for _ in 0..TRIED_MAX {
        if place == NONE || best >= ENOUGH {
            break;
        }
        let from = usize::from(place);
        let len = len_from(from);
        // A copy from another distance has to be worth it.
        if len >= COPY_MIN.max(best + 4) {
            (best, distance) = (len, (at + PAGE_SIZE - from) % PAGE_SIZE);
        }
        place = places.before[from];
    }
    (best > 0).then_some((best, distance))
}

/// Lets a copy begin earlier where the bytes before it are alike too.
fn extend_back(
    page: &[u8; PAGE_SIZE],
    (len, distance): (usize, usize),
    start: usize,
    at: usize,
    upper: usize,
) -> Copy {
    let is_alike = |back: usize| {
        let before = page[at - back];
        match distance {
            0 => before == 0,
            _ => {
                let from = source(at - back, distance);
                (from < at - back || from >= upper) && page[from] == before
            }
        }
    };
    // A source does not reach over the beginning of the page or of what is above the hole.
    let room = match distance {
        0 => at - start,
        _ => {
            let from = source(at, distance);
            (at - start).min(if from < at { from } else { from - upper })
        }
    };
    let back = (1..=room).take_while(|&back| is_alike(back)).count();
    Copy {
        literals: at - start - back,
        len: len + back,
        distance,
    }
}

/// The source of a copy to `at`.
pub fn source(at: usize, distance: usize) -> usize {
    (at + PAGE_SIZE - distance) % PAGE_SIZE
}

fn hash(bytes: u64) -> usize {
    (bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}
