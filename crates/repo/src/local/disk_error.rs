//! What the operating system refuses.

use std::io;
use std::path::PathBuf;

/// What went wrong, doing what, where.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} {}", path.display())]
pub(crate) struct DiskError {
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl DiskError {
    pub(crate) fn at(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self {
            action,
            path,
            source,
        }
    }
}
