//! A WAL file, proven to be what its name says.

use bytes::Bytes;
use walzip_codec::Level;
use walzip_pgformat::Lsn;
use walzip_pgformat::wal::SegmentEdges;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::ClusterIdentity;

use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines;
use crate::coding::members::Members;
use crate::coding::{self, Beginning, off_the_runtime};
use crate::error::ArchiveError;
use crate::wal::content;

/// What a file was that was proven.
pub(crate) struct Proven {
    /// The size of its content.
    pub(crate) original_bytes: u64,
    /// How it begins and ends, if it is a whole segment.
    pub(crate) edges: Option<SegmentEdges>,
    /// Where the server changed to `wal_level = minimal`.
    pub(crate) minimal_wal: Vec<Lsn>,
}

/// Decodes a file and compares its content with its name and its cluster.
pub(crate) async fn prove(
    name: &str,
    stored: StoredWal,
    cluster: ClusterIdentity,
) -> Result<Proven, ArchiveError> {
    let file_name: WalFileName = name.parse()?;
    let invalid = |error| ArchiveError::invalid_object(name, error, cluster);
    if let WalFileName::History(timeline) = file_name {
        let original = stored.content(name).await?;
        content::check(&file_name, &original, cluster).map_err(invalid)?;
        timelines::read_history(name, timeline, &original)?;
        return Ok(Proven {
            original_bytes: original.len() as u64,
            edges: None,
            minimal_wal: Vec::new(),
        });
    }
    let proof = stored.proof(name).await?;
    Ok(Proven {
        original_bytes: prove_beginning(name, &proof.beginning, cluster)?,
        edges: proof.edges.finish(),
        minimal_wal: proof.records.finish().minimal_wal,
    })
}

/// Encodes a file that was in a pack as an object of its own, and proves that.
pub(crate) async fn encode(name: &str, content: Vec<u8>) -> Result<Bytes, ArchiveError> {
    let encoding = name.to_owned();
    let object = off_the_runtime(move || {
        let members = Members {
            file: None,
            len: content.len() as u64,
            known: &content,
        };
        coding::encode(&encoding, &members, Level::default(), true)
    });
    object.await.map_err(|source| ArchiveError::Encode {
        name: name.to_owned(),
        source,
    })
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
