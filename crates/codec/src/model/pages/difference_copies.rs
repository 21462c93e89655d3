//! Finds the bytes of a block in the block that stood in its place before. Encoder only.

use walzip_pgformat::PAGE_SIZE;

use super::alike::common;
use crate::streams::coder::get;

/// Positions that are looked up: PostgreSQL puts line pointers at multiples of 4, tuples of 8.
const STEP: usize = 4;
/// The shortest copy from a distance that is not at hand, in bytes.
const COPY_MIN: usize = 8;
/// The shortest one from a distance that is.
const REPEAT_MIN: usize = 3;
/// Places with the same beginning that are tried.
const TRIED_MAX: usize = 8;
/// A copy of so many bytes is taken without looking for a longer one.
const ENOUGH: usize = 96;
const HASH_BITS: u32 = 11;
const NONE: u16 = u16::MAX;

/// Where a copy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The base, so many bytes behind the place of the copy, modulo the length of a block.
    Base(usize),
    /// The block itself, so many bytes before.
    Own(usize),
    /// Nowhere: zeros.
    Zeros,
}

impl Default for Source {
    fn default() -> Self {
        Source::Base(0)
    }
}

/// A copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// Bytes before it that are copied from nowhere.
    pub literals: usize,
    /// Bytes of the copy; 0 where the literals are all that is left.
    pub len: usize,
    /// Where it comes from.
    pub source: Source,
}

/// The places of a base block, and of what is known of its successor, by what begins there.
#[derive(Debug)]
pub struct Places {
    heads: Box<[u16; 1 << HASH_BITS]>,
    /// For each place, the one before it with the same hash: first those of the base, then those of
    /// the block itself.
    before: Box<[u16; 2 * PAGE_SIZE]>,
    is_filled: bool,
    /// How much of the block was added.
    added: usize,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            heads: Box::new([NONE; 1 << HASH_BITS]),
            before: Box::new([NONE; 2 * PAGE_SIZE]),
            is_filled: false,
            added: 0,
        }
    }
}

impl Places {
    /// Begins with a block.
    pub fn begin(&mut self) {
        self.is_filled = false;
        self.added = 0;
    }

    /// Nothing is looked up in many blocks: it is filled when something is.
    fn fill(&mut self, base: &[u8; PAGE_SIZE], block: &[u8; PAGE_SIZE], at: usize) {
        if !self.is_filled {
            self.heads.fill(NONE);
            self.add(base, 0, PAGE_SIZE, 0);
            self.is_filled = true;
        }
        let start = self.added.next_multiple_of(STEP);
        if at > start {
            self.add(block, start, at, PAGE_SIZE);
            self.added = at - at % STEP;
        }
    }

    fn add(&mut self, bytes: &[u8; PAGE_SIZE], start: usize, end: usize, offset: usize) {
        for at in (start..end).step_by(STEP) {
            let value = u64::from_le_bytes(get(bytes, at));
            if value != 0 && at + COPY_MIN <= PAGE_SIZE {
                let head = &mut self.heads[hash(value)];
                self.before[offset + at] = std::mem::replace(head, (offset + at) as u16);
            }
        }
    }

    /// The next copy of what stands from `start` on. The sources of the copy before and the
    /// distance of the last moved one are at hand.
    pub fn next(
        &mut self,
        base: &[u8; PAGE_SIZE],
        block: &[u8; PAGE_SIZE],
        start: usize,
        (before, last): (Source, usize),
    ) -> Copy {
        let (in_place, moved) = (Source::Base(0), Source::Base(last));
        let at_hand = [
            Some(before),
            (before != in_place).then_some(in_place),
            (before != moved && last != 0).then_some(moved),
        ];
        let mut at = start;
        while at < PAGE_SIZE {
            let mut best = (0, Source::Zeros);
            for source in at_hand.into_iter().flatten() {
                let len = len_of(base, block, at, source);
                if len > best.0 {
                    best = (len, source);
                }
            }
            if best.0 < REPEAT_MIN && at + best.0 != PAGE_SIZE {
                best.0 = 0;
            }
            if best.0 < ENOUGH {
                best = self.longer(base, block, at, best);
            }
            if best.0 > 0 {
                return extend_back(base, block, (start, at), best);
            }
            at += 1;
        }
        Copy {
            literals: PAGE_SIZE - start,
            ..Copy::default()
        }
    }

    /// A copy from elsewhere that is worth more.
    fn longer(
        &mut self,
        base: &[u8; PAGE_SIZE],
        block: &[u8; PAGE_SIZE],
        at: usize,
        mut best: (usize, Source),
    ) -> (usize, Source) {
        let zeros = len_of(base, block, at, Source::Zeros);
        if zeros >= COPY_MIN.max(best.0 + 2) || (zeros > best.0 && at + zeros == PAGE_SIZE) {
            best = (zeros, Source::Zeros);
        }
        if !at.is_multiple_of(STEP) {
            return best;
        }
        self.fill(base, block, at);
        let mut place = self.heads[hash(u64::from_le_bytes(get(block, at)))];
        for _ in 0..TRIED_MAX {
            if place == NONE {
                break;
            }
            let from = usize::from(place);
            let source = match from.checked_sub(PAGE_SIZE) {
                None => Source::Base((from + PAGE_SIZE - at) % PAGE_SIZE),
                Some(own) if own < at => Source::Own(at - own),
                Some(_) => Source::Zeros,
            };
            let len = len_of(base, block, at, source);
            if len >= COPY_MIN.max(best.0 + 4) {
                best = (len, source);
            }
            place = self.before[from];
        }
        best
    }
}

/// How many bytes at `at` come from a source.
fn len_of(base: &[u8; PAGE_SIZE], block: &[u8; PAGE_SIZE], at: usize, source: Source) -> usize {
    let wanted = &block[at..];
    match source {
        Source::Base(distance) => common(&base[(at + distance) % PAGE_SIZE..], wanted),
        Source::Own(distance) if distance <= at => common(&block[at - distance..], wanted),
        Source::Own(_) => 0,
        Source::Zeros => wanted.iter().take_while(|&&byte| byte == 0).count(),
    }
}

/// Lets a copy begin earlier where the bytes before it are alike too.
fn extend_back(
    base: &[u8; PAGE_SIZE],
    block: &[u8; PAGE_SIZE],
    (start, at): (usize, usize),
    (len, source): (usize, Source),
) -> Copy {
    let room = match source {
        Source::Base(distance) => (at + distance) % PAGE_SIZE,
        Source::Own(distance) => at - distance,
        Source::Zeros => at,
    };
    let is_alike = |back: usize| {
        let byte = block[at - back];
        match source {
            Source::Base(distance) => base[(at + distance) % PAGE_SIZE - back] == byte,
            Source::Own(distance) => block[at - distance - back] == byte,
            Source::Zeros => byte == 0,
        }
    };
    let back = (1..=room.min(at - start))
        .take_while(|&back| is_alike(back))
        .count();
    Copy {
        literals: at - start - back,
        len: len + back,
        source,
    }
}

fn hash(bytes: u64) -> usize {
    (bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASH_BITS)) as usize
}
