//! Predicts the byte that followed the last occurrence of the most recent bytes.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use walzip_pgformat::prefetch::prefetch;

use super::{fixed_table, hash};

/// Minimum number of bytes that must agree.
const LEN_MIN: usize = 6;
/// The same in noise, where bytes hardly ever agree by chance.
const NOISE_LEN_MIN: usize = 4;
/// Maximum number of bytes that are compared.
const COMPARED_MAX: usize = 32;
/// Maximum length to which a repeat is counted.
const LEN_MAX: usize = 65535;
const ENTRIES: usize = 1 << 22;

/// The bytes coded so far, and the offsets at which sequences last ended.
pub struct Repeats {
    history: Vec<u8>,
    /// For each hash of recent bytes, the offset in `history` after their last occurrence.
    offsets: Box<[u32; ENTRIES]>,
    /// Offset in `history` of the next repeated byte.
    at: usize,
    /// Length of the repeat so far; 0 if there is none.
    len: usize,
    /// Number of bytes since the last interruption.
    fresh: usize,
}

impl Repeats {
    /// The initial state. `history` is empty and has the capacity for all bytes that are pushed.
    pub fn new(history: Vec<u8>) -> Repeats {
        Repeats {
            history,
            offsets: fixed_table(0),
            at: 0,
            len: 0,
            fresh: 0,
        }
    }

    /// Ends the repeat. A new one does not include bytes before this point.
    pub fn interrupt(&mut self) {
        self.len = 0;
        self.fresh = 0;
    }

    /// Looks for a repeat after the bytes in `recent`, the last one lowest.
    #[inline(always)]
    pub fn look(&mut self, recent: u64, is_noise: bool) {
        let len_min = match is_noise {
            true => NOISE_LEN_MIN,
            false => LEN_MIN,
        };
        if self.fresh < len_min {
            return;
        }
        let known = &mut self.offsets[entry_of(recent, is_noise)];
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

    /// Prefetches the entry of `recent`.
    #[inline(always)]
    pub fn expect(&self, recent: u64, is_noise: bool) {
        prefetch(&self.offsets[entry_of(recent, is_noise)]);
    }

    /// The byte that the repeat predicts.
    #[inline(always)]
    pub fn expected(&self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        self.history.get(self.at).copied()
    }

    /// The length of the repeat, in 32 classes; 0 if there is none.
    #[inline(always)]
    pub fn class(&self) -> usize {
        match self.len {
            len @ 0..=15 => len,
            len @ 16..=31 => 16 + (len - 16) / 4,
            len => (20 + (len - 32) / 32).min(31),
        }
    }

    /// Appends the actual byte.
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

/// The index in `offsets` of the bytes in `recent`.
#[inline(always)]
fn entry_of(recent: u64, is_noise: bool) -> usize {
    let more = match is_noise {
        true => 0,
        false => (recent >> 32) as u32 & 0xFFFF,
    };
    hash(recent as u32, more, 9) as usize & (ENTRIES - 1)
}
