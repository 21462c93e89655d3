//! Codes one byte, bit by bit, mixing the predictions of several contexts.
#![allow(
    clippy::indexing_slicing,
    reason = "indices are below constant lengths, or masked"
)]

use super::arithmetic::BitCoder;
use super::bit_history::BitHistories;
use super::chance::{Chance, Rates};
use super::guess::Guesses;
use super::logistic::Logistic;
use super::mixer::{INPUTS, Inputs, Mixer, Selector};
use super::refinement::Refinement;
use super::repeats::Repeats;
use super::slots::{Slot, Slots};
use super::{fixed_table, hash};

/// Number of contexts of a byte.
pub const CONTEXTS: usize = 6;
/// Index of the context in which bytes are guessed.
const GUESSING: usize = 1;
/// Index of the mixer's input for the repeat.
const REPEAT: usize = CONTEXTS;
/// Index of the mixer's constant input.
const BIAS: usize = CONTEXTS + 1;
const BIAS_WEIGHT: i16 = 256;
const _: () = assert!(BIAS < INPUTS);

/// Hashed into the contexts of the lower half of a byte.
const LOWER_HALF: u32 = 77;

const KINDS: usize = 64;
/// Maximum counts of the chances of histories and of repeats.
const HISTORY_SEEN_MAX: u32 = 255;
const REPEAT_SEEN_MAX: u32 = 1023;

/// The input of the model for one byte.
pub struct Situation {
    /// Hashes of the contexts.
    pub contexts: [u32; CONTEXTS],
    /// The kind of the stream.
    pub kind: u8,
    /// Hash of the stream and the column.
    pub column: u32,
    /// The eight bytes before, the last one lowest.
    pub recent: u64,
    /// The column is noise: a byte that is not guessed is coded as it is, not mixed.
    pub is_noise: bool,
}

/// The state of the model.
pub struct ByteModel {
    logistic: Logistic,
    histories: BitHistories,
    rates: Rates,
    slots: [Slots; CONTEXTS],
    /// By kind, context and history.
    chances: Box<[[[Chance; 256]; CONTEXTS]; KINDS]>,
    /// By kind, and class and bit of the repeat.
    repeat_chances: Box<[[Chance; 64]; KINDS]>,
    mixer: Mixer,
    refinement: Refinement,
    guesses: Guesses,
    repeats: Repeats,
    /// The last byte was guessed, and so not mixed.
    was_guessed: bool,
}

impl ByteModel {
    /// The initial state. `history` is empty and has the capacity for all bytes of the block.
    pub fn new(history: Vec<u8>) -> ByteModel {
        let logistic = Logistic::new();
        let histories = BitHistories::new();
        let first = std::array::from_fn(|n| Chance::of_counts(histories.counts(n as u8)));
        ByteModel {
            refinement: Refinement::new(&logistic),
            logistic,
            histories,
            rates: Rates::new(),
            slots: std::array::from_fn(|_| Slots::new()),
            chances: fixed_table([first; CONTEXTS]),
            repeat_chances: fixed_table([Chance::EVEN; 64]),
            mixer: Mixer::new(),
            guesses: Guesses::new(),
            repeats: Repeats::new(history),
            was_guessed: false,
        }
    }

    /// Begins another column or stream.
    pub fn interrupt(&mut self) {
        self.repeats.interrupt();
    }

    /// Prefetches the memory for `byte`, which follows the byte that is coded next. Encoder only.
    /// Half of the time would be spent waiting for this memory.
    #[inline(always)]
    pub fn expect(&self, byte: u8, situation: &Situation) {
        if self.was_guessed {
            return;
        }
        self.repeats.expect(situation.recent, situation.is_noise);
        if !situation.is_noise {
            let upper_half = 16 | u32::from(byte >> 4);
            for (slots, &context) in self.slots.iter().zip(&situation.contexts) {
                slots.expect(context);
                slots.expect(hash(context, upper_half, LOWER_HALF));
            }
        }
    }

    /// Codes one byte. The encoder returns `byte`; the decoder ignores it and returns the decoded
    /// byte.
    #[inline(always)]
    pub fn code<C: BitCoder>(&mut self, coder: &mut C, byte: u8, situation: &Situation) -> u8 {
        // The decoder cannot prefetch earlier, but so it waits for all slots at once.
        if !C::ENCODING && !situation.is_noise && self.repeats.class() == 0 {
            for (slots, &context) in self.slots.iter().zip(&situation.contexts) {
                slots.expect(context);
            }
        }
        self.repeats.look(situation.recent, situation.is_noise);
        let repeated = self.repeats.expected();
        let context = situation.contexts[GUESSING];
        let class = self.repeats.class();
        let guess = self.guesses.guess(situation.kind, context, repeated, class);
        let asked = guess.is_worth_asking(situation.is_noise);
        let coded = if asked && coder.bit(guess.chance, u32::from(byte == guess.byte)) == 1 {
            guess.byte
        } else if situation.is_noise {
            coder.even_byte(byte)
        } else {
            // A repeated byte is always the guess, so if the guess was wrong it is wrong too.
            let repeated = repeated.filter(|_| !asked);
            self.mix(coder, byte, situation, repeated)
        };
        self.was_guessed = asked && coded == guess.byte;
        self.guesses.learn(guess, coded, &self.rates);
        self.repeats.push(coded);
        coded
    }

    #[inline(always)]
    fn mix<C: BitCoder>(
        &mut self,
        coder: &mut C,
        byte: u8,
        situation: &Situation,
        repeated: Option<u8>,
    ) -> u8 {
        let mut tree = Tree {
            node: 1,
            // With a leading one, like the bits of the node.
            repeated: repeated.map_or(0, |byte| 256 | u32::from(byte)),
        };
        for half in [byte >> 4, byte & 15] {
            let first = tree.node;
            let mut indexes = [0; CONTEXTS];
            let mut slots = [[0; 16]; CONTEXTS];
            for i in 0..CONTEXTS {
                let context = match first {
                    1 => situation.contexts[i],
                    _ => hash(situation.contexts[i], first, LOWER_HALF),
                };
                indexes[i] = self.slots[i].find(context);
                slots[i] = self.slots[i].get(indexes[i]);
            }
            let mut node = 1;
            for shift in (0..4).rev() {
                let bit = u32::from(half >> shift) & 1;
                let bit = self.bit(coder, bit, situation, &mut slots, node, &tree);
                node = node << 1 | bit as usize;
                tree.node = tree.node << 1 | bit;
            }
            for i in 0..CONTEXTS {
                self.slots[i].put(indexes[i], slots[i]);
            }
        }
        tree.node as u8
    }

    #[inline(always)]
    fn bit<C: BitCoder>(
        &mut self,
        coder: &mut C,
        bit: u32,
        situation: &Situation,
        slots: &mut [Slot; CONTEXTS],
        node: usize,
        tree: &Tree,
    ) -> u32 {
        let kind = usize::from(situation.kind) & (KINDS - 1);
        let mut inputs: Inputs = [0; INPUTS];
        let chances = &mut self.chances[kind];
        for i in 0..CONTEXTS {
            let history = slots[i][node & 15];
            let chance = chances[i][usize::from(history)];
            inputs[i] = self.logistic.stretch(chance.bits_12());
        }
        let expected = tree.expected();
        let repeat = expected.map(|bit| (self.repeats.class() * 2 + bit as usize) & 63);
        if let Some(repeat) = repeat {
            let chance = self.repeat_chances[kind][repeat];
            inputs[REPEAT] = self.logistic.stretch(chance.bits_12());
        }
        inputs[BIAS] = BIAS_WEIGHT;
        let selector = Selector {
            column: situation.column as usize,
            tree: kind << 8 | tree.node as usize,
        };
        let weight = self.mixer.mix(&inputs, selector).clamp(-2047, 2047);
        let mixed = self.logistic.squash(weight);
        let context = (situation.column << 8 | tree.node) as usize;
        let (refined, cell) = self.refinement.refine(context, weight);
        let probability = ((mixed + refined) >> 1).clamp(1, 65535);

        let bit = coder.bit(probability, bit);

        self.refinement.learn(cell, bit);
        let error = ((bit << 16) as i32 - mixed as i32) >> 4;
        self.mixer.learn(&inputs, selector, error);
        for i in 0..CONTEXTS {
            let history = &mut slots[i][node & 15];
            chances[i][usize::from(*history)].learn(bit, &self.rates, HISTORY_SEEN_MAX);
            *history = self.histories.next(*history, bit);
        }
        if let Some(repeat) = repeat {
            self.repeat_chances[kind][repeat].learn(bit, &self.rates, REPEAT_SEEN_MAX);
        }
        bit
    }
}

/// The bits of a byte coded so far, as a node of a binary tree.
struct Tree {
    /// A leading one, then the bits.
    node: u32,
    /// A leading one, then the byte that a repeat predicts; 0 if there is no repeat.
    repeated: u32,
}

impl Tree {
    /// The next bit that a repeat predicts, if all bits before were as predicted.
    #[inline(always)]
    fn expected(&self) -> Option<u32> {
        let shift = self.node.leading_zeros() - 23;
        (self.repeated >> shift == self.node).then(|| self.repeated >> (shift - 1) & 1)
    }
}
