//! The databases of a cluster, for who restores some of them, and whether all stayed where they
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

/// The databases before a copy, and after it.
#[derive(Clone, Debug)]
pub(crate) struct Databases {
    before: BTreeMap<u32, Database>,
    after: BTreeMap<u32, Database>,
}

impl Databases {
    /// Lists them after the copy.
    ///
    /// One that was moved to another tablespace (`ALTER DATABASE ... SET TABLESPACE`) may be in neither in the
    /// copy, whoever makes it. The WAL says to copy its directory, which a restore then does not have.
    pub(crate) async fn after_copy(
        sql: &mut Connection,
        before: BTreeMap<u32, Database>,
    ) -> Result<Databases, ArchiveError> {
        let after = list(sql).await?;
        let is_moved = |(oid, before): &(&u32, &Database)| {
            let after = after.get(oid);
            after.is_some_and(|after| after.tablespace != before.tablespace)
        };
        if let Some((_, Database { name, .. })) = before.iter().find(is_moved) {
            return Err(moved(&format!("\"{name}\"")));
        }
        Ok(Databases { before, after })
    }

    /// Whether any was made or altered meanwhile. Those that are gone do not count.
    pub(crate) fn have_changed(&self) -> bool {
        self.after.iter().any(|(oid, after)| {
            let before = self.before.get(oid);
            before.is_none_or(|before| before.row_version != after.row_version)
        })
    }

    /// What messages call a database: its name in quotation marks, or its OID.
    pub(crate) fn shown(&self, oid: u32) -> String {
        match self.after.get(&oid).or_else(|| self.before.get(&oid)) {
            Some(Database { name, .. }) => format!("\"{name}\""),
            None => oid.to_string(),
        }
    }

    /// Those that there are after the copy, and those that were dropped while it ran. No restore ends before, so that
    /// the names of after count.
    pub(crate) fn records(&self) -> Vec<DatabaseRecord> {
        let record = |(oid, database): (&u32, &Database)| DatabaseRecord {
            dropped: !self.after.contains_key(oid),
            ..DatabaseRecord::new(*oid, &database.name)
        };
        let is_gone = |(oid, _): &(&u32, &Database)| !self.after.contains_key(oid);
        let gone = self.before.iter().filter(is_gone);
        let mut records: Vec<DatabaseRecord> = gone.chain(&self.after).map(record).collect();
        records.sort_by_key(|record| record.oid);
        records
    }

    #[cfg(test)]
    pub(crate) fn of(before: &[(u32, &str, &str)], after: &[(u32, &str, &str)]) -> Databases {
        let databases = |of: &[(u32, &str, &str)]| {
            of.iter()
                .map(|&(oid, name, row_version)| {
                    let database = Database {
                        name: name.to_owned(),
                        tablespace: 1663,
                        row_version: row_version.to_owned(),
                        is_invalid: false,
                    };
                    (oid, database)
                })
                .collect()
        };
        Databases {
            before: databases(before),
            after: databases(after),
        }
    }
}

/// Notes which databases the replay makes as copies, and of which others.
pub(crate) fn note_sources(records: &mut [DatabaseRecord], sources: &BTreeMap<u32, u32>) {
    for record in records {
        record.copied_from = sources.get(&record.oid).copied();
    }
}

/// A database that messages call so is not where it was.
pub(crate) fn moved(shown: &str) -> ArchiveError {
    ArchiveError::Request(format!(
        "database {shown} was moved to another tablespace while the cluster was copied, and a restore \
         could lose it: take the backup again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_or_altered_has_changed_and_what_was_dropped_has_not() {
        let shop = (16400, "shop", "700");
        for (before, after, have_changed) in [
            (&[shop][..], &[shop][..], false),
            (&[shop], &[], false),
            (&[], &[shop], true),
            (&[shop], &[(16400, "shop", "701")], true),
            (&[shop], &[(16401, "shop", "701")], true),
        ] {
            let databases = Databases::of(before, after);
            assert_eq!(
                databases.have_changed(),
                have_changed,
                "{before:?} {after:?}"
            );
        }
    }

    #[test]
    fn names_are_those_of_after_the_copy_and_what_is_gone_is_marked() {
        let before = [
            (16400, "shop", "1"),
            (16401, "next", "2"),
            (16402, "old", "3"),
        ];
        let after = [
            (16403, "made", "4"),
            (16401, "shop", "5"),
            (16402, "old", "3"),
        ];
        let mut records = Databases::of(&before, &after).records();
        note_sources(&mut records, &BTreeMap::from([(16403, 16402), (16404, 1)]));
        let expected = [
            (16400, "shop", None, true),
            (16401, "shop", None, false),
            (16402, "old", None, false),
            (16403, "made", Some(16402), false),
        ];
        let expected = expected.map(|(oid, name, copied_from, dropped)| DatabaseRecord {
            oid,
            name: name.to_owned(),
            copied_from,
            dropped,
        });
        assert_eq!(records, expected);
        let json = serde_json::to_string(&records[2..]).expect("text");
        assert_eq!(
            json,
            r#"[{"oid":16402,"name":"old"},{"oid":16403,"name":"made","copied_from":16402}]"#
        );
    }
}
