//! Waiting until WAL has arrived in the repository.
//!
//! Only the repository can tell: a server knows that its `archive_command` returned 0, not where
//! it put the file.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{RepoError, Repository};

use crate::error::ArchiveError;
use crate::server::archiver::Archiver;
use crate::server::replication::{Connection, ConnectionSettings, Mode};

/// After a tenth of the time that was waited so far, it is looked again, within these bounds.
const POLL_MIN: Duration = Duration::from_millis(10);
const POLL_MAX: Duration = Duration::from_secs(2);
/// Who waits is told so.
const REPORTED_AFTER: Duration = Duration::from_secs(10);
const REPORTED_EVERY: Duration = Duration::from_secs(300);
const ON_STANDBY: &str = ": the primary has not finished it; SELECT pg_switch_wal() there does";
const NOT_ASKED: &str = ": the server does not answer, and archives only while it runs";
/// So long a server that is there may take to say what it has archived.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Waits until all of these segments are in the repository.
pub(crate) async fn wait_for(
    repository: &Repository,
    segments: Vec<SegmentName>,
    timeout: Duration,
    (server, is_standby): (&ConnectionSettings, bool),
) -> Result<(), ArchiveError> {
    let wait = Wait {
        repository,
        server,
        timeout,
        since: None,
        believes_reports: false,
        is_standby,
    };
    let mut connection = None;
    let waited = wait.until_there(segments, &mut connection).await;
    if let Some(connection) = connection {
        connection.close().await;
    }
    waited
}

/// How to wait for segments.
pub(crate) struct Wait<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) server: &'a ConnectionSettings,
    pub(crate) timeout: Duration,
    /// A failure of the archiver after this moment is told.
    pub(crate) since: Option<Timestamp>,
    /// Whether a segment that the server reports as archived has to be in the repository: then
    /// one that is not there will never be, and there is nothing to wait for.
    pub(crate) believes_reports: bool,
    /// The server is a standby: its primary finishes segments.
    pub(crate) is_standby: bool,
}

impl Wait<'_> {
    /// Waits until all of these segments are in the repository. Storage that fails may work again
    /// until the time is up: after hours of copying, one error is no reason to throw the copy
    /// away. Where the server is asked, the connection is used, and one that works is kept.
    pub(crate) async fn until_there(
        &self,
        segments: Vec<SegmentName>,
        connection: &mut Option<Connection>,
    ) -> Result<(), ArchiveError> {
        let since = Instant::now();
        let deadline = since + self.timeout;
        let mut missing = VecDeque::from(segments);
        let mut reported_at = since + REPORTED_AFTER;
        while let Some(segment) = missing.front() {
            let name = segment.to_string();
            // Asked before the repository is: what is reported then has to be there.
            let reported = match self.believes_reports {
                true => self
                    .archiver(connection)
                    .await
                    .filter(|told| told.reports(segment)),
                false => None,
            };
            let failure = match self.repository.find_wal(&name).await {
                Ok(Some(_)) => {
                    missing.pop_front();
                    continue;
                }
                Ok(None) => None,
                Err(error @ RepoError::Unavailable { .. }) => Some(error),
                Err(error) => return Err(error.into()),
            };
            if let (Some(archiver), None) = (reported, &failure) {
                return Err(ArchiveError::ArchivedElsewhere {
                    segment: name,
                    archiver: Box::new(archiver),
                });
            }
            if Instant::now() >= deadline {
                return Err(match failure {
                    Some(error) => error.into(),
                    None => self.not_archived(name, connection).await,
                });
            }
            if Instant::now() >= reported_at {
                reported_at += REPORTED_EVERY;
                let seconds = deadline.saturating_duration_since(Instant::now()).as_secs();
                let why = self.why_it_takes_long(connection).await;
                tracing::warn!("waiting for {name} to be archived, for {seconds} s more{why}");
            }
            tokio::time::sleep((since.elapsed() / 10).clamp(POLL_MIN, POLL_MAX)).await;
        }
        Ok(())
    }

    /// Waits until the server knows that a segment is archived which is in the repository: something
    /// else may have brought it, and PostgreSQL keeps its WAL until its own archiver has succeeded.
    pub(crate) async fn until_acknowledged(
        &self,
        segment: &SegmentName,
        connection: &mut Option<Connection>,
    ) -> Result<(), ArchiveError> {
        let since = Instant::now();
        loop {
            // What cannot be asked says nothing.
            let Some(archiver) = self.archiver(connection).await else {
                return Ok(());
            };
            if archiver.reports(segment) || !waits(connection, segment).await {
                return Ok(());
            }
            if since.elapsed() >= self.timeout {
                return Err(ArchiveError::NotAcknowledged {
                    segment: segment.to_string(),
                    waited_seconds: self.timeout.as_secs(),
                    failure: self.failure(&archiver),
                    archiver: Box::new(archiver),
                });
            }
            tokio::time::sleep((since.elapsed() / 10).clamp(POLL_MIN, POLL_MAX)).await;
        }
    }

    async fn why_it_takes_long(&self, connection: &mut Option<Connection>) -> String {
        let archiver = self.archiver(connection).await;
        let Some(archiver) = archiver else {
            return NOT_ASKED.to_owned();
        };
        if self.is_standby && archiver.mode != "always" {
            return ON_STANDBY.to_owned();
        }
        let failure = self.failure(&archiver);
        failure.map_or_else(String::new, |failure| format!(": {failure}"))
    }

    fn failure(&self, archiver: &Archiver) -> Option<String> {
        let failed = archiver.current_failure(self.since)?;
        Some(format!(
            "the server's archive_command last failed at {} for {}",
            failed.time, failed.wal
        ))
    }

    async fn not_archived(
        &self,
        segment: String,
        connection: &mut Option<Connection>,
    ) -> ArchiveError {
        let archiver = self.archiver(connection).await;
        let archives = |archiver: &Archiver| archiver.mode == "always";
        if self.is_standby && !archiver.as_ref().is_some_and(archives) {
            return ArchiveError::NotArchived {
                segment,
                waited_seconds: self.timeout.as_secs(),
                failure: Some(
                    "the server is a standby, whose primary finishes and archives it".into(),
                ),
                archiver: None,
                by_primary: true,
            };
        }
        ArchiveError::NotArchived {
            segment,
            waited_seconds: self.timeout.as_secs(),
            failure: archiver
                .as_ref()
                .and_then(|archiver| self.failure(archiver)),
            archiver: archiver.map(Box::new),
            by_primary: false,
        }
    }

    /// What the server says; nothing where it cannot be asked, since that is no reason to fail.
    /// The connection is kept: each costs the server a process.
    async fn archiver(&self, connection: &mut Option<Connection>) -> Option<Archiver> {
        if let Some(kept) = connection.take()
            && let Some((archiver, kept)) = ask(kept).await
        {
            *connection = Some(kept);
            return Some(archiver);
        }
        let opened = Connection::open(self.server, Mode::Sql).await.ok()?;
        let (archiver, kept) = ask(opened).await?;
        *connection = Some(kept);
        Some(archiver)
    }
}

/// Nothing from a server that does not answer.
async fn ask(mut connection: Connection) -> Option<(Archiver, Connection)> {
    let asked = tokio::time::timeout(ANSWER_MAX, Archiver::ask(&mut connection));
    let archiver = asked.await.ok()?.ok()?;
    Some((archiver, connection))
}

/// Whether the server still waits to have a segment archived. A role that may not know is told so by
/// the archiver's statistics, a little later.
async fn waits(connection: &mut Option<Connection>, segment: &SegmentName) -> bool {
    match connection {
        Some(sql) => Archiver::waits(sql, segment).await.unwrap_or(true),
        None => true,
    }
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
        wait_for(&repository, vec![segment], timeout, (&nobody, false)).await
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
