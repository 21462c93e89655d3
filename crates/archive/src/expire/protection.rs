//! Whether a single object can go without a loss, and which segments go with a pack.

use std::sync::Arc;

use jiff::Timestamp;
use object_store::ObjectStore;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::browse::{Meaning, meaning};
use walzip_repo::{BackupLabel, ClusterIdentity, Repository, WalPacks};

use super::facts::{Finished, Inventory, LabelFacts, LabelState};
use super::{ExpireRequest, inventory};
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;
use crate::packs::{PackReader, is_damage};

/// Why an object should not be removed; nothing where no backup can need it.
pub async fn protection(
    repository: &Repository,
    key: &str,
) -> Result<Option<String>, ArchiveError> {
    match meaning(key) {
        Meaning::Other => Ok(None),
        Meaning::Record => Ok(Some("it says whose the repository is".to_owned())),
        Meaning::EncryptionKey => Ok(Some(
            "what it encrypts cannot be decrypted without it".to_owned(),
        )),
        Meaning::Backup(label) => {
            let inventory = inventory::read(repository).await?;
            Ok(of_backup(&inventory, &label))
        }
        Meaning::Wal(cluster, name) if is_put_late(repository, cluster, &name).await? => Ok(None),
        Meaning::Wal(cluster, name) => {
            let inventory = inventory::read(repository).await?;
            Ok(of_wal(&inventory, cluster, &name))
        }
        Meaning::Pack(cluster, pack) => {
            let inventory = inventory::read(repository).await?;
            let mut segments = pack.segments();
            Ok(segments.find_map(|name| of_wal(&inventory, cluster, &name)))
        }
    }
}

/// Whether nobody reads an object, since it came after a pack that has the segment whole.
async fn is_put_late(
    repository: &Repository,
    cluster: ClusterIdentity,
    name: &str,
) -> Result<bool, ArchiveError> {
    let Some(stored) = StoredWal::get_unopened(repository.store(), cluster, name).await? else {
        return Ok(false);
    };
    let (counts, Some(_)) = stored.split() else {
        return Ok(false);
    };
    match counts.content_hash(name).await {
        Ok(_) => Ok(true),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Segments that are in a pack, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlyCopies {
    /// How many.
    pub segments: usize,
    /// The first one.
    pub first: String,
    /// The last one.
    pub last: String,
}

/// Which segments are lost with an object, if it is a pack: those that have no object of their own with the same content.
/// What a pack says that cannot be read is not known: then an object counts, whatever it has.
pub async fn only_copies(
    store: &Arc<dyn ObjectStore>,
    key: &str,
) -> Result<Option<OnlyCopies>, ArchiveError> {
    let Meaning::Pack(cluster, name) = meaning(key) else {
        return Ok(None);
    };
    let packs = WalPacks::of(store, cluster);
    let listed = packs.overlapping(&name).await?;
    let reader = match listed.iter().find(|pack| pack.name == name) {
        Some(pack) => match PackReader::open(&packs, pack).await {
            Err(error) if !is_damage(&error) => return Err(error),
            opened => opened.ok().flatten(),
        },
        None => None,
    };
    let mut only: Option<OnlyCopies> = None;
    for (index, segment) in name.segments().enumerate() {
        let packed = reader.as_ref().and_then(|of| of.original_hash(index));
        if has_own(store, cluster, (&segment, packed)).await? {
            continue;
        }
        let counted = only.get_or_insert_with(|| OnlyCopies {
            segments: 0,
            first: segment.clone(),
            last: String::new(),
        });
        counted.segments += 1;
        counted.last = segment;
    }
    Ok(only)
}

/// Whether a segment has an object of its own, with this content where that is known.
async fn has_own(
    store: &Arc<dyn ObjectStore>,
    cluster: ClusterIdentity,
    (name, packed): (&str, Option<[u8; 32]>),
) -> Result<bool, ArchiveError> {
    let Some(single) = Repository::get_wal_unopened(store, cluster, name).await? else {
        return Ok(false);
    };
    match StoredWal::Single(single.object).content_hash(name).await {
        Ok(hash) => Ok(packed.is_none_or(|packed| packed == *hash.as_bytes())),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn of_backup(inventory: &Inventory, label: &BackupLabel) -> Option<String> {
    let facts = inventory.labels.iter().find(|of| of.label == *label)?;
    let last = facts.began.max(facts.last_object);
    let age = Timestamp::now().duration_since(last);
    match facts.state {
        LabelState::Finished(_) | LabelState::Unreadable(_) => {
            Some(format!("backup {label} cannot be restored without it"))
        }
        LabelState::Unfinished(_) if age < ExpireRequest::default().unfinished_age => {
            Some(format!("backup {label} is not finished, and may still run"))
        }
        LabelState::Unfinished(_) | LabelState::HalfExpired(_) => None,
    }
}

fn of_wal(inventory: &Inventory, cluster: ClusterIdentity, name: &str) -> Option<String> {
    let segment = match name.parse() {
        Ok(WalFileName::History(_)) => {
            return Some("timelines are not told apart without histories".to_owned());
        }
        Ok(other) => other.segment()?,
        Err(_) => return None,
    };
    let own = inventory.labels.iter().filter_map(|label| {
        let finished = label.finished()?;
        (finished.cluster == cluster).then_some((label, finished))
    });
    let mut own: Vec<(&LabelFacts, &Finished)> = own.collect();
    if own.is_empty() {
        return Some("there is no backup yet, and it may be the WAL of the first".to_owned());
    }
    own.retain(|(_, finished)| needs(finished, segment));
    let (label, _) = own.first()?;
    Some(format!("backup {} may be replayed through it", label.label))
}

fn needs(finished: &Finished, segment: SegmentName) -> bool {
    let range = segment.range(finished.segment_size_bytes);
    range.map_or(true, |range| range.end > finished.start.lsn)
        || finished.required.contains(&segment)
}
