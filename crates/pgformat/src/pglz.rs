//! pglz: the compression that PostgreSQL brings along, reproduced bit for bit.
//!
//! A compressed page image can be taken apart only if the very same bytes can be made
//! again, so the compressor is a port of `pglz_compress` in src/common/pg_lzcompress.c with
//! `PGLZ_strategy_default`, the strategy of full-page images. That function is the same in
//! 13 to 18. Its result depends on whether the server's `char` is signed: the hash is
//! computed from sign-extended bytes.
//!
//! The format is a control byte, then eight items, and so on. A clear bit (the lowest
//! first) is a literal byte; a set bit is a match of 3 to 273 bytes, 1 to 4095 bytes back:
//!
//! ```text
//! byte 0: high 4 bits of the distance | length - 3, or 15 for 18 and more
//! byte 1: low 8 bits of the distance
//! byte 2: length - 18, if the length is 18 or more
//! ```
//!
//! What differs from the original is what its result does not depend on. The original
//! keeps its history in doubly linked lists from which it takes an entry that is 4096
//! positions old. A search ends at the first entry that is 4095 or more positions away, so
//! a ring of links that forgets by being overwritten finds the same. And where the
//! original measures each candidate, one that differs in the byte that would make it
//! longer than the best is passed over.
//!
//! The original is distributed under the PostgreSQL License, which asks for this notice:
//!
//! Portions Copyright (c) 1996-2025, PostgreSQL Global Development Group
//! Portions Copyright (c) 1994, The Regents of the University of California
//!
//! Permission to use, copy, modify, and distribute this software and its documentation for
//! any purpose, without fee, and without a written agreement is hereby granted, provided
//! that the above copyright notice and this paragraph and the following two paragraphs
//! appear in all copies.
//!
//! IN NO EVENT SHALL THE UNIVERSITY OF CALIFORNIA BE LIABLE TO ANY PARTY FOR DIRECT,
//! INDIRECT, SPECIAL, INCIDENTAL, OR CONSEQUENTIAL DAMAGES, INCLUDING LOST PROFITS, ARISING
//! OUT OF THE USE OF THIS SOFTWARE AND ITS DOCUMENTATION, EVEN IF THE UNIVERSITY OF
//! CALIFORNIA HAS BEEN ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
//!
//! THE UNIVERSITY OF CALIFORNIA SPECIFICALLY DISCLAIMS ANY WARRANTIES, INCLUDING, BUT NOT
//! LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR
//! PURPOSE. THE SOFTWARE PROVIDED HEREUNDER IS ON AN "AS IS" BASIS, AND THE UNIVERSITY OF
//! CALIFORNIA HAS NO OBLIGATIONS TO PROVIDE MAINTENANCE, SUPPORT, UPDATES, ENHANCEMENTS, OR
//! MODIFICATIONS.

/// Whether `char` is signed where the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CharSign {
    /// As on x86.
    Signed,
    /// As on ARM and POWER under Linux.
    Unsigned,
}

/// The bytes are not the compressed form of a value of the expected length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PglzError {
    /// A match begins and the input ends.
    #[error("pglz data ends within a match")]
    Truncated,
    /// A match reaches back to before the first byte, or to itself.
    #[error("pglz data has a match {distance} bytes back at offset {at}")]
    Distance {
        /// How far it reaches back.
        distance: usize,
        /// The bytes that were decompressed so far.
        at: usize,
    },
    /// The input ends and the value has not its length, or the reverse.
    #[error("pglz data does not decompress to exactly {0} bytes")]
    Length(usize),
}

// PGLZ_strategy_default.
const INPUT_LEN_MIN: usize = 32;
const PERCENT_MAX: usize = 75;
const FIRST_SUCCESS_BY: usize = 1024;
const GOOD_MATCH: usize = 128;
const GOOD_MATCH_DROP_PERCENT: usize = 10;

const MATCH_LEN_MIN: usize = 3;
const MATCH_LEN_MAX: usize = 273;
/// The length from which on a match has a third byte.
const LONG_MATCH_LEN: usize = 18;
/// A search ends at this distance.
const DISTANCE_END: usize = 4095;

const RING_LEN: usize = 4096;
const HASH_LEN_MAX: usize = 8192;

/// The work space of [`Compressor::compress`], reused from call to call.
#[derive(Debug)]
pub struct Compressor {
    /// By hash: one more than the last position that has it, or 0.
    heads: Box<[u32; HASH_LEN_MAX]>,
    /// By position modulo the length: what the position's head was before it.
    ring: Box<[u32; RING_LEN]>,
}

impl Default for Compressor {
    fn default() -> Self {
        Self {
            heads: Box::new([0; HASH_LEN_MAX]),
            ring: Box::new([0; RING_LEN]),
        }
    }
}

impl Compressor {
    /// A work space.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the content of `dst` by what PostgreSQL makes of `src`. `false` means that
    /// it would store `src` as it is, since too little is gained; `dst` is then of no use.
    pub fn compress(&mut self, src: &[u8], dst: &mut Vec<u8>, sign: CharSign) -> bool {
        dst.clear();
        if src.len() < INPUT_LEN_MIN || i32::try_from(src.len()).is_err() {
            return false;
        }
        match sign {
            CharSign::Signed => self.run::<true>(src, dst),
            CharSign::Unsigned => self.run::<false>(src, dst),
        }
    }

    fn run<const SIGNED: bool>(&mut self, src: &[u8], dst: &mut Vec<u8>) -> bool {
        let len_max = compressed_len_max(src.len());
        // A step writes at most a control byte and a match.
        dst.reserve(len_max + 4);
        let mask = hash_len(src.len()) - 1;
        self.heads[..=mask].fill(0);

        let mut found_match = false;
        let mut control = Control { at: 0, bit: 8 };
        let mut at = 0;
        while at < src.len() {
            if dst.len() >= len_max || (!found_match && dst.len() >= FIRST_SUCCESS_BY) {
                return false;
            }
            let hash = hash_of::<SIGNED>(src, at) & mask;
            let (len, distance) = self.find_match(src, at, hash);
            if len < MATCH_LEN_MIN {
                control.item(dst, false);
                dst.push(src[at]);
                self.add(hash, at);
                at += 1;
                continue;
            }
            control.item(dst, true);
            push_match(dst, len, distance);
            self.add(hash, at);
            for position in at + 1..at + len {
                self.add(hash_of::<SIGNED>(src, position) & mask, position);
            }
            at += len;
            found_match = true;
        }
        dst.len() < len_max
    }

    #[inline(always)]
    fn add(&mut self, hash: usize, position: usize) {
        let head = &mut self.heads[hash % HASH_LEN_MAX];
        self.ring[position % RING_LEN] = *head;
        *head = position as u32 + 1;
    }

    /// The length and the distance of the match that PostgreSQL would take; a length below
    /// 3 is none. The longer a search, the shorter a match ends it.
    #[inline(always)]
    fn find_match(&self, src: &[u8], at: usize, hash: usize) -> (usize, usize) {
        let len_max = (src.len() - at).min(MATCH_LEN_MAX);
        let target = &src[at..at + len_max];
        let (mut len, mut distance) = (0, 0);
        let mut good_match = GOOD_MATCH;
        let mut next = self.heads[hash % HASH_LEN_MAX];
        while let Some(candidate) = (next as usize).checked_sub(1) {
            let candidate_distance = at - candidate;
            if candidate_distance >= DISTANCE_END {
                break;
            }
            // Positions before `at` have at least as many bytes behind them as `at` has.
            if src[candidate + len] == target[len] {
                let candidate_len = common_len(target, &src[candidate..candidate + len_max]);
                if candidate_len > len {
                    (len, distance) = (candidate_len, candidate_distance);
                    if len == len_max {
                        break;
                    }
                }
            }
            if len >= good_match {
                break;
            }
            good_match -= good_match * GOOD_MATCH_DROP_PERCENT / 100;
            next = self.ring[candidate % RING_LEN];
        }
        (len, distance)
    }
}

/// Where the current control byte is, and its next bit.
struct Control {
    at: usize,
    bit: u32,
}

impl Control {
    #[inline(always)]
    fn item(&mut self, dst: &mut Vec<u8>, is_match: bool) {
        if self.bit == 8 {
            self.at = dst.len();
            self.bit = 0;
            dst.push(0);
        }
        dst[self.at] |= u8::from(is_match) << self.bit;
        self.bit += 1;
    }
}

#[inline(always)]
fn push_match(dst: &mut Vec<u8>, len: usize, distance: usize) {
    let high = (distance >> 8 << 4) as u8;
    let low = distance as u8;
    if len < LONG_MATCH_LEN {
        dst.extend_from_slice(&[high | (len - MATCH_LEN_MIN) as u8, low]);
    } else {
        dst.extend_from_slice(&[high | 15, low, (len - LONG_MATCH_LEN) as u8]);
    }
}

/// The length that a result must stay below, with PostgreSQL's rounding.
fn compressed_len_max(src_len: usize) -> usize {
    if src_len > i32::MAX as usize / 100 {
        src_len / 100 * PERCENT_MAX
    } else {
        src_len * PERCENT_MAX / 100
    }
}

fn hash_len(src_len: usize) -> usize {
    match src_len {
        0..128 => 512,
        128..256 => 1024,
        256..512 => 2048,
        512..1024 => 4096,
        _ => HASH_LEN_MAX,
    }
}

/// `pglz_hist_idx`: four bytes as C's `char`; the first alone where four are not left.
#[inline(always)]
fn hash_of<const SIGNED: bool>(src: &[u8], at: usize) -> usize {
    let char = |byte: u8| {
        if SIGNED {
            i32::from(byte.cast_signed())
        } else {
            i32::from(byte)
        }
    };
    let index = match src[at..].first_chunk() {
        Some(&[a, b, c, d]) => char(a) << 6 ^ char(b) << 4 ^ char(c) << 2 ^ char(d),
        None => char(src[at]),
    };
    index as usize
}

/// How many bytes two slices have in common at their beginning.
#[inline(always)]
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let (mut words_a, mut words_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let mut len = 0;
    for (word_a, word_b) in words_a.by_ref().zip(words_b.by_ref()) {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let differing = word(word_a) ^ word(word_b);
        if differing != 0 {
            return len + differing.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = words_a.remainder().iter().zip(words_b.remainder());
    len + rest.take_while(|(a, b)| a == b).count()
}

/// Decompresses `src` into `dst`, whose length must be that of the original.
///
/// Accepts what `pglz_decompress` accepts when it is told to check for completeness: the
/// last match may be longer than what is left of `dst`.
pub fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), PglzError> {
    let (mut from, mut to) = (0, 0);
    while from < src.len() && to < dst.len() {
        let mut control = src[from];
        from += 1;
        for _ in 0..8 {
            if to == dst.len() || from == src.len() {
                break;
            }
            if control & 1 == 0 {
                dst[to] = src[from];
                from += 1;
                to += 1;
            } else {
                let (len, distance, tag_len) = read_match(&src[from..])?;
                from += tag_len;
                to += copy_match(dst, to, len, distance)?;
            }
            control >>= 1;
        }
    }
    if from == src.len() && to == dst.len() {
        Ok(())
    } else {
        Err(PglzError::Length(dst.len()))
    }
}

/// The length and the distance of a match, and the bytes that say so.
#[inline(always)]
fn read_match(src: &[u8]) -> Result<(usize, usize, usize), PglzError> {
    let &[first, low, ..] = src else {
        return Err(PglzError::Truncated);
    };
    let len = usize::from(first & 15) + MATCH_LEN_MIN;
    let distance = usize::from(first >> 4) << 8 | usize::from(low);
    if len < LONG_MATCH_LEN {
        return Ok((len, distance, 2));
    }
    let more = src.get(2).ok_or(PglzError::Truncated)?;
    Ok((len + usize::from(*more), distance, 3))
}

/// Repeats what lies `distance` bytes before `at`; the result is how many bytes fitted.
#[inline(always)]
fn copy_match(dst: &mut [u8], at: usize, len: usize, distance: usize) -> Result<usize, PglzError> {
    if distance == 0 || distance > at {
        return Err(PglzError::Distance { distance, at });
    }
    let len = len.min(dst.len() - at);
    let start = at - distance;
    let mut copied = 0;
    while copied < len {
        // What was copied already repeats the source, so that each round can take more.
        let part = (len - copied).min(distance + copied);
        dst.copy_within(start..start + part, at + copied);
        copied += part;
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compress(src: &[u8], sign: CharSign) -> Option<Vec<u8>> {
        let mut dst = Vec::new();
        Compressor::new()
            .compress(src, &mut dst, sign)
            .then_some(dst)
    }

    fn decompressed(src: &[u8], len: usize) -> Result<Vec<u8>, PglzError> {
        let mut dst = vec![0; len];
        decompress(src, &mut dst).map(|()| dst)
    }

    #[test]
    fn writes_literals_and_matches_as_the_format_says() {
        let src = [b'a'; 600];
        // A literal, two matches of 273 and one of 53, all from one byte back.
        let expected = [0b1110, b'a', 0x0F, 1, 255, 0x0F, 1, 255, 0x0F, 1, 35];
        assert_eq!(
            compress(&src, CharSign::Signed).as_deref(),
            Some(&expected[..])
        );
        assert_eq!(decompressed(&expected, 600).as_deref(), Ok(&src[..]));
        let short = b"abcdefgh".repeat(4);
        let packed = compress(&short, CharSign::Signed).expect("compressible");
        assert_eq!(packed, b"\x00abcdefgh\x01\x0F\x08\x06");
        assert_eq!(decompressed(&packed, 32), Ok(short));
    }

    #[test]
    fn leaves_alone_what_gains_too_little() {
        let mut state = 1u32;
        let noise: Vec<u8> = (0..8192)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        assert_eq!(compress(&noise, CharSign::Signed), None);
        assert_eq!(compress(&[0; 31], CharSign::Signed), None);
        assert!(compress(&[0; 32], CharSign::Signed).is_some());
        // Compressible, but not within the first KiB of output.
        let late = [&noise[..1024], &[0; 7168]].concat();
        assert_eq!(compress(&late, CharSign::Signed), None);
    }

    #[test]
    fn gives_the_same_result_from_a_used_work_space() {
        let text: Vec<u8> = (0..4000u32).flat_map(|n| (n % 97).to_le_bytes()).collect();
        let fresh = compress(&text, CharSign::Signed);
        let mut compressor = Compressor::new();
        let mut dst = Vec::new();
        for len in [16_000, 100, 8192, 32, 16_000] {
            compressor.compress(&text[..len], &mut dst, CharSign::Signed);
        }
        assert_eq!(Some(dst), fresh);
    }

    #[test]
    fn refuses_damaged_data() {
        let at = |distance, at| Err(PglzError::Distance { distance, at });
        assert_eq!(decompressed(&[1, 0x00], 9), Err(PglzError::Truncated));
        assert_eq!(
            decompressed(&[2, b'a', 0x0F, 1], 19),
            Err(PglzError::Truncated)
        );
        assert_eq!(decompressed(&[2, b'a', 0x00, 0], 4), at(0, 1));
        assert_eq!(decompressed(&[2, b'a', 0x10, 0], 4), at(256, 1));
        assert_eq!(
            decompressed(&[2, b'a', 0x00, 1], 5),
            Err(PglzError::Length(5))
        );
        assert_eq!(decompressed(&[0, b'a', b'b'], 1), Err(PglzError::Length(1)));
        assert_eq!(decompressed(&[], 1), Err(PglzError::Length(1)));
        assert_eq!(decompressed(&[], 0), Ok(Vec::new()));
    }
}
