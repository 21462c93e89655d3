//! The types of records by name: the part of `xl_info` that belongs to the resource manager.
//!
//! Only those that code asks for stand here; [`crate::rmgr`] names all of them.

/// Transactions (access/xact.h).
pub mod xact {
    /// `XLOG_XACT_COMMIT`
    pub const COMMIT: u8 = 0x00;
    /// `XLOG_XACT_ABORT`
    pub const ABORT: u8 = 0x20;
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
    /// `XLOG_GIN_INSERT`
    pub const INSERT: u8 = 0x20;
    /// `XLOG_GIN_UPDATE_META_PAGE`
    pub const UPDATE_META_PAGE: u8 = 0x60;
    /// `XLOG_GIN_INSERT_LISTPAGE`
    pub const INSERT_LISTPAGE: u8 = 0x70;
    /// `XLOG_GIN_VACUUM_DATA_LEAF_PAGE`
    pub const VACUUM_DATA_LEAF_PAGE: u8 = 0x90;
}

/// GiST indexes (access/gistxlog.h).
pub mod gist {
    /// `XLOG_GIST_PAGE_UPDATE`
    pub const PAGE_UPDATE: u8 = 0x00;
    /// `XLOG_GIST_PAGE_SPLIT`
    pub const PAGE_SPLIT: u8 = 0x30;
}

/// SP-GiST indexes (access/spgxlog.h).
pub mod spgist {
    /// `XLOG_SPGIST_ADD_LEAF`
    pub const ADD_LEAF: u8 = 0x10;
}

#[cfg(test)]
mod tests {
    use crate::rmgr::record_type_name;
    use crate::rmgr_id::{BTREE, GIN, GIST, HEAP, HEAP2, SPGIST, XACT};
    use crate::version::Version;

    #[test]
    fn the_names_are_those_of_the_resource_managers() {
        let named = [
            (XACT, super::xact::COMMIT, "COMMIT"),
            (XACT, super::xact::ABORT, "ABORT"),
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
            (GIN, super::gin::INSERT, "INSERT"),
            (GIN, super::gin::UPDATE_META_PAGE, "UPDATE_META_PAGE"),
            (GIN, super::gin::INSERT_LISTPAGE, "INSERT_LISTPAGE"),
            (
                GIN,
                super::gin::VACUUM_DATA_LEAF_PAGE,
                "VACUUM_DATA_LEAF_PAGE",
            ),
            (GIST, super::gist::PAGE_UPDATE, "PAGE_UPDATE"),
            (GIST, super::gist::PAGE_SPLIT, "PAGE_SPLIT"),
            (SPGIST, super::spgist::ADD_LEAF, "ADD_LEAF"),
        ];
        let version = Version::from_major(18).expect("a supported major");
        for (rmid, opcode, name) in named {
            assert_eq!(record_type_name(version, rmid, opcode), name);
        }
    }
}
