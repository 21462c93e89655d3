//! The data of block references, coded by the model of the record type.

use super::heap_fields::{
    MULTI_INSERT_COUNT_AT, UPDATE_FLAGS_AT, multi_insert_count, update_fields_len, update_kept,
    update_old_line_pointer, update_old_values,
};
use super::record_type::BlockModel;
use crate::model::heap::tuple::{RECORD_TUPLE_HEADER_LEN, multi_insert_end};
use crate::model::index::gin::entry::INSERT_ENTRY_HEADER_LEN;
use crate::model::index::known_rows::KnownRows;
use crate::model::index::tuple::{Keys, Place, are_tuples};
use crate::model::relations::Relation;
use crate::model::rows::change::ChangeScratch;
use crate::model::rows::changed_words::TransactionRows;
use crate::model::rows::versions::Version;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Choices, Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// Size of the count before a page's tuples in XLOG_GIST_PAGE_SPLIT, in bytes.
const GIST_COUNT_LEN: usize = 4;

/// The streams of the data of one block reference of a kind.
#[derive(Debug, Default)]
pub struct BlockStreams {
    /// Lengths of the data.
    pub len: LazyStream,
    /// Whether the model applies.
    pub flag: LazyStream,
    /// Data to which no model applies, and the rest that a model does not code.
    pub rows: RowsByLen,
    /// Fields that models code one by one.
    pub fields: [LazyStream; 4],
}

/// The values from which the data of a block reference may follow.
pub struct Context<'a> {
    /// The record's main data.
    pub main: &'a [u8],
    /// The block number of the record's last reference. An update's old version is on this block.
    pub last_block: u32,
    /// The values of that version, if its page is known.
    pub old_row: Option<&'a [u8]>,
    /// Rows that index entries and new versions follow from.
    pub known: KnownRows<'a>,
    /// Buffers that are reused.
    pub scratch: &'a mut ChangeScratch,
}

impl<'a> Context<'a> {
    /// The version of a row that an update replaces, if it is known: from this record
    /// (`REPLICA IDENTITY FULL`), or from earlier ones.
    fn old_version(&self) -> Option<Version<'a>> {
        if let Some(values) = update_old_values(self.main) {
            return Some(Version::whole(values));
        }
        if let Some(values) = self.old_row {
            return Some(Version::whole(values));
        }
        let tid = (self.last_block, update_old_line_pointer(self.main));
        let KnownRows {
            relation,
            rows,
            versions,
            ..
        } = self.known;
        versions.get(rows, versions.id(relation, tid))
    }
}

impl BlockModel {
    /// Codes the data of a block reference.
    pub fn code<C: Coder>(
        self,
        coder: &mut C,
        streams: &mut BlockStreams,
        relation: &mut Relation,
        context: &mut Context<'_>,
        data: &mut [u8],
    ) {
        let main = context.main;
        let applies =
            C::ENCODING && self.is_used(coder.choices()) && self.applies(relation, main, data);
        let model = if self == BlockModel::Rows {
            self
        } else {
            let stream = streams.flag.open(coder, StreamKind::ModelFlag, 1);
            if coder.u8(stream, applies.into()) != 0 {
                self
            } else {
                BlockModel::Rows
            }
        };
        match model {
            BlockModel::Rows => streams.rows.code(coder, StreamKind::BlockDataRow, data),
            BlockModel::HeapInsert => relation.heap.record_tuple(coder, data),
            BlockModel::HeapUpdate => {
                let old = context.old_version();
                code_update(coder, streams, relation, context, data, old);
            }
            BlockModel::HeapUpdateAlone => {
                code_update(coder, streams, relation, context, data, None);
            }
            BlockModel::HeapMultiInsert => {
                code_multi_insert(coder, streams, relation, main, data);
            }
            BlockModel::BtreeInsert => relation.index.tuples(coder, data, Place::Upper),
            BlockModel::RowTuple => {
                relation
                    .index
                    .new_tuples(coder, data, &mut context.known, Keys::OfRows);
            }
            BlockModel::ListTuples => {
                relation
                    .index
                    .new_tuples(coder, data, &mut context.known, Keys::Extracted);
            }
            BlockModel::ListTuplesAlone => {
                relation
                    .index
                    .new_tuples(coder, data, &mut context.known, Keys::Any);
            }
            BlockModel::BtreeTuples => relation.index.tuples(coder, data, Place::Moved),
            BlockModel::GinInsert => code_gin_insert(coder, streams, relation, main, data),
            BlockModel::GinRecompress => relation.gin_records.recompress(coder, data),
            BlockModel::GistUpdate => code_gist_update(coder, streams, relation, context, data),
            BlockModel::GistSplit => code_gist_split(coder, streams, relation, data),
            BlockModel::Offsets => {
                let [offsets, ..] = &mut streams.fields;
                let stream = offsets.open(coder, StreamKind::Offsets, 2);
                coder.bytes(stream, data);
            }
        }
    }

    /// Whether the encoder may use the model. It may be left out to measure what it saves.
    fn is_used(self, choices: Choices) -> bool {
        let is_gin = matches!(self, BlockModel::GinInsert | BlockModel::GinRecompress);
        choices.uses(OptionalModel::BlockData) && (!is_gin || choices.uses(OptionalModel::Gin))
    }

    /// Whether the data has the form that the model needs. Encoder only.
    fn applies(self, relation: &mut Relation, main: &[u8], data: &[u8]) -> bool {
        match self {
            BlockModel::Rows => true,
            BlockModel::HeapInsert => data.len() >= RECORD_TUPLE_HEADER_LEN,
            BlockModel::HeapUpdate | BlockModel::HeapUpdateAlone => {
                main.len() > UPDATE_FLAGS_AT
                    && data.len() >= update_fields_len(main) + RECORD_TUPLE_HEADER_LEN
            }
            BlockModel::HeapMultiInsert => {
                let mut end = 0usize;
                for _ in 0..multi_insert_count(main) {
                    end = multi_insert_end(data, end.next_multiple_of(2));
                    if end > data.len() {
                        return false;
                    }
                }
                main.len() >= MULTI_INSERT_COUNT_AT + 2
            }
            BlockModel::RowTuple
            | BlockModel::BtreeInsert
            | BlockModel::ListTuples
            | BlockModel::ListTuplesAlone
            | BlockModel::BtreeTuples => are_tuples(data),
            BlockModel::GinInsert if is_gin_data(main) => relation.gin_records.is_recompress(data),
            BlockModel::GinInsert => data.len() >= INSERT_ENTRY_HEADER_LEN,
            BlockModel::GinRecompress => relation.gin_records.is_recompress(data),
            BlockModel::GistUpdate => data.get(gist_deleted_len(main)..).is_some_and(are_tuples),
            BlockModel::GistSplit => data.get(GIST_COUNT_LEN..).is_some_and(are_tuples),
            BlockModel::Offsets => data.len().is_multiple_of(2),
        }
    }
}

/// Whether the record inserts into a posting tree (`GIN_INSERT_ISDATA` in ginxlogInsert's flags).
fn is_gin_data(main: &[u8]) -> bool {
    get_u16(main, 0) & 1 != 0
}

fn code_gin_insert<C: Coder>(
    coder: &mut C,
    streams: &mut BlockStreams,
    relation: &mut Relation,
    main: &[u8],
    data: &mut [u8],
) {
    if is_gin_data(main) {
        return relation.gin_records.recompress(coder, data);
    }
    let [offset, is_delete, ..] = &mut streams.fields;
    let stream = offset.open(coder, StreamKind::Offsets, 2);
    coder.u16_at(stream, data, 0);
    let stream = is_delete.open(coder, StreamKind::MainField, 2);
    coder.u16_at(stream, data, 2);
    let end = data.len();
    let tuple = coder.part(data, INSERT_ENTRY_HEADER_LEN, end);
    if relation.gin_records.entry(coder, tuple) != tuple.len() {
        coder.fail();
    }
}

/// Length of the line pointer numbers before the tuples, in bytes (ntodelete in
/// gistxlogPageUpdate).
fn gist_deleted_len(main: &[u8]) -> usize {
    2 * usize::from(get_u16(main, 0))
}

fn code_gist_update<C: Coder>(
    coder: &mut C,
    streams: &mut BlockStreams,
    relation: &mut Relation,
    context: &mut Context<'_>,
    data: &mut [u8],
) {
    let deleted_len = gist_deleted_len(context.main);
    let [offsets, ..] = &mut streams.fields;
    let stream = offsets.open(coder, StreamKind::Offsets, 2);
    let deleted = coder.part(data, 0, deleted_len);
    coder.bytes(stream, deleted);
    let end = data.len();
    let tuples = coder.part(data, deleted_len, end);
    relation
        .index
        .new_tuples(coder, tuples, &mut context.known, Keys::OfRows);
}

fn code_gist_split<C: Coder>(
    coder: &mut C,
    streams: &mut BlockStreams,
    relation: &mut Relation,
    data: &mut [u8],
) {
    let [count, ..] = &mut streams.fields;
    let stream = count.open(coder, StreamKind::MainField, GIST_COUNT_LEN);
    coder.u32_at(stream, data, 0);
    let end = data.len();
    let tuples = coder.part(data, GIST_COUNT_LEN, end);
    relation.index.tuples(coder, tuples, Place::Moved);
}

fn code_update<C: Coder>(
    coder: &mut C,
    streams: &mut BlockStreams,
    relation: &mut Relation,
    context: &mut Context<'_>,
    data: &mut [u8],
    old: Option<Version<'_>>,
) {
    let fields_len = update_fields_len(context.main);
    for at in (0..fields_len).step_by(2) {
        let stream = streams.fields[at / 2].open(coder, StreamKind::TupleLen, 2);
        coder.u16_at(stream, data, at);
    }
    let kept = update_kept(context.main, data);
    let end = data.len();
    let tuple = coder.part(data, fields_len, end);
    let heap = &mut relation.heap;
    let rows = TransactionRows {
        rows: context.known.rows,
        newest: context.known.newest,
    };
    heap.record_version(coder, context.scratch, tuple, (old, kept), rows);
}

fn code_multi_insert<C: Coder>(
    coder: &mut C,
    streams: &mut BlockStreams,
    relation: &mut Relation,
    main: &[u8],
    data: &mut [u8],
) {
    let [len, padding, ..] = &mut streams.fields;
    let mut at = 0usize;
    for _ in 0..multi_insert_count(main) {
        // Tuples begin at even offsets. PostgreSQL does not clear the padding.
        if !at.is_multiple_of(2) {
            let stream = padding.open(coder, StreamKind::ItemPadding, 1);
            coder.u8_at(stream, data, at);
            at += 1;
        }
        let stream = len.open(coder, StreamKind::TupleLen, 2);
        coder.u16_at(stream, data, at);
        let end = multi_insert_end(data, at);
        let tuple = coder.part(data, at + 2, end);
        if coder.failed() {
            return;
        }
        relation.heap.record_tuple(coder, tuple);
        at = end;
    }
    let end = data.len();
    let rest = coder.part(data, at, end);
    streams.rows.code(coder, StreamKind::BlockDataRow, rest);
}
