//! The content of a WAL member, and the directory of its streams.
//!
//!  the directory's length (varint), the directory, the streams. The
//! directory lists for each kind (ascending) its number u8 and how many streams it has
//! (varint), ended by 255; then a varint of bytes for each stream; then a width u8 for each;
//! then a layout u8 for each. Streams of one kind are in the order in which the model opens
//! them. Streams of rows longer than 255 bytes are streams of single bytes.

use super::kind::StreamKind;
use super::layout::Layout;
use crate::format_version::FormatVersion;
use crate::limits::STREAMS_MAX;
use crate::varint;

/// Ends the list of kinds.
pub const END_OF_KINDS: u8 = 255;

/// The bytes to compress, and the offsets at which zstd should begin a new table.
pub struct Content {
    /// The directory and the streams, or the foreign bytes.
    pub bytes: Vec<u8>,
    /// Ascending offsets at which the statistics of the bytes change.
    pub cuts: Vec<usize>,
    /// The offset of the first stream.
    pub streams_start: usize,
    /// Where the coded streams begin, which follow all others.
    pub coded_start: usize,
    /// The streams, in their order.
    pub extents: Vec<Extent>,
}

/// A stream, as the directory describes it.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// What it holds.
    pub kind: StreamKind,
    /// Bytes of a row.
    pub width: usize,
    /// How its rows are laid out.
    pub layout: Layout,
    /// Rows that are laid out together.
    pub block_rows: usize,
    /// Where it begins in the content.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Extent {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Its number of rows.
    pub fn rows(&self) -> usize {
        self.len() / self.width.max(1)
    }
}

/// A stream as the directory has it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it holds.
    pub kind: StreamKind,
    /// Bytes of a row.
    pub width: u8,
    /// The number of its layout.
    pub layout: u8,
    /// The offset in the content of the next byte to read; at first, where the stream begins.
    pub at: usize,
    /// Where it ends.
    pub end: usize,
}

/// The streams of content of this length, read from the directory alone; `None` where some are
/// coded.
#[deny(clippy::indexing_slicing)]
pub fn extents(directory: &[u8], content_len: usize, format: FormatVersion) -> Option<Vec<Extent>> {
    let (streams, _) = read_directory(directory, content_len)?;
    let starts_here = streams.first().is_none_or(|s| s.at == directory.len());
    let extents = streams.iter().map(|stream| {
        let width = usize::from(stream.width);
        let layout = Layout::from_id(stream.layout)
            .filter(|layout| layout.fits(width) && !layout.is_coded())?;
        Some(Extent {
            kind: stream.kind,
            width: (width > 0).then_some(width)?,
            layout,
            block_rows: format.block_rows(),
            start: stream.at,
            end: stream.end,
        })
    });
    extents.collect::<Option<_>>().filter(|_| starts_here)
}

/// The streams of content of some length that begins with these bytes, at least with the
/// directory, and where those of each kind begin.
#[deny(clippy::indexing_slicing)]
pub fn read_directory(content: &[u8], content_len: usize) -> Option<(Vec<Entry>, Vec<usize>)> {
    let mut rest = content;
    let directory_len = usize::try_from(varint::read(&mut rest)?).ok()?;
    let (mut directory, laid) = rest.split_at_checked(directory_len)?;
    let (kinds, next) = read_kinds(&mut directory)?;
    let count = kinds.len();
    let mut streams = Vec::with_capacity(count);
    for kind in kinds {
        let len = usize::try_from(varint::read(&mut directory)?).ok()?;
        streams.push(Entry {
            kind,
            width: 0,
            layout: 0,
            at: 0,
            end: len,
        });
    }
    if directory.len() != count * 2 {
        return None;
    }
    let (widths, layouts) = directory.split_at(count);
    for ((stream, &width), &layout) in streams.iter_mut().zip(widths).zip(layouts) {
        stream.width = width;
        stream.layout = layout;
    }
    let streams_start = content.len() - laid.len();
    let plain_end = place(&mut streams, false, streams_start)?;
    let end = place(&mut streams, true, plain_end)?;
    (end == content_len).then_some((streams, next))
}

/// Places the streams that are coded, or the others, one after the other: where the last one ends.
#[deny(clippy::indexing_slicing)]
fn place(streams: &mut [Entry], coded: bool, start: usize) -> Option<usize> {
    let mut end = start;
    for stream in streams {
        if Layout::from_id(stream.layout).is_some_and(Layout::is_coded) == coded {
            stream.at = end;
            end = end.checked_add(stream.end)?;
            stream.end = end;
        }
    }
    Some(end)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;

    #[test]
    fn reads_the_example_of_the_specification() {
        let example = format_example::rows("streams.md", "a directory");
        let content: Vec<u8> = example.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let streams =
            extents(&content[..12], content.len(), FormatVersion::CURRENT).expect("a directory");
        let found = streams.iter().map(|stream| {
            (
                stream.kind,
                stream.width,
                stream.layout,
                stream.start,
                stream.end,
            )
        });
        let expected = [
            (StreamKind::XidRank, 1, Layout::Rows, 12, 14),
            (StreamKind::BlockNumber, 4, Layout::Planes, 14, 22),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
