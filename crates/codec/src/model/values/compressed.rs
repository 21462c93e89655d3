//! Values that the server has compressed: in their row, or outside of it, in pieces that are the
//! rows of a TOAST table (access/common/toast_internals.c).
//!
//! Each is taken apart, its value is coded like those that are not compressed, and compressing it
//! makes the same bytes again. The first row of a value has the value, whichever piece it is: what
//! is inserted while others insert, or into free space, does not stand in order. The two
//! attributes before a piece say of which value it is, and which one.

use std::collections::HashMap;

use super::attribute::varlena_start;
use super::varlena::plain_content;
use crate::compressors::value::{Method, Values, put_together};
use crate::streams::coder::{Proof, get_u32};

/// `TOAST_MAX_CHUNK_SIZE`: bytes of each piece of a value but the last.
const PIECE_LEN: usize = 1996;
/// Bytes of the header of a long varlena.
pub const HEADER_LEN: usize = 4;
/// Flag in the first byte of the header of a compressed varlena.
const IS_COMPRESSED: u32 = 2;

/// Form of a value: as it is.
pub const AS_IT_IS: u8 = 0;
/// Form: another piece of a value of which one was before.
pub const OTHER_PIECE: u8 = 4;
/// Added to the number of a method where the value is in pieces, and this is the first row that has one.
const FIRST_PIECE: u8 = 4;

/// Values that are taken apart are at most this number of times as long as the column.
const EXPANSION_MAX: usize = 6;
/// Bytes of the values of a column that are taken apart, at most.
const APART_MAX: usize = 96 << 20;
/// Nothing is taken apart where less than one of this number of a column's bytes is compressed.
const WORTH_OF: usize = 64;

/// Which piece of which value a row of a TOAST table is: `chunk_id` and `chunk_seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The value's number.
    pub value: u32,
    /// The piece's place in the value.
    pub number: u32,
}

impl Piece {
    /// Bytes of the two numbers.
    pub const NUMBERS_LEN: usize = 8;

    /// The two numbers at the end of what stands before the piece.
    pub fn of(before: &[u8]) -> Option<Piece> {
        let (_, numbers) = before.split_last_chunk::<{ Piece::NUMBERS_LEN }>()?;
        Some(Piece {
            value: get_u32(numbers, 0),
            number: get_u32(numbers, 4),
        })
    }
}

/// What the decoder has of compressed values.
#[derive(Debug, Default)]
pub struct CompressedAgain {
    /// By number: values of which some pieces are yet to come.
    begun: HashMap<u32, Begun>,
}

#[derive(Debug)]
struct Begun {
    bytes: Vec<u8>,
    /// Pieces that are yet to come.
    left: usize,
}

/// The values of a column, taken apart.
#[derive(Debug, Default)]
pub struct TakenApart {
    forms: Vec<u8>,
    /// The values that were compressed, each with the header of a long varlena.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    has_pieces: bool,
}

/// The method of a form, and whether it begins a value in pieces.
pub fn method_of(form: u8) -> Option<(Method, bool)> {
    match form > FIRST_PIECE {
        true => Some((Method::of(form - FIRST_PIECE)?, true)),
        false => Some((Method::of(form)?, false)),
    }
}

impl TakenApart {
    /// Takes values apart; `None` where that is of no use. `pieces` says of each which piece it is, if
    /// the column may be that of a TOAST table.
    pub fn find(values: &[&[u8]], pieces: Option<&[Piece]>, proof: Proof) -> Option<TakenApart> {
        let of_pieces = pieces.and_then(|pieces| TakenApart::of(values, Some(pieces), proof));
        of_pieces.or_else(|| TakenApart::of(values, None, proof))
    }

    fn of(values: &[&[u8]], pieces: Option<&[Piece]>, proof: Proof) -> Option<TakenApart> {
        let total: usize = values.iter().map(|value| value.len()).sum();
        let mut taking = Taking {
            compressor: Values::new(proof == Proof::LaterByOther),
            proof,
            left: total.saturating_mul(EXPANSION_MAX).min(APART_MAX),
            taken: 0,
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        let mut forms = vec![AS_IT_IS; values.len()];
        match pieces {
            None => {
                for (value, form) in values.iter().zip(&mut forms) {
                    let method = compressed_content(value).and_then(|bytes| taking.take(bytes));
                    *form = method.map_or(AS_IT_IS, |method| method as u8);
                }
            }
            Some(pieces) => {
                let mut bytes = Vec::new();
                for rows in whole_values(values, pieces) {
                    bytes.clear();
                    for &row in &rows {
                        bytes.extend_from_slice(piece_content(values[row]).unwrap_or_default());
                    }
                    if let Some(method) = taking.take(&bytes) {
                        set_forms(&mut forms, &rows, method);
                    }
                }
            }
        }
        let is_worth = taking.taken > total / WORTH_OF;
        is_worth.then_some(TakenApart {
            forms,
            bytes: taking.bytes,
            ends: taking.ends,
            has_pieces: pieces.is_some(),
        })
    }

    /// There may be pieces.
    pub fn has_pieces(&self) -> bool {
        self.has_pieces
    }

    /// The form of each value.
    pub fn forms(&self) -> &[u8] {
        &self.forms
    }

    /// The lengths of the values that were taken apart.
    pub fn lens(&self) -> impl Iterator<Item = usize> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let lens = self.ends.iter().zip(starts);
        lens.map(|(end, start)| end - start - HEADER_LEN)
    }

    /// Bytes of the values that were taken apart.
    pub fn values_len(&self) -> usize {
        self.bytes.len() - self.ends.len() * HEADER_LEN
    }

    /// The values with those that were taken apart, and the pieces that were not, in their order.
    pub fn to_code<'a>(&'a self, values: &[&'a [u8]]) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        let mut start = 0;
        let mut ends = self.ends.iter();
        for (value, form) in values.iter().zip(&self.forms) {
            match *form {
                AS_IT_IS if self.has_pieces => pieces.push(*value),
                AS_IT_IS => whole.push(*value),
                OTHER_PIECE => {}
                _ => {
                    let end = ends.next().copied().unwrap_or(start);
                    whole.push(&self.bytes[start..end]);
                    start = end;
                }
            }
        }
        (whole, pieces)
    }
}

/// Values while they are taken apart.
struct Taking {
    compressor: Values,
    proof: Proof,
    /// Bytes of values that may still be taken apart.
    left: usize,
    /// Bytes of what was taken apart.
    taken: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Taking {
    /// Takes apart a value; returns what compresses it again.
    fn take(&mut self, compressed: &[u8]) -> Option<Method> {
        let len = Values::len_of(compressed).filter(|&len| len <= self.left)?;
        let start = self.bytes.len();
        let header = ((len + HEADER_LEN) << 2) as u32;
        self.bytes.extend_from_slice(&header.to_le_bytes());
        let found =
            self.compressor
                .take_apart(compressed, &mut self.bytes, self.proof != Proof::Each);
        if found.is_none() {
            self.bytes.truncate(start);
            return None;
        }
        self.left -= len;
        self.taken += compressed.len();
        self.ends.push(self.bytes.len());
        found
    }
}

/// The bytes of a varlena that is compressed, in its row.
fn compressed_content(value: &[u8]) -> Option<&[u8]> {
    let is_compressed = get_u32(value, 0) & 3 == IS_COMPRESSED;
    is_compressed.then(|| value.get(HEADER_LEN..))?
}

/// The bytes of a varlena that is a piece.
fn piece_content(value: &[u8]) -> Option<&[u8]> {
    let (is_long, content) = plain_content(value)?;
    is_long.then_some(content)
}

/// Of each value that has all of its pieces, the rows in the order of the pieces. The values are in the order of their
/// first rows. Another row of the same piece belongs to none.
fn whole_values(values: &[&[u8]], pieces: &[Piece]) -> Vec<Vec<usize>> {
    let mut known: Vec<Vec<(u32, usize)>> = Vec::new();
    let mut by_value: HashMap<u32, usize> = HashMap::new();
    for (row, (value, piece)) in values.iter().zip(pieces).enumerate() {
        let is_piece = piece_content(value).is_some_and(|content| content.len() <= PIECE_LEN);
        if !is_piece {
            continue;
        }
        let next = known.len();
        let at = *by_value.entry(piece.value).or_insert(next);
        if at == next {
            known.push(Vec::new());
        }
        known[at].push((piece.number, row));
    }
    let whole = known.into_iter().filter_map(|mut rows| {
        rows.sort_unstable();
        rows.dedup_by_key(|(number, _)| *number);
        let in_order = (0..).zip(&rows).all(|(number, (own, _))| number == *own);
        let rows: Vec<usize> = rows.into_iter().map(|(_, row)| row).collect();
        let (&last, others) = rows.split_last()?;
        let is_full = |&row: &usize| values[row].len() == HEADER_LEN + PIECE_LEN;
        let is_cut_as_by_server = others.iter().all(is_full) && values[last].len() > HEADER_LEN;
        (in_order && is_cut_as_by_server).then_some(rows)
    });
    let mut whole: Vec<Vec<usize>> = whole.collect();
    whole.sort_by_key(|rows| rows.iter().min().copied());
    whole
}

/// Sets the forms of the rows of a value.
fn set_forms(forms: &mut [u8], rows: &[usize], method: Method) {
    for &row in rows {
        forms[row] = OTHER_PIECE;
    }
    if let Some(&first) = rows.iter().min() {
        forms[first] = method as u8 + FIRST_PIECE;
    }
}

impl CompressedAgain {
    /// Compresses a value, and puts it or its first piece into its place.
    pub fn put_value(
        &mut self,
        method: Method,
        value: &[u8],
        (data, at): (&mut [u8], usize),
        is_piece: bool,
    ) -> Option<usize> {
        let bytes = put_together(method, value)?;
        if is_piece {
            let left = bytes.len().div_ceil(PIECE_LEN);
            let piece = Piece::of(data.get(..at)?)?;
            self.begun.insert(piece.value, Begun { bytes, left });
            return self.piece(data, at);
        }
        put(data, varlena_start(0, at), &bytes, IS_COMPRESSED)
    }

    /// Puts a piece of a value into its place.
    pub fn piece(&mut self, data: &mut [u8], at: usize) -> Option<usize> {
        let piece = Piece::of(data.get(..at)?)?;
        let value = self.begun.get_mut(&piece.value)?;
        let start = (piece.number as usize).checked_mul(PIECE_LEN)?;
        let bytes = value.bytes.get(start..).filter(|bytes| !bytes.is_empty())?;
        let bytes = bytes.get(..PIECE_LEN).unwrap_or(bytes);
        let end = put(data, varlena_start(0, at), bytes, 0);
        value.left -= 1;
        if value.left == 0 {
            self.begun.remove(&piece.value);
        }
        end
    }
}

/// Puts a long varlena with these bytes and flags into its place, and returns its end.
fn put(data: &mut [u8], start: usize, bytes: &[u8], flags: u32) -> Option<usize> {
    let len = HEADER_LEN + bytes.len();
    let (header, content) = data.get_mut(start..start + len)?.split_at_mut(HEADER_LEN);
    header.copy_from_slice(&((len as u32) << 2 | flags).to_le_bytes());
    content.copy_from_slice(bytes);
    Some(start + len)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::attribute::Attribute;
    use super::super::column::Column;
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::streams::coder::Coder;
    use crate::streams::kind::StreamKind;
    use crate::streams::{StreamReader, StreamWriter};

    /// A varlena of four bytes before its content.
    fn long(content: &[u8], flags: u32) -> Vec<u8> {
        let mut data = vec![0; HEADER_LEN + content.len()];
        put(&mut data, 0, content, flags).unwrap();
        data
    }

    fn compressed(method: Method, value: &[u8]) -> Vec<u8> {
        put_together(method, value).unwrap()
    }

    /// A text that stays long when it is compressed.
    fn text(seed: u32, words: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 20
        };
        let words = (0..words).map(|_| format!("word{} ", next() % 300));
        words.collect::<String>().into_bytes()
    }

    /// The rows of a TOAST table: two numbers and a piece each.
    fn rows_of(number: u32, bytes: &[u8]) -> Vec<Vec<u8>> {
        let pieces = (0u32..).zip(bytes.chunks(PIECE_LEN));
        let row = |(place, piece): (u32, &[u8])| {
            let numbers = [number.to_le_bytes(), place.to_le_bytes()].concat();
            [numbers, long(piece, 0)].concat()
        };
        pieces.map(row).collect()
    }

    /// Codes the pieces of rows, decodes them, and returns how many bytes of values were taken apart.
    fn round_trip(rows: &[Vec<u8>]) -> usize {
        let values: Vec<&[u8]> = rows.iter().map(|row| &row[8..]).collect();
        let pieces: Vec<Piece> = rows
            .iter()
            .map(|row| Piece::of(&row[..8]).unwrap())
            .collect();
        let apart = TakenApart::find(&values, Some(&pieces), Proof::Each);
        let taken = apart.map_or(0, |apart| apart.values_len());
        let mut coder = StreamWriter::default();
        let choices = coder.open(StreamKind::HeapSchema, 1);
        let attribute = Attribute::Varlena;
        let mut column = Column::open(&mut coder, choices, attribute, Some(&values), Some(&pieces));
        column.code_all(&mut coder, &values);
        assert!(!coder.failed());
        let content = coder.into_content().bytes;
        let mut reader = StreamReader::of_content(content, FormatVersion::CURRENT).unwrap();
        let choices = reader.open(StreamKind::HeapSchema, 1);
        let mut column = Column::open(&mut reader, choices, attribute, None, None);
        for row in rows {
            let mut decoded = vec![0; row.len()];
            decoded[..8].copy_from_slice(&row[..8]);
            assert_eq!(column.code(&mut reader, &mut decoded, 8), row.len());
            assert_eq!(decoded, *row);
        }
        assert!(reader.exhausted() && !reader.failed());
        taken
    }

    #[test]
    fn values_in_pieces_come_back_in_any_order() {
        let texts = [text(1, 2000), text(2, 3000), text(3, 5000)];
        let methods = [Method::PglzSigned, Method::Lz4, Method::PglzUnsigned];
        let all = texts.iter().zip(methods).zip(40..);
        let mut rows: Vec<Vec<u8>> = all
            .flat_map(|((text, method), number)| rows_of(number, &compressed(method, text)))
            .collect();
        let len = texts.iter().map(Vec::len).sum();
        assert!(rows.len() > 8);
        assert_eq!(round_trip(&rows), len);
        rows.reverse();
        assert_eq!(round_trip(&rows), len);
        let every_second = |from| rows.iter().skip(from).step_by(2).cloned();
        let mixed: Vec<Vec<u8>> = every_second(1).chain(every_second(0)).collect();
        assert_eq!(round_trip(&mixed), len);
    }

    #[test]
    fn what_is_not_whole_or_there_twice_is_as_it_is() {
        let value = compressed(Method::PglzSigned, &text(1, 3000));
        let other = compressed(Method::PglzSigned, &text(2, 900));
        let rows = rows_of(7, &value);
        let others = rows_of(8, &other);
        for missing in 0..rows.len() {
            let mut left = rows.clone();
            left.remove(missing);
            left.extend_from_slice(&others);
            assert_eq!(round_trip(&left), text(2, 900).len(), "without {missing}");
        }
        let twice = [rows.clone(), rows, others].concat();
        assert_eq!(round_trip(&twice), text(1, 3000).len() + text(2, 900).len());
    }

    #[test]
    fn an_empty_piece_after_the_last_is_as_it_is() {
        // Each byte of noise makes a value that lz4 compressed one byte longer, or two.
        let mut noise = std::iter::successors(Some(1_u32), |last| {
            Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
        });
        let mut value = text(1, 700);
        while !compressed(Method::Lz4, &value)
            .len()
            .is_multiple_of(PIECE_LEN)
        {
            value.extend(noise.next().map(|number| (number >> 24) as u8));
        }
        let mut rows = rows_of(7, &compressed(Method::Lz4, &value));
        assert_eq!(round_trip(&rows), value.len());
        let number = rows.len() as u32;
        let numbers = [7, number].map(u32::to_le_bytes).concat();
        rows.push([numbers, long(&[], 0)].concat());
        assert_eq!(round_trip(&rows), 0);
    }

    #[test]
    fn a_piece_that_is_none_is_refused() {
        let mut decoder = CompressedAgain::default();
        let bytes = vec![1; PIECE_LEN + 3];
        decoder.begun.insert(5, Begun { bytes, left: 2 });
        let mut piece = |value: u32, number: u32, at: usize, len: usize| {
            let mut row = [value.to_le_bytes(), number.to_le_bytes()].concat();
            row.resize(len, 0);
            decoder.piece(&mut row, at)
        };
        assert_eq!(piece(6, 0, 8, 3000), None);
        assert_eq!(piece(5, 2, 8, 3000), None);
        assert_eq!(piece(5, u32::MAX, 8, 3000), None);
        assert_eq!(piece(5, 0, 8, 2000), None);
        assert_eq!(piece(5, 0, 7, 3000), None);
        assert_eq!(piece(5, 1, 8, 3000), Some(15));
    }

    #[test]
    fn decodes_the_example_of_the_specification() {
        let mut reader = format_example::reader("model/values.md", "compressed values");
        let choices = reader.open(StreamKind::HeapSchema, 1);
        let mut column = Column::open(&mut reader, choices, Attribute::Varlena, None, None);
        let text = b"a rose is a rose is a rose is a rose";
        let packed = compressed(Method::PglzSigned, text);
        let expected = [b"\x09yes".as_slice(), &long(&packed, IS_COMPRESSED)].concat();
        let mut data = vec![0; expected.len()];
        let end = column.code(&mut reader, &mut data, 0);
        assert_eq!(column.code(&mut reader, &mut data, end), expected.len());
        assert_eq!(data, expected);
        assert!(reader.exhausted() && !reader.failed());
    }
}
