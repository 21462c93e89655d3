//! `check`: does the server's WAL arrive in this repository?

use std::time::Duration;

use walzip_repo::Repository;

use crate::error::ArchiveError;
use crate::replication::ConnectionSettings;
pub use crate::server::Arrival;
use crate::server::{self, Acknowledgement};

/// Forces a WAL switch on a primary and waits until the segment is in the repository, and until the
/// server's archiver, if it has one, has succeeded.
///
/// Returns what arrived, or `None` on a standby, where no switch can be forced. The
/// server's identity was checked in either case.
pub async fn check(
    repository: &Repository,
    settings: &ConnectionSettings,
    timeout: Duration,
) -> Result<Option<Arrival>, ArchiveError> {
    let (part, server, sql) = server::inspect(repository, settings).await?;
    sql.close().await;
    let wait = (timeout, Acknowledgement::Awaited);
    server::check_archiving(&part, settings, &server, wait).await
}
