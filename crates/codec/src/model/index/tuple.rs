//! Index tuples in records and on pages, with the posting lists of B-trees.

use std::sync::Arc;

use super::expected_entries::ExpectedEntries;
use super::extracted_key::Sources;
use super::known_rows::KnownRows;
use super::leaf_keys::LeafKeys;
use super::recipe::Recipes;
use super::tid_run::TidRun;
use crate::model::rows::recent::{RecentRows, RowNumber};
use crate::model::table::entries::Entries;
use crate::model::table::index_tuple::{
    ALT_TID, HAS_NULLS, INDEX_TUPLE_HEADER_LEN, SIZE_MASK, posting_list,
};
use crate::model::values::tid::{TID_LEN, Tid, block_bytes, read_block, read_tid};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Care, Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// The tuple is for the expected row ([`RecentRows::expected`]).
const EXPECTED_ROW: u8 = 0;
/// The tuple is for an unknown row.
const UNKNOWN_ROW: u8 = 1;
/// The tuple is for the same row as the index's last new tuple.
const SAME_ROW: u8 = 2;
/// The tuple is for the transaction's newest row. `NEWEST_ROW + n` is the row `n` before it.
const NEWEST_ROW: u8 = 3;
/// With [`Care::Quick`], the encoder looks back over this number of rows.
const QUICK_ROWS: u8 = 12;

/// Where an index tuple is. Each place has streams of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a leaf page.
    Leaf = 0,
    /// On an inner page.
    Inner = 1,
    /// In a record that inserts it into a leaf page.
    Record = 2,
    /// In a record that moves it to another page.
    Moved = 3,
    /// In a record that inserts it into an inner page.
    Upper = 4,
}

/// Where the keys of new index entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They are values of the rows.
    OfRows,
    /// GIN extracted them from values of the rows.
    Extracted,
    /// Unknown.
    Any,
}

#[derive(Debug, Default)]
pub(super) struct PlaceStreams {
    pub(super) block: LazyStream,
    pub(super) offset: LazyStream,
    pub(super) info: LazyStream,
    pub(super) keys: RowsByLen,
    pub(super) run: TidRun,
}

/// The streams of the tuples of one index.
#[derive(Debug, Default)]
pub struct IndexStreams {
    pub(super) places: [PlaceStreams; 5],
    posting_block: LazyStream,
    posting_offset: LazyStream,
    row: LazyStream,
    last_row: RowNumber,
    recipes: Recipes,
    sources: Sources,
    pub(super) expected: Option<Box<ExpectedEntries>>,
    pub(super) leaf_keys: LeafKeys,
}

impl PlaceStreams {
    /// Codes the target at the offset `at`.
    fn code_target<C: Coder>(&mut self, coder: &mut C, bytes: &mut [u8], at: usize) -> Tid {
        let stream = self.offset.open(coder, StreamKind::IndexTid, 2);
        let offset = coder.u16_at(stream, bytes, at + 4);
        let stream = self.block.open(coder, StreamKind::IndexTid, 4);
        let block = code_block(coder, stream, bytes, at);
        (block, offset)
    }
}

impl IndexStreams {
    /// The streams of an index of which the entries are known.
    pub fn of_entries(entries: Arc<Entries>) -> IndexStreams {
        IndexStreams {
            expected: Some(Box::new(ExpectedEntries::new(entries))),
            ..IndexStreams::default()
        }
    }

    /// Codes the tuple of a record at the front of `tuple` and returns its length. The encoder has
    /// checked the length with [`tuple_len`]. The decoder's slice is zeros, and may be longer.
    fn tuple<C: Coder>(&mut self, coder: &mut C, tuple: &mut [u8], place: Place) -> usize {
        let streams = &mut self.places[place as usize];
        let stream = streams.info.open(coder, StreamKind::IndexInfo, 2);
        let info = coder.u16_at(stream, tuple, 6);
        let end = tuple_len(tuple).unwrap_or_else(|| {
            coder.fail();
            INDEX_TUPLE_HEADER_LEN
        });
        let (block, offset) = streams.code_target(coder, tuple, 0);
        let list = posting_list(info, offset, block, end).unwrap_or((end, end));
        let tuple = coder.part(tuple, 0, end);
        self.code_key(coder, tuple, place, list);
        end
    }

    /// Codes a tuple from its key on. Its posting list has this start and this end.
    pub(super) fn code_key<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &mut [u8],
        place: Place,
        (key_end, list_end): (usize, usize),
    ) {
        let keys = &mut self.places[place as usize].keys;
        let key = coder.part(tuple, INDEX_TUPLE_HEADER_LEN, key_end);
        keys.code(coder, StreamKind::IndexKey, key);
        self.posting_tids(coder, tuple, (key_end, list_end));
        let end = tuple.len();
        let rest = coder.part(tuple, list_end, end);
        let keys = &mut self.places[place as usize].keys;
        keys.code(coder, StreamKind::IndexKey, rest);
    }

    /// Codes the tuples that fill `bytes`. The encoder has checked them with [`are_tuples`].
    pub fn tuples<C: Coder>(&mut self, coder: &mut C, bytes: &mut [u8], place: Place) {
        let mut at = 0;
        while at < bytes.len() && !coder.failed() {
            at += self.tuple(coder, &mut bytes[at..], place);
        }
    }

    /// Codes the tuples of new index entries that fill `bytes`.
    pub fn new_tuples<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        known: &mut KnownRows<'_>,
        keys: Keys,
    ) {
        let mut at = 0;
        while at < bytes.len() && !coder.failed() {
            at += self.new_tuple(coder, &mut bytes[at..], known, keys);
        }
    }

    fn new_tuple<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &mut [u8],
        known: &mut KnownRows<'_>,
        keys: Keys,
    ) -> usize {
        let KnownRows { rows, newest, .. } = *known;
        let Some(number) = self.code_row(coder, tuple, rows, newest) else {
            return self.tuple(coder, tuple, Place::Record);
        };
        self.last_row = number;
        let Some(part) = rows.get(number) else {
            coder.fail();
            return tuple.len();
        };
        let (block, line_pointer) = part.tid;
        coder.put(tuple, 0, block_bytes(block));
        coder.put(tuple, 4, line_pointer.to_le_bytes());
        if keys == Keys::Extracted
            && let Some(end) = self.sources.code(coder, known, number, tuple)
        {
            return end;
        }
        let streams = &mut self.places[Place::Record as usize];
        let stream = streams.info.open(coder, StreamKind::IndexInfo, 2);
        let info = coder.u16_at(stream, tuple, 6);
        let end = tuple_len(tuple).unwrap_or_else(|| {
            coder.fail();
            INDEX_TUPLE_HEADER_LEN
        });
        let key = coder.part(tuple, INDEX_TUPLE_HEADER_LEN, end);
        let is_made = keys == Keys::OfRows && info & (HAS_NULLS | ALT_TID) == 0 && {
            // The record of an update may lack what its row has kept; the page has it.
            let table = known.table.filter(|_| !part.is_whole());
            let row = table.and_then(|table| table.row(part.tid)).unwrap_or(part);
            let sees_all = coder.choices().uses(OptionalModel::WholeRows);
            let seen = (!sees_all).then_some(&part);
            self.recipes.code(coder, &row, seen, key)
        };
        if !is_made {
            streams.keys.code(coder, StreamKind::IndexKey, key);
        }
        end
    }

    /// Codes which row a tuple is for. Returns `None` if that row is unknown.
    fn code_row<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &[u8],
        rows: &RecentRows,
        newest: RowNumber,
    ) -> Option<RowNumber> {
        let expected = rows.expected(newest, self.last_row);
        let mut code = UNKNOWN_ROW;
        if C::ENCODING && coder.choices().uses(OptionalModel::NewRows) {
            let tid = read_tid(tuple, 0);
            let is_for = |number| rows.is_at(number, tid);
            code = if is_for(expected) {
                EXPECTED_ROW
            } else if is_for(self.last_row) {
                SAME_ROW
            } else {
                let last = match coder.choices().care {
                    Care::Quick => NEWEST_ROW + QUICK_ROWS,
                    Care::Full => u8::MAX,
                };
                let mut codes = (NEWEST_ROW..=last).zip(rows.back(newest));
                let found = codes.find(|(_, number)| is_for(*number));
                found.map_or(UNKNOWN_ROW, |(code, _)| code)
            };
        }
        let stream = self.row.open(coder, StreamKind::IndexRow, 1);
        match coder.u8(stream, code) {
            EXPECTED_ROW => Some(expected),
            UNKNOWN_ROW => None,
            SAME_ROW => Some(self.last_row),
            code => {
                let number = rows.back(newest).nth(usize::from(code - NEWEST_ROW));
                Some(number.unwrap_or(0))
            }
        }
    }

    /// Codes the targets of a posting list with this start and this end.
    pub(super) fn posting_tids<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &mut [u8],
        (start, end): (usize, usize),
    ) {
        for at in (start..end).step_by(TID_LEN) {
            let stream = self.posting_block.open(coder, StreamKind::PostingTid, 4);
            code_block(coder, stream, tuple, at);
            let stream = self.posting_offset.open(coder, StreamKind::PostingTid, 2);
            coder.u16_at(stream, tuple, at + 4);
        }
    }
}

/// The length in a tuple's header, if the slice has that many bytes.
pub fn tuple_len(tuple: &[u8]) -> Option<usize> {
    let len = usize::from(get_u16(tuple, 6) & SIZE_MASK);
    (len >= INDEX_TUPLE_HEADER_LEN && len <= tuple.len()).then_some(len)
}

/// Whether the bytes are a sequence of whole tuples.
pub fn are_tuples(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(len) = tuple_len(rest) {
        rest = &rest[len..];
    }
    rest.is_empty()
}

/// Codes a `BlockIdData` (the high `u16`, then the low one) as one `u32`.
fn code_block<C: Coder>(
    coder: &mut C,
    stream: crate::streams::coder::StreamId,
    bytes: &mut [u8],
    at: usize,
) -> u32 {
    let block = coder.u32(stream, read_block(bytes, at));
    coder.put(bytes, at, block_bytes(block));
    block
}
