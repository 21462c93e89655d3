//! What both sides of the spool have: one worker, and the settings it should have.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::ArchiveError;
use crate::files::regular_file;

const LOG_LEN_MAX: u64 = 1 << 20;

/// What is no file is neither followed nor waited for.
const NOT_WAITING: i32 = OFlags::NONBLOCK
    .union(OFlags::NOFOLLOW)
    .bits()
    .cast_signed();

/// A worker writes its sign of life so often, and counts as stuck when it has not for so long.
const SIGN_EVERY: Duration = Duration::from_secs(1);
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// One side of the spool of a data directory.
#[derive(Clone, Debug)]
pub(super) struct Side {
    directory: PathBuf,
    /// A hash of all that decides what a worker does.
    settings: String,
}

/// The right to be the worker of a side. The process that holds the open file has it: it can be
/// handed on to a child without a moment in which nobody has it.
#[derive(Debug)]
pub struct WorkerLock(File);

impl WorkerLock {
    /// The file, for a child that is to have it as its standard input.
    pub fn into_file(self) -> File {
        self.0
    }
}

/// A worker's signs of life.
#[derive(Debug)]
pub(crate) struct Alive {
    path: PathBuf,
    last: Option<Instant>,
}

impl Alive {
    /// Gives one, if it is time. That it cannot be given only makes calls do the work.
    pub(crate) fn show(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= SIGN_EVERY) {
            self.last = Some(Instant::now());
            let _ = super::write(&self.path, b"");
        }
    }
}

const ALIVE: &str = "alive";

impl Side {
    /// The signs of life of the worker that this process is.
    pub(super) fn alive(&self) -> Alive {
        Alive {
            path: self.path(ALIVE),
            last: None,
        }
    }

    pub(super) fn open(
        spool_path: &Path,
        data_directory: &Path,
        name: &str,
        settings: &str,
    ) -> Result<Side, ArchiveError> {
        let directory = super::directory_of(spool_path, data_directory)?.join(name);
        super::make_private(&directory)?;
        Ok(Side {
            directory,
            settings: settings.to_owned(),
        })
    }

    /// A file or directory of it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn settings(&self) -> &str {
        &self.settings
    }

    /// The lock, unless a worker has it.
    pub(super) fn try_lock(&self) -> Result<Option<WorkerLock>, ArchiveError> {
        let path = self.path("lock");
        let failed = |error| ArchiveError::file("lock", &path, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(NOT_WAITING)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(WorkerLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Whether a file is the lock: the worker's standard input is.
    pub(super) fn is_lock(&self, file: &File) -> bool {
        let named = std::fs::metadata(self.path("lock"));
        match (named, file.metadata()) {
            (Ok(named), Ok(file)) => (named.dev(), named.ino()) == (file.dev(), file.ino()),
            _ => false,
        }
    }

    /// The file for what the worker says. It is begun anew when it has grown long.
    pub(super) fn log(&self) -> Result<File, ArchiveError> {
        let path = self.path("log");
        let open = || {
            regular_file::check_name(&path)?;
            let file = File::options()
                .create(true)
                .append(true)
                .mode(0o600)
                .custom_flags(NOT_WAITING)
                .open(&path)?;
            let metadata = file.metadata()?;
            regular_file::check(&metadata)?;
            if metadata.len() > LOG_LEN_MAX {
                file.set_len(0)?;
            }
            Ok(file)
        };
        open().map_err(|error: io::Error| ArchiveError::file("open", &path, error))
    }

    /// Whether the worker, which has the lock, shows no sign of life: it is stopped, or hangs.
    pub(super) fn is_stuck(&self) -> bool {
        super::age(&self.path(ALIVE)).is_none_or(|age| age > STUCK_AFTER)
    }

    /// Asks a worker of other settings to end.
    pub(super) fn want_settings(&self) -> Result<(), ArchiveError> {
        match self.are_settings_wanted() {
            true => Ok(()),
            false => super::write(&self.path("settings"), self.settings.as_bytes()),
        }
    }

    /// Whether the last call had the same settings.
    pub(super) fn are_settings_wanted(&self) -> bool {
        super::read(&self.path("settings")).is_some_and(|found| found == self.settings.as_bytes())
    }
}
