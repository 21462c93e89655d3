//! Whether the archive has other content under the names of a pack that is put back.

use walzip_repo::{PackName, Repository, WalPacks};

use crate::error::ArchiveError;
use crate::packs::PackReader;
use crate::stored_wal::StoredWal;

type Hash = [u8; 32];

/// Refuses to put back a pack of which the archive has a segment with other content. The same content is no
/// hindrance: an interrupted move has left it, or it was pushed again.
pub(super) async fn refuse_other(
    repository: &Repository,
    aside: &WalPacks,
    pack: &PackName,
) -> Result<(), ArchiveError> {
    for name in pack.segments() {
        if let Some(archived) = archived(repository, &name).await?
            && packed(aside, &name).await? != Some(archived)
        {
            return Err(ArchiveError::Duplicate { name });
        }
    }
    Ok(())
}

/// BLAKE3 of a segment of the archive.
async fn archived(repository: &Repository, name: &str) -> Result<Option<Hash>, ArchiveError> {
    match repository.get_wal(name).await? {
        Some(object) => {
            let hash = StoredWal::Single(object).content_hash(name).await?;
            Ok(Some(hash.into()))
        }
        None => packed(&repository.packs(), name).await,
    }
}

/// What the first pack that has a segment says of it.
async fn packed(packs: &WalPacks, name: &str) -> Result<Option<Hash>, ArchiveError> {
    for pack in packs.with(name).await? {
        if let Some(reader) = PackReader::open(packs, &pack).await? {
            return Ok(pack
                .name
                .index_of(name)
                .and_then(|index| reader.original_hash(index)));
        }
    }
    Ok(None)
}
