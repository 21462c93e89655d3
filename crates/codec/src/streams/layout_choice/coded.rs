//! Whether a stream is coded: where that takes clearly less than what zstd makes of a layout.

use std::borrow::Cow;

use super::{Chooser, PART_LEN};
use crate::limits::BIN_ROWS_MAX;
use crate::optional_model::OptionalModel;
use crate::streams::bins::{self, Prediction};
use crate::streams::filled::Filled;
use crate::streams::layout::{Layout, difference};
use crate::streams::parts::Parts;

/// Below this no stream is coded.
const LEN_MIN: usize = 256;
/// What a coded stream may take, as a part of what zstd is expected to make of it, and how many
/// bytes less.
const PART: f64 = 0.985;
const GAIN_MIN: f64 = 8.0;
/// Of a stream of more bytes another sample is taken, and repetitions are looked for.
const LONG: usize = 32 * 1024;
/// Bytes of a long stream for each part of that sample, and parts at most.
const LEN_FOR_PART: usize = 16 * 1024;
const PARTS_MAX: usize = 16;

/// Whether a stream is coded.
pub enum Verdict {
    /// It is not.
    Plain,
    /// It is not, and neither shall be the stream of this number, which it repeats.
    PlainAs(u32),
    /// It is, in this layout.
    Coded(Layout, Vec<u8>),
}

/// The parts of a stream that repeat what came before.
#[derive(Default)]
struct Repeated {
    /// In streams for zstd.
    in_plain: f64,
    /// In the coded stream that it repeats most.
    in_coded: f64,
    /// The number of that, and what its coding gains.
    source: Option<(u32, f64)>,
}

impl Chooser {
    /// Streams with rows of `width` may be coded.
    pub fn may_code(&self, len: usize, width: usize) -> bool {
        len >= LEN_MIN && self.choices.uses(OptionalModel::Bins) && bins::WIDTHS.contains(&width)
    }

    /// The stream of this number in bins, where they take clearly less than zstd makes of the
    /// layout that was chosen for it. One in parts is put together in `scratch`.
    pub fn coded(
        &mut self,
        number: u32,
        stream: &Filled,
        layout: Layout,
        scratch: &mut Vec<u8>,
    ) -> Verdict {
        let (bytes, width) = (&stream.bytes, stream.width);
        if !self.may_code(bytes.len(), width) {
            return Verdict::Plain;
        }
        let mut packed = match self.packed {
            Some(packed) => packed * bytes.len() as f64 / self.sample.len() as f64,
            None => self.packed_len(bytes, width, layout, 1),
        };
        let rows = bytes.whole(scratch);
        let least = (rows.len() / width / BIN_ROWS_MAX) as f64;
        if wanted(packed) < least {
            return Verdict::Plain;
        }
        let (coded_layout, numbers) = match layout {
            Layout::DeltaPlanes | Layout::ByteDeltaPlanes => {
                (Layout::DeltaBins, Cow::Owned(difference(rows, width)))
            }
            _ => (Layout::Bins, Cow::Borrowed(rows)),
        };
        let prediction = Prediction::of(&numbers, width);
        let predicted = prediction.len().max(least);
        if rows.len() > LONG {
            if predicted < wanted(packed) {
                let parts = (rows.len() / LEN_FOR_PART).min(PARTS_MAX);
                packed = self.packed_len(bytes, width, layout, parts);
                if wanted(packed) < least {
                    return Verdict::Plain;
                }
            }
            let repeated = self.repeated(number, stream, rows, &prediction);
            // Where bins are out of the question, zstd saves what it finds elsewhere.
            let plain = packed * (1.0 - repeated.in_plain);
            let alone = predicted.min(plain);
            let saved = alone - (plain - packed * repeated.in_coded);
            if let Some((source, gain)) = repeated.source
                && saved > gain
            {
                self.gains.remove(&source);
                return Verdict::PlainAs(source);
            }
            packed = plain;
        }
        if predicted > wanted(packed) {
            return Verdict::Plain;
        }
        let coded = prediction.encode(&numbers, width);
        let Some(coded) = coded.filter(|coded| (coded.len() as f64) < wanted(packed)) else {
            return Verdict::Plain;
        };
        if rows.len() > LONG {
            self.gains.insert(number, packed - coded.len() as f64);
        }
        Verdict::Coded(coded_layout, coded)
    }

    /// How much of a stream repeats streams of its kind and width.
    fn repeated(
        &mut self,
        number: u32,
        stream: &Filled,
        rows: &[u8],
        prediction: &Prediction,
    ) -> Repeated {
        let width = stream.width;
        let runs = self.runs.entry((stream.kind, width)).or_default();
        let mut repeated = Repeated::default();
        let repeats = prediction.repeats(rows, width, runs, number);
        for (source, part) in repeats.sources() {
            match self.gains.get(&source) {
                None => repeated.in_plain += part,
                Some(&gain) if part > repeated.in_coded => {
                    repeated.in_coded = part;
                    repeated.source = Some((source, gain));
                }
                Some(_) => {}
            }
        }
        repeated
    }

    /// Bytes that zstd makes of the stream in a layout, by a sample of so many parts.
    fn packed_len(&mut self, rows: &Parts, width: usize, layout: Layout, parts: usize) -> f64 {
        self.take_parts(rows, width, parts, PART_LEN);
        let cost = if layout == Layout::Rows {
            self.trial.cost(&self.sample) as f64
        } else {
            self.laid.resize(self.sample.len(), 0);
            layout.apply(&self.sample, width, &mut self.laid);
            self.planes_cost(rows.len() / width, width)
        };
        cost * rows.len() as f64 / self.sample.len() as f64
    }
}

/// Bytes that a coded stream may take, where zstd is expected to make so many of it.
fn wanted(packed: f64) -> f64 {
    packed * PART - GAIN_MIN
}
