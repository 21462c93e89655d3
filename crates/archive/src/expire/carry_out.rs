//! Removes what was decided.
//!
//! In this order, whatever interrupts it: what goes is marked, so that nothing begins to need it;
//! then everything is read and decided once more, and only what goes both times is removed. Of the
//! backups first the descriptions, a backup's before those of the backups that it needs, so that what
//! readers see can be restored; then their data; then WAL, the oldest positions first; and at last
//! their labels.

use std::collections::BTreeMap;

use jiff::Timestamp;
use walzip_repo::{PackName, Repository};

use super::decide::decide;
use super::facts::{Inventory, LabelFacts, LabelState};
use super::plan::{BackupPlan, BackupState, ClusterPlan, Plan};
use super::{ExpireRequest, inventory};
use crate::error::ArchiveError;

/// So many WAL objects are asked to be removed at once.
const WAL_AT_ONCE: usize = 1000;

/// Removes what a plan says, as far as it is still right; returns what was removed.
pub(super) async fn carry_out(
    repository: &Repository,
    request: &ExpireRequest,
    plan: &Plan,
) -> Result<Plan, ArchiveError> {
    let marked = mark(repository, plan).await;
    let decided = match marked {
        Ok(()) => decide_again(repository, request, plan).await,
        Err(error) => Err(error),
    };
    let (inventory, done) = match decided {
        Ok(decided) => decided,
        Err(error) => {
            // What cannot be taken back is by the next expiry. What an earlier one has begun to remove keeps its mark:
            // without it, the rest would count as a backup that runs.
            let begun = |backup: &&BackupPlan| backup.state == BackupState::HalfExpired;
            for backup in doomed(plan).filter(|backup| !begun(backup)) {
                let _ = repository.unmark_expiring(&backup.key).await;
            }
            return Err(error);
        }
    };
    unmark_kept(repository, &inventory, &done).await?;
    let labels = dependants_first(&inventory, &done);
    for label in &labels {
        repository.remove_backup_json(&label.label).await?;
    }
    for label in &labels {
        let names = label.objects.iter().cloned();
        repository
            .remove_backup_objects(&label.label, names)
            .await?;
    }
    remove_wal(repository, &done).await?;
    for label in &labels {
        repository.remove_backup_claim(&label.label).await?;
    }
    Ok(done)
}

fn doomed(plan: &Plan) -> impl Iterator<Item = &BackupPlan> {
    plan.backups.iter().filter(|backup| backup.removed)
}

async fn mark(repository: &Repository, plan: &Plan) -> Result<(), ArchiveError> {
    for backup in doomed(plan) {
        let cluster = backup.cluster.as_ref().and_then(|name| name.parse().ok());
        repository.mark_expiring(&backup.key, cluster).await?;
    }
    Ok(())
}

async fn decide_again(
    repository: &Repository,
    request: &ExpireRequest,
    plan: &Plan,
) -> Result<(Inventory, Plan), ArchiveError> {
    let inventory = inventory::read_for(repository, request).await?;
    // WAL that has arrived since then is not from the future.
    let mut again = decide(&inventory, request, plan.now.max(Timestamp::now()))?;
    again.restrict_to(plan);
    Ok((inventory, again))
}

/// Takes marks back of what is kept: of backups that are needed since, and of earlier expiries.
async fn unmark_kept(
    repository: &Repository,
    inventory: &Inventory,
    done: &Plan,
) -> Result<(), ArchiveError> {
    for label in inventory.labels.iter().filter(|label| label.is_marked) {
        let goes = doomed(done).any(|backup| backup.key == label.label);
        let is_backup = !matches!(label.state, LabelState::HalfExpired(_));
        if is_backup && !goes {
            repository.unmark_expiring(&label.label).await?;
        }
    }
    Ok(())
}

/// The labels that go, each before those that it refers to.
fn dependants_first<'a>(inventory: &'a Inventory, done: &Plan) -> Vec<&'a LabelFacts> {
    let mut left: Vec<&LabelFacts> = inventory
        .labels
        .iter()
        .filter(|label| doomed(done).any(|backup| backup.key == label.label))
        .collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_needed = |label: &LabelFacts| {
            let name = label.name();
            let references = left.iter().filter_map(|other| other.finished());
            references
                .into_iter()
                .any(|of| of.references.contains(&name))
        };
        // References cannot go round in a circle, unless somebody forged them.
        let next = left.iter().rposition(|label| !is_needed(label));
        ordered.push(left.remove(next.unwrap_or(left.len() - 1)));
    }
    ordered
}

async fn remove_wal(repository: &Repository, done: &Plan) -> Result<(), ArchiveError> {
    for cluster in &done.clusters {
        if cluster.wal.is_empty() && cluster.removed_aside.is_empty() {
            continue;
        }
        let part = repository.of(cluster.key).await?;
        remove_positions(&part, cluster).await?;
        for aside in &cluster.removed_aside {
            for pack in &aside.packs {
                part.remove_pack_aside(aside.key, pack).await?;
            }
            part.remove_aside(aside.key, &aside.names).await?;
        }
    }
    Ok(())
}

/// Removes objects in the order of their positions; a pack has that of its first segment.
async fn remove_positions(part: &Repository, cluster: &ClusterPlan) -> Result<(), ArchiveError> {
    let mut packs: BTreeMap<String, Vec<&PackName>> = BTreeMap::new();
    for pack in &cluster.packs {
        let first = pack.segment(0).unwrap_or_default();
        packs.entry(first).or_default().push(pack);
    }
    let mut names = Vec::new();
    for wal in &cluster.wal {
        let packs = packs.remove(&wal.name).unwrap_or_default();
        if !packs.is_empty() || names.len() == WAL_AT_ONCE {
            part.remove_wal(&names).await?;
            names.clear();
        }
        for pack in packs {
            part.remove_pack(pack).await?;
        }
        if !wal.is_packed {
            names.push(wal.name.clone());
        }
    }
    Ok(part.remove_wal(&names).await?)
}
