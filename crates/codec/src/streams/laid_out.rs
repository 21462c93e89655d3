//! The streams of an encoder in the order of the content, and how each will lie there.

use super::coder::Choices;
use super::directory::{Content, END_OF_KINDS, Extent};
use super::filled::Filled;
use super::layout::Layout;
use super::layout_choice::{CUT_MIN, Chooser, Verdict};
use crate::limits::BLOCK_ROWS;
use crate::varint;

/// Takes content from front to back.
pub trait ContentSink {
    /// What can go wrong.
    type Error;

    /// The next bytes, all of one kind.
    fn part<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Result<(), Self::Error>;
}

/// All streams, their layouts chosen. They take their final places as they are written: first
/// those that are not coded, then the others.
pub struct LaidOut<'s> {
    front: Vec<u8>,
    streams: Vec<Laid<'s>>,
}

/// A stream and how it is laid out.
struct Laid<'s> {
    stream: &'s Filled,
    /// The layout of its bytes, where these are not coded.
    plain: Layout,
    /// The coded bytes, and the layout that they are in.
    coded: Option<(Layout, Vec<u8>)>,
}

impl<'s> LaidOut<'s> {
    /// Chooses layouts for streams that are in the order of the content.
    pub fn new(streams: &'s [Filled], choices: Choices) -> LaidOut<'s> {
        let mut chooser = Chooser::new(choices);
        let mut laid: Vec<Laid<'_>> = Vec::with_capacity(streams.len());
        let mut scratch = Vec::new();
        for stream in streams {
            let (stream, repeated) =
                Laid::new(stream, laid.len() as u32, &mut chooser, &mut scratch);
            if let Some(repeated) = repeated {
                laid[repeated as usize].coded = None;
            }
            laid.push(stream);
        }
        let directory = directory(&laid);
        let mut front = Vec::new();
        varint::write(&mut front, directory.len() as u64);
        front.extend_from_slice(&directory);
        LaidOut {
            front,
            streams: laid,
        }
    }

    /// Bytes of the content.
    pub fn len(&self) -> usize {
        let lens = self.streams.iter().map(Laid::len);
        self.front.len() + lens.sum::<usize>()
    }

    /// Writes the content.
    pub fn write<S: ContentSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        sink.part(std::iter::once(self.front.as_slice()))?;
        let mut scratch = Scratch::default();
        for laid in &self.streams {
            if laid.coded.is_none() {
                scratch.write(laid.stream, laid.plain, sink)?;
            }
        }
        let coded = self.streams.iter().filter_map(|laid| laid.coded.as_ref());
        for (_, bytes) in coded {
            sink.part(std::iter::once(bytes.as_slice()))?;
        }
        Ok(())
    }

    /// The content in one piece.
    pub fn content(&self) -> Content {
        let coded = self.streams.iter().filter(|laid| laid.coded.is_some());
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
            let end = match laid.coded {
                Some(_) => &mut coded_end,
                None => &mut plain_end,
            };
            let start = *end;
            *end += laid.len();
            Extent {
                kind: laid.stream.kind,
                width: laid.stream.width,
                layout: laid.layout(),
                block_rows: BLOCK_ROWS,
                start,
                end: *end,
            }
        });
        extents.collect()
    }
}

impl<'s> Laid<'s> {
    /// Chooses a layout, and codes the stream where that is the choice. Returns also the number of
    /// a coded stream before it that had better not be. A stream in parts is put together in
    /// `scratch`.
    fn new(
        stream: &'s Filled,
        number: u32,
        chooser: &mut Chooser,
        scratch: &mut Vec<u8>,
    ) -> (Laid<'s>, Option<u32>) {
        let plain = chooser.choose(stream.kind, &stream.bytes, stream.width);
        let verdict = match chooser.may_code(stream.bytes.len(), stream.width) {
            true => chooser.coded(number, stream, plain, scratch),
            false => Verdict::Plain,
        };
        let (coded, repeated) = match verdict {
            Verdict::Plain => (None, None),
            Verdict::PlainAs(source) => (None, Some(source)),
            Verdict::Coded(layout, bytes) => (Some((layout, bytes)), None),
        };
        let laid = Laid {
            stream,
            plain,
            coded,
        };
        (laid, repeated)
    }

    fn layout(&self) -> Layout {
        self.coded
            .as_ref()
            .map_or(self.plain, |(layout, _)| *layout)
    }

    fn len(&self) -> usize {
        let coded = self.coded.as_ref();
        coded.map_or(self.stream.bytes.len(), |(_, bytes)| bytes.len())
    }
}

fn directory(streams: &[Laid<'_>]) -> Vec<u8> {
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
    directory.extend(streams.iter().map(|laid| laid.layout() as u8));
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
