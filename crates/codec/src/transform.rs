//! Reversible layouts of a stream's bytes, chosen stream by stream.
//!
//! A stream has rows of a fixed width. A layout puts the bytes of all rows into an order, or
//! into differences, that zstd packs better. What is left over behind the last whole row goes
//! verbatim to the end.

use crate::error::DecodeError;

/// What becomes of a word of each row before its bytes go to their planes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WordMode {
    /// Nothing.
    #[default]
    Same = 0,
    /// It is a little-endian number, and its zigzag difference to the row above is taken.
    Delta = 1,
    /// Each byte minus the one above it.
    ByteDelta = 2,
}

impl WordMode {
    /// Every mode, in the order of their numbers.
    pub const ALL: [WordMode; 3] = [WordMode::Same, WordMode::Delta, WordMode::ByteDelta];
}

/// Words of a row that have modes of their own.
pub const WORDS_MAX: usize = 4;
/// The first number of a layout in words of eight bytes, and of one in words of four.
const FIRST_OF_WORDS: [(usize, u8); 2] = [(8, 4), (4, 85)];
/// Combinations of modes.
const COMBINATIONS: u8 = 81;

/// A layout; [`Layout::id`] is its number in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As it is.
    Rows,
    /// All first bytes, all second bytes, and so on.
    Planes,
    /// Little-endian numbers of 2, 4 or 8 bytes as zigzag differences, in planes.
    DeltaPlanes,
    /// Each byte minus the one above it, in planes.
    ByteDeltaPlanes,
    /// Planes, behind what each word's mode does.
    Words {
        /// Bytes of a word: 8 or 4.
        len: usize,
        /// The modes of a row's words, the first one first.
        modes: [WordMode; WORDS_MAX],
    },
}

impl Layout {
    /// The layout of a number in the directory.
    pub fn from_id(id: u8) -> Option<Layout> {
        match id {
            0 => return Some(Layout::Rows),
            1 => return Some(Layout::Planes),
            2 => return Some(Layout::DeltaPlanes),
            3 => return Some(Layout::ByteDeltaPlanes),
            _ => {}
        }
        for (len, first) in FIRST_OF_WORDS {
            let Some(mut digits) = id.checked_sub(first).filter(|&id| id < COMBINATIONS) else {
                continue;
            };
            let modes = std::array::from_fn(|_| {
                let mode = WordMode::ALL[usize::from(digits % 3)];
                digits /= 3;
                mode
            });
            return Some(Layout::Words { len, modes });
        }
        None
    }

    /// The number of the layout in the directory: the modes of words are digits to the base 3,
    /// the first one the lowest.
    pub fn id(self) -> u8 {
        match self {
            Layout::Rows => 0,
            Layout::Planes => 1,
            Layout::DeltaPlanes => 2,
            Layout::ByteDeltaPlanes => 3,
            Layout::Words { len, modes } => {
                let digits = modes.iter().rev();
                let number = digits.fold(0, |number, &mode| number * 3 + mode as u8);
                let [(_, of_eight), (_, of_four)] = FIRST_OF_WORDS;
                number + if len == 8 { of_eight } else { of_four }
            }
        }
    }

    /// The layout means something for rows of this width.
    pub fn fits(self, width: usize) -> bool {
        match self {
            Layout::Rows => true,
            Layout::Planes | Layout::ByteDeltaPlanes => width > 1,
            Layout::DeltaPlanes => matches!(width, 2 | 4 | 8),
            Layout::Words { len, .. } => has_words(width, len),
        }
    }

    /// Appends `rows` in this layout to `out`.
    pub fn apply(self, rows: &[u8], width: usize, out: &mut Vec<u8>) {
        let whole = rows.len() - rows.len() % width;
        let (body, rest) = rows.split_at(whole);
        let start = out.len();
        out.resize(start + whole, 0);
        let planes = &mut out[start..];
        match self {
            Layout::Rows => planes.copy_from_slice(body),
            Layout::Planes => split_planes(body, width, planes),
            Layout::DeltaPlanes => {
                let mut deltas = body.to_vec();
                difference(&mut deltas, width, 0, width);
                split_planes(&deltas, width, planes);
            }
            Layout::ByteDeltaPlanes => {
                split_planes(body, width, planes);
                for plane in planes.chunks_exact_mut((whole / width).max(1)) {
                    byte_deltas(plane);
                }
            }
            Layout::Words { len, modes } => {
                let mut deltas = body.to_vec();
                for (at, mode) in words(width, len, modes) {
                    if mode == WordMode::Delta {
                        difference(&mut deltas, width, at, len);
                    }
                }
                split_planes(&deltas, width, planes);
                let count = whole / width;
                for (at, mode) in words(width, len, modes) {
                    if mode == WordMode::ByteDelta {
                        let planes = &mut planes[at * count..(at + len) * count];
                        planes.chunks_exact_mut(count.max(1)).for_each(byte_deltas);
                    }
                }
            }
        }
        out.extend_from_slice(rest);
    }

    /// The reverse of [`Layout::apply`], in place; `scratch` is memory to work with.
    pub fn undo(
        self,
        bytes: &mut [u8],
        width: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if width == 0 || !self.fits(width) {
            return Err(DecodeError::Corrupt("layout does not fit its stream"));
        }
        if self == Layout::Rows {
            return Ok(());
        }
        let whole = bytes.len() - bytes.len() % width;
        let rows = &mut bytes[..whole];
        scratch.clear();
        scratch
            .try_reserve(whole)
            .map_err(|_| DecodeError::Corrupt("more content than there is memory for"))?;
        scratch.extend_from_slice(rows);
        join_planes(scratch, width, rows);
        match self {
            Layout::Rows | Layout::Planes => {}
            Layout::DeltaPlanes => accumulate(rows, width, 0, width),
            Layout::ByteDeltaPlanes => accumulate_bytes(rows, width, 0, width),
            Layout::Words { len, modes } => {
                for (at, mode) in words(width, len, modes) {
                    match mode {
                        WordMode::Same => {}
                        WordMode::Delta => accumulate(rows, width, at, len),
                        WordMode::ByteDelta => accumulate_bytes(rows, width, at, len),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Rows of this width consist of so few words that each can have a mode.
pub fn has_words(width: usize, len: usize) -> bool {
    width > len && width.is_multiple_of(len) && width / len <= WORDS_MAX
}

/// Where each word of a row begins, and its mode.
fn words(
    width: usize,
    len: usize,
    modes: [WordMode; WORDS_MAX],
) -> impl Iterator<Item = (usize, WordMode)> {
    (0..width).step_by(len).zip(modes)
}

/// Eight rows of eight bytes as eight columns of eight bytes.
#[inline]
fn transpose(block: &mut [u64; 8]) {
    const STEPS: [(usize, u64); 3] = [
        (4, 0x0000_0000_FFFF_FFFF),
        (2, 0x0000_FFFF_0000_FFFF),
        (1, 0x00FF_00FF_00FF_00FF),
    ];
    for (distance, mask) in STEPS {
        for low in (0..8).filter(|low| low & distance == 0) {
            let high = low + distance;
            let swap = (block[low] >> (8 * distance) ^ block[high]) & mask;
            block[high] ^= swap;
            block[low] ^= swap << (8 * distance);
        }
    }
}

/// Rows that go in blocks of eight: those behind which eight more bytes may be touched.
fn rows_in_blocks(len: usize, width: usize) -> usize {
    (len.saturating_sub(8) / width) & !7
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline]
fn put_word(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes
        .get_mut(at..)
        .and_then(|bytes| bytes.first_chunk_mut())
    {
        *place = word.to_le_bytes();
    }
}

fn split_planes(rows: &[u8], width: usize, planes: &mut [u8]) {
    let count = rows.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    for row in (0..in_blocks).step_by(8) {
        for column in (0..width).step_by(8) {
            let mut block = std::array::from_fn(|n| word(rows, (row + n) * width + column));
            transpose(&mut block);
            for (n, word) in block.iter().enumerate().take(width - column) {
                put_word(planes, (column + n) * count + row, *word);
            }
        }
    }
    for row in in_blocks..count {
        for column in 0..width {
            planes[column * count + row] = rows[row * width + column];
        }
    }
}

fn join_planes(planes: &[u8], width: usize, rows: &mut [u8]) {
    let count = planes.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    for row in (0..in_blocks).step_by(8) {
        // The last columns first: where they are fewer than eight, what is written too much
        // is in places that are written later.
        for column in (0..width).step_by(8).rev() {
            let mut block = std::array::from_fn(|n| match column + n {
                plane if plane < width => word(planes, plane * count + row),
                _ => 0,
            });
            transpose(&mut block);
            for (n, word) in block.iter().enumerate() {
                put_word(rows, (row + n) * width + column, *word);
            }
        }
    }
    for row in in_blocks..count {
        for column in 0..width {
            rows[row * width + column] = planes[column * count + row];
        }
    }
}

fn byte_deltas(plane: &mut [u8]) {
    let mut last = 0;
    for byte in plane {
        (last, *byte) = (*byte, byte.wrapping_sub(last));
    }
}

/// Runs over the numbers of `$len` bytes at `$at` in each row: `$each` makes of a number and
/// the last one what is to be written, and what is the last one then.
macro_rules! numbers {
    ($type:ty, $rows:expr, $width:expr, $at:expr, $each:expr) => {{
        let each = $each;
        let mut last: $type = 0;
        for row in $rows.chunks_exact_mut($width) {
            if let Some(bytes) = row.get_mut($at..).and_then(<[u8]>::first_chunk_mut) {
                let written: $type = each(<$type>::from_le_bytes(*bytes), &mut last);
                *bytes = written.to_le_bytes();
            }
        }
    }};
}

macro_rules! zigzag_delta {
    ($type:ty, $signed:ty, $rows:expr, $width:expr, $at:expr) => {
        numbers!(
            $type,
            $rows,
            $width,
            $at,
            |value: $type, last: &mut $type| {
                let delta = value.wrapping_sub(*last) as $signed;
                *last = value;
                ((delta << 1) ^ (delta >> (<$type>::BITS - 1))) as $type
            }
        )
    };
}

macro_rules! zigzag_sum {
    ($type:ty, $rows:expr, $width:expr, $at:expr) => {
        numbers!(
            $type,
            $rows,
            $width,
            $at,
            |code: $type, last: &mut $type| {
                let delta = (code >> 1) ^ (0 as $type).wrapping_sub(code & 1);
                *last = last.wrapping_add(delta);
                *last
            }
        )
    };
}

fn difference(rows: &mut [u8], width: usize, at: usize, len: usize) {
    match len {
        2 => zigzag_delta!(u16, i16, rows, width, at),
        4 => zigzag_delta!(u32, i32, rows, width, at),
        _ => zigzag_delta!(u64, i64, rows, width, at),
    }
}

fn accumulate(rows: &mut [u8], width: usize, at: usize, len: usize) {
    match len {
        2 => zigzag_sum!(u16, rows, width, at),
        4 => zigzag_sum!(u32, rows, width, at),
        _ => zigzag_sum!(u64, rows, width, at),
    }
}

/// Adds to each byte of a word the one above it.
fn accumulate_bytes(rows: &mut [u8], width: usize, at: usize, len: usize) {
    let mut start = width;
    while start < rows.len() {
        for place in start + at..start + at + len {
            rows[place] = rows[place].wrapping_add(rows[place - width]);
        }
        start += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn undoes_what_it_applied(bytes in proptest::collection::vec(any::<u8>(), 0..600), width in 1usize..40) {
            for layout in (0..=u8::MAX).filter_map(Layout::from_id) {
                if !layout.fits(width) {
                    continue;
                }
                let mut laid = Vec::new();
                layout.apply(&bytes, width, &mut laid);
                layout.undo(&mut laid, width, &mut Vec::new()).unwrap();
                prop_assert_eq!(&laid, &bytes);
            }
        }
    }

    #[test]
    fn every_number_is_of_one_layout() {
        for id in 0..=165 {
            assert_eq!(Layout::from_id(id).map(Layout::id), Some(id));
        }
        assert_eq!(Layout::from_id(166), None);
    }

    #[test]
    fn refuses_a_width_that_does_not_fit() {
        let undo = |layout: Layout, width| layout.undo(&mut [0; 6], width, &mut Vec::new());
        assert!(undo(Layout::DeltaPlanes, 3).is_err());
        assert!(undo(Layout::Rows, 0).is_err());
    }
}
