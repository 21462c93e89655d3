//! How an object gets onto a disk: complete, durable, and never over another.
//!
//! The bytes go into a temporary file in [`STAGING_DIRECTORY`], which is synced and then
//! given its final name in one step that fails when the name is taken. Then the
//! directory is synced. So the final name never leads to part of an object.
//!
//! Success is reported only when a power cut cannot take the object away any more.
//! That includes what an earlier process did before it was killed: the entries of the
//! directories that lead to the object are synced by each process that relies on
//! them, whoever created them, and an object that exists already is synced before
//! its existence is reported, since its caller will count that as success.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use super::disk::Disk;
use super::disk_error::DiskError;
use super::misplaced::Misplaced;

/// Where objects lie before they have their final name. No key can reach into it,
/// since no part of a key begins with a dot.
pub(crate) const STAGING_DIRECTORY: &str = ".incoming";

/// Writes objects below the directory of a store.
pub(crate) struct Writer<D> {
    disk: D,
    store_directory: PathBuf,
    /// Directories whose own entry this process knows to be durable.
    durable_directories: Mutex<HashSet<PathBuf>>,
    /// What makes the temporary names of this process its own.
    process: String,
    serial: AtomicU64,
}

impl<D> fmt::Debug for Writer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("directory", &self.store_directory)
            .finish()
    }
}

impl<D: Disk> Writer<D> {
    pub(crate) fn new(disk: D, store_directory: PathBuf) -> Self {
        let nanoseconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |age| age.as_nanos());
        Self {
            disk,
            store_directory,
            durable_directories: Mutex::default(),
            process: format!("{}-{nanoseconds}", std::process::id()),
            serial: AtomicU64::new(0),
        }
    }

    pub(crate) fn staging_directory(&self) -> PathBuf {
        self.store_directory.join(STAGING_DIRECTORY)
    }

    /// Puts a whole object unless its name is taken.
    pub(crate) fn create<'a>(
        self: &Arc<Self>,
        object: &Path,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Published, DiskError> {
        if self.confirm(object)? {
            return Ok(Published::Exists);
        }
        self.stage_whole(content)?.publish_new(object)
    }

    /// Puts a whole object in place of what has its name.
    pub(crate) fn replace<'a>(
        self: &Arc<Self>,
        object: &Path,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), DiskError> {
        self.stage_whole(content)?.publish_over(object)
    }

    fn stage_whole<'a>(
        self: &Arc<Self>,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Staged<D>, DiskError> {
        let staged = self.stage()?;
        let mut offset = 0;
        for bytes in content {
            staged.write_at(offset, bytes)?;
            offset += bytes.len() as u64;
        }
        Ok(staged)
    }

    /// Opens a temporary file for an object.
    pub(crate) fn stage(self: &Arc<Self>) -> Result<Staged<D>, DiskError> {
        let directory = self.staging_directory();
        self.create_missing(&directory)?;
        loop {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{}-{serial}", self.process));
            match self.disk.create_new(&path) {
                Ok(file) => {
                    return Ok(Staged {
                        writer: Arc::clone(self),
                        file: Some(file),
                        path,
                    });
                }
                // Another host that shares the directory may have the same process
                // number and clock.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(DiskError::at("create", path)(error)),
            }
        }
    }

    /// Whether an object exists; if it does, it is durable when this returns.
    fn confirm(&self, object: &Path) -> Result<bool, DiskError> {
        if !self
            .disk
            .exists(object)
            .map_err(DiskError::at("look at", object))?
        {
            return Ok(false);
        }
        self.disk
            .sync_path(object)
            .map_err(DiskError::at("sync", object))?;
        let directory = self.parent(object);
        self.make_entries_durable(directory, || self.sync_directory(directory))?;
        Ok(true)
    }

    /// Removes an object, durably. One that is not there is not there durably either: who removed
    /// it may have been killed before it was synced.
    pub(crate) fn remove(&self, object: &Path) -> Result<(), DiskError> {
        let removed = self.disk.remove_file(object);
        let directory = self.parent(object);
        let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        if removed.is_ok() || (removed.as_ref().is_err_and(is_missing) && self.exists(directory)?) {
            self.sync_directory(directory)?;
        }
        removed.map_err(DiskError::at("remove", object))
    }

    /// Removes a directory, durably; success as well when something is in it, or it is not there.
    pub(crate) fn remove_directory_if_empty(&self, directory: &Path) -> Result<(), DiskError> {
        match self.disk.remove_directory(directory) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotFound
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(DiskError::at("remove", directory)(error)),
        }
        self.durable_directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(directory);
        self.sync_directory(self.parent(directory))
    }

    /// Creates a directory and what is missing above it. What it created is durable.
    fn create_missing(&self, directory: &Path) -> Result<(), DiskError> {
        if self.exists(directory)? {
            return Ok(());
        }
        for level in parents_outermost_first(directory) {
            match self.disk.create_directory(level) {
                Ok(()) => self.make_entry_durable(level)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // A read-only file system may refuse before it looks.
                Err(_) if self.exists(level)? => {}
                Err(error) => return Err(DiskError::at("create", level)(error)),
            }
        }
        Ok(())
    }

    /// Syncs the entries of a directory and of those that lead to it from the store's directory,
    /// once in each process: they may be the unsynced work of one that was killed.
    ///
    /// The way to the store's directory itself is synced with the objects that lie in it, which are
    /// put when the repository is made. Directories above it may be another owner's.
    ///
    /// Other work is done meanwhile, and the syncs run at the same time: a disk answers
    /// them together, where each of them in turn would wait for a flush of its own.
    fn make_entries_durable(
        &self,
        directory: &Path,
        meanwhile: impl FnOnce() -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let in_store_directory = directory == self.store_directory;
        let unknown: Vec<&Path> = parents_outermost_first(directory)
            .into_iter()
            .filter(|level| in_store_directory || !self.store_directory.starts_with(level))
            .filter(|level| !self.knows_durable(level))
            .collect();
        thread::scope(|scope| {
            let mut running = Vec::new();
            let mut outcomes = Vec::new();
            for level in unknown {
                let sync = move || self.make_known_entry_durable(level);
                match thread::Builder::new().spawn_scoped(scope, sync) {
                    Ok(thread) => running.push(thread),
                    // No more threads to be had: one after the other, then.
                    Err(_) => outcomes.push(self.make_known_entry_durable(level)),
                }
            }
            outcomes.push(meanwhile());
            for thread in running {
                outcomes.push(match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => resume_unwind(panic),
                });
            }
            outcomes.into_iter().collect()
        })
    }

    /// Syncs the entry of a directory that was there already. Above the store's directory that may
    /// be refused.
    fn make_known_entry_durable(&self, directory: &Path) -> Result<(), DiskError> {
        match self.make_entry_durable(directory) {
            Err(error) if self.store_directory.starts_with(directory) && is_refused(&error) => {
                Ok(())
            }
            other => other,
        }
    }

    fn make_entry_durable(&self, directory: &Path) -> Result<(), DiskError> {
        self.sync_directory(self.parent(directory))?;
        self.durable_directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(directory.to_owned());
        Ok(())
    }

    fn knows_durable(&self, directory: &Path) -> bool {
        self.durable_directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(directory)
    }

    fn exists(&self, path: &Path) -> Result<bool, DiskError> {
        self.disk
            .exists(path)
            .map_err(DiskError::at("look at", path))
    }

    fn sync_directory(&self, directory: &Path) -> Result<(), DiskError> {
        self.disk
            .sync_directory(directory)
            .map_err(DiskError::at("sync", directory))
    }

    fn parent<'a>(&'a self, path: &'a Path) -> &'a Path {
        path.parent().unwrap_or(&self.store_directory)
    }
}

/// A directory and those above it, without the root of the file system.
fn parents_outermost_first(directory: &Path) -> Vec<&Path> {
    let mut levels: Vec<&Path> = directory
        .ancestors()
        .filter(|level| level.parent().is_some())
        .collect();
    levels.reverse();
    levels
}

fn not_named(object: &Path, directory: &Path, error: io::Error) -> DiskError {
    match error.kind() {
        ErrorKind::CrossesDevices => Misplaced::on_another_file_system(directory),
        _ => DiskError::at("name", object)(error),
    }
}

fn is_refused(error: &DiskError) -> bool {
    error.source.kind() == ErrorKind::PermissionDenied
}

/// An object under its temporary name, which is removed when this is dropped.
pub(crate) struct Staged<D: Disk> {
    writer: Arc<Writer<D>>,
    /// Open until the object has its final name: that is what shows that it is in use.
    file: Option<D::File>,
    path: PathBuf,
}

impl<D: Disk> fmt::Debug for Staged<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("path", &self.path).finish()
    }
}

/// What [`Staged::publish_new`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Created,
    Exists,
}

impl<D: Disk> Staged<D> {
    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        match &self.file {
            Some(file) => self.writer.disk.write_at(file, offset, bytes),
            None => Err(io::Error::other("the file was closed")),
        }
        .map_err(DiskError::at("write", &self.path))
    }

    /// Gives the object its final name unless that is taken.
    pub(crate) fn publish_new(self, object: &Path) -> Result<Published, DiskError> {
        let directory = self.writer.parent(object);
        self.sync_with_way_to(directory)?;
        let disk = &self.writer.disk;
        let named = match disk.link(&self.path, object) {
            // What Linux says where a file system has no hard links (FAT, some network
            // and user-space file systems).
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::Unsupported
                ) =>
            {
                disk.rename_new(&self.path, object)
            }
            other => other,
        };
        match named {
            Ok(()) => {
                self.writer.sync_directory(directory)?;
                Ok(Published::Created)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.writer.confirm(object)?;
                Ok(Published::Exists)
            }
            Err(error) => Err(not_named(object, directory, error)),
        }
    }

    /// Gives the object its final name, in place of what has it.
    pub(crate) fn publish_over(self, object: &Path) -> Result<(), DiskError> {
        let directory = self.writer.parent(object);
        self.sync_with_way_to(directory)?;
        self.writer
            .disk
            .rename(&self.path, object)
            .map_err(|error| not_named(object, directory, error))?;
        self.writer.sync_directory(directory)
    }

    /// Syncs the content and the directories that lead to the final name, which are
    /// created where they are missing.
    fn sync_with_way_to(&self, directory: &Path) -> Result<(), DiskError> {
        self.writer.create_missing(directory)?;
        self.writer.make_entries_durable(directory, || self.sync())
    }

    fn sync(&self) -> Result<(), DiskError> {
        match &self.file {
            Some(file) => self.writer.disk.sync_file(file),
            None => Err(io::Error::other("the file was closed")),
        }
        .map_err(DiskError::at("sync", &self.path))
    }
}

impl<D: Disk> Drop for Staged<D> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; what cannot be removed is swept
        // up later.
        let _ = self.writer.disk.remove_file(&self.path);
        self.file = None;
    }
}
