//! The index tuples of the keys that GIN has taken out of rows: as they come to an index's list
//! of new entries.

use super::extraction::{Form, Keys, Values, keys_of};
use super::index_tuple::INDEX_TUPLE_HEADER_LEN;
use super::recent_rows::RowNumber;
use crate::coder::{Care, get_u16};
use crate::limits::extraction_max;

/// Values of which the tuples are kept.
pub const KEPT: usize = 4;
/// Keys among which the encoder looks for one, from the expected one on.
const AHEAD_MAX: usize = 16;
/// In a hurry, the encoder looks for new sources this part of the time.
const QUICK_PART: usize = 8;
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
    pub fn find(&self, tuple: &[u8], expected: usize) -> Option<u16> {
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

/// What was taken out of rows last, and how much work all of it was.
#[derive(Debug)]
pub struct ExtractedTuples {
    keys: Keys,
    /// The last one used first.
    last: [Tuples; KEPT],
    /// Bytes that were looked at, and how many may be.
    spent: usize,
    limit: usize,
    /// The same for the encoder's new sources.
    explored: usize,
    segment_len: usize,
}

impl ExtractedTuples {
    /// For a segment of so many bytes.
    pub fn new(segment_len: usize) -> ExtractedTuples {
        ExtractedTuples {
            keys: Keys::default(),
            last: Default::default(),
            spent: 0,
            limit: extraction_max(segment_len),
            explored: 0,
            segment_len,
        }
    }

    /// The tuples of a row's keys, which are taken out of it unless that was done lately. `None`
    /// where there are none, or where all of it has become too much work.
    pub fn load<'v>(
        &mut self,
        of: (u32, RowNumber),
        values: impl FnOnce() -> Option<Values<'v>>,
        source: Source,
    ) -> Option<&Tuples> {
        let of = Some((of.0, of.1, source));
        let known = self.last.iter().position(|tuples| tuples.of == of);
        let place = known.unwrap_or(KEPT - 1);
        if place > 0 {
            self.last[..=place].rotate_right(1);
        }
        let [first, ..] = &mut self.last;
        if known.is_none() {
            first.of = None;
            if self.spent > self.limit {
                return None;
            }
            let values = values()?;
            let from = (source.form, source.number);
            let found = keys_of(from, values, &mut self.spent, &mut self.keys, |_, _| true);
            if found.is_none() {
                self.keys.clear();
            }
            first.fill(&self.keys, source.column);
            first.of = of;
        }
        (!first.ends.is_empty()).then_some(first)
    }

    /// Looks for the source that has most of the keys of the tuples that come next; for the
    /// encoder.
    pub fn explore(
        &mut self,
        values: Values<'_>,
        next: &[u8],
        expected: usize,
        care: Care,
    ) -> Option<(u16, Source)> {
        let explored_max = match care {
            Care::Quick => self.segment_len / QUICK_PART,
            Care::Full => self.segment_len,
        };
        let column = get_u16(next, INDEX_TUPLE_HEADER_LEN);
        let columns = [column, 0];
        let columns = columns.get((!(1..=COLUMNS_MAX).contains(&column)).into()..)?;
        self.last.rotate_right(1);
        let [tuples, ..] = &mut self.last;
        tuples.of = None;
        let mut best = None;
        let mut most = 0;
        for form in Form::ALL {
            if self.explored > explored_max || self.spent > self.limit {
                break;
            }
            let mut look = |number, keys: &Keys| {
                for &column in columns {
                    tuples.fill(keys, column);
                    let Some(skip) = tuples.find(next, expected) else {
                        continue;
                    };
                    let same = tuples.run_len(next, expected + usize::from(skip));
                    if same > most {
                        most = same;
                        best = Some((
                            skip,
                            Source {
                                form,
                                number,
                                column,
                            },
                        ));
                    }
                }
                most >= RUN_MAX
            };
            keys_of(
                (form, 0),
                values,
                &mut self.explored,
                &mut self.keys,
                &mut look,
            );
        }
        best
    }
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
