//! Bytes that are wanted later, in a file without a name: meanwhile they take no memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

/// Bytes that were put one after the other. Where there is no file, or it cannot take more, they stay in
/// memory.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: Option<File>,
    file_len: u64,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    InFile { offset: u64, len: usize },
    InMemory(Bytes),
}

impl Scratch {
    /// In a directory, as far as it can be written to.
    pub(crate) fn new(directory: &Path) -> Scratch {
        let file = tempfile::tempfile_in(directory);
        let shown = directory.display();
        let file = file.inspect_err(|error| tracing::debug!("no file in {shown}: {error}"));
        Scratch::of(file.ok())
    }

    /// In memory.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Scratch {
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
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
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
            _ => Part::InMemory(bytes.into()),
        });
    }

    /// The bytes that were put with this number, from 0 on.
    pub(crate) fn read(&self, number: usize) -> io::Result<Bytes> {
        match (self.parts.get(number), &self.file) {
            (Some(Part::InFile { offset, len }), Some(file)) => {
                let mut bytes = vec![0; *len];
                file.read_exact_at(&mut bytes, *offset)?;
                Ok(bytes.into())
            }
            (Some(Part::InMemory(bytes)), _) => Ok(bytes.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut scratch: Scratch) -> (bool, Vec<u8>) {
        for number in 0..5 {
            scratch.push(vec![number; 1000 * usize::from(number)]);
        }
        let is_in_file = scratch.file_len == 10_000;
        let pieces = (0..5).map(|number| scratch.read(number).expect("read"));
        (is_in_file, pieces.collect::<Vec<_>>().concat())
    }

    #[test]
    fn bytes_come_back_in_their_order_from_a_file_or_without_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let (is_in_file, expected) = all(Scratch::new(directory.path()));
        assert!(is_in_file && expected.len() == 10_000);
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
        assert!(scratch.read(0).is_err());
        assert!(scratch.read(1).is_err());
    }
}
