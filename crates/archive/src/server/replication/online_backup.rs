//! A backup that is started and stopped by SQL, and copied by others meanwhile
//! (`pg_backup_start`, up to 14 `pg_start_backup`).

use walzip_pgformat::Lsn;

use super::ServerError;
use super::connection::{Connection, protocol};

/// The first major that calls the functions `pg_backup_start` and `pg_backup_stop`.
const FIRST_MAJOR_WITH_SHORT_NAMES: u32 = 15;

/// A backup under way. The server forgets it when the connection ends.
pub struct OnlineBackup {
    connection: Connection,
    /// Where recovery of this backup starts.
    pub start: Lsn,
}

/// What the server says when a backup has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlineBackupEnd {
    /// WAL up to here is needed for a consistent cluster.
    pub lsn: Lsn,
    /// The content of the file `backup_label`.
    pub label: String,
}

fn has_short_names(connection: &Connection) -> Result<bool, ServerError> {
    Ok(connection.major()? >= FIRST_MAJOR_WITH_SHORT_NAMES)
}

impl OnlineBackup {
    /// Whether the role may start and stop backups.
    pub async fn is_allowed(connection: &mut Connection) -> Result<bool, ServerError> {
        let functions = match has_short_names(connection)? {
            true => ["pg_backup_start(text, boolean)", "pg_backup_stop(boolean)"],
            false => [
                "pg_start_backup(text, boolean, boolean)",
                "pg_stop_backup(boolean, boolean)",
            ],
        };
        let allowed = functions.map(|name| format!("has_function_privilege('{name}', 'EXECUTE')"));
        let query = format!("SELECT {}", allowed.join(" AND "));
        Ok(connection.query_value(&query).await? == "t")
    }

    /// Starts a backup, with or without a checkpoint at once. While it runs, the server writes
    /// each page that it changes into the WAL in full. The session says nothing for hours: it must
    /// have no timeouts.
    pub async fn start(
        mut connection: Connection,
        label: &str,
        fast_checkpoint: bool,
    ) -> Result<OnlineBackup, ServerError> {
        let label = label.replace('\'', "''");
        let query = match has_short_names(&connection)? {
            true => format!("SELECT pg_backup_start('{label}', {fast_checkpoint})"),
            false => format!("SELECT pg_start_backup('{label}', {fast_checkpoint}, false)"),
        };
        let rows = connection.query_for_long(&query).await?;
        let start = rows
            .first()
            .and_then(|row| row.first()?.as_deref()?.parse().ok());
        Ok(OnlineBackup {
            start: start.ok_or_else(|| protocol(format!("a backup starts at {rows:?}")))?,
            connection,
        })
    }

    /// The session of the backup.
    pub fn session(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Stops it, and returns its session. The server does not wait until its WAL is archived: only
    /// the caller can see its own archive.
    pub async fn stop(mut self) -> Result<(OnlineBackupEnd, Connection), ServerError> {
        let query = match has_short_names(&self.connection)? {
            true => "SELECT lsn, labelfile FROM pg_backup_stop(false)",
            false => "SELECT lsn, labelfile FROM pg_stop_backup(false, false)",
        };
        let rows = self.connection.query_for_long(query).await?;
        let value = |at: usize| rows.first().and_then(|row| row.get(at)?.clone());
        let end = || {
            Some(OnlineBackupEnd {
                lsn: value(0)?.parse().ok()?,
                label: value(1)?,
            })
        };
        let end = end().ok_or_else(|| protocol(format!("a backup ended with {rows:?}")))?;
        Ok((end, self.connection))
    }
}
