//! The history of the timeline that a segment is on, which has to be archived with it.
//!
//! PostgreSQL hands a history to `archive_command` once, when a server is promoted. It never does if the
//! server does not archive then, as one that `restore` has just made, or if the repository is newer than the
//! timeline. Without the history nothing of the timeline could be restored.

use std::path::{Path, PathBuf};

use walzip_pgformat::TimelineId;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::Repository;

use crate::error::ArchiveError;
use crate::stored_wal::StoredWal;
use crate::timelines::FIRST_TIMELINE;

/// The history that lies beside a segment, unless it is archived.
pub(crate) async fn left_beside(
    part: &Repository,
    segment: &Path,
    timeline: TimelineId,
) -> Result<Option<PathBuf>, ArchiveError> {
    if timeline <= FIRST_TIMELINE {
        return Ok(None);
    }
    let name = WalFileName::History(timeline).to_string();
    let beside = segment.with_file_name(&name);
    if !beside.exists() || part.find_single(&name).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(beside))
}

/// Fails if the history of a server's timeline is not archived: its WAL could not be restored.
pub(crate) async fn check(part: &Repository, timeline: TimelineId) -> Result<(), ArchiveError> {
    if timeline <= FIRST_TIMELINE {
        return Ok(());
    }
    let name = WalFileName::History(timeline).to_string();
    let damage = match StoredWal::get(part, &name).await? {
        None => None,
        Some(stored) => match stored.content(&name).await {
            Ok(content) => match TimelineHistory::read(timeline, &content) {
                Ok(_) => return Ok(()),
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error.to_string()),
        },
    };
    Err(ArchiveError::HistoryLost {
        timelines: vec![timeline],
        damage,
    })
}
