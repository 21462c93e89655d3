//! How much of a stream repeats what was before: zstd finds that at any distance, and bins do not.

use super::encoding::number;

/// One of so many places is looked at, by its hash, as a power of two.
const PLACES_LOG: u32 = 5;
/// Bits that a run takes which is not the same by chance.
const RUN_BITS: f64 = 64.0;
/// Numbers of a run, where they take many or few bits.
const RUN_MIN: usize = 12;
const RUN_MAX: usize = 64;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The part of the rows, of so many bits each, that stand in runs which came before.
pub fn repeated_part<const W: usize>(rows: &[u8], bits_per_row: f64) -> f64 {
    let rows = rows.as_chunks::<W>().0;
    let run_len = (RUN_BITS / bits_per_row.max(0.1)) as usize;
    let run_len = run_len.clamp(RUN_MIN, RUN_MAX);
    let mut known = vec![0u64; (rows.len() >> (PLACES_LOG - 2)).next_power_of_two()];
    let places = known.len() - 1;
    let (mut looked_at, mut repeated) = (0u32, 0u32);
    let mut start = 0;
    while let Some(run) = rows.get(start..start + run_len) {
        // Where to look follows from the rows, so that the same runs are looked at again.
        let first = run.iter().take(3).fold(0, mix::<W>);
        start += 1;
        if first >> (u64::BITS - PLACES_LOG) != 0 {
            continue;
        }
        let hash = run.iter().fold(first, mix::<W>);
        let place = &mut known[(hash >> 8) as usize & places];
        looked_at += 1;
        repeated += u32::from(*place == hash);
        *place = hash;
        start += run_len / 2;
    }
    f64::from(repeated) / f64::from(looked_at.max(1))
}

#[inline(always)]
fn mix<const W: usize>(hash: u64, row: &[u8; W]) -> u64 {
    let mixed = (hash ^ number(row)).wrapping_add(1).wrapping_mul(FACTOR);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let next = |state: &u64| Some(state.wrapping_mul(FACTOR).wrapping_add(77));
        let states = std::iter::successors(Some(1u64), next);
        states.map(|state| (state >> 56) as u8).take(len).collect()
    }

    #[test]
    fn sees_what_comes_again() {
        let once = noise(100_000);
        assert!(repeated_part::<4>(&once, 24.0) < 0.01);
        let twice = [&once[..], &once[..]].concat();
        let part = repeated_part::<4>(&twice, 24.0);
        assert!((0.4..0.6).contains(&part), "{part}");
    }

    #[test]
    fn few_different_numbers_are_no_repetition() {
        let bits: Vec<u8> = noise(100_000).iter().map(|number| number & 1).collect();
        assert!(repeated_part::<1>(&bits, 1.0) < 0.05);
    }
}
