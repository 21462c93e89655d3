//! The names of a cluster's databases, for who restores some of them.

use std::collections::BTreeMap;

use crate::backup_record::DatabaseRecord;
use crate::replication::{Connection, ServerError};

/// The databases of the server, now.
pub(crate) async fn list(sql: &mut Connection) -> Result<BTreeMap<u32, String>, ServerError> {
    let rows = sql.query("SELECT oid, datname FROM pg_database").await?;
    let read = |row: &Vec<Option<String>>| {
        let oid = row.first()?.as_deref()?.parse().ok()?;
        Some((oid, row.get(1)?.clone()?))
    };
    let names: Option<BTreeMap<u32, String>> = rows.iter().map(read).collect();
    names.ok_or_else(|| ServerError::Protocol(format!("the databases are {rows:?}")))
}

/// The databases that were there before a copy, and those that came while it ran.
pub(crate) async fn after_copy(
    sql: &mut Connection,
    before: BTreeMap<u32, String>,
) -> Vec<DatabaseRecord> {
    // Hours of copying are not thrown away for names.
    let mut names = list(sql).await.unwrap_or_else(|error| {
        tracing::warn!("whether databases were created meanwhile is not known: {error}");
        BTreeMap::new()
    });
    names.extend(before);
    let named = names.into_iter();
    named
        .map(|(oid, name)| DatabaseRecord { oid, name })
        .collect()
}
