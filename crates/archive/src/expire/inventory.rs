//! Reads what there is: one listing of all backups, one of each cluster's WAL, and every description.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use walzip_repo::layout::{BACKUP_EXPIRING, BACKUP_JSON, BACKUP_PINNED};
use walzip_repo::{BackupLabel, ClusterIdentity, LabelObject, RepoError, Repository, WalEntry};

use super::ExpireRequest;
use super::facts::{ClusterFacts, Finished, Inventory, LabelFacts, LabelState, time_of};
use crate::archived::competing::{Competing, competing, lost_histories};
use crate::archived::timelines::{Timelines, with_wal};
use crate::backups::backup_record::{BackupRecord, of_another};
use crate::error::ArchiveError;
use crate::read_each::read_each;

type Objects = BTreeMap<String, LabelObject>;

/// Reads what is in the repository. Where anything of its clusters is not known, nothing is.
pub(super) async fn read(repository: &Repository) -> Result<Inventory, ArchiveError> {
    Ok(read_with_parts(repository).await?.0)
}

async fn read_with_parts(
    repository: &Repository,
) -> Result<(Inventory, Vec<Repository>), ArchiveError> {
    let parts = repository.read_clusters().await?.complete()?;
    let mut inventory = Inventory::default();
    for part in &parts {
        inventory.clusters.push(cluster(part).await?);
    }
    let listed = repository.list_labels_with_objects().await?;
    let clusters = &inventory.clusters;
    let read = |(label, objects)| read_label(repository, clusters, label, objects);
    let labels = read_each(listed, read).await;
    inventory.labels = labels.into_iter().collect::<Result<_, _>>()?;
    note_missing_references(&mut inventory.labels);
    Ok((inventory, parts))
}

/// The same, and for a retention which timelines went on at the same time: WAL is read for that.
pub(super) async fn read_for(
    repository: &Repository,
    request: &ExpireRequest,
) -> Result<Inventory, ArchiveError> {
    let (mut inventory, parts) = read_with_parts(repository).await?;
    if request.set.is_empty() {
        for (part, facts) in parts.iter().zip(&mut inventory.clusters) {
            let finished = inventory.labels.iter().filter_map(LabelFacts::finished);
            let own = finished.filter(|finished| finished.cluster == facts.cluster);
            let backups: Vec<&Finished> = own.collect();
            if let Some(newest) = backups.last() {
                let (wal, size) = ((&*facts.wal, &facts.timelines), newest.segment_size_bytes);
                facts.competing = competing(part, wal, &backups, size).await?;
                facts.lost = lost_histories(&facts.timelines, with_wal(&facts.wal), &backups);
            }
        }
    }
    Ok(inventory)
}

async fn cluster(part: &Repository) -> Result<ClusterFacts, ArchiveError> {
    let listing = part.list_wal_objects().await?;
    let wal = listing.entries();
    let mut timelines = Timelines::read(part, &wal).await;
    if let Some(failure) = timelines.take_failure() {
        return Err(failure);
    }
    let (mut aside, mut packs_aside) = (Vec::new(), Vec::new());
    for label in part.list_aside_labels().await? {
        let listing = part.list_aside_objects(label).await?;
        aside.push((label, listing.entries()));
        packs_aside.extend(listing.packs.into_iter().map(|pack| (label, pack.name)));
    }
    Ok(ClusterFacts {
        cluster: part.cluster(),
        wal,
        packs: listing.packs.into_iter().map(|pack| pack.name).collect(),
        timelines,
        competing: Competing::new(),
        lost: Vec::new(),
        aside,
        packs_aside,
    })
}

async fn read_label(
    repository: &Repository,
    clusters: &[ClusterFacts],
    label: BackupLabel,
    objects: Objects,
) -> Result<LabelFacts, ArchiveError> {
    let is_marked = objects.contains_key(BACKUP_EXPIRING);
    let state = if objects.contains_key(BACKUP_JSON) {
        finished(repository, clusters, &label, &objects).await?
    } else if is_marked && !repository.may_go_on(&label, &objects).await? {
        LabelState::HalfExpired(repository.read_expiring(&label).await?)
    } else {
        LabelState::Unfinished(repository.read_claimed_references(&label).await?)
    };
    let began = label.time();
    // The mark is an expiry's, and says nothing of the backup.
    let own = objects.iter().filter(|(name, _)| *name != BACKUP_EXPIRING);
    let times = own.map(|(_, object)| time_of(object.modified));
    Ok(LabelFacts {
        began,
        last_object: times.max().unwrap_or(began),
        stored_bytes: objects.values().map(|object| object.size_bytes).sum(),
        is_pinned: objects.contains_key(BACKUP_PINNED),
        objects: objects.into_keys().collect(),
        is_marked,
        state,
        label,
    })
}

async fn finished(
    repository: &Repository,
    clusters: &[ClusterFacts],
    label: &BackupLabel,
    objects: &Objects,
) -> Result<LabelState, ArchiveError> {
    let read = BackupRecord::read_any(repository, label).await;
    let read = read.and_then(|record| {
        let of = record.cluster();
        let facts = clusters.iter().find(|facts| Some(facts.cluster) == of);
        let facts = facts.ok_or_else(|| of_another(label))?;
        describe(record, facts.cluster, &facts.wal, objects)
    });
    match read {
        Ok(finished) => Ok(LabelState::Finished(finished)),
        Err(error @ (ArchiveError::Damaged { .. } | ArchiveError::Name(_))) => {
            Ok(LabelState::Unreadable(error.to_string()))
        }
        // Another expiry was faster.
        Err(error @ ArchiveError::Repository(RepoError::NotFound { .. })) => {
            Ok(LabelState::Unreadable(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

fn describe(
    record: BackupRecord,
    cluster: ClusterIdentity,
    wal: &[WalEntry],
    objects: &Objects,
) -> Result<Finished, ArchiveError> {
    let required = record.required_segments()?;
    Ok(Finished {
        cluster,
        backup_type: record.backup_type(),
        segment_size_bytes: record.segment_size_bytes,
        start: record.start,
        stop: record.stop,
        described: objects
            .get(BACKUP_JSON)
            .map_or(Timestamp::MAX, |object| time_of(object.modified)),
        fault: fault(&record, &required, wal, objects),
        references: record.references,
        required,
    })
}

/// Why a backup cannot be restored, as far as names and sizes show.
fn fault(
    record: &BackupRecord,
    required: &[walzip_pgformat::wal_file_name::SegmentName],
    wal: &[WalEntry],
    objects: &Objects,
) -> Option<String> {
    let is_stored = |name: &str, size_bytes: u64| {
        objects
            .get(name)
            .is_some_and(|object| object.size_bytes == size_bytes)
    };
    let lost = record
        .objects()
        .find(|object| !is_stored(&object.name, object.size_bytes));
    if let Some(object) = lost {
        return Some(format!("{} is missing, or has another size", object.name));
    }
    let mut names = required.iter().map(ToString::to_string);
    let missing = names.find(|name| wal.binary_search_by(|entry| entry.name.cmp(name)).is_err());
    missing.map(|name| format!("{name} is missing"))
}

/// A backup is as complete as what it refers to.
fn note_missing_references(labels: &mut [LabelFacts]) {
    let complete: BTreeSet<String> = labels
        .iter()
        .filter(|label| label.finished().is_some_and(|of| of.fault.is_none()))
        .map(LabelFacts::name)
        .collect();
    for label in labels {
        let LabelState::Finished(finished) = &mut label.state else {
            continue;
        };
        let mut references = finished.references.iter();
        if let Some(lost) = references.find(|needed| !complete.contains(*needed)) {
            let fault = format!("backup {lost}, which it needs, is missing or not complete");
            finished.fault.get_or_insert(fault);
        }
    }
}
