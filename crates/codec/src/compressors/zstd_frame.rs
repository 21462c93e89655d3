//! zstd frames whose blocks, and so entropy tables, begin anew where the content changes.

use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat, InBuffer, OutBuffer};

use super::{matches, zstd_sequences};
use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::limits::WINDOW_LOG_MAX;
use crate::original::PIECE_LEN;

/// Parameters of zstd.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// zstd's level.
    pub level: i32,
    /// If set, zstd also looks for matches at any distance, of at least this length in bytes.
    pub long: Option<u32>,
    /// Binary logarithm of the number of entries of zstd's hash table, if not the level's own.
    pub hash_log: Option<u32>,
    /// Minimum length of a match in bytes, if not the level's own.
    pub min_match: Option<u32>,
    /// Matches are not zstd's but those of [`matches`], at any distance. All the other parameters say what to do where the content
    /// is too long for them.
    pub own_matches: bool,
}

impl Effort {
    /// The parameters of one of zstd's levels.
    pub const fn of(level: i32) -> Effort {
        Effort {
            level,
            long: None,
            hash_log: None,
            min_match: None,
            own_matches: false,
        }
    }
}

/// Maximum number of bytes that one byte of a frame expands to: a block of 128 KiB takes at least
/// four bytes.
const EXPANSION_MAX: usize = 1 << 15;

/// Compressed content.
pub struct Packed {
    /// The frame.
    pub bytes: Vec<u8>,
    /// For each cut, the length of the frame up to it.
    pub cut_places: Vec<usize>,
}

/// Compresses `content` as one frame. A new block, with its own tables, begins at each cut; by
/// itself zstd begins one every 128 KiB, whatever the content.
pub fn compress(content: &[u8], cuts: &[usize], effort: Effort) -> Result<Packed, EncodeError> {
    Compressor::new(effort)?.compress(content, cuts)
}

/// Writes frames with the same parameters.
pub struct Compressor {
    context: CCtx<'static>,
    effort: Effort,
}

impl Compressor {
    /// Allocates a context and sets its parameters.
    pub fn new(effort: Effort) -> Result<Compressor, EncodeError> {
        let mut compressor = Compressor {
            context: CCtx::create(),
            effort,
        };
        compressor.set(CParameter::CompressionLevel(effort.level))?;
        compressor.set(CParameter::Format(FrameFormat::Magicless))?;
        compressor.set(CParameter::ContentSizeFlag(false))?;
        // All content is in memory and stays there: zstd needs no copy of its window.
        compressor.set(CParameter::StableInBuffer(true))?;
        if let Some(hash_log) = effort.hash_log {
            compressor.set(CParameter::HashLog(hash_log))?;
        }
        if let Some(min_match) = effort.min_match {
            compressor.set(CParameter::MinMatch(min_match))?;
        }
        if let Some(min_match) = effort.long {
            compressor.set(CParameter::EnableLongDistanceMatching(true))?;
            compressor.set(CParameter::LdmMinMatch(min_match))?;
        }
        Ok(compressor)
    }

    fn set(&mut self, parameter: CParameter) -> Result<(), EncodeError> {
        self.context.set_parameter(parameter).map_err(failed)?;
        Ok(())
    }

    /// See [`compress`].
    pub fn compress(&mut self, content: &[u8], cuts: &[usize]) -> Result<Packed, EncodeError> {
        if self.effort.own_matches && content.len() <= 1 << WINDOW_LOG_MAX {
            return with_own_matches(content, cuts);
        }
        if self.effort.long.is_some() {
            self.set(CParameter::WindowLog(window_log_of_all(content)))?;
        }
        let len = Some(content.len() as u64);
        self.context.set_pledged_src_size(len).map_err(failed)?;
        let bound = zstd_safe::compress_bound(content.len()) + cuts.len() * 8;
        let mut packed = Vec::with_capacity(bound);
        let mut output = OutBuffer::around(&mut packed);
        let mut input = InBuffer::around(content);
        let mut cut_places = Vec::with_capacity(cuts.len());
        for &cut in cuts {
            let mut part = InBuffer::around(&content[..cut]);
            part.set_pos(input.pos());
            let flush = ZSTD_EndDirective::ZSTD_e_flush;
            step(&mut self.context, &mut output, &mut part, flush)?;
            input.set_pos(part.pos());
            cut_places.push(output.pos());
        }
        let end = ZSTD_EndDirective::ZSTD_e_end;
        step(&mut self.context, &mut output, &mut input, end)?;
        // Frees the unused part while the content is still in memory.
        packed.shrink_to_fit();
        Ok(Packed {
            bytes: packed,
            cut_places,
        })
    }
}

/// Binary logarithm of a window of all content, but for very long content.
fn window_log_of_all(content: &[u8]) -> u32 {
    let window_log = content.len().max(1).ilog2() + 1;
    window_log.clamp(20, WINDOW_LOG_MAX)
}

/// See [`compress`].
fn with_own_matches(content: &[u8], cuts: &[usize]) -> Result<Packed, EncodeError> {
    let sequences = matches::find(content, cuts);
    let bytes = zstd_sequences::compress(content, &sequences, window_log_of_all(content))?;
    let cut_places = places_of(cuts, &bytes).ok_or(EncodeError::Zstd("too few blocks"))?;
    Ok(Packed { bytes, cut_places })
}

/// For each cut, the length of a frame up to the end of the blocks before it (RFC 8878, 3.1.1).
fn places_of(cuts: &[usize], frame: &[u8]) -> Option<Vec<usize>> {
    /// Bytes of a frame's header without a magic number, a length of the content and a dictionary.
    const FRAME_HEADER_LEN: usize = 2;
    /// The type of a block of equal bytes, of which there is one.
    const EQUAL_BYTES: u32 = 1;
    let mut place = FRAME_HEADER_LEN;
    let mut content_place = 0;
    let mut places = Vec::with_capacity(cuts.len());
    for &cut in cuts {
        while content_place < cut {
            let [low, middle, high] = *frame.get(place..)?.first_chunk()?;
            let header = u32::from_le_bytes([low, middle, high, 0]);
            let len = match header >> 1 & 3 {
                EQUAL_BYTES => 1,
                _ => (header >> 3) as usize,
            };
            place += 3 + len;
            content_place = cut.min(content_place + matches::BLOCK_LEN_MAX);
        }
        places.push(place);
    }
    Some(places)
}

fn failed(code: usize) -> EncodeError {
    EncodeError::Zstd(zstd_safe::get_error_name(code))
}

fn step(
    context: &mut CCtx<'_>,
    output: &mut OutBuffer<'_, Vec<u8>>,
    input: &mut InBuffer<'_>,
    directive: ZSTD_EndDirective,
) -> Result<(), EncodeError> {
    loop {
        let space = output.pos();
        let left = context
            .compress_stream2(output, input, directive)
            .map_err(failed)?;
        if left == 0 {
            return Ok(());
        }
        if output.pos() == space {
            return Err(EncodeError::Zstd("no progress"));
        }
    }
}

const BAD: DecodeError = DecodeError::Corrupt("zstd frame");

fn decoder_of(data: &[u8], raw_len: usize) -> Result<DCtx<'static>, DecodeError> {
    if raw_len > data.len().saturating_mul(EXPANSION_MAX) {
        return Err(DecodeError::Corrupt("block claims more than zstd can hold"));
    }
    let mut context = DCtx::create();
    let mut set = |parameter| context.set_parameter(parameter).map_err(|_| BAD);
    set(DParameter::Format(FrameFormat::Magicless))?;
    set(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
    Ok(context)
}

/// Decompresses `data` to `raw_len` bytes and passes them to `take` in pieces. Only the frame's
/// window is in memory.
pub fn decompress_to(
    data: &[u8],
    raw_len: usize,
    take: &mut dyn FnMut(&[u8]) -> Result<(), DecodeToError>,
) -> Result<(), DecodeToError> {
    let mut context = decoder_of(data, raw_len)?;
    let mut input = InBuffer::around(data);
    let mut piece = Vec::with_capacity(PIECE_LEN);
    let mut left = raw_len;
    let mut is_whole = true;
    while !is_whole || input.pos() < data.len() {
        piece.clear();
        let taken = input.pos();
        let mut output = OutBuffer::around(&mut piece);
        let hint = context.decompress_stream(&mut output, &mut input);
        is_whole = hint.map_err(|_| BAD)? == 0;
        if piece.is_empty() && input.pos() == taken && !is_whole {
            return Err(BAD.into());
        }
        left = left.checked_sub(piece.len()).ok_or(BAD)?;
        take(&piece)?;
    }
    if left > 0 {
        return Err(BAD.into());
    }
    Ok(())
}

/// Decompresses `data` to `raw_len` bytes and appends them.
pub fn decompress(data: &[u8], raw_len: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut context = decoder_of(data, raw_len)?;
    let mut block = Vec::new();
    block.try_reserve_exact(raw_len).map_err(|_| NO_MEMORY)?;
    let written = context.decompress(&mut block, data).map_err(|_| BAD)?;
    if written != raw_len {
        return Err(BAD);
    }
    if out.is_empty() {
        *out = block;
    } else {
        out.try_reserve(raw_len).map_err(|_| NO_MEMORY)?;
        out.extend_from_slice(&block);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Effort = Effort {
        own_matches: true,
        ..Effort::of(3)
    };

    /// Rows with a number, a text of few words and bytes of noise, some of them again.
    fn rows(count: u32) -> Vec<u8> {
        let row = |number: u32| {
            let noise = (number % 61).wrapping_mul(2_654_435_761).to_le_bytes();
            let text = ["open", "closed", "waiting for parts"][number as usize % 3];
            [&number.to_le_bytes()[..], text.as_bytes(), &noise, &[0; 9]].concat()
        };
        (0..count).flat_map(row).collect()
    }

    fn round_trip(content: &[u8], cuts: &[usize], effort: Effort) -> Packed {
        let packed = compress(content, cuts, effort).unwrap();
        let mut out = Vec::new();
        decompress(&packed.bytes, content.len(), &mut out).unwrap();
        assert!(out == content);
        packed
    }

    #[test]
    fn blocks_end_at_cuts_whoever_finds_the_matches() {
        let content = rows(20_000);
        let cuts = [0, 1, 70_000, 70_000, content.len() - 3, content.len()];
        for effort in [OWN, Effort::of(3)] {
            let places = round_trip(&content, &cuts, effort).cut_places;
            assert!(places.is_sorted() && places[2] == places[3]);
            // What follows a cut has no part in the blocks before it.
            let cut_off = round_trip(&content[..cuts[2]], &cuts[..3], effort);
            let until = places[2] - 3;
            assert_eq!(cut_off.cut_places, places[..3]);
            assert!(cut_off.bytes.len() >= until);
        }
    }

    #[test]
    fn matches_by_what_they_save_pack_no_worse() {
        let content = rows(20_000);
        let own = round_trip(&content, &[], OWN).bytes.len();
        let other = round_trip(&content, &[], Effort::of(3)).bytes.len();
        assert!(own <= other, "{own} {other}");
    }

    proptest! {
        #[test]
        fn any_content_comes_back(
            parts in prop::collection::vec((any::<[u8; 3]>(), 1_usize..700), 0..30),
            cut in 0_usize..9000,
        ) {
            let parts = parts.into_iter().map(|(bytes, count)| bytes.repeat(count));
            let content = parts.collect::<Vec<_>>().concat();
            round_trip(&content, &[cut.min(content.len())], OWN);
        }
    }
}
