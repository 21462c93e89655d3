//! Writing a stream in bins.

use super::ans::{Encoding, TABLE_LOG_MAX, TABLE_LOG_MIN};
use super::bits::{BackwardWriter, BitWriter, number};
use super::repeats::{Repeats, Runs};
use super::{Bin, Division, Tally, WEIGHT_LENGTH_BITS, bit_length, length_bits, mask_of};
use crate::limits::BIN_ROWS_MAX;
use crate::varint;

/// Of more numbers, the bins are found in that many of them.
const SAMPLE_MAX: usize = 4096;
/// The same for a prediction.
const PREDICTED_BY: usize = 2048;
/// Of more numbers of two bytes, the frequency of each possible one is counted.
const COUNTED_MIN: usize = 16384;

/// What some of its numbers promise of a stream.
pub struct Prediction {
    division: Division,
    rows: usize,
    bits_per_row: f64,
    len: f64,
}

impl Prediction {
    /// For a stream.
    pub fn of(rows: &[u8], width: usize) -> Prediction {
        let tally = tally_of(rows, width, PREDICTED_BY);
        let rows = rows.len() / width;
        let division = Division::of(&tally, width, rows);
        let bits_per_row = bits_per_number(&division, rows, tally.total as usize);
        let bits = bits_per_row * rows as f64 + division.header_bits(width);
        Prediction {
            division,
            rows,
            bits_per_row,
            len: bits / 8.0 + FIXED_LEN,
        }
    }

    /// Bytes that the stream takes in bins, about.
    pub fn len(&self) -> f64 {
        self.len
    }

    /// Which runs of the rows came before, in this stream or in others.
    pub fn repeats(&self, rows: &[u8], width: usize, runs: &mut Runs, stream: u32) -> Repeats {
        let bits = self.bits_per_row;
        match width {
            1 => runs.look::<1>(rows, bits, stream),
            2 => runs.look::<2>(rows, bits, stream),
            4 => runs.look::<4>(rows, bits, stream),
            _ => runs.look::<8>(rows, bits, stream),
        }
    }

    /// The stream in bins: `None` where it would have more rows than bins may hold.
    pub fn encode(self, rows: &[u8], width: usize) -> Option<Vec<u8>> {
        let is_of_all = self.rows <= PREDICTED_BY || is_counted(self.rows, width);
        let division = match is_of_all {
            true => self.division,
            false => Division::of(&tally_of(rows, width, SAMPLE_MAX), width, self.rows),
        };
        match width {
            1 => encode::<1>(rows, division),
            2 => encode::<2>(rows, division),
            4 => encode::<4>(rows, division),
            _ => encode::<8>(rows, division),
        }
    }
}

/// Bytes of a stream besides its bins and numbers, about.
const FIXED_LEN: f64 = 8.0;

fn encode<const W: usize>(rows: &[u8], mut division: Division) -> Option<Vec<u8>> {
    let (numbers, rest) = rows.as_chunks::<W>();
    if numbers.is_empty() {
        return None;
    }
    division.add_all_numbers(W);
    let mut bytes = Vec::with_capacity(rows.len() / 2 + 64);
    varint::write(&mut bytes, rows.len() as u64);
    bytes.extend_from_slice(rest);
    if is_counted(numbers.len(), W) {
        let all = bins_of_all::<W>(&division.bins);
        let bin_of = |row: usize| all[number(&numbers[row]) as usize];
        write(numbers, &division.bins, bin_of, &mut bytes);
    } else {
        let chosen: Vec<u16> = numbers
            .iter()
            .map(|row| bin_of(number(row), &division.bins))
            .collect();
        write(numbers, &division.bins, |row| chosen[row], &mut bytes);
    }
    (numbers.len() <= bytes.len() * BIN_ROWS_MAX).then_some(bytes)
}

/// Each possible number has a place in a table.
fn is_counted(numbers: usize, width: usize) -> bool {
    width == 1 || width == 2 && numbers > COUNTED_MIN
}

fn tally_of(rows: &[u8], width: usize, sample_max: usize) -> Tally {
    match width {
        1 => tally::<1>(rows, sample_max),
        2 => tally::<2>(rows, sample_max),
        4 => tally::<4>(rows, sample_max),
        _ => tally::<8>(rows, sample_max),
    }
}

fn tally<const W: usize>(rows: &[u8], sample_max: usize) -> Tally {
    let numbers = rows.as_chunks::<W>().0;
    if is_counted(numbers.len(), W) {
        let mut counts = vec![0; 1 << (8 * W)];
        for row in numbers {
            counts[number(row) as usize] += 1;
        }
        return Tally::of_counts(&counts);
    }
    // An odd step does not fall in with what comes in pairs.
    let step = match numbers.len().div_ceil(sample_max) {
        0 | 1 => 1,
        step => step | 1,
    };
    let mut sample: Vec<u64> = numbers.iter().step_by(step).map(number).collect();
    Tally::of(&mut sample)
}

/// The bin of each possible number: the last bin of all is for those that no other has.
fn bins_of_all<const W: usize>(bins: &[Bin]) -> Vec<u16> {
    let own = &bins[..bins.len() - 1];
    let mut all = vec![own.len() as u16; 1 << (8 * W)];
    for (number, bin) in own.iter().enumerate() {
        let next = own
            .get(number + 1)
            .map_or(all.len() as u64, |next| next.lower);
        let end = bin.end().min(next) as usize;
        all[bin.lower as usize..end].fill(number as u16);
    }
    all
}

/// The bin of a number: the last one that begins before it, or the one for all numbers.
fn bin_of(number: u64, bins: &[Bin]) -> u16 {
    let own = &bins[..bins.len() - 1];
    let after = own.partition_point(|bin| bin.lower <= number);
    match after.checked_sub(1) {
        Some(bin) if own[bin].has(number) => bin as u16,
        _ => own.len() as u16,
    }
}

/// Writes the bins that have numbers, and the numbers.
fn write<const W: usize>(
    numbers: &[[u8; W]],
    bins: &[Bin],
    bin_of: impl Fn(usize) -> u16,
    out: &mut Vec<u8>,
) {
    let mut counts = vec![0u32; bins.len()];
    for row in 0..numbers.len() {
        counts[usize::from(bin_of(row))] += 1;
    }
    let used = counts.iter().filter(|&&count| count > 0).count();
    let table_log = table_log(numbers.len(), used);
    let weights = weights(&counts, numbers.len(), table_log);
    varint::write(out, used as u64);
    out.push(table_log as u8);
    let mut header = BitWriter::after(std::mem::take(out));
    write_bins(&mut header, bins, &weights, W);
    *out = header.finish();
    let encoding = Encoding::new(&weights, table_log);
    // A decoder takes first what is written last.
    let mut writer = BackwardWriter::with_capacity(numbers.len() * (W + 2));
    let mut states = [0; 2];
    for (row, bytes) in numbers.iter().enumerate().rev() {
        let chosen = usize::from(bin_of(row));
        let bin = bins[chosen];
        let (before, value, bits) = encoding.put(states[row % 2], chosen);
        states[row % 2] = before;
        let offset = number(bytes).wrapping_sub(bin.lower);
        if W == 8 && bin.bits > 32 {
            writer.put(offset, bin.bits);
            writer.put(u64::from(value), bits);
        } else {
            writer.put(u64::from(value) | offset << bits, bits + bin.bits);
        }
    }
    for state in states.into_iter().rev() {
        writer.put(u64::from(state), table_log);
    }
    out.extend_from_slice(writer.finish());
}

/// Bits of a number by the table that so many rows would have, where so many numbers are known.
fn bits_per_number(division: &Division, rows: usize, known: usize) -> f64 {
    if division.bins.is_empty() {
        return 0.0;
    }
    let table_log = table_log(rows, division.bins.len());
    let weights = weights(&division.counts, known, table_log);
    let bins = division.bins.iter().zip(&division.counts).zip(weights);
    let bits = bins.map(|((bin, &count), weight)| {
        let each = f64::from(table_log + bin.bits) - f64::from(weight).log2();
        f64::from(count) * each
    });
    bits.sum::<f64>() / known as f64
}

/// A table about half as long as there are numbers, so that making it takes less than they do.
fn table_log(numbers: usize, bins: usize) -> u32 {
    if bins == 1 {
        return 0;
    }
    let wanted = (numbers.ilog2().saturating_sub(1)).max(bins.ilog2() + 2);
    wanted.clamp(TABLE_LOG_MIN, TABLE_LOG_MAX)
}

/// Weights in the proportion of the counts that fill the table: at least 1, but of nothing 0.
fn weights(counts: &[u32], total: usize, table_log: u32) -> Vec<u32> {
    let len = 1u32 << table_log;
    let weight = |&count: &u32| {
        let scaled = (u64::from(count) * u64::from(len) * 2 / total as u64).div_ceil(2);
        scaled.clamp(u64::from(count > 0), u64::from(len)) as u32
    };
    let mut weights: Vec<u32> = counts.iter().map(weight).collect();
    let mut sum: u32 = weights.iter().sum();
    // What is too much or too little changes the largest weights least.
    while sum != len {
        let Some(largest) = weights.iter_mut().max() else {
            break;
        };
        if sum < len {
            *largest += len - sum;
            sum = len;
        } else {
            let change = (sum - len).min(*largest / 8).max(1);
            *largest -= change;
            sum -= change;
        }
    }
    weights
}

fn write_bins(out: &mut BitWriter, bins: &[Bin], weights: &[u32], width: usize) {
    let length_bits = length_bits(width);
    let mut end = 0u64;
    let used = bins.iter().zip(weights).filter(|(_, weight)| **weight > 0);
    let mut left: u32 = weights.iter().sum();
    for (bin, weight) in used {
        let gap = bin.lower.wrapping_sub(end) & mask_of(width);
        let gap_bits = bit_length(gap);
        out.put(u64::from(gap_bits), length_bits);
        out.put(u64::from(bin.bits), length_bits);
        if gap_bits > 0 {
            out.put(gap ^ 1 << (gap_bits - 1), gap_bits - 1);
        }
        end = bin.end();
        left -= weight;
        if left > 0 {
            let len = weight.ilog2();
            out.put(u64::from(len), WEIGHT_LENGTH_BITS);
            out.put(u64::from(weight ^ 1 << len), len);
        }
    }
}
