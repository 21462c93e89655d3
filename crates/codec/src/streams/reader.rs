//! The coder of the decoder: it reads streams from their beginning to their end.

use super::coder::{Coder, StreamId};
use super::filled::{self, Filled};
use super::kind::StreamKind;

use super::lists::Lists;
use super::parts;
use super::unpacking::{self, BAD_DIRECTORY};
use crate::error::DecodeError;
use crate::format_version::FormatVersion;
use crate::run_both::{RunBoth, run_in_turn};

/// The coder of the decoder.
#[derive(Debug)]
pub struct StreamReader<'s> {
    streams: Vec<Unread<'s>>,
    /// Bytes of the directory and of all streams.
    content_len: usize,
    /// For each kind, the index of the next stream to open.
    next: Vec<usize>,
    lists: Lists,
    format: FormatVersion,
    failed: bool,
}

/// What is left of a stream.
#[derive(Debug)]
struct Unread<'s> {
    kind: StreamKind,
    /// What is left of this part, and the parts after it.
    part: &'s [u8],
    parts: parts::Iter<'s>,
}

#[deny(clippy::indexing_slicing)]
impl<'s> StreamReader<'s> {
    /// Reads the directory of content, decodes the streams that are coded, and undoes the layouts
    /// of the others, in place. The directory and all streams may have `len_max` bytes together.
    pub fn new(
        content: &'s mut Vec<u8>,
        format: FormatVersion,
        len_max: usize,
    ) -> Result<StreamReader<'s>, DecodeError> {
        StreamReader::shared(content, format, len_max, run_in_turn)
    }

    /// [`StreamReader::new`] on two threads, if the caller has them.
    pub fn shared(
        content: &'s mut Vec<u8>,
        format: FormatVersion,
        len_max: usize,
        run_both: RunBoth,
    ) -> Result<StreamReader<'s>, DecodeError> {
        let (streams, next) = unpacking::unpack(content, format, len_max, run_both)?;
        let streams = streams.iter().map(|stream| {
            Some(Unread {
                kind: stream.kind,
                part: content.get(stream.at..stream.end)?,
                parts: parts::Iter::default(),
            })
        });
        let streams: Option<Vec<_>> = streams.collect();
        Ok(StreamReader {
            streams: streams.ok_or(BAD_DIRECTORY)?,
            content_len: content.len(),
            next,
            lists: Lists::default(),
            format,
            failed: false,
        })
    }

    /// Reads content that is never freed.
    #[cfg(test)]
    pub fn of_content(
        content: Vec<u8>,
        format: FormatVersion,
    ) -> Result<StreamReader<'static>, DecodeError> {
        StreamReader::new(Box::leak(Box::new(content)), format, usize::MAX)
    }

    /// Reads the streams of an encoder.
    pub fn of_filled(streams: &'s [Filled]) -> StreamReader<'s> {
        let first_of = |kind: &StreamKind| {
            let first = streams.iter().position(|stream| stream.kind == *kind);
            first.unwrap_or(usize::MAX)
        };
        let unread = streams.iter().map(|stream| Unread {
            kind: stream.kind,
            part: &[],
            parts: stream.bytes.iter(),
        });
        StreamReader {
            streams: unread.collect(),
            // Of the directory nothing is known yet: the limits are a little narrower.
            content_len: filled::total_len(streams),
            next: StreamKind::ALL.iter().map(first_of).collect(),
            lists: Lists::default(),
            format: FormatVersion::CURRENT,
            failed: false,
        }
    }

    /// Whether nothing was read yet, and these are the streams.
    pub fn is_of(&self, streams: &[Filled]) -> bool {
        let mut pairs = self.streams.iter().zip(streams);
        self.streams.len() == streams.len()
            && pairs.all(|(unread, filled)| {
                unread.kind == filled.kind
                    && unread.parts.is_empty()
                    && filled.bytes.is(unread.part)
            })
    }

    /// Whether every stream was read to its end.
    pub fn exhausted(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.part.is_empty() && stream.parts.is_empty())
    }

    #[inline]
    fn take<const N: usize>(&mut self, stream: StreamId) -> [u8; N] {
        if let Some(stream) = self.streams.get_mut(stream.0 as usize)
            && let Some((value, rest)) = stream.part.split_first_chunk()
        {
            stream.part = rest;
            return *value;
        }
        let mut value = [0; N];
        self.take_from_parts(stream, &mut value);
        value
    }

    /// Takes the next rows, if they all lie in this part of the stream.
    #[inline]
    fn take_rows<const N: usize>(
        &mut self,
        stream: StreamId,
        count: usize,
    ) -> Option<&'s [[u8; N]]> {
        let stream = self.streams.get_mut(stream.0 as usize)?;
        let (rows, rest) = stream.part.split_at_checked(count.checked_mul(N)?)?;
        stream.part = rest;
        Some(rows.as_chunks().0)
    }

    /// Takes bytes that do not all lie in this part of the stream.
    #[cold]
    fn take_from_parts(&mut self, stream: StreamId, bytes: &mut [u8]) {
        let stream = self.streams.get_mut(stream.0 as usize);
        let taken = stream.and_then(|stream| stream.take(bytes));
        if taken.is_none() {
            bytes.fill(0);
            self.failed = true;
        }
    }
}

#[deny(clippy::indexing_slicing)]
impl Unread<'_> {
    fn take(&mut self, mut bytes: &mut [u8]) -> Option<()> {
        while !bytes.is_empty() {
            if self.part.is_empty() {
                self.part = self.parts.next()?;
            }
            let len = bytes.len().min(self.part.len());
            let (taken, rest) = self.part.split_at_checked(len)?;
            self.part = rest;
            let (filled, left) = bytes.split_at_mut_checked(len)?;
            filled.copy_from_slice(taken);
            bytes = left;
        }
        Some(())
    }
}

#[deny(clippy::indexing_slicing)]
impl Coder for StreamReader<'_> {
    const ENCODING: bool = false;

    fn format(&self) -> FormatVersion {
        self.format
    }

    fn content_len(&self) -> usize {
        self.content_len
    }

    fn take_list(&mut self, cost: usize) -> bool {
        self.lists.take(cost)
    }

    fn take_apart(&mut self, len: usize) -> bool {
        self.lists.take_apart(len)
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
        if let Some(stream) = self.streams.get_mut(stream.0 as usize)
            && let Some((taken, rest)) = stream.part.split_at_checked(bytes.len())
        {
            bytes.copy_from_slice(taken);
            stream.part = rest;
            return;
        }
        self.take_from_parts(stream, bytes);
    }

    fn u16s(&mut self, stream: StreamId, values: &mut [u16]) {
        let rows = self.take_rows(stream, values.len());
        let mut rows = rows.unwrap_or_default().iter().copied();
        for value in values {
            let row = rows.next().unwrap_or_else(|| self.take(stream));
            *value = u16::from_le_bytes(row);
        }
    }

    fn u32s(&mut self, stream: StreamId, values: &mut [u32]) {
        let rows = self.take_rows(stream, values.len());
        let mut rows = rows.unwrap_or_default().iter().copied();
        for value in values {
            let row = rows.next().unwrap_or_else(|| self.take(stream));
            *value = u32::from_le_bytes(row);
        }
    }

    fn column<const N: usize>(
        &mut self,
        stream: StreamId,
        bytes: &mut [u8],
        starts: &[usize],
        at: usize,
    ) {
        let rows = self.take_rows::<N>(stream, starts.len());
        let mut rows = rows.unwrap_or_default().iter().copied();
        for &start in starts {
            let row = rows.next().unwrap_or_else(|| self.take(stream));
            let place = bytes.get_mut(start + at..);
            match place.and_then(|bytes| bytes.first_chunk_mut()) {
                Some(place) => *place = row,
                None => self.failed = true,
            }
        }
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
    use crate::streams::coder::Choices;
    use crate::streams::directory::extents;
    use crate::streams::laid_out::LaidOut;
    use proptest::prelude::*;

    /// Streams that are worth coding.
    fn filled(rows: u32) -> Vec<Filled> {
        let mut writer = StreamWriter::default();
        code(&mut writer, rows);
        writer.into_streams()
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
        let streams = filled(5000);
        let content = LaidOut::new(&streams, Choices::default()).content();
        let len = filled::total_len(&streams) + content.streams_start;
        let is_coded: Vec<bool> = content
            .extents
            .iter()
            .map(|e| e.layout.is_coded())
            .collect();
        assert_eq!(is_coded, [true, true, true]);
        assert_eq!(content.coded_start, content.streams_start);
        assert!(content.bytes.len() < len / 4);
        let bytes = &content.bytes;
        let mut unpacked = bytes.clone();
        let mut reader = StreamReader::new(&mut unpacked, FormatVersion::CURRENT, len).unwrap();
        assert!(code(&mut reader, 5000));
        assert!(reader.exhausted() && !reader.failed());
        // They may not be longer than the content can be, and came with a version.
        let refuses = |format, len| StreamReader::new(&mut bytes.clone(), format, len).is_err();
        assert!(refuses(FormatVersion::CURRENT, len - 1));
        assert!(refuses(FormatVersion::of(5).unwrap(), len));
        // What is mixed has no coded streams.
        assert!(extents(bytes, bytes.len(), FormatVersion::CURRENT).is_none());
    }

    /// Whatever the caller runs first, and what it does not run.
    #[test]
    fn shares_the_work_with_what_a_caller_runs() {
        const ROWS: u32 = 100_000;
        let streams = filled(ROWS);
        let content = LaidOut::new(&streams, Choices::default()).content();
        let (content, coded_start) = (content.bytes, content.coded_start);
        let len = filled::total_len(&streams) + content.len();
        let run_both: [RunBoth; 3] = [
            |beside, here| {
                beside();
                here();
            },
            run_in_turn,
            |_, _| (),
        ];
        for run_both in run_both {
            let read = |content: &mut Vec<u8>| {
                let reader = StreamReader::shared(content, FormatVersion::CURRENT, len, run_both);
                reader.map(|mut reader| code(&mut reader, ROWS) && reader.exhausted())
            };
            assert_eq!(read(&mut content.clone()), Ok(true));
            let mut damaged = content.clone();
            // Behind the length of the first coded stream.
            damaged[coded_start + 3..][..8].fill(0);
            assert!(read(&mut damaged).is_err());
        }
    }

    proptest! {
        #[test]
        fn survives_damage(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = LaidOut::new(&filled(600), Choices::default()).content().bytes;
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(mut reader) = StreamReader::new(&mut bytes, FormatVersion::CURRENT, usize::MAX) {
                code(&mut reader, 600);
            }
        }
    }
}
