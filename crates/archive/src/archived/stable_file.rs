//! A file that is read in parts and must not change meanwhile, or what was unpacked from one.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use walzip_codec::{EncodeError, Level};
use walzip_pgformat::wal::{EdgeReader, SegmentEdges};
use walzip_pgformat::wal_file_name::SEGMENT_SIZE_BYTES_MAX;

use crate::archived::difference::Difference;
use crate::archived::stored_wal::{StoredWal, warn_of_late};
use crate::coding::members::Members;
use crate::coding::{self, off_the_runtime};
use crate::error::ArchiveError;
use crate::files::regular_file;
use crate::packs::{Undecoded, is_damage};

/// A file, and what it was when it was opened.
#[derive(Clone)]
pub(crate) struct StableFile {
    path: PathBuf,
    /// Nothing of what was unpacked: all of that is in memory.
    opened: Option<(Arc<File>, Metadata)>,
    len: u64,
    beginning: Bytes,
}

impl StableFile {
    /// Opens it, and reads its first bytes: so many or all.
    pub(crate) async fn open(path: &Path, beginning_len: u64) -> Result<StableFile, ArchiveError> {
        let path = path.to_owned();
        off_the_runtime(move || {
            let (mut file, before) =
                regular_file::open(&path).map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidInput => invalid(&path, error.to_string()),
                    _ => ArchiveError::file("read", &path, error),
                })?;
            if before.len() > u64::from(SEGMENT_SIZE_BYTES_MAX) {
                let reason = format!("{} bytes are more than a segment has", before.len());
                return Err(invalid(&path, reason));
            }
            let mut beginning = Vec::new();
            let read = (&mut file).take(beginning_len).read_to_end(&mut beginning);
            read.map_err(|error| ArchiveError::file("read", &path, error))?;
            Ok(StableFile {
                path,
                len: before.len(),
                opened: Some((Arc::new(file), before)),
                beginning: beginning.into(),
            })
        })
        .await
    }

    /// What was unpacked from a file.
    pub(crate) fn unpacked(path: &Path, content: Vec<u8>) -> StableFile {
        StableFile {
            path: path.to_owned(),
            opened: None,
            len: content.len() as u64,
            beginning: content.into(),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, of which a segment has 1 GiB at most.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// What it was when it was opened; nothing of what was unpacked.
    pub(crate) fn opened(&self) -> Option<&Metadata> {
        self.opened.as_ref().map(|(_, metadata)| metadata)
    }

    /// What was read when it was opened, which is not read again.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.beginning
    }

    /// The object of its content, of which a part at a time is in memory.
    pub(crate) async fn encode(
        &self,
        name: &str,
        level: Level,
        verify: bool,
    ) -> Result<Bytes, ArchiveError> {
        let (this, name) = (self.clone(), name.to_owned());
        off_the_runtime(move || {
            let members = Members {
                file: this.opened.as_ref().map(|(file, _)| &**file),
                len: this.len,
                known: &this.beginning,
            };
            let object = coding::encode(&name, &members, level, verify);
            // What changed while it was read cannot be proven either.
            this.check_unchanged(this.len)?;
            object.map_err(|error| match error {
                EncodeError::Read(error) => this.failed(error),
                source => ArchiveError::Encode { name, source },
            })
        })
        .await
    }

    /// Whether a file of the archive has exactly this content.
    pub(crate) async fn is_in(&self, name: &str, stored: StoredWal) -> Result<bool, ArchiveError> {
        let (counts, beside) = stored.split();
        match (self.equals(name, counts).await, beside) {
            (Err(error), Some(beside)) if is_damage(&error) => {
                warn_of_late(&error);
                self.equals(name, beside).await
            }
            (compared, _) => compared,
        }
    }

    async fn equals(&self, name: &str, stored: StoredWal) -> Result<bool, ArchiveError> {
        let (this, name) = (self.clone(), name.to_owned());
        off_the_runtime(move || {
            let mut comparison = Comparison {
                reader: this.reader(),
                expected: Vec::new(),
                is_equal: true,
            };
            let decoded = stored.decode_to(&name, &mut comparison);
            decoded.map_err(|failed| match failed {
                Undecoded::Damaged(error) => *error,
                Undecoded::Write(error) => this.failed(error),
            })?;
            let (is_equal, mut reader) = (comparison.is_equal, comparison.reader);
            let rest = io::copy(&mut reader, &mut io::sink());
            let rest = rest.map_err(|error| this.failed(error))?;
            this.check_unchanged(reader.read)?;
            Ok(is_equal && rest == 0)
        })
        .await
    }

    /// Where a file of the archive first has another byte before an end, whatever timelines the headers of pages have. What
    /// comes after the end may be written meanwhile.
    pub(crate) async fn first_difference(
        &self,
        name: &str,
        stored: StoredWal,
        end: usize,
    ) -> Result<Option<usize>, ArchiveError> {
        let (this, name) = (self.clone(), name.to_owned());
        off_the_runtime(move || {
            let mut difference = Difference::new(this.reader(), end);
            let decoded = stored.decode_to(&name, &mut difference);
            decoded.map_err(|failed| match failed {
                Undecoded::Damaged(error) => *error,
                Undecoded::Write(error) => this.failed(error),
            })?;
            Ok(difference.first)
        })
        .await
    }

    /// All of it, as it is now.
    pub(crate) async fn content(&self) -> Result<Vec<u8>, ArchiveError> {
        let this = self.clone();
        off_the_runtime(move || {
            let mut content = Vec::with_capacity(this.len());
            let read = this.reader().read_to_end(&mut content);
            read.map_err(|error| this.failed(error))?;
            Ok(content)
        })
        .await
    }

    /// How it begins and ends, if it is a whole segment.
    pub(crate) async fn edges(&self) -> Result<Option<SegmentEdges>, ArchiveError> {
        let this = self.clone();
        off_the_runtime(move || {
            let (mut reader, mut edges) = (this.reader(), EdgeReader::default());
            let read = io::copy(&mut reader, &mut edges);
            read.map_err(|error| this.failed(error))?;
            this.check_unchanged(reader.read)?;
            Ok(edges.finish())
        })
        .await
    }

    /// BLAKE3 of its content.
    pub(crate) async fn hash(&self) -> Result<blake3::Hash, ArchiveError> {
        let this = self.clone();
        off_the_runtime(move || {
            let (mut reader, mut hasher) = (this.reader(), blake3::Hasher::new());
            let read = io::copy(&mut reader, &mut hasher);
            read.map_err(|error| this.failed(error))?;
            this.check_unchanged(reader.read)?;
            Ok(hasher.finalize())
        })
        .await
    }

    /// Reads it from its first byte to one behind its end, where nothing should be.
    fn reader(&self) -> Counting<'_> {
        let rest = Rest {
            file: self.opened.as_ref().map(|(file, _)| &**file),
            offset: self.beginning.len() as u64,
            end: self.len + 1,
        };
        Counting {
            inner: self.beginning.chain(rest),
            read: 0,
        }
    }

    /// All of it was read, so many bytes: fails if somebody wrote to it meanwhile.
    fn check_unchanged(&self, read: u64) -> Result<(), ArchiveError> {
        let is_same = match &self.opened {
            Some((file, before)) => {
                let after = file.metadata().map_err(|error| self.failed(error))?;
                after.len() == self.len && after.modified().ok() == before.modified().ok()
            }
            None => true,
        };
        match is_same && read == self.len {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> ArchiveError {
        invalid(&self.path, "it changed while it was read".to_owned())
    }

    fn failed(&self, error: io::Error) -> ArchiveError {
        ArchiveError::file("read", &self.path, error)
    }
}

fn invalid(path: &Path, reason: String) -> ArchiveError {
    ArchiveError::Invalid {
        path: path.to_owned(),
        reason,
    }
}

/// What of a file is behind its beginning. The file has other readers, for other repositories.
struct Rest<'f> {
    file: Option<&'f File>,
    offset: u64,
    end: u64,
}

impl Read for Rest<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = self.file else {
            return Ok(0);
        };
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let read = file.read_at(&mut buffer[..len], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

struct Counting<'f> {
    inner: io::Chain<&'f [u8], Rest<'f>>,
    read: u64,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

/// Compares what is written to it with a file.
struct Comparison<'f> {
    reader: Counting<'f>,
    expected: Vec<u8>,
    is_equal: bool,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.expected.clear();
        let mut expected = (&mut self.reader).take(bytes.len() as u64);
        expected.read_to_end(&mut self.expected)?;
        self.is_equal &= self.expected == bytes;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
