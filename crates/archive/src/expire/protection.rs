//! Whether a single object can go without a loss.

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::browse::{Meaning, meaning};
use walzip_repo::{BackupLabel, ClusterIdentity, Repository};

use super::facts::{Finished, Inventory, LabelFacts, LabelState};
use super::{ExpireRequest, inventory};
use crate::error::ArchiveError;

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
