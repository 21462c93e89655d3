//! Weighs what several models hold likely: a sum of their weights of evidence, each times a
//! factor that grows where the model was right.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::fixed_table;

/// Models that are mixed: a multiple of what a vector register holds.
pub const INPUTS: usize = 8;
/// What the models say of a bit.
pub type Inputs = [i16; INPUTS];
/// Factors; 1 << 27 is 1.
type Factors = [i32; INPUTS];

/// A quarter.
const FIRST_FACTOR: i32 = 1 << 25;
const FACTOR_MAX: i32 = (1 << 29) - 1;
/// Factors enter the sum without as many of their low bits, so that they have sixteen.
const FRACTION_BITS: u32 = 14;
/// An error of less, of 4096, is not learnt from: it is not worth the time.
const ERROR_MIN: u32 = 5;

/// Sets of factors by two criteria; the sum of the two that apply is used.
pub struct Mixer {
    by_column: Box<[Factors; COLUMN_SETS]>,
    by_tree: Box<[Factors; TREE_SETS]>,
}

const COLUMN_SETS: usize = 1 << 13;
const TREE_SETS: usize = 1 << 14;

/// Which factors apply.
#[derive(Clone, Copy)]
pub struct Selector {
    pub column: usize,
    pub tree: usize,
}

impl Mixer {
    /// All factors alike.
    pub fn new() -> Mixer {
        Mixer {
            by_column: fixed_table([FIRST_FACTOR; INPUTS]),
            by_tree: fixed_table([FIRST_FACTOR; INPUTS]),
        }
    }

    /// The weight of evidence of all inputs.
    #[inline(always)]
    pub fn mix(&self, inputs: &Inputs, selector: Selector) -> i32 {
        let column = &self.by_column[selector.column & (COLUMN_SETS - 1)];
        let tree = &self.by_tree[selector.tree & (TREE_SETS - 1)];
        (dot(inputs, column) + dot(inputs, tree)) >> FRACTION_BITS
    }

    /// Learns that the bit was as far from its probability as `error`, of 4096.
    #[inline(always)]
    pub fn learn(&mut self, inputs: &Inputs, selector: Selector, error: i32) {
        if error.unsigned_abs() >= ERROR_MIN {
            let column = &mut self.by_column[selector.column & (COLUMN_SETS - 1)];
            train(inputs, column, error);
            let tree = &mut self.by_tree[selector.tree & (TREE_SETS - 1)];
            train(inputs, tree, error);
        }
    }
}

#[inline(always)]
fn dot(inputs: &Inputs, factors: &Factors) -> i32 {
    let mut sum = 0;
    for i in 0..INPUTS {
        sum += i32::from(inputs[i]) * i32::from((factors[i] >> FRACTION_BITS) as i16);
    }
    sum
}

#[inline(always)]
fn train(inputs: &Inputs, factors: &mut Factors, error: i32) {
    for i in 0..INPUTS {
        let factor = factors[i] + i32::from(inputs[i]) * error;
        factors[i] = factor.clamp(-FACTOR_MAX, FACTOR_MAX);
    }
}
