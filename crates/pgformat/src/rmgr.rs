//! Resource managers and their record types, by the names that `pg_waldump` prints.
//!
//! A record names its resource manager by a number, and its type by the high four bits of
//! its info byte (`xl_info`). The names are those of access/rmgrlist.h and of the
//! `identify` functions in access/rmgrdesc/. What changed between majors is a row of its
//! own with the majors in which it holds; 19 is as of release candidate 1.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::rmgr_id as id;
use crate::version::Version;

/// A resource manager: the part of PostgreSQL that can replay a record.
#[derive(Debug)]
pub struct Rmgr {
    /// Its number, one of [`crate::rmgr_id`].
    pub id: u8,
    /// Its name.
    pub name: &'static str,
    /// The bits of the info byte that tell its record types apart.
    pub type_mask: u8,
    types: &'static [RecordType],
}

/// One type of record, in the majors in which it has this number and name.
#[derive(Debug)]
struct RecordType {
    opcode: u8,
    name: &'static str,
    majors: RangeInclusive<u32>,
}

impl Rmgr {
    /// The resource manager with this number, if it is PostgreSQL's own.
    pub fn from_id(id: u8) -> Option<&'static Rmgr> {
        RMGRS.get(usize::from(id))
    }

    /// The name of a record's type, from its info byte.
    pub fn record_type(&self, version: &Version, info: u8) -> Option<&'static str> {
        let opcode = info & self.type_mask;
        let is = |row: &&RecordType| row.opcode == opcode && row.majors.contains(&version.major);
        self.types.iter().find(is).map(|row| row.name)
    }
}

/// The name of a resource manager, in `pg_waldump`'s words also if it is an extension's.
pub fn rmgr_name(id: u8) -> Cow<'static, str> {
    match Rmgr::from_id(id) {
        Some(rmgr) => rmgr.name.into(),
        None if id >= id::CUSTOM_MIN => format!("custom{id:03}").into(),
        None => format!("unknown{id:03}").into(),
    }
}

/// The name of a record's type, in `pg_waldump`'s words also if it is not known.
pub fn record_type_name(version: &Version, id: u8, info: u8) -> Cow<'static, str> {
    match Rmgr::from_id(id).and_then(|rmgr| rmgr.record_type(version, info)) {
        Some(name) => name.into(),
        None => format!("UNKNOWN ({:x})", info & TYPE_MASK).into(),
    }
}

/// The bits of the info byte that belong to the resource manager (`~XLR_INFO_MASK`).
const TYPE_MASK: u8 = 0xF0;
/// The highest bit of a transaction's record says something else (`XLOG_XACT_OPMASK`).
const TRANSACTION_TYPE_MASK: u8 = 0x70;

const ALL: RangeInclusive<u32> = 13..=u32::MAX;

const fn is(opcode: u8, name: &'static str) -> RecordType {
    RecordType {
        opcode,
        name,
        majors: ALL,
    }
}

const fn was(majors: RangeInclusive<u32>, opcode: u8, name: &'static str) -> RecordType {
    RecordType {
        opcode,
        name,
        majors,
    }
}

const fn since(major: u32, opcode: u8, name: &'static str) -> RecordType {
    RecordType {
        opcode,
        name,
        majors: major..=u32::MAX,
    }
}

const fn rmgr(id: u8, name: &'static str, types: &'static [RecordType]) -> Rmgr {
    let type_mask = match id {
        id::XACT => TRANSACTION_TYPE_MASK,
        // Every record of `Generic` is of its one type.
        id::GENERIC => 0,
        _ => TYPE_MASK,
    };
    Rmgr {
        id,
        name,
        type_mask,
        types,
    }
}

/// By number.
static RMGRS: [Rmgr; 22] = [
    rmgr(id::XLOG, "XLOG", XLOG_TYPES),
    rmgr(id::XACT, "Transaction", TRANSACTION_TYPES),
    rmgr(
        id::STORAGE,
        "Storage",
        &[is(0x10, "CREATE"), is(0x20, "TRUNCATE")],
    ),
    rmgr(
        id::CLOG,
        "CLOG",
        &[is(0x00, "ZEROPAGE"), is(0x10, "TRUNCATE")],
    ),
    rmgr(id::DATABASE, "Database", DATABASE_TYPES),
    rmgr(
        id::TABLESPACE,
        "Tablespace",
        &[is(0x00, "CREATE"), is(0x10, "DROP")],
    ),
    rmgr(id::MULTIXACT, "MultiXact", MULTIXACT_TYPES),
    rmgr(id::RELMAP, "RelMap", &[is(0x00, "UPDATE")]),
    rmgr(id::STANDBY, "Standby", STANDBY_TYPES),
    rmgr(id::HEAP2, "Heap2", HEAP2_TYPES),
    rmgr(id::HEAP, "Heap", HEAP_TYPES),
    rmgr(id::BTREE, "Btree", BTREE_TYPES),
    rmgr(id::HASH, "Hash", HASH_TYPES),
    rmgr(id::GIN, "Gin", GIN_TYPES),
    rmgr(id::GIST, "Gist", GIST_TYPES),
    rmgr(id::SEQUENCE, "Sequence", &[is(0x00, "LOG")]),
    rmgr(id::SPGIST, "SPGist", SPGIST_TYPES),
    rmgr(id::BRIN, "BRIN", BRIN_TYPES),
    rmgr(
        id::COMMIT_TS,
        "CommitTs",
        &[is(0x00, "ZEROPAGE"), is(0x10, "TRUNCATE")],
    ),
    rmgr(
        id::REPLICATION_ORIGIN,
        "ReplicationOrigin",
        &[is(0x00, "SET"), is(0x10, "DROP")],
    ),
    rmgr(id::GENERIC, "Generic", &[is(0x00, "Generic")]),
    rmgr(
        id::LOGICAL_MESSAGE,
        "LogicalMessage",
        &[is(0x00, "MESSAGE")],
    ),
];

const XLOG_TYPES: &[RecordType] = &[
    is(0x00, "CHECKPOINT_SHUTDOWN"),
    is(0x10, "CHECKPOINT_ONLINE"),
    is(0x20, "NOOP"),
    is(0x30, "NEXTOID"),
    is(0x40, "SWITCH"),
    is(0x50, "BACKUP_END"),
    is(0x60, "PARAMETER_CHANGE"),
    is(0x70, "RESTORE_POINT"),
    is(0x80, "FPW_CHANGE"),
    is(0x90, "END_OF_RECOVERY"),
    is(0xA0, "FPI_FOR_HINT"),
    is(0xB0, "FPI"),
    since(19, 0xC0, "ASSIGN_LSN"),
    is(0xD0, "OVERWRITE_CONTRECORD"),
    since(17, 0xE0, "CHECKPOINT_REDO"),
    since(19, 0xF0, "LOGICAL_DECODING_STATUS_CHANGE"),
];

const TRANSACTION_TYPES: &[RecordType] = &[
    is(0x00, "COMMIT"),
    is(0x10, "PREPARE"),
    is(0x20, "ABORT"),
    is(0x30, "COMMIT_PREPARED"),
    is(0x40, "ABORT_PREPARED"),
    is(0x50, "ASSIGNMENT"),
    since(14, 0x60, "INVALIDATION"),
];

const DATABASE_TYPES: &[RecordType] = &[
    was(13..=14, 0x00, "CREATE"),
    was(13..=14, 0x10, "DROP"),
    since(15, 0x00, "CREATE_FILE_COPY"),
    since(15, 0x10, "CREATE_WAL_LOG"),
    since(15, 0x20, "DROP"),
];

const MULTIXACT_TYPES: &[RecordType] = &[
    is(0x00, "ZERO_OFF_PAGE"),
    is(0x10, "ZERO_MEM_PAGE"),
    is(0x20, "CREATE_ID"),
    is(0x30, "TRUNCATE_ID"),
];

const STANDBY_TYPES: &[RecordType] = &[
    is(0x00, "LOCK"),
    is(0x10, "RUNNING_XACTS"),
    is(0x20, "INVALIDATIONS"),
];

const HEAP2_TYPES: &[RecordType] = &[
    is(0x00, "REWRITE"),
    was(13..=13, 0x10, "CLEAN"),
    was(13..=13, 0x20, "FREEZE_PAGE"),
    was(13..=13, 0x30, "CLEANUP_INFO"),
    was(14..=16, 0x10, "PRUNE"),
    was(14..=16, 0x20, "VACUUM"),
    was(14..=16, 0x30, "FREEZE_PAGE"),
    since(17, 0x10, "PRUNE_ON_ACCESS"),
    since(17, 0x20, "PRUNE_VACUUM_SCAN"),
    since(17, 0x30, "PRUNE_VACUUM_CLEANUP"),
    was(13..=18, 0x40, "VISIBLE"),
    is(0x50, "MULTI_INSERT"),
    is(0xD0, "MULTI_INSERT+INIT"),
    is(0x60, "LOCK_UPDATED"),
    is(0x70, "NEW_CID"),
];

const HEAP_TYPES: &[RecordType] = &[
    is(0x00, "INSERT"),
    is(0x80, "INSERT+INIT"),
    is(0x10, "DELETE"),
    is(0x20, "UPDATE"),
    is(0xA0, "UPDATE+INIT"),
    is(0x30, "TRUNCATE"),
    is(0x40, "HOT_UPDATE"),
    is(0xC0, "HOT_UPDATE+INIT"),
    is(0x50, "HEAP_CONFIRM"),
    is(0x60, "LOCK"),
    is(0x70, "INPLACE"),
];

const BTREE_TYPES: &[RecordType] = &[
    is(0x00, "INSERT_LEAF"),
    is(0x10, "INSERT_UPPER"),
    is(0x20, "INSERT_META"),
    is(0x30, "SPLIT_L"),
    is(0x40, "SPLIT_R"),
    is(0x50, "INSERT_POST"),
    is(0x60, "DEDUP"),
    is(0x70, "DELETE"),
    is(0x80, "UNLINK_PAGE"),
    is(0x90, "UNLINK_PAGE_META"),
    is(0xA0, "NEWROOT"),
    is(0xB0, "MARK_PAGE_HALFDEAD"),
    is(0xC0, "VACUUM"),
    is(0xD0, "REUSE_PAGE"),
    is(0xE0, "META_CLEANUP"),
];

const HASH_TYPES: &[RecordType] = &[
    is(0x00, "INIT_META_PAGE"),
    is(0x10, "INIT_BITMAP_PAGE"),
    is(0x20, "INSERT"),
    is(0x30, "ADD_OVFL_PAGE"),
    is(0x40, "SPLIT_ALLOCATE_PAGE"),
    is(0x50, "SPLIT_PAGE"),
    is(0x60, "SPLIT_COMPLETE"),
    is(0x70, "MOVE_PAGE_CONTENTS"),
    is(0x80, "SQUEEZE_PAGE"),
    is(0x90, "DELETE"),
    is(0xA0, "SPLIT_CLEANUP"),
    is(0xB0, "UPDATE_META_PAGE"),
    is(0xC0, "VACUUM_ONE_PAGE"),
];

const GIN_TYPES: &[RecordType] = &[
    is(0x10, "CREATE_PTREE"),
    is(0x20, "INSERT"),
    is(0x30, "SPLIT"),
    is(0x40, "VACUUM_PAGE"),
    is(0x50, "DELETE_PAGE"),
    is(0x60, "UPDATE_META_PAGE"),
    is(0x70, "INSERT_LISTPAGE"),
    is(0x80, "DELETE_LISTPAGE"),
    is(0x90, "VACUUM_DATA_LEAF_PAGE"),
];

const GIST_TYPES: &[RecordType] = &[
    is(0x00, "PAGE_UPDATE"),
    is(0x10, "DELETE"),
    is(0x20, "PAGE_REUSE"),
    is(0x30, "PAGE_SPLIT"),
    is(0x60, "PAGE_DELETE"),
    was(13..=18, 0x70, "ASSIGN_LSN"),
];

const SPGIST_TYPES: &[RecordType] = &[
    is(0x10, "ADD_LEAF"),
    is(0x20, "MOVE_LEAFS"),
    is(0x30, "ADD_NODE"),
    is(0x40, "SPLIT_TUPLE"),
    is(0x50, "PICKSPLIT"),
    is(0x60, "VACUUM_LEAF"),
    is(0x70, "VACUUM_ROOT"),
    is(0x80, "VACUUM_REDIRECT"),
];

const BRIN_TYPES: &[RecordType] = &[
    is(0x00, "CREATE_INDEX"),
    is(0x10, "INSERT"),
    is(0x90, "INSERT+INIT"),
    is(0x20, "UPDATE"),
    is(0xA0, "UPDATE+INIT"),
    is(0x30, "SAMEPAGE_UPDATE"),
    is(0x40, "REVMAP_EXTEND"),
    is(0x50, "DESUMMARIZE"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::VERSIONS;

    fn name(major: u32, id: u8, info: u8) -> Cow<'static, str> {
        record_type_name(
            Version::from_major(major).expect("a supported major"),
            id,
            info,
        )
    }

    #[test]
    fn numbers_the_resource_managers_by_their_place() {
        for (place, rmgr) in RMGRS.iter().enumerate() {
            assert_eq!(usize::from(rmgr.id), place, "{}", rmgr.name);
        }
    }

    #[test]
    fn gives_no_number_two_names_in_one_major() {
        for (rmgr, version) in RMGRS
            .iter()
            .flat_map(|r| VERSIONS.iter().map(move |v| (r, v)))
        {
            for row in rmgr.types {
                assert_eq!(row.opcode & !rmgr.type_mask, 0, "{}", row.name);
                if row.majors.contains(&version.major) {
                    assert_eq!(rmgr.record_type(version, row.opcode), Some(row.name));
                }
            }
        }
    }

    #[test]
    fn names_what_changed_between_majors_by_the_major() {
        let heap2 = |major| name(major, id::HEAP2, 0x20);
        assert_eq!(heap2(13), "FREEZE_PAGE");
        assert_eq!((heap2(14), heap2(16)), ("VACUUM".into(), "VACUUM".into()));
        assert_eq!(heap2(17), "PRUNE_VACUUM_SCAN");
        assert_eq!(name(14, id::DATABASE, 0x10), "DROP");
        assert_eq!(name(15, id::DATABASE, 0x10), "CREATE_WAL_LOG");
        assert_eq!(name(16, id::XLOG, 0xE0), "UNKNOWN (e0)");
        assert_eq!(name(17, id::XLOG, 0xE0), "CHECKPOINT_REDO");
        assert_eq!(name(13, id::XACT, 0x60), "UNKNOWN (60)");
    }

    #[test]
    fn ignores_the_bits_that_do_not_tell_types_apart() {
        assert_eq!(name(15, id::XACT, 0x80), "COMMIT");
        assert_eq!(name(15, id::HEAP, 0x83), "INSERT+INIT");
        assert_eq!(name(15, id::GENERIC, 0x30), "Generic");
    }

    #[test]
    fn names_extensions_as_pg_waldump_does() {
        assert_eq!(rmgr_name(id::BTREE), "Btree");
        assert_eq!(rmgr_name(128), "custom128");
        assert_eq!(name(15, 200, 0x35), "UNKNOWN (30)");
    }
}
