//! The original, as it is decoded: hashed and handed over in pieces that the processor's caches
//! still have.

use std::io::{self, Write};

use crate::error::{DecodeError, DecodeToError};

/// Bytes of a piece: a multiple of what BLAKE3 takes at once (16 chunks of 1 KiB), and little
/// enough for the second cache.
pub const PIECE_LEN: usize = 128 << 10;

/// Where a decoder puts the original.
pub struct Original<'o> {
    output: &'o mut dyn Write,
    hasher: blake3::Hasher,
}

impl<'o> Original<'o> {
    /// Nothing of it yet.
    pub fn new(output: &'o mut dyn Write) -> Original<'o> {
        Original {
            output,
            hasher: blake3::Hasher::new(),
        }
    }

    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DecodeToError> {
        for piece in bytes.chunks(PIECE_LEN) {
            self.hasher.update(piece);
            self.output.write_all(piece).map_err(DecodeToError::Write)?;
        }
        Ok(())
    }

    /// All of it was there: fails if it is not what was encoded.
    pub fn check(&self, len: u64, hash: &[u8; 32]) -> Result<(), DecodeError> {
        let is_same = self.hasher.count() == len && self.hasher.finalize() == *hash;
        is_same.then_some(()).ok_or(DecodeError::HashMismatch)
    }
}

/// An output in memory, which is taken when the first bytes come: what decoding took before that
/// can be used again.
pub struct InMemory {
    /// What came.
    pub bytes: Vec<u8>,
    expected_len: usize,
}

impl InMemory {
    /// For about so many bytes.
    pub fn of(expected_len: usize) -> InMemory {
        InMemory {
            bytes: Vec::new(),
            expected_len,
        }
    }
}

impl Write for InMemory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(self.expected_len);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An output that takes only what is expected.
pub struct Expected<'a>(pub &'a [u8]);

impl Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .strip_prefix(bytes)
            .ok_or_else(|| io::Error::other("something else was expected"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..3 * PIECE_LEN + 7).map(|at| (at / 3) as u8).collect();
        let mut written = Vec::new();
        let mut original = Original::new(&mut written);
        original.write(&bytes[..PIECE_LEN]).unwrap();
        original.write(&bytes[PIECE_LEN..]).unwrap();
        let hash = *blake3::hash(&bytes).as_bytes();
        let len = bytes.len() as u64;
        assert_eq!(original.check(len, &hash), Ok(()));
        assert_eq!(
            original.check(len - 1, &hash),
            Err(DecodeError::HashMismatch)
        );
        assert_eq!(
            original.check(len, &[0; 32]),
            Err(DecodeError::HashMismatch)
        );
        assert_eq!(written, bytes);
    }

    #[test]
    fn an_output_that_takes_no_more_ends_it() {
        for expected in [&b"abcdX"[..], b"abc"] {
            let mut expected = Expected(expected);
            let refused = Original::new(&mut expected).write(b"abcde");
            assert!(matches!(refused, Err(DecodeToError::Write(_))));
        }
        let mut expected = Expected(b"abcdef");
        Original::new(&mut expected).write(b"abcde").unwrap();
        assert_eq!(expected.0, b"f");
    }
}
