//! Segments that stay where their pack is set aside: each becomes an object of its own first.
//!
//! A `walzip pack` beside it may take such an object for packed, and remove it. It removes none of a pack that has a copy
//! aside, so the objects come after the copy. What it was about to remove is put again, by it and here.

use std::time::Duration;

use walzip_repo::layout::PACK_SETTLED_SECONDS;
use walzip_repo::{PackName, PutOutcome, Repository, WalPacks};

use super::Move;
use super::content::{PackedHashes, archived};
use crate::archived::stored_wal::StoredWal;
use crate::archived::wal_object;
use crate::error::ArchiveError;
use crate::packs::Before;

/// Before anything moves: where what stays has an object of its own already, that must be whole and the same.
pub(super) async fn check(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    let packed = PackedHashes::read(&repository.packs(), |pack| plan.packs.contains(pack)).await?;
    for name in &plan.staying {
        if repository.find_single(name).await?.is_some()
            && archived(repository, &packed, name).await? != packed.get(name)
        {
            return Err(ArchiveError::Duplicate { name: name.clone() });
        }
    }
    Ok(())
}

/// After packs were copied: what stays of them gets objects of its own. Who has looked for the object before it was there
/// finds the pack for some seconds more.
pub(super) async fn keep(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    if plan.staying.is_empty() {
        return Ok(());
    }
    for name in &plan.staying {
        put_if_missing(repository, &repository.packs(), name).await?;
    }
    tokio::time::sleep(Duration::from_secs(PACK_SETTLED_SECONDS)).await;
    Ok(())
}

/// Right before a pack goes, and right after it has gone: what stays of it has to be there. Both places have the pack's
/// content.
pub(super) async fn keep_of(
    (repository, packs): (&Repository, &WalPacks),
    plan: &Move,
    pack: &PackName,
) -> Result<(), ArchiveError> {
    let staying = plan.staying.iter();
    for name in staying.filter(|name| pack.index_of(name).is_some()) {
        put_if_missing(repository, packs, name).await?;
    }
    Ok(())
}

async fn put_if_missing(
    repository: &Repository,
    packs: &WalPacks,
    name: &str,
) -> Result<(), ArchiveError> {
    if repository.find_single(name).await?.is_some() {
        return Ok(());
    }
    let packed = StoredWal::get_packed(packs, name, Before::Passed).await?;
    let packed = packed.ok_or_else(|| ArchiveError::Damaged {
        object: name.to_owned(),
        reason: "it disappeared while its pack was set aside".to_owned(),
    })?;
    let content = packed.content(name).await?;
    let hash = blake3::hash(&content);
    let object = wal_object::encode(name, content).await?;
    if repository.put_wal(name, object).await? == PutOutcome::Created {
        return Ok(());
    }
    // Somebody has pushed it meanwhile: while the pack was there, only the same.
    if let Some(object) = repository.get_wal(name).await?
        && StoredWal::Single(object).content_hash(name).await? != hash
    {
        return Err(ArchiveError::Duplicate {
            name: name.to_owned(),
        });
    }
    Ok(())
}
