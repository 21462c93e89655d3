//! Which layout a stream gets: the one whose sample zstd packs best.

use crate::transform::Layout;
use crate::trial::Trial;

/// Bytes of a sample.
const SAMPLE_LEN: usize = 8192;
/// Below this a choice cannot pay.
const CHOICE_MIN: usize = 96;

/// Tries layouts on samples.
pub struct Chooser {
    trial: Trial,
    laid: Vec<u8>,
}

impl Chooser {
    /// Without memory of any stream.
    pub fn new() -> Chooser {
        Chooser {
            trial: Trial::new(),
            laid: Vec::with_capacity(SAMPLE_LEN),
        }
    }

    /// The layout for a stream with rows of `width`.
    pub fn choose(&mut self, rows: &[u8], width: usize) -> Layout {
        if width == 1 || rows.len() < CHOICE_MIN.max(width * 2) {
            return Layout::Rows;
        }
        let sample_len = rows.len().min(SAMPLE_LEN) / width * width;
        // From the middle: the beginning of a stream is often unlike the rest.
        let start = (rows.len() - sample_len) / 2 / width * width;
        let sample = &rows[start..start + sample_len];
        [
            Layout::Planes,
            Layout::Rows,
            Layout::DeltaPlanes,
            Layout::ByteDeltaPlanes,
        ]
        .into_iter()
        .filter(|layout| layout.fits(width))
        .min_by_key(|layout| self.cost(*layout, sample, width))
        .unwrap_or(Layout::Rows)
    }

    fn cost(&mut self, layout: Layout, sample: &[u8], width: usize) -> usize {
        self.laid.clear();
        layout.apply(sample, width, &mut self.laid);
        self.trial.cost(&self.laid)
    }
}
