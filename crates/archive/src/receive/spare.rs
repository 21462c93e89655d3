//! A file of zeros that is made while one segment is received, for the next one: to make one
//! takes as long as to write a segment, and commits would wait for it.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::task::JoinHandle;

use crate::error::ArchiveError;
use crate::files::durable;

/// A spare file that is being made.
#[derive(Debug, Default)]
pub(super) struct Spare(Option<JoinHandle<()>>);

impl Spare {
    /// Begins to make one, unless there is one.
    pub(super) fn prepare(&mut self, path: PathBuf, size: u32) {
        self.0 = Some(tokio::task::spawn_blocking(move || {
            if fits(&path, size) {
                return;
            }
            if let Err(error) = durable::write_zeros(&path, u64::from(size)) {
                // The segment will be made when it is needed, and fail if it has to.
                tracing::debug!("{error}");
            }
        }));
    }

    /// Waits until it is made.
    pub(super) async fn wait(&mut self) {
        if let Some(making) = self.0.take() {
            // Without it the segment is made when it is needed.
            let _ = making.await;
        }
    }
}

/// Gives a spare file another name, durably; says whether there was one.
pub(super) fn take(spare: &Path, path: &Path, size: u32) -> Result<bool, ArchiveError> {
    if !fits(spare, size) {
        return Ok(false);
    }
    fs::rename(spare, path).map_err(|error| ArchiveError::file("rename to", path, error))?;
    match path.parent() {
        Some(directory) => durable::sync_directory(directory).map(|()| true),
        None => Ok(true),
    }
}

fn fits(spare: &Path, size: u32) -> bool {
    let metadata = fs::symlink_metadata(spare);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == u64::from(size))
}
