//! Whether a copy has every tablespace and every database of its server.
//!
//! Who copies passes over a directory that is gone, since its drop is in the WAL. The volume of a
//! tablespace that is not mounted looks the same. What the server lists before the copy and still lists
//! after it was not dropped, so that the copy must have it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backup::databases::{self, Database};
use crate::backup::listed::Before;
use crate::backups::chunks::cutter::Cut;
use crate::backups::chunks::index::Member;
use crate::error::ArchiveError;
use crate::server::replication::{BackupTablespace, Connection};
use crate::server::tablespaces;

/// `pg_default`, whose databases are in the data directory's `base`.
const DEFAULT_TABLESPACE: u32 = 1663;
/// `pg_global`, which has no databases.
const GLOBAL_TABLESPACE: u32 = 1664;

/// A database is listed until the transaction ends that has removed its files. So often it is asked again.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// What there is in a copy.
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// Tablespaces of which the directory of the server's major is there.
    tablespaces: BTreeSet<u32>,
    /// Tablespaces and databases, of which the file `PG_VERSION` is there.
    databases: BTreeSet<(u32, u32)>,
}

impl Present {
    /// What a copy of a server of this major has.
    pub(crate) fn of(cut: &Cut, major: u32) -> Present {
        let of_major = format!("PG_{major}_");
        let directories = cut.members.iter().filter_map(|member| match member {
            Member::Directory(entry) => {
                let path = entry.path.to_str()?;
                let is_own = path.starts_with(&of_major) && !path.contains('/');
                entry.tablespace.filter(|_| is_own)
            }
            Member::File { .. } => None,
        });
        let names = cut.seen.keys();
        Present {
            tablespaces: directories.collect(),
            databases: names
                .filter_map(|name| database_of(std::str::from_utf8(name).ok()?, &of_major))
                .collect(),
        }
    }

    /// The databases of which the file is there that each has.
    pub(crate) fn of_databases(&self) -> BTreeSet<u32> {
        self.databases.iter().map(|(_, oid)| *oid).collect()
    }

    /// Refuses a copy that lacks what the server listed before it, and lists now.
    pub(crate) async fn check(
        &self,
        sql: &mut Connection,
        before: &Before,
        announced: &[BackupTablespace],
    ) -> Result<(), ArchiveError> {
        for attempt in 1.. {
            let names = tablespaces::names(sql).await?;
            let now = databases::list(sql).await?;
            let is_of_copy = |oid: &u32| {
                let is_announced = announced.iter().any(|tablespace| tablespace.oid == *oid);
                is_announced || before.tablespaces.contains_key(oid)
            };
            let of_tablespace = names.iter().find(|(oid, _)| {
                is_of_copy(oid)
                    && ![DEFAULT_TABLESPACE, GLOBAL_TABLESPACE].contains(oid)
                    && !self.tablespaces.contains(oid)
            });
            let lacking = match of_tablespace {
                Some((oid, name)) => Some(ArchiveError::NotWhole(tablespace_is_gone(
                    *oid, name, announced,
                ))),
                None => self
                    .lacking_database(&before.databases, &now)
                    .map(|lacking| lacking.refusal(&names)),
            };
            match lacking {
                None => break,
                Some(error) if attempt >= ATTEMPTS => return Err(error),
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(())
    }

    /// A database that was listed before, is where it was, and is not there.
    fn lacking_database<'d>(
        &self,
        before: &BTreeMap<u32, Database>,
        now: &'d BTreeMap<u32, Database>,
    ) -> Option<Lacking<'d>> {
        let stayed = now.iter().filter_map(|(oid, now)| {
            let before = before.get(oid)?;
            let lacking = Lacking {
                oid: *oid,
                database: now,
                was_altered: before.row_version != now.row_version,
            };
            (before.tablespace == now.tablespace).then_some(lacking)
        });
        stayed
            // What DROP DATABASE has begun to remove can only be dropped. Whether a restore sees that, copied_databases
            // looks at.
            .filter(|lacking| !lacking.database.is_invalid)
            .find(|Lacking { oid, database, .. }| {
                !self.databases.contains(&(database.tablespace, *oid))
            })
    }
}

/// A database that a copy does not have.
#[derive(Debug)]
struct Lacking<'d> {
    oid: u32,
    database: &'d Database,
    /// Its row was written while the cluster was copied: it may have been moved there and back.
    was_altered: bool,
}

impl Lacking<'_> {
    fn refusal(&self, tablespaces: &BTreeMap<u32, String>) -> ArchiveError {
        let Lacking { oid, database, .. } = *self;
        match self.was_altered {
            true => databases::moved(&format!("\"{}\"", database.name)),
            false => {
                let tablespace = tablespaces.get(&database.tablespace);
                ArchiveError::NotWhole(database_is_gone(oid, database, tablespace))
            }
        }
    }
}

/// The tablespace and the database of whose directory a file tells that the database is there.
fn database_of(name: &str, of_major: &str) -> Option<(u32, u32)> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        ["base", database, "PG_VERSION"] => Some((DEFAULT_TABLESPACE, database.parse().ok()?)),
        ["pg_tblspc", tablespace, version, database, "PG_VERSION"]
            if version.starts_with(of_major) =>
        {
            Some((tablespace.parse().ok()?, database.parse().ok()?))
        }
        _ => None,
    }
}

fn tablespace_is_gone(oid: u32, name: &str, announced: &[BackupTablespace]) -> String {
    let announced = announced.iter().find(|tablespace| tablespace.oid == oid);
    match announced {
        Some(BackupTablespace { location, .. }) => format!(
            "tablespace \"{name}\" ({oid}) has no files of this server: {location} is empty, or is not there"
        ),
        None => format!(
            "tablespace \"{name}\" ({oid}) has no files of this server: pg_tblspc/{oid} leads nowhere"
        ),
    }
}

fn database_is_gone(oid: u32, database: &Database, tablespace: Option<&String>) -> String {
    let name = &database.name;
    let place = match (database.tablespace, tablespace) {
        (DEFAULT_TABLESPACE, _) => format!("base/{oid}"),
        (_, Some(tablespace)) => format!("its directory in tablespace \"{tablespace}\""),
        (tablespace, None) => format!("its directory in tablespace {tablespace}"),
    };
    format!("database \"{name}\" ({oid}) has no files: there is no PG_VERSION in {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(tablespace: u32, is_invalid: bool) -> Database {
        Database {
            name: "shop".to_owned(),
            tablespace,
            row_version: "700".to_owned(),
            is_invalid,
            xmax: None,
            may_be_multixact: false,
            next_writers: BTreeSet::new(),
        }
    }

    #[test]
    fn databases_are_known_by_the_file_that_each_has() {
        let of = |name| database_of(name, "PG_15_");
        assert_eq!(of("base/5/PG_VERSION"), Some((1663, 5)));
        let place = "pg_tblspc/16400/PG_15_202209061/5/PG_VERSION";
        assert_eq!(of(place), Some((16400, 5)));
        for other in [
            "PG_VERSION",
            "base/PG_VERSION",
            "base/x/PG_VERSION",
            "base/5/1259",
            "pg_tblspc/16400/PG_14_202107181/5/PG_VERSION",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_is_listed_before_and_after_in_one_place_has_to_be_there() {
        let present = Present {
            tablespaces: BTreeSet::new(),
            databases: [(1663, 5), (16400, 7)].into(),
        };
        let lacks = |before: &[(u32, Database)], now: &[(u32, Database)]| {
            let (before, now) = (before.iter().cloned(), now.iter().cloned().collect());
            let lacking = present.lacking_database(&before.collect(), &now);
            lacking.map(|lacking| (lacking.oid, lacking.was_altered))
        };
        let whole = [(5, database(1663, false)), (7, database(16400, false))];
        assert_eq!(lacks(&whole, &whole), None);
        let gone = [(6, database(1663, false))];
        assert_eq!(lacks(&gone, &gone), Some((6, false)));
        let mut altered = gone.clone();
        altered[0].1.row_version = "701".to_owned();
        assert_eq!(lacks(&gone, &altered), Some((6, true)), "moved and back");
        assert_eq!(lacks(&gone, &whole), None, "dropped");
        assert_eq!(lacks(&whole, &gone), None, "made meanwhile");
        assert_eq!(
            lacks(&gone, &[(6, database(1663, true))]),
            None,
            "half dropped"
        );
        assert_eq!(lacks(&gone, &[(6, database(16400, false))]), None, "moved");
        let elsewhere = [(7, database(1663, false))];
        assert_eq!(
            lacks(&elsewhere, &elsewhere),
            Some((7, false)),
            "another directory"
        );
    }
}
