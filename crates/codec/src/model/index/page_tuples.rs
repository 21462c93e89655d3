//! The index tuples of a page, coded field by field: first t_info of all, then their targets, then
//! their keys. Each stream gets the same as if the tuples were coded one by one.

use super::item_spans::{ItemSpans, len_of};
use super::known_table::KnownTable;
use super::tid_run::TidRun;
use super::tuple::{IndexStreams, Place, PlaceStreams, posting_list};
use crate::model::table::index_tuple::{ALT_TID, INDEX_TUPLE_HEADER_LEN, INFO_AT};
use crate::model::values::tid::{block_bytes, read_tid};
use crate::streams::coder::{Choices, Coder, get_u16};
use crate::streams::kind::StreamKind;

/// The fields of the tuples of a page. Memory to work with.
#[derive(Debug, Default)]
pub struct TupleFields {
    /// The t_info of each tuple.
    pub(super) infos: Vec<u16>,
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
                let (block, offset) = read_tid(tuple, 0);
                let list = posting_list(info, offset, block, end).unwrap_or((end, end));
                self.code_key(coder, tuple, place, list);
            }
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
