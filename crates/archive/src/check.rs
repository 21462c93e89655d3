//! `check`: does the server's WAL arrive in this repository?

use std::time::Duration;

use walzip_repo::Repository;

pub use crate::backup::source_server::Arrival;
use crate::backup::source_server::{self, Acknowledgement};
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
    let missing = match arrival {
        None => None,
        Some(_) => {
            timeline_info::missing_wal(&part, server.timeline, server.segment_size_bytes).await?
        }
    };
    Ok(Checked { arrival, missing })
}
