//! Numbers as bins and offsets: each number is the bin it lies in, coded by how frequent that is,
//! and its offset in the bin, of as many bits as the bin has. docs/format/streams.md specifies
//! the bytes.

mod ans;
mod bits;
mod division;
mod encoding;
mod repeats;

pub use encoding::Prediction;
pub use repeats::Runs;

use division::{Division, Tally};

use crate::error::DecodeError;
use crate::limits::{BIN_ROWS_MAX, BINS_MAX};
use crate::varint;
use ans::{Decoding, TABLE_LOG_MAX, TABLE_LOG_MIN};
use bits::BitReader;

const BAD: DecodeError = DecodeError::Corrupt("bins of a stream");

const TOO_MUCH: DecodeError = DecodeError::Corrupt("bins claim more than they can hold");

/// Widths of rows that are numbers.
pub const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// Numbers from `lower` on, of which each has an offset of `bits` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// The smallest number.
    pub lower: u64,
    /// Bits of an offset.
    pub bits: u32,
}

impl Bin {
    /// The bin has this number.
    #[inline]
    fn has(self, number: u64) -> bool {
        let offset = number.wrapping_sub(self.lower);
        self.bits >= 64 || offset >> self.bits == 0
    }

    /// The number after its last one, modulo 2 to the power of 64.
    fn end(self) -> u64 {
        let len = 1u64.checked_shl(self.bits).unwrap_or(0);
        self.lower.wrapping_add(len)
    }
}

/// Bits that say how many bits a number of some width has.
fn length_bits(width: usize) -> u32 {
    width.ilog2() + 4
}

/// All bits of a number of some width.
fn mask_of(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width.clamp(1, 8))
}

/// Bits of a number, without the zeros before the first one.
fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// Memory that decoding one stream leaves to the next.
#[derive(Default)]
pub struct Scratch {
    decoding: Decoding,
}

/// Bytes of the stream that `coded` stands for, as it claims: at most [`BIN_ROWS_MAX`] rows for
/// each of its own.
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
pub fn claimed_len(mut coded: &[u8], width: usize) -> Result<usize, DecodeError> {
    let rows_max = coded.len().saturating_mul(BIN_ROWS_MAX);
    let len = take_number(&mut coded)?;
    match width > 0 && len / width <= rows_max {
        true => Ok(len),
        false => Err(TOO_MUCH),
    }
}

/// Decodes the stream that `coded` stands for into `out`, which has the length that it claims.
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
pub fn decode(
    mut coded: &[u8],
    width: usize,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<(), DecodeError> {
    let len = claimed_len(coded, width)?;
    if len != out.len() {
        return Err(TOO_MUCH);
    }
    take_number(&mut coded)?;
    let rows = len / width;
    let rest = coded.split_off(..len % width).ok_or(BAD)?;
    let count = take_number(&mut coded)?;
    let (&table_log, coded) = coded.split_first().ok_or(BAD)?;
    let table_log = u32::from(table_log);
    let is_table = match count {
        1 => table_log == 0,
        2..=BINS_MAX => (TABLE_LOG_MIN..=TABLE_LOG_MAX).contains(&table_log),
        _ => false,
    };
    if !is_table {
        return Err(BAD);
    }
    let mut bits = BitReader::new(coded);
    read_bins(&mut bits, &mut scratch.decoding, count, width, table_log)?;
    if !bits.skip_to_start() {
        return Err(BAD);
    }
    let (numbers, last) = out.split_at_mut_checked(rows * width).ok_or(BAD)?;
    let is_whole = match width {
        1 => scratch.decoding.numbers::<1>(&mut bits, numbers),
        2 => scratch.decoding.numbers::<2>(&mut bits, numbers),
        4 => scratch.decoding.numbers::<4>(&mut bits, numbers),
        8 => scratch.decoding.numbers::<8>(&mut bits, numbers),
        _ => false,
    };
    if !is_whole || !bits.is_at_last_bit() {
        return Err(BAD);
    }
    last.copy_from_slice(rest);
    Ok(())
}

fn take_number(bytes: &mut &[u8]) -> Result<usize, DecodeError> {
    let number = varint::read(bytes).ok_or(BAD)?;
    usize::try_from(number).map_err(|_| BAD)
}

/// Reads the bins and how frequent they are, and makes the table of them.
fn read_bins(
    bits: &mut BitReader<'_>,
    decoding: &mut Decoding,
    count: usize,
    width: usize,
    table_log: u32,
) -> Result<(), DecodeError> {
    let length_bits = length_bits(width);
    let mask = mask_of(width);
    decoding.begin(table_log);
    let mut end = 0u64;
    let mut left = 1usize << table_log;
    for number in 1..=count {
        let gap_bits = bits.take(length_bits) as u32;
        let offset_bits = bits.take(length_bits) as u32;
        let width_bits = 8 * width as u32;
        if gap_bits > width_bits || offset_bits > width_bits {
            return Err(BAD);
        }
        let gap = match gap_bits {
            0 => 0,
            _ => 1 << (gap_bits - 1) | bits.take(gap_bits - 1),
        };
        let bin = Bin {
            lower: end.wrapping_add(gap) & mask,
            bits: offset_bits,
        };
        end = bin.end();
        // The last bin has what the others leave.
        let weight = match number == count {
            true => left,
            false => read_weight(bits),
        };
        left = left.checked_sub(weight).ok_or(BAD)?;
        if weight == 0 {
            return Err(BAD);
        }
        decoding.add(bin, weight);
    }
    decoding.finish();
    Ok(())
}

/// Bits that say how many bits a weight has after its first one.
const WEIGHT_LENGTH_BITS: u32 = 4;

/// A weight, from 1 on.
fn read_weight(bits: &mut BitReader<'_>) -> usize {
    let len = bits.take(WEIGHT_LENGTH_BITS) as u32;
    1 << len | bits.take(len) as usize
}

#[cfg(test)]
mod tests;
