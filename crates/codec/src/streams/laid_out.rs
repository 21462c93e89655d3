//! The streams of an encoder in the order of the content, and how each will lie there.

use super::bins;
use super::directory::{Content, END_OF_KINDS, Extent};
use super::kind::StreamKind;
use super::layout::Layout;
use super::layout_choice::{Candidate, Chooser, Verdict};
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

/// All streams, their layouts chosen. They take their final places as they are written: first
/// those that are not coded, then the others.
pub struct LaidOut {
    front: Vec<u8>,
    streams: Vec<Laid>,
    unpacked_len: usize,
}

/// A stream and its layout. If that is coded, the bytes are coded already.
struct Laid {
    stream: Filled,
    layout: Layout,
    /// The layout that it would have if it were not coded.
    plain_layout: Layout,
}

impl LaidOut {
    /// Chooses layouts for streams that are in the order of the content.
    pub fn new(streams: Vec<Filled>, mut chooser: Chooser) -> LaidOut {
        let lens = streams.iter().map(|stream| stream.bytes.len());
        let len: usize = lens.sum();
        let mut laid: Vec<Laid> = Vec::with_capacity(streams.len());
        for stream in streams {
            let (stream, repeated) = Laid::new(stream, laid.len() as u32, &mut chooser);
            if let Some(repeated) = repeated {
                laid[repeated as usize].decode();
            }
            laid.push(stream);
        }
        let directory = directory(&laid);
        let mut front = Vec::new();
        varint::write(&mut front, directory.len() as u64);
        front.extend_from_slice(&directory);
        LaidOut {
            unpacked_len: front.len() + len,
            front,
            streams: laid,
        }
    }

    /// Bytes of the content.
    pub fn len(&self) -> usize {
        let lens = self.streams.iter().map(Laid::len);
        self.front.len() + lens.sum::<usize>()
    }

    /// Bytes of the directory, and of all streams as the model has them.
    pub fn unpacked_len(&self) -> usize {
        self.unpacked_len
    }

    /// Writes the content. One stream after the other is freed.
    pub fn write<S: ContentSink>(self, sink: &mut S) -> Result<(), S::Error> {
        sink.part(std::iter::once(self.front.as_slice()))?;
        let mut scratch = Scratch::default();
        let (coded, plain): (Vec<_>, Vec<_>) = self.streams.into_iter().partition(Laid::is_coded);
        for Laid { stream, layout, .. } in plain {
            scratch.write(&stream, layout, sink)?;
        }
        coded
            .into_iter()
            .try_for_each(|coded| sink.part(coded.stream.bytes.iter()))
    }

    /// The content in one piece.
    pub fn into_content(self) -> Content {
        let coded = self.streams.iter().filter(|stream| stream.is_coded());
        let coded_len: usize = coded.map(Laid::len).sum();
        let mut content = Content {
            bytes: Vec::with_capacity(self.len()),
            cuts: Vec::new(),
            streams_start: self.front.len(),
            coded_start: self.len() - coded_len,
            extents: Vec::new(),
        };
        content.extents = self.extents(content.coded_start);
        let Ok(()) = self.write(&mut content);
        content.cuts.retain(|&cut| cut <= content.coded_start);
        content
    }

    fn extents(&self, coded_start: usize) -> Vec<Extent> {
        let mut plain_end = self.front.len();
        let mut coded_end = coded_start;
        let extents = self.streams.iter().map(|laid| {
            let end = match laid.is_coded() {
                true => &mut coded_end,
                false => &mut plain_end,
            };
            let start = *end;
            *end += laid.len();
            Extent {
                kind: laid.stream.kind,
                width: laid.stream.width,
                layout: laid.layout,
                block_rows: BLOCK_ROWS,
                start,
                end: *end,
            }
        });
        extents.collect()
    }
}

impl Laid {
    /// Chooses a layout, and codes the stream where that is the choice. Returns also the number of
    /// a coded stream before it that had better not be.
    fn new(mut stream: Filled, number: u32, chooser: &mut Chooser) -> (Laid, Option<u32>) {
        let (kind, width) = (stream.kind, stream.width);
        let plain_layout = chooser.choose(kind, &stream.bytes, width);
        let mut layout = plain_layout;
        let mut repeated = None;
        if chooser.may_code(stream.bytes.len(), width) {
            stream.bytes.join();
            let candidate = Candidate {
                number,
                kind,
                width,
                bytes: &stream.bytes,
            };
            match chooser.coded(candidate, plain_layout) {
                Verdict::Plain => {}
                Verdict::PlainAs(source) => repeated = Some(source),
                Verdict::Coded(coded_layout, coded) => {
                    layout = coded_layout;
                    stream.bytes = coded.into();
                }
            }
        }
        let laid = Laid {
            stream,
            layout,
            plain_layout,
        };
        (laid, repeated)
    }

    fn is_coded(&self) -> bool {
        self.layout.is_coded()
    }

    fn len(&self) -> usize {
        self.stream.bytes.len()
    }

    /// Makes a coded stream what it was before.
    fn decode(&mut self) {
        let mut rows = Vec::new();
        let (coded, width) = (self.stream.bytes.joined(), self.stream.width);
        let scratch = &mut bins::Scratch::default();
        let decoded = self
            .layout
            .decode(coded, width, usize::MAX, scratch, &mut rows);
        if self.is_coded() && decoded.is_ok() {
            self.stream.bytes = rows.into();
            self.layout = self.plain_layout;
        }
    }
}

fn directory(streams: &[Laid]) -> Vec<u8> {
    let mut directory = Vec::new();
    for run in streams.chunk_by(|a, b| a.stream.kind == b.stream.kind) {
        directory.push(run[0].stream.kind as u8);
        varint::write(&mut directory, run.len() as u64);
    }
    directory.push(END_OF_KINDS);
    for laid in streams {
        varint::write(&mut directory, laid.len() as u64);
    }
    directory.extend(streams.iter().map(|laid| laid.stream.width as u8));
    directory.extend(streams.iter().map(|laid| laid.layout as u8));
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
