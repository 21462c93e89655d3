//! Files that are opened only if they are files.
//!
//! A FIFO is waited for until somebody writes to it, a device may do something when it is opened:
//! under a name where a file ought to be, both are refused as they are.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file for reading, at once or not at all.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    check(&fs::metadata(path)?)?;
    // It may have become something else meanwhile.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Reads a short file in one call of the system, so that what a server writes into it meanwhile is in it
/// or not. Of a longer one the beginning.
pub(crate) fn read_at_once(path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let (mut file, _) = open(path)?;
    let mut content = vec![0; len_max];
    let len = file.read(&mut content)?;
    content.truncate(len);
    Ok(content)
}

/// Refuses a name that something else than a file has; a link counts as what it is.
pub(crate) fn check_name(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => check(&metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses what is not a file.
pub(crate) fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file"))
}
