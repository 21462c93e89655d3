//! The contexts of each byte: the bytes of its stream on which its prediction depends.
//!
//! Streams in rows are coded byte by byte. Of streams in planes the last plane is coded first, so
//! that the upper bytes of a number are known before its lower ones.

use super::arithmetic::BitCoder;
use super::byte_model::{ByteModel, Situation};
use super::chance::{Chance, Rates};
use super::hash;
use crate::streams::directory::Extent;
use crate::streams::kind::StreamKind;
use crate::streams::layout::Layout;

/// How a plane is coded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaneMode {
    Mixed,
    /// All bytes are equal.
    Constant,
    /// Bytes that are not guessed are coded as they are.
    Noise,
}

/// Maximum distance of a companion, in streams.
const COMPANION_DISTANCE_MAX: usize = 16;
/// Minimum number of rows of a companion.
const COMPANION_ROWS_MIN: usize = 65;
/// Maximum count of the chances of modes.
const MODE_SEEN_MAX: u32 = 60;

/// The model of all streams.
pub struct StreamModel {
    bytes: ByteModel,
    rates: Rates,
    /// The chances that a plane is constant, and that it is noise, by the mode of the plane before.
    modes: [[Chance; 2]; 3],
    mode: PlaneMode,
}

/// The plane or stream of a byte.
struct Column<'c> {
    kind: StreamKind,
    /// Hash of the stream and the column.
    hash: u32,
    /// A byte of the companion for each row; empty if there is no companion.
    companion: &'c [u8],
}

impl StreamModel {
    /// The initial state. `history` is empty and has the capacity for all mixed bytes.
    pub fn new(history: Vec<u8>) -> StreamModel {
        StreamModel {
            bytes: ByteModel::new(history),
            rates: Rates::new(),
            modes: [[Chance::EVEN; 2]; 3],
            mode: PlaneMode::Mixed,
        }
    }

    /// Codes the stream with this number. `content` ends with it. The streams before it are known.
    pub fn code<C: BitCoder>(
        &mut self,
        coder: &mut C,
        extents: &[Extent],
        number: usize,
        content: &mut [u8],
    ) {
        let Some(extent) = extents.get(number) else {
            return;
        };
        let Some((before, stream)) = content.split_at_mut_checked(extent.start) else {
            return;
        };
        let companion = Companion::of(extents, number, before);
        if extent.layout == Layout::Rows {
            let column = Column {
                kind: extent.kind,
                hash: number as u32 + 1,
                companion: companion.rows(0, extent.rows()),
            };
            if extent.width == 1 {
                self.code_text(coder, &column, stream);
            } else {
                self.code_rows(coder, &column, extent.width, stream);
            }
            return;
        }
        let (mut left, rest) = stream.split_at_mut(extent.rows() * extent.width);
        let mut first_row = 0;
        loop {
            let rows = extent.block_rows.min(left.len() / extent.width.max(1));
            let (planes, others) = left.split_at_mut(rows * extent.width);
            let companion = companion.rows(first_row, rows);
            self.code_planes(coder, extent, number, companion, planes);
            first_row += rows;
            left = others;
            if left.is_empty() {
                break;
            }
        }
        let column = Column {
            kind: extent.kind,
            hash: number as u32 + 1,
            companion: &[],
        };
        self.code_text(coder, &column, rest);
    }

    /// Codes the planes of a block of rows, the last one first.
    fn code_planes<C: BitCoder>(
        &mut self,
        coder: &mut C,
        extent: &Extent,
        number: usize,
        companion: &[u8],
        planes: &mut [u8],
    ) {
        let rows = planes.len() / extent.width.max(1);
        for plane in (0..extent.width).rev() {
            let column = Column {
                kind: extent.kind,
                hash: hash(number as u32 + 1, plane as u32, 0x51),
                companion,
            };
            let (known, above) = planes.split_at_mut((plane + 1) * rows);
            if let Some(known) = known.get_mut(plane * rows..) {
                self.code_plane(coder, &column, known, above);
            }
        }
    }

    fn code_plane<C: BitCoder>(
        &mut self,
        coder: &mut C,
        column: &Column<'_>,
        plane: &mut [u8],
        above: &[u8],
    ) {
        self.mode = self.code_mode(coder, plane);
        match self.mode {
            PlaneMode::Constant => {
                if let Some(&first) = plane.first() {
                    plane.fill(coder.even_byte(first));
                }
                return;
            }
            PlaneMode::Mixed | PlaneMode::Noise => {}
        }
        self.bytes.interrupt();
        let rows = plane.len();
        let (beside, beyond) = above.split_at(rows.min(above.len()));
        let mut recent = 0u64;
        let mut neighbours = Neighbours::new(beside);
        let is_noise = self.mode == PlaneMode::Noise;
        let situation = |row: usize, recent: u64, [before, next_to, after]: [u32; 3]| {
            let further = at(beyond, row);
            let companion = at(column.companion, row);
            let [a, b, c, ..] = recent.to_le_bytes().map(u32::from);
            Situation {
                contexts: [
                    hash(column.hash, a, 1),
                    hash(column.hash, a | next_to << 8, 2),
                    hash(column.hash, next_to | further << 8, 3),
                    hash(column.hash, a | b << 8 | c << 16, 4),
                    hash(
                        column.hash,
                        a | next_to << 8 | before << 16 | after << 24,
                        5,
                    ),
                    hash(column.hash, companion | next_to << 8, 6),
                ],
                kind: column.kind as u8,
                column: column.hash,
                recent,
                is_noise,
            }
        };
        let mut around = neighbours.step(beside, 0);
        for row in 0..rows {
            let Some(byte) = plane.get(row).copied() else {
                return;
            };
            let now = situation(row, recent, around);
            around = neighbours.step(beside, row + 1);
            if C::ENCODING
                && let Some(&next) = plane.get(row + 1)
            {
                let recent = recent << 8 | u64::from(byte);
                self.bytes.expect(next, &situation(row + 1, recent, around));
            }
            let byte = self.bytes.code(coder, byte, &now);
            if let Some(target) = plane.get_mut(row) {
                *target = byte;
            }
            recent = recent << 8 | u64::from(byte);
        }
    }

    /// Codes rows of more than one byte.
    fn code_rows<C: BitCoder>(
        &mut self,
        coder: &mut C,
        column: &Column<'_>,
        width: usize,
        stream: &mut [u8],
    ) {
        self.bytes.interrupt();
        let mut recent = 0u64;
        let mut index = 0;
        for row_at in 0..stream.len() {
            let (known, rest) = stream.split_at_mut(row_at);
            let Some(byte) = rest.first_mut() else {
                return;
            };
            let back = |distance: usize| match known.len().checked_sub(distance) {
                Some(offset) => at(known, offset),
                None => 0,
            };
            let (above, twice_above, above_next) = (back(width), back(2 * width), back(width - 1));
            let [a, b, c, ..] = recent.to_le_bytes().map(u32::from);
            let key = hash(column.hash, index, 0x51);
            let situation = Situation {
                contexts: [
                    hash(key, above, 1),
                    hash(key, above | a << 8, 2),
                    hash(key, a | b << 8, 3),
                    hash(key, above | twice_above << 8 | above_next << 16, 4),
                    hash(key, a | b << 8 | c << 16, 5),
                    hash(key, above | a << 8 | b << 16, 6),
                ],
                kind: column.kind as u8,
                column: key,
                recent,
                is_noise: false,
            };
            *byte = self.bytes.code(coder, *byte, &situation);
            recent = recent << 8 | u64::from(*byte);
            index = if index as usize + 1 == width {
                0
            } else {
                index + 1
            };
        }
    }

    /// Codes a stream of single bytes, or the bytes after the last whole row.
    fn code_text<C: BitCoder>(&mut self, coder: &mut C, column: &Column<'_>, stream: &mut [u8]) {
        self.bytes.interrupt();
        let mut recent = 0u64;
        let mut word = 0u32;
        let key = hash(column.hash, 0, 0x51);
        let situation = |row: usize, recent: u64, word: u32| {
            let last = recent as u32;
            let companion = at(column.companion, row);
            Situation {
                contexts: [
                    hash(last & 0xFF, column.hash, 2),
                    hash(last & 0xFFFF, column.hash, 3),
                    hash(last & 0xFF_FFFF, column.hash, 4),
                    hash(last, 0, 5),
                    hash(last, (recent >> 32) as u32 & 0xFFFF, 6),
                    hash(companion | last << 8 & 0xFF00, column.hash ^ word, 7),
                ],
                kind: column.kind as u8,
                column: key,
                recent,
                is_noise: false,
            }
        };
        for row in 0..stream.len() {
            let Some(byte) = stream.get(row).copied() else {
                return;
            };
            let now = situation(row, recent, word);
            if C::ENCODING
                && let Some(&next) = stream.get(row + 1)
            {
                let recent = recent << 8 | u64::from(byte);
                let next_situation = situation(row + 1, recent, word_after(word, byte));
                self.bytes.expect(next, &next_situation);
            }
            let byte = self.bytes.code(coder, byte, &now);
            if let Some(target) = stream.get_mut(row) {
                *target = byte;
            }
            recent = recent << 8 | u64::from(byte);
            word = word_after(word, byte);
        }
    }

    fn code_mode<C: BitCoder>(&mut self, coder: &mut C, plane: &[u8]) -> PlaneMode {
        let known = if C::ENCODING {
            mode_of(plane)
        } else {
            PlaneMode::Mixed
        };
        let Some([constant, noise]) = self.modes.get_mut(self.mode as usize) else {
            return PlaneMode::Mixed;
        };
        let mut flag = |chance: &mut Chance, value: bool| {
            let bit = coder.bit(chance.bits_16().clamp(1, 65535), value.into());
            chance.learn(bit, &self.rates, MODE_SEEN_MAX);
            bit == 1
        };
        if flag(constant, known == PlaneMode::Constant) {
            PlaneMode::Constant
        } else if flag(noise, known == PlaneMode::Noise) {
            PlaneMode::Noise
        } else {
            PlaneMode::Mixed
        }
    }
}

/// An earlier stream with the same number of rows. For each block of rows, its first bytes are a
/// context of the rows of that block.
struct Companion<'c> {
    stream: &'c [u8],
    width: usize,
}

impl<'c> Companion<'c> {
    fn of(extents: &[Extent], number: usize, content: &'c [u8]) -> Companion<'c> {
        let found = extents.get(number).and_then(|extent| {
            let rows = extent.rows();
            let before = extents.get(..number)?.iter().rev();
            before
                .take(COMPANION_DISTANCE_MAX)
                .find(|extent| extent.rows() == rows && rows >= COMPANION_ROWS_MIN)
        });
        let stream = found.and_then(|extent| content.get(extent.start..));
        Companion {
            stream: stream.unwrap_or(&[]),
            width: found.map_or(1, |extent| extent.width),
        }
    }

    /// The bytes for a block of `rows` rows.
    fn rows(&self, first_row: usize, rows: usize) -> &'c [u8] {
        let block = self.stream.get(first_row * self.width..);
        block.and_then(|block| block.get(..rows)).unwrap_or(&[])
    }
}

/// Number of bytes of a stream that are noise.
pub fn noise_len(content: &[u8], extent: &Extent) -> usize {
    if extent.layout == Layout::Rows {
        return 0;
    }
    let planes_end = extent.start + extent.rows() * extent.width;
    let planes = content.get(extent.start..planes_end).unwrap_or(&[]);
    let blocks = planes.chunks(extent.block_rows.saturating_mul(extent.width).max(1));
    let noise = blocks.map(|block| {
        let rows = block.len() / extent.width;
        let planes = block.chunks_exact(rows.max(1));
        planes
            .filter(|plane| mode_of(plane) == PlaneMode::Noise)
            .count()
            * rows
    });
    noise.sum()
}

/// The encoder's choice of a plane's mode.
fn mode_of(plane: &[u8]) -> PlaneMode {
    /// Minimum length of a plane of noise.
    const NOISE_LEN_MIN: usize = 4096;
    let Some((first, rest)) = plane.split_first() else {
        return PlaneMode::Constant;
    };
    if rest.iter().all(|byte| byte == first) {
        return PlaneMode::Constant;
    }
    if plane.len() < NOISE_LEN_MIN {
        return PlaneMode::Mixed;
    }
    let mut counts = [0u64; 256];
    for &byte in plane {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    // Uniformly distributed bytes have a sum of squares of len * len / 256, plus about len.
    let squares: u64 = counts.iter().map(|count| count * count).sum();
    let len = plane.len() as u64;
    if squares * 256 < len * len + len * len / 8 + 256 * len {
        PlaneMode::Noise
    } else {
        PlaneMode::Mixed
    }
}

/// The hash of the word up to `byte`; 0 if `byte` is no letter.
#[inline(always)]
fn word_after(word: u32, byte: u8) -> u32 {
    match byte.is_ascii_alphabetic() {
        true => word
            .wrapping_add(u32::from(byte) + 1)
            .wrapping_mul(0x2F0B_4C47),
        false => 0,
    }
}

/// The byte at an offset, 0 beyond the end.
#[inline(always)]
fn at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset).map_or(0, |byte| u32::from(*byte))
}

/// Reads the bytes of the next higher plane for the row before, this row, and the next one.
struct Neighbours {
    next_to: u32,
    after: u32,
}

impl Neighbours {
    fn new(beside: &[u8]) -> Neighbours {
        Neighbours {
            next_to: 0,
            after: at(beside, 0),
        }
    }

    #[inline(always)]
    fn step(&mut self, beside: &[u8], row: usize) -> [u32; 3] {
        let before = self.next_to;
        self.next_to = self.after;
        self.after = at(beside, row + 1);
        [before, self.next_to, self.after]
    }
}
