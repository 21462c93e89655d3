//! Timelines that went on at the same time: two servers archive as one cluster.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::TimelineId;
use walzip_repo::{Repository, WalEntry};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::branches::{BranchBackup, Branches};
use crate::archived::stored_times::StoredTimes;
use crate::archived::timelines::Timelines;
use crate::error::ArchiveError;
use crate::error::other_branch::PutAway;

/// Timelines that went on at the same time, of which a restore asks which is meant, and how each is put away.
pub(crate) type Competing = BTreeMap<TimelineId, PutAway>;

/// Finds them as a restore does: by commits and backups. Nothing where there is no backup to restore, and where a
/// history is lost, since what leads where is not known then.
pub(crate) async fn competing<B: BranchBackup>(
    part: &Repository,
    (listing, timelines): (&[WalEntry], &Timelines),
    backups: &[B],
    segment_size_bytes: u32,
) -> Result<Competing, ArchiveError> {
    let wal = ArchivedWal::of(listing, segment_size_bytes);
    let mut candidates: BTreeSet<TimelineId> = wal.timelines().collect();
    candidates.extend(backups.iter().map(|backup| backup.stop().timeline));
    candidates.extend(timelines.known());
    let is_lost = !timelines
        .without_history(candidates.iter().copied())
        .is_empty();
    if backups.is_empty() || candidates.len() < 2 || is_lost {
        return Ok(Competing::new());
    }
    let branches = Branches {
        repository: part,
        timelines,
        wal: &wal,
        backups,
        stored: &StoredTimes::of(listing),
    };
    let candidates: Vec<TimelineId> = candidates.into_iter().collect();
    let choice = branches.choose(&candidates, None).await?;
    let Some(choice) = choice.filter(|choice| !choice.competing.is_empty()) else {
        return Ok(Competing::new());
    };
    let others = choice.competing.iter();
    let others = others.map(|other| (other.timeline, other.put_away.clone()));
    let chosen = (choice.timeline, choice.put_away.clone());
    Ok(others.chain([chosen]).collect())
}
