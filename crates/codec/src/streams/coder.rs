//! One description of each model, run in both directions.
//!
//! A model is a function over a [`Coder`] and a slice. The encoder's slice holds the bytes,
//! and the coder appends each field to its stream. The decoder's slice is empty, and the same
//! call takes the field from its stream and puts it into the slice. So a model may look at
//! whatever of the slice it has already coded, and both directions see the same.

use crate::format_version::FormatVersion;
use crate::optional_model::{ModelSet, OptionalModel};
use crate::streams::kind::StreamKind;

/// A stream, as a place in the coder's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId(pub u32);

/// A stream that is opened when it is first used.
#[derive(Clone, Copy, Debug, Default)]
pub struct LazyStream(Option<StreamId>);

impl LazyStream {
    /// The stream, opened if it was not.
    #[inline]
    pub fn open<C: Coder>(&mut self, coder: &mut C, kind: StreamKind, width: usize) -> StreamId {
        match self.0 {
            Some(stream) => stream,
            None => {
                let stream = coder.open(kind, width);
                self.0 = Some(stream);
                stream
            }
        }
    }
}

/// How much time the encoder takes for its choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Care {
    /// Little: it looks at small samples, and decides for small streams of a kind at once.
    Quick,
    /// As much as choices are worth.
    #[default]
    Full,
}

/// How it is proven that what is left out comes back: checksums of records, and images which the
/// server compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Each by itself.
    #[default]
    Each,
    /// The member will be decoded and compared: checksums are taken for right, and what was true
    /// of the images before for granted, since the member is not used where it is not.
    Later,
    /// The same, and of two compressors that make the same of most pages the other one is likely.
    LaterByOther,
}

/// How the encoder chooses. The decoder is told what was chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices {
    /// How carefully.
    pub care: Care,
    /// Models that are not used.
    pub without: ModelSet,
    /// How what is left out is proven.
    pub proof: Proof,
}

impl Choices {
    /// The model may be used.
    pub fn uses(self, model: OptionalModel) -> bool {
        !self.without.has(model)
    }
}

/// Either direction. See the module's documentation.
pub trait Coder {
    /// The slices hold the bytes already.
    const ENCODING: bool;

    /// How the encoder chooses.
    fn choices(&self) -> Choices {
        Choices::default()
    }

    /// The version of the format that the streams are in.
    fn format(&self) -> FormatVersion {
        FormatVersion::CURRENT
    }

    /// Bytes of all streams together, where they are known.
    fn content_len(&self) -> usize {
        usize::MAX
    }

    /// Counts what lists of a column take in memory: `false` where they are too many.
    fn take_list(&mut self, cost: usize) -> bool;

    /// Counts the bytes of a value that the server has compressed: `false` where they are too many.
    fn take_apart(&mut self, len: usize) -> bool;

    /// Opens the next stream of a kind, with rows of `width` bytes.
    fn open(&mut self, kind: StreamKind, width: usize) -> StreamId;

    /// Codes one byte: the encoder returns `value`, the decoder what the encoder was given.
    fn u8(&mut self, stream: StreamId, value: u8) -> u8;
    /// As [`Coder::u8`].
    fn u16(&mut self, stream: StreamId, value: u16) -> u16;
    /// As [`Coder::u8`].
    fn u32(&mut self, stream: StreamId, value: u32) -> u32;
    /// As [`Coder::u8`].
    fn u64(&mut self, stream: StreamId, value: u64) -> u64;
    /// Codes all bytes of a slice.
    fn bytes(&mut self, stream: StreamId, bytes: &mut [u8]);

    /// Codes numbers that stand one after the other in the stream.
    fn u16s(&mut self, stream: StreamId, values: &mut [u16]) {
        for value in values {
            *value = self.u16(stream, *value);
        }
    }

    /// As [`Coder::u16s`].
    fn u32s(&mut self, stream: StreamId, values: &mut [u32]) {
        for value in values {
            *value = self.u32(stream, *value);
        }
    }

    /// Codes the `N` bytes that stand `at` bytes after each of the starts in the slice.
    fn column<const N: usize>(
        &mut self,
        stream: StreamId,
        bytes: &mut [u8],
        starts: &[usize],
        at: usize,
    ) {
        for &start in starts {
            let row = self.part(bytes, start + at, start + at + N);
            self.bytes(stream, row);
        }
    }

    /// The decoder has found what no encoder writes, or the encoder what the format cannot
    /// say; it goes on, with zeros or in vain, until it is asked.
    fn fail(&mut self);
    /// [`Coder::fail`] was called, or a stream ended early, or there are too many of them.
    fn failed(&self) -> bool;

    /// Codes a byte of the slice.
    #[inline]
    fn u8_at(&mut self, stream: StreamId, bytes: &mut [u8], at: usize) -> u8 {
        let [value] = get(bytes, at);
        let value = self.u8(stream, value);
        self.put(bytes, at, [value]);
        value
    }

    /// Codes a little-endian number of the slice.
    #[inline]
    fn u16_at(&mut self, stream: StreamId, bytes: &mut [u8], at: usize) -> u16 {
        let value = self.u16(stream, u16::from_le_bytes(get(bytes, at)));
        self.put(bytes, at, value.to_le_bytes());
        value
    }

    /// As [`Coder::u16_at`].
    #[inline]
    fn u32_at(&mut self, stream: StreamId, bytes: &mut [u8], at: usize) -> u32 {
        let value = self.u32(stream, u32::from_le_bytes(get(bytes, at)));
        self.put(bytes, at, value.to_le_bytes());
        value
    }

    /// As [`Coder::u16_at`].
    #[inline]
    fn u64_at(&mut self, stream: StreamId, bytes: &mut [u8], at: usize) -> u64 {
        let value = self.u64(stream, u64::from_le_bytes(get(bytes, at)));
        self.put(bytes, at, value.to_le_bytes());
        value
    }

    /// Codes `len` bytes of the slice from `at` on: in one go where they are a number.
    #[inline(always)]
    fn bytes_at(&mut self, stream: StreamId, bytes: &mut [u8], at: usize, len: usize) {
        match len {
            1 => {
                self.u8_at(stream, bytes, at);
            }
            2 => {
                self.u16_at(stream, bytes, at);
            }
            4 => {
                self.u32_at(stream, bytes, at);
            }
            8 => {
                self.u64_at(stream, bytes, at);
            }
            16 => {
                self.u64_at(stream, bytes, at);
                self.u64_at(stream, bytes, at + 8);
            }
            _ => {
                let part = self.part(bytes, at, at + len);
                self.bytes(stream, part);
            }
        }
    }

    /// Puts bytes that follow from what was coded before; the encoder has them already.
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &mut [u8], at: usize, value: [u8; N]) {
        if Self::ENCODING {
            return;
        }
        match bytes
            .get_mut(at..)
            .and_then(|bytes| bytes.first_chunk_mut())
        {
            Some(place) => *place = value,
            None => self.fail(),
        }
    }

    /// As [`Coder::put`], of any number of bytes.
    #[inline]
    fn put_slice(&mut self, bytes: &mut [u8], at: usize, value: &[u8]) {
        if Self::ENCODING {
            return;
        }
        let place = bytes
            .get_mut(at..)
            .and_then(|bytes| bytes.get_mut(..value.len()));
        match place {
            Some(place) => place.copy_from_slice(value),
            None => self.fail(),
        }
    }

    /// The part of a slice; empty, and a failure, where the slice is too short.
    #[inline]
    fn part<'b>(&mut self, bytes: &'b mut [u8], start: usize, end: usize) -> &'b mut [u8] {
        match bytes.get_mut(start..end) {
            Some(part) => part,
            None => {
                self.fail();
                &mut []
            }
        }
    }
}

/// The bytes at `at`, zeros where the slice ends before.
#[inline]
pub fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|bytes| bytes.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

/// The little-endian number at `at`, 0 where the slice ends before.
#[inline]
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

/// As [`get_u16`].
#[inline]
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}
