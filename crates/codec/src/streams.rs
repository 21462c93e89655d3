//! The two coders: streams being filled, and streams being emptied.
//!
//! Content of a member: the directory's length (varint), the directory, the streams. The
//! directory lists for each kind (ascending) its number u8 and how many streams it has
//! (varint), ended by 255; then a varint of bytes for each stream; then a width u8 for each;
//! then a layout u8 for each. Streams of one kind are in the order in which the model opens
//! them. Streams of rows longer than 255 bytes are streams of single bytes.

use crate::coder::{Choices, Coder, StreamId};
use crate::container::Content;
use crate::error::DecodeError;
use crate::format_version::FormatVersion;
use crate::layout_choice;
use crate::limits::{LISTS_COST_MAX, STREAMS_MAX};
use crate::mixing::Shape;
use crate::parts::Parts;
use crate::stream_kind::StreamKind;
use crate::transform::Layout;
use crate::varint;

/// Ends the list of kinds.
const END_OF_KINDS: u8 = 255;
/// A stream or plane of this many bytes gets statistics of its own.
const CUT_MIN: usize = 4096;

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

/// What lists of columns have taken of [`LISTS_COST_MAX`].
#[derive(Debug, Default)]
struct Lists(usize);

impl Lists {
    fn take(&mut self, cost: usize) -> bool {
        self.0 = self.0.saturating_add(cost);
        self.0 <= LISTS_COST_MAX
    }
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

    /// Lays the streams out, behind the directory.
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
        let mut shapes = Vec::with_capacity(self.streams.len());
        let mut chooser = layout_choice::Chooser::new(self.choices);
        let mut scratch = Vec::new();
        let mut start = streams_start;
        // One after the other is freed as it is copied.
        for (number, stream) in self.streams.into_iter().enumerate() {
            let end = start + stream.bytes.len();
            bytes.resize(end, 0);
            let layout = lay_out(&stream, &mut chooser, &mut scratch, &mut bytes[start..end]);
            bytes[layouts_at + number] = layout as u8;
            let rows = stream.bytes.len() / stream.width;
            if layout != Layout::Rows {
                for plane in 1..stream.width {
                    cuts.part(start + plane * rows);
                }
            }
            cuts.part(end);
            shapes.push(Shape {
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
            shapes,
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

/// Writes a stream to `out`, which is as long, in the layout that is chosen for it.
fn lay_out(
    stream: &Filling,
    chooser: &mut layout_choice::Chooser,
    scratch: &mut Vec<u8>,
    out: &mut [u8],
) -> Layout {
    if stream.width == 1 {
        let mut rest = out;
        for part in stream.bytes.iter() {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        return Layout::Rows;
    }
    let rows = stream.bytes.whole(scratch);
    let layout = chooser.choose(stream.kind, rows, stream.width);
    layout.apply(rows, stream.width, out);
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

#[derive(Clone, Copy, Debug)]
struct Emptying {
    kind: StreamKind,
    width: u8,
    layout: u8,
    at: usize,
    end: usize,
}

/// The coder of the decoder.
#[derive(Debug)]
pub struct StreamReader {
    /// The content, with the layouts undone in place.
    content: Vec<u8>,
    streams: Vec<Emptying>,
    /// By kind: the next stream to be opened.
    next: Vec<usize>,
    lists: Lists,
    format: FormatVersion,
    failed: bool,
}

const BAD_DIRECTORY: DecodeError = DecodeError::Corrupt("directory of streams");

#[deny(clippy::indexing_slicing)]
impl StreamReader {
    /// The same streams, in a version of the format.
    pub fn of_format(self, format: FormatVersion) -> StreamReader {
        StreamReader { format, ..self }
    }

    /// Reads the directory and undoes the layouts.
    pub fn new(mut content: Vec<u8>) -> Result<StreamReader, DecodeError> {
        let (streams, next) = read_directory(&content, content.len()).ok_or(BAD_DIRECTORY)?;
        let mut scratch = Vec::new();
        for stream in &streams {
            let layout = Layout::from_id(stream.layout).ok_or(BAD_DIRECTORY)?;
            let bytes = content
                .get_mut(stream.at..stream.end)
                .ok_or(BAD_DIRECTORY)?;
            layout.undo(bytes, usize::from(stream.width), &mut scratch)?;
        }
        Ok(StreamReader {
            content,
            streams,
            next,
            lists: Lists::default(),
            format: FormatVersion::CURRENT,
            failed: false,
        })
    }

    /// Every stream was read to its end.
    pub fn exhausted(&self) -> bool {
        self.streams.iter().all(|stream| stream.at == stream.end)
    }

    #[inline]
    fn take<const N: usize>(&mut self, stream: StreamId) -> [u8; N] {
        if let Some(stream) = self.streams.get_mut(stream.0 as usize) {
            let end = stream.at + N;
            if end <= stream.end
                && let Some(value) = self.content.get(stream.at..).and_then(<[u8]>::first_chunk)
            {
                stream.at = end;
                return *value;
            }
        }
        self.failed = true;
        [0; N]
    }
}

/// The streams of content of this length, of which only the directory is there.
#[deny(clippy::indexing_slicing)]
pub fn shapes(directory: &[u8], content_len: usize) -> Option<Vec<Shape>> {
    let (streams, _) = read_directory(directory, content_len)?;
    let starts_here = streams.first().is_none_or(|s| s.at == directory.len());
    let shapes = streams.iter().map(|stream| {
        let width = usize::from(stream.width);
        let layout = Layout::from_id(stream.layout).filter(|layout| layout.fits(width))?;
        Some(Shape {
            kind: stream.kind,
            width: (width > 0).then_some(width)?,
            layout,
            start: stream.at,
            end: stream.end,
        })
    });
    shapes.collect::<Option<_>>().filter(|_| starts_here)
}

/// The streams of content of some length that begins with these bytes, at least with the
/// directory, and where those of each kind begin.
#[deny(clippy::indexing_slicing)]
fn read_directory(content: &[u8], content_len: usize) -> Option<(Vec<Emptying>, Vec<usize>)> {
    let mut rest = content;
    let directory_len = usize::try_from(varint::read(&mut rest)?).ok()?;
    let (mut directory, laid) = rest.split_at_checked(directory_len)?;
    let (kinds, next) = read_kinds(&mut directory)?;
    let count = kinds.len();
    let mut streams = Vec::with_capacity(count);
    let mut end = content.len() - laid.len();
    for kind in kinds {
        let at = end;
        let len = usize::try_from(varint::read(&mut directory)?).ok()?;
        end = at.checked_add(len).filter(|&end| end <= content_len)?;
        streams.push(Emptying {
            kind,
            width: 0,
            layout: 0,
            at,
            end,
        });
    }
    if end != content_len || directory.len() != count * 2 {
        return None;
    }
    let (widths, layouts) = directory.split_at(count);
    for ((stream, &width), &layout) in streams.iter_mut().zip(widths).zip(layouts) {
        stream.width = width;
        stream.layout = layout;
    }
    Some((streams, next))
}

type Kinds = (Vec<StreamKind>, Vec<usize>);

/// The kind of each stream, and where the streams of each kind begin.
#[deny(clippy::indexing_slicing)]
fn read_kinds(directory: &mut &[u8]) -> Option<Kinds> {
    let mut kinds = Vec::new();
    let mut next = vec![usize::MAX; StreamKind::ALL.len()];
    loop {
        let (&id, rest) = directory.split_first()?;
        *directory = rest;
        if id == END_OF_KINDS {
            return Some((kinds, next));
        }
        let kind = StreamKind::from_id(id)?;
        let count = usize::try_from(varint::read(directory)?).ok()?;
        let in_order = kinds.last().is_none_or(|last| *last < kind) && count > 0;
        // Each stream has at least three bytes in the directory.
        if !in_order || count > directory.len() / 3 || kinds.len() + count > STREAMS_MAX {
            return None;
        }
        *next.get_mut(usize::from(id))? = kinds.len();
        kinds.resize(kinds.len() + count, kind);
    }
}

#[deny(clippy::indexing_slicing)]
impl Coder for StreamReader {
    const ENCODING: bool = false;

    fn format(&self) -> FormatVersion {
        self.format
    }

    fn content_len(&self) -> usize {
        self.content.len()
    }

    fn take_list(&mut self, cost: usize) -> bool {
        self.lists.take(cost)
    }

    fn open(&mut self, kind: StreamKind, _width: usize) -> StreamId {
        if let Some(next) = self.next.get_mut(kind as usize)
            && let Some(stream) = self.streams.get(*next)
            && stream.kind == kind
        {
            let stream = *next as u32;
            *next += 1;
            return StreamId(stream);
        }
        self.failed = true;
        StreamId(u32::MAX)
    }

    #[inline]
    fn u8(&mut self, stream: StreamId, _value: u8) -> u8 {
        let [value] = self.take(stream);
        value
    }

    #[inline]
    fn u16(&mut self, stream: StreamId, _value: u16) -> u16 {
        u16::from_le_bytes(self.take(stream))
    }

    #[inline]
    fn u32(&mut self, stream: StreamId, _value: u32) -> u32 {
        u32::from_le_bytes(self.take(stream))
    }

    #[inline]
    fn u64(&mut self, stream: StreamId, _value: u64) -> u64 {
        u64::from_le_bytes(self.take(stream))
    }

    #[inline]
    fn bytes(&mut self, stream: StreamId, bytes: &mut [u8]) {
        if let Some(stream) = self.streams.get_mut(stream.0 as usize) {
            let end = stream.at + bytes.len();
            if end <= stream.end
                && let Some(from) = self.content.get(stream.at..end)
            {
                bytes.copy_from_slice(from);
                stream.at = end;
                return;
            }
        }
        self.failed = true;
    }

    fn fail(&mut self) {
        self.failed = true;
    }

    fn failed(&self) -> bool {
        self.failed
    }
}
