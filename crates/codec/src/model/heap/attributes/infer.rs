//! Infers the attributes of a relation from some of its tuples, the samples.
//!
//! WAL contains no catalog. But each tuple says how many attributes it has and which of them are
//! null, and their values fill the tuple to its last byte. A [`guess`] by backtracking comes
//! first; if it fails, a search ([`cheapest`]) follows. The result need not be what was declared:
//! an error costs bytes, never correctness.

use super::guess::guess;
use super::sample::{SAMPLES_MAX, SAMPLES_MIN, Sample, some};
use super::search::{Width, cheapest};
use crate::model::heap::body::Body;
use crate::model::values::attribute::Attribute;
use crate::streams::coder::{Care, Choices};

/// Number of samples that are taken at regular intervals from all tuples.
const FIRST_SAMPLES: usize = 24;
/// Maximum number of tuples that are scanned for attributes which all samples have as null.
const SCANNED_MAX: usize = 1024;
/// Maximum number of samples that are added from that scan.
const NEW_SAMPLES_MAX: usize = 4;
/// Maximum number of tuples on which the attributes found are checked. Those that they do not fit
/// become samples of the next round.
const CHECKED_MAX: usize = 128;
/// The attributes are accepted if they fit all but this number of the tuples checked: some tuples
/// may be older than a change of the table.
const MISFITS_FEW: usize = 2;
/// Maximum number of rounds.
const ROUNDS: usize = 3;
/// Maximum number of steps of the search. A step takes about two microseconds, and a table of 60
/// columns about 12,000 of them.
const SEARCH_STEPS_MAX: usize = 60_000;
/// The search gets one step for this number of bytes of the tuples.
const SEARCH_STEP_LEN: usize = 64;
/// The same two with [`Care::Quick`].
const QUICK_SEARCH_STEPS_MAX: usize = 30_000;
const QUICK_SEARCH_STEP_LEN: usize = 256;
/// The widths with which the search is tried, in this order.
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
/// Maximum number of attributes of a relation for which they are inferred; PostgreSQL allows 1600.
const ATTRIBUTES_MAX: usize = 250;

/// The attributes found that fit the most tuples of those checked. The bodies in `shown` are
/// always samples.
pub fn infer(bodies: &[Body<'_>], shown: &[Body<'_>], choices: Choices) -> Option<Vec<Attribute>> {
    let count = bodies
        .iter()
        .map(|body| usize::from(body.attributes))
        .max()?;
    if count == 0 || count > ATTRIBUTES_MAX {
        return None;
    }
    let len: usize = bodies.iter().map(|body| body.bytes.len()).sum();
    let mut steps_left = match choices.care {
        Care::Quick => QUICK_SEARCH_STEPS_MAX.min(len / QUICK_SEARCH_STEP_LEN),
        Care::Full => SEARCH_STEPS_MAX.min(len / SEARCH_STEP_LEN),
    };
    let mut samples = samples(bodies, shown, count);
    let (mut found, mut fewest) = (None, usize::MAX);
    for _ in 0..ROUNDS {
        let Some(attributes) = find(&samples, count, bodies.len(), choices, &mut steps_left) else {
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
    choices: Choices,
    steps_left: &mut usize,
) -> Option<Vec<Attribute>> {
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    if let Some(found) = guess(samples, count, tuples, choices) {
        return Some(found);
    }
    let mut searches = WIDTHS.iter();
    searches.find_map(|width| cheapest(samples, count, *width, steps_left))
}

/// Of [`CHECKED_MAX`] tuples, those that the attributes do not fit.
fn misfits<'a>(bodies: &[Body<'a>], attributes: &[Attribute]) -> Vec<Sample<'a>> {
    let mut columns = vec![Vec::new(); attributes.len()];
    let misfits = some(bodies, CHECKED_MAX).filter(|body| !body.read(attributes, &mut columns));
    misfits.filter_map(Sample::of).collect()
}

/// The samples of the first round, the longest first: they refute a wrong guess soonest.
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
