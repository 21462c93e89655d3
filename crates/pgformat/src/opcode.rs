//! The types of records by name: the part of `xl_info` that belongs to the resource manager.
//!
//! Only those that code asks for stand here; [`crate::rmgr`] names all of them.

/// Transactions (access/xact.h).
pub mod xact {
    /// `XLOG_XACT_COMMIT`
    pub const COMMIT: u8 = 0x00;
    /// `XLOG_XACT_ABORT`
    pub const ABORT: u8 = 0x20;
    /// `XLOG_XACT_COMMIT_PREPARED`
    pub const COMMIT_PREPARED: u8 = 0x30;
    /// `XLOG_XACT_ABORT_PREPARED`
    pub const ABORT_PREPARED: u8 = 0x40;
}

/// Relation files (catalog/storage_xlog.h).
pub mod storage {
    /// `XLOG_SMGR_CREATE`
    pub const CREATE: u8 = 0x10;
    /// `XLOG_SMGR_TRUNCATE`
    pub const TRUNCATE: u8 = 0x20;
}

/// Databases (commands/dbcommands_xlog.h).
pub mod database {
    /// `XLOG_DBASE_CREATE` of 13 and 14, `XLOG_DBASE_CREATE_FILE_COPY`
    pub const CREATE_FILE_COPY: u8 = 0x00;

    /// `XLOG_DBASE_CREATE_WAL_LOG`, since 15
    pub const fn create_wal_log_opcode(major: u32) -> Option<u8> {
        match major {
            ..=14 => None,
            _ => Some(0x10),
        }
    }

    /// `XLOG_DBASE_DROP`
    pub const fn drop_opcode(major: u32) -> u8 {
        match major {
            ..=14 => 0x10,
            _ => 0x20,
        }
    }
}

/// Tablespaces (commands/tablespace.h).
pub mod tablespace {
    /// `XLOG_TBLSPC_CREATE`
    pub const CREATE: u8 = 0x00;
}

/// Heaps (access/heapam_xlog.h).
pub mod heap {
    /// `XLOG_HEAP_INSERT`
    pub const INSERT: u8 = 0x00;
    /// `XLOG_HEAP_DELETE`
    pub const DELETE: u8 = 0x10;
    /// `XLOG_HEAP_UPDATE`
    pub const UPDATE: u8 = 0x20;
    /// `XLOG_HEAP_HOT_UPDATE`
    pub const HOT_UPDATE: u8 = 0x40;
    /// `XLOG_HEAP_CONFIRM`
    pub const CONFIRM: u8 = 0x50;
    /// `XLOG_HEAP_LOCK`
    pub const LOCK: u8 = 0x60;
    /// `XLOG_HEAP_INPLACE`
    pub const INPLACE: u8 = 0x70;
}

/// Heaps, further types (access/heapam_xlog.h).
pub mod heap2 {
    /// `XLOG_HEAP2_CLEAN` of 13, `XLOG_HEAP2_PRUNE` of 14 to 16, `XLOG_HEAP2_PRUNE_ON_ACCESS`
    pub const PRUNE: u8 = 0x10;
    /// `XLOG_HEAP2_FREEZE_PAGE` of 13, `XLOG_HEAP2_VACUUM` of 14 to 16,
    /// `XLOG_HEAP2_PRUNE_VACUUM_SCAN`
    pub const PRUNE_VACUUM_SCAN: u8 = 0x20;
    /// `XLOG_HEAP2_CLEANUP_INFO` of 13, `XLOG_HEAP2_FREEZE_PAGE` of 14 to 16,
    /// `XLOG_HEAP2_PRUNE_VACUUM_CLEANUP`
    pub const PRUNE_VACUUM_CLEANUP: u8 = 0x30;
    /// `XLOG_HEAP2_VISIBLE`
    pub const VISIBLE: u8 = 0x40;
    /// `XLOG_HEAP2_MULTI_INSERT`
    pub const MULTI_INSERT: u8 = 0x50;
    /// `XLOG_HEAP2_LOCK_UPDATED`
    pub const LOCK_UPDATED: u8 = 0x60;
}

/// B-trees (access/nbtxlog.h).
pub mod btree {
    /// `XLOG_BTREE_INSERT_LEAF`
    pub const INSERT_LEAF: u8 = 0x00;
    /// `XLOG_BTREE_INSERT_UPPER`
    pub const INSERT_UPPER: u8 = 0x10;
    /// `XLOG_BTREE_INSERT_META`
    pub const INSERT_META: u8 = 0x20;
    /// `XLOG_BTREE_SPLIT_L`
    pub const SPLIT_L: u8 = 0x30;
    /// `XLOG_BTREE_SPLIT_R`
    pub const SPLIT_R: u8 = 0x40;
    /// `XLOG_BTREE_INSERT_POST`
    pub const INSERT_POST: u8 = 0x50;
    /// `XLOG_BTREE_DEDUP`
    pub const DEDUP: u8 = 0x60;
    /// `XLOG_BTREE_DELETE`
    pub const DELETE: u8 = 0x70;
    /// `XLOG_BTREE_UNLINK_PAGE`
    pub const UNLINK_PAGE: u8 = 0x80;
    /// `XLOG_BTREE_UNLINK_PAGE_META`
    pub const UNLINK_PAGE_META: u8 = 0x90;
    /// `XLOG_BTREE_MARK_PAGE_HALFDEAD`
    pub const MARK_PAGE_HALFDEAD: u8 = 0xB0;
    /// `XLOG_BTREE_NEWROOT`
    pub const NEWROOT: u8 = 0xA0;
    /// `XLOG_BTREE_VACUUM`
    pub const VACUUM: u8 = 0xC0;
}

/// GIN indexes (access/ginxlog.h).
pub mod gin {
    /// `XLOG_GIN_CREATE_PTREE`
    pub const CREATE_PTREE: u8 = 0x10;
    /// `XLOG_GIN_INSERT`
    pub const INSERT: u8 = 0x20;
    /// `XLOG_GIN_VACUUM_PAGE`
    pub const VACUUM_PAGE: u8 = 0x40;
    /// `XLOG_GIN_DELETE_PAGE`
    pub const DELETE_PAGE: u8 = 0x50;
    /// `XLOG_GIN_UPDATE_META_PAGE`
    pub const UPDATE_META_PAGE: u8 = 0x60;
    /// `XLOG_GIN_INSERT_LISTPAGE`
    pub const INSERT_LISTPAGE: u8 = 0x70;
    /// `XLOG_GIN_DELETE_LISTPAGE`
    pub const DELETE_LISTPAGE: u8 = 0x80;
    /// `XLOG_GIN_VACUUM_DATA_LEAF_PAGE`
    pub const VACUUM_DATA_LEAF_PAGE: u8 = 0x90;
}

/// Hash indexes (access/hash_xlog.h).
pub mod hash {
    /// `XLOG_HASH_INSERT`
    pub const INSERT: u8 = 0x20;
    /// `XLOG_HASH_ADD_OVFL_PAGE`
    pub const ADD_OVFL_PAGE: u8 = 0x30;
    /// `XLOG_HASH_SPLIT_ALLOCATE_PAGE`
    pub const SPLIT_ALLOCATE_PAGE: u8 = 0x40;
    /// `XLOG_HASH_SPLIT_COMPLETE`
    pub const SPLIT_COMPLETE: u8 = 0x60;
    /// `XLOG_HASH_MOVE_PAGE_CONTENTS`
    pub const MOVE_PAGE_CONTENTS: u8 = 0x70;
    /// `XLOG_HASH_SQUEEZE_PAGE`
    pub const SQUEEZE_PAGE: u8 = 0x80;
    /// `XLOG_HASH_DELETE`
    pub const DELETE: u8 = 0x90;
    /// `XLOG_HASH_SPLIT_CLEANUP`
    pub const SPLIT_CLEANUP: u8 = 0xA0;
    /// `XLOG_HASH_UPDATE_META_PAGE`
    pub const UPDATE_META_PAGE: u8 = 0xB0;
    /// `XLOG_HASH_VACUUM_ONE_PAGE`
    pub const VACUUM_ONE_PAGE: u8 = 0xC0;
}

/// GiST indexes (access/gistxlog.h).
pub mod gist {
    /// `XLOG_GIST_PAGE_UPDATE`
    pub const PAGE_UPDATE: u8 = 0x00;
    /// `XLOG_GIST_DELETE`
    pub const DELETE: u8 = 0x10;
    /// `XLOG_GIST_PAGE_DELETE`
    pub const PAGE_DELETE: u8 = 0x60;
    /// `XLOG_GIST_PAGE_SPLIT`
    pub const PAGE_SPLIT: u8 = 0x30;
}

/// SP-GiST indexes (access/spgxlog.h).
pub mod spgist {
    /// `XLOG_SPGIST_ADD_LEAF`
    pub const ADD_LEAF: u8 = 0x10;
    /// `XLOG_SPGIST_MOVE_LEAFS`
    pub const MOVE_LEAFS: u8 = 0x20;
    /// `XLOG_SPGIST_ADD_NODE`
    pub const ADD_NODE: u8 = 0x30;
    /// `XLOG_SPGIST_SPLIT_TUPLE`
    pub const SPLIT_TUPLE: u8 = 0x40;
    /// `XLOG_SPGIST_PICKSPLIT`
    pub const PICKSPLIT: u8 = 0x50;
    /// `XLOG_SPGIST_VACUUM_LEAF`
    pub const VACUUM_LEAF: u8 = 0x60;
    /// `XLOG_SPGIST_VACUUM_ROOT`
    pub const VACUUM_ROOT: u8 = 0x70;
    /// `XLOG_SPGIST_VACUUM_REDIRECT`
    pub const VACUUM_REDIRECT: u8 = 0x80;
}

/// BRIN indexes (access/brin_xlog.h).
pub mod brin {
    /// `XLOG_BRIN_CREATE_INDEX`
    pub const CREATE_INDEX: u8 = 0x00;
    /// `XLOG_BRIN_INSERT`
    pub const INSERT: u8 = 0x10;
    /// `XLOG_BRIN_UPDATE`
    pub const UPDATE: u8 = 0x20;
    /// `XLOG_BRIN_SAMEPAGE_UPDATE`
    pub const SAMEPAGE_UPDATE: u8 = 0x30;
    /// `XLOG_BRIN_REVMAP_EXTEND`
    pub const REVMAP_EXTEND: u8 = 0x40;
    /// `XLOG_BRIN_DESUMMARIZE`
    pub const DESUMMARIZE: u8 = 0x50;
}

#[cfg(test)]
mod tests {
    use crate::rmgr::record_type_name;
    use crate::rmgr_id::{
        BRIN, BTREE, DATABASE, GIN, GIST, HASH, HEAP, HEAP2, SPGIST, STORAGE, TABLESPACE, XACT,
    };
    use crate::version::Version;

    #[test]
    fn the_names_are_those_of_the_resource_managers() {
        let named = [
            (XACT, super::xact::COMMIT, "COMMIT"),
            (XACT, super::xact::ABORT, "ABORT"),
            (XACT, super::xact::COMMIT_PREPARED, "COMMIT_PREPARED"),
            (XACT, super::xact::ABORT_PREPARED, "ABORT_PREPARED"),
            (STORAGE, super::storage::CREATE, "CREATE"),
            (STORAGE, super::storage::TRUNCATE, "TRUNCATE"),
            (
                DATABASE,
                super::database::CREATE_FILE_COPY,
                "CREATE_FILE_COPY",
            ),
            (DATABASE, super::database::drop_opcode(18), "DROP"),
            (TABLESPACE, super::tablespace::CREATE, "CREATE"),
            (HEAP, super::heap::INSERT, "INSERT"),
            (HEAP, super::heap::DELETE, "DELETE"),
            (HEAP, super::heap::UPDATE, "UPDATE"),
            (HEAP, super::heap::HOT_UPDATE, "HOT_UPDATE"),
            (HEAP, super::heap::CONFIRM, "HEAP_CONFIRM"),
            (HEAP, super::heap::LOCK, "LOCK"),
            (HEAP, super::heap::INPLACE, "INPLACE"),
            (HEAP2, super::heap2::PRUNE, "PRUNE_ON_ACCESS"),
            (HEAP2, super::heap2::PRUNE_VACUUM_SCAN, "PRUNE_VACUUM_SCAN"),
            (
                HEAP2,
                super::heap2::PRUNE_VACUUM_CLEANUP,
                "PRUNE_VACUUM_CLEANUP",
            ),
            (HEAP2, super::heap2::VISIBLE, "VISIBLE"),
            (HEAP2, super::heap2::MULTI_INSERT, "MULTI_INSERT"),
            (HEAP2, super::heap2::LOCK_UPDATED, "LOCK_UPDATED"),
            (BTREE, super::btree::INSERT_LEAF, "INSERT_LEAF"),
            (BTREE, super::btree::INSERT_UPPER, "INSERT_UPPER"),
            (BTREE, super::btree::INSERT_META, "INSERT_META"),
            (BTREE, super::btree::SPLIT_L, "SPLIT_L"),
            (BTREE, super::btree::SPLIT_R, "SPLIT_R"),
            (BTREE, super::btree::INSERT_POST, "INSERT_POST"),
            (BTREE, super::btree::DEDUP, "DEDUP"),
            (BTREE, super::btree::DELETE, "DELETE"),
            (BTREE, super::btree::UNLINK_PAGE, "UNLINK_PAGE"),
            (BTREE, super::btree::UNLINK_PAGE_META, "UNLINK_PAGE_META"),
            (
                BTREE,
                super::btree::MARK_PAGE_HALFDEAD,
                "MARK_PAGE_HALFDEAD",
            ),
            (BTREE, super::btree::NEWROOT, "NEWROOT"),
            (BTREE, super::btree::VACUUM, "VACUUM"),
            (GIN, super::gin::CREATE_PTREE, "CREATE_PTREE"),
            (GIN, super::gin::INSERT, "INSERT"),
            (GIN, super::gin::VACUUM_PAGE, "VACUUM_PAGE"),
            (GIN, super::gin::DELETE_PAGE, "DELETE_PAGE"),
            (GIN, super::gin::UPDATE_META_PAGE, "UPDATE_META_PAGE"),
            (GIN, super::gin::INSERT_LISTPAGE, "INSERT_LISTPAGE"),
            (GIN, super::gin::DELETE_LISTPAGE, "DELETE_LISTPAGE"),
            (
                GIN,
                super::gin::VACUUM_DATA_LEAF_PAGE,
                "VACUUM_DATA_LEAF_PAGE",
            ),
            (HASH, super::hash::INSERT, "INSERT"),
            (HASH, super::hash::ADD_OVFL_PAGE, "ADD_OVFL_PAGE"),
            (
                HASH,
                super::hash::SPLIT_ALLOCATE_PAGE,
                "SPLIT_ALLOCATE_PAGE",
            ),
            (HASH, super::hash::SPLIT_COMPLETE, "SPLIT_COMPLETE"),
            (HASH, super::hash::MOVE_PAGE_CONTENTS, "MOVE_PAGE_CONTENTS"),
            (HASH, super::hash::SQUEEZE_PAGE, "SQUEEZE_PAGE"),
            (HASH, super::hash::DELETE, "DELETE"),
            (HASH, super::hash::SPLIT_CLEANUP, "SPLIT_CLEANUP"),
            (HASH, super::hash::UPDATE_META_PAGE, "UPDATE_META_PAGE"),
            (HASH, super::hash::VACUUM_ONE_PAGE, "VACUUM_ONE_PAGE"),
            (GIST, super::gist::PAGE_UPDATE, "PAGE_UPDATE"),
            (GIST, super::gist::DELETE, "DELETE"),
            (GIST, super::gist::PAGE_SPLIT, "PAGE_SPLIT"),
            (GIST, super::gist::PAGE_DELETE, "PAGE_DELETE"),
            (SPGIST, super::spgist::ADD_LEAF, "ADD_LEAF"),
            (SPGIST, super::spgist::MOVE_LEAFS, "MOVE_LEAFS"),
            (SPGIST, super::spgist::ADD_NODE, "ADD_NODE"),
            (SPGIST, super::spgist::SPLIT_TUPLE, "SPLIT_TUPLE"),
            (SPGIST, super::spgist::PICKSPLIT, "PICKSPLIT"),
            (SPGIST, super::spgist::VACUUM_LEAF, "VACUUM_LEAF"),
            (SPGIST, super::spgist::VACUUM_ROOT, "VACUUM_ROOT"),
            (SPGIST, super::spgist::VACUUM_REDIRECT, "VACUUM_REDIRECT"),
            (BRIN, super::brin::CREATE_INDEX, "CREATE_INDEX"),
            (BRIN, super::brin::INSERT, "INSERT"),
            (BRIN, super::brin::UPDATE, "UPDATE"),
            (BRIN, super::brin::SAMEPAGE_UPDATE, "SAMEPAGE_UPDATE"),
            (BRIN, super::brin::REVMAP_EXTEND, "REVMAP_EXTEND"),
            (BRIN, super::brin::DESUMMARIZE, "DESUMMARIZE"),
        ];
        let version = Version::from_major(18).expect("a supported major");
        for (rmid, opcode, name) in named {
            assert_eq!(record_type_name(version, rmid, opcode), name);
        }
        let version = Version::from_major(14).expect("a supported major");
        for (opcode, name) in [
            (super::database::CREATE_FILE_COPY, "CREATE"),
            (super::database::drop_opcode(14), "DROP"),
        ] {
            assert_eq!(record_type_name(version, DATABASE, opcode), name);
        }
    }
}
