//! What followed when the last bytes occurred before.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::prefetch::prefetch;
use super::{fixed_table, hash};

/// Bytes that must agree.
const LEN_MIN: usize = 6;
/// Bytes of noise that must agree: they do so by chance hardly ever.
const NOISE_LEN_MIN: usize = 4;
/// Bytes that are compared, at most.
const COMPARED_MAX: usize = 32;
/// A repeat is not counted further.
const LEN_MAX: usize = 65535;
const PLACES: usize = 1 << 22;

/// Everything that was coded, and where in it sequences were last.
pub struct Repeats {
    history: Vec<u8>,
    places: Box<[u32; PLACES]>,
    /// Where the repeated bytes go on.
    at: usize,
    /// Bytes that agreed so far; 0 where nothing is repeated.
    len: usize,
    /// Bytes since the last interruption.
    fresh: usize,
}

impl Repeats {
    /// Without any byte; `history` is empty, and has room for all that will be pushed.
    pub fn new(history: Vec<u8>) -> Repeats {
        Repeats {
            history,
            places: fixed_table(0),
            at: 0,
            len: 0,
            fresh: 0,
        }
    }

    /// What comes next is of another sort: nothing is repeated across this point.
    pub fn interrupt(&mut self) {
        self.len = 0;
        self.fresh = 0;
    }

    /// Looks for a repeat, after the bytes in `recent`, the last one lowest.
    #[inline(always)]
    pub fn look(&mut self, recent: u64, is_noise: bool) {
        let len_min = match is_noise {
            true => NOISE_LEN_MIN,
            false => LEN_MIN,
        };
        if self.fresh < len_min {
            return;
        }
        let known = &mut self.places[place_of(recent, is_noise)];
        let before = *known as usize;
        *known = self.history.len() as u32;
        if self.len == 0 && before > 0 {
            let (old, _) = self.history.split_at(before.min(self.history.len()));
            let pairs = old.iter().rev().zip(self.history.iter().rev());
            let len = pairs.take(COMPARED_MAX).take_while(|(a, b)| a == b).count();
            if len >= len_min {
                self.len = len;
                self.at = before;
            }
        }
    }

    /// Bytes behind `recent` will be looked for soon.
    #[inline(always)]
    pub fn expect(&self, recent: u64, is_noise: bool) {
        prefetch(&self.places[place_of(recent, is_noise)]);
    }

    /// The byte that a repeat makes likely.
    #[inline(always)]
    pub fn expected(&self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        self.history.get(self.at).copied()
    }

    /// How long the repeat is, in 32 classes; 0 where there is none.
    #[inline(always)]
    pub fn class(&self) -> usize {
        match self.len {
            len @ 0..=15 => len,
            len @ 16..=31 => 16 + (len - 16) / 4,
            len => (20 + (len - 32) / 32).min(31),
        }
    }

    /// Takes the byte that came.
    #[inline(always)]
    pub fn push(&mut self, byte: u8) {
        self.len = match self.expected() {
            Some(expected) if expected == byte => (self.len + 1).min(LEN_MAX),
            _ => 0,
        };
        self.at += 1;
        self.fresh += 1;
        self.history.push(byte);
    }
}

/// Where it is noted what followed the bytes in `recent`.
#[inline(always)]
fn place_of(recent: u64, is_noise: bool) -> usize {
    let more = match is_noise {
        true => 0,
        false => (recent >> 32) as u32 & 0xFFFF,
    };
    hash(recent as u32, more, 9) as usize & (PLACES - 1)
}
