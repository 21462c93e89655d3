//! How numbers are divided into bins: so that bins, their frequencies and offsets take the fewest
//! bits.

use std::sync::LazyLock;

use super::{Bin, bit_length, length_bits, mask_of};
use crate::limits::BINS_MAX;

/// Groups of neighbouring numbers that a division is made of, at most: a number that is more
/// frequent than a group's share is one for itself.
const GROUPS_MAX: usize = 128;
/// The same of many numbers.
const GROUPS_OF_MANY: usize = 512;
/// Numbers that are many.
const MANY: usize = 16384;
/// How many groups a bin may have: all lengths would take the square of the time.
const BIN_GROUPS: [usize; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512];

/// Bits that a bin gains in the numbers that it is made for, and in no others.
const SAMPLED_LESS: f32 = 2.0;

/// Numbers in their order, each once, with how often it comes.
#[derive(Default)]
pub struct Tally {
    numbers: Vec<(u64, u32)>,
    /// How many there are.
    pub total: u32,
}

impl Tally {
    /// Of numbers in any order.
    pub fn of(numbers: &mut [u64]) -> Tally {
        numbers.sort_unstable();
        let mut tally = Tally::default();
        for same in numbers.chunk_by(|a, b| a == b) {
            tally.add(same[0], same.len() as u32);
        }
        tally
    }

    /// Of how often each number from 0 on comes.
    pub fn of_counts(counts: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for (number, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            tally.add(number as u64, count);
        }
        tally
    }

    fn add(&mut self, number: u64, count: u32) {
        self.numbers.push((number, count));
        self.total += count;
    }

    /// Neighbours put together until they have their share.
    fn groups(&self) -> Vec<Group> {
        let groups_max = match self.total as usize {
            MANY.. => GROUPS_OF_MANY,
            _ => GROUPS_MAX,
        };
        let share = (self.total / groups_max as u32).max(1);
        let mut groups: Vec<Group> = Vec::with_capacity(2 * groups_max);
        for &(number, count) in &self.numbers {
            match groups.last_mut() {
                Some(last) if last.count < share && count < share => {
                    last.count += count;
                    last.upper = number;
                }
                _ => groups.push(Group {
                    lower: number,
                    upper: number,
                    count,
                }),
            }
        }
        groups
    }
}

#[derive(Clone, Copy)]
struct Group {
    lower: u64,
    upper: u64,
    count: u32,
}

/// Bins in the order of their numbers, which do not overlap.
#[derive(Default)]
pub struct Division {
    /// The bins.
    pub bins: Vec<Bin>,
    /// How many numbers of the tally each has.
    pub counts: Vec<u32>,
}

/// The best way to divide the groups up to some place.
#[derive(Clone, Copy)]
struct Best {
    cost: f32,
    /// Groups of the last bin, and how many bins there are.
    groups: u32,
    bins: u32,
}

impl Division {
    /// The division of so many rows, of which a tally has some, that takes the fewest bits, the
    /// bins included.
    pub fn of(tally: &Tally, width: usize, rows: usize) -> Division {
        let groups = tally.groups();
        // All rows share what a bin takes.
        let share = f64::from(tally.total) / rows.max(1) as f64;
        let bin_bits = bin_bits(width) * share as f32 + SAMPLED_LESS;
        let best = best_ways(&groups, tally.total, bin_bits);
        let mut division = Division::default();
        let mut end = groups.len();
        while end > 0 {
            let start = end - best[end].groups as usize;
            let count = groups[start..end].iter().map(|group| group.count);
            division.counts.push(count.sum());
            division.bins.push(Bin {
                lower: groups[start].lower,
                bits: bit_length(groups[end - 1].upper - groups[start].lower),
            });
            end = start;
        }
        division.bins.reverse();
        division.counts.reverse();
        division
    }

    /// Bits that all bins take in the stream, about.
    pub fn header_bits(&self, width: usize) -> f64 {
        self.bins.len() as f64 * f64::from(bin_bits(width))
    }

    /// Adds a bin for all numbers, which others may be in as well.
    pub fn add_all_numbers(&mut self, width: usize) {
        self.bins.push(Bin {
            lower: 0,
            bits: bit_length(mask_of(width)),
        });
    }
}

/// The best way to divide the groups up to each, where a bin takes so many bits for itself.
fn best_ways(groups: &[Group], total: u32, bin_bits: f32) -> Vec<Best> {
    let total_log = f64::from(total.max(1)).log2() as f32;
    let mut before = Vec::with_capacity(groups.len() + 1);
    before.push(0);
    before.extend(groups.iter().scan(0, |count, group| {
        *count += group.count;
        Some(*count)
    }));
    let mut best = Vec::with_capacity(groups.len() + 1);
    best.push(Best {
        cost: 0.0,
        groups: 0,
        bins: 0,
    });
    for (last, group) in groups.iter().enumerate() {
        let mut found = Best {
            cost: f32::INFINITY,
            groups: 1,
            bins: 0,
        };
        for len in BIN_GROUPS.into_iter().take_while(|len| *len <= last + 1) {
            let start = last + 1 - len;
            let count = before[last + 1] - before[start];
            let offset_bits = bit_length(group.upper - groups[start].lower);
            let each = total_log + offset_bits as f32;
            let cost = best[start].cost + count as f32 * each - times_log2(count) + bin_bits;
            if cost < found.cost && best[start].bins < BINS_MAX as u32 - 2 {
                found = Best {
                    cost,
                    groups: len as u32,
                    bins: best[start].bins + 1,
                };
            }
        }
        best.push(found);
    }
    best
}

/// Bits that a bin takes in the stream, about: its bounds, and its weight.
fn bin_bits(width: usize) -> f32 {
    (2 * length_bits(width) + 2 * width as u32 + 9) as f32
}

/// A number times its binary logarithm.
fn times_log2(number: u32) -> f32 {
    static SMALL: LazyLock<Vec<f32>> = LazyLock::new(|| (0..4096).map(computed).collect());
    fn computed(number: u32) -> f32 {
        match number {
            0 => 0.0,
            number => (f64::from(number) * f64::from(number).log2()) as f32,
        }
    }
    match SMALL.get(number as usize) {
        Some(known) => *known,
        None => computed(number),
    }
}
