//! The files of a backup, however they are stored: what a reader of them hands on.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::ArchiveError;
use crate::server::indexed_tables::IndexedTable;

/// The control file, without which a server does not start, by its name in the manifest.
pub(crate) const CONTROL_FILE: &str = "global/pg_control";
/// Says where recovery starts.
pub(crate) const BACKUP_LABEL: &str = "backup_label";

/// An empty file in the directory of a database that a restore has left out. It goes when the database is
/// dropped; no backup is made as long as it is there.
pub(crate) const LEFT_OUT: &str = "walzip_left_out";

/// Where the links of tablespaces are.
pub(crate) const TABLESPACE_LINKS: &str = "pg_tblspc";

/// A file or a directory of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The tablespace in whose directory it lies; nothing for the data directory's.
    pub(crate) tablespace: Option<u32>,
    /// Below that directory, without steps upwards.
    pub(crate) path: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
}

impl Entry {
    /// An entry of an archive, which decides nothing: a path that leaves its directory is refused.
    pub(crate) fn new(tablespace: Option<u32>, path: &[u8], mode: u32) -> Result<Entry, String> {
        let given = Path::new(OsStr::from_bytes(path));
        if path.contains(&0) {
            return Err(format!("\"{}\" is no path", given.display()));
        }
        let mut path = PathBuf::new();
        for component in given.components() {
            match component {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => {
                    return Err(format!(
                        "\"{}\" leads out of its directory",
                        given.display()
                    ));
                }
            }
        }
        Ok(Entry {
            tablespace,
            path,
            mode,
        })
    }

    /// Its path below the data directory, as PostgreSQL's manifest has it.
    pub(crate) fn name(&self) -> Vec<u8> {
        let mut name = match self.tablespace {
            Some(oid) => format!("pg_tblspc/{oid}/").into_bytes(),
            None => Vec::new(),
        };
        name.extend_from_slice(self.path.as_os_str().as_bytes());
        name
    }
}

/// The OID of the tablespace whose link has this path in the data directory.
pub(crate) fn tablespace_of_link(path: &[u8]) -> Option<u32> {
    let path = std::str::from_utf8(path).ok()?;
    let oid: u32 = path.strip_prefix("pg_tblspc/")?.parse().ok()?;
    // One way to write it: no sign, no leading zeros.
    path.ends_with(&format!("/{oid}")).then_some(oid)
}

/// The content of a file of which some blocks need not be read.
pub(crate) trait PartlyRead: Read {
    /// Whether the next block is as the earlier backup has it, of which the server says so.
    fn is_unchanged(&self) -> bool;

    /// Steps over the next block, or over what is left of the file.
    fn step_over(&mut self, len: u64);
}

/// Content of which all is read.
pub(crate) struct WhollyRead<'r>(pub(crate) &'r mut dyn Read);

impl Read for WhollyRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl PartlyRead for WhollyRead<'_> {
    fn is_unchanged(&self) -> bool {
        false
    }

    fn step_over(&mut self, _len: u64) {}
}

/// What takes the files of a backup, in the order in which they are stored.
pub(crate) trait FileSink {
    /// Learns which files are tables whose indexes are told from them. Their indexes come after them.
    fn tables(&mut self, _tables: &[IndexedTable]) {}

    /// Takes a directory.
    fn directory(&mut self, entry: Entry) -> Result<(), ArchiveError>;

    /// Takes the link of a tablespace.
    fn link(&mut self, oid: u32, location: String) -> Result<(), ArchiveError>;

    /// Takes a file of this size. All of the content is to be read.
    fn file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError>;

    /// The same of a file of which some blocks need not be read.
    fn partly_read_file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn PartlyRead,
    ) -> Result<(), ArchiveError> {
        self.file(entry, size_bytes, content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_manifest() {
        let entry = |tablespace, path: &[u8]| Entry::new(tablespace, path, 0o600);
        let name = |tablespace, path| entry(tablespace, path).map(|entry| entry.name());
        assert_eq!(name(None, b"./base/1/2"), Ok(b"base/1/2".to_vec()));
        let in_tablespace = name(Some(16384), b"PG_15/5/6");
        assert_eq!(in_tablespace, Ok(b"pg_tblspc/16384/PG_15/5/6".to_vec()));
        for outside in ["../x", "base/../../x", "/etc/passwd", "a\0b"] {
            assert!(entry(None, outside.as_bytes()).is_err(), "{outside}");
        }
    }

    #[test]
    fn knows_the_links_of_tablespaces_by_their_path() {
        assert_eq!(tablespace_of_link(b"pg_tblspc/16384"), Some(16384));
        for other in [
            "pg_wal",
            "pg_tblspc",
            "pg_tblspc/x",
            "pg_tblspc/+1",
            "pg_tblspc/01",
            "pg_tblspc/1/2",
        ] {
            assert_eq!(tablespace_of_link(other.as_bytes()), None, "{other}");
        }
    }
}
