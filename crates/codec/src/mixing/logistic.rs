//! The logistic function and its inverse, as tables of integers. Models are mixed by adding weights
//! of evidence.
//!
//! A *weight of evidence* is the logarithm of the odds, scaled to integers from -2048 to 2047,
//! which cover the probabilities from 1 to 65,535 in units of 1 / 65,536.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

/// The logistic function at every 128th weight, from -2048 on.
const KNOTS: [u16; 33] = [
    1, 2, 4, 8, 16, 32, 64, 127, 255, 509, 1012, 2000, 3905, 7410, 13424, 22724, 32768, 42812,
    52112, 58126, 61631, 63536, 64524, 65027, 65281, 65409, 65472, 65504, 65520, 65528, 65532,
    65534, 65535,
];

/// Number of weights, half of which are negative.
const RANGE: usize = 4096;

/// The two functions.
pub struct Logistic {
    squash: Box<[u16; RANGE]>,
    stretch: Box<[i16; RANGE]>,
}

impl Logistic {
    /// The tables, which are constants of the format.
    pub fn new() -> Logistic {
        let mut squash = Box::new([0; RANGE]);
        for (x, value) in squash.iter_mut().enumerate() {
            let (knot, part) = (x / 128, x as u32 % 128);
            let (low, high) = (u32::from(KNOTS[knot]), u32::from(KNOTS[knot + 1]));
            *value = ((low * (128 - part) + high * part + 64) / 128) as u16;
        }
        let mut stretch = Box::new([2047; RANGE]);
        let mut next = 0;
        for (x, value) in squash.iter().enumerate() {
            let end = usize::from(value / 16) + 1;
            if end > next {
                stretch[next..end].fill(x as i16 - 2048);
                next = end;
            }
        }
        Logistic { squash, stretch }
    }

    /// The probability of a weight, in units of 1 / 65,536. A weight outside the range counts as
    /// the nearer end.
    #[inline(always)]
    pub fn squash(&self, weight: i32) -> u32 {
        let index = (weight.clamp(-2048, 2047) + 2048) as usize;
        u32::from(self.squash[index & (RANGE - 1)])
    }

    /// The weight of a probability in units of 1 / 4,096.
    #[inline(always)]
    pub fn stretch(&self, probability: u32) -> i16 {
        self.stretch[probability as usize & (RANGE - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverts_itself_within_its_precision() {
        let logistic = Logistic::new();
        for probability in 1..4095 {
            let weight = i32::from(logistic.stretch(probability));
            let back = logistic.squash(weight) / 16;
            assert!(
                back.abs_diff(probability) <= probability.min(4096 - probability) / 16 + 1,
                "{probability} becomes {weight} and {back}"
            );
        }
    }

    #[test]
    fn is_symmetric_and_rises() {
        let logistic = Logistic::new();
        for weight in -2047..2047 {
            let p = logistic.squash(weight);
            assert!(p <= logistic.squash(weight + 1));
            assert!((p + logistic.squash(-weight)).abs_diff(65536) <= 1);
        }
    }
}
