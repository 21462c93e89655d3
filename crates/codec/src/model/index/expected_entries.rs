//! The entries of leaf pages that are expected: those that the rows of the table have, in the order
//! of their keys ([`Entries`]).
//!
//! Of each tuple a step says which of them it is. What is none, such as the high key or the entry of
//! a row that is gone, is coded as in an index whose table is unknown.

use std::ops::Range;
use std::sync::Arc;

use walzip_pgformat::wal::max_align;

use super::item_spans::ItemSpans;
use crate::model::table::entries::Entries;
use crate::model::table::index_tuple::{ALT_TID, INFO_AT, IS_POSTING, POSTING_COUNT, SIZE_MASK};
use crate::model::values::tid::{TID_LEN, Tid, read_tid, tid_bytes};
use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;

/// A step up to this one is how many entries are passed over.
const PASSED_MAX: u8 = 247;
/// The TID follows: the row has another place in the order.
const BY_TID: u8 = 248;
/// A tuple with a posting list of the next entries. Their number follows.
const NEXT_ONES: u8 = 249;
/// A tuple with a posting list. The number of its entries follows, and the step of each.
const POSTING: u8 = 250;
/// No entry of a row.
const OTHER: u8 = 255;
/// How many entries of a page are looked for among all, where they do not come soon.
const SEARCHES_MAX: usize = 4;
/// How many entries are passed over to look for one that comes soon.
const SOON: usize = 16;

/// What is expected of the leaf pages of an index.
#[derive(Debug)]
pub struct ExpectedEntries {
    entries: Arc<Entries>,
    /// The number of the entry that comes next.
    next: usize,
    start: LazyStream,
    step: LazyStream,
    count: LazyStream,
    block: LazyStream,
    line_pointer: LazyStream,
    page: PageEntries,
    others: ItemSpans,
    /// A tuple that is made.
    made: Vec<u8>,
}

/// What the tuples of a page are entries of. Encoder only.
#[derive(Debug, Default)]
struct PageEntries {
    tuples: Vec<Found>,
    /// Those of all tuples.
    targets: Vec<Target>,
}

/// What a tuple is.
#[derive(Clone, Debug)]
enum Found {
    /// The entry of a row: one of the targets.
    Plain(usize),
    /// A posting list of targets.
    Posting(Range<usize>),
    /// Something else.
    Other,
}

/// A row with an entry.
#[derive(Clone, Copy, Debug)]
struct Target {
    tid: Tid,
    /// The number of its entry, if it was found.
    number: Option<usize>,
}

impl ExpectedEntries {
    /// No page was there yet.
    pub fn new(entries: Arc<Entries>) -> ExpectedEntries {
        ExpectedEntries {
            entries,
            next: 0,
            start: LazyStream::default(),
            step: LazyStream::default(),
            count: LazyStream::default(),
            block: LazyStream::default(),
            line_pointer: LazyStream::default(),
            page: PageEntries::default(),
            others: ItemSpans::default(),
            made: Vec::new(),
        }
    }

    /// Codes the tuples of a leaf page. `index` codes those that are no entries of rows.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        index: impl FnOnce(&mut C, &mut [u8], &mut ItemSpans),
    ) {
        if spans.starts.is_empty() {
            return;
        }
        let mut passed = 0;
        if C::ENCODING {
            self.find(bytes, spans);
            passed = (self.page.beginning(self.next) as u32).wrapping_sub(self.next as u32);
        }
        let stream = self.start.open(coder, StreamKind::EntryStart, 4);
        self.next = coder.u32(stream, passed).wrapping_add(self.next as u32) as usize;
        if C::ENCODING {
            self.encode(coder, bytes, spans, index);
        } else {
            self.decode(coder, bytes, spans, index);
        }
    }

    fn encode<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &ItemSpans,
        index: impl FnOnce(&mut C, &mut [u8], &mut ItemSpans),
    ) {
        self.others.starts.clear();
        self.others.lens.clear();
        let page = std::mem::take(&mut self.page);
        let step = self.step.open(coder, StreamKind::EntryStep, 1);
        for (tuple, (start, len)) in page.tuples.iter().zip(spans.starts.iter().zip(&spans.lens)) {
            match tuple {
                Found::Plain(target) => {
                    if let Some(target) = page.targets.get(*target) {
                        self.encode_target(coder, target);
                    }
                }
                Found::Posting(targets) => {
                    let targets = page.targets.get(targets.clone()).unwrap_or_default();
                    self.encode_posting(coder, targets);
                }
                Found::Other => {
                    coder.u8(step, OTHER);
                    self.others.starts.push(*start);
                    self.others.lens.push(*len);
                }
            }
        }
        self.page = page;
        index(coder, bytes, &mut self.others);
    }

    fn encode_posting<C: Coder>(&mut self, coder: &mut C, targets: &[Target]) {
        let mut numbers = targets.iter().map(|target| target.number).zip(self.next..);
        let are_next = numbers.all(|(number, next)| number == Some(next));
        let step = self.step.open(coder, StreamKind::EntryStep, 1);
        coder.u8(step, if are_next { NEXT_ONES } else { POSTING });
        let stream = self.count.open(coder, StreamKind::EntryCount, 2);
        coder.u16(stream, targets.len() as u16);
        match are_next {
            true => self.next += targets.len(),
            false => {
                for target in targets {
                    self.encode_target(coder, target);
                }
            }
        }
    }

    fn encode_target<C: Coder>(&mut self, coder: &mut C, target: &Target) {
        let passed = target
            .number
            .and_then(|number| number.checked_sub(self.next));
        let passed = passed.filter(|&passed| passed <= usize::from(PASSED_MAX));
        let step = self.step.open(coder, StreamKind::EntryStep, 1);
        coder.u8(step, passed.map_or(BY_TID, |passed| passed as u8));
        match passed {
            Some(passed) => self.next += passed + 1,
            None => {
                let (block, line_pointer) = target.tid;
                let stream = self.block.open(coder, StreamKind::IndexTid, 4);
                coder.u32(stream, block);
                let stream = self.line_pointer.open(coder, StreamKind::IndexTid, 2);
                coder.u16(stream, line_pointer);
            }
        }
    }

    /// Finds what the tuples of a page are entries of.
    fn find(&mut self, bytes: &[u8], spans: &ItemSpans) {
        self.page.tuples.clear();
        self.page.targets.clear();
        let entries = Arc::clone(&self.entries);
        let mut lookup = Lookup {
            entries: &entries,
            next: self.next,
            searches_left: SEARCHES_MAX,
        };
        for (&start, &len) in spans.starts.iter().zip(&spans.lens) {
            let tuple = bytes.get(start..start + len).unwrap_or_default();
            let before = self.page.targets.len();
            let found = lookup.find(tuple, &mut self.page.targets);
            let found = match found {
                Some(false) if lookup.is_last(tuple) => Found::Plain(before),
                Some(is_posting) if self.makes(is_posting, before, tuple) => match is_posting {
                    true => Found::Posting(before..self.page.targets.len()),
                    false => Found::Plain(before),
                },
                _ => {
                    self.page.targets.truncate(before);
                    Found::Other
                }
            };
            self.page.tuples.push(found);
        }
    }

    /// Whether the targets from `first` on make a tuple.
    fn makes(&mut self, is_posting: bool, first: usize, tuple: &[u8]) -> bool {
        let targets = self.page.targets.get(first..).unwrap_or_default();
        make(&self.entries, is_posting, targets, &mut self.made).is_some() && self.made == tuple
    }

    fn decode<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        index: impl FnOnce(&mut C, &mut [u8], &mut ItemSpans),
    ) {
        let mut others = Vec::new();
        let mut at = 0;
        let stream = self.step.open(coder, StreamKind::EntryStep, 1);
        for number in 0..spans.starts.len() {
            let step = coder.u8(stream, 0);
            if step == OTHER {
                others.push(number);
                continue;
            }
            let len = self.decode_tuple(coder, step, bytes.get_mut(at..).unwrap_or_default());
            let Some(len) = len.filter(|_| !coder.failed()) else {
                return coder.fail();
            };
            (spans.starts[number], spans.lens[number]) = (at, len);
            at = max_align(at + len);
        }
        let (_, rest) = bytes.split_at_mut(at.min(bytes.len()));
        self.others.starts.clear();
        self.others.starts.resize(others.len(), 0);
        self.others.lens.clear();
        self.others.lens.resize(others.len(), 0);
        index(coder, rest, &mut self.others);
        let found = self.others.starts.iter().zip(&self.others.lens);
        for (number, (&start, &len)) in others.into_iter().zip(found) {
            (spans.starts[number], spans.lens[number]) = (at + start, len);
        }
    }

    /// Makes the tuple of a step at the front of `bytes`; returns its length.
    fn decode_tuple<C: Coder>(
        &mut self,
        coder: &mut C,
        step: u8,
        bytes: &mut [u8],
    ) -> Option<usize> {
        if step <= PASSED_MAX {
            let number = self.pass(step)?;
            let tuple = self.entries.tuple(number)?;
            bytes.get_mut(..tuple.len())?.copy_from_slice(tuple);
            return Some(tuple.len());
        }
        let is_posting = matches!(step, NEXT_ONES | POSTING);
        self.page.targets.clear();
        if is_posting {
            let stream = self.count.open(coder, StreamKind::EntryCount, 2);
            let count = usize::from(coder.u16(stream, 0));
            if count == 0 || count > bytes.len() / TID_LEN {
                return None;
            }
            for _ in 0..count {
                let step = match step {
                    NEXT_ONES => 0,
                    _ => {
                        let stream = self.step.open(coder, StreamKind::EntryStep, 1);
                        coder.u8(stream, 0)
                    }
                };
                let target = self.decode_target(coder, step)?;
                self.page.targets.push(target);
            }
        } else {
            let target = self.decode_target(coder, step)?;
            self.page.targets.push(target);
        }
        let targets = &self.page.targets;
        make(&self.entries, is_posting, targets, &mut self.made)?;
        let len = self.made.len();
        bytes.get_mut(..len)?.copy_from_slice(&self.made);
        Some(len)
    }

    fn decode_target<C: Coder>(&mut self, coder: &mut C, step: u8) -> Option<Target> {
        match step {
            0..=PASSED_MAX => {
                let number = self.pass(step)?;
                Some(Target {
                    tid: read_tid(self.entries.tuple(number)?, 0),
                    number: Some(number),
                })
            }
            BY_TID => {
                let stream = self.block.open(coder, StreamKind::IndexTid, 4);
                let block = coder.u32(stream, 0);
                let stream = self.line_pointer.open(coder, StreamKind::IndexTid, 2);
                let tid = (block, coder.u16(stream, 0));
                Some(Target { tid, number: None })
            }
            _ => None,
        }
    }

    /// Passes over entries; returns the number of the one that follows.
    fn pass(&mut self, step: u8) -> Option<usize> {
        let number = self.next.checked_add(usize::from(step))?;
        self.next = number.checked_add(1)?;
        Some(number)
    }
}

impl PageEntries {
    /// The number of the entry with which the page begins: one that another one follows soon.
    fn beginning(&self, next: usize) -> usize {
        let mut numbers = self.targets.iter().filter_map(|target| target.number);
        let Some(first) = numbers.next() else {
            return next;
        };
        let mut last = first;
        for number in numbers {
            let passed = number.checked_sub(last);
            if passed.is_some_and(|passed| passed <= usize::from(PASSED_MAX)) {
                return last;
            }
            last = number;
        }
        first
    }
}

/// Where the encoder looks for the rows of a page.
struct Lookup<'e> {
    entries: &'e Entries,
    /// The number of the entry that is expected.
    next: usize,
    /// How often an entry is looked for among all.
    searches_left: usize,
}

impl Lookup<'_> {
    /// Appends the targets of a tuple; whether it has a posting list. `None` if it is no entry.
    fn find(&mut self, tuple: &[u8], targets: &mut Vec<Target>) -> Option<bool> {
        if self.entries.tuple(self.next) == Some(tuple) {
            let number = Some(self.next);
            self.next += 1;
            targets.push(Target {
                tid: read_tid(tuple, 0),
                number,
            });
            return Some(false);
        }
        let info = get_u16(tuple, INFO_AT);
        if info & ALT_TID == 0 {
            targets.push(self.target(read_tid(tuple, 0)));
            return Some(false);
        }
        let (block, offset) = read_tid(tuple, 0);
        let list = tuple.get(block as usize..)?;
        let count = usize::from(offset & POSTING_COUNT);
        if offset & IS_POSTING == 0 || count == 0 || count * TID_LEN > list.len() {
            return None;
        }
        for tid in list.chunks_exact(TID_LEN).take(count) {
            targets.push(self.target(read_tid(tid, 0)));
        }
        Some(true)
    }

    /// Whether the last entry that was found has this tuple.
    fn is_last(&self, tuple: &[u8]) -> bool {
        let last = self.next.checked_sub(1);
        last.and_then(|last| self.entries.tuple(last)) == Some(tuple)
    }

    fn target(&mut self, tid: Tid) -> Target {
        let number = self.number_of(tid);
        if let Some(number) = number {
            self.next = number + 1;
        }
        Target { tid, number }
    }

    fn number_of(&mut self, tid: Tid) -> Option<usize> {
        let has_tid = |number: &usize| {
            let tuple = self.entries.tuple(*number);
            tuple.is_some_and(|tuple| read_tid(tuple, 0) == tid)
        };
        if !self.entries.are_ordered() {
            return None;
        }
        let mut soon = self.next..=self.next.saturating_add(SOON);
        let found = soon.find(has_tid);
        if found.is_some() || self.searches_left == 0 {
            return found;
        }
        self.searches_left -= 1;
        self.entries.position(tid).filter(has_tid)
    }
}

/// Makes the tuple of targets: its key is that of the first one. `None` if that is no row, or it would
/// be too long.
fn make(
    entries: &Entries,
    is_posting: bool,
    targets: &[Target],
    tuple: &mut Vec<u8>,
) -> Option<()> {
    let first = targets.first()?;
    entries.make_at(first.tid, tuple)?;
    if !is_posting {
        return Some(());
    }
    let key_end = u32::try_from(tuple.len()).ok()?;
    let flags = get_u16(tuple, INFO_AT) & !SIZE_MASK | ALT_TID;
    for target in targets {
        tuple.extend_from_slice(&tid_bytes(target.tid));
    }
    tuple.resize(max_align(tuple.len()), 0);
    let len = u16::try_from(tuple.len())
        .ok()
        .filter(|&len| len <= SIZE_MASK)?;
    let tid = tid_bytes((key_end, IS_POSTING | targets.len() as u16));
    tuple.get_mut(..6)?.copy_from_slice(&tid);
    tuple
        .get_mut(6..8)?
        .copy_from_slice(&(flags | len).to_le_bytes());
    Some(())
}
