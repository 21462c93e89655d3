//! Corrects a mixed probability by the bits that followed similar probabilities in the same column,
//! after the same first bits of a byte.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::fixed_table;
use super::logistic::Logistic;

const CONTEXTS: usize = 1 << 16;
/// Number of elements of a row, one for every 128th weight of evidence.
const STEPS: usize = 33;
/// An element moves 1 / 2^6 of the way towards a bit.
const RATE_LOG: u32 = 6;

/// Probabilities by context and weight.
pub struct Refinement(Box<[[u16; STEPS]; CONTEXTS]>);

/// The element that learns from the next bit.
#[derive(Clone, Copy)]
pub struct Cell {
    context: usize,
    nearest: usize,
}

impl Refinement {
    /// The initial state, which corrects nothing.
    pub fn new(logistic: &Logistic) -> Refinement {
        let first = std::array::from_fn(|step| logistic.squash(step as i32 * 128 - 2048) as u16);
        Refinement(fixed_table(first))
    }

    /// The corrected probability of a weight from -2048 to 2047, interpolated between two elements.
    #[inline(always)]
    pub fn refine(&self, context: usize, weight: i32) -> (u32, Cell) {
        let offset = (weight + 2048) as usize & 4095;
        let (step, part) = (offset >> 7, offset as u32 & 127);
        let context = context & (CONTEXTS - 1);
        let row = &self.0[context];
        let probability = u32::from(row[step]) * (128 - part) + u32::from(row[step + 1]) * part;
        let nearest = step + (part >> 6) as usize;
        (probability >> 7, Cell { context, nearest })
    }

    /// Moves the nearer of the two elements towards the bit.
    #[inline(always)]
    pub fn learn(&mut self, cell: Cell, bit: u32) {
        let value = &mut self.0[cell.context & (CONTEXTS - 1)][cell.nearest % STEPS];
        let target = if bit == 1 { 65535 } else { 0 };
        let now = i32::from(*value);
        *value = (now + ((target - now) >> RATE_LOG)) as u16;
    }
}
