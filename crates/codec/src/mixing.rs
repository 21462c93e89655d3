//! Context mixing: the streams of a block are coded bit by bit, each bit with a probability that
//! several models predict. docs/format/mixing.md specifies it.
//!
//! The encoder and the decoder run the same code over the same bytes, each with its own
//! [`arithmetic::BitCoder`]. It uses only integers, and all its tables have fixed sizes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod arithmetic;
mod bit_history;
mod byte_model;
mod chance;
mod choice;
mod guess;
mod logistic;
mod mixer;
mod refinement;
mod repeats;
mod slots;
mod stream_model;

use arithmetic::{BitCoder, Decoder, Encoder};
use chance::{Chance, Rates};
pub use choice::{Outlook, outlook};
use stream_model::StreamModel;

use crate::compressors::zstd_frame::{self, Effort};
use crate::error::{DecodeError, EncodeError, NO_MEMORY};
use crate::streams::directory::Extent;
use crate::varint;

/// Maximum number of bytes of content for one byte of data.
const EXPANSION_MAX: usize = 1 << 15;
/// Maximum count of the chances of whether a stream is mixed.
const CHOICE_SEEN_MAX: u32 = 60;

const BAD: DecodeError = DecodeError::Corrupt("block of mixed streams");

/// The data of a block of the streams of `content`. `mixed` says for each stream whether it is
/// mixed or packed by zstd. `None` if memory is short, or the content is too long for the data.
pub fn compress(
    content: &mut [u8],
    extents: &[Extent],
    mixed: &[bool],
    effort: Effort,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let plain: Vec<u8> = plain_extents(extents, mixed)
        .filter_map(|extent| content.get(extent.start..extent.end))
        .collect::<Vec<_>>()
        .concat();
    let mut data = Vec::new();
    if plain.is_empty() {
        varint::write(&mut data, 0);
    } else {
        let frame = zstd_frame::compress(&plain, &[], effort)?.bytes;
        varint::write(&mut data, frame.len() as u64);
        data.extend_from_slice(&frame);
    }
    let mut coder = Encoder::new();
    code_choices(&mut coder, &mut mixed.to_vec());
    if code_streams(&mut coder, extents, mixed, content).is_none() {
        return Ok(None);
    }
    data.extend_from_slice(&coder.finish());
    let len: usize = extents.iter().map(Extent::len).sum();
    Ok((len <= data.len().saturating_mul(EXPANSION_MAX)).then_some(data))
}

/// Decodes the data of a block and appends its streams to `content`, whose length is the start of
/// the first of `extents`.
pub fn decompress(
    data: &[u8],
    extents: &[Extent],
    content: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let end = extents.last().map_or(content.len(), |extent| extent.end);
    let len = end.checked_sub(content.len()).ok_or(BAD)?;
    if len > data.len().saturating_mul(EXPANSION_MAX) {
        return Err(DecodeError::Corrupt("block claims more than mixing allows"));
    }
    content.try_reserve_exact(len).map_err(|_| NO_MEMORY)?;
    content.resize(end, 0);
    let mut rest = data;
    let frame_len = varint::read(&mut rest).and_then(|len| usize::try_from(len).ok());
    let (frame, rest) = rest.split_at_checked(frame_len.ok_or(BAD)?).ok_or(BAD)?;
    let mut coder = Decoder::new(rest);
    let mut mixed = vec![false; extents.len()];
    code_choices(&mut coder, &mut mixed);
    place_plain(frame, extents, &mixed, content)?;
    code_streams(&mut coder, extents, &mixed, content).ok_or(NO_MEMORY)?;
    if coder.exhausted() { Ok(()) } else { Err(BAD) }
}

fn plain_extents<'s>(extents: &'s [Extent], mixed: &'s [bool]) -> impl Iterator<Item = &'s Extent> {
    let pairs = extents.iter().zip(mixed);
    pairs.filter_map(|(extent, mixed)| (!mixed).then_some(extent))
}

/// Decompresses the zstd frame and copies its streams to their extents.
fn place_plain(
    frame: &[u8],
    extents: &[Extent],
    mixed: &[bool],
    content: &mut [u8],
) -> Result<(), DecodeError> {
    let len = plain_extents(extents, mixed).map(Extent::len).sum();
    let mut plain = Vec::new();
    if len > 0 {
        zstd_frame::decompress(frame, len, &mut plain)?;
    } else if !frame.is_empty() {
        return Err(BAD);
    }
    let mut rest = plain.as_slice();
    for extent in plain_extents(extents, mixed) {
        let (stream, remaining) = rest.split_at_checked(extent.len()).ok_or(BAD)?;
        let target = content.get_mut(extent.start..extent.end).ok_or(BAD)?;
        target.copy_from_slice(stream);
        rest = remaining;
    }
    Ok(())
}

/// Codes whether each stream is mixed. Most are like the one before.
fn code_choices<C: BitCoder>(coder: &mut C, mixed: &mut [bool]) {
    let rates = Rates::new();
    let mut chances = [Chance::EVEN; 2];
    let mut last = true;
    for choice in mixed {
        let [if_plain, if_mixed] = &mut chances;
        let chance = if last { if_mixed } else { if_plain };
        let bit = coder.bit(chance.bits_16().clamp(1, 65535), u32::from(*choice));
        chance.learn(bit, &rates, CHOICE_SEEN_MAX);
        *choice = bit == 1;
        last = *choice;
    }
}

/// Codes the mixed streams. `None` if memory is short.
fn code_streams<C: BitCoder>(
    coder: &mut C,
    extents: &[Extent],
    mixed: &[bool],
    content: &mut [u8],
) -> Option<()> {
    if !mixed.contains(&true) {
        return Some(());
    }
    let len = extents.iter().zip(mixed).filter(|(_, mixed)| **mixed);
    let mut history = Vec::new();
    let len = len.map(|(extent, _)| extent.len()).sum();
    history.try_reserve_exact(len).ok()?;
    let mut model = StreamModel::new(history);
    for (number, (extent, &mixed)) in extents.iter().zip(mixed).enumerate() {
        if mixed && let Some(content) = content.get_mut(..extent.end) {
            model.code(coder, extents, number, content);
        }
    }
    Some(())
}

/// A table of a fixed size, which is never on the stack.
fn fixed_table<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(table) => table,
        Err(_) => unreachable!("a vector of N elements has N elements"),
    }
}

/// A hash of three numbers.
#[inline(always)]
fn hash(a: u32, b: u32, c: u32) -> u32 {
    let hash = a.wrapping_mul(0x9E37_79B1)
        ^ b.wrapping_mul(0x85EB_CA6B).rotate_left(13)
        ^ c.wrapping_mul(0xC2B2_AE35).rotate_left(7);
    let hash = (hash ^ hash >> 15).wrapping_mul(0x2C1B_3C6D);
    hash ^ hash >> 13
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::streams::kind::StreamKind;
    use crate::streams::layout::Layout;
    use proptest::prelude::*;

    const EFFORT: Effort = Effort::of(1);

    /// Bytes of a stream: noise, few values, similar rows, or one value.
    fn stream() -> impl Strategy<Value = (Vec<u8>, usize, bool)> {
        let bytes = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(0u8..4, 0..9000),
            proptest::collection::vec(any::<u8>(), 4200..4300),
            (proptest::collection::vec(any::<u8>(), 1..40), 1usize..90)
                .prop_map(|(row, times)| row.repeat(times)),
            (any::<u8>(), 0usize..5000).prop_map(|(byte, len)| vec![byte; len]),
        ];
        (bytes, 1usize..20, any::<bool>())
    }

    fn content(streams: Vec<(Vec<u8>, usize, bool)>, block_rows: usize) -> (Vec<u8>, Vec<Extent>) {
        let mut content = b"directory".to_vec();
        let mut extents = Vec::new();
        for (number, (bytes, width, planes)) in streams.into_iter().enumerate() {
            let start = content.len();
            content.extend_from_slice(&bytes);
            extents.push(Extent {
                kind: StreamKind::ALL[number % StreamKind::ALL.len()],
                width,
                layout: match planes && width > 1 {
                    true => Layout::Planes,
                    false => Layout::Rows,
                },
                block_rows,
                start,
                end: content.len(),
            });
        }
        (content, extents)
    }

    fn block_rows() -> impl Strategy<Value = usize> {
        prop_oneof![Just(1usize), Just(7), Just(300), Just(usize::MAX)]
    }

    fn restored(data: &[u8], extents: &[Extent]) -> Result<Vec<u8>, DecodeError> {
        let mut content = b"directory".to_vec();
        decompress(data, extents, &mut content).map(|()| content)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn gives_any_streams_back(
            streams in proptest::collection::vec(stream(), 0..6),
            choices in proptest::collection::vec(any::<bool>(), 6),
            block_rows in block_rows(),
        ) {
            let (mut content, extents) = content(streams, block_rows);
            let mixed = &choices[..extents.len()];
            let before = content.clone();
            if let Some(data) = compress(&mut content, &extents, mixed, EFFORT).unwrap() {
                prop_assert_eq!(&content, &before);
                prop_assert_eq!(restored(&data, &extents).unwrap(), before);
            }
        }

        #[test]
        fn takes_any_data_without_a_panic(
            streams in proptest::collection::vec(stream(), 1..4),
            data in proptest::collection::vec(any::<u8>(), 0..200),
            block_rows in block_rows(),
        ) {
            let (content, extents) = content(streams, block_rows);
            if let Ok(decoded) = restored(&data, &extents) {
                prop_assert_eq!(decoded.len(), content.len());
            }
        }
    }

    #[test]
    fn refuses_data_that_is_left_over() {
        let (mut content, extents) = content(
            vec![(b"some text, some text".to_vec(), 1, false)],
            usize::MAX,
        );
        let mut data = compress(&mut content, &extents, &[true], EFFORT)
            .unwrap()
            .unwrap();
        assert_eq!(restored(&data, &extents).unwrap(), content);
        data.extend_from_slice(b"more than enough");
        assert_eq!(restored(&data, &extents), Err(BAD));
    }

    #[test]
    fn refuses_to_claim_much_with_little() {
        let extent = Extent {
            kind: StreamKind::Spans,
            width: 1,
            layout: Layout::Rows,
            block_rows: usize::MAX,
            start: 9,
            end: 9 + (1 << 40),
        };
        assert!(restored(&[0; 100], &[extent]).is_err());
    }
}
