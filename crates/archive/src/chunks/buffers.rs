//! Memory for the bytes of chunks, used again: fresh memory has to be cleared by the kernel first.

use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a chunk, before encoding: 512 pages.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Buffers that are used no more. There are never more of them than there were chunks at once.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// An empty buffer that holds a chunk.
    pub(crate) fn take(&self) -> Vec<u8> {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        used.unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES))
    }

    /// Keeps a buffer for later.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() >= CHUNK_BYTES {
            let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            used.push(buffer);
        }
    }
}
