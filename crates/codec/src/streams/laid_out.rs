//! The streams of an encoder in the order of the content, and how each will lie there.

use super::directory::{Content, END_OF_KINDS, Extent};
use super::kind::StreamKind;
use super::layout::Layout;
use super::layout_choice::Chooser;
use super::parts::Parts;
use crate::limits::BLOCK_ROWS;
use crate::varint;

/// A stream, or a plane of one, of this many bytes gets statistics of its own.
pub const CUT_MIN: usize = 4096;

/// A stream of the encoder.
#[derive(Debug)]
pub struct Filled {
    /// What it holds.
    pub kind: StreamKind,
    /// Bytes of a row.
    pub width: usize,
    /// What was put into it.
    pub bytes: Parts,
}

/// Takes content from front to back.
pub trait ContentSink {
    /// What can go wrong.
    type Error;

    /// The next bytes, all of one kind.
    fn part<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Result<(), Self::Error>;
}

/// All streams, their layouts chosen. They take their final places as they are written.
pub struct LaidOut {
    front: Vec<u8>,
    streams: Vec<(Filled, Layout)>,
}

impl LaidOut {
    /// Chooses layouts for streams that are in the order of the content.
    pub fn new(streams: Vec<Filled>, mut chooser: Chooser) -> LaidOut {
        let streams = streams.into_iter().map(|stream| {
            let layout = chooser.choose(stream.kind, &stream.bytes, stream.width);
            (stream, layout)
        });
        let streams: Vec<_> = streams.collect();
        let directory = directory(&streams);
        let mut front = Vec::new();
        varint::write(&mut front, directory.len() as u64);
        front.extend_from_slice(&directory);
        LaidOut { front, streams }
    }

    /// Bytes of the content.
    pub fn len(&self) -> usize {
        let lens = self.streams.iter().map(|(stream, _)| stream.bytes.len());
        self.front.len() + lens.sum::<usize>()
    }

    /// Writes the content. One stream after the other is freed.
    pub fn write<S: ContentSink>(self, sink: &mut S) -> Result<(), S::Error> {
        sink.part(std::iter::once(self.front.as_slice()))?;
        let mut scratch = Scratch::default();
        for (stream, layout) in self.streams {
            scratch.write(&stream, layout, sink)?;
        }
        Ok(())
    }

    /// The content in one piece.
    pub fn into_content(self) -> Content {
        let mut content = Content {
            bytes: Vec::with_capacity(self.len()),
            cuts: Vec::new(),
            streams_start: self.front.len(),
            extents: self.extents(),
        };
        let Ok(()) = self.write(&mut content);
        content
    }

    fn extents(&self) -> Vec<Extent> {
        let mut end = self.front.len();
        let extents = self.streams.iter().map(|(stream, layout)| {
            let start = end;
            end += stream.bytes.len();
            Extent {
                kind: stream.kind,
                width: stream.width,
                layout: *layout,
                block_rows: BLOCK_ROWS,
                start,
                end,
            }
        });
        extents.collect()
    }
}

fn directory(streams: &[(Filled, Layout)]) -> Vec<u8> {
    let mut directory = Vec::new();
    for run in streams.chunk_by(|(a, _), (b, _)| a.kind == b.kind) {
        directory.push(run[0].0.kind as u8);
        varint::write(&mut directory, run.len() as u64);
    }
    directory.push(END_OF_KINDS);
    for (stream, _) in streams {
        varint::write(&mut directory, stream.bytes.len() as u64);
    }
    directory.extend(streams.iter().map(|(stream, _)| stream.width as u8));
    directory.extend(streams.iter().map(|(_, layout)| *layout as u8));
    directory
}

/// Memory in which a block of rows takes its layout.
#[derive(Default)]
struct Scratch {
    rows: Vec<u8>,
    laid: Vec<u8>,
}

impl Scratch {
    fn write<S: ContentSink>(
        &mut self,
        stream: &Filled,
        layout: Layout,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        if layout == Layout::Rows {
            return sink.part(stream.bytes.iter());
        }
        let (len, width) = (stream.bytes.len(), stream.width);
        let block_len = width * BLOCK_ROWS;
        for start in (0..len).step_by(block_len) {
            self.rows.clear();
            let block = start..len.min(start + block_len);
            stream.bytes.copy(block, &mut self.rows);
            self.laid.resize(self.rows.len(), 0);
            layout.apply(&self.rows, width, &mut self.laid);
            let (planes, rest) = self
                .laid
                .split_at(self.laid.len() - self.laid.len() % width);
            for plane in planes.chunks_exact((planes.len() / width).max(1)) {
                sink.part(std::iter::once(plane))?;
            }
            sink.part(std::iter::once(rest))?;
        }
        Ok(())
    }
}

impl ContentSink for Content {
    type Error = std::convert::Infallible;

    fn part<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Result<(), Self::Error> {
        let start = self.bytes.len();
        pieces.for_each(|piece| self.bytes.extend_from_slice(piece));
        cut_around(&mut self.cuts, start, self.bytes.len());
        Ok(())
    }
}

/// Cuts before and after a part that is long.
pub fn cut_around(cuts: &mut Vec<usize>, start: usize, end: usize) {
    if end - start < CUT_MIN {
        return;
    }
    if start > 0 && cuts.last() != Some(&start) {
        cuts.push(start);
    }
    cuts.push(end);
}
