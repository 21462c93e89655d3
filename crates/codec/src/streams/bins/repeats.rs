//! How much of a stream repeats what was before: zstd finds that at any distance, and bins do not.

use std::collections::HashMap;

use super::bits::number;
use crate::fast_hash::FastHash;

/// One of so many places is looked at, by its hash, as a power of two.
const PLACES_LOG: u32 = 5;
/// Bits that a run takes which is not the same by chance.
const RUN_BITS: f64 = 64.0;
/// Numbers of a run, where they take many or few bits.
const RUN_MIN: usize = 12;
const RUN_MAX: usize = 64;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The runs of streams, and the number of the stream that had each last.
#[derive(Default)]
pub struct Runs(HashMap<u64, u32, FastHash>);

/// The parts of a stream's rows that stand in runs which came before.
pub struct Repeats {
    looked_at: u32,
    /// For each stream that had them: its number, and how many.
    sources: Vec<(u32, u32)>,
}

impl Repeats {
    /// The streams that had such runs, and the part of the rows.
    pub fn sources(&self) -> impl Iterator<Item = (u32, f64)> {
        let looked_at = f64::from(self.looked_at.max(1));
        let sources = self.sources.iter();
        sources.map(move |&(source, count)| (source, f64::from(count) / looked_at))
    }
}

impl Runs {
    /// Looks for the runs of a stream with this number, of so many bits a row, and adds them.
    pub fn look<const W: usize>(&mut self, rows: &[u8], bits_per_row: f64, stream: u32) -> Repeats {
        let rows = rows.as_chunks::<W>().0;
        let run_len = (RUN_BITS / bits_per_row.max(0.1)) as usize;
        let run_len = run_len.clamp(RUN_MIN, RUN_MAX);
        let mut repeats = Repeats {
            looked_at: 0,
            sources: Vec::new(),
        };
        let mut start = 0;
        while let Some(run) = rows.get(start..start + run_len) {
            // Where to look follows from the rows, so that the same runs are looked at again.
            let [one, two, ..] = run else { break };
            let first = number(one) ^ number(two).rotate_left(29);
            let first = first.wrapping_add(1).wrapping_mul(FACTOR);
            start += 1;
            if first >> (u64::BITS - PLACES_LOG) != 0 {
                continue;
            }
            let hash = run.iter().fold(first, mix::<W>);
            repeats.looked_at += 1;
            if let Some(source) = self.0.insert(hash, stream) {
                repeats.add(source);
            }
            start += run_len / 2;
        }
        repeats
    }
}

impl Repeats {
    fn add(&mut self, source: u32) {
        match self.sources.iter_mut().find(|(known, _)| *known == source) {
            Some((_, count)) => *count += 1,
            None => self.sources.push((source, 1)),
        }
    }
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

    fn repeated_part<const W: usize>(rows: &[u8], bits: f64) -> f64 {
        let repeats = Runs::default().look::<W>(rows, bits, 7);
        repeats.sources().map(|(_, part)| part).sum()
    }

    #[test]
    fn says_which_stream_had_it() {
        let (one, other) = (noise(200_000), noise(300_000)[200_000..].to_vec());
        let mut runs = Runs::default();
        runs.look::<4>(&one, 24.0, 1);
        runs.look::<4>(&other, 24.0, 2);
        let both = [&other[..], &other[..], &one[..100_000]].concat();
        let parts: Vec<(u32, f64)> = runs.look::<4>(&both, 24.0, 3).sources().collect();
        let part_of = |stream| {
            parts
                .iter()
                .find(|(source, _)| *source == stream)
                .map(|p| p.1)
        };
        for (stream, part) in [(1, 0.33), (2, 0.33), (3, 0.33)] {
            let found = part_of(stream).unwrap_or(0.0);
            assert!((found - part).abs() < 0.05, "{stream}: {found}");
        }
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
