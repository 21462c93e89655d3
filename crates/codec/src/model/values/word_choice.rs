//! Estimates whether texts take fewer bytes as words. Compares both codings on the second half of
//! a sample, after they have seen the first half.

use std::ops::Range;

use super::words::{TextForms, Words};
use crate::compressors::trial::Trial;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// Words are chosen if their estimated size is less than this part of the size otherwise.
pub const WORDS_PART: f64 = 0.95;
/// Minimum length of the sample, in bytes, if there are that many.
const SAMPLE_LEN: usize = 4096;
/// The sample is this part of all texts, between its minimum and its maximum.
const PART_OF_MANY: usize = 64;
/// Maximum length of the sample, in bytes.
const SAMPLE_LEN_MAX: usize = 1 << 18;
/// Minimum length of all texts, in bytes, for which an estimate is made.
const SAMPLE_LEN_MIN: usize = 2048;
/// Length of the first part of the sample, in bytes, which is estimated alone.
const FIRST_LEN: usize = 2048;
/// If words take this part of the sample, a longer one may tell more: of a large vocabulary, most words are new in a short one.
const DOUBTFUL: Range<f64> = WORDS_PART..1.6;
/// Longer texts are sampled in parts of this length, in bytes, so that the sample has some.
const TEXT_PART_LEN: usize = 1024;
/// The longer sample has so many times the length.
const LONGER: usize = 8;
/// If words take more than this part there, the rest is not tried.
const FIRST_PART: f64 = 2.0;

/// The estimated size of texts as words, as a part of their size when concatenated. `None` if
/// there are too few texts.
pub fn part_of_plain<'a, T: Iterator<Item = &'a [u8]>>(texts: impl Fn() -> T) -> Option<f64> {
    let total: usize = texts().map(<[u8]>::len).sum();
    if total < SAMPLE_LEN_MIN {
        return None;
    }
    let len = (total / PART_OF_MANY).clamp(SAMPLE_LEN, SAMPLE_LEN_MAX);
    let sample_of = |len: usize| -> (Vec<&[u8]>, usize) {
        let mut seen = 0;
        let is_within = |text: &&[u8]| {
            seen += text.len();
            seen <= len
        };
        let parts = texts().flat_map(|text| text.chunks(TEXT_PART_LEN));
        (parts.take_while(is_within).collect(), seen)
    };
    let (sample, seen) = sample_of(len);
    // Rejects most texts that are not words cheaply.
    let first = sample.len() * FIRST_LEN / seen.max(FIRST_LEN);
    let part = part_of_sample(&sample[..first]);
    if first == sample.len() || part.is_none_or(|part| part > FIRST_PART) {
        return part;
    }
    let part = part_of_sample(&sample);
    let longer = (len * LONGER).min(SAMPLE_LEN_MAX);
    match part {
        Some(part) if DOUBTFUL.contains(&part) && longer > len => {
            part_of_sample(&sample_of(longer).0)
        }
        part => part,
    }
}

fn part_of_sample(sample: &[&[u8]]) -> Option<f64> {
    let halves = sample.split_at(sample.len() / 2);
    let mut trial = Trial::new();
    let mut plain = |texts: &[&[u8]]| {
        let lens: Vec<u8> = texts.iter().map(|text| text.len() as u8).collect();
        (trial.cost(&texts.concat()) + trial.cost(&lens)) as f64
    };
    let second = plain(sample) - plain(halves.0);
    (second > 0.0).then(|| cost_in_words(halves) / second)
}

fn cost_in_words((known, texts): (&[&[u8]], &[&[u8]])) -> f64 {
    let mut tally = Tally::default();
    let choices = tally.open(StreamKind::HeapSchema, 1);
    let all = known.iter().chain(texts).copied();
    let mut words = Words::open(&mut tally, choices, &TextForms::of(all));
    let mut scratch = Vec::new();
    for part in [known, texts] {
        tally.forget();
        for text in part {
            scratch.clear();
            scratch.extend_from_slice(text);
            words.code(&mut tally, &mut scratch, 0, text.len());
        }
    }
    tally.cost()
}

/// A coder that only counts: for each stream and plane, how often each byte occurs.
#[derive(Default)]
struct Tally {
    streams: Vec<[[u32; 256]; 2]>,
}

impl Tally {
    fn forget(&mut self) {
        for counts in &mut self.streams {
            *counts = [[0; 256]; 2];
        }
    }

    fn cost(&self) -> f64 {
        let planes = self.streams.iter().flat_map(|counts| counts.iter());
        planes.map(huffman_bytes).sum()
    }

    fn count(&mut self, stream: StreamId, plane: usize, byte: u8) {
        if let Some(counts) = self.streams.get_mut(stream.0 as usize) {
            counts[plane][usize::from(byte)] += 1;
        }
    }
}

/// The estimated size of bytes in a Huffman code: at least a bit for each, unless all are equal.
fn huffman_bytes(counts: &[u32; 256]) -> f64 {
    let total: u32 = counts.iter().sum();
    if counts.contains(&total) {
        return 0.0;
    }
    let bits = |&count: &u32| match count {
        0 => 0.0,
        count => f64::from(count) * (f64::from(total) / f64::from(count)).log2().max(1.0),
    };
    counts.iter().map(bits).sum::<f64>() / 8.0
}

impl Coder for Tally {
    const ENCODING: bool = true;

    fn take_list(&mut self, _: usize) -> bool {
        true
    }

    fn take_apart(&mut self, _: usize) -> bool {
        true
    }

    fn open(&mut self, _: StreamKind, _: usize) -> StreamId {
        self.streams.push([[0; 256]; 2]);
        StreamId(self.streams.len() as u32 - 1)
    }

    fn u8(&mut self, stream: StreamId, value: u8) -> u8 {
        self.count(stream, 0, value);
        value
    }

    fn u16(&mut self, stream: StreamId, value: u16) -> u16 {
        let [low, high] = value.to_le_bytes();
        self.count(stream, 0, low);
        self.count(stream, 1, high);
        value
    }

    fn u32(&mut self, stream: StreamId, value: u32) -> u32 {
        self.bytes(stream, &mut value.to_le_bytes());
        value
    }

    fn u64(&mut self, stream: StreamId, value: u64) -> u64 {
        self.bytes(stream, &mut value.to_le_bytes());
        value
    }

    fn bytes(&mut self, stream: StreamId, bytes: &mut [u8]) {
        for byte in bytes {
            self.count(stream, 0, *byte);
        }
    }

    fn fail(&mut self) {}

    fn failed(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(texts: &[Vec<u8>]) -> Option<f64> {
        part_of_plain(|| texts.iter().map(Vec::as_slice))
    }

    /// Pseudorandom numbers, the same in each run.
    fn noise() -> impl FnMut() -> usize {
        let mut state = 88_172_645_463_325_252_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize
        }
    }

    #[test]
    fn sentences_of_few_words_are_better_off() {
        let mut next = noise();
        let words = [
            "order", "created", "for", "customer", "shipped", "returned", "total",
        ];
        let mut sentence = || {
            let words: Vec<&str> = (0..12).map(|_| words[next() % words.len()]).collect();
            words.join(" ").into_bytes()
        };
        let texts: Vec<Vec<u8>> = (0..200).map(|_| sentence()).collect();
        assert!(part_of(&texts).is_some_and(|part| part < WORDS_PART));
    }

    /// As the strings of jsonb stand one after the other.
    #[test]
    fn words_that_follow_digests_at_once_are_better_off() {
        let mut next = noise();
        let words = [
            "shipped",
            "returned",
            "bolt",
            "wheel of wood",
            "in three parts",
            "a",
        ];
        let mut item = || {
            let digits = (0..32).map(|_| char::from_digit(next() as u32 % 16, 16));
            let digest: String = digits.flatten().collect();
            let said: Vec<&str> = (0..9).map(|_| words[next() % words.len()]).collect();
            digest + &said.join(" ")
        };
        let texts: Vec<Vec<u8>> = (0..200)
            .map(|_| (0..10).map(|_| item()).collect::<String>().into_bytes())
            .collect();
        assert!(part_of(&texts).is_some_and(|part| part < WORDS_PART));
    }

    #[test]
    fn noise_is_not() {
        let mut next = noise();
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut text = |letters: Option<&[u8]>| -> Vec<u8> {
            let byte = |number: usize| letters.map_or(number as u8, |all| all[number % all.len()]);
            (0..40).map(|_| byte(next())).collect()
        };
        let bytes: Vec<Vec<u8>> = (0..500).map(|_| text(None)).collect();
        let tokens: Vec<Vec<u8>> = (0..500).map(|_| text(Some(letters))).collect();
        for texts in [bytes, tokens] {
            // Tokens take as much in words as elsewhere.
            assert!(part_of(&texts).is_none_or(|part| part > WORDS_PART));
        }
    }
}
