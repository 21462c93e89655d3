//! Memory for the bytes of chunks, used again: fresh memory has to be cleared by the kernel first.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a chunk, before encoding: 512 pages.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// The bytes of a chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// As long as a chunk at most; behind the chunk's own bytes are those of another one.
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Appends `len` bytes, which are to be overwritten, and returns them. There must be room.
    pub(crate) fn grow(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        let grown = &mut self.memory[start..start + len];
        self.len += len;
        grown
    }

    /// Appends bytes. There must be room.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    /// Leaves this number of bytes, if there are more.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// Buffers that are used no more. There are never more of them than there were chunks at once.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Buffer>>>);

impl Buffers {
    /// An empty buffer that holds a chunk.
    pub(crate) fn take(&self) -> Buffer {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        used.unwrap_or_else(|| Buffer {
            memory: vec![0; CHUNK_BYTES],
            len: 0,
        })
    }

    /// Keeps a buffer for later.
    pub(crate) fn give_back(&self, mut buffer: Buffer) {
        buffer.truncate(0);
        if buffer.memory.len() == CHUNK_BYTES {
            let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            used.push(buffer);
        }
    }
}
