//! What tells a file in `pg_wal` from every other that had or will have its name.

use std::fmt;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use walzip_pgformat::PAGE_SIZE;

use crate::error::ArchiveError;
use crate::files::regular_file;

/// Facts of a file, cheap to read. The times tell whether it was written to since: a data directory
/// that was rolled back, rewound or restored has a file of another time or another inode. The first
/// page says whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    name: String,
    bytes: u64,
    device: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    first_page: blake3::Hash,
}

impl FileFacts {
    /// Reads them.
    pub fn read(path: &Path) -> Result<FileFacts, ArchiveError> {
        let failed = |error| ArchiveError::file("read", path, error);
        let (file, metadata) = regular_file::open(path).map_err(failed)?;
        let mut beginning = Vec::with_capacity(PAGE_SIZE);
        let read = file.take(PAGE_SIZE as u64).read_to_end(&mut beginning);
        read.map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(FileFacts::new(&name, &metadata, &beginning))
    }

    /// Those of an open file, whose beginning was read: at least a page, or all.
    pub(crate) fn new(name: &str, metadata: &Metadata, beginning: &[u8]) -> FileFacts {
        let first_page = &beginning[..beginning.len().min(PAGE_SIZE)];
        FileFacts {
            name: name.to_owned(),
            bytes: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            first_page: blake3::hash(first_page),
        }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for FileFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "file {}", self.name)?;
        writeln!(f, "bytes {}", self.bytes)?;
        writeln!(f, "device {} inode {}", self.device, self.inode)?;
        writeln!(f, "modified {}.{:09}", self.modified.0, self.modified.1)?;
        writeln!(f, "changed {}.{:09}", self.changed.0, self.changed.1)?;
        writeln!(f, "first page {}", self.first_page)
    }
}
