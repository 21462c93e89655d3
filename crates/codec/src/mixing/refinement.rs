//! Corrects a mixed probability by what came of the like before, in the same column and after
//! the same first bits of a byte.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::fixed_table;
use super::logistic::Logistic;

const CONTEXTS: usize = 1 << 16;
/// Weights of evidence are told apart at every 128th.
const STEPS: usize = 33;
/// A value moves this part of its way, as a power of two.
const RATE_LOG: u32 = 6;

/// Probabilities by context and weight.
pub struct Refinement(Box<[[u16; STEPS]; CONTEXTS]>);

/// What was looked at, to learn from.
#[derive(Clone, Copy)]
pub struct Place {
    context: usize,
    nearest: usize,
}

impl Refinement {
    /// Corrects nothing.
    pub fn new(logistic: &Logistic) -> Refinement {
        let first = std::array::from_fn(|step| logistic.squash(step as i32 * 128 - 2048) as u16);
        Refinement(fixed_table(first))
    }

    /// The corrected probability of a weight from -2048 to 2047, between its two steps.
    #[inline(always)]
    pub fn refine(&self, context: usize, weight: i32) -> (u32, Place) {
        let offset = (weight + 2048) as usize & 4095;
        let (step, part) = (offset >> 7, offset as u32 & 127);
        let context = context & (CONTEXTS - 1);
        let row = &self.0[context];
        let probability = u32::from(row[step]) * (128 - part) + u32::from(row[step + 1]) * part;
        let nearest = step + (part >> 6) as usize;
        (probability >> 7, Place { context, nearest })
    }

    /// Moves the step that was nearest towards the bit.
    #[inline(always)]
    pub fn learn(&mut self, place: Place, bit: u32) {
        let value = &mut self.0[place.context & (CONTEXTS - 1)][place.nearest % STEPS];
        let target = if bit == 1 { 65535 } else { 0 };
        let now = i32::from(*value);
        *value = (now + ((target - now) >> RATE_LOG)) as u16;
    }
}
