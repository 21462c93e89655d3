//! The table of record types that have models, one row for each type.
//!
//! A new type gets a row here, its number a name in pgformat's `opcode`, and, where no model of
//! another type fits its data, a [`BlockModel`].

use std::ops::RangeInclusive;

use walzip_pgformat::opcode::{btree, gin, gist, heap, heap2, spgist, xact};
use walzip_pgformat::rmgr_id::{BTREE, GIN, GIST, HEAP, HEAP2, SPGIST, XACT};

use crate::format_version::FormatVersion;

/// The model of the data of a block reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockModel {
    /// Data of unknown form, coded as a row of bytes.
    Rows,
    /// A heap tuple (XLOG_HEAP_INSERT).
    HeapInsert,
    /// A heap tuple that may lack a prefix and a suffix of its old version (XLOG_HEAP_UPDATE),
    /// coded against that version.
    HeapUpdate,
    /// The same, coded without the old version.
    HeapUpdateAlone,
    /// A sequence of heap tuples (XLOG_HEAP2_MULTI_INSERT).
    HeapMultiInsert,
    /// An index tuple of a new row (XLOG_BTREE_INSERT_LEAF).
    RowTuple,
    /// An index tuple that points to another page of the index (XLOG_BTREE_INSERT_UPPER and _META).
    BtreeInsert,
    /// A sequence of index tuples that are moved to a new page (XLOG_BTREE_SPLIT_*,
    /// XLOG_BTREE_NEWROOT).
    BtreeTuples,
    /// A sequence of index tuples of GIN's pending list (XLOG_GIN_UPDATE_META_PAGE,
    /// XLOG_GIN_INSERT_LISTPAGE). Their keys are coded as extracted from rows.
    ListTuples,
    /// The same, with keys coded as bytes.
    ListTuplesAlone,
    /// An entry tuple after a `ginxlogInsertEntry`, or changed segments of posting lists
    /// (XLOG_GIN_INSERT).
    GinInsert,
    /// Changed segments of posting lists (XLOG_GIN_VACUUM_DATA_LEAF_PAGE).
    GinRecompress,
    /// Line pointer numbers of deleted tuples, then new tuples (XLOG_GIST_PAGE_UPDATE).
    GistUpdate,
    /// The number of a page's tuples, then the tuples (XLOG_GIST_PAGE_SPLIT).
    GistSplit,
    /// Line pointer numbers and other `u16`.
    Offsets,
}

/// Whether a version of the format has a feature.
type IsIn = fn(FormatVersion) -> bool;

/// A row of the table: the models of one record type.
struct RecordType {
    rmid: u8,
    opcode: u8,
    /// Widths of the leading fields of the main data, in bytes. The rest is a row of bytes.
    fields: &'static [u8],
    /// The models of the data of block references, by their ids.
    blocks: &'static [BlockRow],
    /// Whether a version of the format has this row.
    is_in: IsIn,
}

/// The model of the data of the block references with some ids.
struct BlockRow {
    ids: RangeInclusive<u8>,
    model: BlockModel,
    /// The model that replaces it in versions of the format that do not have it.
    before: Option<(IsIn, BlockModel)>,
}

const fn of(rmid: u8, opcode: u8) -> RecordType {
    RecordType {
        rmid,
        opcode,
        fields: &[],
        blocks: &[],
        is_in: |_| true,
    }
}

impl RecordType {
    const fn fields(mut self, widths: &'static [u8]) -> RecordType {
        self.fields = widths;
        self
    }

    const fn blocks(mut self, blocks: &'static [BlockRow]) -> RecordType {
        self.blocks = blocks;
        self
    }

    const fn only_if(mut self, is_in: IsIn) -> RecordType {
        self.is_in = is_in;
        self
    }
}

const fn block(id: u8, model: BlockModel) -> BlockRow {
    blocks(id..=id, model)
}

const fn blocks(ids: RangeInclusive<u8>, model: BlockModel) -> BlockRow {
    BlockRow {
        ids,
        model,
        before: None,
    }
}

impl BlockRow {
    const fn only_if(mut self, is_in: IsIn, or_else: BlockModel) -> BlockRow {
        self.before = Some((is_in, or_else));
        self
    }
}

const TUPLES: &[BlockRow] = &[blocks(0..=1, BlockModel::BtreeTuples)];
const OFFSETS: &[BlockRow] = &[block(0, BlockModel::Offsets)];
const UPPER_TUPLE: &[BlockRow] = &[block(0, BlockModel::BtreeInsert)];
const NEW_VERSION: &[BlockRow] = &[block(0, BlockModel::HeapUpdate)
    .only_if(FormatVersion::has_row_versions, BlockModel::HeapUpdateAlone)];

const fn list_tuples(id: u8) -> BlockRow {
    block(id, BlockModel::ListTuples).only_if(
        FormatVersion::has_extracted_keys,
        BlockModel::ListTuplesAlone,
    )
}

static TYPES: [RecordType; 33] = [
    // xl_xact_commit, xl_xact_abort: xact_time, xinfo
    of(XACT, xact::COMMIT).fields(&[8, 4]),
    of(XACT, xact::ABORT).fields(&[8, 4]),
    // xl_heap_insert: offnum, flags
    of(HEAP, heap::INSERT)
        .fields(&[2, 1])
        .blocks(&[block(0, BlockModel::HeapInsert)]),
    // xl_heap_delete, xl_heap_lock: xmax, offnum, infobits_set, flags
    of(HEAP, heap::DELETE).fields(&[4, 2, 1, 1]),
    of(HEAP, heap::LOCK).fields(&[4, 2, 1, 1]),
    // xl_heap_update: old_xmax, old_offnum, old_infobits_set, flags, new_xmax, new_offnum
    of(HEAP, heap::UPDATE)
        .fields(&[4, 2, 1, 1, 4, 2])
        .blocks(NEW_VERSION),
    of(HEAP, heap::HOT_UPDATE)
        .fields(&[4, 2, 1, 1, 4, 2])
        .blocks(NEW_VERSION),
    // xl_heap_confirm, xl_heap_inplace: offnum
    of(HEAP, heap::CONFIRM).fields(&[2]),
    of(HEAP, heap::INPLACE).fields(&[2]),
    of(HEAP2, heap2::PRUNE).blocks(OFFSETS),
    of(HEAP2, heap2::PRUNE_VACUUM_SCAN).blocks(OFFSETS),
    of(HEAP2, heap2::PRUNE_VACUUM_CLEANUP).blocks(OFFSETS),
    // xl_heap_visible: snapshotConflictHorizon, flags
    of(HEAP2, heap2::VISIBLE).fields(&[4, 1]),
    // xl_heap_multi_insert: flags, padding, ntuples
    of(HEAP2, heap2::MULTI_INSERT)
        .fields(&[1, 1, 2])
        .blocks(&[block(0, BlockModel::HeapMultiInsert)]),
    // xl_heap_lock_updated: xmax, offnum, infobits_set, flags
    of(HEAP2, heap2::LOCK_UPDATED).fields(&[4, 2, 1, 1]),
    // xl_btree_insert: offnum
    of(BTREE, btree::INSERT_LEAF)
        .fields(&[2])
        .blocks(&[block(0, BlockModel::RowTuple)]),
    of(BTREE, btree::INSERT_UPPER)
        .fields(&[2])
        .blocks(UPPER_TUPLE),
    of(BTREE, btree::INSERT_META)
        .fields(&[2])
        .blocks(UPPER_TUPLE),
    of(BTREE, btree::INSERT_POST).fields(&[2]),
    // xl_btree_split: level, firstrightoff, newitemoff, postingoff
    of(BTREE, btree::SPLIT_L)
        .fields(&[4, 2, 2, 2])
        .blocks(TUPLES),
    of(BTREE, btree::SPLIT_R)
        .fields(&[4, 2, 2, 2])
        .blocks(TUPLES),
    of(BTREE, btree::NEWROOT).blocks(&[block(0, BlockModel::BtreeTuples)]),
    // xl_btree_dedup: nintervals
    of(BTREE, btree::DEDUP).fields(&[2]).blocks(OFFSETS),
    of(BTREE, btree::DELETE).blocks(OFFSETS),
    of(BTREE, btree::VACUUM).blocks(OFFSETS),
    of(GIN, gin::INSERT).blocks(&[block(0, BlockModel::GinInsert)]),
    // Has an image always, and data only where that was taken out.
    of(GIN, gin::VACUUM_PAGE)
        .blocks(&[block(0, BlockModel::GinRecompress)])
        .only_if(FormatVersion::replays_all),
    of(GIN, gin::UPDATE_META_PAGE).blocks(&[list_tuples(1)]),
    of(GIN, gin::INSERT_LISTPAGE).blocks(&[list_tuples(0)]),
    of(GIN, gin::VACUUM_DATA_LEAF_PAGE).blocks(&[block(0, BlockModel::GinRecompress)]),
    of(GIST, gist::PAGE_UPDATE)
        .blocks(&[block(0, BlockModel::GistUpdate)])
        .only_if(FormatVersion::has_gist),
    of(GIST, gist::PAGE_SPLIT)
        .blocks(&[blocks(1..=u8::MAX, BlockModel::GistSplit)])
        .only_if(FormatVersion::has_gist),
    // spgxlogAddLeaf: newPage, storesNulls, offnumLeaf, offnumHeadLeaf, offnumParent, nodeI;
    // SpGistLeafTupleData: state and size, nextOffset or t_info, heapPtr
    of(SPGIST, spgist::ADD_LEAF)
        .fields(&[1, 1, 2, 2, 2, 2, 4, 2, 4, 2])
        .only_if(FormatVersion::has_gist),
];

/// The bits of `xl_info` that identify the type of a resource manager's record. Some resource
/// managers use the top bit as a flag (`XLOG_XACT_HAS_INFO`, `XLOG_HEAP_INIT_PAGE`).
pub fn opcode(rmid: u8, info: u8) -> u8 {
    match rmid {
        XACT | HEAP | HEAP2 => info & 0x70,
        _ => info & 0xF0,
    }
}

fn record_type(rmid: u8, info: u8, format: FormatVersion) -> Option<&'static RecordType> {
    let opcode = opcode(rmid, info);
    let is = |row: &&RecordType| (row.rmid, row.opcode) == (rmid, opcode);
    TYPES.iter().find(is).filter(|row| (row.is_in)(format))
}

/// The widths of the leading fields of a record type's main data, in bytes. Empty for a type
/// without a row.
pub fn field_widths(rmid: u8, info: u8, format: FormatVersion) -> &'static [u8] {
    record_type(rmid, info, format).map_or(&[], |row| row.fields)
}

/// The model of the data of the block reference with this id, in records of a type.
pub fn block_model(rmid: u8, info: u8, id: u8, format: FormatVersion) -> BlockModel {
    let rows = record_type(rmid, info, format).map_or(&[][..], |row| row.blocks);
    let Some(row) = rows.iter().find(|row| row.ids.contains(&id)) else {
        return BlockModel::Rows;
    };
    match row.before {
        Some((is_in, before)) if !is_in(format) => before,
        _ => row.model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_row() {
        for (number, row) in TYPES.iter().enumerate() {
            assert_eq!(opcode(row.rmid, row.opcode), row.opcode);
            let others = &TYPES[number + 1..];
            let is_same = |other: &RecordType| (other.rmid, other.opcode) == (row.rmid, row.opcode);
            assert!(!others.iter().any(is_same), "{:#x}", row.opcode);
        }
    }

    #[test]
    fn a_version_has_the_models_that_it_had() {
        let models = |number| {
            let format = FormatVersion::of(number).unwrap();
            [
                block_model(HEAP, heap::UPDATE | 0x80, 0, format),
                block_model(GIN, gin::INSERT_LISTPAGE, 0, format),
                block_model(GIN, gin::VACUUM_PAGE, 0, format),
                block_model(GIST, gist::PAGE_SPLIT, 2, format),
                block_model(GIST, gist::PAGE_SPLIT, 0, format),
            ]
        };
        use BlockModel::{
            GinRecompress, GistSplit, HeapUpdate, HeapUpdateAlone, ListTuples, ListTuplesAlone,
            Rows,
        };
        assert_eq!(
            models(1),
            [HeapUpdateAlone, ListTuplesAlone, Rows, Rows, Rows]
        );
        assert_eq!(
            models(2),
            [HeapUpdateAlone, ListTuplesAlone, Rows, GistSplit, Rows]
        );
        assert_eq!(
            models(3),
            [HeapUpdate, ListTuplesAlone, Rows, GistSplit, Rows]
        );
        assert_eq!(models(10), [HeapUpdate, ListTuples, Rows, GistSplit, Rows]);
        assert_eq!(
            models(11),
            [HeapUpdate, ListTuples, GinRecompress, GistSplit, Rows]
        );
        assert_eq!(models(4), models(10));
    }
}
