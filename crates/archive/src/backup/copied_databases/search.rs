//! What the WAL of a backup says of directories of databases: which are copied, changed, made and dropped.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::opcode::tablespace;
use walzip_pgformat::rmgr_id;
use walzip_pgformat::wal::{
    DatabaseDirectory, DirectoryCopy, ReadRecord, changed_directories, committed_transactions,
    dropped_directories, made_directory, made_initial_fork,
};

use crate::backup::databases::{self, Databases, SeenInWal};
use crate::backups::unlogged::UnloggedRelation;
use crate::error::ArchiveError;

/// A server has no more templates than this. More copied directories are not remembered.
const COPIED_MAX: usize = 1 << 16;
/// The bits of a record's info that belong to its resource manager.
const OPCODE_MASK: u8 = 0xF0;

/// Looks for a directory that is changed after it was copied.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The tablespaces that are in the backup.
    announced: BTreeSet<u32>,
    /// Directories that were copied, each with those of its copies that are still there.
    pub(super) copied: BTreeMap<DatabaseDirectory, BTreeSet<DatabaseDirectory>>,
    /// These copies, each with what it was copied from.
    pub(super) copies: BTreeMap<DatabaseDirectory, DatabaseDirectory>,
    /// Those of these copies that the replay would make otherwise.
    damaged: BTreeSet<DatabaseDirectory>,
    /// Databases that were made, in either way, and are still there, each with the transaction that has made it.
    pub(super) made: BTreeMap<u32, u32>,
    /// Directories of databases that were removed, and not made again.
    pub(super) dropped: BTreeSet<DatabaseDirectory>,
    /// The transactions that are looked for, and those of them that were committed.
    writers: BTreeSet<u32>,
    committed: BTreeSet<u32>,
    /// Relations whose initial fork was made.
    pub(super) unlogged: BTreeSet<UnloggedRelation>,
    /// What ends the search.
    pub(super) found: Option<Found>,
}

/// Why a backup is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A directory was changed after it was copied, or may be.
    Changed(DirectoryCopy),
    /// A database was being dropped when the backup ended.
    Dropping(u32),
    /// The replay makes a tablespace that is in the backup.
    Made(u32),
    /// More than can be remembered.
    TooMany,
}

impl Search {
    pub(super) fn new(announced: impl Iterator<Item = u32>, writers: BTreeSet<u32>) -> Search {
        Search {
            announced: announced.collect(),
            writers,
            ..Search::default()
        }
    }

    pub(super) fn look_at(&mut self, record: &ReadRecord<'_>) {
        if self.found.is_some() {
            return;
        }
        if !self.copied.is_empty() {
            self.note_changes(record);
        }
        self.note_databases(record);
        if let Some(locator) = made_initial_fork(record.bytes, record.layout) {
            self.unlogged.insert(UnloggedRelation {
                tablespace: locator.tablespace,
                database: locator.database,
                relation: locator.relation,
            });
        }
        if let Some(copy) = DirectoryCopy::read(record.bytes, record.layout) {
            self.note_copy(copy);
        }
        if let Some(oid) = made_tablespace(record).filter(|oid| self.announced.contains(oid)) {
            self.found = Some(Found::Made(oid));
        }
    }

    /// A drop changes its directory too: of what was copied on from that, the replay may find less.
    fn note_changes(&mut self, record: &ReadRecord<'_>) {
        let (bytes, layout, version) = (record.bytes, record.layout, record.version);
        changed_directories(bytes, layout, version, |from| {
            if let Some(copies) = self.copied.get(&from) {
                self.damaged.extend(copies);
            }
        });
    }

    /// What is made and what goes, and which transactions were committed.
    fn note_databases(&mut self, record: &ReadRecord<'_>) {
        let (bytes, layout, version) = (record.bytes, record.layout, record.version);
        committed_transactions(bytes, layout, version, |xid| {
            if self.writers.contains(&xid) {
                self.committed.insert(xid);
            }
        });
        dropped_directories(bytes, layout, version, |directory| {
            self.forget(directory);
            self.dropped.insert(directory);
            // What is left of one that was moved is dropped too.
            let mut copies = self.copies.keys();
            if !copies.any(|copy| copy.database == directory.database) {
                self.made.remove(&directory.database);
            }
        });
        if let Some(made) = made_directory(bytes, layout, version) {
            self.dropped.remove(&made);
            self.made.insert(made.database, layout.header.xid);
        }
    }

    /// The replay removes what is in the place of the copy.
    fn note_copy(&mut self, copy: DirectoryCopy) {
        self.forget(copy.to);
        self.copies.insert(copy.to, copy.from);
        self.copied.entry(copy.from).or_default().insert(copy.to);
        if self.copies.len() > COPIED_MAX {
            self.found = Some(Found::TooMany);
        }
    }

    /// A copy that is gone is not restored, however the replay has made it.
    fn forget(&mut self, copy: DatabaseDirectory) {
        self.damaged.remove(&copy);
        let Some(from) = self.copies.remove(&copy) else {
            return;
        };
        let is_last = self.copied.get_mut(&from).is_some_and(|copies| {
            copies.remove(&copy);
            copies.is_empty()
        });
        if is_last {
            self.copied.remove(&from);
        }
    }

    /// Why the backup is none.
    pub(super) fn finding(&self) -> Option<Found> {
        let mut damaged = self.damaged.iter();
        let changed = damaged.find_map(|&to| {
            let from = *self.copies.get(&to)?;
            Some(Found::Changed(DirectoryCopy { to, from }))
        });
        self.found.or(changed)
    }

    /// What there is to say of databases.
    pub(super) fn seen(self) -> SeenInWal {
        SeenInWal {
            sources: self.sources(),
            made: self.made,
            dropped: self.dropped,
            committed: self.committed,
        }
    }

    /// The databases that are copies of others, each with the one that it was copied from.
    fn sources(&self) -> BTreeMap<u32, u32> {
        let copies = self.copies.iter();
        let databases = copies.map(|(to, from)| (to.database, from.database));
        databases.filter(|(to, from)| to != from).collect()
    }
}

/// The tablespace that a record makes.
fn made_tablespace(record: &ReadRecord<'_>) -> Option<u32> {
    let header = &record.layout.header;
    let is_made =
        header.rmid == rmgr_id::TABLESPACE && header.info & OPCODE_MASK == tablespace::CREATE;
    let main = record.bytes.get(record.layout.main_start..)?;
    let oid = main.first_chunk::<4>().filter(|_| is_made)?;
    Some(u32::from_le_bytes(*oid))
}

impl Found {
    pub(super) fn refusal(self, databases: &Databases) -> ArchiveError {
        let copy = match self {
            Found::Changed(copy) => copy,
            Found::Dropping(oid) => return databases::half_dropped(&databases.shown(oid)),
            Found::Made(oid) => {
                return ArchiveError::Request(format!(
                    "tablespace {oid} was made after the checkpoint with which the backup begins: a restore could not \
                     move it. Take the backup again after the standby's next checkpoint"
                ));
            }
            Found::TooMany => {
                return ArchiveError::Request(format!(
                    "more than {COPIED_MAX} databases were copied while the backup ran: take the backup again"
                ));
            }
        };
        let new = databases.shown(copy.to.database);
        if copy.to.database == copy.from.database {
            return databases::moved(&new);
        }
        let template = databases.shown(copy.from.database);
        ArchiveError::Request(format!(
            "database {new} was made as a copy of {template} while the backup ran, and {template} was changed or \
             dropped after that: a restore could have {new} damaged. Take the backup again"
        ))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use walzip_pgformat::Lsn;
    use walzip_pgformat::version::Version;
    use walzip_pgformat::wal::{RECORD_HEADER_LEN, RecordHeader, RecordLayout};

    /// A record of 15 with a block of a relation, or with main data.
    pub(crate) fn record(rmid: u8, info: u8, block: Option<[u32; 2]>, main: &[u32]) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[16] = info;
        record[17] = rmid;
        if let Some([tablespace, database]) = block {
            record.extend([0; 4]);
            for field in [tablespace, database, 16384, 0] {
                record.extend(field.to_le_bytes());
            }
        }
        if !main.is_empty() {
            record.extend([255, 4 * main.len() as u8]);
            record.extend(main.iter().flat_map(|field| field.to_le_bytes()));
        }
        let len = record.len() as u32;
        record[0..4].copy_from_slice(&len.to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    pub(crate) fn copy([to, from]: [[u32; 2]; 2]) -> Vec<u8> {
        let main = [to[1], to[0], from[1], from[0]];
        record(rmgr_id::DATABASE, 0x00, None, &main)
    }

    fn change(of: [u32; 2]) -> Vec<u8> {
        record(rmgr_id::HEAP, 0x00, Some(of), &[])
    }

    pub(crate) fn dropped([tablespace, database]: [u32; 2]) -> Vec<u8> {
        record(rmgr_id::DATABASE, 0x20, None, &[database, 1, tablespace])
    }

    fn found(records: &[Vec<u8>]) -> Option<Found> {
        searched(records).finding()
    }

    pub(crate) fn searched(records: &[Vec<u8>]) -> Search {
        let version = Version::from_major(15).expect("supported");
        let mut search = Search::new([16390].into_iter(), [700, 701].into());
        let mut layout = RecordLayout::default();
        for bytes in records {
            layout.read(bytes, version).expect("a record");
            search.look_at(&ReadRecord {
                lsn: Lsn(0),
                version,
                bytes,
                layout: &layout,
            });
        }
        search
    }

    pub(crate) const NEW: [u32; 2] = [1663, 16400];
    pub(crate) const TEMPLATE: [u32; 2] = [1663, 16399];
    const OTHER: [u32; 2] = [1663, 5];

    #[test]
    fn a_template_that_is_changed_or_dropped_after_the_copy_is_found() {
        let copied = copy([NEW, TEMPLATE]);
        for after in [change(TEMPLATE), dropped(TEMPLATE)] {
            let found = found(&[copied.clone(), change(OTHER), after]).expect("found");
            let databases = Databases::of(&[(16399, "tpl", "1")], &[(16400, "dn", "2")]);
            let said = found.refusal(&databases).to_string();
            assert!(
                said.contains("\"dn\" was made as a copy of \"tpl\""),
                "{said}"
            );
        }
    }

    #[test]
    fn a_move_is_found_by_the_drop_of_its_source() {
        let there = [16391, 16400];
        let found = found(&[copy([there, NEW]), dropped(NEW)]).expect("found");
        let databases = Databases::of(&[], &[(16400, "shop", "2")]);
        let said = found.refusal(&databases).to_string();
        assert!(said.contains("database \"shop\" was moved"), "{said}");
    }

    #[test]
    fn what_was_changed_before_and_elsewhere_is_harmless() {
        let copied = copy([NEW, TEMPLATE]);
        assert_eq!(
            found(&[change(TEMPLATE), copied.clone(), change(NEW), change(OTHER)]),
            None
        );
        // In another tablespace the template has another directory.
        assert_eq!(found(&[copied.clone(), change([16391, 16399])]), None);
        assert_eq!(found(&[copied, dropped(NEW)]), None);
        assert_eq!(found(&[dropped(TEMPLATE), change(TEMPLATE)]), None);
    }

    #[test]
    fn a_copy_that_was_dropped_is_no_reason_unless_it_was_copied_on() {
        let next = [1663, 16401];
        let (first, second) = (copy([NEW, TEMPLATE]), copy([next, TEMPLATE]));
        let gone = [first.clone(), change(TEMPLATE), dropped(NEW)];
        assert_eq!(found(&gone), None);
        assert_eq!(
            found(&[first.clone(), dropped(NEW), change(TEMPLATE)]),
            None
        );
        let both = [first.clone(), second, change(TEMPLATE), dropped(NEW)];
        let Some(Found::Changed(kept)) = found(&both) else {
            panic!("the other copy is there");
        };
        assert_eq!(kept.to.database, 16401);
        let on = [
            first,
            copy([next, NEW]),
            change(TEMPLATE),
            dropped(NEW),
            change(OTHER),
        ];
        let Some(Found::Changed(kept)) = found(&on) else {
            panic!("the copy of the copy is there");
        };
        assert_eq!((kept.to.database, kept.from.database), (16401, 16400));
        assert_eq!(found(&[&on[..], &[dropped(next)]].concat()), None);
        let back = [
            copy([[16391, 16400], NEW]),
            dropped(NEW),
            copy([NEW, [16391, 16400]]),
            dropped([16391, 16400]),
        ];
        assert!(found(&back).is_some(), "moved there and back");
    }

    #[test]
    fn what_was_copied_from_another_database_is_noted_while_it_is_there() {
        let next = [1663, 16401];
        let moved = copy([[16391, 16402], [1663, 16402]]);
        let records = [
            copy([NEW, TEMPLATE]),
            copy([next, NEW]),
            copy([[1663, 16403], TEMPLATE]),
            dropped([1663, 16403]),
            moved,
        ];
        let expected = BTreeMap::from([(16400, 16399), (16401, 16400)]);
        assert_eq!(searched(&records).sources(), expected);
    }

    #[test]
    fn a_tablespace_is_found_that_is_in_the_backup_and_made_again() {
        let made = |oid| record(rmgr_id::TABLESPACE, 0x00, None, &[oid, 0]);
        assert_eq!(found(&[made(16390)]), Some(Found::Made(16390)));
        assert_eq!(found(&[made(16391)]), None);
    }

    fn written_by(xid: u32, mut record: Vec<u8>) -> Vec<u8> {
        record[4..8].copy_from_slice(&xid.to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    #[test]
    fn what_is_made_and_dropped_and_who_has_committed_is_noted() {
        let by_wal = written_by(699, record(rmgr_id::DATABASE, 0x10, None, &[16401, 1663]));
        let records = [
            copy([NEW, TEMPLATE]),
            by_wal.clone(),
            dropped([1663, 16402]),
            written_by(702, change(OTHER)),
            written_by(701, record(rmgr_id::XACT, 0x00, None, &[0, 0])),
            written_by(703, record(rmgr_id::XACT, 0x00, None, &[0, 0])),
        ];
        let seen = searched(&records).seen();
        assert_eq!(seen.made, [(16400, 0), (16401, 699)].into());
        let [tablespace, database] = [1663, 16402];
        let gone = DatabaseDirectory {
            tablespace,
            database,
        };
        assert_eq!(seen.dropped, [gone].into());
        assert_eq!(seen.committed, [701].into());
        let seen = searched(&[by_wal.clone(), dropped([1663, 16401])]).seen();
        assert!(seen.made.is_empty());
        let seen = searched(&[dropped([1663, 16401]), by_wal]).seen();
        assert!(seen.dropped.is_empty());
    }

    #[test]
    fn relations_whose_initial_fork_is_made_are_noted() {
        let made = |fork| record(rmgr_id::STORAGE, 0x10, None, &[1663, 5, 16384 + fork, fork]);
        let unlogged = searched(&[made(0), made(3)]).unlogged;
        let [tablespace, database] = OTHER;
        let expected = UnloggedRelation {
            tablespace,
            database,
            relation: 16387,
        };
        assert_eq!(unlogged, [expected].into());
    }
}
