//! The coder of the decoder: it reads streams from their beginning to their end.

use super::bins::{self, Scratch};
use super::coder::{Coder, StreamId};
use super::directory::{Entry, read_directory};
use super::kind::StreamKind;
use super::layout::Layout;
use super::lists::Lists;
use crate::error::{DecodeError, NO_MEMORY};
use crate::format_version::FormatVersion;

const BAD_DIRECTORY: DecodeError = DecodeError::Corrupt("directory of streams");

/// The coder of the decoder.
#[derive(Debug)]
pub struct StreamReader {
    /// The content, with the layouts undone in place.
    content: Vec<u8>,
    streams: Vec<Entry>,
    /// For each kind, the index of the next stream to open.
    next: Vec<usize>,
    lists: Lists,
    format: FormatVersion,
    failed: bool,
}

#[deny(clippy::indexing_slicing)]
impl StreamReader {
    /// Reads content of this version of the format, of which the streams may be as long as the
    /// model can ask for.
    #[cfg(test)]
    pub fn new(content: Vec<u8>, format: FormatVersion) -> Result<StreamReader, DecodeError> {
        StreamReader::of_format(content, format, usize::MAX)
    }

    /// Reads the directory, decodes the streams that are coded, and undoes the layouts of the
    /// others. The directory and all streams may have `len_max` bytes together.
    pub fn of_format(
        mut content: Vec<u8>,
        format: FormatVersion,
        len_max: usize,
    ) -> Result<StreamReader, DecodeError> {
        let (mut streams, next) = read_directory(&content, content.len()).ok_or(BAD_DIRECTORY)?;
        let mut scratch = Vec::new();
        let mut coded = Vec::new();
        for (number, stream) in streams.iter().enumerate() {
            let layout = Layout::from_id(stream.layout).ok_or(BAD_DIRECTORY)?;
            if layout.is_coded() {
                coded.push((number, layout));
                continue;
            }
            let bytes = content
                .get_mut(stream.at..stream.end)
                .ok_or(BAD_DIRECTORY)?;
            let width = usize::from(stream.width);
            layout.undo_blocks(bytes, width, format.block_rows(), &mut scratch)?;
        }
        if !coded.is_empty() {
            if !format.has_coded_streams() {
                return Err(BAD_DIRECTORY);
            }
            decode_streams(&mut content, &mut streams, &coded, len_max)?;
        }
        Ok(StreamReader {
            content,
            streams,
            next,
            lists: Lists::default(),
            format,
            failed: false,
        })
    }

    /// Whether every stream was read to its end.
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

/// Puts decoded streams in the place of the coded ones, which follow all others.
#[deny(clippy::indexing_slicing)]
fn decode_streams(
    content: &mut Vec<u8>,
    streams: &mut [Entry],
    coded: &[(usize, Layout)],
    len_max: usize,
) -> Result<(), DecodeError> {
    let places = coded.iter().filter_map(|(number, _)| streams.get(*number));
    let coded_start = places
        .map(|stream| stream.at)
        .min()
        .unwrap_or(content.len());
    let coded_bytes = content.split_off(coded_start.min(content.len()));
    let bytes_of = |stream: &Entry| {
        coded_bytes.get(stream.at.checked_sub(coded_start)?..stream.end.checked_sub(coded_start)?)
    };
    let mut len = 0usize;
    for &(number, _) in coded {
        let stream = streams.get(number).ok_or(BAD_DIRECTORY)?;
        let bytes = bytes_of(stream).ok_or(BAD_DIRECTORY)?;
        len = len.saturating_add(bins::claimed_len(bytes, usize::from(stream.width))?);
    }
    if len > len_max.saturating_sub(content.len()) {
        return Err(DecodeError::Corrupt(
            "more streams than the member can have",
        ));
    }
    content.try_reserve_exact(len).map_err(|_| NO_MEMORY)?;
    let mut scratch = Scratch::default();
    for &(number, layout) in coded {
        let stream = streams.get_mut(number).ok_or(BAD_DIRECTORY)?;
        let bytes = bytes_of(stream).ok_or(BAD_DIRECTORY)?;
        stream.at = content.len();
        layout.decode(
            bytes,
            usize::from(stream.width),
            len_max,
            &mut scratch,
            content,
        )?;
        stream.end = content.len();
    }
    Ok(())
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::streams::StreamWriter;
    use crate::streams::directory::extents;
    use crate::streams::laid_out::LaidOut;
    use proptest::prelude::*;

    /// Streams that are worth coding.
    fn laid_out(rows: u32) -> LaidOut {
        let mut writer = StreamWriter::default();
        code(&mut writer, rows);
        writer.lay_out()
    }

    /// Numbers that zstd does little for: sums of small ones.
    fn code<C: Coder>(coder: &mut C, rows: u32) -> bool {
        let ranks = coder.open(StreamKind::XidRank, 1);
        let blocks = coder.open(StreamKind::BlockNumber, 4);
        let values = coder.open(StreamKind::Value, 8);
        let mut state = 1u32;
        let mut next = |max: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % max
        };
        let mut is_same = true;
        for _ in 0..rows {
            let rank = (next(4) * next(4)) as u8;
            let block = 1000 + next(300) + next(300);
            let value = 1_000_000 + u64::from(next(100)) * 10;
            is_same &= coder.u8(ranks, rank) == rank;
            is_same &= coder.u32(blocks, block) == block;
            is_same &= coder.u64(values, value) == value;
        }
        is_same
    }

    #[test]
    fn reads_coded_streams() {
        let laid_out = laid_out(5000);
        let len = laid_out.unpacked_len();
        let content = laid_out.into_content();
        let is_coded: Vec<bool> = content
            .extents
            .iter()
            .map(|e| e.layout.is_coded())
            .collect();
        assert_eq!(is_coded, [true, true, true]);
        assert_eq!(content.coded_start, content.streams_start);
        assert!(content.bytes.len() < len / 4);
        let bytes = &content.bytes;
        let mut reader =
            StreamReader::of_format(bytes.clone(), FormatVersion::CURRENT, len).unwrap();
        assert!(code(&mut reader, 5000));
        assert!(reader.exhausted() && !reader.failed());
        // They may not be longer than the content can be, and came with a version.
        let result = StreamReader::of_format(bytes.clone(), FormatVersion::CURRENT, len - 1);
        assert!(result.is_err());
        let before = FormatVersion::of(5).unwrap();
        assert!(StreamReader::of_format(bytes.clone(), before, len).is_err());
        // What is mixed has no coded streams.
        assert!(extents(bytes, bytes.len(), FormatVersion::CURRENT).is_none());
    }

    proptest! {
        #[test]
        fn survives_damage(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = laid_out(600).into_content().bytes;
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(mut reader) = StreamReader::new(bytes, FormatVersion::CURRENT) {
                code(&mut reader, 600);
            }
        }
    }
}
