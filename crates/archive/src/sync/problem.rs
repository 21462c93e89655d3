//! What does not keep other files from being brought over.

use std::collections::BTreeSet;

use serde::Serialize;
use walzip_repo::{RepoError, WalPack};

use crate::error::ArchiveError;

/// Something that could not be brought over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The WAL file's name, the pack's, or the cluster's.
    pub name: String,
    /// What is wrong.
    pub detail: String,
    /// The files that did not come because of it, where it is not of a whole timeline or cluster.
    #[serde(skip)]
    files: Vec<String>,
}

impl Problem {
    pub(super) fn new(name: impl ToString, detail: impl ToString) -> Problem {
        Problem {
            name: name.to_string(),
            detail: detail.to_string(),
            files: Vec::new(),
        }
    }

    /// A file that cannot be copied.
    pub(super) fn of_file(name: &str, detail: impl ToString) -> Problem {
        Problem {
            files: vec![name.to_owned()],
            ..Problem::new(name, detail)
        }
    }

    /// A pack that cannot be copied, of which these files are lacked.
    pub(super) fn of_pack(pack: &WalPack, files: Vec<String>, detail: impl ToString) -> Problem {
        Problem {
            name: format!("pack {}", pack.name),
            detail: detail.to_string(),
            files,
        }
    }

    /// Whether all of its files have come, where it says which they are.
    pub(super) fn is_solved_by(&self, brought: &BTreeSet<String>) -> bool {
        let mut files = self.files.iter();
        !self.files.is_empty() && files.all(|file| brought.contains(file))
    }
}

/// Whether the other files may be copied all the same.
pub(super) fn is_of_one_file(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Repository(error) => matches!(error, RepoError::Corrupt { .. }),
        _ => true,
    }
}
