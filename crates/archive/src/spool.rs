//! The spool: what the processes that archive one data directory tell each other.
//!
//! Asynchronous archiving has two sides. PostgreSQL calls `archive-push` for one file after the
//! other and waits for each; a worker in the background pushes what is ready, several at a time, and
//! acknowledges it here. A call for an acknowledged file has nothing else to do than to find the
//! acknowledgement. `archive-get` works the same way round: a worker fetches what will be asked next.
//!
//! ```text
//! SPOOL-PATH/main-0123456789abcdef/   one data directory: its name, and a hash of its path
//!     data-directory                  its path
//!     push/ get/                      the two sides, see push_side and get_side
//!         lock                        locked as long as a worker lives
//!         settings                    how the last call wanted it: a worker of other settings ends
//!         log                         what the worker says
//! ```
//!
//! Nothing here is needed to get a file back: everything may be deleted at any time. So nothing is
//! made durable, and everything that is read is checked against what it is about.

mod file_facts;
mod get_side;
mod push_side;
mod side;

pub use file_facts::FileFacts;
pub use get_side::{GetSpool, Prefetched};
pub use push_side::{PushSpool, tally};

pub use side::WorkerLock;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use crate::error::ArchiveError;

/// The directory of one data directory, made where it is missing.
fn directory_of(spool_path: &Path, data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    let directory = path_of(spool_path, data_directory)?;
    if make_private(&directory)? {
        let path = canonical(data_directory)?;
        write(
            &directory.join("data-directory"),
            path.as_os_str().as_bytes(),
        )?;
    }
    Ok(directory)
}

fn path_of(spool_path: &Path, data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    let data_directory = canonical(data_directory)?;
    let hash = blake3::hash(data_directory.as_os_str().as_bytes()).to_hex();
    let name = data_directory.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    Ok(spool_path.join(format!("{name}-{}", &hash[..16])))
}

fn canonical(data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    let failed = |error| ArchiveError::file("find", data_directory, error);
    data_directory.canonicalize().map_err(failed)
}

/// Makes a directory that only this user can write in, or refuses one in which another could write
/// acknowledgements. Says whether it is new.
fn make_private(directory: &Path) -> Result<bool, ArchiveError> {
    let is_new = match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(ArchiveError::file("create the spool", directory, error)),
    };
    let metadata = fs::symlink_metadata(directory)
        .map_err(|error| ArchiveError::file("read", directory, error))?;
    let is_ours = metadata.uid() == geteuid().as_raw();
    match metadata.is_dir() && is_ours && metadata.mode() & 0o022 == 0 {
        true => Ok(is_new),
        false => Err(ArchiveError::Request(format!(
            "the spool {} is not a directory that only this user can write in: remove it, or set \
             another spool-path",
            directory.display()
        ))),
    }
}

/// Writes a small file whole. Its directory has one writer of this name at a time, or all of them
/// would write the same.
fn write(path: &Path, content: &[u8]) -> Result<(), ArchiveError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        ArchiveError::file("write", path, error)
    })
}

/// What a small file has, or nothing where it cannot be read: then it is as if it was not there.
fn read(path: &Path) -> Option<Vec<u8>> {
    /// More than anything that is written here.
    const LEN_MAX: u64 = 64 << 10;
    let metadata = fs::symlink_metadata(path).ok()?;
    match metadata.is_file() && metadata.len() <= LEN_MAX {
        true => fs::read(path).ok(),
        false => None,
    }
}

/// How long ago a file was written; nothing where the clock contradicts that.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(modified).ok()
}
