//! A first guess at the attributes of tuples, by backtracking: for each attribute in turn the
//! likeliest type is tried first.

use std::collections::HashSet;

use super::forms::Forms;
use super::sample::{SAMPLES_MAX, SAMPLES_MIN, Sample};
use crate::fast_hash::{FastHash, fold};
use crate::model::values::attribute::Attribute;
use crate::optional_model::OptionalModel;
use crate::streams::coder::Choices;

/// Maximum number of steps.
const STEPS_MAX: usize = 600;
/// Maximum number of steps per tuple of the relation: few tuples cannot repay a long search.
const STEPS_PER_TUPLE: usize = 50;

/// `count` attributes that fit the samples, if they are found within the number of steps. The
/// relation has `tuples` tuples.
pub fn guess(
    samples: &[Sample<'_>],
    count: usize,
    tuples: usize,
    choices: Choices,
) -> Option<Vec<Attribute>> {
    let mut guess = Guess {
        samples,
        found: Vec::with_capacity(count),
        count,
        failed: HashSet::default(),
        steps_left: STEPS_MAX.min(tuples * STEPS_PER_TUPLE),
        by_form: choices.uses(OptionalModel::ValueForms),
    };
    guess.go_on(&[0; SAMPLES_MAX]).then_some(guess.found)
}

/// For each sample, the offset up to which it has been read. A tuple has less than 64 KiB.
type Offsets = [u16; SAMPLES_MAX];

struct Guess<'a> {
    samples: &'a [Sample<'a>],
    found: Vec<Attribute>,
    count: usize,
    /// Hashes of states from which no solution was found.
    failed: HashSet<u64, FastHash>,
    steps_left: usize,
    /// Looks also for floats and uuids.
    by_form: bool,
}

impl Guess<'_> {
    /// Finds the remaining attributes. Each sample has been read up to its offset.
    fn go_on(&mut self, offsets: &Offsets) -> bool {
        let number = self.found.len();
        if number == self.count {
            let mut samples = self.samples.iter().zip(offsets);
            return samples.all(|(sample, &offset)| usize::from(offset) == sample.data.len());
        }
        if self.steps_left == 0 {
            return false;
        }
        let state = hash(number, offsets);
        if self.failed.contains(&state) {
            return false;
        }
        self.steps_left -= 1;
        for attribute in self.candidates(number, offsets) {
            if let Some(next) = self.offsets_after(attribute, number, offsets) {
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

    /// The offsets after an attribute. `None` if a sample has no such value.
    fn offsets_after(
        &self,
        attribute: Attribute,
        number: usize,
        offsets: &Offsets,
    ) -> Option<Offsets> {
        let mut next = *offsets;
        for (sample, offset) in self.samples.iter().zip(&mut next) {
            if sample.body.has(number) {
                *offset = attribute.find(sample.data, (*offset).into())?.1 as u16;
            }
        }
        Some(next)
    }

    /// All attributes, the likeliest first.
    fn candidates(
        &self,
        number: usize,
        offsets: &Offsets,
    ) -> impl Iterator<Item = Attribute> + use<> {
        let mut evidence = Evidence::default();
        for (sample, &offset) in self.samples.iter().zip(offsets) {
            if sample.body.has(number) {
                evidence.see(sample.data, offset.into());
            }
        }
        let mut forms = Forms::default();
        if self.by_form {
            forms = self.forms(number, offsets);
        }
        let score = |attribute| evidence.score(attribute).max(forms.score(attribute));
        let mut candidates = Attribute::ALL.map(|attribute| (score(attribute), attribute));
        candidates.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        candidates.into_iter().map(|(_, attribute)| attribute)
    }
}

impl Guess<'_> {
    /// What the values of an attribute look like.
    fn forms(&self, number: usize, offsets: &Offsets) -> Forms {
        let samples = self.samples.iter().zip(offsets);
        let having = samples.filter(|(sample, _)| sample.body.has(number));
        let values = || {
            having
                .clone()
                .map(|(sample, &offset)| (sample.data, usize::from(offset)))
        };
        Forms::of(values)
    }
}

/// The hash of a state: the number of attributes found, and the offsets.
fn hash(number: usize, offsets: &Offsets) -> u64 {
    let word = |&[a, b, c, d]: &[u16; 4]| {
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
    };
    let words = offsets.as_chunks().0.iter().map(word);
    words.fold(number as u64 + 1, |hash, word| {
        fold(hash.rotate_left(32) ^ word)
    })
}

/// Counts of what the samples have at their offsets.
#[derive(Default)]
struct Evidence {
    seen: u32,
    small4: u32,
    small8: u32,
    small2: u32,
    boolean: u32,
    varlena: u32,
    high_bytes: Distinct<[u8; 2]>,
    fourth_bytes: Distinct<u8>,
    aligned_bytes: Distinct<u8>,
}

/// The distinct values of a property of the samples. There are few, so a linear search suffices.
#[derive(Default)]
struct Distinct<T> {
    values: [T; SAMPLES_MAX],
    count: usize,
}

impl<T: Copy + PartialEq> Distinct<T> {
    fn add(&mut self, value: T) {
        if self.count < SAMPLES_MAX && !self.values[..self.count].contains(&value) {
            self.values[self.count] = value;
            self.count += 1;
        }
    }
}

impl Evidence {
    fn see(&mut self, data: &[u8], offset: usize) {
        let at = |align: usize| {
            data.get(offset.next_multiple_of(align)..)
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
        let varlena = Attribute::Varlena.find(data, offset);
        self.varlena += u32::from(varlena.is_some_and(|(start, end)| end - start > 1));
    }

    fn score(&self, attribute: Attribute) -> u32 {
        let share = |count: u32| count * 100 / self.seen.max(1);
        // The high bytes of numbers of eight bytes, such as timestamps, are alike; the low ones
        // differ.
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
