//! A first guess at the attributes of tuples: one after the other, what looks likeliest, and back
//! where the samples refute it.

use std::collections::HashSet;

use super::sample::{SAMPLES_MAX, SAMPLES_MIN, Sample};
use crate::fast_hash::{FastHash, fold};
use crate::model::values::attribute::Attribute;

/// Steps at most, and for each tuple that they may pay for.
const STEPS_MAX: usize = 600;
const STEPS_PER_TUPLE: usize = 50;

/// Attributes that fit the samples, if they are soon found; there are so many tuples.
pub fn guess(samples: &[Sample<'_>], count: usize, tuples: usize) -> Option<Vec<Attribute>> {
    let mut guess = Guess {
        samples,
        found: Vec::with_capacity(count),
        count,
        failed: HashSet::default(),
        steps_left: STEPS_MAX.min(tuples * STEPS_PER_TUPLE),
    };
    guess.go_on(&[0; SAMPLES_MAX]).then_some(guess.found)
}

/// How far each sample is read: a tuple has less than 65,536 bytes.
type Places = [u16; SAMPLES_MAX];

struct Guess<'a> {
    samples: &'a [Sample<'a>],
    found: Vec<Attribute>,
    count: usize,
    /// Hashes of states from which no way leads on.
    failed: HashSet<u64, FastHash>,
    steps_left: usize,
}

impl Guess<'_> {
    /// Finds the attributes behind those found, each sample being read up to its place.
    fn go_on(&mut self, places: &Places) -> bool {
        let number = self.found.len();
        if number == self.count {
            let mut samples = self.samples.iter().zip(places);
            return samples.all(|(sample, &place)| usize::from(place) == sample.data.len());
        }
        if self.steps_left == 0 {
            return false;
        }
        let state = hash(number, places);
        if self.failed.contains(&state) {
            return false;
        }
        self.steps_left -= 1;
        for attribute in self.candidates(number, places) {
            if let Some(next) = self.places_behind(attribute, number, places) {
                self.found.push(attribute);
                if self.go_on(&next) {
                    return true;
                }
                self.found.pop();
            }
        }
        self.failed.insert(state);
        false
    }

    /// Where the samples go on behind an attribute; `None` if one has no such value.
    fn places_behind(
        &self,
        attribute: Attribute,
        number: usize,
        places: &Places,
    ) -> Option<Places> {
        let mut next = *places;
        for (sample, place) in self.samples.iter().zip(&mut next) {
            if sample.body.has(number) {
                *place = attribute.find(sample.data, (*place).into())?.1 as u16;
            }
        }
        Some(next)
    }

    /// Attributes, the likeliest first.
    fn candidates(
        &self,
        number: usize,
        places: &Places,
    ) -> impl Iterator<Item = Attribute> + use<> {
        let mut evidence = Evidence::default();
        for (sample, &place) in self.samples.iter().zip(places) {
            if sample.body.has(number) {
                evidence.see(sample.data, place.into());
            }
        }
        let mut candidates = Attribute::ALL.map(|attribute| (evidence.score(attribute), attribute));
        candidates.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        candidates.into_iter().map(|(_, attribute)| attribute)
    }
}

/// The hash of a state of the search.
fn hash(number: usize, places: &Places) -> u64 {
    let word = |&[a, b, c, d]: &[u16; 4]| {
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
    };
    let words = places.as_chunks().0.iter().map(word);
    words.fold(number as u64 + 1, |hash, word| {
        fold(hash.rotate_left(32) ^ word)
    })
}

/// What the bytes at the places of the samples look like.
#[derive(Default)]
struct Evidence {
    seen: u32,
    small4: u32,
    small8: u32,
    small2: u32,
    boolean: u32,
    varlena: u32,
    high_bytes: Different<[u8; 2]>,
    fourth_bytes: Different<u8>,
    aligned_bytes: Different<u8>,
}

/// Different values of the samples: few enough for a look at each.
#[derive(Default)]
struct Different<T> {
    values: [T; SAMPLES_MAX],
    count: usize,
}

impl<T: Copy + PartialEq> Different<T> {
    fn add(&mut self, value: T) {
        if self.count < SAMPLES_MAX && !self.values[..self.count].contains(&value) {
            self.values[self.count] = value;
            self.count += 1;
        }
    }
}

impl Evidence {
    fn see(&mut self, data: &[u8], place: usize) {
        let at = |align: usize| {
            data.get(place.next_multiple_of(align)..)
                .unwrap_or_default()
        };
        let extends = |bytes: &[u8]| {
            let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
                0xFF
            } else {
                0
            };
            bytes.iter().skip(1).all(|&byte| byte == sign)
        };
        self.seen += 1;
        if let Some([_, b1, b2, b3]) = at(4).first_chunk::<4>().copied() {
            self.small4 += u32::from(extends(&[b1, b2, b3]) || (b2, b3) == (0, 0));
            self.fourth_bytes.add(b3);
        }
        if let Some(bytes) = at(8).first_chunk::<8>() {
            self.small8 += u32::from(extends(&bytes[3..8]));
            self.high_bytes.add([bytes[6], bytes[7]]);
        }
        if let Some([_, b1]) = at(2).first_chunk::<2>() {
            self.small2 += u32::from(*b1 == 0);
        }
        if let Some(byte) = at(1).first() {
            self.boolean += u32::from(*byte <= 1);
            self.aligned_bytes.add(*byte);
        }
        let varlena = Attribute::Varlena.find(data, place);
        self.varlena += u32::from(varlena.is_some_and(|(start, end)| end - start > 1));
    }

    fn score(&self, attribute: Attribute) -> u32 {
        let share = |count: u32| count * 100 / self.seen.max(1);
        // A number of eight bytes, such as a time, has high bytes alike and low ones not.
        let looks_long = self.high_bytes.count * 4 <= self.seen as usize + 3
            && self.fourth_bytes.count * 2 > self.seen as usize;
        match attribute {
            Attribute::Fixed8 => 10 + share(self.small8).max(if looks_long { 96 } else { 0 }),
            Attribute::Fixed4 => 5 + share(self.small4).max(60),
            Attribute::Varlena => share(self.varlena) * 92 / 100,
            Attribute::Fixed2 => share(self.small2) / 2,
            Attribute::Fixed1 => {
                let few = self.aligned_bytes.count <= 2 && self.seen >= SAMPLES_MIN as u32;
                if few {
                    share(self.boolean) * 7 / 10
                } else {
                    20
                }
            }
            Attribute::Uuid => 15,
            Attribute::Fixed16 => 10,
            Attribute::Name => 5,
        }
    }
}
