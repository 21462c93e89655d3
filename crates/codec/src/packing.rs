//! Packs content: what zstd or mixing makes of it, as small as the level may take the time for.

use crate::container::{self, Body, MemberKind};
use crate::error::EncodeError;
use crate::level::Level;
use crate::level_policy::{choices, effort, piece_len};
use crate::limits::content_len_believed;
use crate::mixing::Outlook;
use crate::optional_model::OptionalModel;
use crate::streams::coder::Choices;
use crate::streams::directory::Content;
use crate::streams::filled::{self, Filled};
use crate::streams::laid_out::LaidOut;

/// Streams are mixed from this level on.
const MIXED_FROM: Level = Level::MAX;
/// The slowest level of zstd alone.
const UNMIXED: Level = MIXED_FROM.below();
/// The first level at which zstd takes long, and the part of the original that it may have to
/// take long for.
const SLOW_FROM: Level = Level::STRONG.above();
const HARD_PART: usize = 4;
/// Streams of more bytes than this for each byte of the input are not mixed: there would be
/// three copies of them in memory.
const MIXED_EXPANSION_MAX: usize = 4;
/// Levels that take little time beside those above them, which are compared with them.
const QUICK: [Level; 2] = [Level::MIN.above(), Level::MIN.above().above()];
const SEARCHED_FROM: Level = QUICK[1].above();
/// What mixed streams are compared with.
const BESIDE_MIXED: Level = Level::STRONG;
/// Where mixing gains less than this, in percent, another level may be smaller.
const MIXING_GAIN_MIN: usize = 4;

/// What a level makes of the streams of a member, whose original has so many bytes; `None`
/// where their content is longer than the format allows.
pub fn pack_streams(
    streams: &[Filled],
    kind: MemberKind,
    choices: Choices,
    level: Level,
    original_len: usize,
) -> Result<Option<Body>, EncodeError> {
    let content_len = filled::content_len_at_most(streams) as u64;
    if content_len > kind.content_len_max(original_len as u64) {
        return Ok(None);
    }
    let body = match level >= MIXED_FROM {
        true => pack_mixed(streams, choices, original_len)?,
        false => pack_unmixed(streams, kind, choices, level, original_len)?,
    };
    let is_believed = content_len <= content_len_believed(body.len() as u64);
    Ok(is_believed.then_some(body))
}

fn pack_unmixed(
    streams: &[Filled],
    kind: MemberKind,
    choices: Choices,
    level: Level,
    original_len: usize,
) -> Result<Body, EncodeError> {
    let laid_out = LaidOut::new(streams, choices);
    if let Some(piece_len) = piece_len(kind, level).filter(|&len| len < laid_out.len()) {
        return container::pack_pieces(&laid_out, piece_len, effort(level, true));
    }
    let content = laid_out.content();
    drop(laid_out);
    if level < SLOW_FROM {
        return pack(&content, level);
    }
    let outlook = container::outlook(&content, original_len)?;
    pack(&content, slow_level(&outlook, level, original_len))
}

/// The streams as a level lays them out where it does not mix them.
pub fn lay_out(streams: &[Filled], level: Level) -> LaidOut<'_> {
    LaidOut::new(streams, choices(level))
}

/// What a level makes of foreign bytes.
pub fn pack_foreign(bytes: &[u8], level: Level) -> Result<Body, EncodeError> {
    container::pack(bytes, &[], effort(level, false))
}

/// The level, or a faster one where it would take far too long.
fn slow_level(outlook: &Outlook, level: Level, original_len: usize) -> Level {
    match outlook.hard_len > original_len / HARD_PART {
        true => Level::STRONG,
        false => level,
    }
}

/// Mixed streams, unless zstd makes less of all.
fn pack_mixed(
    streams: &[Filled],
    choices: Choices,
    original_len: usize,
) -> Result<Body, EncodeError> {
    // Mixing does better with rows than with coded streams.
    let uncoded = Choices {
        without: choices.without.with(OptionalModel::Bins),
        ..choices
    };
    let mut content = LaidOut::new(streams, uncoded).content();
    let outlook = container::outlook(&content, original_len)?;
    let is_too_long = content.bytes.len() > original_len.saturating_mul(MIXED_EXPANSION_MAX);
    // Where the hardest streams take too long to be mixed, the others are not worth it.
    let is_mostly_left = outlook.hard_len_unmixed > outlook.hard_len / 2;
    let mixed = match is_too_long || is_mostly_left {
        true => None,
        false => container::pack_mixed(&mut content, &outlook.mixed, effort(UNMIXED, true))?,
    };
    drop(content);
    let content = LaidOut::new(streams, choices).content();
    match mixed {
        Some(mixed) => smaller(mixed, &content, outlook.packed_len),
        None => pack(&content, slow_level(&outlook, UNMIXED, original_len)),
    }
}

/// Mixed streams, or what zstd makes of all where that is less; it made so many bytes of them in
/// little time.
fn smaller(mixed: Body, content: &Content, packed_len: usize) -> Result<Body, EncodeError> {
    let plain = Plain::of(content, BESIDE_MIXED)?;
    let plain_len = plain.body.len();
    // More effort gains less and less.
    let gained = packed_len.saturating_sub(plain_len);
    let expected = plain_len.saturating_sub(gained / 2);
    if mixed.len() < expected.max(plain_len - plain_len * MIXING_GAIN_MIN / 100) {
        return Ok(mixed);
    }
    // The slowest level would take more time than is left.
    let unmixed = plain.or_of(content, SLOW_FROM)?;
    Ok(std::cmp::min_by_key(mixed, unmixed, Body::len))
}

/// What zstd makes of content at a level, or at a faster one: its search may find matches that
/// cost more than they save, in texts of hexadecimal digits for one.
fn pack(content: &Content, level: Level) -> Result<Body, EncodeError> {
    if level < SEARCHED_FROM {
        return pack_at(content, level);
    }
    Plain::of(content, level.min(Level::STRONG))?.or_of(content, level)
}

fn pack_at(content: &Content, level: Level) -> Result<Body, EncodeError> {
    container::pack_content(content, effort(level, true))
}

/// The smallest of what zstd makes of content at these levels: more effort makes a little more of
/// some content.
fn smallest(content: &Content, first: Level, last: Level) -> Result<Body, EncodeError> {
    let mut level = first;
    let mut smallest = pack_at(content, level)?;
    while level < last {
        level = level.above();
        smallest = std::cmp::min_by_key(smallest, pack_at(content, level)?, Body::len);
    }
    Ok(smallest)
}

/// What zstd makes of content without too much effort.
struct Plain {
    body: Body,
    /// Search has found nothing.
    is_searched_in_vain: bool,
}

impl Plain {
    fn of(content: &Content, level: Level) -> Result<Plain, EncodeError> {
        let [quick, other] = QUICK.map(|level| pack_at(content, level));
        let quick = std::cmp::min_by_key(quick?, other?, Body::len);
        let searched = smallest(content, SEARCHED_FROM, level)?;
        Ok(Plain {
            is_searched_in_vain: quick.len() <= searched.len(),
            body: std::cmp::min_by_key(quick, searched, Body::len),
        })
    }

    /// The same, or what a slower level makes of the content where that can be expected to be less.
    fn or_of(self, content: &Content, level: Level) -> Result<Body, EncodeError> {
        if level <= Level::STRONG || self.is_searched_in_vain {
            return Ok(self.body);
        }
        let body = smallest(content, SLOW_FROM, level)?;
        Ok(std::cmp::min_by_key(self.body, body, Body::len))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Of random hexadecimal digits zstd's search makes more than its fastest levels do.
    #[test]
    fn search_that_gains_nothing_is_given_up() {
        let mut state = 1u32;
        let mut digit = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_digit(state >> 28, 16).unwrap() as u8
        };
        let content = Content {
            bytes: std::iter::repeat_with(&mut digit).take(1 << 20).collect(),
            cuts: Vec::new(),
            streams_start: 0,
            coded_start: 1 << 20,
            extents: Vec::new(),
        };
        let lens = QUICK.map(|level| pack_at(&content, level).unwrap().len());
        let quick = lens[0].min(lens[1]);
        assert!(pack_at(&content, UNMIXED).unwrap().len() > quick);
        for level in [SEARCHED_FROM, Level::STRONG, SLOW_FROM, UNMIXED] {
            assert_eq!(pack(&content, level).unwrap().len(), quick);
        }
    }
}
