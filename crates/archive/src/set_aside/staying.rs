//! Segments that stay where their pack is set aside: each becomes an object of its own again.

use std::time::Duration;

use walzip_codec::Level;
use walzip_repo::{Repository, WalPacks};

use super::Move;
use crate::coding::{self, off_the_runtime};
use crate::error::ArchiveError;
use crate::members::Members;
use crate::packs::Before;
use crate::stored_wal::StoredWal;

/// A `walzip pack` that has just seen the pack may remove a segment's own object so long after it has gone.
const UNSEEN_AFTER: Duration = Duration::from_secs(1);

/// Before packs move: what stays of them gets objects of its own.
pub(super) async fn keep(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    put_missing(repository, &repository.packs(), &plan.staying).await
}

/// After packs have moved: a `walzip pack` that has taken what stays for packed has removed it.
pub(super) async fn keep_again(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    if plan.staying.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(UNSEEN_AFTER).await;
    let aside = repository.packs_aside(plan.label);
    put_missing(repository, &aside, &plan.staying).await
}

async fn put_missing(
    repository: &Repository,
    packs: &WalPacks,
    names: &[String],
) -> Result<(), ArchiveError> {
    for name in names {
        if repository.find_single(name).await?.is_some() {
            continue;
        }
        let Some(stored) = StoredWal::get_packed(packs, name, Before::Passed).await? else {
            return Err(ArchiveError::Damaged {
                object: name.clone(),
                reason: "it disappeared while its pack was set aside".to_owned(),
            });
        };
        let content = stored.content(name).await?;
        let encoding = name.clone();
        let object = off_the_runtime(move || {
            let members = Members {
                file: None,
                len: content.len() as u64,
                known: &content,
            };
            coding::encode(&encoding, &members, Level::default(), true)
        });
        let object = object.await.map_err(|source| ArchiveError::Encode {
            name: name.clone(),
            source,
        })?;
        repository.put_wal(name, object).await?;
    }
    Ok(())
}
