//! Which layout a stream gets: the one whose sample zstd packs best.

mod coded;

pub use coded::Verdict;

use std::collections::HashMap;

use crate::compressors::trial::{Trial, entropy_bytes};
use crate::fast_hash::FastHash;
use crate::optional_model::OptionalModel;
use crate::streams::bins::Runs;
use crate::streams::coder::{Care, Choices};
use crate::streams::kind::StreamKind;
use crate::streams::layout::Layout;
use crate::streams::parts::Parts;

/// A stream, or a plane of one, of this many bytes gets statistics of its own.
pub const CUT_MIN: usize = 4096;

/// Bytes of each part of a sample.
const PART_LEN: usize = 4096;
/// The same in a hurry, where the stream is short.
const QUICK_PART_LEN: usize = 2048;
/// In a hurry, shorter streams get the layout of the last one of their kind and width.
const QUICK_LEN_MIN: usize = 16384;
/// Parts of a sample at most, and bytes of a stream for each.
const PARTS_MAX: usize = 4;
const LEN_FOR_PART: usize = 128 * 1024;
/// Below this a choice cannot pay.
const CHOICE_MIN: usize = 96;
/// Bytes that a sample's entropy is too small by, for each value that occurs: half a bit, by the
/// natural logarithm (Miller's and Madow's correction).
const SAMPLED_LESS: f64 = 0.5 * std::f64::consts::LOG2_E / 8.0;
/// Of fewer bytes the frequencies of a plane look further apart than they are.
const PLANE_SAMPLE_MIN: usize = 1024;
/// What zstd makes of a plane without repetitions, as a part of its entropy.
const CODED_ENTROPY: f64 = 1.03;

/// Tries layouts on samples.
pub struct Chooser {
    choices: Choices,
    last: HashMap<(StreamKind, usize), Layout, FastHash>,
    trial: Trial,
    sample: Vec<u8>,
    laid: Vec<u8>,
    /// Bytes that zstd makes of the sample in the layout that was chosen.
    packed: Option<f64>,
    /// What long streams of each kind and width have.
    runs: HashMap<(StreamKind, usize), Runs, FastHash>,
    /// Bytes that coding long streams gains, by their numbers.
    gains: HashMap<u32, f64, FastHash>,
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
            packed: None,
            runs: HashMap::default(),
            gains: HashMap::default(),
        }
    }

    /// The layout for a stream with rows of `width`, which is not coded.
    pub fn choose(&mut self, kind: StreamKind, rows: &Parts, width: usize) -> Layout {
        self.packed = None;
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

    fn best(&mut self, rows: &Parts, width: usize) -> Layout {
        self.take_sample(rows, width);
        let rows_cost = self.trial.cost(&self.sample) as f64;
        let layout = self.likely_planes(width);
        layout.apply(&self.sample, width, &mut self.laid);
        let planes_cost = self.planes_cost(rows.len() / width, width);
        self.packed = Some(planes_cost.min(rows_cost));
        // What repeats only beyond the sample, repeats in whole rows.
        match planes_cost < rows_cost {
            true => layout,
            false => Layout::Rows,
        }
    }

    /// Which of the layouts in planes has the least entropy: not what zstd makes of it, but found
    /// faster.
    fn likely_planes(&mut self, width: usize) -> Layout {
        let mut best = (Layout::Planes, f64::MAX);
        self.laid.resize(self.sample.len(), 0);
        for layout in [Layout::Planes, Layout::DeltaPlanes, Layout::ByteDeltaPlanes] {
            if layout.fits(width) {
                layout.apply(&self.sample, width, &mut self.laid);
                let cost = self.sampled_planes(width).map(collision_entropy).sum();
                if cost < best.1 {
                    best = (layout, cost);
                }
            }
        }
        best.0
    }

    fn sampled_planes(&self, width: usize) -> impl Iterator<Item = &[u8]> {
        self.laid.chunks_exact(self.sample.len() / width)
    }

    /// Bytes that the planes of the sample take, where those of the stream have so many bytes.
    fn planes_cost(&mut self, plane_len: usize, width: usize) -> f64 {
        let packed = self.trial.cost(&self.laid) as f64;
        // Planes of the sample share the tables of one block. Long ones will not.
        if plane_len < CUT_MIN || self.sample.len() / width < PLANE_SAMPLE_MIN {
            return packed;
        }
        let entropy: f64 = self.sampled_planes(width).map(plane_entropy).sum();
        packed.min(entropy * CODED_ENTROPY)
    }

    /// Takes parts from the middle of equal shares: the beginning is often unlike the rest.
    fn take_sample(&mut self, rows: &Parts, width: usize) {
        let parts = (rows.len() / LEN_FOR_PART).clamp(1, PARTS_MAX);
        let share = rows.len() / parts;
        let part_len = match self.choices.care {
            Care::Quick if share < LEN_FOR_PART => QUICK_PART_LEN,
            Care::Quick | Care::Full => PART_LEN,
        };
        self.take_parts(rows, width, parts, part_len);
    }

    /// Takes so many parts of so many bytes, or of fewer where the rows have no more.
    fn take_parts(&mut self, rows: &Parts, width: usize, parts: usize, part_len: usize) {
        let share = rows.len() / parts;
        let len = share.min(part_len.max(width)) / width * width;
        self.sample.clear();
        for part in 0..parts {
            let start = (part * share + (share - len) / 2) / width * width;
            rows.copy(start..start + len, &mut self.sample);
        }
    }
}

fn counts(plane: &[u8]) -> [u32; 256] {
    let mut counts = [0u32; 256];
    for &byte in plane {
        counts[usize::from(byte)] += 1;
    }
    counts
}

/// Bits of each byte by the chance that two of them are alike (Rényi's entropy of order 2):
/// the order of Shannon's, for a logarithm a plane.
fn collision_entropy(plane: &[u8]) -> f64 {
    // A sample has less than 65,536 bytes, so that this fits.
    let alike: u32 = counts(plane).iter().map(|count| count * count).sum();
    2.0 * (plane.len() as f64).log2() - f64::from(alike).log2()
}

/// Bytes that the bytes of a plane take, each by its frequency (Shannon's entropy).
fn plane_entropy(plane: &[u8]) -> f64 {
    let counts = counts(plane);
    let distinct = counts.iter().filter(|&&count| count > 0).count();
    entropy_bytes(counts.iter().copied()) + SAMPLED_LESS * distinct as f64
}
