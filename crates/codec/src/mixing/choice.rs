//! Which streams are mixed: where time is short, those that gain most for it.

use super::stream_model::{Shape, noise_len};

/// Time that may be spent, in units of about a nanosecond.
const BUDGET: u64 = 3_800_000_000;
/// What a byte costs that is guessed, and one that zstd could not do without.
const GUESSED_COST: u64 = 100;
const PACKED_COST: u64 = 1600;

struct Candidate {
    number: usize,
    cost: u64,
    /// Bytes that zstd could not do without, over the time that mixing them takes.
    gain: u64,
}

/// The choice for streams of `content` that take `packed` bytes each as zstd packs them.
pub fn choose(content: &[u8], shapes: &[Shape], packed: &[usize]) -> Vec<bool> {
    let candidate = |(number, (shape, &packed)): (usize, (&Shape, &usize))| {
        // Noise is as large for zstd, and takes no time here.
        let hard = packed.saturating_sub(noise_len(content, shape)) as u64;
        let cost = shape.len() as u64 * GUESSED_COST + hard * PACKED_COST;
        Candidate {
            number,
            cost,
            gain: ((packed as u64) << 20) / cost.max(1),
        }
    };
    let pairs = shapes.iter().zip(packed).enumerate();
    let mut candidates: Vec<Candidate> = pairs.map(candidate).collect();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.gain));
    let mut mixed = vec![false; shapes.len()];
    let mut spent = 0;
    for candidate in candidates {
        if spent + candidate.cost <= BUDGET
            && let Some(mixed) = mixed.get_mut(candidate.number)
        {
            *mixed = true;
            spent += candidate.cost;
        }
    }
    mixed
}
