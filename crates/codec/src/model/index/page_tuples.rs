//! The index tuples of a page, coded field by field: first t_info of all, then their targets, then
//! their keys. Each stream gets the same as if the tuples were coded one by one.

use super::item_spans::{ItemSpans, len_of};
use super::known_table::KnownTable;
use super::leaf_keys::list_of;
use super::tid_run::TidRun;
use super::tuple::{IndexStreams, Place, PlaceStreams};
use crate::model::table::index_tuple::{ALT_TID, HAS_NULLS, INDEX_TUPLE_HEADER_LEN, INFO_AT};
use crate::model::values::tid::{block_bytes, read_tid};
use crate::streams::coder::{Choices, Coder, get_u16};
use crate::streams::kind::StreamKind;

/// The fields of the tuples of a page. Memory to work with.
#[derive(Debug, Default)]
pub struct TupleFields {
    /// The t_info of each tuple.
    infos: Vec<u16>,
    /// For each target that may be a step of a run, the step's code.
    codes: Vec<u8>,
    /// The block and the line pointer of each target that is no step.
    strays: (Vec<u32>, Vec<u16>),
}

impl IndexStreams {
    /// Codes the tuples of a page. The encoder has checked the length of each, and passes where
    /// they are in `bytes`. The decoder's bytes are zeros, and it finds the places.
    pub fn page_tuples<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        tuples: &mut TupleFields,
        place: Place,
        table: Option<KnownTable<'_>>,
    ) {
        let expected = self.expected.take_if(|_| place == Place::Leaf);
        let Some(mut expected) = expected else {
            return self.unexpected_tuples(coder, bytes, spans, tuples, place, table);
        };
        expected.code(coder, bytes, spans, |coder, bytes, spans| {
            self.unexpected_tuples(coder, bytes, spans, tuples, place, table);
        });
        self.expected = Some(expected);
    }

    fn unexpected_tuples<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        spans: &mut ItemSpans,
        tuples: &mut TupleFields,
        place: Place,
        table: Option<KnownTable<'_>>,
    ) {
        let streams = &mut self.places[place as usize];
        let starts = spans.starts.iter();
        tuples.infos.clear();
        tuples
            .infos
            .extend(starts.map(|&start| get_u16(bytes, start + INFO_AT)));
        if tuples.infos.is_empty() {
            return;
        }
        let stream = streams.info.open(coder, StreamKind::IndexInfo, 2);
        coder.u16s(stream, &mut tuples.infos);
        if !C::ENCODING {
            if coder.failed() || spans.place(&tuples.infos, bytes.len()).is_none() {
                return coder.fail();
            }
            for (start, info) in spans.starts.iter().zip(&tuples.infos) {
                coder.put(bytes, start + INFO_AT, info.to_le_bytes());
            }
        }
        streams.code_targets(coder, bytes, (spans, tuples), place == Place::Leaf);
        let infos = &tuples.infos;
        match table.filter(|_| place == Place::Leaf) {
            Some(table) if self.leaf_keys.code_are_told(coder, bytes, spans, infos) => {
                self.code_told_keys(coder, bytes, (spans, infos), &table);
            }
            _ => self.code_keys(coder, bytes, (spans, tuples), place),
        }
    }

    fn code_keys<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        (spans, tuples): (&ItemSpans, &TupleFields),
        place: Place,
    ) {
        let mut starts = spans.starts.as_slice();
        for same in tuples.infos.chunk_by(|a, b| a == b) {
            let (these, others) = starts.split_at(same.len());
            starts = others;
            let info = same[0];
            if info & ALT_TID == 0 {
                let keys = &mut self.places[place as usize].keys;
                let key_len = len_of(info) - INDEX_TUPLE_HEADER_LEN;
                let at = INDEX_TUPLE_HEADER_LEN;
                keys.code_all(coder, StreamKind::IndexKey, bytes, these, at, key_len);
                continue;
            }
            for &start in these {
                let tuple = coder.part(bytes, start, start + len_of(info));
                let end = tuple.len();
                let list = list_of(tuple, info).unwrap_or((end, end));
                self.code_key(coder, tuple, place, list);
            }
        }
    }

    /// Codes the tuples of a leaf page from their keys on: those keys that follow from rows as recipes.
    fn code_told_keys<C: Coder>(
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
            let is_made = first
                .and_then(|tid| table.row(tid))
                .is_some_and(|row| self.leaf_keys.code_key(coder, &row, key));
            let keys = &mut self.places[Place::Leaf as usize].keys;
            if !is_made {
                keys.code(coder, StreamKind::IndexKey, key);
            }
            let rest = coder.part(tuple, list_end, end);
            keys.code(coder, StreamKind::IndexKey, rest);
        }
    }
}

impl PlaceStreams {
    /// Codes the targets of tuples. `in_order`: those of heap tuples may be in the order of the
    /// rows, a [`TidRun`](super::tid_run::TidRun).
    fn code_targets<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        (spans, tuples): (&ItemSpans, &mut TupleFields),
        in_order: bool,
    ) {
        if C::ENCODING {
            self.find_steps(coder.choices(), bytes, (spans, tuples), in_order);
        } else {
            let steps = tuples
                .infos
                .iter()
                .filter(|&&info| may_step(info, in_order));
            let steps = steps.count();
            tuples.codes.resize(steps, 0);
        }
        if !tuples.codes.is_empty() {
            let stream = self.run.open(coder);
            coder.bytes(stream, &mut tuples.codes);
        }
        if !C::ENCODING {
            let steps = tuples.codes.iter().filter(|&&code| TidRun::is_step(code));
            let strays = tuples.infos.len() - steps.count();
            tuples.strays.0.resize(strays, 0);
            tuples.strays.1.resize(strays, 0);
        }
        if !tuples.strays.0.is_empty() {
            let stream = self.offset.open(coder, StreamKind::IndexTid, 2);
            coder.u16s(stream, &mut tuples.strays.1);
            let stream = self.block.open(coder, StreamKind::IndexTid, 4);
            coder.u32s(stream, &mut tuples.strays.0);
        }
        if !C::ENCODING {
            self.put_targets(coder, bytes, (spans, tuples), in_order);
        }
    }

    /// The encoder's choice for each target.
    fn find_steps(
        &mut self,
        choices: Choices,
        bytes: &[u8],
        (spans, tuples): (&ItemSpans, &mut TupleFields),
        in_order: bool,
    ) {
        tuples.codes.clear();
        tuples.strays.0.clear();
        tuples.strays.1.clear();
        for (&at, &info) in spans.starts.iter().zip(&tuples.infos) {
            let target = read_tid(bytes, at);
            if may_step(info, in_order) {
                let code = self.run.code_of(choices, target);
                tuples.codes.push(code);
                if self.run.follow(code).is_some() {
                    continue;
                }
                self.run.stray(target);
            }
            tuples.strays.0.push(target.0);
            tuples.strays.1.push(target.1);
        }
    }

    /// Puts the targets that the decoder has read.
    fn put_targets<C: Coder>(
        &mut self,
        coder: &mut C,
        bytes: &mut [u8],
        (spans, tuples): (&ItemSpans, &TupleFields),
        in_order: bool,
    ) {
        let mut codes = tuples.codes.iter();
        let mut strays = tuples.strays.0.iter().zip(&tuples.strays.1);
        for (&at, &info) in spans.starts.iter().zip(&tuples.infos) {
            let may_step = may_step(info, in_order);
            let code = if may_step { codes.next() } else { None };
            let (block, line_pointer) = match code.and_then(|&code| self.run.follow(code)) {
                Some(target) => target,
                None => {
                    let stray = strays.next().map(|(&block, &offset)| (block, offset));
                    let target = stray.unwrap_or_default();
                    if may_step {
                        self.run.stray(target);
                    }
                    target
                }
            };
            coder.put(bytes, at, block_bytes(block));
            coder.put(bytes, at + 4, line_pointer.to_le_bytes());
        }
    }
}

/// Whether a target may be a step of a run.
fn may_step(info: u16, in_order: bool) -> bool {
    in_order && info & ALT_TID == 0
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
    use crate::model::table::index_tuple::IS_POSTING;
    use crate::model::values::tid::{TID_LEN, tid_bytes};
    use crate::optional_model::OptionalModel;
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
