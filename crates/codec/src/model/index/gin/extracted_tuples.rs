//! The keys that GIN extracts from a row, as tuples of the index's pending list.

use super::extraction::{Form, Keys, Values, keys_of};
use crate::limits::extraction_max;
use crate::model::rows::recent::RowNumber;
use crate::model::table::index_tuple::INDEX_TUPLE_HEADER_LEN;
use crate::streams::coder::{Care, get_u16};

/// Number of keys, from the expected one on, among which the encoder looks for one.
const AHEAD_MAX: usize = 16;
/// The encoder tries other sources until it has spent the segment's length, divided by this
/// number, on bytes parsed in vain; the second number is for [`Care::Quick`].
const IN_VAIN: usize = 1;
const IN_VAIN_QUICK: usize = 8;
/// Maximum number of successive keys by which sources are compared.
const RUN_MAX: usize = 8;
/// `INDEX_MAX_KEYS`: maximum number of columns of an index.
const COLUMNS_MAX: u16 = 32;
/// `INDEX_VAR_MASK` in t_info: the key has variable length.
const HAS_VARWIDTH: u16 = 0x4000;
/// `MAXIMUM_ALIGNOF`.
const MAX_ALIGN: usize = 8;
/// `VARATT_SHORT_MAX`: maximum length of a varlena with a header of one byte, header included.
const SHORT_MAX: usize = 0x7F;
/// Offset and size of t_info.
pub const INFO_AT: usize = 6;
const INFO_LEN: usize = 2;

/// The value of a row that keys are extracted from, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The form of the value, which determines the keys.
    pub form: Form,
    /// The number of the value among the row's values of that form, from 0.
    pub number: u8,
    /// The index column, which is part of the key. 0 for an index of one column.
    pub column: u16,
}

/// The tuples of the keys of one value.
#[derive(Debug, Default)]
pub struct Tuples {
    /// The index, the row and the source.
    of: Option<(u32, RowNumber, Source)>,
    /// The tuples, each from t_info on.
    bytes: Vec<u8>,
    /// The end of each tuple in `bytes`.
    ends: Vec<u32>,
}

impl Tuples {
    fn fill(&mut self, keys: &Keys, column: u16) {
        self.bytes.clear();
        self.ends.clear();
        for key in keys.iter() {
            make_tuple(key, keys.are_varlena(), column, &mut self.bytes);
            self.ends.push(self.bytes.len() as u32);
        }
    }

    /// The tuple of the key of a number; empty if there is no such key.
    pub fn get(&self, key: usize) -> &[u8] {
        let end = |key: usize| self.ends.get(key).map(|&end| end as usize);
        let start = key.checked_sub(1).and_then(end).unwrap_or(0);
        let tuple = self.bytes.get(start..end(key).unwrap_or(0));
        tuple.unwrap_or_default()
    }

    /// How many keys after the expected one the key of this tuple is.
    fn find(&self, tuple: &[u8], expected: usize) -> Option<u16> {
        let count = self.ends.len();
        let tuple = tuple.get(INFO_AT..)?;
        (0..count.min(AHEAD_MAX) as u16)
            .find(|&skip| tuple.starts_with(self.get(self.after(expected, skip))))
    }

    /// The number of the key that is `skip` keys after `key`. The first follows the last.
    pub fn after(&self, key: usize, skip: u16) -> usize {
        let number = key + usize::from(skip);
        match number < self.ends.len() {
            true => number,
            false => number % self.ends.len(),
        }
    }

    /// How many of the tuples in `next`, from its front, are those of the keys from `first` on.
    fn run_len(&self, mut next: &[u8], first: usize) -> usize {
        let made = (0..RUN_MAX as u16).map(|skip| self.get(self.after(first, skip)));
        let is_next = |made: &&[u8]| {
            let is_next = next
                .get(INFO_AT..)
                .is_some_and(|next| next.starts_with(made));
            next = next.get(INFO_AT + made.len()..).unwrap_or_default();
            is_next
        };
        made.take_while(is_next).count()
    }
}

/// The keys that were extracted last, and the work spent on extraction in this segment.
#[derive(Debug)]
pub struct ExtractedTuples {
    keys: Keys,
    /// The tuples of the last source that a tuple was coded by.
    last: Tuples,
    /// The tuples of the source at hand, until they become `last`.
    tried: Tuples,
    /// Bytes parsed.
    spent: usize,
    /// Maximum of `spent`.
    limit: usize,
    /// Bytes parsed in vain (encoder only).
    in_vain: usize,
    segment_len: usize,
}

impl ExtractedTuples {
    /// For a segment of this length.
    pub fn new(segment_len: usize) -> ExtractedTuples {
        ExtractedTuples {
            keys: Keys::default(),
            last: Tuples::default(),
            tried: Tuples::default(),
            spent: 0,
            limit: extraction_max(segment_len),
            in_vain: 0,
            segment_len,
        }
    }

    /// The tuples of a row's keys. Extracts them unless they were the last ones extracted. `None`
    /// if there are none, or if extraction has exceeded its limit.
    pub fn take<'v>(
        &mut self,
        of: (u32, RowNumber, Source),
        values: impl FnOnce() -> Option<Values<'v>>,
    ) -> Option<&Tuples> {
        if self.last.of != Some(of) {
            let mut spent = 0;
            self.try_to_take(of, values, &mut spent)?;
            self.spent += spent;
            std::mem::swap(&mut self.last, &mut self.tried);
        }
        Some(&self.last)
    }

    /// Extracts the keys of a row into `tried`.
    fn try_to_take<'v>(
        &mut self,
        of: (u32, RowNumber, Source),
        values: impl FnOnce() -> Option<Values<'v>>,
        spent: &mut usize,
    ) -> Option<()> {
        if self.spent > self.limit {
            return None;
        }
        let source = of.2;
        let from = (source.form, source.number);
        keys_of(from, values()?, spent, &mut self.keys, |_, _| true)?;
        self.tried.fill(&self.keys, source.column);
        self.tried.of = Some(of);
        (!self.tried.ends.is_empty()).then_some(())
    }

    /// How many keys after the expected one the key of a tuple is among those of a source. If
    /// found, these become the last keys extracted. Encoder only.
    pub fn find<'v>(
        &mut self,
        of: (u32, RowNumber, Source),
        values: impl FnOnce() -> Option<Values<'v>>,
        tuple: &[u8],
        expected: usize,
    ) -> Option<u16> {
        if self.last.of == Some(of) {
            return self.last.find(tuple, expected);
        }
        let mut spent = 0;
        let taken = self.try_to_take(of, values, &mut spent);
        let found = taken.and_then(|()| self.tried.find(tuple, expected));
        match found {
            Some(_) => {
                self.spent += spent;
                std::mem::swap(&mut self.last, &mut self.tried);
            }
            None => self.in_vain += spent,
        }
        found
    }

    /// Whether these keys were the last ones extracted, so that finding one costs nothing.
    pub fn has(&self, of: (u32, RowNumber, Source)) -> bool {
        self.last.of == Some(of)
    }

    /// Whether the encoder may still try the most recently used source.
    pub fn may_repeat(&self) -> bool {
        self.in_vain <= self.limit
    }

    /// Whether the encoder may still try other sources. This ends before [`Self::may_repeat`].
    pub fn may_try(&self, care: Care) -> bool {
        let part = match care {
            Care::Quick => IN_VAIN_QUICK,
            Care::Full => IN_VAIN,
        };
        self.in_vain <= self.segment_len / part
    }

    /// Finds the source that gives the longest run of the keys in `next`. Encoder only.
    pub fn explore(&mut self, values: Values<'_>, next: &[u8], expected: usize) -> Option<Source> {
        let column = column_of(next);
        let columns = [column.unwrap_or_default(), 0];
        let columns = &columns[usize::from(column.is_none())..];
        let tuples = &mut self.tried;
        let mut best = None;
        let mut most = 0;
        for form in Form::ALL {
            let mut look = |number, keys: &Keys| {
                for &column in columns {
                    tuples.fill(keys, column);
                    let Some(skip) = tuples.find(next, expected) else {
                        continue;
                    };
                    let same = tuples.run_len(next, expected + usize::from(skip));
                    if same > most {
                        most = same;
                        best = Some(Source {
                            form,
                            number,
                            column,
                        });
                    }
                }
                most >= RUN_MAX
            };
            let in_vain = &mut self.in_vain;
            keys_of((form, 0), values, in_vain, &mut self.keys, &mut look);
        }
        best
    }
}

/// The index column in a tuple, if its bytes can be one.
pub fn column_of(tuple: &[u8]) -> Option<u16> {
    let column = get_u16(tuple, INDEX_TUPLE_HEADER_LEN);
    (1..=COLUMNS_MAX).contains(&column).then_some(column)
}

/// Appends the tuple of a key, from t_info on.
fn make_tuple(key: &[u8], is_varlena: bool, column: u16, tuples: &mut Vec<u8>) {
    if let ([a, b, c, d], 0, false) = (key, column, is_varlena) {
        return tuples.extend_from_slice(&[16, 0, *a, *b, *c, *d, 0, 0, 0, 0]);
    }
    let start = tuples.len();
    tuples.extend_from_slice(&[0; INFO_LEN]);
    // Alignment counts from the end of t_info, which is byte 8 of the tuple.
    let align = |tuples: &mut Vec<u8>, to| {
        let len = tuples.len() - start - INFO_LEN;
        tuples.resize(tuples.len() - len + len.next_multiple_of(to), 0);
    };
    if column != 0 {
        tuples.extend_from_slice(&column.to_le_bytes());
    }
    match key.len() {
        len if is_varlena && len < SHORT_MAX => tuples.push((len as u8 + 1) << 1 | 1),
        len if is_varlena => {
            align(tuples, 4);
            tuples.extend_from_slice(&((len as u32 + 4) << 2).to_le_bytes());
        }
        len @ (2 | 4 | 8) => align(tuples, len),
        _ => {}
    }
    tuples.extend_from_slice(key);
    align(tuples, MAX_ALIGN);
    let len = tuples.len() - start + INFO_AT;
    let flags = if is_varlena { HAS_VARWIDTH } else { 0 };
    tuples[start..start + INFO_LEN].copy_from_slice(&(len as u16 | flags).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source {
        form: Form::Array,
        number: 0,
        column: 0,
    };

    /// An array of integers as a value.
    fn array(elements: &[i32]) -> Vec<u8> {
        let header = [1, 0, 23, elements.len() as u32, 1];
        let elements = elements.iter().map(|&element| element as u32);
        let words: Vec<u32> = header.into_iter().chain(elements).collect();
        let len = 4 * words.len() + 4;
        let varlena = std::iter::once((len << 2) as u32).chain(words);
        varlena.flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn makes_the_tuples_of_an_array() {
        let value = array(&[7, -1, 7]);
        let values = Values {
            known: &value,
            from: 8,
        };
        let mut extracted = ExtractedTuples::new(0);
        let tuples = extracted.take((1, 1, SOURCE), || Some(values));
        let tuples = tuples.expect("an array");
        assert_eq!(tuples.get(0), [16, 0, 255, 255, 255, 255, 0, 0, 0, 0]);
        assert_eq!(tuples.get(1), [16, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert!(tuples.get(2).is_empty());
        let column = Source {
            column: 2,
            ..SOURCE
        };
        let tuples = extracted.take((1, 1, column), || Some(values));
        let tuples = tuples.expect("an array");
        assert_eq!(tuples.get(1), [16, 0, 2, 0, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn a_varlena_begins_at_a_multiple_of_four_of_all_values() {
        let value = array(&[7]);
        let values = |from| Values {
            known: &value,
            from,
        };
        let mut extracted = ExtractedTuples::new(0);
        assert!(extracted.take((1, 1, SOURCE), || Some(values(2))).is_none());
        assert!(extracted.take((1, 2, SOURCE), || Some(values(4))).is_some());
    }

    #[test]
    fn stops_when_it_has_taken_too_much_apart() {
        let value = array(&[7; 2000]);
        let values = Values {
            known: &value,
            from: 0,
        };
        let mut extracted = ExtractedTuples::new(0);
        let loads = (1..)
            .take_while(|&row| extracted.take((1, row, SOURCE), || Some(values)).is_some())
            .count();
        assert_eq!(
            loads,
            extraction_max(0) / (value.len() - 4 + value.len() / 8) + 1
        );
        // Keys that were extracted last cost nothing.
        let last = loads as RowNumber;
        assert!(extracted.take((1, last, SOURCE), || None).is_some());
    }

    #[test]
    fn finds_the_source_that_has_most_of_the_keys() {
        let value = [array(&[5, 6, 9]), array(&[5, 6, 7])].concat();
        let values = Values {
            known: &value,
            from: 0,
        };
        let tuple = |key: u8| [0, 0, 0, 0, 1, 0, 16, 0, key, 0, 0, 0, 0, 0, 0, 0];
        let next = [tuple(5), tuple(6), tuple(7)].concat();
        let mut extracted = ExtractedTuples::new(1 << 20);
        let found = extracted.explore(values, &next, 0);
        let second = Source {
            number: 1,
            ..SOURCE
        };
        assert_eq!(found, Some(second));
        let skip = extracted.find((1, 1, second), || Some(values), &next, 0);
        assert_eq!(skip, Some(0));
        // Keys tried in vain do not replace those that were found.
        let other = extracted.find((1, 2, SOURCE), || Some(values), &tuple(8), 0);
        assert_eq!(other, None);
        assert_eq!(extracted.last.of, Some((1, 1, second)));
    }
}
