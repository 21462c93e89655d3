//! A segment, or a part of one, as streams, and back.
//!
//! The stream `Spans` is a list of parts of the segment: 0 ends it; 1 is a run of pages with
//! records (see [`Run`]); 2 is other bytes: their number and how many zeros follow, u32 each.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io;

use walzip_pgformat::bytes::read_u32;
use walzip_pgformat::wal::{
    Event, PageState, RecordLayout, SegmentHeader, SegmentReader, SegmentWriter,
};
use walzip_pgformat::{Input, Lsn, PAGE_SIZE};
use walzip_replay::Rules;

use crate::error::{DecodeError, DecodeToError};
use crate::format_version::FormatVersion;
use crate::model::{ForetoldImages, History, Model};
use crate::original::{Original, PIECE_LEN};
use crate::streams::coder::{Choices, Coder, LazyStream, Proof, StreamId};
use crate::streams::filled::Filled;
use crate::streams::kind::StreamKind;
use crate::streams::{StreamReader, StreamWriter};

const END: u8 = 0;
const RUN: u8 = 1;
const OTHER: u8 = 2;

const BAD: DecodeError = DecodeError::Corrupt("streams do not make a segment");

/// What a run of pages has besides its records.
#[derive(Debug, Default)]
struct Run {
    flags: u16,
    timeline: u32,
    remaining_len: u32,
    lead_len: u32,
    lead_is_whole: bool,
    records: u32,
    tail_len: u32,
    changes: Vec<PageState>,
}

impl Run {
    fn beginning(state: PageState, remaining_len: u32) -> Run {
        Run {
            flags: state.flags,
            timeline: state.timeline,
            remaining_len,
            ..Run::default()
        }
    }

    fn code<C: Coder>(&mut self, coder: &mut C, stream: StreamId) {
        self.flags = coder.u16(stream, self.flags);
        self.timeline = coder.u32(stream, self.timeline);
        self.remaining_len = coder.u32(stream, self.remaining_len);
        self.lead_len = coder.u32(stream, self.lead_len);
        self.lead_is_whole = coder.u8(stream, self.lead_is_whole.into()) != 0;
        self.records = coder.u32(stream, self.records);
        self.tail_len = coder.u32(stream, self.tail_len);
        let count = coder.u32(stream, self.changes.len() as u32);
        for number in 0..count as usize {
            if coder.failed() {
                return;
            }
            let change = self.changes.get(number).copied();
            let known = change.unwrap_or(PageState {
                page: 0,
                flags: 0,
                timeline: 0,
            });
            let page = coder.u32(stream, known.page);
            let flags = coder.u16(stream, known.flags);
            let timeline = coder.u32(stream, known.timeline);
            if change.is_none() {
                self.changes.push(PageState {
                    page,
                    flags,
                    timeline,
                });
            }
        }
    }
}

/// The streams of a segment or of a part of one; `None` where it has more bytes than belong to
/// it, or where the format's limits are too narrow for it.
pub fn encode(
    segment: Input<'_>,
    header: &SegmentHeader,
    choices: Choices,
    history: Option<&mut History>,
) -> io::Result<Option<Vec<Filled>>> {
    if segment.len() > (header.segment_size - header.offset_in_segment()) as usize {
        return Ok(None);
    }
    let reader =
        SegmentReader::of_part(segment, *header).trusting_checksums(choices.proof != Proof::Each);
    Encoder::new(segment, header, choices, history).encode(reader)
}

struct Encoder<'s> {
    segment: Input<'s>,
    choices: Choices,
    coder: StreamWriter,
    model: Model,
    past: Past<'s>,
    fragments: LazyStream,
    other: LazyStream,
    bytes: Vec<u8>,
}

impl<'s> Encoder<'s> {
    fn new(
        segment: Input<'s>,
        header: &SegmentHeader,
        choices: Choices,
        history: Option<&'s mut History>,
    ) -> Encoder<'s> {
        Encoder {
            segment,
            choices,
            coder: StreamWriter::new(choices),
            model: Model::new(header, segment.len()),
            past: Past::new(history, header, segment.len(), FormatVersion::CURRENT),
            fragments: LazyStream::default(),
            other: LazyStream::default(),
            bytes: Vec::new(),
        }
    }

    fn encode(mut self, mut reader: SegmentReader<'_>) -> io::Result<Option<Vec<Filled>>> {
        let spans = LazyStream::default().open(&mut self.coder, StreamKind::Spans, 1);
        let mut layout = RecordLayout::default();
        let mut run = Run::default();
        while let Some(event) = reader.next_event(&mut layout) {
            if self.coder.failed() {
                return Ok(None);
            }
            match event {
                Event::RunStart {
                    state,
                    remaining_len,
                } => run = Run::beginning(state, remaining_len),
                Event::Lead { whole } => {
                    run.lead_len = reader.bytes().len() as u32;
                    run.lead_is_whole = whole;
                    self.past.lead(reader.bytes(), whole, reader.next_offset());
                    self.fragment(reader.bytes());
                }
                Event::Record { lsn } => {
                    self.record(lsn, &reader, &mut layout);
                    run.records += 1;
                }
                Event::Tail { .. } => {
                    run.tail_len = reader.bytes().len() as u32;
                    self.past.tail(reader.bytes());
                    self.fragment(reader.bytes());
                }
                Event::RunEnd { .. } => {
                    run.changes = reader.changes().to_vec();
                    self.coder.u8(spans, RUN);
                    run.code(&mut self.coder, spans);
                }
                Event::Other { start, end } => self.other(spans, start, end)?,
            }
        }
        if let Some(error) = reader.take_error() {
            return Err(error);
        }
        self.coder.u8(spans, END);
        self.model.finish(&mut self.coder);
        self.past.end();
        Ok((!self.coder.failed()).then(|| self.coder.into_streams()))
    }

    fn record(&mut self, lsn: Lsn, reader: &SegmentReader<'_>, layout: &mut RecordLayout) {
        let (coder, record) = (&mut self.coder, &mut self.bytes);
        record.clear();
        record.extend_from_slice(reader.bytes());
        let end = self.past.lsn_of(reader.next_offset());
        if let Some((history, images)) = &mut self.past.known {
            images.take_out(self.choices, history, layout, record);
        }
        self.model.code(coder, layout, record, self.past.history());
        self.past.follow(coder, lsn, layout, record);
        self.past.end_record(layout, end);
        self.model.end_record(lsn);
    }

    fn fragment(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        let stream = self
            .fragments
            .open(&mut self.coder, StreamKind::Fragment, 1);
        self.coder.bytes(stream, &mut self.bytes);
    }

    /// The part of the segment from `start` to `end`, which is no record.
    fn other(&mut self, spans: StreamId, start: usize, end: usize) -> io::Result<()> {
        let bytes = &mut self.bytes;
        bytes.clear();
        self.segment.append(start, end, bytes)?;
        let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
        bytes.truncate(bytes.len() - zeros);
        self.coder.u8(spans, OTHER);
        self.coder.u32(spans, bytes.len() as u32);
        self.coder.u32(spans, zeros as u32);
        if !bytes.is_empty() {
            let stream = self.other.open(&mut self.coder, StreamKind::Other, 1);
            self.coder.bytes(stream, bytes);
        }
        Ok(())
    }
}

/// Makes the segment of streams, or the part of one, of a length.
pub fn decode<'s>(
    streams: StreamReader<'s>,
    segment: SegmentHeader,
    len: usize,
    history: Option<&'s mut History>,
    original: &mut Original<'_>,
) -> Result<(), DecodeToError> {
    let writer = SegmentWriter::new(segment, len.min(2 * PIECE_LEN));
    Decoder::new(streams, &segment, len, history, writer).decode(original)
}

/// Makes of streams what the segment leaves for those after it, and not the segment.
pub fn pass<'s>(
    streams: StreamReader<'s>,
    segment: SegmentHeader,
    len: usize,
    history: &'s mut History,
) -> Result<(), DecodeToError> {
    let writer = SegmentWriter::counting(segment);
    let nothing = &mut io::sink();
    Decoder::new(streams, &segment, len, Some(history), writer).decode(&mut Original::new(nothing))
}

/// The WAL before a segment, if the segment is told from it.
struct Past<'h> {
    known: Option<(&'h mut History, ForetoldImages)>,
    header: SegmentHeader,
    rules: Rules,
    len: usize,
}

impl<'h> Past<'h> {
    fn new(
        history: Option<&'h mut History>,
        header: &SegmentHeader,
        len: usize,
        format: FormatVersion,
    ) -> Past<'h> {
        let rules = Rules {
            version: header.version,
            revision: format.replay(),
        };
        let known = history.map(|history| {
            history.begin(header, format);
            (history, ForetoldImages::new(rules, len))
        });
        Past {
            known,
            header: *header,
            rules,
            len,
        }
    }

    fn lsn_of(&self, offset: usize) -> Lsn {
        Lsn(self.header.start.0.wrapping_add(offset as u64))
    }

    fn lead(&mut self, bytes: &[u8], is_whole: bool, end: usize) {
        let end = self.lsn_of(end);
        if let Some((history, _)) = &mut self.known {
            history.lead(self.rules, bytes, is_whole, end);
        }
    }

    fn tail(&mut self, bytes: &[u8]) {
        if let Some((history, _)) = &mut self.known {
            history.tail(bytes);
        }
    }

    fn history(&self) -> Option<&History> {
        self.known.as_ref().map(|(history, _)| &**history)
    }

    fn follow<C: Coder>(
        &mut self,
        coder: &mut C,
        lsn: Lsn,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) {
        if let Some((history, images)) = &mut self.known {
            images.follow(coder, history, lsn, layout, record);
        }
    }

    /// Writes a record with its images, or counts it. Decoder only.
    fn write(
        &mut self,
        writer: &mut SegmentWriter,
        layout: &mut RecordLayout,
        record: &mut Vec<u8>,
    ) -> Option<()> {
        match &mut self.known {
            Some((history, images)) if writer.counts_only() => {
                writer.count_record(images.unfolded_len(history, layout, record)?);
            }
            Some((history, images)) => {
                images.unfold(history, layout, record)?;
                writer.record(record);
            }
            None => writer.record(record),
        }
        Some(())
    }

    fn end_record(&mut self, layout: &RecordLayout, end: Lsn) {
        if let Some((history, _)) = &mut self.known {
            history.set_positions(layout, end);
        }
    }

    fn end(&mut self) {
        if let Some((history, _)) = &mut self.known {
            history.end(&self.header, self.len);
        }
    }
}

struct Decoder<'s> {
    coder: StreamReader<'s>,
    model: Model,
    past: Past<'s>,
    writer: SegmentWriter,
    start: Lsn,
    len: usize,
    fragments: LazyStream,
    other: LazyStream,
    bytes: Vec<u8>,
}

impl<'s> Decoder<'s> {
    fn new(
        streams: StreamReader<'s>,
        segment: &SegmentHeader,
        len: usize,
        history: Option<&'s mut History>,
        writer: SegmentWriter,
    ) -> Decoder<'s> {
        let format = streams.format();
        Decoder {
            coder: streams,
            model: Model::new(segment, len),
            past: Past::new(history, segment, len, format),
            writer,
            start: segment.start,
            len,
            fragments: LazyStream::default(),
            other: LazyStream::default(),
            bytes: Vec::new(),
        }
    }

    fn decode(mut self, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        let spans = LazyStream::default().open(&mut self.coder, StreamKind::Spans, 1);
        loop {
            match self.coder.u8(spans, 0) {
                _ if self.coder.failed() => return Err(BAD.into()),
                END => break,
                RUN => self.run(spans, original)?,
                OTHER => self.other(spans)?,
                _ => return Err(BAD.into()),
            }
            self.hand_over(original)?;
        }
        if !self.coder.exhausted() || self.writer.len() != self.len {
            return Err(BAD.into());
        }
        self.past.end();
        original.write(self.writer.ready())
    }

    fn run(&mut self, spans: StreamId, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        let mut run = Run::default();
        run.code(&mut self.coder, spans);
        if self.coder.failed() || !self.writer.len().is_multiple_of(PAGE_SIZE) {
            return Err(BAD.into());
        }
        let page = (self.writer.len() / PAGE_SIZE) as u32;
        let state = PageState {
            page,
            flags: run.flags,
            timeline: run.timeline,
        };
        self.writer.start_run(state, run.remaining_len, run.changes);
        if run.remaining_len != 0 {
            if run.lead_len > run.remaining_len {
                return Err(BAD.into());
            }
            self.fragment(run.lead_len)?;
            self.writer
                .fragment(&self.bytes, run.remaining_len as usize);
            if run.lead_is_whole {
                self.writer.padding();
            }
            self.past
                .lead(&self.bytes, run.lead_is_whole, self.writer.len());
        }
        let mut layout = RecordLayout::default();
        for _ in 0..run.records {
            let lsn = Lsn(self
                .start
                .0
                .wrapping_add(self.writer.next_record_offset() as u64));
            let (coder, bytes) = (&mut self.coder, &mut self.bytes);
            self.model
                .code(coder, &mut layout, bytes, self.past.history());
            if coder.failed() {
                return Err(BAD.into());
            }
            self.past.follow(coder, lsn, &mut layout, bytes);
            if coder.failed() {
                return Err(BAD.into());
            }
            self.model.end_record(lsn);
            let written = self
                .past
                .write(&mut self.writer, &mut layout, &mut self.bytes);
            written.ok_or(BAD)?;
            self.check_len()?;
            let end = self.past.lsn_of(self.writer.len());
            self.past.end_record(&layout, end);
            self.hand_over(original)?;
        }
        if run.tail_len != 0 {
            self.fragment(run.tail_len)?;
            let total_len = read_u32(&self.bytes, 0).ok_or(BAD)? as usize;
            if total_len < self.bytes.len() {
                return Err(BAD.into());
            }
            self.past.tail(&self.bytes);
            self.writer.fragment(&self.bytes, total_len);
        }
        Ok(self.check_len()?)
    }

    /// What is ready, in whole pieces.
    fn hand_over(&mut self, original: &mut Original<'_>) -> Result<(), DecodeToError> {
        let ready = self.writer.ready().len();
        match ready - ready % PIECE_LEN {
            0 => Ok(()),
            len => original.write_front(self.writer.ready_mut(), len),
        }
    }

    fn fragment(&mut self, len: u32) -> Result<(), DecodeError> {
        self.bytes.clear();
        if len as usize > self.len.min(self.coder.content_len()) {
            return Err(BAD);
        }
        self.bytes.resize(len as usize, 0);
        let stream = self
            .fragments
            .open(&mut self.coder, StreamKind::Fragment, 1);
        self.coder.bytes(stream, &mut self.bytes);
        if self.coder.failed() {
            Err(BAD)
        } else {
            Ok(())
        }
    }

    fn other(&mut self, spans: StreamId) -> Result<(), DecodeError> {
        let len = self.coder.u32(spans, 0) as usize;
        let zeros = self.coder.u32(spans, 0) as usize;
        let left = self.len - self.writer.len();
        if len > self.coder.content_len() || len.checked_add(zeros).is_none_or(|total| total > left)
        {
            return Err(BAD);
        }
        if len > 0 {
            self.bytes.clear();
            self.bytes.resize(len, 0);
            let stream = self.other.open(&mut self.coder, StreamKind::Other, 1);
            self.coder.bytes(stream, &mut self.bytes);
            self.writer.other(&self.bytes);
        }
        self.writer.zeros(zeros);
        if self.coder.failed() {
            Err(BAD)
        } else {
            Ok(())
        }
    }

    fn check_len(&self) -> Result<(), DecodeError> {
        if self.writer.len() > self.len {
            Err(BAD)
        } else {
            Ok(())
        }
    }
}
