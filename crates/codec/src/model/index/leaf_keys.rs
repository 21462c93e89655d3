//! Keys on leaf pages that follow from the rows to which the tuples point, where earlier WAL has left
//! the pages of the table.

use super::item_spans::{ItemSpans, len_of};
use super::known_table::KnownTable;
use super::recipe::Recipes;
use super::tuple::{IndexStreams, Place, posting_list};
use crate::model::table::index_tuple::{ALT_TID, HAS_NULLS, INDEX_TUPLE_HEADER_LEN};
use crate::model::values::tid::read_tid;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;

/// Keys are told from rows where so many bytes of each are others than in the key before, in the
/// mean. Of keys that are more alike, plain coding makes less than recipes would.
const CHANGED_MIN: usize = 3;
/// What a key that no recipe makes adds to the misses of an index. One that was made takes 1 off.
const MISS: u32 = 4;
/// With more misses, an index is none of values of rows, or of too few to repay the search.
const MISSES_MAX: u32 = 64 * MISS;

/// The streams of keys that are told from rows.
#[derive(Debug, Default)]
pub(super) struct LeafKeys {
    are_told: LazyStream,
    recipes: Recipes,
    /// How often keys were not made of their rows. Encoder only.
    misses: u32,
}

impl LeafKeys {
    /// Codes whether the keys of a page are told from rows.
    pub(super) fn code_are_told<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &[u8],
        spans: &ItemSpans,
        infos: &[u16],
    ) -> bool {
        let are_told = C::ENCODING
            && coder.choices().uses(OptionalModel::LeafKeys)
            && coder.choices().uses(OptionalModel::Recipes)
            && self.misses <= MISSES_MAX
            && changed_bytes(bytes, spans, infos) >= CHANGED_MIN * infos.len();
        let stream = self.are_told.open(coder, StreamKind::ModelFlag, 1);
        match coder.u8(stream, are_told.into()) {
            0 => false,
            1 => true,
            _ => {
                coder.fail();
                false
            }
        }
    }
}

/// How many bytes of the keys are others than those at the same offset in the key before.
fn changed_bytes(bytes: &[u8], spans: &ItemSpans, infos: &[u16]) -> usize {
    let mut before: &[u8] = &[];
    let mut changed = 0;
    for (&start, &info) in spans.starts.iter().zip(infos) {
        let tuple = bytes.get(start..start + len_of(info)).unwrap_or_default();
        let (key_end, _) = list_of(tuple, info).unwrap_or((tuple.len(), 0));
        let key = tuple
            .get(INDEX_TUPLE_HEADER_LEN..key_end)
            .unwrap_or_default();
        changed += key.len().saturating_sub(before.len());
        changed += key.iter().zip(before).filter(|(a, b)| a != b).count();
        before = key;
    }
    changed
}

/// Start and end of a tuple's posting list, if it has one.
fn list_of(tuple: &[u8], info: u16) -> Option<(usize, usize)> {
    let (block, offset) = read_tid(tuple, 0);
    posting_list(info, offset, block, tuple.len())
}

impl IndexStreams {
    /// Codes the tuples of a leaf page from their keys on: those keys that follow from rows as recipes.
    pub(super) fn code_told_keys<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        (spans, infos): (&ItemSpans, &[u16]),
        table: &KnownTable<'_>,
    ) {
        for (&start, &info) in spans.starts.iter().zip(infos) {
            if coder.failed() {
                return;
            }
            let tuple = coder.part(bytes, start, start + len_of(info));
            let end = tuple.len();
            let list = list_of(tuple, info);
            let (key_end, list_end) = list.unwrap_or((end, end));
            self.posting_tids(coder, tuple, (key_end, list_end));
            let first = match list {
                Some((at, list_end)) if at < list_end => Some(read_tid(tuple, at)),
                None if info & ALT_TID == 0 => Some(read_tid(tuple, 0)),
                _ => None,
            };
            let first = first.filter(|_| info & HAS_NULLS == 0);
            let key = coder.part(tuple, INDEX_TUPLE_HEADER_LEN, key_end);
            let is_made = first.and_then(|tid| table.row(tid)).is_some_and(|row| {
                let is_made = self.leaf_keys.recipes.code(coder, &row, None, key);
                let misses = &mut self.leaf_keys.misses;
                *misses = match is_made {
                    true => misses.saturating_sub(1),
                    false => misses.saturating_add(MISS),
                };
                is_made
            });
            let keys = &mut self.places[Place::Leaf as usize].keys;
            if !is_made {
                keys.code(coder, StreamKind::IndexKey, key);
            }
            let rest = coder.part(tuple, list_end, end);
            keys.code(coder, StreamKind::IndexKey, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walzip_pgformat::PAGE_SIZE;
    use walzip_pgformat::wal::{RelFileLocator, max_align};
    use walzip_replay::{PageCache, PageKey};

    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::model::index::page_tuples::TupleFields;
    use crate::model::table::index_tuple::IS_POSTING;
    use crate::model::values::tid::{TID_LEN, tid_bytes};
    use crate::streams::coder::Choices;
    use crate::streams::{StreamReader, StreamWriter};

    const TABLE: RelFileLocator = RelFileLocator {
        tablespace: 1663,
        database: 5,
        relation: 16384,
    };

    /// A page of a table with rows at the line pointers from 1 on, each of these values, and a line
    /// pointer after them that leads to the first.
    fn with_rows(cache: &mut PageCache, block: u32, rows: &[Vec<u8>]) {
        let page = cache.get_or_new(PageKey {
            locator: TABLE,
            fork: 0,
            block,
        });
        let mut upper = PAGE_SIZE;
        for (number, values) in rows.iter().enumerate() {
            let len = 24 + values.len();
            upper -= max_align(len);
            page[upper + 22] = 24;
            page[upper + 24..upper + len].copy_from_slice(values);
            let line = upper as u32 | 1 << 15 | (len as u32) << 17;
            page[24 + 4 * number..][..4].copy_from_slice(&line.to_le_bytes());
        }
        let redirect = 1_u32 | 2 << 15;
        page[24 + 4 * rows.len()..][..4].copy_from_slice(&redirect.to_le_bytes());
        let lower = 24 + 4 * (rows.len() as u16 + 1);
        page[12..14].copy_from_slice(&lower.to_le_bytes());
        page[14..16].copy_from_slice(&(upper as u16).to_le_bytes());
        page[16..18].copy_from_slice(&(PAGE_SIZE as u16).to_le_bytes());
    }

    /// An index tuple of a key and of rows: a posting list if there is not just one.
    fn tuple(key: &[u8], rows: &[(u32, u16)], flags: u16) -> Vec<u8> {
        let mut tuple = vec![0; INDEX_TUPLE_HEADER_LEN];
        tuple.extend_from_slice(key);
        let mut info = flags;
        match rows {
            [row] => tuple[..TID_LEN].copy_from_slice(&tid_bytes(*row)),
            rows => {
                let list = (tuple.len() as u32, rows.len() as u16 | IS_POSTING);
                tuple[..TID_LEN].copy_from_slice(&tid_bytes(list));
                info |= ALT_TID;
                rows.iter().for_each(|row| tuple.extend(tid_bytes(*row)));
                tuple.resize(max_align(tuple.len()), 0);
            }
        }
        info |= tuple.len() as u16;
        tuple[6..8].copy_from_slice(&info.to_le_bytes());
        tuple
    }

    fn code(tuples: &[Vec<u8>], cache: &PageCache, choices: Choices) -> StreamWriter {
        let mut spans = ItemSpans::default();
        let mut bytes = Vec::new();
        for tuple in tuples {
            spans.starts.push(bytes.len());
            spans.lens.push(tuple.len());
            bytes.extend_from_slice(tuple);
            bytes.resize(max_align(bytes.len()), 0);
        }
        let mut coder = StreamWriter::new(choices);
        let table = Some(KnownTable::new(cache, TABLE));
        let fields = &mut TupleFields::default();
        IndexStreams::default().page_tuples(
            &mut coder,
            &mut bytes,
            &mut spans,
            fields,
            Place::Leaf,
            table,
        );
        assert!(!coder.failed());
        coder
    }

    /// The tuples that a decoder makes; `None` where it fails.
    fn decode(
        mut coder: StreamReader<'_>,
        count: usize,
        cache: &PageCache,
    ) -> Option<Vec<Vec<u8>>> {
        let mut spans = ItemSpans::default();
        spans.starts.resize(count, 0);
        spans.lens.resize(count, 0);
        let mut bytes = vec![0; PAGE_SIZE];
        let table = Some(KnownTable::new(cache, TABLE));
        let fields = &mut TupleFields::default();
        IndexStreams::default().page_tuples(
            &mut coder,
            &mut bytes,
            &mut spans,
            fields,
            Place::Leaf,
            table,
        );
        let spans = spans.starts.iter().zip(&spans.lens);
        let tuples = spans.map(|(start, len)| bytes[*start..start + len].to_vec());
        (!coder.failed() && coder.exhausted()).then(|| tuples.collect())
    }

    fn come_back(tuples: &[Vec<u8>], cache: &PageCache, choices: Choices) -> usize {
        let content = code(tuples, cache, choices).into_content().bytes;
        let len = content.len();
        let reader = StreamReader::of_content(content, FormatVersion::CURRENT).expect("streams");
        assert_eq!(decode(reader, tuples.len(), cache).as_deref(), Some(tuples));
        len
    }

    fn values(seed: u64, len: usize) -> Vec<u8> {
        let words = (seed.wrapping_mul(8)..)
            .map(|number| number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        words.flat_map(u64::to_be_bytes).take(len).collect()
    }

    #[test]
    fn keys_of_known_rows_are_not_stored() {
        let mut cache = PageCache::new(4);
        let rows: Vec<Vec<u8>> = (0..40).map(|seed| values(seed, 40)).collect();
        with_rows(&mut cache, 3, &rows);
        let key = |row: usize| &rows[row][8..24];
        let mut tuples: Vec<Vec<u8>> = (0..40)
            .map(|row| tuple(key(row), &[(3, row as u16 + 1)], 0))
            .collect();
        tuples.push(tuple(key(0), &[(3, 41), (3, 2), (7, 7)], 0));
        let told = come_back(&tuples, &cache, Choices::default());
        let without = Choices {
            without: Choices::default().without.with(OptionalModel::LeafKeys),
            ..Choices::default()
        };
        let stored = come_back(&tuples, &cache, without);
        assert!(told + 40 * 15 < stored, "{told} and {stored} bytes");
        let other = come_back(&tuples, &PageCache::new(4), Choices::default());
        assert!(other + 8 > stored, "{other} and {stored} bytes");
    }

    proptest! {
        #[test]
        fn any_tuples_come_back(
            tuples in prop::collection::vec(
                (0..12_u64, 0..5_usize, prop::collection::vec((2..5_u32, 0..9_u16), 0..4), 0..8_u16),
                0..40,
            ),
            row_len in 0..60_usize,
        ) {
            let mut cache = PageCache::new(4);
            for block in 3..5 {
                let rows: Vec<_> = (0..6).map(|row| values(row, row_len)).collect();
                with_rows(&mut cache, block, &rows);
            }
            let tuples: Vec<_> = tuples
                .iter()
                .map(|(seed, words, rows, flags)| {
                    let row = values(*seed, 48);
                    tuple(&row[8..8 + 8 * words], rows, flags << 13)
                })
                .collect();
            come_back(&tuples, &cache, Choices::default());
        }
    }

    #[test]
    fn the_example_of_the_format_is_decoded() {
        let mut cache = PageCache::new(4);
        let row: Vec<u8> = (0xA0..0xC0).collect();
        with_rows(&mut cache, 3, &[vec![0; 8], row.clone()]);
        let reader = format_example::reader("model/index.md", "keys of known rows");
        let other: Vec<u8> = (1..17).collect();
        let expected = [
            tuple(&row[8..24], &[(3, 2)], 0),
            tuple(&other, &[(9, 1)], 0),
        ];
        assert_eq!(decode(reader, 2, &cache).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn other_marks_are_refused() {
        for (told, is_good) in [(0, true), (1, true), (2, false), (255, false)] {
            let mut writer = StreamWriter::default();
            for (kind, bytes) in [
                (StreamKind::IndexInfo, &[8_u8, 0][..]),
                (StreamKind::TidRun, &[255]),
                (StreamKind::IndexTid, &[1, 0]),
                (StreamKind::IndexTid, &[9, 0, 0, 0]),
                (StreamKind::ModelFlag, &[told]),
            ] {
                let stream = writer.open(kind, 1);
                writer.append(stream, bytes);
            }
            let content = writer.into_content().bytes;
            let reader =
                StreamReader::of_content(content, FormatVersion::CURRENT).expect("streams");
            let decoded = decode(reader, 1, &PageCache::new(1));
            assert_eq!(decoded.is_some(), is_good, "{told}");
        }
    }
}
