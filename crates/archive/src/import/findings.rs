//! What keeps a file of another archive from being taken over.

use std::path::Path;

use serde::Serialize;
use walzip_pgformat::wal_file_name::WalFileName;

use super::find::Found;
use super::unpack::Flaw;
use crate::error::ArchiveError;

/// A file that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// What kind of reason.
    pub kind: FindingKind,
    /// The file, from the directory that was imported.
    pub file: String,
    /// What exactly.
    pub detail: String,
}

/// The kinds of findings, by what they say of the two archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The repository has different content under the name.
    Conflict,
    /// What the repository has under the name is damaged.
    RepositoryDamaged,
    /// The file is damaged, or is not what its name says.
    Damaged,
    /// The file cannot be read.
    Unreadable,
    /// The file is encrypted, or compressed by a program that is not known.
    NotUnderstood,
    /// Nothing says whose the file is.
    OwnerUnknown,
    /// The segment lies in a server's `pg_wal`, which has not finished it.
    Unfinished,
}

/// Why a file is not taken over, or nothing is any more.
#[derive(Debug)]
pub(super) enum Trouble {
    Flaw(Flaw),
    /// Nothing beside a history says whose it is.
    NobodysHistory,
    /// A server may write more into it.
    Unfinished,
    /// It comes after a segment of which the repository has another one.
    Behind(WalFileName),
    /// Another file of its name was taken over before it.
    TwoContents,
    Error(ArchiveError),
}

impl From<Flaw> for Trouble {
    fn from(flaw: Flaw) -> Trouble {
        Trouble::Flaw(flaw)
    }
}

impl From<ArchiveError> for Trouble {
    fn from(error: ArchiveError) -> Trouble {
        Trouble::Error(error)
    }
}

/// What the trouble with one file is. An error is what the next file would meet as well.
pub(super) fn finding(file: String, trouble: Trouble) -> Result<Finding, ArchiveError> {
    let (kind, detail) = match trouble {
        Trouble::Flaw(flaw) => {
            let kind = match flaw {
                Flaw::Unreadable(_) => FindingKind::Unreadable,
                Flaw::Encrypted => FindingKind::NotUnderstood,
                Flaw::Damaged(_) => FindingKind::Damaged,
            };
            (kind, flaw.to_string())
        }
        Trouble::NobodysHistory => (
            FindingKind::OwnerUnknown,
            "it does not say whose it is, and there is no WAL of one cluster beside it".to_owned(),
        ),
        Trouble::Unfinished => (
            FindingKind::Unfinished,
            "nothing shows that its server has finished it. A server that still runs archives it when it is finished; \
             if the server is never started again, or does not archive, use archive-push"
                .to_owned(),
        ),
        Trouble::Behind(conflict) => (
            FindingKind::Conflict,
            format!(
                "it comes after {conflict}, of which the repository has a different one: together they would be the WAL of \
                 no server"
            ),
        ),
        Trouble::TwoContents => (
            FindingKind::Conflict,
            "the archive has two contents of this name, and the repository has the other one"
                .to_owned(),
        ),
        Trouble::Error(error) => match error {
            ArchiveError::Invalid { reason, .. } => (FindingKind::Damaged, reason),
            ArchiveError::Duplicate { name } => (
                FindingKind::Conflict,
                format!("the repository has different content under the name {name}"),
            ),
            ArchiveError::HistoryConflict { .. } | ArchiveError::AncestorConflict { .. } => {
                (FindingKind::Conflict, error.to_string())
            }
            ArchiveError::Undecodable { .. }
            | ArchiveError::Damaged { .. }
            | ArchiveError::DamagedThere { .. } => {
                (FindingKind::RepositoryDamaged, error.to_string())
            }
            error => return Err(error),
        },
    };
    Ok(Finding { kind, file, detail })
}

/// What the search says already.
pub(super) fn found_by_search(directory: &Path, found: &Found) -> Vec<Finding> {
    let unreadable = found.unreadable.iter().map(|(path, error)| Finding {
        kind: FindingKind::Unreadable,
        file: shown(directory, path),
        detail: format!("cannot be read: {error}"),
    });
    let unknown = found.unknown.iter().map(|path| Finding {
        kind: FindingKind::NotUnderstood,
        file: shown(directory, path),
        detail: "it is named like WAL, with an ending that import does not know".to_owned(),
    });
    unreadable.chain(unknown).collect()
}

/// A path within the directory that is imported.
pub(super) fn shown(directory: &Path, path: &Path) -> String {
    match path.strip_prefix(directory) {
        Ok(inner) if inner.as_os_str().is_empty() => ".".to_owned(),
        Ok(inner) => inner.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
