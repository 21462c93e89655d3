//! Byte strings in a stream for each length, so that equal columns stand under each other.

use crate::coder::{Coder, Slot, StreamId};
use crate::stream_kind::StreamKind;

/// Lengths that get a stream of their own; others share one.
const LENGTHS_MAX: usize = 48;

/// The streams of one kind of byte string of one relation.
#[derive(Debug, Default)]
pub struct RowsByLen {
    by_len: Vec<(u32, StreamId)>,
    shared: Slot,
}

impl RowsByLen {
    /// Codes one string, whose length both sides know.
    pub fn code<C: Coder>(&mut self, coder: &mut C, kind: StreamKind, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let stream = self.stream(coder, kind, bytes.len());
        coder.bytes_at(stream, bytes, 0, bytes.len());
    }

    fn stream<C: Coder>(&mut self, coder: &mut C, kind: StreamKind, len: usize) -> StreamId {
        let known = self
            .by_len
            .iter()
            .position(|(known, _)| *known as usize == len);
        if let Some(place) = known {
            return self.by_len[place].1;
        }
        if self.by_len.len() == LENGTHS_MAX {
            return self.shared.open(coder, kind, 1);
        }
        let stream = coder.open(kind, len);
        self.by_len.push((len as u32, stream));
        stream
    }
}
