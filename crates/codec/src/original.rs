//! The original, as it is decoded: hashed and handed over in pieces that the processor's caches
//! still have.

use std::cell::RefCell;
use std::io::{self, Write};

use walzip_pgformat::{Input, ReadAt};

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

    /// The hash of the bytes so far.
    pub fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// All of it was there: fails if it is not what was encoded.
    pub fn check(&self, len: u64, hash: &[u8; 32]) -> Result<(), DecodeError> {
        let is_same = self.hasher.count() == len && self.hash() == *hash;
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

/// An output that takes only what is expected: the bytes of an input, read again.
pub struct Expected<'a> {
    input: Input<'a>,
    offset: usize,
    piece: Vec<u8>,
}

impl<'a> Expected<'a> {
    /// Nothing came yet.
    pub fn new(input: Input<'a>) -> Expected<'a> {
        Expected {
            input,
            offset: 0,
            piece: Vec::new(),
        }
    }

    /// All of it came.
    pub fn is_complete(&self) -> bool {
        self.offset == self.input.len()
    }
}

impl Write for Expected<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.offset + bytes.len();
        let expected = match self.input {
            Input::Bytes(input) => input.get(self.offset..end).unwrap_or_default(),
            Input::Reader(_) => {
                if self.piece.len() < bytes.len() {
                    self.piece.resize(bytes.len(), 0);
                }
                let piece = &mut self.piece[..bytes.len()];
                self.input.read_at(self.offset, piece)?;
                piece
            }
        };
        if bytes != expected {
            return Err(io::Error::other("something else was expected"));
        }
        self.offset = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An input that is hashed as it is read, while the processor's caches have its pieces.
pub struct Hashed<'a> {
    input: Input<'a>,
    /// The hash of the bytes so far, and how many they are.
    hasher: RefCell<blake3::Hasher>,
}

impl<'a> Hashed<'a> {
    /// Nothing of it was read.
    pub fn new(input: Input<'a>) -> Hashed<'a> {
        Hashed {
            input,
            hasher: RefCell::new(blake3::Hasher::new()),
        }
    }

    /// The same bytes. Those in memory are hashed at the end.
    pub fn input(&self) -> Input<'_> {
        match self.input {
            Input::Bytes(_) => self.input,
            Input::Reader(_) => Input::Reader(self),
        }
    }

    /// The hash of all of it.
    pub fn finish(self) -> io::Result<blake3::Hash> {
        let len = self.input.len();
        let mut hasher = self.hasher.into_inner();
        let mut piece = Vec::new();
        if let Input::Bytes(bytes) = self.input {
            return Ok(blake3::hash(bytes));
        }
        while (hasher.count() as usize) < len {
            let start = hasher.count() as usize;
            piece.clear();
            self.input
                .append(start, len.min(start + PIECE_LEN), &mut piece)?;
            hasher.update(&piece);
        }
        Ok(hasher.finalize())
    }
}

impl ReadAt for Hashed<'_> {
    fn len(&self) -> usize {
        self.input.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        if let Input::Reader(reader) = self.input {
            reader.read_at(offset, buffer)?;
        }
        let mut hasher = self.hasher.borrow_mut();
        let new = (hasher.count() as usize).checked_sub(offset);
        if let Some(new) = new.and_then(|known| buffer.get(known..)) {
            hasher.update(new);
        }
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
            let mut expected = Expected::new(expected.into());
            let refused = Original::new(&mut expected).write(b"abcde");
            assert!(matches!(refused, Err(DecodeToError::Write(_))));
        }
        let mut expected = Expected::new(b"abcdef".as_slice().into());
        Original::new(&mut expected).write(b"abcde").unwrap();
        assert!(!expected.is_complete());
        Original::new(&mut expected).write(b"f").unwrap();
        assert!(expected.is_complete());
    }
}
