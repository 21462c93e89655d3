//! The spool: what the processes that archive one data directory tell each other.
//!
//! Asynchronous archiving has two sides. PostgreSQL calls `archive-push` for one file after the
//! other and waits for each; a worker in the background pushes what is ready, several at a time, and
//! acknowledges it here. A call for an acknowledged file has nothing else to do than to find the
//! acknowledgement. `archive-get` works the same way round: a worker fetches what will be asked next.
//!
//! ```text
//! SPOOL-PATH/main-0123456789abcdef/   one data directory: its name, and a hash of path and inode
//!     data-directory                  its path
//!     push/ get/                      the two sides, see push_side and get_side
//!         lock                        locked as long as a worker lives
//!         settings                    how the last call wanted it: a worker of other settings ends
//!         alive                       written again and again by the worker
//!         log                         what the worker says
//! ```
//!
//! Nothing here is needed to get a file back: everything may be deleted at any time. So nothing is
//! made durable, and everything that is read is checked against what it is about.

mod file_facts;
mod file_state;
mod get_side;
mod push_side;
mod side;

pub use file_facts::FileFacts;
pub(crate) use get_side::Position;
pub use get_side::{Advance, GetSpool, Prefetched};
pub use push_side::{LAST_VALID, PushSpool, tally};

pub use side::WorkerLock;

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use crate::error::ArchiveError;

/// A data directory that is gone may be mounted again.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// An empty file, written when a data directory is first seen to be gone.
const GONE: &str = "gone";

/// A spool of this user's own in a directory for everybody's temporary files, if it can be had.
pub fn of_this_user(temporary_directory: &Path) -> Option<PathBuf> {
    let name = format!("walzip-{}", geteuid().as_raw());
    let path = temporary_directory.join(name);
    make_private(&path).ok().map(|_| path)
}

/// The directory of one data directory, made where it is missing.
fn directory_of(spool_path: &Path, data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    check_closed(spool_path)?;
    check_outside(spool_path, data_directory)?;
    let directory = path_of(spool_path, data_directory)?;
    if make_private(&directory)? {
        remove_abandoned(spool_path);
        let path = canonical(data_directory)?;
        write(
            &directory.join("data-directory"),
            path.as_os_str().as_bytes(),
        )?;
    }
    Ok(directory)
}

/// Removes what is of data directories that were seen to be gone a day ago, and are gone: each recovery has another
/// one on hosts that try their restores. What cannot be removed stays.
fn remove_abandoned(spool_path: &Path) {
    let entries = fs::read_dir(spool_path).into_iter().flatten();
    for directory in entries.flatten().map(|entry| entry.path()) {
        let Some(data_directory) = read(&directory.join("data-directory")) else {
            continue;
        };
        let data_directory = PathBuf::from(OsString::from_vec(data_directory));
        let gone = directory.join(GONE);
        if !data_directory.is_absolute() || data_directory.exists() {
            let _ = fs::remove_file(&gone);
            continue;
        }
        match age(&gone) {
            None => drop(write(&gone, b"")),
            Some(age) if age > ABANDONED_AFTER => drop(fs::remove_dir_all(&directory)),
            Some(_) => {}
        }
    }
}

/// One that was moved away, or that another container has under the same path, is another one.
fn path_of(spool_path: &Path, data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    let data_directory = canonical(data_directory)?;
    let metadata = fs::metadata(&data_directory)
        .map_err(|error| ArchiveError::file("find", &data_directory, error))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(data_directory.as_os_str().as_bytes());
    hasher.update(&metadata.dev().to_le_bytes());
    hasher.update(&metadata.ino().to_le_bytes());
    let hash = hasher.finalize().to_hex();
    let name = data_directory.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let spool_path = std::path::absolute(spool_path)
        .map_err(|error| ArchiveError::file("find", spool_path, error))?;
    Ok(spool_path.join(format!("{name}-{}", &hash[..16])))
}

/// A data directory by the path that it has everywhere.
pub fn canonical(data_directory: &Path) -> Result<PathBuf, ArchiveError> {
    let failed = |error| ArchiveError::file("find", data_directory, error);
    data_directory.canonicalize().map_err(failed)
}

/// Refuses a spool whose directories others could replace.
fn check_closed(spool_path: &Path) -> Result<(), ArchiveError> {
    const STICKY: u32 = 0o1000;
    let metadata =
        fs::metadata(spool_path).map_err(|error| ArchiveError::file("read", spool_path, error))?;
    match metadata.mode() & 0o002 != 0 && metadata.mode() & STICKY == 0 {
        true => Err(open_to_others(spool_path)),
        false => Ok(()),
    }
}

/// Refuses a spool that base backups would contain.
fn check_outside(spool_path: &Path, data_directory: &Path) -> Result<(), ArchiveError> {
    match canonical(spool_path)?.starts_with(canonical(data_directory)?) {
        false => Ok(()),
        true => Err(ArchiveError::Request(format!(
            "the spool {} lies in the data directory, and every backup would contain it: set another \
             spool-path",
            spool_path.display()
        ))),
    }
}

fn open_to_others(directory: &Path) -> ArchiveError {
    ArchiveError::Request(format!(
        "the spool {} is not a directory that only this user can write in: remove it, or set \
         another spool-path",
        directory.display()
    ))
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
    if !metadata.is_dir() {
        let error = io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory");
        return Err(ArchiveError::file("use", directory, error));
    }
    let is_ours = metadata.uid() == geteuid().as_raw();
    match is_ours && metadata.mode() & 0o022 == 0 {
        true => Ok(is_new),
        false => Err(open_to_others(directory)),
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

/// What tells this boot of the machine from every other.
fn boot() -> String {
    let id = read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    String::from_utf8_lossy(&id).trim().to_owned()
}

/// How long ago a file was written. The clock of a file system may be ahead of this one's.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    let now = SystemTime::now();
    let age = now
        .duration_since(modified)
        .or_else(|_| modified.duration_since(now));
    age.ok()
}
