//! How much of a stream repeats what was before: zstd finds that at any distance, and bins do not.

/// One of so many places is looked at, by its hash.
const PLACES_LOG: u32 = 4;
/// Bits that a run takes which is not the same by chance.
const RUN_BITS: f64 = 64.0;
/// Numbers of a run, where they take many or few bits.
const RUN_MIN: usize = 12;
const RUN_MAX: usize = 64;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The part of the numbers, of so many bits each, that stand in runs which came before.
pub fn repeated_part(numbers: &[u64], bits_per_number: f64) -> f64 {
    let run = (RUN_BITS / bits_per_number.max(0.1)) as usize;
    let run = run.clamp(RUN_MIN, RUN_MAX);
    let mix = |number: u64| (number ^ number >> 32).wrapping_add(1).wrapping_mul(FACTOR);
    let leaving = (0..run).fold(1u64, |power, _| power.wrapping_mul(FACTOR));
    let places = (numbers.len() >> (PLACES_LOG - 2)).next_power_of_two();
    let mut known = vec![0u64; places];
    let (mut looked_at, mut repeated) = (0u32, 0u32);
    let mut hash = 0u64;
    for (end, &number) in numbers.iter().enumerate() {
        hash = hash.wrapping_mul(FACTOR).wrapping_add(mix(number));
        let Some(start) = end.checked_sub(run) else {
            continue;
        };
        hash = hash.wrapping_sub(mix(numbers[start]).wrapping_mul(leaving));
        let tag = (hash ^ hash >> 29).wrapping_mul(FACTOR);
        if tag >> (64 - PLACES_LOG) == 0 {
            let place = &mut known[(tag >> 8) as usize & (places - 1)];
            looked_at += 1;
            repeated += u32::from(*place == tag);
            *place = tag;
        }
    }
    f64::from(repeated) / f64::from(looked_at.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u64> {
        let next = |state: &u64| Some(state.wrapping_mul(FACTOR).wrapping_add(77));
        let states = std::iter::successors(Some(1u64), next);
        states.map(|state| state >> 40).take(len).collect()
    }

    #[test]
    fn sees_what_comes_again() {
        let once = noise(100_000);
        assert!(repeated_part(&once, 24.0) < 0.01);
        let twice = [&once[..], &once[..]].concat();
        let part = repeated_part(&twice, 24.0);
        assert!((0.4..0.6).contains(&part), "{part}");
    }

    #[test]
    fn few_different_numbers_are_no_repetition() {
        let bits: Vec<u64> = noise(100_000).iter().map(|number| number & 1).collect();
        assert!(repeated_part(&bits, 1.0) < 0.05);
    }
}
