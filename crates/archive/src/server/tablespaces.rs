//! The tablespaces of a backup, and those that are created while it runs.
//!
//! A server announces the tablespaces that it has when a backup starts, and sends those. What is
//! created later is in the WAL: a replay makes the tablespace, its link and its files, and needs
//! no more than a directory in the old place. Some of them can be known: those whose link was sent
//! with the data directory, and those that are there when the copy ends.

use std::collections::BTreeMap;

use crate::server::replication::{BackupTablespace, Connection, ServerError};
use crate::server::tablespace_record::TablespaceRecord;

/// The names of the server's tablespaces, by OID.
pub(crate) async fn names(sql: &mut Connection) -> Result<BTreeMap<u32, String>, ServerError> {
    let query = "SELECT oid, spcname FROM pg_tablespace";
    let rows = sql.query_names(query).await?;
    let read = |row: &Vec<Option<String>>| {
        let oid = row.first()?.as_deref()?.parse().ok()?;
        Some((oid, row.get(1)?.clone()?))
    };
    let names: Option<BTreeMap<u32, String>> = rows.iter().map(read).collect();
    names.ok_or_else(|| ServerError::Protocol(format!("the tablespaces are {rows:?}")))
}

/// The server's tablespaces other than the data directory, and their directories.
pub(crate) async fn with_directories(
    sql: &mut Connection,
) -> Result<Vec<BackupTablespace>, ServerError> {
    let query = "SELECT oid, pg_tablespace_location(oid) FROM pg_tablespace \
                 WHERE spcname NOT IN ('pg_default', 'pg_global') ORDER BY oid";
    let rows = sql.query(query).await?;
    let read = |row: &Vec<Option<String>>| {
        Some(BackupTablespace {
            oid: row.first()?.as_deref()?.parse().ok()?,
            location: row.get(1)?.clone()?,
        })
    };
    let tablespaces: Option<Vec<_>> = rows.iter().map(read).collect();
    tablespaces.ok_or_else(|| ServerError::Protocol(format!("the tablespaces are {rows:?}")))
}

/// The tablespaces of a backup, when it was copied.
pub(crate) struct Tablespaces {
    /// Those that are in it.
    pub(crate) announced: Vec<TablespaceRecord>,
    /// Those that were created meanwhile, as far as they can be known.
    pub(crate) new: Vec<TablespaceRecord>,
}

impl Tablespaces {
    /// Puts together what the server announced, the links that it sent, the names of before the
    /// copy, and what it answers now.
    pub(crate) async fn after_copy(
        sql: &mut Connection,
        announced: Vec<BackupTablespace>,
        links: BTreeMap<u32, String>,
        names_before: BTreeMap<u32, String>,
    ) -> Tablespaces {
        let is_announced = |oid: &u32| announced.iter().any(|tablespace| tablespace.oid == *oid);
        let mut locations = links;
        locations.retain(|oid, _| !is_announced(oid));
        let mut names = BTreeMap::new();
        // Hours of copying are not thrown away for what only a person will read.
        match ask_again(sql, |oid| names_before.contains_key(oid)).await {
            Ok(now) => {
                names = now.names;
                now.locations.into_iter().for_each(|(oid, location)| {
                    locations.entry(oid).or_insert(location);
                });
            }
            Err(error) => {
                tracing::warn!("whether tablespaces were created meanwhile is not known: {error}");
            }
        }
        names.extend(names_before);
        let record = |oid, location| TablespaceRecord {
            oid,
            name: names.get(&oid).cloned(),
            location,
        };
        let new = locations
            .into_iter()
            .filter(|(oid, _)| !is_announced(oid))
            .map(|(oid, location)| record(oid, location))
            .collect();
        let announced = announced
            .iter()
            .map(|tablespace| record(tablespace.oid, tablespace.location.clone()))
            .collect();
        Tablespaces { announced, new }
    }
}

struct Now {
    names: BTreeMap<u32, String>,
    locations: BTreeMap<u32, String>,
}

/// The names of all tablespaces, and the locations of those that are not known.
async fn ask_again(
    sql: &mut Connection,
    is_known: impl Fn(&u32) -> bool,
) -> Result<Now, ServerError> {
    let names = names(sql).await?;
    let mut locations = BTreeMap::new();
    for oid in names.keys().filter(|oid| !is_known(oid)) {
        let query = format!("SELECT pg_tablespace_location({oid})");
        match sql.query_value(&query).await {
            // Without a directory of its own, it needs none.
            Ok(location) if !location.starts_with('/') => {}
            Ok(location) => drop(locations.insert(*oid, location)),
            // It was dropped again.
            Err(ServerError::Sql(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Now { names, locations })
}
