//! Columns of few distinct values: a list of the distinct values, and for each value its number
//! in the list.

use super::attribute::{Attribute, varlena_start};
use crate::limits::DICTIONARY_VALUE_COST;
use crate::streams::StreamWriter;
use crate::streams::coder::{Coder, StreamId};
use crate::streams::kind::StreamKind;

/// Maximum number of values in a dictionary.
pub const VALUES_MAX: usize = 1 << 16;
/// Maximum length of a value in a dictionary, in bytes.
pub const VALUE_LEN_MAX: usize = 255;

/// The list of a column, and the stream of its numbers.
#[derive(Debug)]
pub struct Dictionary {
    number: StreamId,
    /// Numbers have two bytes.
    is_wide: bool,
    /// The values, concatenated: an allocation for each would take far more memory than the value
    /// has bytes in a file.
    values: Vec<u8>,
    /// The end of each value in `values`.
    ends: Vec<u32>,
    /// The numbers of the remaining values of the column (encoder only).
    numbers: std::vec::IntoIter<u16>,
}

impl Dictionary {
    /// Codes the list. The encoder passes it in `known`, and in `numbers` the number of each value
    /// of the column.
    pub fn open<C: Coder>(
        coder: &mut C,
        choices: StreamId,
        attribute: Attribute,
        known: &[Vec<u8>],
        numbers: Vec<u16>,
    ) -> Dictionary {
        let count = usize::from(coder.u16(choices, known.len().wrapping_sub(1) as u16)) + 1;
        if !C::ENCODING && !coder.take_list(count * DICTIONARY_VALUE_COST) {
            coder.fail();
        }
        let width = attribute.fixed().map_or(1, |(len, _)| len);
        let stream = coder.open(StreamKind::DictionaryValue, width);
        let lengths = coder.open(StreamKind::ValueHeader, 1);
        let mut values = Vec::new();
        let mut ends = Vec::new();
        for number in 0..count {
            let value = known.get(number).map(Vec::as_slice).unwrap_or_default();
            let len = match attribute.fixed() {
                Some((len, _)) => len,
                None => usize::from(coder.u8(lengths, value.len() as u8)),
            };
            if coder.failed() || len == 0 {
                coder.fail();
                break;
            }
            let start = values.len();
            values.extend_from_slice(value);
            values.resize(start + len, 0);
            coder.bytes(stream, &mut values[start..]);
            ends.push(values.len() as u32);
        }
        let is_wide = count > 256;
        Dictionary {
            number: coder.open(StreamKind::ValueNumber, if is_wide { 2 } else { 1 }),
            is_wide,
            values,
            ends,
            numbers: numbers.into_iter(),
        }
    }

    fn value(&self, number: usize) -> Option<&[u8]> {
        let start = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.values.get(start..*self.ends.get(number)? as usize)
    }

    /// Codes the numbers of the next values.
    pub fn append(&mut self, coder: &mut StreamWriter, count: usize) {
        for number in self.numbers.by_ref().take(count) {
            match self.is_wide {
                true => coder.u16(self.number, number),
                false => coder.u8(self.number, number as u8).into(),
            };
        }
    }

    /// Codes the value after offset `at` and returns the offset of its end.
    pub fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        attribute: Attribute,
        data: &mut [u8],
        at: usize,
    ) -> usize {
        let number = self.numbers.next().unwrap_or_default();
        let number = if self.is_wide {
            usize::from(coder.u16(self.number, number))
        } else {
            usize::from(coder.u8(self.number, number as u8))
        };
        let Some(value) = self.value(number) else {
            coder.fail();
            return at;
        };
        let start = match attribute.fixed() {
            Some((_, align)) => at.next_multiple_of(align),
            None => varlena_start(value.first().copied().unwrap_or_default(), at),
        };
        coder.put_slice(data, start, value);
        start + value.len()
    }
}
