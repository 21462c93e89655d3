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
/// How many of a file's pages are noted whose positions are to be looked at: those with the greatest.
const UNPROVEN_MAX: usize = 16;
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
    unproven: Vec<UnprovenPage>,
    failure: Option<io::Error>,
}

/// A page whose checksum is wrong and whose position says that the WAL has it. What the position says is
/// believed once it is known where the backup ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnprovenPage {
    pub(super) lsn: Lsn,
    pub(super) block: u32,
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Unproven(Lsn),
    Wrong,
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
            unproven: Vec::new(),
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

    /// Pages that are right if their positions are, in what was read.
    pub(super) fn take_unproven(&mut self) -> Vec<UnprovenPage> {
        std::mem::take(&mut self.unproven)
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
                match pages.verdict_at_last(&self.file, page, block, offset)? {
                    Verdict::Right => {}
                    Verdict::Unproven(lsn) => {
                        let page = UnprovenPage { lsn, block };
                        if self.unproven.len() < UNPROVEN_MAX {
                            self.unproven.push(page);
                        } else if let Some(least) = self.unproven.iter_mut().min_by_key(|of| of.lsn)
                            && least.lsn < lsn
                        {
                            *least = page;
                        }
                    }
                    Verdict::Wrong => {
                        self.wrong_pages += 1;
                        if self.wrong_pages <= PAGES_NAMED_MAX {
                            let path = self.path.display();
                            tracing::warn!("the checksum of block {block} in {path} is wrong");
                        }
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
    /// What the page is; it is read again as long as it is not right, since the server may be writing it.
    fn verdict_at_last(
        &self,
        file: &File,
        page: &mut [u8; PAGE_SIZE],
        block: u32,
        offset: u64,
    ) -> io::Result<Verdict> {
        for _ in 0..ATTEMPTS {
            if self.verdict(page, block) == Verdict::Right {
                return Ok(Verdict::Right);
            }
            std::thread::sleep(PAUSE);
            read_or_zeros(file, page, offset)?;
        }
        Ok(self.verdict(page, block))
    }

    /// A page that was never used is zeros (`PageIsVerified`), and one that was written since the backup began
    /// comes from the WAL.
    fn verdict(&self, page: &[u8; PAGE_SIZE], block: u32) -> Verdict {
        let field = |at: usize| match page.get(at..at + 2) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        if field(UPPER_AT) == 0 {
            return match page.iter().all(|&byte| byte == 0) {
                true => Verdict::Right,
                false => Verdict::Wrong,
            };
        }
        let lsn = lsn(page);
        match field(CHECKSUM_AT) == page_checksum(page, block) {
            true => Verdict::Right,
            false if lsn >= self.start => Verdict::Unproven(lsn),
            false => Verdict::Wrong,
        }
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

    fn read(content: &[u8], piece: usize) -> (Vec<u8>, u64, Vec<UnprovenPage>) {
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
        let pages = read.split_off(3 * PAGE_SIZE);
        (pages, file.wrong_pages(), file.take_unproven())
    }

    #[test]
    fn wrong_pages_are_counted_however_they_are_read() {
        let right = page();
        let mut wrong = page();
        wrong[5000] ^= 1;
        let mut written_since = wrong.clone();
        written_since[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
        // The server has never used it, but its beginning alone looks so.
        let mut begins_with_zeros = page();
        begins_with_zeros[..PAGE_SIZE / 2].fill(0);
        let never_used = Box::new([0; PAGE_SIZE]);
        let unproven = UnprovenPage {
            lsn: START,
            block: 3,
        };
        for piece in [1, 100, PAGE_SIZE, PAGE_SIZE + 1, 1 << 20] {
            for (content, pages, noted) in [
                (&right, 0, vec![]),
                (&wrong, 1, vec![]),
                (&begins_with_zeros, 1, vec![]),
                (&never_used, 0, vec![]),
                (&written_since, 0, vec![unproven.clone()]),
            ] {
                let content = [content.as_slice(), b"half a page"].concat();
                assert_eq!(read(&content, piece), (content, pages, noted), "{piece}");
            }
        }
    }

    #[test]
    fn of_many_pages_those_with_the_greatest_positions_are_noted() {
        let mut content = Vec::new();
        for number in 0..2 * UNPROVEN_MAX as u8 {
            let mut written_since = page();
            written_since[..8].copy_from_slice(&[1, 0, 0, 0, number ^ 1, 0, 0, 0]);
            content.extend_from_slice(written_since.as_slice());
        }
        let (_, wrong, noted) = read(&content, 1 << 20);
        assert_eq!((wrong, noted.len()), (0, UNPROVEN_MAX));
        let least = noted.iter().map(|page| page.lsn.0 - START.0).min();
        assert_eq!(least, Some(UNPROVEN_MAX as u64));
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
