//! The original, as it is decoded: hashed and handed over in pieces that the processor's caches
//! still have.

use std::cell::RefCell;
use std::io::{self, Write};

use walzip_pgformat::{Input, ReadAt};

use crate::error::{DecodeError, DecodeToError};

/// Bytes of a piece: a multiple of what BLAKE3 takes at once (16 chunks of 1 KiB), and little
/// enough for the second cache.
pub const PIECE_LEN: usize = 128 << 10;

/// An output that hashes what it gets: on another thread, for one.
pub trait HashingOutput {
    /// An empty piece, to be filled: its memory may have been a former piece's.
    fn empty_piece(&mut self) -> Vec<u8>;

    /// Takes the next piece.
    fn take(&mut self, piece: Vec<u8>) -> io::Result<()>;

    /// The length and the BLAKE3 hash of what was taken since the beginning, or since this was asked.
    fn finish(&mut self) -> io::Result<(u64, [u8; 32])>;
}

/// Where a decoder puts the original.
pub struct Original<'o>(Output<'o>);

enum Output<'o> {
    Plain {
        output: &'o mut dyn Write,
        hasher: Box<blake3::Hasher>,
    },
    Hashing(&'o mut dyn HashingOutput),
}

impl<'o> Original<'o> {
    /// Nothing of it yet.
    pub fn new(output: &'o mut dyn Write) -> Original<'o> {
        let hasher = Box::new(blake3::Hasher::new());
        Original(Output::Plain { output, hasher })
    }

    /// For an output that hashes it.
    pub fn hashed_by(output: &'o mut dyn HashingOutput) -> Original<'o> {
        Original(Output::Hashing(output))
    }

    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DecodeToError> {
        for bytes in bytes.chunks(PIECE_LEN) {
            match &mut self.0 {
                Output::Plain { output, hasher } => {
                    hasher.update(bytes);
                    output.write_all(bytes)
                }
                Output::Hashing(output) => {
                    let mut piece = output.empty_piece();
                    piece.extend_from_slice(bytes);
                    output.take(piece)
                }
            }
            .map_err(DecodeToError::Write)?;
        }
        Ok(())
    }

    /// The next bytes: so many from the front of a buffer, which keeps the others.
    pub fn write_front(&mut self, buffer: &mut Vec<u8>, len: usize) -> Result<(), DecodeToError> {
        let (front, rest) = buffer.split_at(len);
        match &mut self.0 {
            // Longer ones are cut, so that what waits in the output is bounded.
            Output::Hashing(output) if len <= PIECE_LEN => {
                let mut piece = output.empty_piece();
                piece.extend_from_slice(rest);
                std::mem::swap(buffer, &mut piece);
                piece.truncate(len);
                output.take(piece).map_err(DecodeToError::Write)
            }
            _ => {
                self.write(front)?;
                buffer.drain(..len);
                Ok(())
            }
        }
    }

    /// The length and the hash of all bytes, when there are no more.
    pub fn finish(self) -> Result<(u64, [u8; 32]), DecodeToError> {
        match self.0 {
            Output::Plain { hasher, .. } => Ok((hasher.count(), *hasher.finalize().as_bytes())),
            Output::Hashing(output) => output.finish().map_err(DecodeToError::Write),
        }
    }

    /// All of it was there: fails if it is not what was encoded.
    pub fn check(self, len: u64, hash: &[u8; 32]) -> Result<(), DecodeToError> {
        let is_same = self.finish()? == (len, *hash);
        let mismatch = || DecodeError::HashMismatch.into();
        is_same.then_some(()).ok_or_else(mismatch)
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
        let hash = *blake3::hash(&bytes).as_bytes();
        let len = bytes.len() as u64;
        let write = |mut original: Original<'_>, len, hash| {
            let (first, mut rest) = (&bytes[..PIECE_LEN], bytes[PIECE_LEN..].to_vec());
            original.write(first).unwrap();
            for len in [PIECE_LEN, PIECE_LEN + 5, 2] {
                original.write_front(&mut rest, len).unwrap();
            }
            assert!(rest.is_empty());
            original.check(len, &hash)
        };
        for (len, hash, is_right) in [
            (len, hash, true),
            (len - 1, hash, false),
            (len, [0; 32], false),
        ] {
            let (mut written, mut hashing) = (Vec::new(), Hashing::default());
            for checked in [
                write(Original::new(&mut written), len, hash),
                write(Original::hashed_by(&mut hashing), len, hash),
            ] {
                let mismatch = matches!(
                    checked,
                    Err(DecodeToError::Decode(DecodeError::HashMismatch))
                );
                assert_eq!((checked.is_ok(), mismatch), (is_right, !is_right));
            }
            assert!(written == bytes && hashing.pieces.concat() == bytes);
            assert!(hashing.pieces.iter().all(|piece| piece.len() <= PIECE_LEN));
        }
    }

    #[derive(Default)]
    struct Hashing {
        pieces: Vec<Vec<u8>>,
    }

    impl HashingOutput for Hashing {
        fn empty_piece(&mut self) -> Vec<u8> {
            Vec::new()
        }

        fn take(&mut self, piece: Vec<u8>) -> io::Result<()> {
            self.pieces.push(piece);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<(u64, [u8; 32])> {
            let bytes = self.pieces.concat();
            Ok((bytes.len() as u64, *blake3::hash(&bytes).as_bytes()))
        }
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
