//! The coder of the encoder: streams being filled.

use super::coder::{Choices, Coder, StreamId};
#[cfg(test)]
use super::directory::Content;
use super::filled::Filled;
use super::kind::StreamKind;
#[cfg(test)]
use super::laid_out::LaidOut;
use super::lists::Lists;
use super::parts::Parts;
use crate::limits::STREAMS_MAX;

/// The coder of the encoder.
#[derive(Debug, Default)]
pub struct StreamWriter {
    choices: Choices,
    streams: Vec<Filled>,
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

    fn take_apart(&mut self, len: usize) -> bool {
        self.lists.take_apart(len)
    }

    fn open(&mut self, kind: StreamKind, width: usize) -> StreamId {
        let width = if (1..=255).contains(&width) { width } else { 1 };
        self.streams.push(Filled {
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

    fn u16s(&mut self, stream: StreamId, values: &mut [u16]) {
        let stream = &mut self.streams[stream.0 as usize].bytes;
        values
            .iter()
            .for_each(|value| stream.push(&value.to_le_bytes()));
    }

    fn u32s(&mut self, stream: StreamId, values: &mut [u32]) {
        let stream = &mut self.streams[stream.0 as usize].bytes;
        values
            .iter()
            .for_each(|value| stream.push(&value.to_le_bytes()));
    }

    fn column<const N: usize>(
        &mut self,
        stream: StreamId,
        bytes: &mut [u8],
        starts: &[usize],
        at: usize,
    ) {
        let stream = &mut self.streams[stream.0 as usize].bytes;
        for &start in starts {
            let row = bytes
                .get(start + at..)
                .and_then(|bytes| bytes.first_chunk::<N>());
            match row {
                Some(row) => stream.push(row),
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
    #[cfg(test)]
    pub fn total_len(&self) -> usize {
        self.streams.iter().map(|stream| stream.bytes.len()).sum()
    }

    /// The streams, in the order of the content.
    pub fn into_streams(mut self) -> Vec<Filled> {
        // Stable: streams of one kind stay in the order in which they were opened.
        self.streams.sort_by_key(|stream| stream.kind);
        self.streams
    }

    /// The content: the directory, and the streams in their layouts.
    #[cfg(test)]
    pub fn into_content(self) -> Content {
        let choices = self.choices;
        LaidOut::new(&self.into_streams(), choices).content()
    }
}
