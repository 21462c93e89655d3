//! `expire`: what the retention does not keep is removed.
//!
//! Kept are the last full backups with all that began after them, or the newest backup before a window
//! and all that began after it, and what is pinned; with each, what it needs. WAL is kept from the
//! oldest of them on, except for what is kept by its pin alone: that keeps the WAL of its own moment.
//! In doubt everything is kept, and the plan says why.

mod backups;
mod carry_out;
mod decide;
mod decision;
mod facts;
mod heads;
mod inventory;
#[cfg(test)]
mod model;
mod named;
mod plan;
mod protection;
mod wal;

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};
use walzip_repo::{BackupLabel, Repository};

use crate::error::ArchiveError;
pub use plan::{
    AsidePart, BackupPlan, BackupState, ClusterPlan, KeptWal, Plan, Reason, WalPart, WalReason,
};
pub use protection::{OnlyCopies, only_copies, protection};

/// How much is kept. What one of them keeps the other does not remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// So many full backups, and all that began after the oldest of them.
    pub full: Option<NonZeroU32>,
    /// The newest backup that ended before this, and all that began after it.
    pub window: Option<SignedDuration>,
}

/// What is to be expired.
#[derive(Clone, Debug)]
pub struct ExpireRequest {
    /// What is kept.
    pub retention: Retention,
    /// Only these, whatever the retention says. No WAL goes with them.
    pub set: Vec<BackupLabel>,
    /// An unfinished backup that has not changed for so long was given up.
    pub unfinished_age: SignedDuration,
    /// Remove what was set aside before the oldest kept backup began.
    pub aside: bool,
    /// Go on where something is newer than the clock says.
    pub ignores_clock: bool,
    /// Remove what is named even if no complete backup is left.
    pub takes_last: bool,
}

impl Default for ExpireRequest {
    fn default() -> Self {
        ExpireRequest {
            retention: Retention::default(),
            set: Vec::new(),
            unfinished_age: SignedDuration::from_hours(7 * 24),
            aside: false,
            ignores_clock: false,
            takes_last: false,
        }
    }
}

/// Finds out what would be removed. Nothing is changed.
pub async fn plan_expire(
    repository: &Repository,
    request: &ExpireRequest,
) -> Result<Plan, ArchiveError> {
    plan_expire_at(repository, request, Timestamp::now()).await
}

/// The same as if it were another moment.
pub async fn plan_expire_at(
    repository: &Repository,
    request: &ExpireRequest,
    now: Timestamp,
) -> Result<Plan, ArchiveError> {
    let retention = request.retention;
    if request.set.is_empty() && retention.full.is_none() && retention.window.is_none() {
        return Err(ArchiveError::Request("no retention is given".to_owned()));
    }
    decide::decide(
        &inventory::read_for(repository, request).await?,
        request,
        now,
    )
}

/// Removes what was planned, and says what that was: less, where something is needed by now.
/// Whatever interrupts it, planning and doing it again goes on.
pub async fn expire(
    repository: &Repository,
    request: &ExpireRequest,
    plan: &Plan,
) -> Result<Plan, ArchiveError> {
    carry_out::carry_out(repository, request, plan).await
}
