//! What does not keep other files from being brought over.

use serde::Serialize;
use walzip_repo::RepoError;

use crate::error::ArchiveError;

/// Something that could not be brought over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The WAL file's name, or the cluster's.
    pub name: String,
    /// What is wrong.
    pub detail: String,
}

impl Problem {
    pub(super) fn new(name: impl ToString, detail: impl ToString) -> Problem {
        Problem {
            name: name.to_string(),
            detail: detail.to_string(),
        }
    }
}

/// Whether the other files may be copied all the same.
pub(super) fn is_of_one_file(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Repository(error) => matches!(error, RepoError::Corrupt { .. }),
        _ => true,
    }
}
