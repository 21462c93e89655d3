//! A WAL file, proven to be what its name says.

use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::ClusterIdentity;

use crate::coding::Beginning;
use crate::error::ArchiveError;
use crate::stored_wal::StoredWal;
use crate::{content, timelines};

/// Decodes a file and compares its content with its name and its cluster; returns the size of
/// its content.
pub(crate) async fn prove(
    name: &str,
    stored: StoredWal,
    cluster: ClusterIdentity,
) -> Result<u64, ArchiveError> {
    let file_name: WalFileName = name.parse()?;
    let invalid = |error| ArchiveError::invalid_object(name, error, cluster);
    if let WalFileName::History(timeline) = file_name {
        let original = stored.content(name).await?;
        content::check(&file_name, &original, cluster).map_err(invalid)?;
        timelines::read_history(name, timeline, &original)?;
        return Ok(original.len() as u64);
    }
    let beginning = stored.beginning(name).await?;
    prove_beginning(name, &beginning, cluster)
}

/// Compares the first page and the length of a file that was decoded with its name and its cluster;
/// returns its size.
pub(crate) fn prove_beginning(
    name: &str,
    Beginning { page, len }: &Beginning,
    cluster: ClusterIdentity,
) -> Result<u64, ArchiveError> {
    let checked = content::check_beginning(&name.parse()?, page, *len, cluster);
    checked.map_err(|error| ArchiveError::invalid_object(name, error, cluster))?;
    Ok(*len as u64)
}
