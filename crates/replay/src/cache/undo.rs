//! What puts a page cache back to how it was.
//!
//! A page is copied before it changes for the first time. Records change little of a page, so a copy that is
//! older becomes the difference from the page as it is by then; where the page changes again after that, it
//! is copied again. So what is kept is small, though most of the cache may change.

use std::collections::VecDeque;

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::bytes::read_u16;

use super::{PageKey, Slot};
use crate::page::PageBytes;

/// What is kept at most.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Pages as copies: the ones that changed last.
    pub(super) copies: usize,
    /// Bytes of differences and of all steps. What changes more cannot be put back.
    pub(super) bytes: usize,
}

/// Pages that are kept as copies: 32 MiB.
pub(super) const COPIES_MAX: usize = 4096;

/// What a step takes besides a copy or a difference, and what an allocation costs.
pub(super) const STEP_BYTES: usize = size_of::<Step>() + 16;

const WORD: usize = 8;
/// Words are compared in blocks of this number of bytes.
const BLOCK: usize = 128;

/// What has changed in a cache since a moment.
#[derive(Clone)]
pub(super) struct Undo {
    /// How many pages there were.
    pub(super) len: usize,
    /// Where the hand was.
    pub(super) hand: usize,
    /// Which of the pages were used.
    pub(super) used: Vec<bool>,
    /// The pages whose present state a copy or a difference leads back from.
    is_noted: Vec<bool>,
    /// What to do, in reverse.
    steps: Vec<Step>,
    /// The steps that are copies, the oldest first.
    copies: VecDeque<usize>,
    spare: Vec<Box<PageBytes>>,
    difference: Vec<u8>,
    /// Of steps and differences.
    bytes: usize,
    limits: Limits,
}

#[derive(Clone)]
struct Step {
    place: usize,
    was: Was,
}

/// How a place was.
#[derive(Clone)]
pub(super) enum Was {
    /// It had this page.
    Page(Box<PageBytes>),
    /// Its page had these bytes: see [`append_difference`].
    Different(Box<[u8]>),
    /// It had another page, of this key.
    Key(PageKey),
}

impl Undo {
    pub(super) fn new(slots: &[Slot], hand: usize, limits: Limits) -> Undo {
        Undo {
            len: slots.len(),
            hand,
            used: slots.iter().map(|slot| slot.was_used).collect(),
            is_noted: vec![false; slots.len()],
            steps: Vec::new(),
            copies: VecDeque::new(),
            spare: Vec::new(),
            difference: Vec::new(),
            bytes: 0,
            limits,
        }
    }

    /// A page is about to change.
    pub(super) fn note_page(&mut self, place: usize, slots: &[Slot]) {
        // A page that is new since then goes as a whole.
        let (Some(is_noted), Some(slot)) = (self.is_noted.get_mut(place), slots.get(place)) else {
            return;
        };
        if std::mem::replace(is_noted, true) || self.is_too_much() {
            return;
        }
        let mut page = self.spare.pop().unwrap_or_else(|| Box::new([0; PAGE_SIZE]));
        page.copy_from_slice(&*slot.page);
        self.copies.push_back(self.steps.len());
        self.push(place, Was::Page(page));
        if self.copies.len() > self.limits.copies {
            self.shorten_oldest(slots);
        }
    }

    /// A place is about to get a page of another key.
    pub(super) fn note_key(&mut self, place: usize, key: PageKey) {
        if !self.is_too_much() {
            self.push(place, Was::Key(key));
        }
    }

    fn push(&mut self, place: usize, was: Was) {
        self.bytes += STEP_BYTES;
        self.steps.push(Step { place, was });
    }

    fn shorten_oldest(&mut self, slots: &[Slot]) {
        let oldest = self.copies.pop_front();
        let Some(step) = oldest.and_then(|oldest| self.steps.get_mut(oldest)) else {
            return;
        };
        let (Was::Page(page), Some(slot)) = (&step.was, slots.get(step.place)) else {
            return;
        };
        self.difference.clear();
        append_difference(&mut self.difference, page, &slot.page);
        self.bytes += self.difference.len();
        let difference = Was::Different(self.difference.as_slice().into());
        if let Was::Page(page) = std::mem::replace(&mut step.was, difference) {
            self.spare.push(page);
        }
        self.is_noted[step.place] = false;
    }

    /// Whether more has changed than can be put back.
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > self.limits.bytes
    }

    /// What to do to the places, in this order.
    pub(super) fn into_steps(self) -> impl Iterator<Item = (usize, Was)> {
        let steps = self.steps.into_iter().rev();
        steps.map(|step| (step.place, step.was))
    }
}

/// Appends the bytes of a page where another one has others: runs of words, each after the number of its first
/// word and how many there are, u16 each.
fn append_difference(difference: &mut Vec<u8>, page: &PageBytes, other: &PageBytes) {
    let mut run: Option<(usize, usize)> = None;
    let blocks = page.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    for (block, (ours, theirs)) in blocks.enumerate() {
        if ours == theirs {
            continue;
        }
        let words = ours.chunks_exact(WORD).zip(theirs.chunks_exact(WORD));
        for (number, (ours, theirs)) in words.enumerate() {
            if ours == theirs {
                continue;
            }
            let word = block * (BLOCK / WORD) + number;
            match &mut run {
                Some((_, end)) if *end == word => *end += 1,
                _ => {
                    append_run(difference, page, run);
                    run = Some((word, word + 1));
                }
            }
        }
    }
    append_run(difference, page, run);
}

fn append_run(difference: &mut Vec<u8>, page: &PageBytes, run: Option<(usize, usize)>) {
    if let Some((start, end)) = run {
        difference.extend_from_slice(&(start as u16).to_le_bytes());
        difference.extend_from_slice(&((end - start) as u16).to_le_bytes());
        difference.extend_from_slice(&page[start * WORD..end * WORD]);
    }
}

/// Gives a page the bytes of a difference.
pub(super) fn apply_difference(difference: &[u8], page: &mut PageBytes) {
    let mut rest = difference;
    while let (Some(word), Some(words)) = (read_u16(rest, 0), read_u16(rest, 2)) {
        let (start, len) = (usize::from(word) * WORD, usize::from(words) * WORD);
        let (bytes, behind) = rest[4..].split_at(len);
        page[start..start + len].copy_from_slice(bytes);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_a_difference_are_the_other_page() {
        let changes: [&[usize]; 6] = [
            &[],
            &[0],
            &[PAGE_SIZE - 1],
            &[127, 128, 129, 200, 4000],
            &[8, 16, 24, 40],
            &[1, 8191, 64, 72, 80, 88, 96, 104, 112, 120],
        ];
        for changed in changes {
            let page: Box<PageBytes> = Box::new(std::array::from_fn(|at| at as u8));
            let mut other = page.clone();
            for &at in changed {
                other[at] ^= 0x55;
            }
            let mut difference = Vec::new();
            append_difference(&mut difference, &page, &other);
            assert_eq!(difference.is_empty(), changed.is_empty());
            apply_difference(&difference, &mut other);
            assert!(page == other, "{changed:?}");
        }
    }

    #[test]
    fn a_page_that_differs_everywhere_is_one_run() {
        let (page, mut other) = (Box::new([7; PAGE_SIZE]), Box::new([9; PAGE_SIZE]));
        let mut difference = Vec::new();
        append_difference(&mut difference, &page, &other);
        assert_eq!(difference.len(), 4 + PAGE_SIZE);
        apply_difference(&difference, &mut other);
        assert!(page == other);
    }
}
