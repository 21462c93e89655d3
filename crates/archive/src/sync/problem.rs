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
    /// The files that did not come because of it.
    #[serde(skip)]
    files: Vec<String>,
}

impl Problem {
    pub(super) fn new(name: impl ToString, detail: impl ToString) -> Problem {
        let name = name.to_string();
        Problem {
            files: vec![name.clone()],
            name,
            detail: detail.to_string(),
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

    /// Whether all of its files have come.
    pub(super) fn is_solved_by(&self, brought: &BTreeSet<String>) -> bool {
        self.files.iter().all(|file| brought.contains(file))
    }
}

/// Whether the other files may be copied all the same.
pub(super) fn is_of_one_file(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Repository(error) => matches!(error, RepoError::Corrupt { .. }),
        _ => true,
    }
}
