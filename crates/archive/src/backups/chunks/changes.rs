//! Which blocks of a file have changed since an earlier backup, and where those that have not are.

use std::collections::HashMap;
use std::ops::Range;

use walzip_pgformat::PAGE_SIZE;

use super::block_hashes::{HashReader, Key, StoredHash};
use super::pieces::Piece;
use crate::error::ArchiveError;

/// A file of the earlier backup.
pub(crate) struct PriorFile {
    pub(crate) size_bytes: u64,
    /// Their backups are numbered from 1 on, as the new backup numbers those that it refers to.
    pub(crate) pieces: Vec<Piece>,
}

/// The block hashes of a backup in whose stream unchanged blocks may be.
pub(crate) struct HashSource {
    pub(crate) key: Key,
    /// The hashes of the stream up to the changed blocks, and those of the changed blocks.
    pub(crate) plain: HashReader,
    pub(crate) changed: HashReader,
    /// Where the changed blocks begin in the stream.
    pub(crate) changed_start: u64,
    /// Where the bytes of each file begin in the stream, and the number of its first hash.
    pub(crate) runs: Vec<(u64, u64)>,
}

impl HashSource {
    /// What is stored of the block that begins there in the stream, if one does.
    fn at(&mut self, offset: u64) -> Result<Option<StoredHash>, ArchiveError> {
        let (start, first, reader) = match offset.checked_sub(self.changed_start) {
            Some(_) => (self.changed_start, 0, &mut self.changed),
            None => {
                let behind = self.runs.partition_point(|&(start, _)| start <= offset);
                let run = behind.checked_sub(1).and_then(|at| self.runs.get(at));
                let Some(&(start, first)) = run else {
                    return Ok(None);
                };
                (start, first, &mut self.plain)
            }
        };
        let blocks = (offset - start) / PAGE_SIZE as u64;
        match (offset - start).is_multiple_of(PAGE_SIZE as u64) {
            true => reader.get(first + blocks).map(Some),
            false => Ok(None),
        }
    }
}

/// An earlier backup, to compare with.
pub(crate) struct Comparison {
    /// By their names in the manifest.
    pub(crate) files: HashMap<Vec<u8>, PriorFile>,
    /// Where the files of the full backup are in its stream.
    pub(crate) full_files: HashMap<Vec<u8>, Range<u64>>,
    /// The number of each is one less than in pieces.
    pub(crate) sources: Vec<HashSource>,
}

/// How far a file was compared.
pub(crate) struct Compared<'c> {
    file: Option<&'c PriorFile>,
    full: Option<Range<u64>>,
    sources: &'c mut [HashSource],
    /// The piece that was looked at last, and where it begins in the file.
    piece: usize,
    piece_start: u64,
}

impl Comparison {
    /// Whether the earlier backup or the full one has a file.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.files.contains_key(name) || self.full_files.contains_key(name)
    }

    /// Begins with a file; nothing if neither backup has it.
    pub(crate) fn open(&mut self, name: &[u8]) -> Option<Compared<'_>> {
        let file = self.files.get(name);
        let full = self.full_files.get(name).cloned();
        if file.is_none() && full.is_none() {
            return None;
        }
        Some(Compared {
            file,
            full,
            sources: &mut self.sources,
            piece: 0,
            piece_start: 0,
        })
    }
}

impl Compared<'_> {
    /// Where a block of the file is that has not changed; the offsets only grow.
    pub(crate) fn unchanged(
        &mut self,
        offset: u64,
        block: &[u8],
    ) -> Result<Option<Piece>, ArchiveError> {
        let Some((piece, key, stored)) = self.prior(offset, block.len() as u64)? else {
            return Ok(None);
        };
        Ok((stored.hash == key.hash(block)).then_some(piece))
    }

    /// Where a block of the file is of which the server says that it has not changed, and its CRC if
    /// that is stored.
    pub(crate) fn unread(
        &mut self,
        offset: u64,
        len: u64,
    ) -> Result<Option<(Piece, u32)>, ArchiveError> {
        let prior = self.prior(offset, len)?;
        Ok(prior.and_then(|(piece, _, stored)| Some((piece, stored.crc32c?))))
    }

    /// Where the block of the same place and length is that the earlier backup has, and what is stored
    /// of it.
    fn prior(
        &mut self,
        offset: u64,
        len: u64,
    ) -> Result<Option<(Piece, Key, StoredHash)>, ArchiveError> {
        let Some(file) = self.file else {
            return Ok(None);
        };
        let had = file.size_bytes.saturating_sub(offset);
        if had.min(PAGE_SIZE as u64) != len {
            return Ok(None);
        }
        let piece = loop {
            let Some(piece) = file.pieces.get(self.piece) else {
                return Ok(None);
            };
            if offset < self.piece_start + piece.len {
                break piece;
            }
            self.piece += 1;
            self.piece_start += piece.len;
        };
        let Some(inside) = offset.checked_sub(self.piece_start) else {
            return Ok(None);
        };
        let number = (piece.backup as usize).wrapping_sub(1);
        let Some(source) = self.sources.get_mut(number) else {
            return Ok(None);
        };
        if inside + len > piece.len {
            return Ok(None);
        }
        let at = piece.offset + inside;
        let found = Piece {
            backup: piece.backup,
            offset: at,
            len,
        };
        let stored = source.at(at)?;
        Ok(stored.map(|stored| (found, source.key, stored)))
    }

    /// Where the block that stood in the place of a whole one is in the full backup's stream.
    pub(crate) fn base(&self, offset: u64) -> Option<u64> {
        let full = self.full.as_ref()?;
        let start = full.start.checked_add(offset)?;
        (start.checked_add(PAGE_SIZE as u64)? <= full.end).then_some(start)
    }
}
