//! Timelines that went on at the same time: two servers archive as one cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
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
    let lost = lost_histories(timelines, candidates.iter().copied(), backups);
    if backups.is_empty() || candidates.len() < 2 || !lost.is_empty() {
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

/// The histories that are lost, without which it is not known what leads where: those of timelines from which a
/// recovery can begin, and of later ones.
pub(crate) fn lost_histories<B: BranchBackup>(
    timelines: &Timelines,
    with_wal: impl Iterator<Item = TimelineId>,
    backups: &[B],
) -> Vec<TimelineId> {
    let first = backups.iter().map(|backup| backup.stop().timeline).min();
    let mut lost = timelines.without_history(with_wal);
    lost.retain(|of| first.is_none_or(|first| *of >= first));
    lost
}

/// A timeline that went on beside another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompetingTimeline {
    /// Its number.
    pub timeline: u32,
    /// Where another one has left it: the segment from which what it has for itself is set aside.
    pub set_aside_from: Option<String>,
    /// The segment of that other one that has to be archived before.
    pub waits_for: Option<String>,
    /// The timelines that descend from it, and are set aside with it.
    pub descendants: Vec<u32>,
    /// The one of which only the history is archived, and which may have gone on: it would be set aside too.
    pub left_by: Option<u32>,
}

impl CompetingTimeline {
    pub(crate) fn of((timeline, put_away): (&TimelineId, &PutAway)) -> CompetingTimeline {
        let mut competing = CompetingTimeline {
            timeline: timeline.0,
            set_aside_from: None,
            waits_for: None,
            descendants: Vec::new(),
            left_by: None,
        };
        match put_away {
            PutAway::Parts { from, with } => {
                competing.set_aside_from = from.map(|from| from.to_string());
                competing.descendants = with.iter().map(|descendant| descendant.0).collect();
            }
            PutAway::After(own) => competing.waits_for = Some(own.to_string()),
            PutAway::Left(begun) => competing.left_by = Some(begun.0),
        }
        competing
    }
}
