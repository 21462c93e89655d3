//! The coder of the encoder: streams being filled.

use super::bins::Scratch;
use super::coder::{Choices, Coder, StreamId};
use super::directory::{Content, END_OF_KINDS, Extent};
use super::kind::StreamKind;
use super::layout::Layout;
use super::layout_choice::{Chooser, Stream, Verdict};
use super::lists::Lists;
use super::parts::Parts;
use crate::error::DecodeError;
use crate::limits::STREAMS_MAX;
use crate::varint;

/// A stream or plane of this many bytes gets statistics of its own.
pub const CUT_MIN: usize = 4096;

/// A stream of the encoder.
#[derive(Debug)]
struct Filling {
    kind: StreamKind,
    width: usize,
    /// How the bytes will be laid out; where that is coded, they already are.
    layout: Layout,
    /// What it would be if the stream were not coded.
    plain_layout: Layout,
    bytes: Parts,
}

/// The coder of the encoder.
#[derive(Debug, Default)]
pub struct StreamWriter {
    choices: Choices,
    streams: Vec<Filling>,
    lists: Lists,
    failed: bool,
}

impl Coder for StreamWriter {
    const ENCODING: bool = true;

    fn choices(&self) -> Choices {
        self.choices
    }

    fn take_list(&mut self, cost: usize) -> bool {
        self.lists.take(cost)
    }

    fn open(&mut self, kind: StreamKind, width: usize) -> StreamId {
        let width = if (1..=255).contains(&width) { width } else { 1 };
        self.streams.push(Filling {
            kind,
            width,
            layout: Layout::Rows,
            plain_layout: Layout::Rows,
            bytes: Parts::default(),
        });
        self.failed |= self.streams.len() > STREAMS_MAX;
        StreamId((self.streams.len() - 1) as u32)
    }

    #[inline]
    fn u8(&mut self, stream: StreamId, value: u8) -> u8 {
        self.streams[stream.0 as usize].bytes.push(&[value]);
        value
    }

    #[inline]
    fn u16(&mut self, stream: StreamId, value: u16) -> u16 {
        self.streams[stream.0 as usize]
            .bytes
            .push(&value.to_le_bytes());
        value
    }

    #[inline]
    fn u32(&mut self, stream: StreamId, value: u32) -> u32 {
        self.streams[stream.0 as usize]
            .bytes
            .push(&value.to_le_bytes());
        value
    }

    #[inline]
    fn u64(&mut self, stream: StreamId, value: u64) -> u64 {
        self.streams[stream.0 as usize]
            .bytes
            .push(&value.to_le_bytes());
        value
    }

    #[inline]
    fn bytes(&mut self, stream: StreamId, bytes: &mut [u8]) {
        self.streams[stream.0 as usize].bytes.push(bytes);
    }

    fn fail(&mut self) {
        self.failed = true;
    }

    fn failed(&self) -> bool {
        self.failed
    }
}

impl StreamWriter {
    /// Without any stream.
    pub fn new(choices: Choices) -> StreamWriter {
        StreamWriter {
            choices,
            ..StreamWriter::default()
        }
    }

    /// The streams of content of which none is coded, to be laid out with other choices.
    pub fn of_content(content: &Content, choices: Choices) -> Result<StreamWriter, DecodeError> {
        let mut scratch = Vec::new();
        let filling = |extent: &Extent| {
            let mut rows = content.bytes[extent.start..extent.end].to_vec();
            extent.layout.undo(&mut rows, extent.width, &mut scratch)?;
            Ok(Filling {
                kind: extent.kind,
                width: extent.width,
                layout: Layout::Rows,
                plain_layout: Layout::Rows,
                bytes: rows.into(),
            })
        };
        let streams: Result<_, DecodeError> = content.extents.iter().map(filling).collect();
        Ok(StreamWriter {
            streams: streams?,
            ..StreamWriter::new(choices)
        })
    }

    /// Appends bytes to a stream: what [`Coder::bytes`] does in this direction.
    #[inline]
    pub fn append(&mut self, stream: StreamId, bytes: &[u8]) {
        self.streams[stream.0 as usize].bytes.push(bytes);
    }

    /// Streams of the model so far, all together.
    pub fn total_len(&self) -> usize {
        self.streams.iter().map(|stream| stream.bytes.len()).sum()
    }

    /// Lays the streams out, after the directory.
    pub fn into_content(mut self) -> Content {
        // Stable: streams of one kind stay in the order in which they were opened.
        self.streams.sort_by_key(|stream| stream.kind);
        let unpacked_len = self.total_len();
        let mut chooser = Chooser::new(self.choices);
        for number in 0..self.streams.len() {
            let source = self.streams[number].choose(number as u32, &mut chooser);
            if let Some(source) = source {
                self.streams[source as usize].decode();
            }
        }
        let directory = self.directory();
        let mut bytes = Vec::new();
        varint::write(&mut bytes, directory.len() as u64);
        bytes.extend_from_slice(&directory);
        let streams_start = bytes.len();
        bytes.reserve_exact(self.total_len());
        let is_coded = |stream: &&Filling| stream.layout.is_coded();
        let coded = self.streams.iter().filter(is_coded);
        let coded_len: usize = coded.map(|stream| stream.bytes.len()).sum();
        let coded_start = streams_start + self.total_len() - coded_len;
        let mut coded = Vec::with_capacity(coded_len);
        let mut cuts = Cuts {
            places: Vec::new(),
            last: 0,
        };
        cuts.part(streams_start);
        let mut extents = Vec::with_capacity(self.streams.len());
        // One after the other is freed as it is copied.
        for mut stream in self.streams {
            let start = match stream.layout.is_coded() {
                true => coded_start + coded.len(),
                false => bytes.len(),
            };
            let end = start + stream.bytes.len();
            extents.push(Extent {
                kind: stream.kind,
                width: stream.width,
                layout: stream.layout,
                start,
                end,
            });
            match stream.layout.is_coded() {
                true => coded.extend_from_slice(stream.bytes.join()),
                false => stream.lay_out(&mut bytes, &mut cuts),
            }
        }
        bytes.extend_from_slice(&coded);
        Content {
            bytes,
            cuts: cuts.places,
            streams_start,
            coded_start,
            unpacked_len: streams_start + unpacked_len,
            extents,
        }
    }

    /// The directory.
    fn directory(&self) -> Vec<u8> {
        let mut directory = Vec::new();
        for run in self.streams.chunk_by(|a, b| a.kind == b.kind) {
            directory.push(run[0].kind as u8);
            varint::write(&mut directory, run.len() as u64);
        }
        directory.push(END_OF_KINDS);
        for stream in &self.streams {
            varint::write(&mut directory, stream.bytes.len() as u64);
        }
        directory.extend(self.streams.iter().map(|stream| stream.width as u8));
        directory.extend(self.streams.iter().map(|stream| stream.layout as u8));
        directory
    }
}

impl Filling {
    /// Chooses a layout, and codes the stream where that is the choice. Returns the number of a
    /// coded stream that had better not be.
    fn choose(&mut self, number: u32, chooser: &mut Chooser) -> Option<u32> {
        if !chooser.has_choice(self.bytes.len(), self.width) {
            return None;
        }
        let (kind, width) = (self.kind, self.width);
        let rows = self.bytes.join();
        self.plain_layout = chooser.choose(kind, rows, width);
        self.layout = self.plain_layout;
        let stream = Stream {
            number,
            kind,
            width,
            rows,
        };
        match chooser.coded(stream, self.layout) {
            Verdict::Plain => None,
            Verdict::PlainAs(source) => Some(source),
            Verdict::Coded(layout, coded) => {
                self.layout = layout;
                self.bytes = coded.into();
                None
            }
        }
    }

    /// Makes a coded stream what it was before.
    fn decode(&mut self) {
        let mut rows = Vec::new();
        let (layout, coded) = (self.layout, self.bytes.join());
        let scratch = &mut Scratch::default();
        if layout.is_coded()
            && layout
                .decode(coded, self.width, usize::MAX, scratch, &mut rows)
                .is_ok()
        {
            self.bytes = rows.into();
            self.layout = self.plain_layout;
        }
    }

    /// Appends the stream in its layout, which is not coded.
    fn lay_out(&mut self, content: &mut Vec<u8>, cuts: &mut Cuts) {
        let start = content.len();
        if self.layout == Layout::Rows {
            for part in self.bytes.iter() {
                content.extend_from_slice(part);
            }
        } else {
            let rows = self.bytes.join();
            content.resize(start + rows.len(), 0);
            self.layout.apply(rows, self.width, &mut content[start..]);
            for plane in 1..self.width {
                cuts.part(start + plane * (rows.len() / self.width));
            }
        }
        cuts.part(content.len());
    }
}

/// Places where long parts begin and end.
struct Cuts {
    places: Vec<usize>,
    last: usize,
}

impl Cuts {
    fn part(&mut self, end: usize) {
        if end - self.last >= CUT_MIN {
            if self.places.last() != Some(&self.last) && self.last != 0 {
                self.places.push(self.last);
            }
            self.places.push(end);
        }
        self.last = end;
    }
}
