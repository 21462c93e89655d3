//! What zstd would make of a sample.

use zstd_safe::CCtx;

/// Compresses samples, with memory that it keeps from one to the next.
pub struct Trial {
    context: CCtx<'static>,
    packed: Vec<u8>,
}

impl Trial {
    /// Without memory of any sample.
    pub fn new() -> Trial {
        Trial {
            context: CCtx::create(),
            packed: Vec::new(),
        }
    }

    /// Bytes that the sample takes.
    pub fn cost(&mut self, sample: &[u8]) -> usize {
        self.packed
            .resize(zstd_safe::compress_bound(sample.len()), 0);
        self.context
            .compress(&mut self.packed[..], sample, 1)
            .unwrap_or(usize::MAX)
    }
}

/// Bytes that numbers of these frequencies take, each with as many bits as its rarity asks.
pub fn entropy_bytes(counts: impl Iterator<Item = u32> + Clone) -> f64 {
    let total: f64 = counts.clone().map(f64::from).sum();
    let bits: f64 = counts
        .filter(|&count| count > 0)
        .map(|count| f64::from(count) * (total / f64::from(count)).log2())
        .sum();
    bits / 8.0
}
