//! The index tuples of the keys that GIN has taken out of rows: as they come to an index's list
//! of new entries.

use super::extraction::{Form, Keys, Values, keys_of};
use crate::limits::extraction_max;
use crate::model::index::tuple::INDEX_TUPLE_HEADER_LEN;
use crate::model::rows::recent::RowNumber;
use crate::streams::coder::{Care, get_u16};

/// Keys among which the encoder looks for one, from the expected one on.
const AHEAD_MAX: usize = 16;
/// Bytes that the encoder takes apart in vain, as a part of the segment's; and in a hurry.
const IN_VAIN: usize = 1;
const IN_VAIN_QUICK: usize = 8;
/// Keys that are compared to tell sources apart.
const RUN_MAX: usize = 8;
/// Columns of an index (`INDEX_MAX_KEYS`).
const COLUMNS_MAX: u16 = 32;
/// `INDEX_VAR_MASK`, in t_info: the key has variable length.
const HAS_VARWIDTH: u16 = 0x4000;
/// `MAXIMUM_ALIGNOF`.
const MAX_ALIGN: usize = 8;
/// The longest varlena with a header of one byte (`VARATT_SHORT_MAX`).
const SHORT_MAX: usize = 0x7F;
/// Where t_info stands, and its bytes.
pub const INFO_AT: usize = 6;
const INFO_LEN: usize = 2;

/// Where keys come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// What is taken out.
    pub form: Form,
    /// From which of the row's values of that form.
    pub number: u8,
    /// The index's column, which is part of the key; 0 in an index of one.
    pub column: u16,
}

/// The tuples of the keys of one value.
#[derive(Debug, Default)]
pub struct Tuples {
    /// The index, the row and the source.
    of: Option<(u32, RowNumber, Source)>,
    /// From t_info on, and where each ends.
    bytes: Vec<u8>,
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

    /// The tuple of a key; empty where there are not so many.
    pub fn get(&self, key: usize) -> &[u8] {
        let end = |key: usize| self.ends.get(key).map(|&end| end as usize);
        let start = key.checked_sub(1).and_then(end).unwrap_or(0);
        let tuple = self.bytes.get(start..end(key).unwrap_or(0));
        tuple.unwrap_or_default()
    }

    /// How far behind the expected key the one of this tuple is.
    fn find(&self, tuple: &[u8], expected: usize) -> Option<u16> {
        let count = self.ends.len();
        let tuple = tuple.get(INFO_AT..)?;
        (0..count.min(AHEAD_MAX) as u16)
            .find(|&skip| tuple.starts_with(self.get(self.behind(expected, skip))))
    }

    /// The number of the key that is so far behind one; behind the last comes the first.
    pub fn behind(&self, key: usize, skip: u16) -> usize {
        let number = key + usize::from(skip);
        match number < self.ends.len() {
            true => number,
            false => number % self.ends.len(),
        }
    }

    /// How many of the tuples that come next are those of the keys from this one on.
    fn run_len(&self, mut next: &[u8], first: usize) -> usize {
        let made = (0..RUN_MAX as u16).map(|skip| self.get(self.behind(first, skip)));
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

/// The keys that were taken out of a row last, and how much work all of it was.
#[derive(Debug)]
pub struct ExtractedTuples {
    keys: Keys,
    /// Of the last tuple that was coded by its source.
    last: Tuples,
    /// The encoder's: of what it tries.
    tried: Tuples,
    /// Bytes that were looked at, and how many may be.
    spent: usize,
    limit: usize,
    /// The encoder's: bytes that were looked at in vain.
    in_vain: usize,
    segment_len: usize,
}

impl ExtractedTuples {
    /// For a segment of so many bytes.
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

    /// The tuples of a row's keys: those of the last tuple, if they are the same row's, else taken
    /// out of it. `None` where there are none, or where all of it has become too much work.
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

    /// Takes keys out of a row into `tried`.
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

    /// How far behind the expected one the key of a tuple is among those of a source, which
    /// then are the last that were taken; for the encoder.
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

    /// Keys can be found without taking them out: they were the last.
    pub fn has(&self, of: (u32, RowNumber, Source)) -> bool {
        self.last.of == Some(of)
    }

    /// The encoder has not yet looked at far too much in vain: it may try a source that did well.
    pub fn may_repeat(&self) -> bool {
        self.in_vain <= self.limit
    }

    /// The encoder has not yet looked at too much in vain: it may try others.
    pub fn may_try(&self, care: Care) -> bool {
        let part = match care {
            Care::Quick => IN_VAIN_QUICK,
            Care::Full => IN_VAIN,
        };
        self.in_vain <= self.segment_len / part
    }

    /// Looks for the source that has most of the keys of the tuples that come next; for the
    /// encoder.
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

/// The column that a tuple is for, if the index may have several.
pub fn column_of(tuple: &[u8]) -> Option<u16> {
    let column = get_u16(tuple, INDEX_TUPLE_HEADER_LEN);
    (1..=COLUMNS_MAX).contains(&column).then_some(column)
}

/// Adds the tuple of a key, from t_info on.
fn make_tuple(key: &[u8], is_varlena: bool, column: u16, tuples: &mut Vec<u8>) {
    if let ([a, b, c, d], 0, false) = (key, column, is_varlena) {
        return tuples.extend_from_slice(&[16, 0, *a, *b, *c, *d, 0, 0, 0, 0]);
    }
    let start = tuples.len();
    tuples.extend_from_slice(&[0; INFO_LEN]);
    // Places count from behind t_info, which is at a multiple of 8.
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
        // What is there already takes nothing.
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
        // What was tried in vain does not take the place of what was found.
        let other = extracted.find((1, 2, SOURCE), || Some(values), &tuple(8), 0);
        assert_eq!(other, None);
        assert_eq!(extracted.last.of, Some((1, 1, second)));
    }
}
