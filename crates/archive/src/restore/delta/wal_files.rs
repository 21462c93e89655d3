//! What is in `pg_wal`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal_file_name::WalFileName;

use crate::error::ArchiveError;

/// A WAL file in `pg_wal`, and what the server noted of its archiving.
#[derive(Clone, Debug)]
pub(super) struct WalFile {
    pub(super) name: WalFileName,
    pub(super) path: PathBuf,
    /// It has `.ready` in `archive_status`: it waits to be archived.
    pub(super) is_ready: bool,
    /// It has `.done` there.
    pub(super) is_done: bool,
}

/// The WAL files in `pg_wal`, by their names. What the server has noted as archived (`.done`) may have been so
/// elsewhere: a standby notes everything that it receives, and an archive may have lost it since.
pub(super) fn files_of(directory: &Path) -> Result<Vec<WalFile>, ArchiveError> {
    let names = names_in(directory)?;
    let statuses = names_in(&directory.join("archive_status"))?;
    let has = |name: &str, status: &str| statuses.contains(&format!("{name}.{status}"));
    let named = names.iter().filter_map(|name| {
        let parsed: WalFileName = name.parse().ok()?;
        let path = directory.join(name);
        path.is_file().then(|| WalFile {
            name: parsed,
            path,
            is_ready: has(name, "ready"),
            is_done: has(name, "done"),
        })
    });
    Ok(named.collect())
}

fn names_in(directory: &Path) -> Result<BTreeSet<String>, ArchiveError> {
    let failed = |error| ArchiveError::file("read", directory, error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        // A name that is no text is none of PostgreSQL's.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}
