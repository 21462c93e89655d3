//! Guesses the next byte. If the guess is likely to be right, one bit says whether it is, instead
//! of eight bits for the byte.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::chance::{Chance, Rates};
use super::fixed_table;

const ENTRIES: usize = 1 << 16;
const KINDS: usize = 64;
/// Number of situations of a kind: `times` of the entry (16), class of the repeat (16), agreement
/// of entry and repeat (3 of 4).
const SITUATIONS: usize = 1 << 10;
/// Maximum count of the chances.
const SEEN_MAX: u32 = 255;
/// Minimum probability of a guess, in units of 1 / 65,536, for which it is coded whether the guess
/// is right.
const WORTH_ASKING: u32 = 62_259;
/// The same in noise, where the alternative costs eight bits.
const WORTH_ASKING_IN_NOISE: u32 = 4096;

/// The byte that followed in a context, and a measure of how often it did so in a row.
#[derive(Clone, Copy)]
struct Last {
    byte: u8,
    times: u8,
}

/// The last byte by context, and the chance that a guess is right by kind and situation.
pub struct Guesses {
    last: Box<[Last; ENTRIES]>,
    right: Box<[[Chance; SITUATIONS]; KINDS]>,
}

/// A guessed byte.
#[derive(Clone, Copy)]
pub struct Guess {
    pub byte: u8,
    /// The probability that it is right, in units of 1 / 65,536.
    pub chance: u32,
    kind: usize,
    situation: usize,
    entry: usize,
}

impl Guess {
    /// Whether the coder codes if the guess is right.
    #[inline(always)]
    pub fn is_worth_asking(&self, is_noise: bool) -> bool {
        let least = match is_noise {
            true => WORTH_ASKING_IN_NOISE,
            false => WORTH_ASKING,
        };
        self.chance >= least
    }
}

impl Guesses {
    /// The initial state.
    pub fn new() -> Guesses {
        Guesses {
            last: fixed_table(Last { byte: 0, times: 0 }),
            right: fixed_table([Chance::EVEN; SITUATIONS]),
        }
    }

    /// The guess in the context with this hash: the byte that a repeat predicts, if any, or else
    /// the last byte of the context.
    #[inline(always)]
    pub fn guess(&self, kind: u8, hash: u32, repeated: Option<u8>, class: usize) -> Guess {
        let entry = (hash >> 8) as usize & (ENTRIES - 1);
        let last = self.last[entry];
        let (byte, agreement) = match repeated {
            None => (last.byte, 0),
            Some(byte) if byte == last.byte => (byte, 1),
            Some(byte) => (byte, 2),
        };
        let situation = usize::from(last.times.min(15)) | class.min(15) << 4 | agreement << 8;
        let kind = usize::from(kind) & (KINDS - 1);
        let chance = self.right[kind][situation & (SITUATIONS - 1)]
            .bits_16()
            .max(1);
        Guess {
            byte,
            chance,
            kind,
            situation,
            entry,
        }
    }

    /// Learns the actual byte.
    #[inline(always)]
    pub fn learn(&mut self, guess: Guess, byte: u8, rates: &Rates) {
        let right = &mut self.right[guess.kind & (KINDS - 1)][guess.situation & (SITUATIONS - 1)];
        right.learn(u32::from(guess.byte == byte), rates, SEEN_MAX);
        let last = &mut self.last[guess.entry & (ENTRIES - 1)];
        if last.byte == byte {
            last.times = last.times.saturating_add(1);
        } else if last.times > 8 {
            last.times = 4;
        } else if last.times > 1 {
            last.times /= 2;
        } else {
            *last = Last { byte, times: 1 };
        }
    }
}
