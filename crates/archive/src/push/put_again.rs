//! A segment that is pushed once more since the archive has lost it: it is in a pack, and damaged there.

use bytes::Bytes;
use walzip_repo::{PutOutcome, RepoError, Repository, WalPack};

use crate::archived::comparing::is_broken;
use crate::archived::stable_file::StableFile;
use crate::error::ArchiveError;
use crate::packs::{PackReader, is_damage};

/// Puts a segment beside the packs that have it, none of which can be decoded up to it, as `error` says. It has to be the one
/// that was packed, as far as an index of these packs can be read. Says whether it was put; where another one has put it
/// meanwhile, that has to be compared. Where there is nothing to be put, it fails with the error.
pub(super) async fn store(
    part: &Repository,
    (name, object): (&str, Bytes),
    (file, packs): (&StableFile, &[WalPack]),
    error: ArchiveError,
) -> Result<bool, ArchiveError> {
    let is_lost =
        is_broken(&error) || matches!(error, ArchiveError::Repository(RepoError::Corrupt { .. }));
    if packs.is_empty() || !is_lost || part.find_single(name).await?.is_some() {
        return Err(error);
    }
    let hash = file.hash().await?;
    for pack in packs {
        let packed = packed_hash(part, pack, name).await?;
        if packed.is_some_and(|packed| packed != *hash.as_bytes()) {
            return Err(ArchiveError::Duplicate {
                name: name.to_owned(),
            });
        }
    }
    let put = part.put_wal(name, object).await?;
    if put == PutOutcome::Created {
        tracing::warn!("{error}: it is archived again, as an object of its own");
    }
    Ok(put == PutOutcome::Created)
}

/// BLAKE3 of a segment, as the index of its pack says; nothing where that cannot be read.
async fn packed_hash(
    part: &Repository,
    pack: &WalPack,
    name: &str,
) -> Result<Option<[u8; 32]>, ArchiveError> {
    let index = pack.name.index_of(name);
    match PackReader::open(&part.packs(), pack).await {
        Ok(reader) => Ok(reader
            .zip(index)
            .and_then(|(reader, index)| reader.original_hash(index))),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
