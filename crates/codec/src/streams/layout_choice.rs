//! Which layout a stream gets: the one whose sample zstd packs best.

use std::collections::HashMap;

use crate::compressors::trial::Trial;
use crate::fast_hash::FastHash;
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Care, Choices};
use crate::streams::kind::StreamKind;
use crate::streams::layout::Layout;

/// Bytes of each part of a sample.
const PART_LEN: usize = 8192;
/// The same in a hurry, where the stream is short.
const QUICK_PART_LEN: usize = 2048;
/// In a hurry, shorter streams get the layout of the last one of their kind and width.
const QUICK_LEN_MIN: usize = 16384;
/// Parts of a sample at most, and bytes of a stream for each.
const PARTS_MAX: usize = 4;
const LEN_FOR_PART: usize = 128 * 1024;
/// Below this a choice cannot pay.
const CHOICE_MIN: usize = 96;

/// Tries layouts on samples.
pub struct Chooser {
    choices: Choices,
    last: HashMap<(StreamKind, usize), Layout, FastHash>,
    trial: Trial,
    sample: Vec<u8>,
    laid: Vec<u8>,
}

impl Chooser {
    /// Without memory of any stream.
    pub fn new(choices: Choices) -> Chooser {
        Chooser {
            choices,
            last: HashMap::default(),
            trial: Trial::new(),
            sample: Vec::new(),
            laid: Vec::new(),
        }
    }

    /// The layout for a stream with rows of `width`.
    pub fn choose(&mut self, kind: StreamKind, rows: &[u8], width: usize) -> Layout {
        if width == 1
            || rows.len() < CHOICE_MIN.max(width * 2)
            || !self.choices.uses(OptionalModel::Layouts)
        {
            return Layout::Rows;
        }
        if self.choices.care == Care::Quick
            && rows.len() < QUICK_LEN_MIN
            && let Some(&last) = self.last.get(&(kind, width))
        {
            return last;
        }
        let layout = self.best(rows, width);
        self.last.insert((kind, width), layout);
        layout
    }

    fn best(&mut self, rows: &[u8], width: usize) -> Layout {
        self.take_sample(rows, width);
        let sample = std::mem::take(&mut self.sample);
        let mut layouts = vec![
            Layout::Planes,
            Layout::Rows,
            Layout::DeltaPlanes,
            Layout::ByteDeltaPlanes,
        ];
        layouts.retain(|layout| layout.fits(width));
        if self.choices.care == Care::Quick {
            let likely = self.likely_planes(&layouts, &sample, width);
            layouts.retain(|&layout| layout == Layout::Rows || layout == likely);
        }
        let mut best = (Layout::Rows, usize::MAX);
        for layout in layouts {
            let cost = self.cost(layout, &sample, width);
            if cost < best.1 {
                best = (layout, cost);
            }
        }
        self.sample = sample;
        best.0
    }

    /// Which of the layouts in planes has the least entropy: not what zstd makes of it, but soon
    /// found.
    fn likely_planes(&mut self, layouts: &[Layout], sample: &[u8], width: usize) -> Layout {
        let mut best = (Layout::Planes, f64::MAX);
        for &layout in layouts.iter().filter(|&&layout| layout != Layout::Rows) {
            self.laid.resize(sample.len(), 0);
            layout.apply(sample, width, &mut self.laid);
            let planes = self.laid.chunks_exact(sample.len() / width);
            let cost = planes.map(entropy).sum();
            if cost < best.1 {
                best = (layout, cost);
            }
        }
        best.0
    }

    /// Takes parts from the middle of equal shares: the beginning is often unlike the rest.
    fn take_sample(&mut self, rows: &[u8], width: usize) {
        let parts = (rows.len() / LEN_FOR_PART).clamp(1, PARTS_MAX);
        let share = rows.len() / parts;
        let part_len = match self.choices.care {
            Care::Quick if share < LEN_FOR_PART => QUICK_PART_LEN,
            Care::Quick | Care::Full => PART_LEN,
        };
        let len = share.min(part_len.max(width)) / width * width;
        self.sample.clear();
        for part in 0..parts {
            let start = (part * share + (share - len) / 2) / width * width;
            self.sample.extend_from_slice(&rows[start..start + len]);
        }
    }

    fn cost(&mut self, layout: Layout, sample: &[u8], width: usize) -> usize {
        self.laid.resize(sample.len(), 0);
        layout.apply(sample, width, &mut self.laid);
        self.trial.cost(&self.laid)
    }
}

/// Bits of each byte by the chance that two of them are alike (Rényi's entropy of order 2):
/// the order of Shannon's, for a logarithm a plane.
fn entropy(plane: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for &byte in plane {
        counts[usize::from(byte)] += 1;
    }
    // A sample has less than 65,536 bytes, so that this fits.
    let alike: u32 = counts.iter().map(|count| count * count).sum();
    2.0 * (plane.len() as f64).log2() - f64::from(alike).log2()
}
