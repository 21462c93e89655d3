//! What a backup needs to know of the server that it is taken from.

use std::time::Duration;

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{ClusterIdentity, Repository};

use crate::cluster;
use crate::error::ArchiveError;
use crate::progress::Progress;
use crate::replication::{Connection, ConnectionSettings, Mode, ServerError};
use crate::wal_wait;

/// `insufficient_privilege`.
const NO_PRIVILEGE: &str = "42501";

/// A server, as it was when it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) identity: ClusterIdentity,
    pub(crate) version: String,
    pub(crate) timeline: TimelineId,
    pub(crate) in_recovery: bool,
    pub(crate) segment_size_bytes: u32,
}

/// Asks the server who it is, and refuses one of another cluster than the repository's.
pub(crate) async fn inspect(
    repository: &Repository,
    settings: &ConnectionSettings,
) -> Result<Server, ArchiveError> {
    let mut replication = Connection::open(settings, Mode::Replication).await?;
    let system = replication.identify_system().await?;
    let major = replication.major()?;
    let version = replication.version().to_owned();
    replication.close().await;
    let identity = ClusterIdentity {
        system_id: system.system_id.0,
        major,
    };
    cluster::check(repository, identity, || "the server".to_owned())?;

    let mut sql = Connection::open(settings, Mode::Sql).await?;
    let in_recovery = sql.query_value("SELECT pg_is_in_recovery()").await? == "t";
    let segment_size = sql
        .query_value("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'")
        .await?;
    let archive_mode = sql.query_value("SHOW archive_mode").await?;
    sql.close().await;

    // A standby that does not archive leaves it to its primary.
    if archive_mode == "off" && !in_recovery {
        let reason = "archive_mode is off on the server, so that the WAL which a backup needs \
                      would never be archived";
        return Err(ArchiveError::Request(reason.to_owned()));
    }
    let segment_size_bytes = segment_size
        .parse()
        .map_err(|_| ServerError::Protocol(format!("wal_segment_size is \"{segment_size}\"")))?;
    let timeline = system.timeline;
    Ok(Server {
        identity,
        version,
        timeline,
        in_recovery,
        segment_size_bytes,
    })
}

/// The server's clock.
pub(crate) async fn clock(settings: &ConnectionSettings) -> Result<Timestamp, ArchiveError> {
    let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let mut sql = Connection::open(settings, Mode::Sql).await?;
    let text = sql.query_value(query).await?;
    sql.close().await;
    let time = text
        .parse()
        .ok()
        .and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.ok_or_else(|| ServerError::Protocol(format!("the server's time is \"{text}\"")).into())
}

/// Makes a primary finish a segment and waits until it is in the repository: a broken
/// `archive_command` is found before hours of copying, not after.
///
/// Returns the segment, or `None` where the server is a standby, which cannot.
pub(crate) async fn check_archiving(
    repository: &Repository,
    settings: &ConnectionSettings,
    server: &Server,
    timeout: Duration,
) -> Result<Option<SegmentName>, ArchiveError> {
    if server.in_recovery {
        return Ok(None);
    }
    let switched = match switch_wal(settings).await {
        Ok(switched) => switched,
        Err(error) if error.sqlstate() == Some(NO_PRIVILEGE) => {
            return Err(ArchiveError::SwitchRefused(error));
        }
        Err(error) => return Err(error.into()),
    };
    let last_byte = Lsn(switched.0.saturating_sub(1));
    let segment = SegmentName::from_lsn(server.timeline, last_byte, server.segment_size_bytes)?;
    wal_wait::wait_for(
        repository,
        vec![segment],
        timeout,
        settings,
        &Progress::default(),
    )
    .await?;
    Ok(Some(segment))
}

/// Ends the current segment; returns the end of what it holds.
async fn switch_wal(settings: &ConnectionSettings) -> Result<Lsn, ServerError> {
    let mut sql = Connection::open(settings, Mode::Sql).await?;
    // A switch does nothing in a segment without records: this writes one.
    sql.query("SELECT pg_create_restore_point('walzip check')")
        .await?;
    let text = sql.query_value("SELECT pg_switch_wal()").await?;
    sql.close().await;
    text.parse()
        .map_err(|_| ServerError::Protocol(format!("pg_switch_wal returned {text}")))
}
