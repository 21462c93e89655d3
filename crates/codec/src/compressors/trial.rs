//! Estimates of the compressed size of a sample.

use std::sync::LazyLock;

use zstd_safe::CCtx;

/// Compresses samples with zstd. Its memory is reused.
pub struct Trial {
    context: CCtx<'static>,
    packed: Vec<u8>,
}

impl Trial {
    /// Allocates a context.
    pub fn new() -> Trial {
        Trial {
            context: CCtx::create(),
            packed: Vec::new(),
        }
    }

    /// The compressed size of the sample at zstd's level 1, in bytes.
    pub fn cost(&mut self, sample: &[u8]) -> usize {
        self.packed
            .resize(zstd_safe::compress_bound(sample.len()), 0);
        self.context
            .compress(&mut self.packed[..], sample, 1)
            .unwrap_or(usize::MAX)
    }
}

/// The entropy of symbols with these counts, in bytes.
pub fn entropy_bytes(counts: impl Iterator<Item = u32>) -> f64 {
    let mut total = 0;
    let mut own = 0.0;
    for count in counts.filter(|&count| count > 0) {
        total += count;
        own += times_log2(count);
    }
    (times_log2(total) - own) / 8.0
}

/// A number times its binary logarithm; 0 for 0.
fn times_log2(number: u32) -> f64 {
    static SMALL: LazyLock<Vec<f64>> =
        LazyLock::new(|| (0..SAMPLE_MAX).map(computed_times_log2).collect());
    match SMALL.get(number as usize) {
        Some(known) => *known,
        None => computed_times_log2(number),
    }
}

/// Length of the table: most samples have fewer values.
const SAMPLE_MAX: u32 = 2049;

fn computed_times_log2(number: u32) -> f64 {
    match number {
        0 => 0.0,
        number => f64::from(number) * f64::from(number).log2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_number_takes_more() {
        assert_eq!(entropy_bytes([0, 8].into_iter()), 0.0);
        assert_eq!(entropy_bytes([8, 8].into_iter()), 2.0);
        assert_eq!(entropy_bytes([4096, 0, 4096].into_iter()), 1024.0);
    }
}
