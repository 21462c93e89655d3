//! The coder of the encoder: streams being filled.

use super::coder::{Choices, Coder, StreamId};
use super::directory::{Content, END_OF_KINDS, Extent};
use super::kind::StreamKind;
use super::layout::Layout;
use super::layout_choice;
use super::lists::Lists;
use super::parts::Parts;
use crate::limits::STREAMS_MAX;
use crate::varint;

/// A stream or plane of this many bytes gets statistics of its own.
pub const CUT_MIN: usize = 4096;

/// A stream of the encoder.
#[derive(Debug)]
struct Filling {
    kind: StreamKind,
    width: usize,
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
        let directory = self.directory();
        let mut front = Vec::new();
        varint::write(&mut front, directory.len() as u64);
        front.extend_from_slice(&directory);
        let streams_start = front.len();
        let layouts_at = streams_start - self.streams.len();
        let mut bytes = front;
        bytes.reserve_exact(self.total_len());
        let mut cuts = Cuts {
            places: Vec::new(),
            last: 0,
        };
        cuts.part(streams_start);
        let mut extents = Vec::with_capacity(self.streams.len());
        let mut chooser = layout_choice::Chooser::new(self.choices);
        let mut scratch = Vec::new();
        let mut start = streams_start;
        // One after the other is freed as it is copied.
        for (number, stream) in self.streams.into_iter().enumerate() {
            let end = start + stream.bytes.len();
            let layout = lay_out(&stream, &mut chooser, &mut scratch, &mut bytes);
            bytes[layouts_at + number] = layout as u8;
            let rows = stream.bytes.len() / stream.width;
            if layout != Layout::Rows {
                for plane in 1..stream.width {
                    cuts.part(start + plane * rows);
                }
            }
            cuts.part(end);
            extents.push(Extent {
                kind: stream.kind,
                width: stream.width,
                layout,
                start,
                end,
            });
            start = end;
        }
        Content {
            bytes,
            cuts: cuts.places,
            streams_start,
            extents,
        }
    }

    /// The directory, with layouts that are yet to be chosen at its end.
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
        directory.resize(directory.len() + self.streams.len(), Layout::Rows as u8);
        directory
    }
}

/// Appends a stream in the layout that is chosen for it.
fn lay_out(
    stream: &Filling,
    chooser: &mut layout_choice::Chooser,
    scratch: &mut Vec<u8>,
    content: &mut Vec<u8>,
) -> Layout {
    if stream.width == 1 {
        for part in stream.bytes.iter() {
            content.extend_from_slice(part);
        }
        return Layout::Rows;
    }
    let rows = stream.bytes.whole(scratch);
    let layout = chooser.choose(stream.kind, rows, stream.width);
    if layout == Layout::Rows {
        content.extend_from_slice(rows);
    } else {
        let start = content.len();
        content.resize(start + rows.len(), 0);
        layout.apply(rows, stream.width, &mut content[start..]);
    }
    layout
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
