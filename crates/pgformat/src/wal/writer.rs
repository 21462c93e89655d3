//! Puts a segment together again: the reverse of [`super::SegmentReader`].

use super::max_align;
use super::page_header::{FIRST_IS_CONTRECORD, LONG_HEADER, PageHeader};
use super::reader::PageState;
use super::segment_header::SegmentHeader;
use crate::PAGE_SIZE;

/// Writes runs of records, with the page headers that they make, and other bytes.
#[derive(Debug)]
pub struct SegmentWriter {
    header: SegmentHeader,
    /// What was not taken yet.
    out: Vec<u8>,
    /// The bytes are only counted.
    counts_only: bool,
    /// Bytes written, with those that were taken.
    len: usize,
    state: PageState,
    changes: Vec<PageState>,
    next_change: usize,
}

impl SegmentWriter {
    /// Begins a segment, or a part of one; `capacity` is what will be written before it is taken, as far as the
    /// caller trusts it.
    pub fn new(header: SegmentHeader, capacity: usize) -> Self {
        SegmentWriter {
            header,
            out: Vec::with_capacity(capacity),
            counts_only: false,
            len: 0,
            state: PageState {
                page: 0,
                flags: 0,
                timeline: 0,
            },
            changes: Vec::new(),
            next_change: 0,
        }
    }

    /// The same, for somebody who wants to know where records would stand, and not what is written.
    pub fn counting(header: SegmentHeader) -> Self {
        SegmentWriter {
            counts_only: true,
            ..SegmentWriter::new(header, 0)
        }
    }

    /// The bytes are only counted.
    pub fn counts_only(&self) -> bool {
        self.counts_only
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the next byte of a record would stand.
    pub fn next_record_offset(&self) -> usize {
        match self.len {
            at if at.is_multiple_of(PAGE_SIZE) => at + self.header.page_header_len(at),
            at => at,
        }
    }

    /// What was written and not taken yet.
    pub fn ready(&self) -> &[u8] {
        &self.out
    }

    /// The same, to be taken from its front.
    pub fn ready_mut(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The segment, if nothing was taken before.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Begins a run of pages at a page boundary. `changes` are the run's, in order.
    pub fn start_run(&mut self, state: PageState, remaining_len: u32, changes: Vec<PageState>) {
        self.state = state;
        self.changes = changes;
        self.next_change = 0;
        self.page_header(remaining_len);
    }

    /// Writes a whole record and the zeros behind it.
    pub fn record(&mut self, bytes: &[u8]) {
        self.fragment(bytes, bytes.len());
        self.padding();
    }

    /// Writes the first bytes of a record that has `total_len`, or of the rest of one.
    pub fn fragment(&mut self, bytes: &[u8], total_len: usize) {
        self.in_pages(bytes.len(), total_len, |writer, part| {
            writer.append(&bytes[part]);
        });
    }

    /// Counts a whole record of so many bytes, and the zeros behind it.
    pub fn count_record(&mut self, len: usize) {
        self.in_pages(len, len, |writer, part| writer.len += part.len());
        self.padding();
    }

    /// The parts of a record's bytes on each page.
    fn in_pages(
        &mut self,
        len: usize,
        total_len: usize,
        mut append: impl FnMut(&mut SegmentWriter, std::ops::Range<usize>),
    ) {
        let mut done = 0;
        while done < len {
            if self.len.is_multiple_of(PAGE_SIZE) {
                let remaining = if done == 0 { 0 } else { total_len - done };
                self.next_page(remaining as u32);
            }
            let left = PAGE_SIZE - self.len % PAGE_SIZE;
            let part = left.min(len - done);
            append(self, done..done + part);
            done += part;
        }
    }

    /// Writes zeros up to a multiple of 8.
    pub fn padding(&mut self) {
        self.zeros(max_align(self.len) - self.len);
    }

    /// Writes bytes that are no pages.
    pub fn other(&mut self, bytes: &[u8]) {
        self.append(bytes);
    }

    /// Writes bytes of zero that are no pages.
    pub fn zeros(&mut self, len: usize) {
        if !self.counts_only {
            self.out.resize(self.out.len() + len, 0);
        }
        self.len += len;
    }

    fn append(&mut self, bytes: &[u8]) {
        if !self.counts_only {
            self.out.extend_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    fn next_page(&mut self, remaining_len: u32) {
        let page = (self.len / PAGE_SIZE) as u32;
        if let Some(change) = self.changes.get(self.next_change)
            && change.page == page
        {
            self.state = *change;
            self.next_change += 1;
        }
        self.page_header(remaining_len);
    }

    fn page_header(&mut self, remaining_len: u32) {
        let first = self.is_empty() && self.header.offset_in_segment() == 0;
        let mut flags = self.state.flags;
        if remaining_len != 0 {
            flags |= FIRST_IS_CONTRECORD;
        }
        if first {
            flags |= LONG_HEADER;
        }
        let header = PageHeader {
            magic: self.header.version.page_magic,
            flags,
            timeline: self.state.timeline,
            address: self.header.start.0.wrapping_add(self.len as u64),
            remaining_len,
        };
        self.append(&header.to_bytes());
        if first {
            self.append(&self.header.long_part());
        }
    }
}
