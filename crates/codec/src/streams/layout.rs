//! Reversible layouts of a stream's bytes, chosen stream by stream.
//!
//! A stream has rows of a fixed width. A layout puts the bytes of all rows into an order, or
//! into differences, that zstd packs better. What is left over behind the last whole row goes
//! verbatim to the end.

use super::bins;
use crate::error::{DecodeError, NO_MEMORY};

const MISFIT: DecodeError = DecodeError::Corrupt("layout does not fit its stream");

/// A layout: its number in the directory is its place here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As it is.
    Rows = 0,
    /// All first bytes, all second bytes, and so on.
    Planes = 1,
    /// Little-endian numbers of 2, 4 or 8 bytes as zigzag differences, in planes.
    DeltaPlanes = 2,
    /// Each byte minus the one above it, in planes.
    ByteDeltaPlanes = 3,
    /// Numbers of 1, 2, 4 or 8 bytes in [bins](super::bins).
    Bins = 4,
    /// Zigzag differences of numbers of 2, 4 or 8 bytes in bins.
    DeltaBins = 5,
}

impl Layout {
    /// The layout of a number in the directory.
    pub fn from_id(id: u8) -> Option<Layout> {
        [
            Layout::Rows,
            Layout::Planes,
            Layout::DeltaPlanes,
            Layout::ByteDeltaPlanes,
            Layout::Bins,
            Layout::DeltaBins,
        ]
        .into_iter()
        .find(|layout| *layout as u8 == id)
    }

    /// The layout means something for rows of this width.
    pub fn fits(self, width: usize) -> bool {
        match self {
            Layout::Rows => true,
            Layout::Planes | Layout::ByteDeltaPlanes => width > 1,
            Layout::DeltaPlanes | Layout::DeltaBins => matches!(width, 2 | 4 | 8),
            Layout::Bins => matches!(width, 1 | 2 | 4 | 8),
        }
    }

    /// The stream is coded: it has another length than its rows, and is not for zstd.
    pub fn is_coded(self) -> bool {
        matches!(self, Layout::Bins | Layout::DeltaBins)
    }

    /// Decodes the rows of a coded stream, which are as long as it claims, into `out`.
    pub fn decode(
        self,
        coded: &[u8],
        width: usize,
        scratch: &mut bins::Scratch,
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        if !self.fits(width) {
            return Err(MISFIT);
        }
        bins::decode(coded, width, scratch, out)?;
        if self == Layout::DeltaBins {
            accumulate(out, width);
        }
        Ok(())
    }

    /// Writes `rows` in this layout, which is not coded, to `out`, which is as long.
    pub fn apply(self, rows: &[u8], width: usize, out: &mut [u8]) {
        let whole = rows.len() - rows.len() % width;
        let (body, rest) = rows.split_at(whole);
        let (planes, out_rest) = out.split_at_mut(whole);
        out_rest.copy_from_slice(rest);
        match self {
            Layout::Rows | Layout::Bins | Layout::DeltaBins => planes.copy_from_slice(body),
            Layout::Planes => split_planes(body, width, planes),
            Layout::DeltaPlanes => {
                let deltas = difference(body, width);
                split_planes(&deltas, width, planes);
            }
            Layout::ByteDeltaPlanes => {
                split_planes(body, width, planes);
                for plane in planes.chunks_exact_mut((whole / width).max(1)) {
                    byte_deltas(plane);
                }
            }
        }
    }

    /// [`Layout::undo`] of each block of so many rows.
    pub fn undo_blocks(
        self,
        bytes: &mut [u8],
        width: usize,
        block_rows: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if width == 0 || !self.fits(width) || self.is_coded() {
            return Err(MISFIT);
        }
        let mut blocks = bytes.chunks_mut(block_rows.saturating_mul(width));
        blocks.try_for_each(|block| self.undo(block, width, scratch))
    }

    /// The reverse of [`Layout::apply`], in place; `scratch` is memory to work with.
    fn undo(
        self,
        bytes: &mut [u8],
        width: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if self == Layout::Rows {
            return Ok(());
        }
        let whole = bytes.len() - bytes.len() % width;
        let rows = &mut bytes[..whole];
        scratch.clear();
        scratch.try_reserve(whole).map_err(|_| NO_MEMORY)?;
        scratch.extend_from_slice(rows);
        if self == Layout::ByteDeltaPlanes {
            for plane in scratch.chunks_exact_mut((whole / width).max(1)) {
                byte_sums(plane);
            }
        }
        join_planes(scratch, width, rows);
        if self == Layout::DeltaPlanes {
            accumulate(rows, width);
        }
        Ok(())
    }
}

/// Eight rows of eight bytes as eight columns of eight bytes.
#[inline(always)]
fn transpose(mut block: [u64; 8]) -> [u64; 8] {
    for (low, high) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
        swap_parts(&mut block, low, high, 32, 0x0000_0000_FFFF_FFFF);
    }
    for (low, high) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
        swap_parts(&mut block, low, high, 16, 0x0000_FFFF_0000_FFFF);
    }
    for (low, high) in [(0, 1), (2, 3), (4, 5), (6, 7)] {
        swap_parts(&mut block, low, high, 8, 0x00FF_00FF_00FF_00FF);
    }
    block
}

/// Swaps the upper parts of one word with the lower ones of another.
#[inline(always)]
fn swap_parts(block: &mut [u64; 8], low: usize, high: usize, bits: u32, lower: u64) {
    let swap = (block[low] >> bits ^ block[high]) & lower;
    block[high] ^= swap;
    block[low] ^= swap << bits;
}

/// Rows of a plane in one line of a processor's cache.
const ROWS_OF_A_LINE: usize = 64;

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

/// Rows that are numbers of the processor: the compiler makes vectors of these loops.
macro_rules! number_planes {
    ($type:ty, $split:ident, $join:ident) => {
        fn $split(rows: &[u8], planes: &mut [u8]) {
            let rows = rows.as_chunks::<{ size_of::<$type>() }>().0;
            for (column, plane) in planes.chunks_exact_mut(rows.len().max(1)).enumerate() {
                for (byte, row) in plane.iter_mut().zip(rows) {
                    *byte = (<$type>::from_le_bytes(*row) >> (8 * column)) as u8;
                }
            }
        }

        fn $join(planes: &[u8], rows: &mut [u8]) {
            let rows = rows.as_chunks_mut::<{ size_of::<$type>() }>().0;
            for (column, plane) in planes.chunks_exact(rows.len().max(1)).enumerate() {
                for (byte, row) in plane.iter().zip(rows.iter_mut()) {
                    let before = match column {
                        0 => 0,
                        _ => <$type>::from_le_bytes(*row),
                    };
                    *row = (before | <$type>::from(*byte) << (8 * column)).to_le_bytes();
                }
            }
        }
    };
}

number_planes!(u16, split_planes_of_2, join_planes_of_2);
number_planes!(u32, split_planes_of_4, join_planes_of_4);

fn split_planes(rows: &[u8], width: usize, planes: &mut [u8]) {
    match width {
        2 => return split_planes_of_2(rows, planes),
        4 => return split_planes_of_4(rows, planes),
        _ => {}
    }
    let count = rows.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    let mut columns = planes.chunks_mut(count.max(1) * 8);
    for column in (0..width).step_by(8) {
        let columns = columns.next().unwrap_or_default();
        for row in (0..in_blocks).step_by(8) {
            let mut rows = rows.get(row * width + column..).unwrap_or_default();
            let mut block = [0; 8];
            for place in &mut block {
                *place = word(rows, 0);
                rows = rows.get(width..).unwrap_or_default();
            }
            let planes = columns.chunks_exact_mut(count);
            for (plane, word) in planes.zip(transpose(block)) {
                put_word(plane, row, word);
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
    match width {
        2 => return join_planes_of_2(planes, rows),
        4 => return join_planes_of_4(planes, rows),
        _ => {}
    }
    let count = planes.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    // The cache lines of eight planes are used up before those of the next eight are read: planes of
    // a whole block lie a power of two apart, and all compete for the same places of a cache.
    for tile in (0..in_blocks).step_by(ROWS_OF_A_LINE) {
        let tile_end = in_blocks.min(tile + ROWS_OF_A_LINE);
        // The last columns first: where they are fewer than eight, what is written too much
        // is in places that are written later.
        for column in (0..width).step_by(8).rev() {
            for row in (tile..tile_end).step_by(8) {
                let mut block = [0; 8];
                for (place, plane) in block.iter_mut().zip(column..width) {
                    *place = word(planes, plane * count + row);
                }
                let block = transpose(block);
                for (n, word) in block.into_iter().enumerate() {
                    put_word(rows, (row + n) * width + column, word);
                }
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

fn byte_sums(plane: &mut [u8]) {
    let mut sum = 0u8;
    for byte in plane {
        sum = sum.wrapping_add(*byte);
        *byte = sum;
    }
}

macro_rules! numeric {
    ($type:ty, $signed:ty, $rows:expr, $each:expr) => {{
        let each = $each;
        let mut last: $type = 0;
        for chunk in $rows.as_chunks_mut::<{ size_of::<$type>() }>().0 {
            let (next, written): ($type, $type) = each(<$type>::from_le_bytes(*chunk), last);
            last = next;
            *chunk = written.to_le_bytes();
        }
    }};
}

macro_rules! zigzag_delta {
    ($type:ty, $signed:ty, $rows:expr) => {
        numeric!($type, $signed, $rows, |value: $type, last: $type| {
            let delta = value.wrapping_sub(last) as $signed;
            (
                value,
                ((delta << 1) ^ (delta >> (<$type>::BITS - 1))) as $type,
            )
        })
    };
}

macro_rules! zigzag_sum {
    ($type:ty, $signed:ty, $rows:expr) => {
        numeric!($type, $signed, $rows, |code: $type, last: $type| {
            let delta = (code >> 1) ^ (0 as $type).wrapping_sub(code & 1);
            let value = last.wrapping_add(delta);
            (value, value)
        })
    };
}

/// Numbers as their zigzag differences.
pub fn difference(rows: &[u8], width: usize) -> Vec<u8> {
    let mut rows = rows.to_vec();
    match width {
        2 => zigzag_delta!(u16, i16, rows),
        4 => zigzag_delta!(u32, i32, rows),
        _ => zigzag_delta!(u64, i64, rows),
    }
    rows
}

fn accumulate(rows: &mut [u8], width: usize) {
    match width {
        2 => zigzag_sum!(u16, i16, rows),
        4 => zigzag_sum!(u32, i32, rows),
        _ => zigzag_sum!(u64, i64, rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn undoes_what_it_applied(bytes in proptest::collection::vec(any::<u8>(), 0..2000), width in 1usize..40) {
            for layout in (0..=u8::MAX).filter_map(Layout::from_id) {
                if !layout.fits(width) || layout.is_coded() {
                    continue;
                }
                let mut laid = vec![0; bytes.len()];
                layout.apply(&bytes, width, &mut laid);
                layout.undo(&mut laid, width, &mut Vec::new()).unwrap();
                prop_assert_eq!(&laid, &bytes);
            }
        }
    }

    #[test]
    fn refuses_a_width_that_does_not_fit() {
        let undo = |layout: Layout, width| {
            layout.undo_blocks(&mut [0; 6], width, usize::MAX, &mut Vec::new())
        };
        assert!(undo(Layout::DeltaPlanes, 3).is_err());
        assert!(undo(Layout::Rows, 0).is_err());
    }

    #[test]
    fn lays_out_the_example_of_the_specification() {
        let examples = format_example::rows("streams.md", "layouts");
        let (_, rows) = &examples[0];
        assert_eq!(examples.len(), 4);
        for (id, (name, bytes)) in (0..).zip(&examples) {
            let layout = Layout::from_id(id).expect(name);
            let mut laid = vec![0; rows.len()];
            layout.apply(rows, 2, &mut laid);
            assert_eq!(&laid, bytes, "{name}");
            layout.undo(&mut laid, 2, &mut Vec::new()).expect(name);
            assert_eq!(&laid, rows, "{name}");
        }
    }
}
