//! A beam search for the likeliest attributes of tuples, if the first guess fails.
//!
//! If an attribute is mistaken for another, all later ones are read at wrong offsets. Bytes read
//! at wrong offsets are less alike from one tuple to the next, and would take more bytes. So the
//! search follows the cheapest ways to read all samples at once, from their first byte to the
//! last. It compares only ways that have read equally many bytes.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use super::price::Prices;
use super::sample::Sample;
use crate::fast_hash::FastHash;
use crate::model::values::attribute::Attribute;

/// The number of ways that the search follows.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Maximum number of ways of one distance.
    pub ways: usize,
    /// Maximum number of those with the same number of attributes.
    pub of_number: usize,
}

/// A way to read all tuples up to some attribute.
struct Way {
    /// Number of attributes read.
    number: usize,
    /// The offset up to which each sample has been read.
    offsets: Vec<u16>,
    /// The cost of the values, less the cost of their bytes by frequency.
    cost: i32,
    /// The index of its last step, `None` at the start.
    step: Option<u32>,
}

/// An attribute of a way, and the index of the step before it.
struct Step {
    attribute: Attribute,
    before: Option<u32>,
}

/// The cheapest `count` attributes. `None` if no way reads all samples to their last byte, or none
/// is found in `steps_left` steps.
pub fn cheapest(
    samples: &[Sample<'_>],
    count: usize,
    width: Width,
    steps_left: &mut usize,
) -> Option<Vec<Attribute>> {
    let mut search = Search::new(samples, count, width);
    let start = Way {
        number: 0,
        offsets: vec![0; samples.len()],
        cost: 0,
        step: None,
    };
    search.open.insert(0, vec![start]);
    while let Some((distance, ways)) = search.open.pop_first() {
        search.go_on(distance, ways);
        if search.steps.len() > *steps_left {
            *steps_left = 0;
            return None;
        }
    }
    *steps_left -= search.steps.len();
    let (_, last) = search.best?;
    Some(search.attributes(last))
}

struct Search<'a> {
    samples: &'a [Sample<'a>],
    count: usize,
    width: Width,
    /// For each attribute, a bit for each sample: whether it has a value.
    has: Vec<u64>,
    /// For each sample and each attribute, the number of values from this attribute on.
    left: Vec<Vec<usize>>,
    prices: Prices,
    steps: Vec<Step>,
    /// Ways to follow, by their distance.
    open: BTreeMap<usize, Vec<Way>>,
    /// The cost and the last step of the cheapest way to the end.
    best: Option<(i32, u32)>,
}

/// For each attribute, the offsets after its values, and their cost. `None` if a sample has no
/// such value.
type Next = [Option<(Vec<u16>, i32)>; Attribute::ALL.len()];

impl<'a> Search<'a> {
    fn new(samples: &'a [Sample<'a>], count: usize, width: Width) -> Search<'a> {
        let has = |number| {
            let bits = samples.iter().enumerate();
            bits.map(|(bit, sample)| u64::from(sample.body.has(number)) << bit)
                .sum()
        };
        let left = |sample: &Sample<'_>| {
            let mut left = vec![0; count + 1];
            for number in (0..count).rev() {
                left[number] = left[number + 1] + usize::from(sample.body.has(number));
            }
            left
        };
        Search {
            samples,
            count,
            width,
            has: (0..count).map(has).collect(),
            left: samples.iter().map(left).collect(),
            prices: Prices::new(samples.iter().map(|sample| sample.data)),
            steps: Vec::new(),
            open: BTreeMap::new(),
            best: None,
        }
    }

    /// Follows all ways of one distance.
    fn go_on(&mut self, distance: usize, mut ways: Vec<Way>) {
        let mut known: HashMap<u64, Next, FastHash> = HashMap::default();
        keep_cheapest(&mut ways, self.width, 1);
        // A step may leave the distance unchanged, if few samples have a value of the attribute.
        while let Some(number) = ways.iter().map(|way| way.number).min() {
            for way in self.take_cheapest(&mut ways, number) {
                if number == self.count {
                    self.arrive(&way);
                    continue;
                }
                let hash = FastHash::default().hash_one((self.has[number], &way.offsets));
                let next = known
                    .entry(hash)
                    .or_insert_with(|| self.read(self.has[number], &way.offsets));
                for (attribute, next) in Attribute::ALL.into_iter().zip(next) {
                    if let Some((offsets, cost)) = next
                        && self.leaves_room(number + 1, offsets)
                    {
                        let next = self.step(&way, attribute, offsets.clone(), *cost);
                        let to = self.distance(offsets);
                        if to == distance {
                            ways.push(next);
                        } else {
                            self.put_off(to, next);
                        }
                    }
                }
            }
        }
    }

    /// Removes the ways of a number of attributes and returns the cheapest of them.
    fn take_cheapest(&self, ways: &mut Vec<Way>, number: usize) -> Vec<Way> {
        let mut taken: Vec<Way> = ways.extract_if(.., |way| way.number == number).collect();
        taken.sort_by_key(|way| way.cost);
        let mut cheapest: Vec<Way> = Vec::with_capacity(self.width.of_number);
        for way in taken {
            if cheapest.len() < self.width.of_number
                && cheapest.iter().all(|other| other.offsets != way.offsets)
            {
                cheapest.push(way);
            }
        }
        cheapest
    }

    /// A way extended by one attribute.
    fn step(&mut self, way: &Way, attribute: Attribute, offsets: Vec<u16>, cost: i32) -> Way {
        let step = self.steps.len() as u32;
        self.steps.push(Step {
            attribute,
            before: way.step,
        });
        Way {
            number: way.number + 1,
            offsets,
            cost: way.cost.saturating_add(cost),
            step: Some(step),
        }
    }

    fn put_off(&mut self, distance: usize, way: Way) {
        const FACTOR: usize = 4;
        let others = self.open.entry(distance).or_default();
        others.push(way);
        if others.len() > 2 * FACTOR * self.width.ways {
            keep_cheapest(others, self.width, FACTOR);
        }
    }

    /// The distance of a way: the mean of its offsets.
    fn distance(&self, offsets: &[u16]) -> usize {
        let sum: usize = offsets.iter().map(|&offset| usize::from(offset)).sum();
        sum / offsets.len().max(1)
    }

    /// Whether each sample has a byte for each remaining value, and none if no value remains.
    fn leaves_room(&self, number: usize, offsets: &[u16]) -> bool {
        let mut tuples = self.samples.iter().zip(&self.left).zip(offsets);
        tuples.all(|((sample, left), &offset)| {
            let room = sample.data.len() - usize::from(offset);
            room >= left[number] && (left[number] > 0 || room == 0)
        })
    }

    /// Records a way that has read all attributes, if it is the cheapest.
    fn arrive(&mut self, way: &Way) {
        let is_better = self.best.is_none_or(|(cost, _)| way.cost < cost);
        if let Some(step) = way.step
            && is_better
        {
            self.best = Some((way.cost, step));
        }
    }

    /// Reads one more attribute from the samples that have it, as each type.
    fn read(&mut self, has: u64, offsets: &[u16]) -> Next {
        Attribute::ALL.map(|attribute| {
            let mut next = offsets.to_vec();
            let mut values = Vec::with_capacity(offsets.len());
            let mut padding = 0;
            let samples = self.samples.iter().zip(&mut next).enumerate();
            for (_, (sample, offset)) in samples.filter(|(bit, _)| has >> bit & 1 != 0) {
                let (start, end) = attribute.find(sample.data, usize::from(*offset))?;
                padding += start - usize::from(*offset);
                values.push(&sample.data[start..end]);
                *offset = u16::try_from(end).ok()?;
            }
            let cost = self.prices.of(attribute, &values)?;
            Some((next, cost - self.prices.padding(padding)))
        })
    }

    /// The attributes of a way.
    fn attributes(&self, last: u32) -> Vec<Attribute> {
        let step = |number: u32| self.steps.get(number as usize);
        let way = std::iter::successors(step(last), |last| step(last.before?));
        let mut attributes: Vec<Attribute> = way.map(|step| step.attribute).collect();
        attributes.reverse();
        attributes
    }
}

/// Keeps the cheapest ways, at most `factor` times the width.
fn keep_cheapest(ways: &mut Vec<Way>, width: Width, factor: usize) {
    ways.sort_by_key(|way| way.cost);
    // Twice the width for each number of attributes: ways with equal offsets are merged later.
    let mut of_number: HashMap<usize, usize, FastHash> = HashMap::default();
    ways.retain(|way| {
        let kept = of_number.entry(way.number).or_default();
        *kept += 1;
        *kept <= 2 * width.of_number
    });
    ways.truncate(factor * width.ways);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::model::heap::attributes::infer::infer;
    use crate::model::heap::body::{Body, Infomask};
    use crate::streams::coder::{Care, Choices};

    const COLUMNS: u64 = 40;
    const ROWS: u64 = 5000;

    /// Pseudorandom numbers (the finalizer of splitmix64).
    fn random(row: u64, column: u64, below: u64) -> u64 {
        let mut number = (row << 16 | column).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (number ^ number >> 31) % below
    }

    fn push_number(data: &mut Vec<u8>, number: u64, len: usize) {
        data.resize(data.len().next_multiple_of(len), 0);
        data.extend_from_slice(&number.to_le_bytes()[..len]);
    }

    fn push_text(data: &mut Vec<u8>, text: &str) {
        data.push((text.len() as u8 + 1) << 1 | 1);
        data.extend_from_slice(text.as_bytes());
    }

    fn push_value(data: &mut Vec<u8>, row: u64, column: u64) {
        let random = |below| random(row, column, below);
        match column % 10 {
            0 => push_number(data, row + column, 4),
            1 => push_number(data, random(1_000_000_000_000), 8),
            2 => push_text(data, &format!("value {}", random(1000))),
            3 => push_number(data, random(2), 1),
            4 => push_number(data, 800_000_000_000_000 + random(1 << 40), 8),
            5 => push_number(data, (random(1 << 50) as f64 / 1e12).to_bits(), 8),
            6 => push_text(data, ["red", "green", "blue"][random(3) as usize]),
            7 => push_number(data, 9000 + random(1000), 4),
            8 => push_number(data, random(20), 2),
            _ => push_text(
                data,
                &format!("{:032x}", u128::from(random(u64::MAX)).pow(2)),
            ),
        }
    }

    /// A tuple of a table with many columns, a third of which are null in most rows.
    fn tuple(row: u64) -> (Infomask, Vec<u8>) {
        let has = |column: u64| !column.is_multiple_of(3) || random(row, column + COLUMNS, 10) < 4;
        let mut body = vec![0; COLUMNS.div_ceil(8) as usize];
        for column in (0..COLUMNS).filter(|&column| has(column)) {
            body[column as usize / 8] |= 1 << (column % 8);
        }
        let hoff = (23 + body.len()).next_multiple_of(8);
        body.resize(hoff - 23, 0);
        let mut data = Vec::new();
        for column in (0..COLUMNS).filter(|&column| has(column)) {
            push_value(&mut data, row, column);
        }
        body.extend_from_slice(&data);
        let header = Infomask {
            infomask2: COLUMNS as u16,
            infomask: 1,
            hoff: hoff as u8,
        };
        (header, body)
    }

    fn bodies(tuples: &[(Infomask, Vec<u8>)]) -> Vec<Body<'_>> {
        let bodies = tuples.iter().map(|(header, bytes)| header.body(bytes));
        bodies.collect()
    }

    #[test]
    fn a_table_of_many_columns_is_read() {
        let tuples: Vec<_> = (0..ROWS).map(tuple).collect();
        let bodies = bodies(&tuples);
        let attributes = infer(&bodies, &[], Choices::default()).unwrap();
        let mut columns = vec![Vec::new(); attributes.len()];
        let read = bodies
            .iter()
            .filter(|body| body.read(&attributes, &mut columns));
        assert!(read.count() as u64 * 100 > ROWS * 99, "{attributes:?}");
    }

    #[test]
    fn little_is_not_worth_a_long_search() {
        let tuples: Vec<_> = (0..20).map(tuple).collect();
        let quick = Choices {
            care: Care::Quick,
            ..Choices::default()
        };
        assert_eq!(infer(&bodies(&tuples), &[], quick), None);
    }
}
