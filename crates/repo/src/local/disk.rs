//! The few operations of a file system that writing an object consists of.
//!
//! They stand behind a trait so that the order in which [`super::durable`] uses them
//! can be tried on a simulated disk that loses power between any two of them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags};
use rustix::io::Errno;

/// Readable by the owner and the group: the files hold the database's content.
const FILE_MODE: u32 = 0o640;
const DIRECTORY_MODE: u32 = 0o750;

pub(crate) trait Disk: Send + Sync + 'static {
    type File: Send + Sync + 'static;

    /// Creates a file that must not exist, and marks it as in use for as long as it
    /// is open.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the content of a file durable, not its name.
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;
    /// Makes the content of an existing file durable.
    fn sync_path(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name that must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file to a name that must not exist.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file, replacing what has the name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory, unless something is in it.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// The disk of this machine, or one that is mounted on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn create_new(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(path)?;
        // File systems without locks leave the age alone to tell whether a temporary
        // file is in use; see `sweep`.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(file)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_path(&self, path: &Path) -> io::Result<()> {
        open_file(path)?.sync_all()
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some network file systems do not know how to sync a directory. PostgreSQL
            // itself passes over these two.
            Err(error) if is_unsupported(&error) => Ok(()),
            other => other,
        }
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            CWD,
            from,
            CWD,
            to,
            RenameFlags::NOREPLACE,
        )?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Opens what should be a file. Should it be something else by now, a link is not followed and a
/// FIFO not waited for.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

fn is_unsupported(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::INVAL | Errno::BADF))
}

/// Whether some process still has the temporary file open. Unknown counts as yes.
pub(crate) fn is_in_use(path: &Path) -> bool {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err(),
        Err(_) => true,
    }
}
