//! Reversible layouts of a stream's bytes, chosen stream by stream.
//!
//! A stream has rows of a fixed width. A layout puts the bytes of all rows into an order, or
//! into differences, that zstd packs better. What is left over behind the last whole row goes
//! verbatim to the end.

use crate::error::{DecodeError, NO_MEMORY};

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
}

impl Layout {
    /// The layout of a number in the directory.
    pub fn from_id(id: u8) -> Option<Layout> {
        [
            Layout::Rows,
            Layout::Planes,
            Layout::DeltaPlanes,
            Layout::ByteDeltaPlanes,
        ]
        .into_iter()
        .find(|layout| *layout as u8 == id)
    }

    /// The layout means something for rows of this width.
    pub fn fits(self, width: usize) -> bool {
        match self {
            Layout::Rows => true,
            Layout::Planes | Layout::ByteDeltaPlanes => width > 1,
            Layout::DeltaPlanes => matches!(width, 2 | 4 | 8),
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
        scratch.try_reserve(whole).map_err(|_| NO_MEMORY)?;
        scratch.extend_from_slice(rows);
        join_planes(scratch, width, rows);
        match self {
            Layout::Rows | Layout::Planes => {}
            Layout::DeltaPlanes => accumulate(rows, width),
            Layout::ByteDeltaPlanes => {
                for at in width..rows.len() {
                    rows[at] = rows[at].wrapping_add(rows[at - width]);
                }
            }
        }
        Ok(())
    }
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

/// The planes of rows of a width that the compiler knows.
fn planes_of<const WIDTH: usize>(planes: &[u8], count: usize) -> [&[u8]; WIDTH] {
    let mut parts = [&planes[..0]; WIDTH];
    for (part, plane) in parts.iter_mut().zip(planes.chunks_exact(count.max(1))) {
        *part = &plane[..count];
    }
    parts
}

fn split_numbers<const WIDTH: usize>(rows: &[u8], planes: &mut [u8]) {
    let rows = rows.as_chunks::<WIDTH>().0;
    for (column, plane) in planes.chunks_exact_mut(rows.len().max(1)).enumerate() {
        for (byte, row) in plane.iter_mut().zip(rows) {
            *byte = row[column % WIDTH];
        }
    }
}

fn join_numbers<const WIDTH: usize>(planes: &[u8], rows: &mut [u8]) {
    let rows = rows.as_chunks_mut::<WIDTH>().0;
    let planes = planes_of::<WIDTH>(planes, rows.len());
    for (number, row) in rows.iter_mut().enumerate() {
        for (byte, plane) in row.iter_mut().zip(planes) {
            *byte = plane[number];
        }
    }
}

fn split_planes(rows: &[u8], width: usize, planes: &mut [u8]) {
    match width {
        2 => return split_numbers::<2>(rows, planes),
        4 => return split_numbers::<4>(rows, planes),
        _ => {}
    }
    let count = rows.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    for row in (0..in_blocks).step_by(8) {
        for column in (0..width).step_by(8) {
            let mut block = [0; 8];
            for (n, place) in block.iter_mut().enumerate() {
                *place = word(rows, (row + n) * width + column);
            }
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
    match width {
        2 => return join_numbers::<2>(planes, rows),
        4 => return join_numbers::<4>(planes, rows),
        _ => {}
    }
    let count = planes.len() / width;
    let in_blocks = rows_in_blocks(rows.len(), width);
    for row in (0..in_blocks).step_by(8) {
        // The last columns first: where they are fewer than eight, what is written too much
        // is in places that are written later.
        for column in (0..width).step_by(8).rev() {
            let mut block = [0; 8];
            for (place, plane) in block.iter_mut().zip(column..width) {
                *place = word(planes, plane * count + row);
            }
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

fn difference(rows: &[u8], width: usize) -> Vec<u8> {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn undoes_what_it_applied(bytes in proptest::collection::vec(any::<u8>(), 0..2000), width in 1usize..40) {
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
    fn refuses_a_width_that_does_not_fit() {
        let undo = |layout: Layout, width| layout.undo(&mut [0; 6], width, &mut Vec::new());
        assert!(undo(Layout::DeltaPlanes, 3).is_err());
        assert!(undo(Layout::Rows, 0).is_err());
    }
}
