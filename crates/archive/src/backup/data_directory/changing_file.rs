//! A file that its server may change, grow, cut or remove while it is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use walzip_pgformat::page_checksum::page_checksum;
use walzip_pgformat::relation_file::RelationFile;
use walzip_pgformat::{Lsn, PAGE_SIZE};

use crate::error::ArchiveError;

/// How often a page is read again whose checksum is wrong: the server may be writing it.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(10);
/// How many wrong pages of a file are named.
const PAGES_NAMED_MAX: u64 = 5;
/// Where `pd_checksum` and `pd_upper` stand.
const CHECKSUM_AT: usize = 8;
const UPPER_AT: usize = 14;

/// A file as it was when it was opened: with as many bytes, zeros where it was cut.
pub(super) struct ChangingFile {
    file: File,
    path: PathBuf,
    at: u64,
    size_bytes: u64,
    pages: Option<Pages>,
    /// A page of which a reader took a part.
    page: Vec<u8>,
    wrong_pages: u64,
    failure: Option<io::Error>,
}

/// How the pages of the file are checked.
struct Pages {
    first_block: u32,
    /// What was written from here on is in the WAL.
    start: Lsn,
}

impl ChangingFile {
    /// Opens the file with this name in the manifest, unless it is gone. Its pages are checked if
    /// `start` is given and it is a relation's.
    pub(super) fn open(
        path: &Path,
        name: &[u8],
        start: Option<Lsn>,
    ) -> Result<Option<ChangingFile>, ArchiveError> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ArchiveError::file("read", path, error)),
        };
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| ArchiveError::file("read", path, error))?;
        if !metadata.is_file() {
            tracing::warn!("{} is no file any more, and is left out", path.display());
            return Ok(None);
        }
        let first_block = || RelationFile::of_path(str::from_utf8(name).ok()?)?.first_block();
        let pages = start.and_then(|start| {
            let first_block = first_block()?;
            Some(Pages { first_block, start })
        });
        Ok(Some(ChangingFile {
            file,
            path: path.to_owned(),
            at: 0,
            size_bytes: metadata.len(),
            pages,
            page: Vec::new(),
            wrong_pages: 0,
            failure: None,
        }))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Pages whose checksums are wrong, in what was read.
    pub(super) fn wrong_pages(&self) -> u64 {
        self.wrong_pages
    }

    /// Reads the next bytes, as many as fit: whole pages, where pages are checked.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        read_or_zeros(&self.file, buffer, self.at)?;
        if let Some(pages) = &self.pages {
            let first = pages
                .first_block
                .wrapping_add((self.at / PAGE_SIZE as u64) as u32);
            let (whole, _) = buffer.as_chunks_mut::<PAGE_SIZE>();
            for (number, page) in (0u32..).zip(whole) {
                let block = first.wrapping_add(number);
                let offset = self.at + u64::from(number) * PAGE_SIZE as u64;
                if !pages.is_right_at_last(&self.file, page, block, offset)? {
                    self.wrong_pages += 1;
                    if self.wrong_pages <= PAGES_NAMED_MAX {
                        let path = self.path.display();
                        tracing::warn!("the checksum of block {block} in {path} is wrong");
                    }
                }
            }
        }
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.page.is_empty() {
            let left = usize::try_from(self.size_bytes - self.at).unwrap_or(usize::MAX);
            let mut len = left.min(buffer.len());
            if self.pages.is_some() && left >= PAGE_SIZE {
                if len < PAGE_SIZE {
                    let mut page = vec![0; PAGE_SIZE];
                    self.fill(&mut page)?;
                    self.page = page;
                    return self.read_some(buffer);
                }
                len -= len % PAGE_SIZE;
            }
            let (taken, _) = buffer.split_at_mut(len);
            self.fill(taken)?;
            return Ok(len);
        }
        let len = self.page.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(self.page.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }

    /// Steps over bytes that need not be read.
    pub(super) fn step_over(&mut self, len: u64) {
        self.at = self.at.saturating_add(len).min(self.size_bytes);
    }

    /// Where the next byte is that a reader takes.
    pub(super) fn position(&self) -> u64 {
        self.at - self.page.len() as u64
    }

    /// Why it could not be read: its reader cannot tell this from a stream that breaks off.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

impl Read for ChangingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(buffer).map_err(|error| {
            let kind = error.kind();
            self.failure = Some(error);
            kind.into()
        })
    }
}

impl Pages {
    /// Whether the page's checksum is right, or need not be; the page is read again if it is not.
    fn is_right_at_last(
        &self,
        file: &File,
        page: &mut [u8; PAGE_SIZE],
        block: u32,
        offset: u64,
    ) -> io::Result<bool> {
        for _ in 0..ATTEMPTS {
            if self.is_right(page, block) {
                return Ok(true);
            }
            std::thread::sleep(PAUSE);
            read_or_zeros(file, page, offset)?;
        }
        Ok(self.is_right(page, block))
    }

    /// A page that was never used has no checksum, and one that was written since the backup began
    /// comes from the WAL.
    fn is_right(&self, page: &[u8; PAGE_SIZE], block: u32) -> bool {
        let field = |at: usize| match page.get(at..at + 2) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        field(UPPER_AT) == 0
            || lsn(page) >= self.start
            || field(CHECKSUM_AT) == page_checksum(page, block)
    }
}

/// `pd_lsn`: the higher half first, each in the machine's order.
fn lsn(page: &[u8; PAGE_SIZE]) -> Lsn {
    let mut words = page
        .as_chunks::<4>()
        .0
        .iter()
        .copied()
        .map(u32::from_le_bytes);
    let mut next = || u64::from(words.next().unwrap_or_default());
    Lsn((next() << 32) | next())
}

/// Reads up to the file's end; what the file has not any more is zeros, as the server sends it.
fn read_or_zeros(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => {
                rest.fill(0);
                break;
            }
            Ok(len) => read += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const START: Lsn = Lsn(0x1_0000_0000);

    /// A page of block 3 whose checksum is right, that was written before the backup began.
    fn page() -> Box<[u8; PAGE_SIZE]> {
        let mut page = Box::new([7; PAGE_SIZE]);
        page[..8].copy_from_slice(&[0, 0, 0, 0, 9, 0, 0, 0]);
        let checksum = page_checksum(&page, 3);
        page[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    fn read(content: &[u8], piece: usize) -> (Vec<u8>, u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("16384");
        fs::write(&path, [&[0; 3 * PAGE_SIZE], content].concat()).expect("written");
        let opened = ChangingFile::open(&path, b"base/5/16384", Some(START));
        let mut file = opened.expect("opened").expect("there");
        let mut read = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            match file.read(&mut buffer).expect("read") {
                0 => break,
                len => read.extend_from_slice(&buffer[..len]),
            }
        }
        assert_eq!(file.size_bytes(), read.len() as u64);
        (read.split_off(3 * PAGE_SIZE), file.wrong_pages())
    }

    #[test]
    fn wrong_pages_are_counted_however_they_are_read() {
        let right = page();
        let mut wrong = page();
        wrong[5000] ^= 1;
        let mut written_since = wrong.clone();
        written_since[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
        for piece in [1, 100, PAGE_SIZE, PAGE_SIZE + 1, 1 << 20] {
            for (content, pages) in [(&right, 0), (&wrong, 1), (&written_since, 0)] {
                let content = [content.as_slice(), b"half a page"].concat();
                assert_eq!(read(&content, piece), (content, pages), "{piece}");
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_ends_in_zeros_and_one_that_is_gone_is_not_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("1259");
        fs::write(&path, page().as_slice()).expect("written");
        let opened = ChangingFile::open(&path, b"base/5/1259", None);
        let mut file = opened.expect("opened").expect("there");
        fs::write(&path, b"short").expect("cut");
        let mut read = Vec::new();
        file.read_to_end(&mut read).expect("read");
        assert_eq!(read.len(), PAGE_SIZE);
        assert_eq!(
            (&read[..5], &read[5..9]),
            (b"short".as_slice(), [0; 4].as_slice())
        );
        fs::remove_file(&path).expect("removed");
        let opened = ChangingFile::open(&path, b"base/5/1259", None).expect("no failure");
        assert!(opened.is_none());
    }
}
