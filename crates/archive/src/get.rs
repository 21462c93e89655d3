//! `get`: a WAL file out of the archive.
//!
//! PostgreSQL asks for files that do not exist, histories and the next segment above all, so
//! "not in the archive" is an answer and not an error. What is delivered was decoded whole, its
//! hash and identity checked, and appears under the destination's name at once or not at all.

use std::path::{Path, PathBuf};

use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::Repository;

use crate::error::ArchiveError;
use crate::{cluster, coding, content, durable};

/// How to get.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// The data directory of the cluster that will replay the file. When its control file
    /// exists, it has to be of the repository's cluster. `restore_command` runs in that
    /// directory.
    pub data_directory: Option<PathBuf>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The file is at the destination.
    Found {
        /// The size of the file.
        original_bytes: u64,
        /// The size of its object.
        stored_bytes: u64,
    },
    /// The archive has no file of this name.
    NotFound,
}

/// Writes the file of this name to `destination`, which is replaced if it exists.
pub async fn get(
    repository: &Repository,
    name: &str,
    destination: &Path,
    options: &GetOptions,
) -> Result<Got, ArchiveError> {
    let file_name: WalFileName = name.parse()?;
    if let Some(data_directory) = &options.data_directory {
        cluster::check_data_directory(repository, data_directory).await?;
    }
    let Some(object) = repository.get_wal(name).await? else {
        return Ok(Got::NotFound);
    };
    let stored_bytes = object.len() as u64;
    let original = coding::decode(name, object).await?;
    content::check(&file_name, &original, repository.cluster())
        .map_err(|error| ArchiveError::invalid_object(name, error, repository.cluster()))?;

    let original_bytes = original.len() as u64;
    let destination = destination.to_owned();
    coding::off_the_runtime(move || durable::write_file(&destination, &original)).await?;
    Ok(Got::Found {
        original_bytes,
        stored_bytes,
    })
}
