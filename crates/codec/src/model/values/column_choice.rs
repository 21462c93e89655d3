//! How the encoder chooses the mode of a column: by the estimated sizes of its values.

use std::ops::RangeInclusive;

use super::attribute::Attribute;
use super::decimal::Decimals;
use super::dictionary::VALUE_LEN_MAX;
use super::distinct::DistinctValues;
use super::json::Json;
use super::mode::Mode;
use super::numeric;
use super::scale::Scale;
use super::varlena::plain_content;
use super::word_choice::{self, WORDS_PART};
use super::words::TextForms;
use crate::compressors::trial::{Trial, entropy_bytes};
use crate::limits::{DICTIONARY_VALUE_COST, WORDS_COST};
use crate::optional_model::OptionalModel;
use crate::streams::coder::{Care, Choices};
use crate::streams::layout::Layout;

/// Words replace a dictionary only if their estimated size is less than this part of its size.
const WORDS_PART_OF_DICTIONARY: f64 = 0.8;
/// A dictionary of at most this number of values is chosen without trying words.
const SMALL_DICTIONARY: usize = 256;
/// Maximum number of lengths that get a stream of their own.
const LENGTHS_MAX: usize = 32;
/// Number of bytes of values on which the encoder tries compressors.
const TRIAL_LEN: usize = 16384;
/// The same for quick choices.
const QUICK_TRIAL_LEN: usize = 1024;
/// Number of values of a fixed length in the sample.
const SAMPLE: usize = 2048;
/// The same for quick choices.
const QUICK_SAMPLE: usize = 512;

/// Lengths of the value of a column that has no other, for which a dictionary is taken at once.
const ONE_VALUE_LENS: RangeInclusive<usize> = 9..=VALUE_LEN_MAX;

/// Columns of so many times the bytes on which compressors are tried are sampled.
const SAMPLED_FROM: usize = 4;
/// What the size of planes by themselves is taken times: zstd finds in values what their entropy does not tell.
const APART_MORE: f64 = 1.4;

/// What the size of a sample of integers is taken times: of few values it looks too small.
const SAMPLED_MORE: f64 = 1.06;

/// The coding that the encoder chooses for a column.
#[derive(Debug, Default)]
pub struct Choice {
    /// The mode of the column.
    pub mode: Mode,
    /// The values of a dictionary.
    pub dictionary: Vec<Vec<u8>>,
    /// For each value of the column, its number in the dictionary.
    pub numbers: Vec<u16>,
    /// First header bytes of the varlenas that have streams of their own.
    pub headers: Vec<u8>,
    /// The shapes and fields of jsonb values.
    pub json: Option<Json>,
    /// The divisor and the remainder of integers.
    pub scale: Scale,
    /// The digits of floats behind the point.
    pub decimals: Decimals,
    /// The digits of numerics behind the point.
    pub numeric: numeric::Scale,
    /// The forms of digits and tokens in texts.
    pub forms: TextForms,
    /// Estimated size of the varlenas when all are concatenated in one stream.
    concatenated: f64,
}

impl Choice {
    /// The cost of the column's lists, which counts towards the limit on lists.
    pub fn list_cost(&self) -> usize {
        let json = self.json.as_ref().map_or(0, Json::list_cost);
        let words = if self.mode == Mode::Words {
            WORDS_COST
        } else {
            0
        };
        self.dictionary.len() * DICTIONARY_VALUE_COST + json + words
    }

    /// Chooses the coding of the values.
    pub fn make<'v>(attribute: Attribute, values: &[&'v [u8]], choices: Choices) -> Choice {
        if choices.uses(OptionalModel::Dictionaries)
            && let Some(choice) = Choice::of_one_value(values)
        {
            return choice;
        }
        let (mut best, mut choice) = match attribute.fixed() {
            Some((len, _)) => Choice::of_fixed(values, len, choices),
            None => Choice::of_varlena(values, choices),
        };
        let mut words_part = 1.0;
        if choices.uses(OptionalModel::Dictionaries)
            && attribute != Attribute::Fixed1
            && let Some(distinct) = DistinctValues::of(values, best)
            && distinct.cost() < best
        {
            best = distinct.cost();
            let (dictionary, numbers) = distinct.ranked();
            choice = Choice {
                mode: Mode::Dictionary,
                dictionary,
                numbers,
                concatenated: choice.concatenated,
                ..Choice::default()
            };
            if choice.dictionary.len() <= SMALL_DICTIONARY {
                return choice;
            }
            words_part = WORDS_PART_OF_DICTIONARY;
        }
        if attribute != Attribute::Varlena || choice.mode == Mode::Numeric {
            return choice;
        }
        let contents = || {
            let content = |value: &&'v [u8]| Some(plain_content(value)?.1);
            values.iter().filter_map(content)
        };
        let with_words = choices.uses(OptionalModel::Words) && choices.care == Care::Full;
        if choice.mode != Mode::Dictionary
            && choices.uses(OptionalModel::Jsonb)
            && let Some(json) = Json::learn_all(contents(), with_words)
        {
            return Choice {
                mode: Mode::Json,
                json: Some(json),
                ..Choice::default()
            };
        }
        if with_words
            && let Some(part) = word_choice::part_of_plain(contents)
            && part < WORDS_PART
            && part * choice.concatenated < best * words_part
        {
            return Choice {
                mode: Mode::Words,
                forms: TextForms::of(contents()),
                ..Choice::default()
            };
        }
        choice
    }

    /// A dictionary of the only value, where it is long: numbers take less time than its bytes.
    fn of_one_value(values: &[&[u8]]) -> Option<Choice> {
        let (value, others) = values.split_first()?;
        let is_wanted = !others.is_empty() && ONE_VALUE_LENS.contains(&value.len());
        (is_wanted && others.iter().all(|other| other == value)).then(|| Choice {
            mode: Mode::Dictionary,
            dictionary: vec![value.to_vec()],
            numbers: vec![0; values.len()],
            ..Choice::default()
        })
    }

    /// The estimated size of values of a fixed length, and their coding.
    fn of_fixed(values: &[&[u8]], len: usize, choices: Choices) -> (f64, Choice) {
        let sample = match choices.care {
            Care::Quick => QUICK_SAMPLE,
            Care::Full => SAMPLE,
        };
        let mut choice = Choice::default();
        let mut best = fixed_cost(values, len, sample);
        if choices.uses(OptionalModel::Scales)
            && matches!(len, 4 | 8)
            && let Some(found) = Scale::of(values, len)
        {
            let scaled: Vec<[u8; 8]> = values
                .iter()
                .take(sample)
                .map(|value| found.down(value).to_le_bytes())
                .collect();
            let scaled: Vec<&[u8]> = scaled.iter().map(|value| &value[..len]).collect();
            let cost = sample_cost(&scaled, len, values.len());
            if cost < best {
                best = cost;
                (choice.mode, choice.scale) = (Mode::Scaled, found);
            }
        }
        if choices.uses(OptionalModel::ValueForms)
            && let Some(found) = Decimals::of(values, len)
        {
            let cost = integers_cost(values, sample, len, |value| found.down(value));
            if cost < best {
                best = cost;
                (choice.mode, choice.decimals) = (Mode::Decimal, found);
            }
        }
        (best, choice)
    }

    /// The estimated size of varlenas, concatenated or by length, and their coding.
    fn of_varlena(values: &[&[u8]], choices: Choices) -> (f64, Choice) {
        let (concatenated, by_len, headers) = varlena_costs(values, choices.care);
        let mode = if by_len < concatenated {
            Mode::ByLen
        } else {
            Mode::Plain
        };
        let mut choice = Choice {
            mode,
            headers,
            concatenated,
            ..Choice::default()
        };
        let mut best = concatenated.min(by_len);
        if choices.uses(OptionalModel::ValueForms)
            && let Some(found) = numeric::Scale::of(values)
        {
            let cost = integers_cost(values, SAMPLE, 8, |value| found.down(value));
            if cost < best {
                best = cost;
                (choice.mode, choice.numeric) = (Mode::Numeric, found);
            }
        }
        (best, choice)
    }
}

/// The estimated size of values of a fixed length, in planes or in planes of differences.
fn fixed_cost(values: &[&[u8]], len: usize, sample: usize) -> f64 {
    sample_cost(&values[..values.len().min(sample)], len, values.len())
}

/// The same of `count` values, as a sample of them tells.
fn sample_cost(sample: &[&[u8]], len: usize, count: usize) -> f64 {
    let mut counts = vec![[0u32; 256]; len];
    let mut delta_counts = vec![[0u32; 256]; len];
    let mut last = 0u64;
    for value in sample {
        for (count, &byte) in counts.iter_mut().zip(*value) {
            count[usize::from(byte)] += 1;
        }
        if len <= 8 {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&value[..len]);
            let number = u64::from_le_bytes(bytes);
            let delta = number.wrapping_sub(last);
            let zigzag = (delta << 1) ^ ((delta as i64 >> 63) as u64);
            for (count, byte) in delta_counts.iter_mut().zip(zigzag.to_le_bytes()) {
                count[usize::from(byte)] += 1;
            }
            last = number;
        }
    }
    let cost = |counts: &[[u32; 256]]| -> f64 {
        counts
            .iter()
            .map(|plane| entropy_bytes(plane.iter().copied()))
            .sum()
    };
    let best = if len <= 8 {
        cost(&counts).min(cost(&delta_counts))
    } else {
        cost(&counts)
    };
    best * count as f64 / sample.len().max(1) as f64
}

/// The estimated size of integers of `len` bytes that values are; those of no integer count as 0.
fn integers_cost(
    values: &[&[u8]],
    sample: usize,
    len: usize,
    integer: impl Fn(&[u8]) -> Option<i64>,
) -> f64 {
    let sampled = values.get(..sample).unwrap_or(values);
    let bytes: Vec<[u8; 8]> = sampled
        .iter()
        .map(|value| integer(value).unwrap_or_default().to_le_bytes())
        .collect();
    let integers: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..len]).collect();
    let part = values.len() as f64 / integers.len().max(1) as f64;
    fixed_cost(&integers, len, sample) * part * SAMPLED_MORE
}

/// The estimated size of varlenas when concatenated, their size by length, and the headers of the
/// lengths that get streams.
fn varlena_costs(values: &[&[u8]], care: Care) -> (f64, f64, Vec<u8>) {
    let trial_len = match care {
        Care::Quick => QUICK_TRIAL_LEN,
        Care::Full => TRIAL_LEN,
    };
    let mut trial = Trial::new();
    let mut by_header: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut others = Vec::new();
    let mut concatenated = Vec::new();
    let mut headers = Vec::new();
    let mut seen = 0usize;
    for value in values {
        let Some((&header, content)) = value.split_first() else {
            continue;
        };
        seen += value.len();
        headers.push(header);
        concatenated.extend_from_slice(content);
        if header & 1 != 0 {
            match by_header.iter_mut().find(|(own, _)| *own == header) {
                Some((_, rows)) => rows.extend_from_slice(content),
                None => by_header.push((header, content.to_vec())),
            }
        } else {
            others.extend_from_slice(content);
        }
        if seen > trial_len {
            break;
        }
    }
    let header_cost = trial.cost(&headers) as f64;
    let total: usize = values.iter().map(|value| value.len()).sum();
    let is_sampled = care == Care::Full && total > SAMPLED_FROM * trial_len;
    let scale = total as f64 / seen.max(1) as f64;
    let concatenated = trial.cost(&concatenated) as f64;
    if by_header.len() > LENGTHS_MAX {
        return ((concatenated + header_cost) * scale, f64::MAX, Vec::new());
    }
    let by_len = by_len_cost(&mut trial, (&by_header, &others), is_sampled);
    let found = by_header
        .iter()
        .map(|(header, _)| *header)
        .filter(|header| *header > 3)
        .collect();
    (
        (concatenated + header_cost) * scale,
        (by_len + header_cost) * scale,
        found,
    )
}

/// The estimated size of varlenas of some lengths, each in planes, and of those of other lengths. Planes that are tried as one
/// share a table of symbols, which those of long streams do not. Those of a sample are estimated by themselves too.
fn by_len_cost(
    trial: &mut Trial,
    (by_header, others): (&[(u8, Vec<u8>)], &[u8]),
    is_sampled: bool,
) -> f64 {
    let mut laid = vec![0; by_header.iter().map(|(_, rows)| rows.len()).sum()];
    let (mut rest, mut apart) = (laid.as_mut_slice(), 0.0);
    for (header, rows) in by_header {
        let width = usize::from(header >> 1).saturating_sub(1).max(1);
        let (part, remaining) = rest.split_at_mut(rows.len());
        Layout::Planes.apply(rows, width, part);
        if is_sampled {
            let planes = part.chunks(rows.len().div_ceil(width).max(1));
            apart += planes.map(plane_cost).sum::<f64>();
        }
        rest = remaining;
    }
    let apart = match is_sampled {
        true => (apart + trial.cost(others) as f64) * APART_MORE,
        false => f64::MAX,
    };
    laid.extend_from_slice(others);
    apart.min(trial.cost(&laid) as f64)
}

/// The entropy of a plane. That of a sample is too small by half a bit for each value that it has but one, over the
/// natural logarithm of 2.
fn plane_cost(plane: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for &byte in plane {
        counts[usize::from(byte)] += 1;
    }
    let values = counts.iter().filter(|&&count| count > 0).count();
    let missed = values.saturating_sub(1) as f64 / (16.0 * std::f64::consts::LN_2);
    (entropy_bytes(counts.into_iter()) + missed).min(plane.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_one_long_value_has_a_dictionary_of_it() {
        let of = |values: &[&[u8]]| {
            let choice = Choice::of_one_value(values)?;
            Some((choice.mode, choice.dictionary, choice.numbers))
        };
        let long = b"\x15the filler".as_slice();
        let dictionary = vec![long.to_vec()];
        assert_eq!(
            of(&[long; 3]),
            Some((Mode::Dictionary, dictionary, vec![0; 3]))
        );
        assert_eq!(of(&[long, long, b"\x15the filled"]), None);
        assert_eq!(of(&[b"\x07abc".as_slice(); 3]), None);
        assert_eq!(of(&[[b'a'; VALUE_LEN_MAX + 1].as_slice(); 3]), None);
        assert_eq!(of(&[long]), None);
        assert_eq!(of(&[]), None);
    }
}
