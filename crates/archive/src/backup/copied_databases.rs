//! Whether the replay of a backup copies databases as the server has copied them.
//!
//! `CREATE DATABASE` with `STRATEGY file_copy`, which is the only one up to 14, and `ALTER DATABASE ... SET
//! TABLESPACE` copy a directory and write one record for all of it. The replay copies the directory once more: what
//! the backup has of it, as far as the replay has come. The backup may have files of it that were changed after the
//! record, or none, since they were dropped. The restored copy is then damaged or empty, and nobody notices.
//! docs/decisions/2026-11-30-databases-made-while-a-backup-runs.md has the reasons.
//!
//! So the WAL of such a backup is read. After the record, nothing in it may change the directory that was copied, as
//! long as its copy is there. A drop removes files before it writes its record: so nobody may be dropping that
//! directory when the backup ends, either. Where the row of a database does not tell that it is being dropped, nobody
//! may be dropping it at all: a restore would have it without its files. Which database was copied from which is noted
//! in the backup: a restore of the copy alone needs both. The same WAL says which databases there were when the backup
//! ended, and which relations are unlogged.

mod search;

use std::collections::BTreeSet;

use walzip_pgformat::Lsn;
use walzip_pgformat::wal::{DatabaseDirectory, DirectoryCopy, UnbrokenRecords};
use walzip_repo::Repository;

use self::search::{Found, Search};
use crate::archived::wal_times::read_segment;
use crate::backup::databases::Databases;
use crate::backups::backup_record::{BackupRecord, DatabaseRecord};
use crate::backups::unlogged::UnloggedRelation;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// What the WAL of a backup is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    databases: Databases,
    /// Databases of which the copy has files.
    present: BTreeSet<u32>,
    /// What was made from here on is not in question: nothing has changed since the first list.
    made_before: Option<Lsn>,
}

/// What the WAL has answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The databases that there were when the backup ended, each with the one whose directory the replay copies to
    /// make it.
    pub(crate) databases: Vec<DatabaseRecord>,
    /// Relations whose initial fork the replay makes.
    pub(crate) unlogged: BTreeSet<UnloggedRelation>,
}

impl Question {
    /// What is to be asked of a backup that ends at `stop`, and has files of the databases `present`; nothing where no
    /// database can have been copied, and all are what they were.
    ///
    /// A primary's backup begins after the first list was made. A standby's begins with a checkpoint of before:
    /// `replayed` is how far it had come when the first list was made.
    pub(crate) fn of(
        (databases, present): (&Databases, BTreeSet<u32>),
        stop: Lsn,
        (is_standby, replayed): (bool, Option<Lsn>),
    ) -> Option<Question> {
        let may_differ = databases.have_changed() || !databases.being_dropped().is_empty();
        let made_before = match (may_differ, is_standby) {
            (true, _) => None,
            (false, true) => Some(replayed.unwrap_or(stop)),
            (false, false) => return None,
        };
        Some(Question {
            databases: databases.clone(),
            present,
            made_before,
        })
    }

    /// Reads the archived WAL of a backup, and refuses the backup if its replay would copy something else than the
    /// server did.
    pub(crate) async fn answer(
        self,
        repository: &Repository,
        record: &BackupRecord,
    ) -> Result<Answer, ArchiveError> {
        let (start, stop) = (record.start.lsn, record.stop.lsn);
        let announced = record.tablespaces.iter().map(|tablespace| tablespace.oid);
        let label = &record.label;
        tracing::info!("the WAL of backup {label} is searched for databases that were copied");
        let search = Search::new(announced, self.databases.writers());
        let mut reading = (UnbrokenRecords::new(start, stop), search);
        for segment in record.required_segments()? {
            // One at a time: each may have a gigabyte.
            let content = read_segment(repository, segment).await?;
            let read = off_the_runtime(move || {
                let (mut records, mut search) = reading;
                let read = records.read(&content, |record| search.look_at(&record));
                read.map(|()| (records, search))
            });
            reading = read.await.map_err(|error| unreadable(label, &error))?;
            let (records, search) = &reading;
            if let Some(found) = &search.found {
                return Err(found.refusal(&self.databases));
            }
            let is_read = self.made_before.is_some_and(|end| records.reached() >= end);
            if is_read && search.copied.is_empty() {
                return Ok(Answer {
                    databases: self.databases.unchanged(),
                    unlogged: search.unlogged.clone(),
                });
            }
        }
        let (records, search) = reading;
        records
            .finish()
            .map_err(|error| unreadable(label, &error))?;
        let found = search
            .finding()
            .or_else(|| self.unfinished(&search))
            .or_else(|| self.half_dropped(&search));
        match found {
            Some(found) => Err(found.refusal(&self.databases)),
            None => Ok(Answer {
                unlogged: search.unlogged.clone(),
                databases: self.databases.records(&search.seen()),
            }),
        }
    }

    /// A copy that is there, and files of whose source may have been removed before the backup has read them, though
    /// no record says so yet. The source of a move goes as soon as the move is done.
    fn unfinished(&self, search: &Search) -> Option<Found> {
        let is_whole = |from: u32| {
            let is_present = self.present.contains(&from) || search.made.contains_key(&from);
            is_present && !self.databases.may_lack_files(from)
        };
        let copies = search.copies.iter();
        let mut copies = copies.map(|(&to, &from)| DirectoryCopy { to, from });
        let unfinished = copies.find(|DirectoryCopy { to, from }| {
            to.database == from.database || !is_whole(from.database)
        });
        unfinished.map(Found::Changed)
    }

    /// A database that a restore could have without its files, since neither its row nor the WAL tells of a drop.
    fn half_dropped(&self, search: &Search) -> Option<Found> {
        let is_told = |directory: &DatabaseDirectory| {
            search.dropped.contains(directory) || search.made.contains_key(&directory.database)
        };
        let mut being_dropped = self.databases.being_dropped().into_iter();
        let untold = being_dropped.find(|directory| !is_told(directory))?;
        Some(Found::Dropping(untold.database))
    }
}

fn unreadable(label: &str, error: &dyn std::error::Error) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("the WAL of backup {label}"),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::search::tests::{NEW, TEMPLATE, copy, dropped, record, searched};
    use super::*;
    use walzip_pgformat::rmgr_id;

    #[test]
    fn a_source_of_which_files_may_be_gone_makes_no_backup() {
        let both = [(16399, "tpl", "1"), (16400, "dn", "2")];
        let lists = |after: &[_]| Databases::of(&both[..1], after);
        let unfinished = |databases: Databases, present: &[u32], records: &[Vec<u8>]| {
            let present = present.iter().copied().collect();
            let stop = (Lsn(900), (false, None));
            let question = Question::of((&databases, present), stop.0, stop.1).expect("asked");
            let found = question.unfinished(&searched(records));
            found.map(|found| found.refusal(&databases).to_string())
        };
        let copied = [copy([NEW, TEMPLATE])];
        assert_eq!(unfinished(lists(&both), &[16399], &copied), None);
        for (databases, present) in [
            (lists(&both[1..]), &[16399][..]),
            (lists(&both).dropping(16399, true), &[16399]),
            (lists(&both).dropping(16399, false), &[16399]),
            (lists(&both), &[16400]),
        ] {
            let said = unfinished(databases.clone(), present, &copied);
            let said = said.expect("a reason");
            assert!(said.contains("as a copy of \"tpl\""), "{said}");
            // What is made of it is gone, or it was never copied.
            let gone = [copied[0].clone(), dropped(NEW)];
            assert_eq!(unfinished(databases, present, &gone), None);
        }
        // Who has made it is in the WAL.
        let source = record(rmgr_id::DATABASE, 0x10, None, &[16399, 1663]);
        let records = [source, copied[0].clone()];
        assert_eq!(unfinished(lists(&both), &[], &records), None);
        let moved = [copy([[16391, 16400], NEW])];
        let said = unfinished(lists(&both), &[16400], &moved).expect("a reason");
        assert!(said.contains("\"dn\" was moved"), "{said}");
    }

    #[test]
    fn a_database_that_is_being_dropped_makes_no_backup_where_nothing_tells() {
        let both = [(16399, "tpl", "1"), (16400, "dn", "2")];
        let question = |databases: Databases| {
            let stop = (Lsn(900), (true, Some(Lsn(1))));
            let question = Question::of((&databases, BTreeSet::new()), stop.0, stop.1);
            question.expect("asked of a standby")
        };
        let standby = |after: &[_]| Databases::of(&both, after).of_origin(true, true);
        let half_dropped = |databases: Databases, records: &[Vec<u8>]| {
            let found = question(databases.clone()).half_dropped(&searched(records));
            found.map(|found| found.refusal(&databases).to_string())
        };
        assert_eq!(half_dropped(standby(&both), &[]), None);
        for databases in [
            standby(&both[..1]),
            standby(&both).dropping(16400, true),
            standby(&both).dropping(16400, false),
        ] {
            // All of the WAL is read.
            assert_eq!(question(databases.clone()).made_before, None);
            let said = half_dropped(databases.clone(), &[dropped(TEMPLATE)]).expect("a reason");
            assert!(said.contains("\"dn\" was being dropped"), "{said}");
            assert_eq!(half_dropped(databases.clone(), &[dropped(NEW)]), None);
            let made = record(rmgr_id::DATABASE, 0x10, None, &[16400, 1663]);
            assert_eq!(half_dropped(databases, &[made]), None);
        }
        // A primary that marks nothing: its lists are the same.
        let primary = Databases::of(&both, &both).dropping(16400, false);
        let asked = |databases: &Databases| {
            Question::of((databases, BTreeSet::new()), Lsn(900), (false, None)).is_some()
        };
        assert!(!asked(&primary));
        let unmarked = primary.of_origin(false, false);
        assert!(asked(&unmarked));
        let said = half_dropped(unmarked.clone(), &[]).expect("a reason");
        assert!(said.contains("\"dn\" was being dropped"), "{said}");
        assert_eq!(half_dropped(unmarked, &[dropped(NEW)]), None);
    }

    #[test]
    fn the_wal_is_read_where_databases_may_have_been_copied() {
        let same = Databases::of(&[(5, "postgres", "1")], &[(5, "postgres", "1")]);
        let other = Databases::of(&[(5, "postgres", "1")], &[(5, "postgres", "2")]);
        let asked = |databases, of| {
            let question = Question::of((databases, BTreeSet::new()), Lsn(900), of);
            question.map(|question| question.made_before.map(|end| end.0))
        };
        assert_eq!(asked(&same, (false, None)), None);
        assert_eq!(asked(&other, (false, None)), Some(None));
        assert_eq!(asked(&same, (true, Some(Lsn(300)))), Some(Some(300)));
        assert_eq!(asked(&same, (true, None)), Some(Some(900)));
        assert_eq!(asked(&other, (true, Some(Lsn(300)))), Some(None));
    }
}
