//! What a backup needs to know of the server that it is taken from.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{ClusterIdentity, Repository};

use crate::archived::own_history;
use crate::archived::own_wal::{self, Place, Replayed};
use crate::archived::timelines::Timelines;
use crate::backup::wal_wait::Wait;
use crate::backups::backup_record::BackupRecord;
use crate::cluster;
use crate::error::ArchiveError;
use crate::server::archive_command::PushCommand;
use crate::server::archiver::Archiver;
use crate::server::replication::{Connection, ConnectionSettings, Mode, ServerError};

/// `insufficient_privilege`.
const NO_PRIVILEGE: &str = "42501";

/// Whether `receive` takes the server's WAL. Of another role's connections only some roles see the
/// names.
const IS_RECEIVED: &str = "SELECT count(*) > 0 FROM pg_stat_replication \
    WHERE state = 'streaming' AND application_name = 'walzip'";

/// Not every major has every setting.
const NO_TIMEOUTS: &str = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN \
    ('idle_session_timeout', 'statement_timeout', 'transaction_timeout')";

/// A server, as it was when it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) identity: ClusterIdentity,
    pub(crate) version: String,
    pub(crate) timeline: TimelineId,
    pub(crate) in_recovery: bool,
    pub(crate) segment_size_bytes: u32,
    pub(crate) archiver: Archiver,
}

/// A segment that the server was made to end, and that is in the repository.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The segment.
    pub segment: SegmentName,
    /// How long it took from the end of the segment.
    pub took: Duration,
    /// What the server then said of its archiving.
    pub archiver: Archiver,
    /// Whether `receive` takes the server's WAL too.
    pub is_received: bool,
}

/// Asks the server who it is; returns its part of the repository with it, and the session in which
/// it was asked. One whose cluster is not registered is refused.
pub(crate) async fn inspect(
    repository: &Repository,
    settings: &ConnectionSettings,
) -> Result<(Repository, Server, Connection), ArchiveError> {
    // Each takes the server a process to start: both at a time.
    let (identified, sql) = tokio::join!(identify(settings), session(settings));
    let (identity, timeline, version) = identified?;
    let part = cluster::part_of(repository, identity, || "the server".to_owned()).await?;

    let mut sql = sql?;
    let in_recovery = sql.query_value("SELECT pg_is_in_recovery()").await? == "t";
    let segment_size = sql
        .query_value("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'")
        .await?;
    let archiver = Archiver::ask(&mut sql).await?;
    let is_received = sql.query_value(IS_RECEIVED).await? == "t";

    if !in_recovery {
        warn_of_recovery_settings(&mut sql).await?;
        warn_of_later_timeline(&part, timeline).await;
    }
    // A standby that does not archive leaves it to its primary, and any server may leave it to a
    // receiver.
    if archiver.mode == "off" && !in_recovery && !is_received {
        return Err(ArchiveError::ArchiveModeOff);
    }
    if archiver.has_no_command() && !in_recovery && !is_received {
        return Err(ArchiveError::NoArchiveCommand);
    }
    let segment_size_bytes = segment_size
        .parse()
        .map_err(|_| ServerError::Protocol(format!("wal_segment_size is \"{segment_size}\"")))?;
    refuse_other_segments(&part, segment_size_bytes).await?;
    let server = Server {
        identity,
        version,
        timeline,
        in_recovery,
        segment_size_bytes,
        archiver,
    };
    Ok((part, server, sql))
}

/// An archive whose segments have two sizes could not be restored: positions follow from their names.
async fn refuse_other_segments(part: &Repository, size: u32) -> Result<(), ArchiveError> {
    let Some(newest) = part.list_backups().await?.pop() else {
        return Ok(());
    };
    match BackupRecord::read(part, &newest).await {
        Ok(record) if record.segment_size_bytes != size => {
            let archived = record.segment_size_bytes;
            Err(ArchiveError::Request(format!(
                "the server's WAL segments have {size} bytes, and those of backup {newest} have {archived}: \
                 no restore could tell them apart. Make a new repository (walzip init), archive into that, \
                 and take a backup; the old one keeps its backups"
            )))
        }
        // Others say what is wrong with it.
        _ => Ok(()),
    }
}

/// After a failover the old primary goes on for those who do not know, and archives what no restore follows.
async fn warn_of_later_timeline(part: &Repository, timeline: TimelineId) {
    // What is wrong with the archive is said by others.
    let Ok(survey) = part.survey_wal().await else {
        return;
    };
    let timelines = Timelines::read(part, &survey.histories).await;
    let later = timelines.known().find_map(|later| {
        let is_archived = survey.timelines.contains(&later.0) && later != timeline;
        let (common, left_at) = timelines.common(timeline, later)?;
        (is_archived && common == timeline).then_some((later, left_at))
    });
    if let Some((later, left_at)) = later {
        tracing::warn!(
            "timeline {later} left this server's timeline {timeline} at {left_at}, and has WAL in the archive: is this \
             the old primary of a failover? If the other one is a copy that should not archive: walzip timeline \
             set-aside {later}"
        );
    }
}

/// Settings of a recovery that is over. Once a standby is made from the server, they count again.
const RECOVERY_SETTINGS: &str = "SELECT name, coalesce(sourcefile, '') FROM pg_settings \
    WHERE NOT pending_restart AND (name IN ('recovery_target', 'recovery_target_lsn', 'recovery_target_name', \
    'recovery_target_time', 'recovery_target_xid') AND setting <> '' \
    OR name = 'recovery_target_timeline' AND setting <> 'latest' \
    OR name = 'restore_command' AND setting LIKE '%archive-get%--expected-end%') ORDER BY name";

/// A restore of some databases sets it, for the recovery that follows alone.
const IGNORES_INVALID_PAGES: &str = "SELECT 1 FROM pg_settings WHERE NOT pending_restart \
    AND name = 'ignore_invalid_pages' AND setting = 'on'";

/// A standby that has the target of an old restore is promoted when it comes there, one that has its
/// timeline does not follow its primary, and one that has its command asks for the end of the WAL that there was then.
async fn warn_of_recovery_settings(sql: &mut Connection) -> Result<(), ServerError> {
    let mut ways = Vec::new();
    for row in sql.query(RECOVERY_SETTINGS).await? {
        let mut columns = row.into_iter().map(Option::unwrap_or_default);
        let (name, file) = (columns.next(), columns.next());
        let (name, file) = (name.unwrap_or_default(), file.unwrap_or_default());
        // Roles that may not read all settings are not told of the file.
        ways.push(
            match file.is_empty() || file.ends_with("postgresql.auto.conf") {
                true => format!("ALTER SYSTEM RESET {name};"),
                false => format!("remove {name} from {file};"),
            },
        );
    }
    if !sql.query(IGNORES_INVALID_PAGES).await?.is_empty() {
        tracing::warn!(
            "ignore_invalid_pages is on: a recovery from a crash would pass over damage. Was this cluster restored \
             with --database? When the databases that were left out are dropped: ALTER SYSTEM RESET \
             ignore_invalid_pages, and restart"
        );
    }
    if !ways.is_empty() {
        tracing::warn!(
            "settings of a recovery are still there: a standby that is made from this server would end at \
             their target or timeline. In psql: {} SELECT pg_reload_conf()",
            ways.join(" ")
        );
    }
    Ok(())
}

/// The server's cluster, its timeline and its version.
async fn identify(
    settings: &ConnectionSettings,
) -> Result<(ClusterIdentity, TimelineId, String), ServerError> {
    let mut replication = Connection::open(settings, Mode::Replication).await?;
    let system = replication.identify_system().await?;
    let major = replication.major()?;
    let version = replication.version().to_owned();
    replication.close().await;
    let identity = ClusterIdentity {
        system_id: system.system_id.0,
        major,
    };
    Ok((identity, system.timeline, version))
}

/// A session that the server does not end because it says nothing for long, or waits for long.
pub(crate) async fn session(settings: &ConnectionSettings) -> Result<Connection, ServerError> {
    let mut sql = Connection::open(settings, Mode::Sql).await?;
    sql.query(NO_TIMEOUTS).await?;
    Ok(sql)
}

/// Whether the server notes which blocks its WAL changes, which those from 17 on can.
pub(crate) async fn summarizes_wal(sql: &mut Connection) -> Result<bool, ServerError> {
    let query =
        "SELECT count(*) > 0 FROM pg_settings WHERE name = 'summarize_wal' AND setting = 'on'";
    Ok(sql.query_value(query).await? == "t")
}

/// The server's clock.
pub(crate) async fn clock(sql: &mut Connection) -> Result<Timestamp, ServerError> {
    let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let text = sql.query_value(query).await?;
    let time = text
        .parse()
        .ok()
        .and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.ok_or_else(|| ServerError::Protocol(format!("the server's time is \"{text}\"")))
}

/// How far a standby has replayed, and when its last transaction had ended; nothing where it says none.
pub(crate) async fn replayed(sql: &mut Connection) -> Result<Option<Replayed>, ServerError> {
    // The position comes last: the end of the transaction lies before it.
    let query = "SELECT (extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint \
        || ' ' || pg_last_wal_replay_lsn()";
    let text = sql
        .query(query)
        .await?
        .into_iter()
        .flatten()
        .flatten()
        .next();
    Ok(text.and_then(|text| {
        let (micros, lsn) = text.split_once(' ')?;
        Some(Replayed {
            lsn: lsn.parse().ok()?,
            last_end: Timestamp::from_microsecond(micros.parse().ok()?).ok()?,
        })
    }))
}

/// Whether the server's own archiver has to succeed too, where something else may bring WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    Awaited,
    NotAwaited,
}

/// Makes a primary finish a segment and waits until it is in the repository: a broken
/// `archive_command` is found before hours of copying, not after.
///
/// Returns the segment, or `None` where the server is a standby, which cannot.
pub(crate) async fn check_archiving(
    repository: &Repository,
    settings: &ConnectionSettings,
    server: &Server,
    (timeout, acknowledgement): (Duration, Acknowledgement),
) -> Result<Option<Arrival>, ArchiveError> {
    if server.in_recovery {
        return Ok(None);
    }
    let mut sql = session(settings).await?;
    let switch = match switch_wal(&mut sql).await {
        Ok(switch) => switch,
        Err(error) if error.sqlstate() == Some(NO_PRIVILEGE) => {
            return Err(ArchiveError::SwitchRefused(error));
        }
        Err(error) => return Err(error.into()),
    };
    let begin = Instant::now();
    let last_byte = Lsn(switch.end.0.saturating_sub(1));
    let segment = SegmentName::from_lsn(server.timeline, last_byte, server.segment_size_bytes)?;
    // walzip's own command is done with a segment when it is in the repository; another one may
    // leave it somewhere from where it is still to come.
    let is_own =
        server.archiver.library.is_empty() && PushCommand::find(&server.archiver.command).is_some();
    let wait = Wait {
        repository,
        server: settings,
        timeout,
        since: Some(switch.time),
        believes_reports: is_own,
        is_standby: false,
    };
    let mut kept = Some(sql);
    let place = Place {
        timeline: server.timeline,
        segment_size_bytes: server.segment_size_bytes,
    };
    let (name, end) = &switch.restore_point;
    // Another switch may have come between, and segments may come in another order.
    let mut awaited = vec![place.segment_before(*end)?, segment];
    awaited.dedup();
    wait.until_there(awaited, &mut kept).await?;
    own_wal::check_restore_point(repository, place, (name, *end)).await?;
    own_history::check(repository, server.timeline).await?;
    let took = begin.elapsed();
    if acknowledgement == Acknowledgement::Awaited && server.archiver.archives() {
        wait.until_acknowledged(&segment, &mut kept).await?;
    }
    let asked = match kept.as_mut() {
        Some(sql) => archiving(sql).await.ok(),
        None => None,
    };
    let (archiver, is_received) = match asked {
        Some(asked) => asked,
        // The server may have been restarted meanwhile.
        None => archiving(kept.insert(session(settings).await?)).await?,
    };
    if let Some(sql) = kept {
        sql.close().await;
    }
    Ok(Some(Arrival {
        segment,
        took,
        archiver,
        is_received,
    }))
}

/// What the server says of its archiving, and whether `receive` takes its WAL too.
async fn archiving(sql: &mut Connection) -> Result<(Archiver, bool), ServerError> {
    let archiver = Archiver::ask(sql).await?;
    let is_received = sql.query_value(IS_RECEIVED).await? == "t";
    Ok((archiver, is_received))
}

/// The end of a segment that was made, and when.
struct Switch {
    end: Lsn,
    /// The name of the record that was written before, and where it ends.
    restore_point: (String, Lsn),
    time: Timestamp,
}

/// Ends the current segment.
async fn switch_wal(sql: &mut Connection) -> Result<Switch, ServerError> {
    let time = clock(sql).await?;
    // A switch does nothing in a segment without records: this writes one. No other has its name.
    let number = RandomState::new().hash_one(time);
    let name = format!("walzip check {number:016x}");
    let point = position(sql, &format!("SELECT pg_create_restore_point('{name}')")).await?;
    Ok(Switch {
        end: position(sql, "SELECT pg_switch_wal()").await?,
        restore_point: (name, point),
        time,
    })
}

/// The position that a query returns.
async fn position(sql: &mut Connection, query: &str) -> Result<Lsn, ServerError> {
    let text = sql.query_value(query).await?;
    text.parse()
        .map_err(|_| ServerError::Protocol(format!("{query} returned {text}")))
}
