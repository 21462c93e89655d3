//! The databases of a cluster, for who restores some of them, and whether all stayed where they
//! were while they were copied.
//!
//! They are listed before the backup, when it has begun, and after it. The last list is later than the end of the
//! backup: what of it was so at the end, the WAL says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use walzip_pgformat::wal::DatabaseDirectory;

use crate::backup::source_server::Server;
use crate::backups::backup_record::DatabaseRecord;
use crate::error::ArchiveError;
use crate::server::replication::{Connection, ServerError};

/// The commit of a drop follows the end of it at once. So long later a standby has replayed it.
const PAUSE: Duration = Duration::from_secs(1);

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

/// Databases that a session, or a standby's replay, has locked for itself: whoever drops one holds the lock until the
/// server lists it no more. Versions before 13.12, 14.9 and 15.4 do not mark the row of such a database.
async fn locked(sql: &mut Connection) -> Result<BTreeSet<u32>, ServerError> {
    let query = "SELECT objid FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass \
                 AND mode = 'AccessExclusiveLock' AND granted";
    let rows = sql.query(query).await?;
    let read = |row: &Vec<Option<String>>| row.first()?.as_deref()?.parse().ok();
    let oids: Option<BTreeSet<u32>> = rows.iter().map(read).collect();
    oids.ok_or_else(|| ServerError::Protocol(format!("the locked databases are {rows:?}")))
}

/// Their names.
pub(crate) async fn names(sql: &mut Connection) -> Result<BTreeMap<u32, String>, ServerError> {
    let databases = list(sql).await?.into_iter();
    Ok(databases.map(|(oid, of)| (oid, of.name)).collect())
}

/// How the server of a backup comes to its databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    is_standby: bool,
    /// `DROP DATABASE` marks the row as invalid, and writes that to the WAL, before it removes files.
    marks_drops: bool,
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
    fn tells_of_drops(self) -> bool {
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

/// The databases before a backup, when it had begun, and after it.
#[derive(Clone, Debug)]
pub(crate) struct Databases {
    before: BTreeMap<u32, Database>,
    /// The WAL that the backup needs has what has come since.
    begun: BTreeMap<u32, Database>,
    after: BTreeMap<u32, Database>,
    /// Those that somebody may have been dropping just before the list of after was made.
    locked: BTreeSet<u32>,
    origin: Origin,
}

/// What the WAL of a backup, from its start to its stop, says of databases.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenInWal {
    /// Those that it makes, in either way, and does not drop again.
    pub(crate) made: BTreeSet<u32>,
    /// Directories of databases that it removes, and does not make again.
    pub(crate) dropped: BTreeSet<DatabaseDirectory>,
    /// Which of the transactions that were asked for it commits.
    pub(crate) committed: BTreeSet<u32>,
    /// The databases whose directories the replay copies, each with the one that it copies.
    pub(crate) sources: BTreeMap<u32, u32>,
}

impl Databases {
    /// Lists them after the copy.
    ///
    /// One that was moved to another tablespace (`ALTER DATABASE ... SET TABLESPACE`) may be in neither in the
    /// copy, whoever makes it. The WAL says to copy its directory, which a restore then does not have.
    pub(crate) async fn after_copy(
        sql: &mut Connection,
        (before, begun): (BTreeMap<u32, Database>, BTreeMap<u32, Database>),
        (origin, present): (Origin, &BTreeSet<u32>),
    ) -> Result<Databases, ArchiveError> {
        // First: what is not locked and listed after that, nobody was dropping.
        let locked = locked(sql).await?;
        let after = list(sql).await?;
        let is_moved = |(oid, before): &(&u32, &Database)| {
            let after = after.get(oid);
            after.is_some_and(|after| after.tablespace != before.tablespace)
        };
        if let Some((_, Database { name, .. })) = before.iter().find(is_moved) {
            return Err(moved(&format!("\"{name}\"")));
        }
        let mut databases = Databases {
            before,
            begun,
            after,
            locked,
            origin,
        };
        databases.look_again(sql, present).await?;
        Ok(databases)
    }

    /// A standby that has replayed a drop lists the database until it has replayed its commit, and has no lock on it
    /// any more. One that was marked long ago, or has no files, looks the same: it is still there a moment later.
    async fn look_again(
        &mut self,
        sql: &mut Connection,
        present: &BTreeSet<u32>,
    ) -> Result<(), ServerError> {
        let is_doubtful = |oid: &&u32| {
            let is_listed = self.after.contains_key(oid) && !self.locked.contains(oid);
            is_listed && (self.is_marked_since_before(**oid) || !present.contains(oid))
        };
        let doubtful: BTreeSet<u32> = self.begun.keys().filter(is_doubtful).copied().collect();
        if doubtful.is_empty() || !self.origin.is_standby {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
        let locked = locked(sql).await?;
        let now = list(sql).await?;
        let is_dropped = |oid: &u32| locked.contains(oid) || !now.contains_key(oid);
        self.locked.extend(doubtful.into_iter().filter(is_dropped));
        Ok(())
    }

    /// Whether any was made, altered or dropped meanwhile.
    pub(crate) fn have_changed(&self) -> bool {
        let is_new = |(oid, after): (&u32, &Database)| {
            let before = self.before.get(oid);
            before.is_none_or(|before| before.row_version != after.row_version)
        };
        let is_gone = |oid: &u32| !self.after.contains_key(oid);
        self.after.iter().any(is_new) || self.begun.keys().any(is_gone)
    }

    /// The transactions that have written rows of after since the backup had begun.
    pub(crate) fn writers(&self) -> BTreeSet<u32> {
        let is_new = |(oid, after): &(&u32, &Database)| {
            let begun = self.begun.get(oid);
            begun.is_none_or(|begun| begun.row_version != after.row_version)
        };
        let new = self.after.iter().filter(is_new);
        new.filter_map(|(_, after)| after.row_version.parse().ok())
            .collect()
    }

    /// Whether files of a database may have been removed before the backup ended. `DROP DATABASE` removes all of
    /// them, and only then writes the record that says so.
    pub(crate) fn may_lack_files(&self, oid: u32) -> bool {
        let is_invalid = self.after.get(&oid).is_none_or(|after| after.is_invalid);
        is_invalid || self.locked.contains(&oid)
    }

    /// Whether a drop was interrupted before the backup, and nobody was dropping the database when that ended.
    fn is_marked_since_before(&self, oid: u32) -> bool {
        let was_marked = self
            .before
            .get(&oid)
            .is_some_and(|before| before.is_invalid);
        was_marked && self.after.contains_key(&oid) && !self.locked.contains(&oid)
    }

    /// The directories of databases that somebody may have been dropping when the backup ended, and whose rows would
    /// not tell: a restore would have a database that looks whole, and has no files. Where the WAL up to the stop drops
    /// them, or makes them, all is well.
    pub(crate) fn being_dropped(&self) -> BTreeSet<DatabaseDirectory> {
        if self.origin.tells_of_drops() {
            return BTreeSet::new();
        }
        let is_being_dropped = |(oid, _): &(&u32, &Database)| {
            self.may_lack_files(**oid) && !self.is_marked_since_before(**oid)
        };
        let being_dropped = self.begun.iter().filter(is_being_dropped);
        being_dropped
            .map(|(oid, begun)| directory(*oid, begun))
            .collect()
    }

    /// What messages call a database: its name in quotation marks, or its OID.
    pub(crate) fn shown(&self, oid: u32) -> String {
        let lists = [&self.after, &self.begun, &self.before];
        match lists.into_iter().find_map(|list| list.get(&oid)) {
            Some(Database { name, .. }) => format!("\"{name}\""),
            None => oid.to_string(),
        }
    }

    /// Those that are listed after the copy, where nothing has changed meanwhile.
    pub(crate) fn unchanged(&self) -> Vec<DatabaseRecord> {
        let record = |(oid, database): (&u32, &Database)| DatabaseRecord {
            dropped: database.is_invalid,
            ..DatabaseRecord::new(*oid, &database.name)
        };
        self.after.iter().map(record).collect()
    }

    /// Those that there were when the backup ended, as far as its WAL tells. No restore ends before. What was made,
    /// renamed or dropped after that is not, or not yet, in what is restored.
    pub(crate) fn records(&self, wal: &SeenInWal) -> Vec<DatabaseRecord> {
        let lists = [&self.before, &self.begun, &self.after];
        let oids: BTreeSet<u32> = lists.iter().flat_map(|list| list.keys().copied()).collect();
        let record = |oid| {
            let (database, dropped) = self.at_stop(oid, wal)?;
            Some(DatabaseRecord {
                dropped,
                copied_from: wal.sources.get(&oid).copied().filter(|_| !dropped),
                ..DatabaseRecord::new(oid, &database.name)
            })
        };
        oids.into_iter().filter_map(record).collect()
    }

    /// What a database was when the backup ended, and whether it was dropped by then; nothing where it was not there
    /// yet.
    fn at_stop(&self, oid: u32, wal: &SeenInWal) -> Option<(&Database, bool)> {
        let is_committed = |after: &Database| {
            let writer = after.row_version.parse();
            writer.is_ok_and(|writer| wal.committed.contains(&writer))
        };
        match (self.begun.get(&oid), self.after.get(&oid)) {
            (Some(begun), Some(after)) => {
                let is_of_then = begun.row_version == after.row_version || is_committed(after);
                Some((if is_of_then { after } else { begun }, after.is_invalid))
            }
            (Some(begun), None) => {
                // Its files may have been gone before the backup began, while the commit waited for a standby.
                let is_dropped = begun.is_invalid || wal.dropped.contains(&directory(oid, begun));
                Some((begun, is_dropped))
            }
            // It may be made before the backup begins, and committed after that.
            (None, Some(after)) => {
                let is_there = wal.made.contains(&oid) || is_committed(after);
                is_there.then_some((after, after.is_invalid))
            }
            (None, None) => Some((self.before.get(&oid)?, true)),
        }
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
            begun: databases(before),
            after: databases(after),
            locked: BTreeSet::new(),
            origin: Origin {
                is_standby: false,
                marks_drops: true,
            },
        }
    }

    /// The same of a standby, or of a primary whose version marks nothing.
    #[cfg(test)]
    pub(crate) fn of_origin(self, is_standby: bool, marks_drops: bool) -> Databases {
        let origin = Origin {
            is_standby,
            marks_drops,
        };
        Databases { origin, ..self }
    }

    /// The same where somebody was dropping one of them.
    #[cfg(test)]
    pub(crate) fn dropping(mut self, oid: u32, is_marked: bool) -> Databases {
        match self.after.get_mut(&oid).filter(|_| is_marked) {
            Some(after) => after.is_invalid = true,
            None => {
                self.locked.insert(oid);
            }
        }
        self
    }
}

/// The directory in which a database has its catalogs.
fn directory(oid: u32, of: &Database) -> DatabaseDirectory {
    DatabaseDirectory {
        tablespace: of.tablespace,
        database: oid,
    }
}

/// A database that messages call so may have been left without its files.
pub(crate) fn half_dropped(shown: &str) -> ArchiveError {
    ArchiveError::Request(format!(
        "database {shown} was being dropped when the backup ended, and a restore could have it without its files: \
         take the backup again"
    ))
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

    const SHOP: (u32, &str, &str) = (16400, "shop", "700");

    #[test]
    fn what_was_made_altered_or_dropped_has_changed() {
        for (before, after, have_changed) in [
            (&[SHOP][..], &[SHOP][..], false),
            (&[SHOP], &[], true),
            (&[], &[SHOP], true),
            (&[SHOP], &[(16400, "shop", "701")], true),
            (&[SHOP], &[(16401, "shop", "701")], true),
        ] {
            let databases = Databases::of(before, after);
            assert_eq!(
                databases.have_changed(),
                have_changed,
                "{before:?} {after:?}"
            );
        }
        // It was gone before the backup had begun.
        let mut databases = Databases::of(&[SHOP], &[]);
        databases.begun.clear();
        assert!(!databases.have_changed());
        assert!(databases.records(&SeenInWal::default())[0].dropped);
    }

    #[test]
    fn files_may_be_gone_of_what_is_not_listed_any_more_is_marked_or_locked() {
        let databases = Databases::of(&[SHOP], &[SHOP]);
        assert!(!databases.may_lack_files(16400));
        assert!(databases.may_lack_files(16401));
        for is_marked in [false, true] {
            let dropping = databases.clone().dropping(16400, is_marked);
            assert!(dropping.may_lack_files(16400), "{is_marked}");
        }
        let dropping = databases.dropping(16400, true);
        assert!(dropping.records(&SeenInWal::default())[0].dropped);
        // It was marked when the backup began, and gone when that ended.
        let mut gone = Databases::of(&[SHOP], &[]);
        assert!(!gone.records(&SeenInWal::default())[0].dropped);
        gone.begun = dropping.after;
        assert!(gone.records(&SeenInWal::default())[0].dropped);
    }

    #[test]
    fn what_is_being_dropped_does_not_tell_everywhere() {
        let being_dropped = |databases: &Databases| {
            let being_dropped = databases.being_dropped().into_iter();
            being_dropped.map(|of| of.database).collect::<Vec<u32>>()
        };
        let there = Databases::of(&[SHOP], &[SHOP]);
        let marked = there.clone().dropping(16400, true);
        let locked = there.clone().dropping(16400, false);
        let gone = Databases::of(&[SHOP], &[]);
        for (is_standby, marks_drops, tells) in [
            (false, true, true),
            (true, true, false),
            (false, false, false),
        ] {
            let of_origin = |databases: &Databases| {
                being_dropped(&databases.clone().of_origin(is_standby, marks_drops))
            };
            assert!(of_origin(&there).is_empty());
            let expected: &[u32] = if tells { &[] } else { &[16400] };
            for databases in [&marked, &locked, &gone] {
                assert_eq!(of_origin(databases), expected, "{databases:?}");
            }
            // A drop was interrupted long ago.
            let mut since_before = marked.clone();
            since_before.before = since_before.after.clone();
            since_before.begun = since_before.after.clone();
            assert!(of_origin(&since_before).is_empty());
            since_before.locked.insert(16400);
            assert_eq!(of_origin(&since_before), expected);
            // It was gone before the backup had begun.
            let mut gone = gone.clone();
            gone.begun.clear();
            assert!(of_origin(&gone).is_empty());
        }
    }

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

    #[test]
    fn databases_are_what_they_were_when_the_backup_ended() {
        let before = [
            (16400, "shop", "1"),
            (16401, "next", "2"),
            (16402, "old", "3"),
            (16405, "late", "3"),
            (16406, "gone_later", "3"),
        ];
        let after = [
            (16403, "made", "4"),
            (16404, "made_later", "8"),
            (16401, "shop", "5"),
            (16402, "old", "3"),
            (16405, "renamed_later", "9"),
        ];
        let databases = Databases::of(&before, &after);
        assert_eq!(databases.writers(), [4, 5, 8, 9].into());
        let wal = SeenInWal {
            made: [16403].into(),
            dropped: [DatabaseDirectory {
                tablespace: 1663,
                database: 16400,
            }]
            .into(),
            committed: [5].into(),
            sources: [(16403, 16402), (16404, 1)].into(),
        };
        let records = databases.records(&wal);
        let expected = [
            (16400, "shop", None, true),
            (16401, "shop", None, false),
            (16402, "old", None, false),
            (16403, "made", Some(16402), false),
            (16405, "late", None, false),
            (16406, "gone_later", None, false),
        ];
        let expected = expected.map(|(oid, name, copied_from, dropped)| DatabaseRecord {
            oid,
            name: name.to_owned(),
            copied_from,
            dropped,
        });
        assert_eq!(records, expected);
        let json = serde_json::to_string(&records[2..4]).expect("text");
        assert_eq!(
            json,
            r#"[{"oid":16402,"name":"old"},{"oid":16403,"name":"made","copied_from":16402}]"#
        );
    }
}
