//! Mixes the predictions of several models: the sum of their weights of evidence, each times a
//! factor that grows if the model was right.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::fixed_table;

/// Number of inputs: a multiple of the elements of a vector register.
pub const INPUTS: usize = 8;
/// The weight of evidence of each model for a bit.
pub type Inputs = [i16; INPUTS];
/// A factor for each input, in units of 2^-27.
type Factors = [i32; INPUTS];

/// The initial factor: 1/4.
const FIRST_FACTOR: i32 = 1 << 25;
const FACTOR_MAX: i32 = (1 << 29) - 1;
/// Number of low bits of a factor that the sum leaves out, so that the factor has sixteen bits.
const FRACTION_BITS: u32 = 14;
/// Minimum error that is learnt, in units of 1 / 4,096: a smaller one is not worth the time.
const ERROR_MIN: u32 = 5;

/// Sets of factors by two criteria. The results of the two sets that apply are added.
pub struct Mixer {
    by_column: Box<[Factors; COLUMN_SETS]>,
    by_tree: Box<[Factors; TREE_SETS]>,
}

const COLUMN_SETS: usize = 1 << 13;
const TREE_SETS: usize = 1 << 14;

/// Selects the two sets of factors.
#[derive(Clone, Copy)]
pub struct Selector {
    pub column: usize,
    pub tree: usize,
}

impl Mixer {
    /// All factors have their initial value.
    pub fn new() -> Mixer {
        Mixer {
            by_column: fixed_table([FIRST_FACTOR; INPUTS]),
            by_tree: fixed_table([FIRST_FACTOR; INPUTS]),
        }
    }

    /// The mixed weight of evidence.
    #[inline(always)]
    pub fn mix(&self, inputs: &Inputs, selector: Selector) -> i32 {
        let column = &self.by_column[selector.column & (COLUMN_SETS - 1)];
        let tree = &self.by_tree[selector.tree & (TREE_SETS - 1)];
        (dot(inputs, column) + dot(inputs, tree)) >> FRACTION_BITS
    }

    /// Learns from the error: the bit less its probability, in units of 1 / 4,096.
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
