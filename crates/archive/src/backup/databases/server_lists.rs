//! What a server says of its databases at one moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::backup::source_server::Server;
use crate::server::replication::{Connection, ServerError};

/// `ERRCODE_INTERNAL_ERROR`.
const INTERNAL_ERROR: &str = "XX000";

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
    /// `xmax` of the row, if any: the transaction that has written a next version of it, or has locked it, or the
    /// multixact of several that have.
    pub(crate) xmax: Option<u32>,
    /// Whether there is a multixact of that number.
    pub(crate) may_be_multixact: bool,
    /// The transactions that may have written a next version, as far as they were asked for. Nobody sees what one has
    /// written as long as it runs, or if it was aborted.
    pub(crate) next_writers: BTreeSet<u32>,
}

/// The databases of the server, now, by their OIDs.
pub(crate) async fn list(sql: &mut Connection) -> Result<BTreeMap<u32, Database>, ServerError> {
    // What asks for a multixact that there is not writes of a wraparound into the server's log.
    let query = "SELECT oid, datname, dattablespace, xmin, datconnlimit = -2, xmax, \
                 mxid_age(xmax) BETWEEN 1 AND (SELECT mxid_age(oldest_multi_xid) FROM pg_control_checkpoint()) \
                 FROM pg_database";
    let rows = sql.query_names(query).await?;
    let read = |row: &Vec<Option<String>>| {
        let oid = row.first()?.as_deref()?.parse().ok()?;
        let name = row.get(1)?.clone()?;
        let tablespace = row.get(2)?.as_deref()?.parse().ok()?;
        let database = Database {
            name,
            tablespace,
            row_version: row.get(3)?.clone()?,
            is_invalid: row.get(4)?.as_deref()? == "t",
            xmax: row
                .get(5)?
                .as_deref()?
                .parse()
                .ok()
                .filter(|&xmax| xmax != 0),
            may_be_multixact: row.get(6)?.as_deref()? == "t",
            next_writers: BTreeSet::new(),
        };
        Some((oid, database))
    };
    let databases: Option<BTreeMap<u32, Database>> = rows.iter().map(read).collect();
    databases.ok_or_else(|| ServerError::Protocol(format!("the databases are {rows:?}")))
}

/// Asks who may have written next versions of the rows.
///
/// A row does not tell whether its `xmax` is the number of a transaction or that of a multixact: both are counted from 3
/// and 1 on. A transaction that has locked the row, and writes it in a subtransaction (a savepoint), makes a multixact of
/// the two. So it is looked up as one as well.
pub(super) async fn ask_next_writers(
    sql: &mut Connection,
    databases: &mut BTreeMap<u32, Database>,
) -> Result<(), ServerError> {
    for database in databases.values_mut() {
        let Some(xmax) = database.xmax else {
            continue;
        };
        if database.may_be_multixact {
            database.next_writers = members(sql, xmax).await?;
        }
        database.next_writers.insert(xmax);
    }
    Ok(())
}

/// The transactions of a multixact; none where there is none of this number.
async fn members(sql: &mut Connection, multixact: u32) -> Result<BTreeSet<u32>, ServerError> {
    let query = format!("SELECT xid FROM pg_get_multixact_members('{multixact}')");
    let rows = match sql.query(&query).await {
        // "has not been created yet", "does no longer exist" (`GetMultiXactIdMembers`, access/transam/multixact.c,
        // 13 to 18).
        Err(ServerError::Sql(error)) if error.sqlstate == INTERNAL_ERROR => {
            return Ok(BTreeSet::new());
        }
        rows => rows?,
    };
    let read = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse().ok();
    let members: Option<BTreeSet<u32>> = rows.iter().map(read).collect();
    members.ok_or_else(|| ServerError::Protocol(format!("the members of {multixact} are {rows:?}")))
}

/// Databases that a session, or a standby's replay, has locked for itself: whoever drops one holds the lock until the
/// server lists it no more. Versions before 13.12, 14.9 and 15.4 do not mark the row of such a database.
pub(super) async fn locked(sql: &mut Connection) -> Result<BTreeSet<u32>, ServerError> {
    let query = "SELECT objid FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass \
                 AND mode = 'AccessExclusiveLock' AND granted";
    let rows = sql.query(query).await?;
    let read = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse().ok();
    let oids: Option<BTreeSet<u32>> = rows.iter().map(read).collect();
    oids.ok_or_else(|| ServerError::Protocol(format!("the locked databases are {rows:?}")))
}

/// The oldest transaction that runs. It, and each later one with its subtransactions, may be committed in the WAL, and
/// wait for a synchronous standby: as long as it does, nobody sees what it has written. `pg_locks` does not list
/// subtransactions that have ended.
pub(super) async fn oldest_running(sql: &mut Connection) -> Result<u32, ServerError> {
    let rows = sql
        .query("SELECT pg_snapshot_xmin(pg_current_snapshot())")
        .await?;
    let oldest = rows.first().and_then(|row| row.first()?.as_deref());
    // The lower half is the number that rows have; the upper one counts how often all were used.
    let oldest = oldest.and_then(|oldest| Some(oldest.parse::<u64>().ok()? as u32));
    oldest.ok_or_else(|| ServerError::Protocol(format!("the oldest transaction is {rows:?}")))
}

/// Their names.
pub(crate) async fn names(sql: &mut Connection) -> Result<BTreeMap<u32, String>, ServerError> {
    let databases = list(sql).await?.into_iter();
    Ok(databases.map(|(oid, of)| (oid, of.name)).collect())
}

/// How the server of a backup comes to its databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(super) is_standby: bool,
    /// `DROP DATABASE` marks the row as invalid, and writes that to the WAL, before it removes files.
    pub(super) marks_drops: bool,
}

impl Origin {
    pub(crate) fn of(server: &Server) -> Origin {
        Origin {
            is_standby: server.in_recovery,
            marks_drops: marks_drops(&server.version),
        }
    }

    /// Whether each moment at which files of a database are gone has a row that says so: the mark is in the WAL
    /// before. The end of a standby's backup may be before the mark, though the files are gone when they are copied:
    /// it is the position up to which the standby's own files need the WAL, and a drop moves that by its commit only.
    pub(super) fn tells_of_drops(self) -> bool {
        self.marks_drops && !self.is_standby
    }
}

/// Whether the server of this version marks a database that is being dropped.
fn marks_drops(version: &str) -> bool {
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let (major, minor) = (number().unwrap_or(0), number().unwrap_or(0));
    match major {
        13 => minor >= 12,
        14 => minor >= 9,
        15 => minor >= 4,
        _ => major > 15,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_marked_since_some_minor_versions() {
        for (version, expected) in [
            ("13.11", false),
            ("13.12", true),
            ("14.8 (Debian 14.8-1.pgdg120+1)", false),
            ("14.9", true),
            ("15.3", false),
            ("15.4 (Debian 15.4-1.pgdg120+1)", true),
            ("16.0", true),
            ("18beta1", true),
            ("19devel", true),
            ("", false),
        ] {
            assert_eq!(marks_drops(version), expected, "{version}");
        }
    }
}
