//! Received files into the repositories, oldest first, and out of the local directory after that.
//!
//! A repository that fails keeps nothing from being received: the file stays, and is tried again
//! after a pause that grows. What comes after it waits, so that no repository gets a hole.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::ClusterIdentity;

use super::directory::{Directory, Waiting};
use super::pause::Pause;
use super::{Destination, PushFailure};
use crate::error::ArchiveError;

/// The longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Pushes what is received.
pub(super) struct Uploads<'a> {
    directory: &'a Directory,
    destination: &'a dyn Destination,
    /// Whose the files are, as soon as it is known.
    cluster: Cell<Option<ClusterIdentity>>,
    /// There may be something to push.
    changed: Notify,
    /// One pushes at a time.
    pushing: Mutex<()>,
    /// Partial segments are pushed too: the server does not archive its own.
    with_partial: Cell<bool>,
    /// Partial segments that a repository has with other content.
    kept: RefCell<HashSet<PathBuf>>,
    /// The end of the newest segment that every repository has.
    stored: Cell<Option<Lsn>>,
    segment_size: Cell<Option<u32>>,
}

impl<'a> Uploads<'a> {
    pub(super) fn new(
        directory: &'a Directory,
        destination: &'a dyn Destination,
        cluster: Option<ClusterIdentity>,
    ) -> Uploads<'a> {
        Uploads {
            directory,
            destination,
            cluster: Cell::new(cluster),
            changed: Notify::new(),
            pushing: Mutex::new(()),
            with_partial: Cell::new(false),
            kept: RefCell::default(),
            stored: Cell::new(None),
            segment_size: Cell::new(None),
        }
    }

    /// Says whose the files are, and whether partial segments are pushed.
    pub(super) fn set_server(&self, cluster: ClusterIdentity, size: u32, with_partial: bool) {
        self.cluster.set(Some(cluster));
        self.segment_size.set(Some(size));
        self.with_partial.set(with_partial);
        self.changed.notify_one();
    }

    /// Says that there is something to push.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// The end of the newest segment that was pushed.
    pub(super) fn stored(&self) -> Option<Lsn> {
        self.stored.get()
    }

    /// Pushes for ever. Ends only where the local directory cannot be used.
    pub(super) async fn run(&self) -> Result<(), ArchiveError> {
        let mut pause = Pause::new(PAUSE_MAX);
        loop {
            match self.push_all(&mut pause).await? {
                None => self.changed.notified().await,
                Some(failed) => {
                    let wait = pause.next();
                    self.warn(&failed, Some(wait))?;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Pushes what is there, once; says whether all of it was pushed.
    pub(super) async fn finish(&self) -> Result<bool, ArchiveError> {
        match self.push_all(&mut Pause::new(PAUSE_MAX)).await? {
            None => Ok(true),
            Some(failed) => {
                self.warn(&failed, None)?;
                Ok(false)
            }
        }
    }

    /// Pushes until nothing is left, or up to the first failure.
    async fn push_all(&self, pause: &mut Pause) -> Result<Option<Failed>, ArchiveError> {
        let Some(cluster) = self.cluster.get() else {
            return Ok(None);
        };
        let _pushing = self.pushing.lock().await;
        loop {
            let waiting = self.waiting()?;
            if waiting.is_empty() {
                return Ok(None);
            }
            for file in waiting {
                match self.destination.push(&file.path, cluster).await {
                    Ok(()) => self.finish_file(&file)?,
                    Err(failure) if failure.is_taken && is_partial(&file) => self.keep(file),
                    Err(failure) => return Ok(Some(Failed { file, failure })),
                }
                pause.reset();
            }
        }
    }

    /// What is to be pushed. Partial segments that were left and cannot be are not among it.
    pub(super) fn waiting(&self) -> Result<Vec<Waiting>, ArchiveError> {
        let mut waiting = self.directory.waiting()?;
        let kept = self.kept.borrow();
        let with_partial = self.with_partial.get();
        waiting.retain(|file| !is_partial(file) || with_partial && !kept.contains(&file.path));
        Ok(waiting)
    }

    fn finish_file(&self, file: &Waiting) -> Result<(), ArchiveError> {
        fs::remove_file(&file.path)
            .map_err(|error| ArchiveError::file("remove", &file.path, error))?;
        if let (WalFileName::Segment(segment), Some(size)) = (file.name, self.segment_size.get()) {
            self.stored.set(Some(segment.range(size)?.end));
        }
        Ok(())
    }

    fn keep(&self, file: Waiting) {
        tracing::warn!(
            "{} is archived with other content, and {} is kept: a server has archived its own",
            file.name,
            file.path.display()
        );
        self.kept.borrow_mut().insert(file.path);
    }

    fn warn(&self, failed: &Failed, wait: Option<Duration>) -> Result<(), ArchiveError> {
        let waiting = self.waiting()?.len();
        let files = if waiting == 1 {
            "file waits"
        } else {
            "files wait"
        };
        let again = match wait {
            Some(wait) => format!("; trying again in {} s", wait.as_secs()),
            None => String::new(),
        };
        tracing::warn!(
            "{} is only in {} yet, where {waiting} {files}: {}{again}",
            failed.file.name,
            self.directory.path().display(),
            failed.failure.message,
        );
        Ok(())
    }
}

struct Failed {
    file: Waiting,
    failure: PushFailure,
}

fn is_partial(file: &Waiting) -> bool {
    matches!(file.name, WalFileName::Partial(_))
}
