//! GIN (access/ginblock.h, access/ginxlog.h): entry tuples, posting tree leaves, and the
//! records that change them.
//!
//! An entry tuple is an index tuple. If the top bit of t_tid's block is set, a posting list
//! follows the key: the block's other bits are the list's offset in the tuple, and t_tid's offset
//! is its number of TIDs.

use walzip_pgformat::posting_list::{LIST_HEADER_LEN, read_list, short_align};
use walzip_pgformat::wal::max_align;

use super::entry_fields::EntryFields;
use super::posting_list::ListStreams;
use crate::model::index::item_spans::ItemSpans;
use crate::model::table::index_tuple::{INDEX_TUPLE_HEADER_LEN, SIZE_MASK};
use crate::streams::coder::{Coder, LazyStream, get_u16};
use crate::streams::kind::StreamKind;
use crate::streams::rows_by_len::RowsByLen;

/// `GIN_ITUP_COMPRESSED`, the high half of the block number.
pub(super) const COMPRESSED_HIGH: u16 = 0x8000;
/// Size of a `ginxlogInsertEntry` without its tuple, in bytes.
pub const INSERT_ENTRY_HEADER_LEN: usize = 4;

/// An entry without a posting list.
pub(super) const PLAIN: u8 = 0;
/// An entry with a posting list that can be written again byte for byte.
pub(super) const POSTING: u8 = 1;
/// An item whose t_info does not have its length.
pub(super) const ANY: u8 = 2;

/// `GIN_SEGMENT_INSERT`, `GIN_SEGMENT_REPLACE`, `GIN_SEGMENT_ADDITEMS`.
const SEGMENT_INSERT: u8 = 2;
const SEGMENT_REPLACE: u8 = 3;
const SEGMENT_ADDITEMS: u8 = 4;

/// The streams of one GIN index. Its pages have one set, its records another.
#[derive(Debug, Default)]
pub struct GinStreams {
    pub(super) form: LazyStream,
    pub(super) info: LazyStream,
    pub(super) block: LazyStream,
    pub(super) count: LazyStream,
    pub(super) start: LazyStream,
    pub(super) keys: RowsByLen,
    any_len: LazyStream,
    any: RowsByLen,
    pub(super) lists: ListStreams,
    segments: LazyStream,
    pub(super) scratch: Vec<u64>,
    /// Memory to work with: the entry of a record.
    pub(super) single: Option<Box<(ItemSpans, EntryFields)>>,
}

impl GinStreams {
    /// Codes an entry without a list after its t_info and returns its length.
    pub(super) fn plain_after_info<C: Coder>(
        &mut self,
        coder: &mut C,
        tuple: &mut [u8],
        info: u16,
    ) -> usize {
        coder.put(tuple, 6, info.to_le_bytes());
        let len = usize::from(info & SIZE_MASK);
        let stream = self.block.open(coder, StreamKind::IndexTid, 6);
        let tid = coder.part(tuple, 0, 6);
        coder.bytes(stream, tid);
        let key = coder.part(tuple, INDEX_TUPLE_HEADER_LEN, len);
        self.keys.code(coder, StreamKind::IndexKey, key);
        len
    }

    pub(super) fn any<C: Coder>(&mut self, coder: &mut C, tuple: &mut [u8]) -> usize {
        let stream = self.any_len.open(coder, StreamKind::TupleLen, 2);
        let len = usize::from(coder.u16(stream, tuple.len() as u16));
        let bytes = coder.part(tuple, 0, len);
        self.any.code(coder, StreamKind::ItemBody, bytes);
        len
    }

    pub(super) fn form_of(&mut self, tuple: &[u8]) -> u8 {
        let size = usize::from(get_u16(tuple, 6) & SIZE_MASK);
        if size != tuple.len() || size < INDEX_TUPLE_HEADER_LEN {
            ANY
        } else if self.has_list(tuple).is_some() {
            POSTING
        } else {
            PLAIN
        }
    }

    /// `Some` if the tuple has a posting list that can be written again byte for byte, and only
    /// zeros after it.
    fn has_list(&mut self, tuple: &[u8]) -> Option<()> {
        let start = usize::from(get_u16(tuple, 2));
        if get_u16(tuple, 0) != COMPRESSED_HIGH || start < INDEX_TUPLE_HEADER_LEN {
            return None;
        }
        let len = start + read_list(tuple.get(start..)?, &mut self.scratch)?;
        let fits = self.scratch.len() == usize::from(get_u16(tuple, 4))
            && max_align(len) == tuple.len()
            && tuple[len..].iter().all(|&byte| byte == 0);
        fits.then_some(())
    }

    /// Codes the posting lists that fill the slice, which PostgreSQL calls segments. The encoder
    /// has checked them with [`GinStreams::are_segments`].
    pub fn segments<C: Coder>(&mut self, coder: &mut C, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() && !coder.failed() {
            at += self.segment(coder, &mut bytes[at..]);
        }
    }

    fn segment<C: Coder>(&mut self, coder: &mut C, bytes: &mut [u8]) -> usize {
        let mut count = 0;
        if C::ENCODING {
            read_list(bytes, &mut self.scratch);
            count = self.scratch.len();
        }
        let stream = self.segments.open(coder, StreamKind::IndexInfo, 2);
        let count = coder.u16(stream, count as u16);
        self.list(coder, bytes, count)
    }

    /// Codes a list of `count` TIDs. The encoder has read them into `scratch`.
    fn list<C: Coder>(&mut self, coder: &mut C, bytes: &mut [u8], count: u16) -> usize {
        self.lists
            .code(coder, bytes, usize::from(count), &mut self.scratch)
    }

    /// Whether the bytes are a sequence of whole segments.
    pub fn are_segments(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(len) = read_list(rest, &mut self.scratch) {
            rest = &rest[len..];
        }
        rest.is_empty()
    }

    /// Codes `ginxlogRecompressDataLeaf`: nactions u16, then for each action segno u8, type u8,
    /// and, depending on the type, a segment, or nitems u16 and the TIDs, or nothing.
    pub fn recompress<C: Coder>(&mut self, coder: &mut C, data: &mut [u8]) {
        let stream = self.any_len.open(coder, StreamKind::TupleLen, 2);
        let actions = coder.u16_at(stream, data, 0);
        let mut at = 2;
        for _ in 0..actions {
            if coder.failed() {
                return;
            }
            let stream = self.info.open(coder, StreamKind::IndexInfo, 2);
            let [_, action] = coder.u16_at(stream, data, at).to_le_bytes();
            at += 2;
            let end = data.len();
            match action {
                SEGMENT_INSERT | SEGMENT_REPLACE => {
                    let segment = coder.part(data, at, end);
                    at += self.segment(coder, segment);
                }
                SEGMENT_ADDITEMS => {
                    let stream = self.count.open(coder, StreamKind::IndexInfo, 2);
                    let items = usize::from(coder.u16_at(stream, data, at));
                    let tids = coder.part(data, at + 2, at + 2 + items * 6);
                    let stream = self.block.open(coder, StreamKind::IndexTid, 6);
                    coder.bytes(stream, tids);
                    at += 2 + items * 6;
                }
                _ => {}
            }
        }
        if at != data.len() {
            coder.fail();
        }
    }

    /// Whether the data has the form that [`GinStreams::recompress`] codes.
    pub fn is_recompress(&mut self, data: &[u8]) -> bool {
        let mut at = 2;
        for _ in 0..get_u16(data, 0) {
            let Some(&action) = data.get(at + 1) else {
                return false;
            };
            at += 2;
            match action {
                SEGMENT_INSERT | SEGMENT_REPLACE => {
                    let list = data
                        .get(at..)
                        .and_then(|rest| read_list(rest, &mut self.scratch));
                    let Some(len) = list else { return false };
                    at += len;
                }
                SEGMENT_ADDITEMS => at += 2 + usize::from(get_u16(data, at)) * 6,
                _ => {}
            }
        }
        at == data.len() && data.len() >= 2
    }
}

const _: () = assert!(short_align(LIST_HEADER_LEN) == LIST_HEADER_LEN);
