//! Waiting until WAL has arrived in the repository.
//!
//! Only the repository can tell: a server knows that its `archive_command` returned 0, not where
//! it put the file.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::Repository;

use crate::error::ArchiveError;
use crate::replication::{Connection, ConnectionSettings, Mode};

const POLL_FIRST: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);

/// Waits until all of these segments are in the repository. The server is only asked for what
/// its archiver complains of, when time is up.
pub(crate) async fn wait_for(
    repository: &Repository,
    segments: Vec<SegmentName>,
    timeout: Duration,
    server: &ConnectionSettings,
) -> Result<(), ArchiveError> {
    let deadline = Instant::now() + timeout;
    let mut missing = VecDeque::from(segments);
    let mut pause = POLL_FIRST;
    while let Some(segment) = missing.front() {
        let name = segment.to_string();
        if repository.find_wal(&name).await?.is_some() {
            missing.pop_front();
            continue;
        }
        if Instant::now() >= deadline {
            return Err(ArchiveError::NotArchived {
                segment: name,
                waited_seconds: timeout.as_secs(),
                failure: archiver_failure(server).await,
            });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_MAX);
    }
    Ok(())
}

/// What the server's archiver failed at last, if it has not succeeded since.
async fn archiver_failure(server: &ConnectionSettings) -> Option<String> {
    let query = "SELECT format('the server''s archive_command last failed at %s for %s', \
                 last_failed_time, last_failed_wal) FROM pg_stat_archiver \
                 WHERE last_failed_time > coalesce(last_archived_time, '-infinity')";
    // Without an answer the error is the same, it only says less.
    let mut connection = Connection::open(server, Mode::Sql).await.ok()?;
    let failure = connection.query_value(query).await.ok();
    connection.close().await;
    failure
}
