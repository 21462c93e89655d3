//! Takes a segment apart into runs of pages, records, and what is neither.

use std::io;

use super::max_align;
use super::page_header::{FIRST_IS_CONTRECORD, LONG_HEADER, PageHeader};
use super::record::{RECORD_HEADER_LEN, RecordLayout};
use super::segment_header::{SegmentHeader, SegmentHeaderError};
use crate::PAGE_SIZE;
use crate::bytes::read_u32;
use crate::input::{Input, Window};
use crate::units::Lsn;

/// The flags of a page header that say more than its place does.
const PLACE_FLAGS: u16 = FIRST_IS_CONTRECORD | LONG_HEADER;

/// How a run of pages begins, or goes on from some page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// The page's number within the segment.
    pub page: u32,
    /// The page's flags but for those that follow from its place.
    pub flags: u16,
    /// The page's timeline.
    pub timeline: u32,
}

/// The next part of a segment. The events of a segment cover each of its bytes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A run of pages begins whose headers follow from the records on them, the changes in
    /// [`SegmentReader::changes`], and this.
    RunStart {
        /// The first page.
        state: PageState,
        /// Bytes of a record of before that the first page says are left.
        remaining_len: u32,
    },
    /// The rest of a record of before, or what there is of it: [`SegmentReader::bytes`].
    Lead {
        /// The record ends here, and zeros up to the next multiple of 8 follow. Otherwise the
        /// run ends at once.
        whole: bool,
    },
    /// A whole record, read into the layout; its bytes are [`SegmentReader::bytes`]. Zeros up
    /// to the next multiple of 8 follow.
    Record {
        /// Where it begins.
        lsn: Lsn,
    },
    /// The beginning of a record of which the run has no more: [`SegmentReader::bytes`].
    Tail {
        /// Where it begins.
        lsn: Lsn,
    },
    /// The run ends before this offset in the segment.
    RunEnd {
        /// Bytes from the start of the segment.
        offset: usize,
    },
    /// Bytes that are no pages of this segment, or no records: zeros, remains of an older
    /// segment, damage.
    Other {
        /// Bytes from the start of the segment.
        start: usize,
        /// The first byte behind.
        end: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Outside,
    Lead(u32),
    Records,
    EndRun,
    Done,
}

/// Reads a segment from front to back. See [`Event`].
#[derive(Debug)]
pub struct SegmentReader<'a> {
    window: Window<'a>,
    header: SegmentHeader,
    step: Step,
    at: usize,
    state: PageState,
    changes: Vec<PageState>,
    crossing: Vec<u8>,
    bytes: (usize, usize),
    trusts_checksums: bool,
}

impl<'a> SegmentReader<'a> {
    /// Begins at the first byte of a segment, or of the first part of one.
    pub fn new(segment: &'a [u8]) -> Result<Self, SegmentHeaderError> {
        let header = SegmentHeader::read(segment)?;
        Ok(Self::of_part(segment.into(), header))
    }

    /// Begins at the first byte of a part of a segment, which does not say of itself what it is
    /// ([`SegmentHeader::of_part`]). A record that was begun in the part before is its lead.
    pub fn of_part(part: Input<'a>, header: SegmentHeader) -> Self {
        let left = header.segment_size - header.offset_in_segment();
        SegmentReader {
            window: Window::new(part, left as usize),
            header,
            step: Step::Outside,
            at: 0,
            state: PageState {
                page: 0,
                flags: 0,
                timeline: 0,
            },
            changes: Vec::new(),
            crossing: Vec::new(),
            bytes: (0, 0),
            trusts_checksums: false,
        }
    }

    /// The same, but records are taken for such whatever their checksums are: for who compares
    /// what is made of them with the segment.
    pub fn trusting_checksums(self, trusts_checksums: bool) -> Self {
        SegmentReader {
            trusts_checksums,
            ..self
        }
    }

    /// What the first page says of the segment.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The bytes of the last event, without the page headers between them.
    pub fn bytes(&self) -> &[u8] {
        if self.crossing.is_empty() {
            let (start, end) = self.bytes;
            self.window.get(start, end).unwrap_or_default()
        } else {
            &self.crossing
        }
    }

    /// Where what comes next begins, in bytes from the start of what is read.
    pub fn next_offset(&self) -> usize {
        self.at
    }

    /// What went wrong with reading the input: then the events say nothing of it.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.window.take_error()
    }

    /// The pages of the run so far whose flags or timeline differ from the page before.
    pub fn changes(&self) -> &[PageState] {
        &self.changes
    }

    /// The next event; `None` behind the last byte.
    pub fn next_event(&mut self, layout: &mut RecordLayout) -> Option<Event> {
        self.crossing.clear();
        self.bytes = (0, 0);
        match self.step {
            Step::Outside => self.outside(),
            Step::Lead(remaining_len) => self.lead(remaining_len),
            Step::Records => self.record(layout),
            Step::EndRun => {
                self.step = Step::Outside;
                Some(Event::RunEnd { offset: self.at })
            }
            Step::Done => None,
        }
    }

    fn outside(&mut self) -> Option<Event> {
        let start = self.at;
        if start == self.window.len() {
            self.step = Step::Done;
            return None;
        }
        let mut page = start.next_multiple_of(PAGE_SIZE);
        while page < self.window.len() {
            self.window.move_to(page);
            if let Some(header) = self.page_header(page) {
                if page == start {
                    return Some(self.start_run(page, header));
                }
                break;
            }
            page += PAGE_SIZE;
        }
        self.at = page.min(self.window.len());
        Some(Event::Other {
            start,
            end: self.at,
        })
    }

    fn start_run(&mut self, page: usize, header: PageHeader) -> Event {
        self.changes.clear();
        self.state = state_of(page, &header);
        self.at = page + self.header.page_header_len(page);
        self.step = match header.remaining_len {
            0 => Step::Records,
            len => Step::Lead(len),
        };
        Event::RunStart {
            state: self.state,
            remaining_len: header.remaining_len,
        }
    }

    fn lead(&mut self, remaining_len: u32) -> Option<Event> {
        let whole = self.take(remaining_len as usize) && self.skip_padding();
        self.step = if whole { Step::Records } else { Step::EndRun };
        Some(Event::Lead { whole })
    }

    fn record(&mut self, layout: &mut RecordLayout) -> Option<Event> {
        let boundary = self.at;
        if self.at == self.window.len() || !self.enter_page(0) {
            self.at = boundary;
            self.step = Step::EndRun;
            return self.next_event(layout);
        }
        let start = self.at;
        // A record begins at a multiple of 8, so its length stands whole on this page.
        let total_len = self.window.get(start, start + 4);
        let total_len = total_len.and_then(|len| read_u32(len, 0)).unwrap_or(0) as usize;
        if total_len >= RECORD_HEADER_LEN {
            let lsn = Lsn(self.header.start.0 + start as u64);
            if !self.take(total_len) {
                self.step = Step::EndRun;
                return Some(Event::Tail { lsn });
            }
            let read = match self.trusts_checksums {
                true => layout.read_unchecked(self.bytes(), self.header.version),
                false => layout.read(self.bytes(), self.header.version),
            };
            if read.is_ok() && self.skip_padding() {
                return Some(Event::Record { lsn });
            }
        }
        self.crossing.clear();
        self.at = boundary;
        // Changes seen on pages that turn out not to belong to the run.
        let pages = boundary.div_ceil(PAGE_SIZE) as u32;
        self.changes.retain(|change| change.page < pages);
        self.step = Step::EndRun;
        self.next_event(layout)
    }

    /// Takes `len` bytes of the run's records, over as many pages as they need. `false` where
    /// the run ends before: then what there was is taken.
    fn take(&mut self, len: usize) -> bool {
        let on_page = self.left_on_page();
        if len <= on_page {
            self.bytes = (self.at, self.at + len);
            self.at += len;
            return true;
        }
        let mut left = len;
        loop {
            let part = left.min(self.left_on_page());
            let bytes = self.window.get(self.at, self.at + part);
            self.crossing.extend_from_slice(bytes.unwrap_or_default());
            self.at += part;
            left -= part;
            if left == 0 {
                return true;
            }
            if !self.enter_page(left) {
                return false;
            }
        }
    }

    fn left_on_page(&self) -> usize {
        let end = (self.at + 1)
            .next_multiple_of(PAGE_SIZE)
            .min(self.window.len());
        if self.at.is_multiple_of(PAGE_SIZE) {
            0
        } else {
            end - self.at
        }
    }

    /// Goes behind the header of the page that begins here, if one does and is as expected.
    fn enter_page(&mut self, remaining_len: usize) -> bool {
        self.window.move_to(self.at);
        if !self.at.is_multiple_of(PAGE_SIZE) {
            return self.at < self.window.len();
        }
        let Some(header) = self.page_header(self.at) else {
            return false;
        };
        if header.remaining_len as usize != remaining_len {
            return false;
        }
        let state = state_of(self.at, &header);
        if (state.flags, state.timeline) != (self.state.flags, self.state.timeline) {
            if state.flags & self.header.version.overwrite_contrecord != 0 {
                return false;
            }
            self.changes.push(state);
        }
        self.state = state;
        self.at += self.header.page_header_len(self.at);
        true
    }

    /// The header at `page`, if a page of this segment begins there.
    fn page_header(&self, page: usize) -> Option<PageHeader> {
        let end = self.window.len().min(page + PAGE_SIZE);
        let header = PageHeader::read(self.window.get(page, end)?)?;
        let contrecord = header.flags & FIRST_IS_CONTRECORD != 0;
        let long = header.flags & LONG_HEADER != 0;
        let belongs = header.magic == self.header.version.page_magic
            && header.address == self.header.start.0 + page as u64
            && contrecord == (header.remaining_len != 0)
            && long == (page == 0 && self.header.offset_in_segment() == 0)
            && page + self.header.page_header_len(page) < self.window.len();
        belongs.then_some(header)
    }

    /// Zeros up to the next multiple of 8 are no part of a record but follow it.
    fn skip_padding(&mut self) -> bool {
        let end = max_align(self.at);
        let zero = self
            .window
            .get(self.at, end)
            .is_some_and(|pad| pad.iter().all(|&b| b == 0));
        if zero {
            self.at = end;
        }
        zero
    }
}

fn state_of(page: usize, header: &PageHeader) -> PageState {
    PageState {
        page: (page / PAGE_SIZE) as u32,
        flags: header.flags & !PLACE_FLAGS,
        timeline: header.timeline,
    }
}
