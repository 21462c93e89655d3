//! A WAL object, proven to be what its name says.

use bytes::Bytes;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{ClusterIdentity, Repository};

use crate::coding::Beginning;
use crate::error::ArchiveError;
use crate::{coding, content, timelines};

/// Gets an object that was listed.
pub(crate) async fn get(repository: &Repository, name: &str) -> Result<Bytes, ArchiveError> {
    let found = repository.get_wal(name).await?;
    found.ok_or_else(|| ArchiveError::Damaged {
        object: name.to_owned(),
        reason: "it disappeared after it was listed".to_owned(),
    })
}

/// Decodes an object and compares its content with its name and its cluster; returns the size of
/// its content.
pub(crate) async fn prove(
    name: &str,
    object: Bytes,
    cluster: ClusterIdentity,
) -> Result<u64, ArchiveError> {
    let file_name: WalFileName = name.parse()?;
    let invalid = |error| ArchiveError::invalid_object(name, error, cluster);
    if let WalFileName::History(timeline) = file_name {
        let original = coding::decode(name, object).await?;
        content::check(&file_name, &original, cluster).map_err(invalid)?;
        timelines::read_history(name, timeline, &original)?;
        return Ok(original.len() as u64);
    }
    let Beginning { page, len } = coding::decode_beginning(name, object).await?;
    content::check_beginning(&file_name, &page, len, cluster).map_err(invalid)?;
    Ok(len as u64)
}
