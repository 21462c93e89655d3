//! The byte that is likely, and whether it is it: one bit in place of eight.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the table"
)]

use super::chance::{Chance, Rates};
use super::fixed_table;

const PLACES: usize = 1 << 16;
const KINDS: usize = 64;
/// Situations of a kind: confidence (16), length of the repeat (16), who agrees (3 of 4).
const SITUATIONS: usize = 1 << 10;
const SEEN_MAX: u32 = 255;
/// Below this probability, of sixteen bits, it is not asked whether the guess is right.
const WORTH_ASKING: u32 = 62_259;
/// The same where the alternative is eight bits.
const WORTH_ASKING_IN_NOISE: u32 = 4096;

/// What followed in a context, and how often in a row.
#[derive(Clone, Copy)]
struct Last {
    byte: u8,
    times: u8,
}

/// Guesses by context, and how often guesses like it are right.
pub struct Guesses {
    last: Box<[Last; PLACES]>,
    right: Box<[[Chance; SITUATIONS]; KINDS]>,
}

/// A byte, and how likely it is.
#[derive(Clone, Copy)]
pub struct Guess {
    pub byte: u8,
    /// The probability that it is right, of sixteen bits.
    pub chance: u32,
    kind: usize,
    situation: usize,
    place: usize,
}

impl Guess {
    /// Whether it is right is coded.
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
    /// Without any knowledge.
    pub fn new() -> Guesses {
        Guesses {
            last: fixed_table(Last { byte: 0, times: 0 }),
            right: fixed_table([Chance::EVEN; SITUATIONS]),
        }
    }

    /// Guesses in the context with this hash; what a repeat makes likely goes first.
    #[inline(always)]
    pub fn guess(&self, kind: u8, hash: u32, repeated: Option<u8>, class: usize) -> Guess {
        let place = (hash >> 8) as usize & (PLACES - 1);
        let last = self.last[place];
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
            place,
        }
    }

    /// Takes the byte that came.
    #[inline(always)]
    pub fn learn(&mut self, guess: Guess, byte: u8, rates: &Rates) {
        let right = &mut self.right[guess.kind & (KINDS - 1)][guess.situation & (SITUATIONS - 1)];
        right.learn(u32::from(guess.byte == byte), rates, SEEN_MAX);
        let last = &mut self.last[guess.place & (PLACES - 1)];
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
