//! What the attributes of a relation are, found from some of its tuples.
//!
//! There is no catalog in the log. But each tuple says how many attributes it has and which of
//! them are null, and the values must fill it to the last byte. A first guess takes what looks
//! likeliest, one attribute after the other, and goes back where the samples refute it; a search
//! ([`cheapest`]) goes on where that leads nowhere. What is found need not be what was declared:
//! what is wrong costs bytes, never truth.

use super::guess::guess;
use super::sample::{SAMPLES_MAX, SAMPLES_MIN, Sample, some};
use super::search::{Width, cheapest};
use crate::model::heap::body::Body;
use crate::model::values::attribute::Attribute;
use crate::streams::coder::Care;

/// Tuples looked at from the first to the last. Added to them are those that have values which no
/// other one has, and those that what was found for the others does not fit.
const FIRST_SAMPLES: usize = 24;
/// Tuples that are looked through for new values, and how many of them are samples then.
const SCANNED_MAX: usize = 1024;
const NEW_SAMPLES_MAX: usize = 4;
/// Tuples on which is tried what was found.
const CHECKED_MAX: usize = 128;
/// So many of them may be no values of any attributes: what was written before the table was
/// changed.
const MISFITS_FEW: usize = 2;
/// How often attributes are looked for.
const ROUNDS: usize = 3;
/// Steps of the search at most, and bytes of tuples that a step has to be worth; and in a hurry.
/// A step takes some two microseconds, and a table of 60 columns 12,000 of them.
const SEARCH_STEPS_MAX: usize = 60_000;
const SEARCH_STEP_LEN: usize = 64;
const QUICK_SEARCH_STEPS_MAX: usize = 30_000;
const QUICK_SEARCH_STEP_LEN: usize = 256;
/// The search is tried with these, one after the other.
const WIDTHS: [Width; 2] = [
    Width {
        ways: 16,
        of_number: 3,
    },
    Width {
        ways: 64,
        of_number: 6,
    },
];
/// Attributes of a relation at most; PostgreSQL allows 1600.
const ATTRIBUTES_MAX: usize = 250;

/// The attributes that fit some of the tuples, and all of `shown`, if they are found.
pub fn infer(bodies: &[Body<'_>], shown: &[Body<'_>], care: Care) -> Option<Vec<Attribute>> {
    let count = bodies
        .iter()
        .map(|body| usize::from(body.attributes))
        .max()?;
    if count == 0 || count > ATTRIBUTES_MAX {
        return None;
    }
    let len: usize = bodies.iter().map(|body| body.bytes.len()).sum();
    let mut steps_left = match care {
        Care::Quick => QUICK_SEARCH_STEPS_MAX.min(len / QUICK_SEARCH_STEP_LEN),
        Care::Full => SEARCH_STEPS_MAX.min(len / SEARCH_STEP_LEN),
    };
    let mut samples = samples(bodies, shown, count);
    let (mut found, mut fewest) = (None, usize::MAX);
    for _ in 0..ROUNDS {
        let Some(attributes) = find(&samples, count, bodies.len(), &mut steps_left) else {
            break;
        };
        let misfits = misfits(bodies, &attributes);
        if misfits.len() < fewest {
            (found, fewest) = (Some(attributes), misfits.len());
        }
        let room = SAMPLES_MAX - samples.len();
        if misfits.len() <= MISFITS_FEW || room == 0 {
            break;
        }
        samples.extend(misfits.into_iter().take(room));
    }
    found
}

/// The attributes that fit all samples, if they are found.
fn find(
    samples: &[Sample<'_>],
    count: usize,
    tuples: usize,
    steps_left: &mut usize,
) -> Option<Vec<Attribute>> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    if let Some(found) = guess(samples, count, tuples) {
        return Some(found);
    }
    let mut searches = WIDTHS.iter();
    searches.find_map(|width| cheapest(samples, count, *width, steps_left))
}

/// Of tuples from all of them, those that the attributes do not fit.
fn misfits<'a>(bodies: &[Body<'a>], attributes: &[Attribute]) -> Vec<Sample<'a>> {
    let mut columns = vec![Vec::new(); attributes.len()];
    let misfits = some(bodies, CHECKED_MAX).filter(|body| !body.read(attributes, &mut columns));
    misfits.filter_map(Sample::of).collect()
}

/// Tuples from all of them, the longest first: they refute a wrong guess soonest.
fn samples<'a>(bodies: &[Body<'a>], shown: &[Body<'a>], count: usize) -> Vec<Sample<'a>> {
    let first = shown
        .iter()
        .chain(some(bodies, FIRST_SAMPLES - shown.len()));
    let mut samples: Vec<Sample<'_>> = first.filter_map(Sample::of).collect();
    let mut is_seen: Vec<bool> = (0..count)
        .map(|number| samples.iter().any(|sample| sample.body.has(number)))
        .collect();
    for body in some(bodies, SCANNED_MAX) {
        if samples.len() == FIRST_SAMPLES + NEW_SAMPLES_MAX
            || is_seen.iter().all(|&is_seen| is_seen)
        {
            break;
        }
        let is_new = (0..count).any(|number| !is_seen[number] && body.has(number));
        if is_new && let Some(sample) = Sample::of(body) {
            for (number, is_seen) in is_seen.iter_mut().enumerate() {
                *is_seen |= body.has(number);
            }
            samples.push(sample);
        }
    }
    samples.sort_by_key(|sample| std::cmp::Reverse(sample.data.len()));
    samples
}
