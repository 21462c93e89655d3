//! Bytes that are read a piece at a time, and perhaps again.

use std::io;

/// Something of a known length that can be read at any offset.
pub trait ReadAt {
    /// Bytes of it.
    fn len(&self) -> usize;

    /// Fills the buffer with the bytes from an offset on. Fewer bytes than that are an error.
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()>;

    /// It has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An input: bytes in memory, or what gives them.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// All of it is in memory.
    Bytes(&'a [u8]),
    /// Pieces are read as they are needed.
    Reader(&'a dyn ReadAt),
}

impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(bytes: &'a [u8]) -> Input<'a> {
        Input::Bytes(bytes)
    }
}

impl Input<'_> {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        match self {
            Input::Bytes(bytes) => bytes.len(),
            Input::Reader(reader) => reader.len(),
        }
    }

    /// It has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the buffer with the bytes from an offset on. Fewer bytes than that are an error.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Input::Bytes(bytes) => {
                let bytes = bytes
                    .get(offset..)
                    .and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Input::Reader(reader) => reader.read_at(offset, buffer),
        }
    }

    /// Appends the bytes from one offset to another.
    pub fn append(&self, start: usize, end: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let len = end.checked_sub(start);
        let before = bytes.len();
        bytes.resize(before + len.ok_or(io::ErrorKind::UnexpectedEof)?, 0);
        self.read_at(start, &mut bytes[before..])
    }
}

/// The part of an input that is looked at: all of it where it is in memory, else a piece.
pub(crate) struct Window<'a> {
    input: Input<'a>,
    len: usize,
    start: usize,
    piece: Vec<u8>,
    error: Option<io::Error>,
}

/// Bytes of a piece: little enough for the processor's second cache. Pieces begin at multiples
/// of it, so that no page lies in two.
const PIECE_LEN: usize = 256 << 10;

impl<'a> Window<'a> {
    /// On the first bytes of an input: so many, or all.
    pub(crate) fn new(input: Input<'a>, len: usize) -> Window<'a> {
        Window {
            input,
            len: input.len().min(len),
            start: 0,
            piece: Vec::new(),
            error: None,
        }
    }

    /// Bytes that can be looked at, one piece after the other.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Moves to the piece with an offset in it.
    #[inline]
    pub(crate) fn move_to(&mut self, offset: usize) {
        if let Input::Reader(reader) = self.input
            && !(self.start..self.start + self.piece.len()).contains(&offset)
        {
            self.read(reader, offset);
        }
    }

    #[cold]
    fn read(&mut self, reader: &dyn ReadAt, offset: usize) {
        self.start = offset - offset % PIECE_LEN;
        let len = self.len.saturating_sub(self.start).min(PIECE_LEN);
        self.piece.resize(len, 0);
        if let Err(error) = reader.read_at(self.start, &mut self.piece) {
            self.piece.clear();
            self.error.get_or_insert(error);
        }
    }

    /// The bytes from one offset to another; `None` beyond the end, and outside of the piece.
    #[inline]
    pub(crate) fn get(&self, start: usize, end: usize) -> Option<&[u8]> {
        match self.input {
            Input::Bytes(bytes) => bytes.get(..self.len)?.get(start..end),
            Input::Reader(_) => {
                let start = start.checked_sub(self.start)?;
                self.piece.get(start..end.checked_sub(self.start)?)
            }
        }
    }

    /// What went wrong with reading.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

impl std::fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Window");
        debug.field("len", &self.len).field("start", &self.start);
        debug.finish_non_exhaustive()
    }
}
