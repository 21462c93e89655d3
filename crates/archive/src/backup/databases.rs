//! The databases of a cluster, for who restores some of them, and whether all stayed where they
//! were while they were copied.
//!
//! They are listed before the backup, when it has begun, and after it. The last list is later than the end of the
//! backup: what of it was so at the end, the WAL says.

mod server_lists;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use walzip_pgformat::wal::DatabaseDirectory;

pub(crate) use self::server_lists::{Database, Origin, list, names};
use self::server_lists::{ask_next_writers, locked, oldest_running};
use crate::backups::backup_record::DatabaseRecord;
use crate::error::ArchiveError;
use crate::server::replication::{Connection, ServerError};

/// The commit of a drop follows the end of it at once. So long later a standby has replayed it.
const PAUSE: Duration = Duration::from_secs(1);

/// The databases before a backup, when it had begun, and after it.
#[derive(Clone, Debug)]
pub(crate) struct Databases {
    before: BTreeMap<u32, Database>,
    /// The WAL that the backup needs has what has come since.
    begun: BTreeMap<u32, Database>,
    after: BTreeMap<u32, Database>,
    /// Those that somebody may have been dropping just before the list of after was made, or of which a standby turned
    /// out to be replaying the drop then.
    locked: BTreeSet<u32>,
    /// The oldest transaction that ran just before the list of after was made.
    oldest_running: u32,
    origin: Origin,
}

/// What the WAL of a backup, from its start to its stop, says of databases.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenInWal {
    /// Those that it makes, in either way, and does not drop again, each with the transaction that does.
    pub(crate) made: BTreeMap<u32, u32>,
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
        // First: what is not locked and listed after that, nobody was dropping, and what is not being written and
        // listed after that is what the WAL has come to.
        let locked = locked(sql).await?;
        let oldest_running = oldest_running(sql).await?;
        let mut after = list(sql).await?;
        ask_next_writers(sql, &mut after).await?;
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
            oldest_running,
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
            let known = self.known(**oid);
            known.is_none_or(|known| known.row_version != after.row_version)
        };
        let new = self.after.iter().filter(is_new);
        new.filter_map(|(_, after)| writer(after)).collect()
    }

    /// What was listed of a database at a moment that the WAL of the backup has before its end. What a standby lists
    /// when the backup has begun may be later than the end.
    fn known(&self, oid: u32) -> Option<&Database> {
        let before = self.before.get(&oid).filter(|_| self.origin.is_standby);
        before.or_else(|| self.begun.get(&oid))
    }

    /// Whether a transaction that ran when the list of after was made may have written the row once more.
    fn is_being_written(&self, after: &Database) -> bool {
        // Numbers go round: of two, the later one is that which is less than half of all after the other.
        let is_ended = |writer: &u32| (writer.wrapping_sub(self.oldest_running) as i32) < 0;
        !after.next_writers.iter().all(is_ended)
    }

    /// Whether all lists have the same name of it. A row is written again where rights are granted, too.
    fn has_kept_its_name(&self, oid: u32, after: &Database) -> bool {
        let earlier = [self.before.get(&oid), self.begun.get(&oid)];
        earlier
            .iter()
            .all(|earlier| earlier.is_some_and(|earlier| earlier.name == after.name))
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
            name_unknown: !database.is_invalid && self.is_being_written(database),
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
            let AtStop {
                database,
                dropped,
                is_named,
            } = self.at_stop(oid, wal)?;
            Some(DatabaseRecord {
                dropped,
                name_unknown: !dropped && !is_named,
                copied_from: wal.sources.get(&oid).copied().filter(|_| !dropped),
                ..DatabaseRecord::new(oid, &database.name)
            })
        };
        oids.into_iter().filter_map(record).collect()
    }

    /// What a database was when the backup ended; nothing where it was not there yet.
    ///
    /// The list of after is of then if the WAL commits who has written it. Otherwise its commit is later, or it came
    /// before the backup and waited for a synchronous standby. What was written in between has no list.
    fn at_stop(&self, oid: u32, wal: &SeenInWal) -> Option<AtStop<'_>> {
        let is_committed =
            |after: &Database| writer(after).is_some_and(|writer| wal.committed.contains(&writer));
        let of_after = |after, is_known| AtStop {
            database: after,
            dropped: after.is_invalid,
            is_named: is_known && !self.is_being_written(after),
        };
        match (self.begun.get(&oid), self.after.get(&oid)) {
            (Some(begun), Some(after)) => {
                let known = self.known(oid).unwrap_or(begun);
                let is_known = known.row_version == after.row_version
                    || is_committed(after)
                    || self.has_kept_its_name(oid, after);
                Some(AtStop {
                    database: if is_known { after } else { begun },
                    ..of_after(after, is_known)
                })
            }
            (Some(begun), None) => Some(AtStop {
                database: begun,
                // Its files may have been gone before the backup began, while the commit waited for a standby.
                dropped: begun.is_invalid || wal.dropped.contains(&directory(oid, begun)),
                is_named: false,
            }),
            // It may be made before the backup begins, and committed after that.
            (None, Some(after)) => {
                let maker = wal.made.get(&oid).copied();
                let is_known = is_committed(after) || maker.is_some() && maker == writer(after);
                (maker.is_some() || is_known).then(|| of_after(after, is_known))
            }
            (None, None) => Some(AtStop {
                database: self.before.get(&oid)?,
                dropped: true,
                is_named: false,
            }),
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
                        xmax: None,
                        may_be_multixact: false,
                        next_writers: BTreeSet::new(),
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
            oldest_running: 1 << 20,
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

/// What a database was when a backup ended.
struct AtStop<'d> {
    database: &'d Database,
    dropped: bool,
    /// Whether that is its name, and not one that it had before or after.
    is_named: bool,
}

/// The transaction that has written a row.
fn writer(of: &Database) -> Option<u32> {
    of.row_version.parse().ok()
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
         take the backup again. A drop may last as long as a checkpoint"
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
            made: [(16403, 4)].into(),
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
            (16400, "shop", None, [true, false]),
            (16401, "shop", None, [false, false]),
            (16402, "old", None, [false, false]),
            (16403, "made", Some(16402), [false, false]),
            // They may have been renamed before the end as well.
            (16405, "late", None, [false, true]),
            (16406, "gone_later", None, [false, true]),
        ];
        let expected = expected.map(|(oid, name, copied_from, is)| DatabaseRecord {
            oid,
            name: name.to_owned(),
            copied_from,
            dropped: is[0],
            name_unknown: is[1],
        });
        assert_eq!(records, expected);
        let json = serde_json::to_string(&records[2..4]).expect("text");
        assert_eq!(
            json,
            r#"[{"oid":16402,"name":"old"},{"oid":16403,"name":"made","copied_from":16402}]"#
        );
        let json = serde_json::to_string(&records[4]).expect("text");
        assert_eq!(json, r#"{"oid":16405,"name":"late","name_unknown":true}"#);
    }

    /// The numbers of databases whose names nobody knows.
    fn unknown(databases: &Databases, wal: &SeenInWal) -> Vec<u32> {
        let records = databases.records(wal).into_iter();
        let unknown = records.filter(|record| record.name_unknown);
        unknown.map(|record| record.oid).collect()
    }

    #[test]
    fn a_name_is_unknown_where_no_commit_tells_since_when_a_database_has_it() {
        let wal = |committed: &[u32]| SeenInWal {
            committed: committed.iter().copied().collect(),
            ..SeenInWal::default()
        };
        // Two have each other's names, since before the backup, or since after its end.
        let next = |row_version| (16401, "next", row_version);
        let swapped = [(16400, "next", "9"), (16401, "shop", "9")];
        let databases = Databases::of(&[SHOP, next("701")], &swapped);
        assert_eq!(unknown(&databases, &wal(&[])), [16400, 16401]);
        assert!(unknown(&databases, &wal(&[9])).is_empty());
        // The row was written, and the name is the same.
        let mut databases = Databases::of(&[SHOP], &[(16400, "shop", "9")]);
        assert!(unknown(&databases, &wal(&[])).is_empty());
        databases.before.clear();
        assert_eq!(unknown(&databases, &wal(&[])), [16400]);
        // What a standby lists when the backup has begun may be later than its end.
        let mut databases = Databases::of(&[SHOP], &[(16400, "later", "9")]);
        databases.begun = databases.after.clone();
        assert!(unknown(&databases, &wal(&[])).is_empty());
        let databases = databases.of_origin(true, true);
        assert_eq!(databases.writers(), [9].into());
        assert_eq!(unknown(&databases, &wal(&[])), [16400]);
        assert!(unknown(&databases, &wal(&[9])).is_empty());
    }

    #[test]
    fn a_name_is_unknown_where_a_transaction_that_runs_has_written_it() {
        let mut databases = Databases::of(&[SHOP], &[SHOP]);
        databases.oldest_running = u32::MAX - 1;
        let written_by = |mut databases: Databases, writers: &[u32]| {
            let after = databases.after.get_mut(&16400).expect("there");
            after.next_writers = writers.iter().copied().collect();
            let records = databases.unchanged();
            assert_eq!(records, databases.records(&SeenInWal::default()));
            records[0].name_unknown
        };
        assert!(written_by(databases.clone(), &[u32::MAX - 1]));
        // A subtransaction, or one that has begun since: the numbers have gone round.
        assert!(written_by(databases.clone(), &[u32::MAX]));
        assert!(written_by(databases.clone(), &[3]));
        // It was aborted.
        assert!(!written_by(databases.clone(), &[u32::MAX - 2]));
        // A multixact of one that was aborted, and one that runs.
        assert!(written_by(databases.clone(), &[u32::MAX - 3, u32::MAX]));
        assert!(!written_by(databases, &[]));
    }

    #[test]
    fn a_database_that_is_made_meanwhile_has_the_name_that_its_maker_gave() {
        let wal = |committed: &[u32]| SeenInWal {
            made: [(16400, 700)].into(),
            committed: committed.iter().copied().collect(),
            ..SeenInWal::default()
        };
        let made = Databases::of(&[], &[SHOP]);
        assert!(unknown(&made, &wal(&[])).is_empty());
        assert!(unknown(&made, &wal(&[700])).is_empty());
        let renamed = Databases::of(&[], &[(16400, "renamed", "9")]);
        assert_eq!(unknown(&renamed, &wal(&[700])), [16400]);
        assert!(unknown(&renamed, &wal(&[700, 9])).is_empty());
        assert!(renamed.records(&SeenInWal::default()).is_empty());
    }
}
