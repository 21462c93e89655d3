//! The lines of an index, one after the other, and what may not follow what.

use super::{File, Index, Line, MEMBERS_MAX, Member};
use crate::backups::chunks::pieces::{Expected, PIECES_MAX, PieceLine};

/// Lines, and what the next ones may be.
#[derive(Default)]
pub(super) struct Reading {
    index: Index,
    expected: Expected,
    /// Whether all chunks were there: files follow.
    has_files: bool,
    pieces: usize,
    /// Bytes that the pieces of the last file do not have yet.
    missing: u64,
}

impl Reading {
    /// What was read, and where its streams have come.
    pub(super) fn finish(mut self) -> Result<(Index, Expected), String> {
        self.end_file()?;
        Ok((self.index, self.expected))
    }

    /// Takes the next line.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line).map_err(|error| error.to_string())? {
            Line::Chunk(_) if self.has_files || !self.index.tables.is_empty() => {
                return Err("a chunk stands behind tables or files".to_owned());
            }
            Line::Chunk(chunk) => self.index.chunks.push(chunk),
            Line::Table(_) if self.has_files => {
                return Err("a table stands behind files".to_owned());
            }
            Line::Table(table) => self.index.tables.push(table),
            Line::Directory(directory) => {
                self.end_file()?;
                let entry = directory.place.entry()?;
                self.add_member(Member::Directory(entry))?;
            }
            Line::File(file) => {
                self.end_file()?;
                self.add_file(file)?;
            }
            Line::Pieces(lines) => {
                for line in lines {
                    self.add_piece(&line)?;
                }
            }
        }
        Ok(())
    }

    /// The last file, or whatever came last, is whole.
    fn end_file(&mut self) -> Result<(), String> {
        if !self.has_files {
            self.expected = Expected::new(self.index.changed_start());
            self.has_files = true;
        }
        match self.missing {
            0 => Ok(()),
            _ => Err("a file has too few pieces".to_owned()),
        }
    }

    fn add_file(&mut self, file: File) -> Result<(), String> {
        if file.in_pieces && (file.offset.is_some() || file.size_bytes == 0) {
            return Err("a file in pieces has none".to_owned());
        }
        if file.in_pieces {
            self.missing = file.size_bytes;
        } else if file.offset.is_none() {
            self.expected.step_over(file.size_bytes)?;
        }
        self.add_member(Member::File {
            entry: file.place.entry()?,
            size_bytes: file.size_bytes,
            shared_at: file.offset,
            pieces: file.in_pieces.then(Vec::new),
        })
    }

    fn add_member(&mut self, member: Member) -> Result<(), String> {
        if self.index.members.len() == MEMBERS_MAX {
            return Err(format!(
                "it has more than {MEMBERS_MAX} files and directories"
            ));
        }
        self.index.members.push(member);
        Ok(())
    }

    fn add_piece(&mut self, line: &PieceLine) -> Result<(), String> {
        let piece = self.expected.read(line)?;
        let missing = self.missing.checked_sub(piece.len);
        self.missing = missing.ok_or_else(|| "a file has too many pieces".to_owned())?;
        self.pieces += 1;
        match self.index.members.last_mut() {
            Some(Member::File {
                pieces: Some(pieces),
                ..
            }) if self.pieces <= PIECES_MAX => pieces.push(piece),
            _ => return Err("its files have too many pieces".to_owned()),
        }
        Ok(())
    }
}
