//! Writing a stream in bins.

use super::ans::{Encoding, TABLE_LOG_MAX, TABLE_LOG_MIN};
use super::bits::BitWriter;
use super::repeats;
use super::{Bin, Division, Tally, WEIGHT_LENGTH_BITS, bit_length, length_bits, mask_of};
use crate::limits::BIN_ROWS_MAX;
use crate::varint;

/// Of more numbers, the bins are found in that many of them.
const SAMPLE_MAX: usize = 4096;
/// The same for a prediction.
const PREDICTED_BY: usize = 2048;
/// Of more numbers of two bytes, the frequency of each possible one is counted.
const COUNTED_MIN: usize = 16384;

/// The stream in bins: `None` where it would have more rows than bins may hold.
pub fn encode(rows: &[u8], width: usize) -> Option<Vec<u8>> {
    let numbers = numbers(rows, width);
    if numbers.is_empty() {
        return None;
    }
    let mut division = Division::of(&tally_of(&numbers, width, SAMPLE_MAX), width);
    division.add_all_numbers(width);
    let chosen = choose_bins(&numbers, &division.bins, width);
    let (bins, chosen, counts) = drop_unused(&division.bins, chosen);
    let table_log = table_log(numbers.len(), bins.len());
    let weights = weights(&counts, numbers.len(), table_log);
    let mut bytes = Vec::with_capacity(rows.len() / 2 + 64);
    varint::write(&mut bytes, rows.len() as u64);
    bytes.extend_from_slice(&rows[numbers.len() * width..]);
    varint::write(&mut bytes, bins.len() as u64);
    bytes.push(table_log as u8);
    let mut out = BitWriter::after(bytes);
    write_bins(&mut out, &bins, &weights, width);
    write_numbers(
        &mut out,
        &numbers,
        &bins,
        &chosen,
        &Encoding::new(&weights, table_log),
    );
    let bytes = out.finish();
    (numbers.len() <= bytes.len() * BIN_ROWS_MAX).then_some(bytes)
}

/// What a sample promises of a stream.
pub struct Prediction {
    bits_per_number: f64,
    header_bits: f64,
}

impl Prediction {
    /// By a sample of the rows.
    pub fn of(sample: &[u8], width: usize) -> Prediction {
        let numbers = numbers(sample, width);
        let division = Division::of(&tally_of(&numbers, width, PREDICTED_BY), width);
        Prediction {
            bits_per_number: division.bits_per_number,
            header_bits: division.header_bits,
        }
    }

    /// Bytes that so many rows take in bins, about.
    pub fn len(&self, rows: usize) -> f64 {
        (self.bits_per_number * rows as f64 + self.header_bits) / 8.0 + FIXED_LEN
    }

    /// The part of the rows that stand in runs which came before.
    pub fn repeated_part(&self, rows: &[u8], width: usize) -> f64 {
        repeats::repeated_part(&numbers(rows, width), self.bits_per_number)
    }
}

/// Bytes of a stream besides its bins and numbers, about.
const FIXED_LEN: f64 = 8.0;

/// The rows as numbers.
fn numbers(rows: &[u8], width: usize) -> Vec<u64> {
    match width {
        1 => rows.iter().map(|&byte| u64::from(byte)).collect(),
        2 => numbers_of::<2>(rows),
        4 => numbers_of::<4>(rows),
        _ => numbers_of::<8>(rows),
    }
}

fn numbers_of<const W: usize>(rows: &[u8]) -> Vec<u64> {
    let number = |row: &[u8; W]| {
        let mut bytes = [0; 8];
        bytes[..W].copy_from_slice(row);
        u64::from_le_bytes(bytes)
    };
    rows.as_chunks::<W>().0.iter().map(number).collect()
}

/// Each possible number has a place in a table.
fn is_counted(numbers: usize, width: usize) -> bool {
    width == 1 || width == 2 && numbers > COUNTED_MIN
}

fn tally_of(numbers: &[u64], width: usize, sample_max: usize) -> Tally {
    if is_counted(numbers.len(), width) {
        let mut counts = vec![0; 1 << (8 * width)];
        for &number in numbers {
            counts[number as usize] += 1;
        }
        return Tally::of_counts(&counts);
    }
    let step = numbers.len().div_ceil(sample_max);
    let mut sample: Vec<u64> = numbers.iter().copied().step_by(step).collect();
    Tally::of(&mut sample)
}

/// The bin of each number: the last one that begins before it, or the one for all numbers.
fn choose_bins(numbers: &[u64], bins: &[Bin], width: usize) -> Vec<u16> {
    let (for_all, own) = (bins.len() - 1, &bins[..bins.len() - 1]);
    if is_counted(numbers.len(), width) {
        let mut all = vec![for_all as u16; 1 << (8 * width)];
        for (number, bin) in own.iter().enumerate() {
            let end = own
                .get(number + 1)
                .map_or(all.len() as u64, |next| next.lower);
            let end = bin.end().min(end) as usize;
            all[bin.lower as usize..end].fill(number as u16);
        }
        return numbers.iter().map(|&number| all[number as usize]).collect();
    }
    let choose = |&number: &u64| {
        let after = own.partition_point(|bin| bin.lower <= number);
        match after.checked_sub(1) {
            Some(bin) if own[bin].has(number) => bin as u16,
            _ => for_all as u16,
        }
    };
    numbers.iter().map(choose).collect()
}

type Used = (Vec<Bin>, Vec<u16>, Vec<u32>);

/// The bins that have numbers, which numbers they have, and how many.
fn drop_unused(bins: &[Bin], mut chosen: Vec<u16>) -> Used {
    let mut counts = vec![0u32; bins.len()];
    for &bin in &chosen {
        counts[usize::from(bin)] += 1;
    }
    let mut used = Vec::with_capacity(bins.len());
    let new_places: Vec<u16> = std::iter::zip(bins, &counts)
        .map(|(&bin, &count)| {
            let place = used.len() as u16;
            used.extend((count > 0).then_some(bin));
            place
        })
        .collect();
    if used.len() < bins.len() {
        for bin in &mut chosen {
            *bin = new_places[usize::from(*bin)];
        }
        counts.retain(|&count| count > 0);
    }
    (used, chosen, counts)
}

/// A table about half as long as there are numbers, so that making it takes less than they do.
fn table_log(numbers: usize, bins: usize) -> u32 {
    if bins == 1 {
        return 0;
    }
    let wanted = (numbers.ilog2().saturating_sub(1)).max(bins.ilog2() + 2);
    wanted.clamp(TABLE_LOG_MIN, TABLE_LOG_MAX)
}

/// Weights in the proportion of the counts, each at least 1, that fill the table.
fn weights(counts: &[u32], total: usize, table_log: u32) -> Vec<u32> {
    let len = 1u64 << table_log;
    let weight = |&count: &u32| {
        let scaled = (u64::from(count) * len * 2 / total as u64).div_ceil(2);
        scaled.clamp(1, len) as u32
    };
    let mut weights: Vec<u32> = counts.iter().map(weight).collect();
    let mut sum: u32 = weights.iter().sum();
    // What is too much or too little changes the largest weights least.
    while sum != len as u32 {
        let largest = weights.iter_mut().max();
        let Some(largest) = largest else { break };
        let change = match sum < len as u32 {
            true => len as u32 - sum,
            false => (sum - len as u32).min(*largest / 8).max(1),
        };
        match sum < len as u32 {
            true => (*largest, sum) = (*largest + change, sum + change),
            false => (*largest, sum) = (*largest - change, sum - change),
        }
    }
    weights
}

fn write_bins(out: &mut BitWriter, bins: &[Bin], weights: &[u32], width: usize) {
    let length_bits = length_bits(width);
    let mut end = 0u64;
    for (number, (bin, weight)) in bins.iter().zip(weights).enumerate() {
        let gap = bin.lower.wrapping_sub(end) & mask_of(width);
        let gap_bits = bit_length(gap);
        out.put(u64::from(gap_bits), length_bits);
        out.put(u64::from(bin.bits), length_bits);
        if gap_bits > 0 {
            out.put(gap ^ 1 << (gap_bits - 1), gap_bits - 1);
        }
        end = bin.end();
        if number + 1 < bins.len() {
            let len = weight.ilog2();
            out.put(u64::from(len), WEIGHT_LENGTH_BITS);
            out.put(u64::from(weight ^ 1 << len), len);
        }
    }
}

/// Writes the two states that the decoder begins with, and the bits of each number.
fn write_numbers(
    out: &mut BitWriter,
    numbers: &[u64],
    bins: &[Bin],
    chosen: &[u16],
    encoding: &Encoding,
) {
    let mut states = [0; 2];
    // A decoder takes first what an encoder made last.
    let mut taken = vec![(0u16, 0u8); chosen.len()];
    for (row, (taken, &bin)) in taken.iter_mut().zip(chosen).enumerate().rev() {
        let state = &mut states[row % 2];
        let (before, value, bits) = encoding.put(*state, usize::from(bin));
        *state = before;
        *taken = (value as u16, bits as u8);
    }
    for state in states {
        out.put(u64::from(state), encoding.table_log());
    }
    for ((&number, &bin), (value, bits)) in numbers.iter().zip(chosen).zip(taken) {
        let bin = bins[usize::from(bin)];
        let offset = number - bin.lower;
        if bin.bits <= 32 {
            out.put(
                u64::from(value) | offset << bits,
                u32::from(bits) + bin.bits,
            );
        } else {
            out.put(u64::from(value), u32::from(bits));
            out.put(offset, bin.bits);
        }
    }
}
