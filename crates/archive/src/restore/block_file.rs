//! A file that is there already, and of which only the blocks are written that differ.
//!
//! Content is compared, not hashes, sizes or times: a block that was torn by a crash differs like
//! any other one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use walzip_pgformat::PAGE_SIZE;

/// A file, and how far it was compared.
pub(super) struct BlockFile {
    file: File,
    /// Its length when it was opened.
    len: u64,
    at: u64,
    /// What it has where new content was compared last.
    there: Vec<u8>,
}

impl BlockFile {
    pub(super) fn new(file: File) -> io::Result<BlockFile> {
        Ok(BlockFile {
            len: file.metadata()?.len(),
            file,
            at: 0,
            there: Vec::new(),
        })
    }

    /// Compares what comes next, and writes the blocks that differ; returns how many bytes were
    /// written.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<u64> {
        let left = self.len.saturating_sub(self.at);
        let length = left.min(piece.len() as u64) as usize;
        self.there.resize(length, 0);
        self.file.read_exact_at(&mut self.there, self.at)?;
        let mut written = 0;
        let mut begun: Option<usize> = None;
        let mut start = 0;
        while start < piece.len() {
            let in_block = ((self.at + start as u64) % PAGE_SIZE as u64) as usize;
            let end = piece.len().min(start + PAGE_SIZE - in_block);
            let differs = piece.get(start..end) != self.there.get(start..end);
            match (differs, begun) {
                (true, None) => begun = Some(start),
                (false, Some(from)) => {
                    written += self.write_run(piece, from, start)?;
                    begun = None;
                }
                _ => {}
            }
            start = end;
        }
        if let Some(from) = begun {
            written += self.write_run(piece, from, piece.len())?;
        }
        self.at += piece.len() as u64;
        Ok(written)
    }

    fn write_run(&self, piece: &[u8], from: usize, to: usize) -> io::Result<u64> {
        let run = piece.get(from..to).unwrap_or_default();
        self.file.write_all_at(run, self.at + from as u64)?;
        Ok(run.len() as u64)
    }

    /// Cuts off what is behind; returns the file and whether there was something.
    pub(super) fn finish(self) -> io::Result<(File, bool)> {
        let is_longer = self.len > self.at;
        if is_longer {
            self.file.set_len(self.at)?;
        }
        Ok((self.file, is_longer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    /// Writes `new` over `old` in pieces of this length; returns what was written, whether the
    /// file was cut, and what it has then.
    fn overwrite(old: &[u8], new: &[u8], piece_bytes: usize) -> (u64, bool, Vec<u8>) {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("16384");
        fs::write(&path, old).expect("written");
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let mut file = BlockFile::new(file.expect("opened")).expect("a length");
        let pieces = new.chunks(piece_bytes);
        let written = pieces
            .map(|piece| file.write(piece).expect("written"))
            .sum();
        let (_, was_cut) = file.finish().expect("finished");
        (written, was_cut, fs::read(&path).expect("readable"))
    }

    #[test]
    fn writes_the_blocks_that_differ_and_no_others() {
        let old: Vec<u8> = (0..10 * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
        let mut new = old.clone();
        for changed in [0, 3 * PAGE_SIZE + 5, 4 * PAGE_SIZE, 10 * PAGE_SIZE - 1] {
            new[changed] ^= 1;
        }
        let expected = 4 * PAGE_SIZE as u64;
        for piece_bytes in [PAGE_SIZE, 3 * PAGE_SIZE, new.len()] {
            let expected = (expected, false, new.clone());
            assert_eq!(overwrite(&old, &new, piece_bytes), expected);
        }
        assert_eq!(overwrite(&old, &old, 100), (0, false, old.clone()));
    }

    #[test]
    fn has_the_new_content_whatever_the_lengths_and_pieces_are() {
        let old: Vec<u8> = (0..5 * PAGE_SIZE + 17).map(|at| (at / 3) as u8).collect();
        for len in [
            0,
            1,
            PAGE_SIZE,
            4 * PAGE_SIZE + 1,
            5 * PAGE_SIZE + 17,
            9 * PAGE_SIZE,
        ] {
            let mut new: Vec<u8> = (0..len).map(|at| (at / 3) as u8).collect();
            if let Some(last) = new.last_mut() {
                *last ^= 0x55;
            }
            for piece_bytes in [1000, PAGE_SIZE + 1, 1 << 20] {
                let (_, was_cut, found) = overwrite(&old, &new, piece_bytes);
                assert!(found == new, "{len} in pieces of {piece_bytes}");
                assert_eq!(was_cut, len < old.len());
            }
        }
    }
}
