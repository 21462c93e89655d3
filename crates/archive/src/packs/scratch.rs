//! Bytes that are wanted later, in a file without a name: meanwhile they take no memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that were put one after the other. Where there is no file, or it cannot take more, they stay in
/// memory.
#[derive(Debug)]
pub(super) struct Scratch {
    file: Option<File>,
    file_len: u64,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    InFile { offset: u64, len: usize },
    InMemory(Vec<u8>),
}

impl Scratch {
    /// In a directory, as far as it can be written to.
    pub(super) fn new(directory: &Path) -> Scratch {
        let file = tempfile::tempfile_in(directory);
        let shown = directory.display();
        let file = file.inspect_err(|error| tracing::debug!("no file in {shown}: {error}"));
        Scratch::of(file.ok())
    }

    /// In memory.
    #[cfg(test)]
    pub(super) fn in_memory() -> Scratch {
        Scratch::of(None)
    }

    fn of(file: Option<File>) -> Scratch {
        Scratch {
            file,
            file_len: 0,
            parts: Vec::new(),
        }
    }

    /// Puts bytes behind those that are there.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        let offset = self.file_len;
        let written = self
            .file
            .as_ref()
            .map(|file| file.write_all_at(&bytes, offset));
        self.parts.push(match written {
            Some(Ok(())) => {
                self.file_len += bytes.len() as u64;
                Part::InFile {
                    offset,
                    len: bytes.len(),
                }
            }
            _ => Part::InMemory(bytes),
        });
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        let lens = self.parts.iter().map(|part| match part {
            Part::InFile { len, .. } => *len,
            Part::InMemory(bytes) => bytes.len(),
        });
        lens.sum()
    }

    /// Appends all of them to others.
    pub(super) fn append_to(self, all: &mut Vec<u8>) -> io::Result<()> {
        for part in self.parts {
            match (part, &self.file) {
                (Part::InFile { offset, len }, Some(file)) => {
                    let from = all.len();
                    all.resize(from + len, 0);
                    let place = all.get_mut(from..).unwrap_or_default();
                    file.read_exact_at(place, offset)?;
                }
                (Part::InMemory(bytes), _) => all.extend_from_slice(&bytes),
                (Part::InFile { .. }, None) => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut scratch: Scratch) -> (bool, Vec<u8>) {
        for number in 0..5 {
            scratch.push(vec![number; 1000 * usize::from(number)]);
        }
        assert_eq!(scratch.len(), 10_000);
        let is_in_file = scratch.file_len == 10_000;
        let mut all = b"x".to_vec();
        scratch.append_to(&mut all).expect("read");
        (is_in_file, all)
    }

    #[test]
    fn bytes_come_back_in_their_order_from_a_file_or_without_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let (is_in_file, expected) = all(Scratch::new(directory.path()));
        assert!(is_in_file && expected.len() == 10_001);
        // A file to which nothing can be written, as on a full disk.
        let full = File::open("/dev/full").expect("a device");
        assert_eq!(all(Scratch::of(Some(full))), (false, expected.clone()));
        assert_eq!(all(Scratch::of(None)), (false, expected));
    }

    #[test]
    fn a_file_that_lost_bytes_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut scratch = Scratch::new(directory.path());
        scratch.push(vec![1; 1000]);
        let file = scratch.file.as_ref().expect("a file");
        file.set_len(10).expect("cut");
        assert!(scratch.append_to(&mut Vec::new()).is_err());
    }
}
