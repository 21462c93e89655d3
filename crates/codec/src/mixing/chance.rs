//! Adaptive probabilities.

/// The probability that a bit is 1, in the upper 22 bits, and the number of bits learnt, in the
/// lower ten.
#[derive(Clone, Copy)]
pub struct Chance(u32);

const COUNT_BITS: u32 = 10;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;
const ONE: i32 = (1 << 22) - 1;

/// The rate at which a chance moves, by its count.
pub struct Rates(Box<[i32; 1 << COUNT_BITS]>);

impl Rates {
    /// The table, which is a constant of the format.
    pub fn new() -> Rates {
        let mut rates = Box::new([0; 1 << COUNT_BITS]);
        for (count, rate) in rates.iter_mut().enumerate() {
            *rate = 32_768 / (2 * count as i32 + 3);
        }
        Rates(rates)
    }
}

impl Chance {
    /// Probability 1/2, count 0.
    pub const EVEN: Chance = Chance(1 << 31);

    /// The initial chance of a history with these counts.
    pub fn of_counts([zeros, ones]: [u8; 2]) -> Chance {
        let (zeros, ones) = (u32::from(zeros), u32::from(ones));
        Chance((((2 * ones + 1) << 21) / (zeros + ones + 1)) << COUNT_BITS)
    }

    /// The probability, in units of 1 / 4,096.
    #[inline(always)]
    pub fn bits_12(self) -> u32 {
        self.0 >> 20
    }

    /// The probability, in units of 1 / 65,536.
    #[inline(always)]
    pub fn bits_16(self) -> u32 {
        self.0 >> 16
    }

    /// Moves towards `bit`: the higher the count, the less. The count stops at `limit`.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, reason = "the index is masked")]
    pub fn learn(&mut self, bit: u32, rates: &Rates, limit: u32) {
        let count = self.0 & COUNT_MASK;
        let probability = (self.0 >> COUNT_BITS) as i32;
        let target = if bit == 1 { ONE } else { 0 };
        let step = (((target - probability) >> 5) * rates.0[count as usize]) >> 9;
        let count = if count < limit { count + 1 } else { count };
        self.0 = ((probability + step) as u32) << COUNT_BITS | count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_a_probability() {
        let rates = Rates::new();
        for first in [0, 1] {
            let mut chance = Chance::EVEN;
            for bit in std::iter::repeat_n(first, 5000).chain(std::iter::repeat_n(1 - first, 5000))
            {
                chance.learn(bit, &rates, 1023);
            }
            let likely = chance.bits_16() > 1 << 15;
            assert_eq!(likely, first == 0);
        }
    }
}
