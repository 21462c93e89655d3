//! `check`: does the server's WAL arrive in this repository?

use std::time::Duration;

use walzip_repo::Repository;

use crate::archived::competing::{CompetingTimeline, competing, lost_histories};
use crate::archived::timelines::{self, Timelines};
pub use crate::backup::source_server::Arrival;
use crate::backup::source_server::{self, Acknowledgement};
use crate::backups::backup_record::{BackupRecord, ListedBackup};
use crate::error::ArchiveError;
use crate::info::timeline_info;
pub use crate::info::timeline_info::MissingWal;
use crate::server::replication::ConnectionSettings;

/// What `check` has found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What arrived, or nothing on a standby, where no switch can be forced.
    pub arrival: Option<Arrival>,
    /// What keeps restores from getting to what arrived.
    pub missing: Option<MissingWal>,
    /// Timelines of which a restore asks which is meant.
    pub competing: Vec<CompetingTimeline>,
}

/// Forces a WAL switch on a primary and waits until the segment is in the repository, and until the
/// server's archiver, if it has one, has succeeded. The server's identity is checked on a standby too.
pub async fn check(
    repository: &Repository,
    settings: &ConnectionSettings,
    timeout: Duration,
) -> Result<Checked, ArchiveError> {
    let (part, server, sql) = source_server::inspect(repository, settings).await?;
    sql.close().await;
    // Whoever else brings WAL here: PostgreSQL keeps it for an archiver that has nothing to call.
    let archiver = &server.archiver;
    if archiver.mode != "off" && archiver.has_no_command() && !server.in_recovery {
        return Err(ArchiveError::NoArchiveCommand);
    }
    let wait = (timeout, Acknowledgement::Awaited);
    let arrival = source_server::check_archiving(&part, settings, &server, wait).await?;
    let mut checked = Checked {
        arrival,
        missing: None,
        competing: Vec::new(),
    };
    if checked.arrival.is_some() {
        checked.look_for_obstacles(&part, &server).await?;
    }
    Ok(checked)
}

impl Checked {
    /// Finds what keeps a restore from getting to the newest WAL of the server, or from knowing that it is meant.
    async fn look_for_obstacles(
        &mut self,
        part: &Repository,
        server: &source_server::Server,
    ) -> Result<(), ArchiveError> {
        let listing = part.list_wal().await?;
        let mut histories = Timelines::read(part, &listing).await;
        if let Some(failure) = histories.take_failure() {
            return Err(failure);
        }
        let listed = ListedBackup::all(part).await?;
        let own = listed
            .into_iter()
            .filter(|backup| backup.cluster() == Some(part.cluster()));
        let backups: Vec<BackupRecord> = own.filter_map(|backup| backup.read.ok()).collect();
        let lost = lost_histories(&histories, timelines::with_wal(&listing), &backups);
        if !lost.is_empty() {
            return Err(histories.history_lost(lost, timelines::with_wal(&listing)));
        }
        let (known, size) = ((&*listing, &histories), server.segment_size_bytes);
        self.missing = timeline_info::missing_wal(known, &backups, server.timeline, size)?;
        let competing = competing(part, known, &backups, size).await?;
        self.competing = competing.iter().map(CompetingTimeline::of).collect();
        let leads = |backup: &BackupRecord| {
            histories.passes(server.timeline, backup.stop.timeline, backup.stop.lsn)
        };
        if self.competing.is_empty() && !backups.is_empty() && !backups.iter().any(leads) {
            return Err(ArchiveError::NoBackup(format!(
                "no backup leads to timeline {}, on which the server is",
                server.timeline
            )));
        }
        Ok(())
    }
}
