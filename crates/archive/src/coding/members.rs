//! Encodes a file a member at a time, of which a piece at a time is in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use walzip_codec::{EncodeError, Encoder};
use walzip_pgformat::{Input, PAGE_SIZE, ReadAt};

use crate::coding::two_threads;

/// A file whose members are encoded.
pub struct Members<'f> {
    /// What is read; nothing where all of it is known.
    pub file: Option<&'f File>,
    /// Bytes of it.
    pub len: u64,
    /// Its first bytes, as far as they were read before: they are not read again.
    pub known: &'f [u8],
}

/// A member that was encoded.
pub struct EncodedMember {
    /// The first page of its input.
    pub beginning: Vec<u8>,
    /// The member.
    pub bytes: Vec<u8>,
}

impl Members<'_> {
    /// Encodes all of them, and hands them over in their order. An empty file has one.
    pub fn encode<E: From<EncodeError>>(
        &self,
        encoder: Encoder,
        mut take: impl FnMut(EncodedMember) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut encoder = encoder.with_both(two_threads::run_both);
        let mut offset = 0;
        loop {
            let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX);
            let rest = self.part(offset, left);
            let mut beginning = Vec::new();
            let read = Input::Reader(&rest).append(0, left.min(PAGE_SIZE), &mut beginning);
            read.map_err(EncodeError::Read)?;
            let part = self.part(offset, left.min(encoder.member_len(&beginning)));
            let bytes = encoder.encode(Input::Reader(&part))?;
            take(EncodedMember { beginning, bytes })?;
            offset += part.len as u64;
            if offset == self.len {
                return Ok(());
            }
        }
    }

    fn part(&self, offset: u64, len: usize) -> Part<'_> {
        Part {
            members: self,
            offset,
            len,
        }
    }
}

/// A part of the file: an offset, and bytes from there on.
struct Part<'m> {
    members: &'m Members<'m>,
    offset: u64,
    len: usize,
}

impl ReadAt for Part<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        let offset = self.offset + offset as u64;
        let known = usize::try_from(offset).ok();
        let known = known.and_then(|offset| self.members.known.get(offset..));
        let known = known.unwrap_or_default();
        let (first, rest) = buffer.split_at_mut(known.len().min(buffer.len()));
        first.copy_from_slice(&known[..first.len()]);
        let offset = offset + first.len() as u64;
        match self.members.file {
            Some(file) => file.read_exact_at(rest, offset),
            None if rest.is_empty() => Ok(()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
