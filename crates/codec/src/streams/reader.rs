//! The coder of the decoder: it reads streams from their beginning to their end.

use super::coder::{Coder, StreamId};
use super::directory::{Entry, read_directory};
use super::kind::StreamKind;
use super::layout::Layout;
use super::lists::Lists;
use crate::error::DecodeError;
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
    /// Reads the directory and undoes the layouts.
    pub fn new(mut content: Vec<u8>, format: FormatVersion) -> Result<StreamReader, DecodeError> {
        let (streams, next) = read_directory(&content, content.len()).ok_or(BAD_DIRECTORY)?;
        let mut scratch = Vec::new();
        for stream in &streams {
            let layout = Layout::from_id(stream.layout).ok_or(BAD_DIRECTORY)?;
            let bytes = content
                .get_mut(stream.at..stream.end)
                .ok_or(BAD_DIRECTORY)?;
            let width = usize::from(stream.width);
            layout.undo_blocks(bytes, width, format.block_rows(), &mut scratch)?;
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
