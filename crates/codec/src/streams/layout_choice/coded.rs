//! Whether a stream is coded: where that takes clearly less than what zstd makes of a layout.

use std::borrow::Cow;

use super::{Chooser, PART_LEN};
use crate::optional_model::OptionalModel;
use crate::streams::bins::{self, Prediction};
use crate::streams::coder::Care;
use crate::streams::layout::{Layout, difference};

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

impl Chooser {
    /// Streams with rows of `width` may be coded.
    pub fn may_code(&self, len: usize, width: usize) -> bool {
        len >= LEN_MIN
            && self.choices.care == Care::Full
            && self.choices.uses(OptionalModel::Bins)
            && bins::WIDTHS.contains(&width)
    }

    /// The stream in bins, where they take clearly less than zstd makes of this layout, which was
    /// chosen for it.
    pub fn coded(
        &mut self,
        rows: &[u8],
        width: usize,
        layout: Layout,
    ) -> Option<(Layout, Vec<u8>)> {
        if !self.may_code(rows.len(), width) {
            return None;
        }
        let (coded_layout, numbers) = match layout {
            Layout::DeltaPlanes | Layout::ByteDeltaPlanes => {
                (Layout::DeltaBins, Cow::Owned(difference(rows, width)))
            }
            _ => (Layout::Bins, Cow::Borrowed(rows)),
        };
        let mut packed = match self.packed {
            Some(packed) => packed * rows.len() as f64 / self.sample.len() as f64,
            None => self.packed_len(rows, width, layout, 1),
        };
        let prediction = Prediction::of(&numbers, width);
        let predicted = prediction.len();
        if predicted > wanted(packed) {
            return None;
        }
        if rows.len() > LONG {
            let parts = (rows.len() / LEN_FOR_PART).min(PARTS_MAX);
            packed = self.packed_len(rows, width, layout, parts);
            packed *= 1.0 - prediction.repeated_part(rows, width);
            if predicted > wanted(packed) {
                return None;
            }
        }
        let coded = prediction.encode(&numbers, width)?;
        ((coded.len() as f64) < wanted(packed)).then_some((coded_layout, coded))
    }

    /// Bytes that zstd makes of the stream in a layout, by a sample of so many parts.
    fn packed_len(&mut self, rows: &[u8], width: usize, layout: Layout, parts: usize) -> f64 {
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
