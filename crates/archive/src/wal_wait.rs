//! Waiting until WAL has arrived in the repository.
//!
//! Only the repository can tell: a server knows that its `archive_command` returned 0, not where
//! it put the file.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{RepoError, Repository};

use crate::error::ArchiveError;
use crate::progress::Progress;
use crate::replication::{Connection, ConnectionSettings, Mode};

const POLL_FIRST: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);

/// Waits until all of these segments are in the repository. The server is only asked for what
/// its archiver complains of, when time is up. Storage that fails may work again until then: after
/// hours of copying, one error is no reason to throw the copy away.
pub(crate) async fn wait_for(
    repository: &Repository,
    segments: Vec<SegmentName>,
    timeout: Duration,
    server: &ConnectionSettings,
    progress: &Progress,
) -> Result<(), ArchiveError> {
    let deadline = Instant::now() + timeout;
    let mut missing = VecDeque::from(segments);
    let mut pause = POLL_FIRST;
    while let Some(segment) = missing.front() {
        let name = segment.to_string();
        let failure = match repository.find_wal(&name).await {
            Ok(Some(_)) => {
                missing.pop_front();
                progress.add(1);
                continue;
            }
            Ok(None) => None,
            Err(error @ RepoError::Unavailable { .. }) => Some(error),
            Err(error) => return Err(error.into()),
        };
        if Instant::now() >= deadline {
            if let Some(error) = failure {
                return Err(error.into());
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use walzip_repo::ClusterIdentity;
    use walzip_repo::testing::{Faults, FaultyStore, memory_store};

    const SEGMENT: &str = "000000010000000000000005";

    async fn wait_over(faults: Faults) -> Result<(), ArchiveError> {
        let store = memory_store();
        let cluster = ClusterIdentity {
            system_id: 1,
            major: 15,
        };
        let (repository, _) = Repository::init(store.clone(), cluster)
            .await
            .expect("made");
        let object = "its content is not looked at".into();
        repository.put_wal(SEGMENT, object).await.expect("put");
        let faulty = Arc::new(FaultyStore::new(store, faults));
        let repository = Repository::open(faulty).await.expect("opened");
        let segment = match SEGMENT.parse() {
            Ok(walzip_pgformat::wal_file_name::WalFileName::Segment(segment)) => segment,
            other => panic!("{other:?}"),
        };
        let nobody = ConnectionSettings::parse("host=/nowhere").expect("valid");
        let timeout = Duration::from_millis(300);
        wait_for(
            &repository,
            vec![segment],
            timeout,
            &nobody,
            &Progress::default(),
        )
        .await
    }

    #[tokio::test]
    async fn outlasts_storage_that_fails_for_a_moment() {
        let once = Faults {
            fail_call: Some(2),
            ..Faults::default()
        };
        wait_over(once).await.expect("it is there");
    }
}
