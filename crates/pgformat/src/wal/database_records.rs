//! What a record does to the directories of databases: one is copied to make another, or its files are changed.
//!
//! ```text
//! copy of a directory   database u32, tablespace u32, of the copy; the same of the source
//! creation by WAL       database u32, tablespace u32                      (15 and later)
//! drop                  database u32, number of tablespaces u32, tablespaces u32 each
//! file creation         tablespace u32, database u32, relation u32, fork u32
//! file truncation       block u32, tablespace u32, database u32, relation u32, flags u32
//! relation map          database u32, tablespace u32, and more
//! end of a transaction  time u64, [flags u32, [database u32, tablespace u32],
//!                       [number u32, subtransactions u32 each],
//!                       [number u32, relations whose files go, 3 u32 each]], and more, at last
//!                       [prepared transaction u32]]
//! ```
//! (commands/dbcommands_xlog.h, catalog/storage_xlog.h, utils/relmapper.h, access/xact.h; 13 to 18)

use super::record::{RecordLayout, RelFileLocator};
use super::timed_record::prepared_xid;
use crate::bytes::read_u32;
use crate::opcode::{database, storage, xact};
use crate::rmgr_id;
use crate::version::Version;

/// The bits of a record's info that belong to its resource manager.
const OPCODE_MASK: u8 = 0xF0;
/// Those of the end of a transaction (`XLOG_XACT_OPMASK`), and that flags follow the time (`XLOG_XACT_HAS_INFO`).
const XACT_OPCODE_MASK: u8 = 0x70;
const XACT_HAS_FLAGS: u8 = 0x80;
/// `XACT_XINFO_HAS_DBINFO`, `XACT_XINFO_HAS_SUBXACTS` and `XACT_XINFO_HAS_RELFILELOCATORS`.
const HAS_DATABASE: u32 = 1;
const HAS_SUBTRANSACTIONS: u32 = 1 << 1;
const HAS_RELATIONS: u32 = 1 << 2;
/// `INIT_FORKNUM`
const INIT_FORK: u32 = 3;

/// The directory that a database has in a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseDirectory {
    /// The OID of the tablespace.
    pub tablespace: u32,
    /// The OID of the database.
    pub database: u32,
}

/// A directory that is made as a copy of another one, file by file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryCopy {
    /// The new directory.
    pub to: DatabaseDirectory,
    /// What it is copied from.
    pub from: DatabaseDirectory,
}

impl DirectoryCopy {
    /// The copy that a record makes; nothing for any other record. `record` are the bytes that `layout` was read
    /// from.
    pub fn read(record: &[u8], layout: &RecordLayout) -> Option<DirectoryCopy> {
        let is_copy = layout.header.rmid == rmgr_id::DATABASE
            && layout.header.info & OPCODE_MASK == database::CREATE_FILE_COPY;
        let main = is_copy.then(|| main_data(record, layout))??;
        Some(DirectoryCopy {
            to: directory_at(main, 0)?,
            from: directory_at(main, 8)?,
        })
    }
}

/// Names the directories in which a record changes files, some of them more than once. `record` are the bytes that
/// `layout` was read from.
pub fn changed_directories(
    record: &[u8],
    layout: &RecordLayout,
    version: &Version,
    mut each: impl FnMut(DatabaseDirectory),
) {
    for block in &layout.blocks {
        each(directory_of(block.locator));
    }
    let Some(main) = main_data(record, layout) else {
        return;
    };
    let info = layout.header.info;
    match layout.header.rmid {
        rmgr_id::DATABASE => of_database(main, info & OPCODE_MASK, version, each),
        rmgr_id::STORAGE => {
            let at = match info & OPCODE_MASK {
                storage::CREATE => 0,
                storage::TRUNCATE => 4,
                _ => return,
            };
            if let Some(locator) = locator_at(main, at) {
                each(directory_of(locator));
            }
        }
        rmgr_id::RELMAP => {
            if let Some(directory) = directory_at(main, 0) {
                each(directory);
            }
        }
        rmgr_id::XACT if ends_transaction(info) && info & XACT_HAS_FLAGS != 0 => {
            of_removed_relations(main, each);
        }
        _ => {}
    }
}

/// Names the directories that a record removes as a whole. `record` are the bytes that `layout` was read from.
pub fn dropped_directories(
    record: &[u8],
    layout: &RecordLayout,
    version: &Version,
    each: impl FnMut(DatabaseDirectory),
) {
    let is_drop = layout.header.rmid == rmgr_id::DATABASE
        && layout.header.info & OPCODE_MASK == database::drop_opcode(version.major);
    if let Some(main) = main_data(record, layout).filter(|_| is_drop) {
        of_drop(main, each);
    }
}

/// The directory of a database that a record makes, as a copy or by the records after it; nothing for any other
/// record. `record` are the bytes that `layout` was read from.
pub fn made_directory(
    record: &[u8],
    layout: &RecordLayout,
    version: &Version,
) -> Option<DatabaseDirectory> {
    let opcode = layout.header.info & OPCODE_MASK;
    let is_made = layout.header.rmid == rmgr_id::DATABASE
        && (opcode == database::CREATE_FILE_COPY
            || Some(opcode) == database::create_wal_log_opcode(version.major));
    let main = main_data(record, layout).filter(|_| is_made)?;
    directory_at(main, 0)
}

/// The relation whose initial fork a record makes: it is unlogged. Nothing for any other record. `record` are the
/// bytes that `layout` was read from.
pub fn made_initial_fork(record: &[u8], layout: &RecordLayout) -> Option<RelFileLocator> {
    let is_creation = layout.header.rmid == rmgr_id::STORAGE
        && layout.header.info & OPCODE_MASK == storage::CREATE;
    let main = main_data(record, layout).filter(|_| is_creation)?;
    let is_initial = read_u32(main, 12)? == INIT_FORK;
    locator_at(main, 0).filter(|_| is_initial)
}

/// Names the transactions that a record commits, subtransactions included. The record of one that was prepared is
/// written by another transaction, and names it. `record` are the bytes that `layout` was read from.
pub fn committed_transactions(
    record: &[u8],
    layout: &RecordLayout,
    version: &Version,
    mut each: impl FnMut(u32),
) {
    let info = layout.header.info;
    let Some(main) = main_data(record, layout).filter(|_| layout.header.rmid == rmgr_id::XACT)
    else {
        return;
    };
    let top_level = match info & XACT_OPCODE_MASK {
        xact::COMMIT => Some(layout.header.xid),
        xact::COMMIT_PREPARED => prepared_xid(main, info, version.major),
        _ => None,
    };
    let Some(top_level) = top_level else {
        return;
    };
    each(top_level);
    if info & XACT_HAS_FLAGS == 0 {
        return;
    }
    if let Some((at, number)) = subtransactions(main) {
        let list = main.get(at..).unwrap_or_default();
        for subtransaction in list.as_chunks::<4>().0.iter().take(number as usize) {
            each(u32::from_le_bytes(*subtransaction));
        }
    }
}

/// Those of a database as a whole.
fn of_database(
    main: &[u8],
    opcode: u8,
    version: &Version,
    mut each: impl FnMut(DatabaseDirectory),
) {
    if opcode == database::drop_opcode(version.major) {
        of_drop(main, each);
    } else if let Some(directory) = directory_at(main, 0) {
        each(directory);
    }
}

/// Those that a drop names.
fn of_drop(main: &[u8], mut each: impl FnMut(DatabaseDirectory)) {
    let Some((database, tablespaces)) = read_u32(main, 0).zip(main.get(8..)) else {
        return;
    };
    let said = read_u32(main, 4).unwrap_or_default() as usize;
    for tablespace in tablespaces.as_chunks::<4>().0.iter().take(said) {
        each(DatabaseDirectory {
            tablespace: u32::from_le_bytes(*tablespace),
            database,
        });
    }
}

/// Where the end of a transaction names subtransactions, and how many.
fn subtransactions(main: &[u8]) -> Option<(usize, u32)> {
    let flags = read_u32(main, 8)?;
    let at = if flags & HAS_DATABASE == 0 { 12 } else { 20 };
    match flags & HAS_SUBTRANSACTIONS {
        0 => Some((at, 0)),
        _ => Some((at + 4, read_u32(main, at)?)),
    }
}

/// Those in which the end of a transaction removes files.
fn of_removed_relations(main: &[u8], mut each: impl FnMut(DatabaseDirectory)) {
    let Some((at, number)) = subtransactions(main) else {
        return;
    };
    let at = at.saturating_add((number as usize).saturating_mul(4));
    if read_u32(main, 8).unwrap_or_default() & HAS_RELATIONS == 0 {
        return;
    }
    let Some((number, relations)) = read_u32(main, at).zip(main.get(at.saturating_add(4)..)) else {
        return;
    };
    for relation in relations.as_chunks::<12>().0.iter().take(number as usize) {
        if let Some(locator) = locator_at(relation, 0) {
            each(directory_of(locator));
        }
    }
}

fn ends_transaction(info: u8) -> bool {
    let ends = [
        xact::COMMIT,
        xact::ABORT,
        xact::COMMIT_PREPARED,
        xact::ABORT_PREPARED,
    ];
    ends.contains(&(info & XACT_OPCODE_MASK))
}

fn main_data<'r>(record: &'r [u8], layout: &RecordLayout) -> Option<&'r [u8]> {
    let end = layout.main_start.checked_add(layout.main_len)?;
    record.get(layout.main_start..end)
}

/// A database and its tablespace.
fn directory_at(main: &[u8], at: usize) -> Option<DatabaseDirectory> {
    Some(DatabaseDirectory {
        database: read_u32(main, at)?,
        tablespace: read_u32(main, at.checked_add(4)?)?,
    })
}

fn locator_at(bytes: &[u8], at: usize) -> Option<RelFileLocator> {
    Some(RelFileLocator {
        tablespace: read_u32(bytes, at)?,
        database: read_u32(bytes, at.checked_add(4)?)?,
        relation: read_u32(bytes, at.checked_add(8)?)?,
    })
}

fn directory_of(locator: RelFileLocator) -> DatabaseDirectory {
    DatabaseDirectory {
        tablespace: locator.tablespace,
        database: locator.database,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{RECORD_HEADER_LEN, RecordHeader};

    /// A record without blocks.
    fn record(rmid: u8, info: u8, main: &[u32]) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[16] = info;
        record[17] = rmid;
        record.extend([255, 4 * main.len() as u8]);
        record.extend(main.iter().flat_map(|field| field.to_le_bytes()));
        finished(record)
    }

    fn finished(mut record: Vec<u8>) -> Vec<u8> {
        let len = record.len() as u32;
        record[0..4].copy_from_slice(&len.to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    fn read(record: &[u8], major: u32) -> (Option<DirectoryCopy>, Vec<[u32; 2]>) {
        let version = Version::from_major(major).expect("supported");
        let mut layout = RecordLayout::default();
        layout.read(record, version).expect("a record");
        let mut changed = Vec::new();
        changed_directories(record, &layout, version, |of| {
            changed.push([of.tablespace, of.database]);
        });
        (DirectoryCopy::read(record, &layout), changed)
    }

    fn dropped(record: &[u8], major: u32) -> Vec<[u32; 2]> {
        let version = Version::from_major(major).expect("supported");
        let mut layout = RecordLayout::default();
        layout.read(record, version).expect("a record");
        let mut dropped = Vec::new();
        dropped_directories(record, &layout, version, |of| {
            dropped.push([of.tablespace, of.database]);
        });
        dropped
    }

    #[test]
    fn a_copy_and_its_source_are_read_of_all_majors() {
        let copied = DirectoryCopy {
            to: DatabaseDirectory {
                tablespace: 1663,
                database: 16400,
            },
            from: DatabaseDirectory {
                tablespace: 16390,
                database: 1,
            },
        };
        let bytes = record(rmgr_id::DATABASE, 0x00, &[16400, 1663, 1, 16390]);
        for major in 13..=18 {
            assert_eq!(read(&bytes, major), (Some(copied), vec![[1663, 16400]]));
        }
    }

    #[test]
    fn drops_have_another_opcode_since_15() {
        let main = [16400, 2, 1663, 16390];
        let both = vec![[1663, 16400], [16390, 16400]];
        for (major, opcode) in [(13, 0x10), (14, 0x10), (15, 0x20), (18, 0x20)] {
            let bytes = record(rmgr_id::DATABASE, opcode, &main);
            assert_eq!(read(&bytes, major), (None, both.clone()), "{major}");
            assert_eq!(dropped(&bytes, major), both, "{major}");
        }
        let created = record(rmgr_id::DATABASE, 0x10, &[16400, 1663]);
        assert_eq!(read(&created, 15), (None, vec![[1663, 16400]]));
        let copied = record(rmgr_id::DATABASE, 0x00, &[16400, 1663, 1, 1663]);
        let truncated = record(rmgr_id::STORAGE, 0x20, &[7, 1663, 5, 16384, 7]);
        for other in [created, copied, truncated] {
            assert_eq!(dropped(&other, 15), [[0; 2]; 0]);
        }
        // What says that there are more than it has.
        let short = record(rmgr_id::DATABASE, 0x20, &[16400, u32::MAX, 1663]);
        assert_eq!(read(&short, 15), (None, vec![[1663, 16400]]));
    }

    #[test]
    fn a_commit_names_its_subtransactions() {
        let committed = |info, main: &[u32]| committed(15, info, main);
        assert_eq!(committed(xact::COMMIT, &[0, 0]), [700]);
        let flagged = xact::COMMIT | XACT_HAS_FLAGS;
        assert_eq!(committed(flagged, &[0, 0, 0]), [700]);
        assert_eq!(
            committed(flagged, &[0, 0, 2, 2, 701, 702, 9]),
            [700, 701, 702]
        );
        assert_eq!(committed(flagged, &[0, 0, 3, 5, 1663, 1, 701]), [700, 701]);
        // What says that there are more than it has.
        assert_eq!(committed(flagged, &[0, 0, 2, u32::MAX, 701]), [700, 701]);
        for other in [xact::ABORT, xact::COMMIT_PREPARED, xact::ABORT_PREPARED] {
            assert_eq!(committed(other, &[0, 0]), [0; 0]);
        }
    }

    #[test]
    fn the_commit_of_a_prepared_transaction_names_it() {
        let flagged = xact::COMMIT_PREPARED | XACT_HAS_FLAGS;
        let is_prepared = 1 << 4;
        for major in 13..=18 {
            let committed = |info, main: &[u32]| committed(major, info, main);
            assert_eq!(committed(flagged, &[0, 0, is_prepared, 690]), [690]);
            let of_database = [0, 0, 3 | is_prepared, 5, 1663, 2, 691, 692, 690];
            assert_eq!(committed(flagged, &of_database), [690, 691, 692]);
            let removes = [0, 0, 4 | is_prepared, 1, 1663, 5, 16384, 690];
            assert_eq!(committed(flagged, &removes), [690]);
            let aborted = xact::ABORT_PREPARED | XACT_HAS_FLAGS;
            assert_eq!(committed(aborted, &[0, 0, is_prepared, 690]), [0; 0]);
            // What does not say which, or that there are more than it has.
            assert_eq!(committed(flagged, &[0, 0, 2, 1, 691]), [0; 0]);
            let too_many = [0, 0, 2 | is_prepared, u32::MAX, 691, 690];
            assert_eq!(committed(flagged, &too_many), [0; 0]);
        }
    }

    /// What a record of transaction 700 commits.
    fn committed(major: u32, info: u8, main: &[u32]) -> Vec<u32> {
        let mut bytes = record(rmgr_id::XACT, info, main);
        bytes[4..8].copy_from_slice(&700_u32.to_le_bytes());
        let bytes = finished(bytes);
        let mut layout = RecordLayout::default();
        let version = Version::from_major(major).expect("supported");
        layout.read(&bytes, version).expect("a record");
        let mut committed = Vec::new();
        committed_transactions(&bytes, &layout, version, |xid| committed.push(xid));
        committed
    }

    #[test]
    fn directories_are_made_in_two_ways_since_15() {
        let made = |bytes: &[u8], major| {
            let version = Version::from_major(major).expect("supported");
            let mut layout = RecordLayout::default();
            layout.read(bytes, version).expect("a record");
            let made = made_directory(bytes, &layout, version);
            made.map(|of| [of.tablespace, of.database])
        };
        let copied = record(rmgr_id::DATABASE, 0x00, &[16400, 1663, 1, 1663]);
        let written = record(rmgr_id::DATABASE, 0x10, &[16400, 1663]);
        let dropped = record(rmgr_id::DATABASE, 0x20, &[16400, 1, 1663]);
        let new = Some([1663, 16400]);
        for major in 13..=18 {
            assert_eq!(made(&copied, major), new, "{major}");
            assert_eq!(made(&written, major), new.filter(|_| major >= 15));
            assert_eq!(made(&dropped, major), None);
        }
        assert_eq!(made(&record(rmgr_id::STORAGE, 0x10, &[1; 4]), 15), None);
    }

    #[test]
    fn the_creation_of_an_initial_fork_names_its_relation() {
        let version = Version::from_major(15).expect("supported");
        let made = |bytes: &[u8]| {
            let mut layout = RecordLayout::default();
            layout.read(bytes, version).expect("a record");
            let made = made_initial_fork(bytes, &layout);
            made.map(|of| [of.tablespace, of.database, of.relation])
        };
        let creation = |fork| record(rmgr_id::STORAGE, 0x10, &[1663, 5, 16384, fork]);
        assert_eq!(made(&creation(3)), Some([1663, 5, 16384]));
        assert_eq!(made(&creation(0)), None);
        let truncation = record(rmgr_id::STORAGE, 0x20, &[1663, 5, 16384, 3, 7]);
        assert_eq!(made(&truncation), None);
        assert_eq!(made(&record(rmgr_id::STORAGE, 0x10, &[1663, 5])), None);
    }

    #[test]
    fn files_and_maps_are_changed_in_their_directory() {
        for (rmid, info, main) in [
            (rmgr_id::STORAGE, 0x10, vec![1663, 5, 16384, 0]),
            (rmgr_id::STORAGE, 0x20, vec![7, 1663, 5, 16384, 7]),
            (rmgr_id::RELMAP, 0x00, vec![5, 1663, 524]),
        ] {
            let bytes = record(rmid, info, &main);
            assert_eq!(read(&bytes, 15), (None, vec![[1663, 5]]), "{rmid} {info}");
        }
    }

    #[test]
    fn a_transaction_removes_files_when_it_ends() {
        let time = [1, 2];
        let relations = [2, 1663, 5, 16384, 16390, 6, 16385];
        let removed = vec![[1663, 5], [16390, 6]];
        for info in [0x80, 0xA0, 0xB0, 0xC0] {
            let bytes = record(rmgr_id::XACT, info, &[&time[..], &[4], &relations].concat());
            assert_eq!(read(&bytes, 15), (None, removed.clone()), "{info}");
        }
        let before = [7, 5, 1663, 2, 700, 701];
        let bytes = record(
            rmgr_id::XACT,
            0x80,
            &[&time[..], &before, &relations].concat(),
        );
        assert_eq!(read(&bytes, 13), (None, removed));
        for harmless in [vec![1, 2], vec![1, 2, 3, 5, 1663, u32::MAX], vec![1, 2, 4]] {
            let bytes = record(rmgr_id::XACT, 0x80, &harmless);
            assert_eq!(read(&bytes, 18), (None, vec![]));
        }
        // Without flags, and one that is only prepared.
        let bytes = record(rmgr_id::XACT, 0x00, &[&time[..], &[4], &relations].concat());
        assert_eq!(read(&bytes, 18), (None, vec![]));
        let bytes = record(rmgr_id::XACT, 0x90, &[&time[..], &[4], &relations].concat());
        assert_eq!(read(&bytes, 18), (None, vec![]));
    }

    #[test]
    fn blocks_are_changed_in_the_directory_of_their_relation() {
        let mut bytes = vec![0; RECORD_HEADER_LEN];
        bytes[17] = rmgr_id::HEAP;
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(
            [1663_u32, 5, 16384, 9]
                .iter()
                .flat_map(|field| field.to_le_bytes()),
        );
        assert_eq!(read(&finished(bytes), 15), (None, vec![[1663, 5]]));
    }
}
