//! What a live server says of itself, and segments out of its pg_wal: over a session that may
//! only read.

use std::path::Path;
use std::time::{Duration, SystemTime};

use walzip_archive::replication::{Connection, ConnectionSettings, Mode, Row, ServerError};
use walzip_bench::advise::{
    ArchiverStatistics, CheckpointStatistics, FileTimes, Sample, Server, WalStatistics, choose,
};
use walzip_bench::{Cancel, Error, Progress};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::commands::bench::standard_error::StandardError;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::system_identifier::{NO_PRIVILEGE, system_identifier};

/// What advice depends on.
const SETTINGS: &str = "'archive_mode', 'archive_timeout', 'checkpoint_completion_target', \
    'checkpoint_timeout', 'full_page_writes', 'max_wal_senders', 'max_wal_size', 'min_wal_size', \
    'shared_buffers', 'wal_compression', 'wal_level', 'wal_log_hints', 'wal_segment_size'";
/// How much of a segment is asked for at once; it arrives in hexadecimal.
const CHUNK_BYTES: u64 = 4 << 20;
/// How many of the newest segments are only looked at: each has to come over the connection.
const NEIGHBOURS: usize = 6;

/// A session that may only read.
pub struct Connected<'a> {
    sql: Connection,
    progress: &'a mut StandardError,
}

/// Which segments, and where to put them.
pub struct Wanted<'a> {
    /// How many are measured on.
    pub segments: usize,
    /// A directory for them.
    pub directory: &'a Path,
    /// Asked before each segment.
    pub cancel: &'a Cancel,
}

impl<'a> Connected<'a> {
    /// Connects.
    pub async fn open(
        settings: &ConnectionSettings,
        progress: &'a mut StandardError,
    ) -> Result<Connected<'a>, CommandError> {
        let mut sql = Connection::open(settings, Mode::Sql).await?;
        sql.query("SET default_transaction_read_only = on").await?;
        Ok(Connected { sql, progress })
    }

    /// Says goodbye.
    pub async fn close(self) {
        self.sql.close().await;
    }

    /// Settings and statistics.
    pub async fn describe(&mut self) -> Result<Server, CommandError> {
        let major = self.sql.major()?;
        let rows = self.sql.query(&settings_query()).await?;
        let pair = |row: Row| {
            let mut cells = row.into_iter();
            Some((cells.next()??, cells.next()??))
        };
        let settings = rows.into_iter().filter_map(pair).collect();
        let identifier = system_identifier(&mut self.sql).await?;
        let in_recovery = self.sql.query_value("SELECT pg_is_in_recovery()").await? == "t";
        Ok(Server {
            version: self.sql.version().to_owned(),
            major,
            system_identifier: identifier.map(|identifier| identifier.to_string()),
            in_recovery,
            settings,
            wal_compression_values: self.wal_compression_values().await?,
            wal: self.wal_statistics(major).await?,
            checkpoints: self.checkpoint_statistics(major).await?,
            archiver: self.archiver_statistics().await?,
        })
    }

    /// None where it is on or off, as before 15.
    async fn wal_compression_values(&mut self) -> Result<Option<Vec<String>>, CommandError> {
        let query = "SELECT unnest(enumvals) FROM pg_settings WHERE name = 'wal_compression'";
        let rows = self.sql.query(query).await?;
        let values = rows.into_iter().filter_map(|row| row.into_iter().next()?);
        let values: Vec<String> = values.collect();
        Ok((!values.is_empty()).then_some(values))
    }

    async fn wal_statistics(&mut self, major: u32) -> Result<Option<WalStatistics>, CommandError> {
        if major < 14 {
            return Ok(None);
        }
        let query = "SELECT wal_bytes, wal_records, wal_fpi, \
            extract(epoch FROM now() - stats_reset) FROM pg_stat_wal";
        let numbers = self.numbers(query).await?;
        Ok(Some(WalStatistics {
            bytes: at(&numbers, 0).unwrap_or_default(),
            records: at(&numbers, 1).unwrap_or_default(),
            images: at(&numbers, 2).unwrap_or_default(),
            seconds: at(&numbers, 3),
        }))
    }

    async fn checkpoint_statistics(
        &mut self,
        major: u32,
    ) -> Result<Option<CheckpointStatistics>, CommandError> {
        let query = if major < 17 {
            "SELECT checkpoints_timed, checkpoints_req, \
                extract(epoch FROM now() - stats_reset) FROM pg_stat_bgwriter"
        } else {
            "SELECT num_timed, num_requested, \
                extract(epoch FROM now() - stats_reset) FROM pg_stat_checkpointer"
        };
        let numbers = self.numbers(query).await?;
        Ok(Some(CheckpointStatistics {
            timed: at(&numbers, 0).unwrap_or_default() as u64,
            requested: at(&numbers, 1).unwrap_or_default() as u64,
            seconds: at(&numbers, 2),
        }))
    }

    async fn archiver_statistics(&mut self) -> Result<Option<ArchiverStatistics>, CommandError> {
        let query = "SELECT archived_count, failed_count, \
            extract(epoch FROM now() - stats_reset) FROM pg_stat_archiver";
        let numbers = self.numbers(query).await?;
        Ok(Some(ArchiverStatistics {
            archived: at(&numbers, 0).unwrap_or_default() as u64,
            failed: at(&numbers, 1).unwrap_or_default() as u64,
            seconds: at(&numbers, 2),
        }))
    }

    /// The numbers of an answer's first row.
    async fn numbers(&mut self, query: &str) -> Result<Vec<Option<f64>>, CommandError> {
        let rows = self.sql.query(query).await?;
        let row = rows.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|cell| cell?.parse().ok()).collect())
    }

    /// Fetches complete segments.
    pub async fn segments(&mut self, wanted: &Wanted<'_>) -> Result<Sample, CommandError> {
        let complete = self.complete_segments().await?;
        let choice = choose(complete.len(), wanted.segments, NEIGHBOURS);
        let folder = wanted.directory.join("server");
        std::fs::create_dir(&folder).map_err(|error| CommandError::write(&folder, &error))?;
        self.progress.note(&format!(
            "reading {} of {} segments from the server",
            choice.looked_at.len(),
            complete.len()
        ));
        let mut sample = Sample {
            source: "the server's pg_wal".to_owned(),
            available: complete.len(),
            times: FileTimes::new(complete.iter().map(|segment| segment.modified)),
            measured: Vec::new(),
            looked_at: Vec::new(),
        };
        for index in choice.looked_at {
            if wanted.cancel.is_requested() {
                return Err(Error::Interrupted.into());
            }
            let segment = &complete[index];
            let Some(bytes) = self.read(segment).await? else {
                let note = format!("{} has just been removed, and is left out", segment.name);
                self.progress.note(&note);
                continue;
            };
            let to = folder.join(segment.name.to_string());
            std::fs::write(&to, bytes).map_err(|error| CommandError::write(&to, &error))?;
            if choice.measured.contains(&index) {
                sample.measured.push(to.clone());
            }
            sample.looked_at.push(to);
        }
        Ok(sample)
    }

    /// What lies before the segment that is being written; behind it are recycled files.
    async fn complete_segments(&mut self) -> Result<Vec<Segment>, CommandError> {
        let position = "SELECT CASE WHEN pg_is_in_recovery() \
            THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
            ELSE pg_current_wal_lsn() END";
        let position = self.sql.query_value(position).await?;
        let position: Lsn = position.parse().map_err(|_| {
            ServerError::Protocol(format!("the position in the WAL is \"{position}\""))
        })?;
        let query = "SELECT name, size, extract(epoch FROM modification) \
            FROM pg_ls_waldir() ORDER BY name";
        let rows = self.sql.query(query).await.map_err(needs_privilege)?;
        let segments = rows.into_iter().filter_map(|row| {
            let segment = Segment::of(&row)?;
            let size = u32::try_from(segment.bytes).ok()?;
            let end = segment.name.range(size).ok()?.end;
            (end <= position).then_some(segment)
        });
        let segments: Vec<Segment> = segments.collect();
        if segments.is_empty() {
            let message = "the server's pg_wal has no complete segment yet: the one that is being \
                 written does not count";
            return Err(CommandError::new(Kind::FileMissing, message));
        }
        Ok(segments)
    }

    /// A segment's bytes; `None` when it has gone meanwhile.
    async fn read(&mut self, segment: &Segment) -> Result<Option<Vec<u8>>, CommandError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < segment.bytes {
            let query = format!(
                "SELECT encode(pg_read_binary_file('pg_wal/{}', {}, {CHUNK_BYTES}, true), 'hex')",
                segment.name,
                bytes.len()
            );
            let rows = self.sql.query(&query).await.map_err(needs_privilege)?;
            let hex = rows
                .into_iter()
                .next()
                .and_then(|row| row.into_iter().next()?);
            let Some(hex) = hex.filter(|hex| !hex.is_empty()) else {
                return Ok(None);
            };
            let chunk = unhexed(&hex).ok_or_else(|| {
                ServerError::Protocol("a file's content is no hexadecimal text".to_owned())
            })?;
            bytes.extend(chunk);
        }
        Ok(Some(bytes))
    }
}

/// A file in pg_wal.
struct Segment {
    name: SegmentName,
    bytes: u64,
    modified: SystemTime,
}

impl Segment {
    fn of(row: &Row) -> Option<Segment> {
        let cell = |index: usize| row.get(index)?.as_deref();
        let seconds: f64 = cell(2)?.parse().ok()?;
        Some(Segment {
            name: cell(0)?.parse().ok()?,
            bytes: cell(1)?.parse().ok()?,
            modified: SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(seconds).ok()?,
        })
    }
}

/// Settings in bytes and seconds, whatever unit the server keeps them in.
fn settings_query() -> String {
    format!(
        "SELECT name, CASE unit WHEN 'kB' THEN (setting::bigint * 1024)::text \
            WHEN '8kB' THEN (setting::bigint * 8192)::text \
            WHEN 'MB' THEN (setting::bigint * 1048576)::text \
            WHEN 'min' THEN (setting::bigint * 60)::text \
            ELSE setting END FROM pg_settings WHERE name IN ({SETTINGS})"
    )
}

fn at(numbers: &[Option<f64>], index: usize) -> Option<f64> {
    numbers.get(index).copied().flatten()
}

fn needs_privilege(error: ServerError) -> CommandError {
    let denied = error.sqlstate() == Some(NO_PRIVILEGE);
    let error = CommandError::from(error);
    match denied {
        true => error.hint(
            "Name --pg-wal or --repo for the segments, or connect as a role that may read them.",
        ),
        false => error,
    }
}

fn unhexed(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_text_is_bytes_or_nothing() {
        assert_eq!(unhexed("00ff7A"), Some(vec![0, 255, 0x7A]));
        assert_eq!(unhexed("0"), None);
        assert_eq!(unhexed("0g"), None);
    }
}
