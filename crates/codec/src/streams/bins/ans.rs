//! Symbols by how frequent they are: tabled asymmetric numeral systems, with two states that take
//! turns.
//!
//! A state is a place in a table of 2^log places, of which a symbol has as many as its weight.
//! docs/format/streams.md specifies the table.

use super::Bin;
use super::bits::{BitReader, SEEN_BITS, low_bits};

/// A table of one bin has one place; of more, 2^5 to 2^12.
pub const TABLE_LOG_MIN: u32 = 5;
/// See [`TABLE_LOG_MIN`].
pub const TABLE_LOG_MAX: u32 = 12;
const TABLE_LEN_MAX: usize = 1 << TABLE_LOG_MAX;

/// The places of a table in the order in which the symbols get theirs.
fn places(table_log: u32) -> impl Iterator<Item = usize> {
    let len = 1usize << table_log;
    let step = len / 2 + len / 8 + 3;
    (0..len).map(move |n| (n * step) & (len - 1))
}

/// What a symbol does with a state.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Bits that leave the state if it is at least `from`; else one less.
    bits: u32,
    from: u32,
    /// Index of its first place, minus its weight.
    offset: i32,
}

/// The table of an encoder.
pub struct Encoding {
    /// Of each symbol, its places.
    next: Vec<u16>,
    steps: Vec<Step>,
    table_log: u32,
}

impl Encoding {
    /// For symbols of these weights (0 for those that do not occur), which are 2^`table_log` together.
    pub fn new(weights: &[u32], table_log: u32) -> Encoding {
        let len = 1usize << table_log;
        let mut symbols = vec![0u16; len];
        let mut steps = Vec::with_capacity(weights.len());
        // Of each symbol, where its next place goes.
        let mut firsts = Vec::with_capacity(weights.len());
        let mut places = places(table_log);
        let mut first = 0;
        for (symbol, &weight) in weights.iter().enumerate() {
            for place in places.by_ref().take(weight as usize) {
                symbols[place] = symbol as u16;
            }
            let bits = table_log - weight.max(1).ilog2();
            steps.push(Step {
                bits,
                from: weight << bits,
                offset: first as i32 - weight as i32,
            });
            firsts.push(first);
            first += weight as usize;
        }
        let mut next = vec![0; len];
        for (place, &symbol) in symbols.iter().enumerate() {
            let first = &mut firsts[usize::from(symbol)];
            next[*first] = place as u16;
            *first += 1;
        }
        Encoding {
            next,
            steps,
            table_log,
        }
    }

    /// Codes a symbol, from the last one to the first: the state before it, and the bits that are
    /// read after it.
    #[inline]
    pub fn put(&self, state: u32, symbol: usize) -> (u32, u32, u32) {
        let step = self.steps[symbol];
        let state = state + (1 << self.table_log);
        let bits = step.bits - u32::from(state < step.from);
        let index = (state >> bits) as i32 + step.offset;
        let before = u32::from(self.next[index as usize]);
        (before, state & low_bits(bits) as u32, bits)
    }
}

/// A place of a decoder's table.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The state after it, to which `bits` bits are added.
    base: u16,
    bin: u16,
    bits: u8,
    offset_bits: u8,
}

/// The table of a decoder, and its bins.
pub struct Decoding {
    places: Box<[Place; TABLE_LEN_MAX]>,
    /// Of each bin, how many states it has had so far, and its weight.
    bins: Vec<(Bin, u32)>,
    lowers: Box<[u64; TABLE_LEN_MAX]>,
    table_log: u32,
}

impl Default for Decoding {
    fn default() -> Decoding {
        Decoding {
            places: Box::new([Place::default(); TABLE_LEN_MAX]),
            bins: Vec::new(),
            lowers: Box::new([0; TABLE_LEN_MAX]),
            table_log: 0,
        }
    }
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Decoding {
    /// Forgets the table before.
    pub fn begin(&mut self, table_log: u32) {
        self.bins.clear();
        self.table_log = table_log.min(TABLE_LOG_MAX);
    }

    /// Adds a bin.
    pub fn add(&mut self, bin: Bin, weight: usize) {
        if let Some(lower) = self.lowers.get_mut(self.bins.len()) {
            *lower = bin.lower;
        }
        self.bins.push((bin, weight as u32));
    }

    /// Makes the table, of which the weights are the length.
    pub fn finish(&mut self) {
        let mut places = places(self.table_log);
        for (number, (bin, weight)) in self.bins.iter().enumerate() {
            for place in places.by_ref().take(*weight as usize) {
                if let Some(place) = self.places.get_mut(place) {
                    place.bin = number as u16;
                    place.offset_bits = bin.bits as u8;
                }
            }
        }
        let len = 1usize << self.table_log;
        for place in self.places.iter_mut().take(len) {
            if let Some((_, next)) = self.bins.get_mut(usize::from(place.bin)) {
                let bits = self.table_log - next.ilog2().min(self.table_log);
                place.bits = bits as u8;
                place.base = ((*next << bits) as usize - len) as u16;
                *next += 1;
            }
        }
    }

    /// Decodes numbers into `out`, which has rows of `W` bytes: `false` where the states do not
    /// end as they begin in an encoder.
    pub fn numbers<const W: usize>(&self, bits: &mut BitReader<'_>, out: &mut [u8]) -> bool {
        let mut states = [0; 2].map(|_| bits.take(self.table_log) as usize);
        let (pairs, rest) = out.as_chunks_mut::<W>().0.as_chunks_mut::<2>();
        for [one, other] in pairs {
            *one = self.number(&mut states[0], bits);
            *other = self.number(&mut states[1], bits);
        }
        for row in rest {
            *row = self.number(&mut states[0], bits);
        }
        states == [0, 0]
    }

    #[inline(always)]
    fn number<const W: usize>(&self, state: &mut usize, bits: &mut BitReader<'_>) -> [u8; W] {
        let places = self.places.get(*state % TABLE_LEN_MAX);
        let place = places.copied().unwrap_or_default();
        let (state_bits, offset_bits) = (u32::from(place.bits), u32::from(place.offset_bits));
        let seen = bits.see();
        *state = usize::from(place.base) + (seen & low_bits(state_bits)) as usize;
        let offset = if W < 8 || state_bits + offset_bits <= SEEN_BITS {
            bits.skip(state_bits + offset_bits);
            seen >> state_bits & low_bits(offset_bits)
        } else {
            bits.skip(state_bits);
            bits.take(offset_bits)
        };
        let lower = self.lowers.get(usize::from(place.bin) % TABLE_LEN_MAX);
        let number = lower.copied().unwrap_or_default().wrapping_add(offset);
        std::array::from_fn(|byte| (number >> (8 * byte)) as u8)
    }
}
