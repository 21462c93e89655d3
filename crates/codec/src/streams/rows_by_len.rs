//! Byte strings in a stream for each length, so that equal columns stand under each other.

use super::coder::{Coder, LazyStream, StreamId};
use super::kind::StreamKind;

/// Lengths that get a stream of their own; others share one.
const LENGTHS_MAX: usize = 48;

/// Lengths below this are found without a search.
const SHORT: usize = 64;

/// The streams of one kind of byte string of one relation.
#[derive(Debug, Default)]
pub struct RowsByLen {
    by_len: Vec<(u32, StreamId)>,
    /// For each of the first lengths: its place in `by_len` plus 1, 0 where it has none.
    places: Vec<u8>,
    shared: LazyStream,
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
        let known = if len < SHORT {
            let place = self.places.get(len).copied();
            place.and_then(|place| usize::from(place).checked_sub(1))
        } else {
            let mut lens = self.by_len.iter().map(|(known, _)| *known as usize);
            lens.position(|known| known == len)
        };
        if let Some((_, stream)) = known.and_then(|place| self.by_len.get(place)) {
            return *stream;
        }
        if self.by_len.len() == LENGTHS_MAX {
            return self.shared.open(coder, kind, 1);
        }
        let stream = coder.open(kind, len);
        self.by_len.push((len as u32, stream));
        if len < SHORT {
            self.places.resize(self.places.len().max(len + 1), 0);
            self.places[len] = self.by_len.len() as u8;
        }
        stream
    }
}
