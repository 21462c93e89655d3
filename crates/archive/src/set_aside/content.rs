//! Whether what is archived and what is set aside under a name have the same content.

use std::collections::BTreeMap;

use walzip_repo::{AsideLabel, PackName, Repository, WalPacks};

use super::Move;
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;
use crate::packs::PackReader;

type Hash = [u8; 32];

/// What the indexes of packs say of their segments.
pub(super) struct PackedHashes(BTreeMap<String, Hash>);

impl PackedHashes {
    /// Of the packs that are wanted. Where several have a segment, the first one counts, as it does for readers.
    pub(super) async fn read(
        packs: &WalPacks,
        wanted: impl Fn(&PackName) -> bool,
    ) -> Result<PackedHashes, ArchiveError> {
        let mut hashes = BTreeMap::new();
        for pack in packs.list().await? {
            if !wanted(&pack.name) {
                continue;
            }
            let Some(reader) = PackReader::open(packs, &pack).await? else {
                continue;
            };
            for (index, name) in pack.name.segments().enumerate() {
                if let Some(hash) = reader.original_hash(index) {
                    hashes.entry(name).or_insert(hash);
                }
            }
        }
        Ok(PackedHashes(hashes))
    }

    pub(super) fn get(&self, name: &str) -> Option<Hash> {
        self.0.get(name).copied()
    }
}

/// What the archive has under the name of something that is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Archived {
    Nothing,
    /// The same content, in a pack or encoded in another way.
    Same,
    Other,
}

/// Compares what is archived under a name with what is set aside.
pub(super) async fn compare(
    repository: &Repository,
    label: AsideLabel,
    name: &str,
) -> Result<Archived, ArchiveError> {
    let Some(stored) = StoredWal::get(repository, name).await? else {
        return Ok(Archived::Nothing);
    };
    let Some(aside) = repository.get_aside(label, name).await? else {
        return Ok(Archived::Other);
    };
    if matches!(&stored, StoredWal::Single(object) if *object == aside) {
        return Ok(Archived::Same);
    }
    let archived = stored.content_hash(name).await?;
    match StoredWal::Single(aside).content_hash(name).await? == archived {
        true => Ok(Archived::Same),
        false => Ok(Archived::Other),
    }
}

/// BLAKE3 of what the archive has under a name.
pub(super) async fn archived(
    repository: &Repository,
    packed: &PackedHashes,
    name: &str,
) -> Result<Option<Hash>, ArchiveError> {
    match repository.get_wal(name).await? {
        Some(object) => {
            let hash = StoredWal::Single(object).content_hash(name).await?;
            Ok(Some(hash.into()))
        }
        None => Ok(packed.get(name)),
    }
}

/// Refuses to put back a pack of which the archive has a segment with other content. The same content is no
/// hindrance: an interrupted move has left it, or it was pushed again.
pub(super) async fn refuse_other(
    repository: &Repository,
    aside: &WalPacks,
    pack: &PackName,
) -> Result<(), ArchiveError> {
    let moving = PackedHashes::read(aside, |of| of == pack).await?;
    let overlaps = repository.packs().overlapping(pack).await?;
    let is_there = |of: &PackName| overlaps.iter().any(|pack| pack.name == *of);
    let there = PackedHashes::read(&repository.packs(), is_there).await?;
    for name in pack.segments() {
        if let Some(archived) = archived(repository, &there, &name).await?
            && moving.get(&name) != Some(archived)
        {
            return Err(ArchiveError::Duplicate { name });
        }
    }
    Ok(())
}

/// Refuses to end while a segment that was to move is in a pack that has come meanwhile, with what was moved.
pub(super) async fn refuse_packed(
    repository: &Repository,
    plan: &Move,
) -> Result<(), ArchiveError> {
    let has_moved = |pack: &PackName| plan.names.iter().any(|name| pack.index_of(name).is_some());
    let has_come = |pack: &PackName| !plan.packs.contains(pack) && has_moved(pack);
    let packed = PackedHashes::read(&repository.packs(), has_come).await?;
    for name in &plan.names {
        let Some(hash) = packed.get(name) else {
            continue;
        };
        if let Some(object) = repository.get_aside(plan.label, name).await?
            && StoredWal::Single(object).content_hash(name).await? == hash
        {
            return Err(ArchiveError::Request(format!(
                "{name} was packed while it was set aside, and is in the archive still: run this again"
            )));
        }
    }
    Ok(())
}
