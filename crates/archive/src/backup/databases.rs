//! The names of a cluster's databases, for who restores some of them, and whether all stayed where they
//! were while they were copied.

use std::collections::BTreeMap;

use crate::backups::backup_record::DatabaseRecord;
use crate::error::ArchiveError;
use crate::server::replication::{Connection, ServerError};

/// A database of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Database {
    pub(crate) name: String,
    /// The OID of its default tablespace, in which its catalogs are.
    pub(crate) tablespace: u32,
    /// The transaction that has written its row of `pg_database`.
    pub(crate) row_version: String,
    /// Whether a `DROP DATABASE` has begun to remove it, and was interrupted.
    pub(crate) is_invalid: bool,
}

/// The databases of the server, now, by their OIDs.
pub(crate) async fn list(sql: &mut Connection) -> Result<BTreeMap<u32, Database>, ServerError> {
    let query = "SELECT oid, datname, dattablespace, xmin, datconnlimit = -2 FROM pg_database";
    let rows = sql.query(query).await?;
    let read = |row: &Vec<Option<String>>| {
        let oid = row.first()?.as_deref()?.parse().ok()?;
        let name = row.get(1)?.clone()?;
        let tablespace = row.get(2)?.as_deref()?.parse().ok()?;
        let database = Database {
            name,
            tablespace,
            row_version: row.get(3)?.clone()?,
            is_invalid: row.get(4)?.as_deref()? == "t",
        };
        Some((oid, database))
    };
    let databases: Option<BTreeMap<u32, Database>> = rows.iter().map(read).collect();
    databases.ok_or_else(|| ServerError::Protocol(format!("the databases are {rows:?}")))
}

/// Their names.
pub(crate) async fn names(sql: &mut Connection) -> Result<BTreeMap<u32, String>, ServerError> {
    let databases = list(sql).await?.into_iter();
    Ok(databases.map(|(oid, of)| (oid, of.name)).collect())
}

/// The databases that were there before a copy, and those that came while it ran.
///
/// One that was moved to another tablespace (`ALTER DATABASE ... SET TABLESPACE`) may be in neither in the
/// copy, whoever makes it. The WAL says to copy its directory, which a restore then does not have.
pub(crate) async fn after_copy(
    sql: &mut Connection,
    before: BTreeMap<u32, Database>,
) -> Result<Vec<DatabaseRecord>, ArchiveError> {
    let mut after = list(sql).await?;
    let is_moved = |(oid, before): &(&u32, &Database)| {
        let after = after.get(oid);
        after.is_some_and(|after| after.tablespace != before.tablespace)
    };
    if let Some((_, Database { name, .. })) = before.iter().find(is_moved) {
        return Err(ArchiveError::Request(format!(
            "database \"{name}\" was moved to another tablespace while the cluster was copied, and a restore \
             could lose it: take the backup again"
        )));
    }
    after.extend(before);
    let databases = after.into_iter();
    Ok(databases
        .map(|(oid, Database { name, .. })| DatabaseRecord { oid, name })
        .collect())
}
