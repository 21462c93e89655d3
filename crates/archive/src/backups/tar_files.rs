//! The files in the tar archives that a server sends, one for each tablespace.
//!
//! Links other than those of tablespaces, and whatever else a server would not send, are refused.

use std::io::{self, Read};

use tar::{Archive, EntryType};

use crate::backups::backup_files::{Entry, FileSink, tablespace_of_link};
use crate::error::ArchiveError;

/// Hands on what is in the archive of a tablespace, or of the data directory. `backup` is for
/// messages.
pub(crate) fn read(
    backup: &str,
    tablespace: Option<u32>,
    archive: &mut dyn Read,
    sink: &mut dyn FileSink,
) -> Result<(), ArchiveError> {
    let damaged = |reason: String| ArchiveError::Damaged {
        object: backup.to_owned(),
        reason,
    };
    let unreadable = |error: io::Error| damaged(format!("its archive cannot be read: {error}"));
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let mode = entry.header().mode().unwrap_or(0);
        let found = Entry::new(tablespace, &entry.path_bytes(), mode).map_err(damaged)?;
        match entry.header().entry_type() {
            EntryType::Directory => sink.directory(found)?,
            EntryType::Regular => {
                let size_bytes = entry.size();
                sink.file(found, size_bytes, &mut entry)?;
            }
            EntryType::Symlink if tablespace.is_none() => {
                let location = entry.link_name_bytes().unwrap_or_default();
                let location = String::from_utf8_lossy(&location).into_owned();
                match tablespace_of_link(&found.name()) {
                    Some(oid) => sink.link(oid, location)?,
                    None => return Err(damaged(format!("{} is a link", found.path.display()))),
                }
            }
            other => {
                let reason = format!("{} is a {other:?} entry", found.path.display());
                return Err(damaged(reason));
            }
        }
    }
    Ok(())
}
