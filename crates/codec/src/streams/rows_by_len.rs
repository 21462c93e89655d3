//! Byte strings in one stream for each length, so that fields at the same offset form columns.

use super::coder::{Coder, LazyStream, StreamId};
use super::kind::StreamKind;

/// Maximum number of lengths that get a stream of their own. The other lengths share one stream.
const LENGTHS_MAX: usize = 48;

/// Lengths below this are found without a search.
const SHORT: usize = 64;

/// The streams of one kind of byte string of one relation.
#[derive(Debug, Default)]
pub struct RowsByLen {
    by_len: Vec<(u32, StreamId)>,
    /// For each length below [`SHORT`]: its index in `by_len` plus 1, or 0 if it has no stream.
    indexes: Vec<u8>,
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

    /// Codes the strings of `len` bytes that stand `at` bytes after each of the starts.
    pub fn code_all<C: Coder>(
        &mut self,
        coder: &mut C,
        kind: StreamKind,
        bytes: &mut [u8],
        starts: &[usize],
        at: usize,
        len: usize,
    ) {
        if len == 0 {
            return;
        }
        let stream = self.stream(coder, kind, len);
        match len {
            4 => coder.column::<4>(stream, bytes, starts, at),
            8 => coder.column::<8>(stream, bytes, starts, at),
            16 => coder.column::<16>(stream, bytes, starts, at),
            24 => coder.column::<24>(stream, bytes, starts, at),
            32 => coder.column::<32>(stream, bytes, starts, at),
            _ => {
                for &start in starts {
                    coder.bytes_at(stream, bytes, start + at, len);
                }
            }
        }
    }

    fn stream<C: Coder>(&mut self, coder: &mut C, kind: StreamKind, len: usize) -> StreamId {
        let known = if len < SHORT {
            let index = self.indexes.get(len).copied();
            index.and_then(|index| usize::from(index).checked_sub(1))
        } else {
            let mut lens = self.by_len.iter().map(|(known, _)| *known as usize);
            lens.position(|known| known == len)
        };
        if let Some((_, stream)) = known.and_then(|index| self.by_len.get(index)) {
            return *stream;
        }
        if self.by_len.len() == LENGTHS_MAX {
            return self.shared.open(coder, kind, 1);
        }
        let stream = coder.open(kind, len);
        self.by_len.push((len as u32, stream));
        if len < SHORT {
            self.indexes.resize(self.indexes.len().max(len + 1), 0);
            self.indexes[len] = self.by_len.len() as u8;
        }
        stream
    }
}
