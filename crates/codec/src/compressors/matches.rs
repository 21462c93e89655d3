//! Matches for zstd's blocks, by what they save.
//!
//! The content of a member is planes and columns next to each other. Of a plane of few different bytes, each takes a bit or
//! two, and a match of ten bytes takes more than they do: zstd's fast levels take every match that they find. Here a
//! match is taken if it is shorter than its bytes would be with the entropy of their part. Where nothing is found the search
//! makes longer and longer steps.

use zstd_safe::zstd_sys::ZSTD_Sequence;

/// Literals, and the match after them. Without a match it ends a block.
pub type Sequence = ZSTD_Sequence;

/// Bytes of a block of zstd at most.
pub const BLOCK_LEN_MAX: usize = 128 << 10;
/// No match begins in this number of bytes before the end of a block.
const TAIL_LEN: usize = 12;

/// Binary logarithm of the places of the table of eight bytes at most. It and the other one then stay in a processor's second cache.
const LONG_LOG: u32 = 17;
/// The same of the table of [`SHORT_LEN`] bytes.
const SHORT_LOG: u32 = 16;
/// Bytes that the table of short matches is asked for.
const SHORT_LEN: usize = 5;
/// Bytes of the shortest match at the last distance.
const REPEATED_LEN: usize = 4;
/// One of 2^n positions, as their bytes say, is in the table of far matches. It has places for all of them in all of the content.
const FAR_SAMPLED_LOG: u32 = 6;

/// One bit.
const BIT: i64 = 256;
/// Bits of a match beside those of its distance, by trial.
const MATCH_COST: i64 = 11 * BIT;
/// Bits of a match at a distance of the one before.
const REPEATED_COST: i64 = 9 * BIT;
/// This number of positions after one with a match is looked at for a better one.
const LAZY_STEPS: usize = 2;
/// Steps get longer by one byte each time that 2^n bytes had no match.
const PATIENCE_LOG: u32 = 7;

/// A multiplier that spreads bytes over a table.
const SPREAD: u64 = 0xcf1b_bcdc_b7a5_6463;

/// The matches of content whose blocks end at `cuts`, where it is longer than a block too, and at its end.
pub fn find(content: &[u8], cuts: &[usize]) -> Vec<Sequence> {
    let mut search = Search::new(content);
    let mut sequences = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&content.len()]) {
        while start < cut {
            let end = cut.min(start + BLOCK_LEN_MAX);
            search.block(start, end, &mut sequences);
            start = end;
        }
    }
    sequences
}

/// Bits of a byte of a part if all of it were literals, in parts of [`BIT`]; of every fourth 64 bytes of long parts. A code of zstd's
/// has one bit at least.
fn literal_cost(part: &[u8]) -> i64 {
    const PIECE: usize = 64;
    const LONG: usize = 8 << 10;
    let every = if part.len() > LONG { 4 } else { 1 };
    // Four counters: successive equal bytes do not wait for one another.
    let mut counts = [[0_u32; 256]; 4];
    let mut total = 0;
    for piece in part.chunks(PIECE).step_by(every) {
        total += piece.len();
        for four in piece.chunks(4) {
            for (counts, &byte) in counts.iter_mut().zip(four) {
                counts[usize::from(byte)] += 1;
            }
        }
    }
    let total = total.max(1) as f32;
    let bits = (0..256).map(|byte| {
        let count: u32 = counts.iter().map(|counts| counts[byte]).sum();
        match count {
            0 => 0.0,
            _ => count as f32 * (total / count as f32).log2(),
        }
    });
    ((bits.sum::<f32>() / total * BIT as f32) as i64).max(BIT)
}

/// Eight bytes; zero where there are fewer.
fn eight(content: &[u8], at: usize) -> u64 {
    let bytes = content.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Four bytes; zero where there are fewer.
fn four(content: &[u8], at: usize) -> u32 {
    let bytes = content.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The first bytes of eight.
fn short_of(bytes: u64) -> u64 {
    bytes << (u64::BITS - 8 * SHORT_LEN as u32)
}

/// Whether a position goes into the table of far matches.
fn is_sampled(spread: u64) -> bool {
    (spread << 20) >> (u64::BITS - FAR_SAMPLED_LOG) == 0
}

/// A table of positions by the bytes that are there. Zero is no position.
struct Table {
    positions: Vec<u32>,
    shift: u32,
}

impl Table {
    fn new(log: u32) -> Table {
        Table {
            positions: vec![0; 1 << log],
            shift: u64::BITS - log,
        }
    }

    /// What is in the place of bytes that were spread, and puts a position there.
    #[inline(always)]
    fn replace(&mut self, spread: u64, at: usize) -> usize {
        let place = &mut self.positions[(spread >> self.shift) as usize];
        std::mem::replace(place, at as u32) as usize
    }
}

/// A match, and what it saves.
#[derive(Clone, Copy)]
struct Match {
    at: usize,
    from: usize,
    len: usize,
    gain: i64,
}

impl Match {
    fn distance(&self) -> usize {
        self.at - self.from
    }
}

/// What a position has.
struct Found {
    best: Option<Match>,
    /// Length of a match that costs more than it saves.
    refused_len: usize,
}

struct Search<'a> {
    content: &'a [u8],
    long: Table,
    short: Table,
    far: Table,
    /// The last two distances that differ.
    distances: [usize; 2],
    /// Where the block ends, and where what has no match yet begins in it.
    end: usize,
    anchor: usize,
    /// Bits of a literal in the block.
    literal_cost: i64,
}

impl Search<'_> {
    fn new(content: &[u8]) -> Search<'_> {
        let log = content.len().max(1).ilog2().max(10);
        let far_log = (content.len() >> (FAR_SAMPLED_LOG - 1))
            .max(1 << 10)
            .ilog2();
        Search {
            content,
            long: Table::new(log.min(LONG_LOG)),
            short: Table::new(log.min(SHORT_LOG)),
            far: Table::new(far_log),
            distances: [1, 4],
            end: 0,
            anchor: 0,
            literal_cost: 0,
        }
    }

    fn block(&mut self, start: usize, end: usize, sequences: &mut Vec<Sequence>) {
        self.literal_cost = literal_cost(&self.content[start..end]);
        (self.anchor, self.end) = (start, end);
        let limit = end.saturating_sub(TAIL_LEN);
        // The first byte of all has no position in the tables.
        let mut at = start.max(1);
        while at < limit {
            let found = self.at(at);
            let Some(first) = found.best else {
                at = self.step(at, found.refused_len, limit);
                continue;
            };
            let (best, looked_at) = self.better(first, at, limit);
            self.take(best, sequences);
            at = self.anchor;
            if at < limit {
                for inside in [looked_at + 2, at - 2] {
                    if (looked_at + 1..at).contains(&inside) {
                        self.note(inside);
                    }
                }
                self.take_repeated(limit, sequences);
                at = self.anchor;
            }
        }
        sequences.push(Sequence {
            offset: 0,
            litLength: (end - self.anchor) as u32,
            matchLength: 0,
            rep: 0,
        });
    }

    /// What a position has. It is noted.
    #[inline(always)]
    fn at(&mut self, at: usize) -> Found {
        let bytes = eight(self.content, at);
        let spread = bytes.wrapping_mul(SPREAD);
        let long = self.long.replace(spread, at);
        let short = self.short.replace(short_of(bytes).wrapping_mul(SPREAD), at);
        let far = match is_sampled(spread) {
            true => self.far.replace(spread << 4, at),
            false => 0,
        };
        let mut found = Found {
            best: None,
            refused_len: 0,
        };
        let last = self.distances[0];
        if at > last && four(self.content, at - last) == bytes as u32 {
            self.weigh(&mut found, (at, at - last), REPEATED_LEN);
        }
        // A position may have been noted already, as one after a match.
        let is_here = |from: usize| from > 0 && from < at;
        if is_here(long) && eight(self.content, long) == bytes {
            self.weigh(&mut found, (at, long), 8);
        } else if is_here(far) && eight(self.content, far) == bytes {
            self.weigh(&mut found, (at, far), 8);
        } else if is_here(short) && short_of(eight(self.content, short)) == short_of(bytes) {
            self.weigh(&mut found, (at, short), SHORT_LEN);
        }
        found
    }

    /// Takes a match for the best if it saves more than that, and something at all. So many bytes are known to be equal.
    #[inline(always)]
    fn weigh(&self, found: &mut Found, (at, from): (usize, usize), known: usize) {
        let content = self.content;
        let after = common_len(content, from + known, at + known, self.end);
        let mut before = 0;
        let most = from.min(at - self.anchor);
        while before < most && content[from - before - 1] == content[at - before - 1] {
            before += 1;
        }
        let len = before + known + after;
        let distance = at - from;
        let cost = match distance == self.distances[0] {
            true => REPEATED_COST,
            false => MATCH_COST + BIT * i64::from(distance.ilog2()),
        };
        let gain = len as i64 * self.literal_cost - cost;
        if gain > found.best.map_or(0, |best| best.gain) {
            found.best = Some(Match {
                at: at - before,
                from: from - before,
                len,
                gain,
            });
        } else {
            found.refused_len = found.refused_len.max(known + after);
        }
    }

    /// The best match among this one and those of the next positions, and the last position that was looked at.
    #[inline(always)]
    fn better(&mut self, mut best: Match, mut at: usize, limit: usize) -> (Match, usize) {
        for _ in 0..LAZY_STEPS {
            if at + 1 >= limit.min(best.at + best.len) {
                break;
            }
            at += 1;
            match self.at(at).best {
                Some(next) if next.gain > best.gain => best = next,
                _ => break,
            }
        }
        (best, at)
    }

    fn take(&mut self, found: Match, sequences: &mut Vec<Sequence>) {
        let distance = found.distance();
        sequences.push(Sequence {
            offset: distance as u32,
            litLength: (found.at - self.anchor) as u32,
            matchLength: found.len as u32,
            rep: 0,
        });
        if distance != self.distances[0] {
            self.distances = [distance, self.distances[0]];
        }
        self.anchor = found.at + found.len;
    }

    /// Takes matches at the distance before the last one, right after a match.
    #[inline(always)]
    fn take_repeated(&mut self, limit: usize, sequences: &mut Vec<Sequence>) {
        loop {
            let (at, distance) = (self.anchor, self.distances[1]);
            let is_there = at < limit
                && at > distance
                && four(self.content, at) == four(self.content, at - distance);
            if !is_there {
                return;
            }
            let known = REPEATED_LEN;
            let from = at - distance;
            let len = known + common_len(self.content, from + known, at + known, self.end);
            if len as i64 * self.literal_cost <= REPEATED_COST {
                return;
            }
            let gain = 0;
            self.take(
                Match {
                    at,
                    from,
                    len,
                    gain,
                },
                sequences,
            );
        }
    }

    /// Puts a position into the tables of near matches.
    #[inline(always)]
    fn note(&mut self, at: usize) {
        let bytes = eight(self.content, at);
        self.long.replace(bytes.wrapping_mul(SPREAD), at);
        self.short.replace(short_of(bytes).wrapping_mul(SPREAD), at);
    }

    /// The next position after one without a match. A match that was not worth it is not worth more from its second byte on.
    #[inline(always)]
    fn step(&mut self, at: usize, refused_len: usize, limit: usize) -> usize {
        let patience = 1 + ((at - self.anchor) >> PATIENCE_LOG);
        match refused_len {
            0 if patience > 1 => self.far_between(at, at + patience, limit),
            _ => at + patience + refused_len / 2,
        }
    }

    /// Far matches begin anywhere: the position of one before `next`, or that.
    fn far_between(&mut self, at: usize, next: usize, limit: usize) -> usize {
        let passed = &self.content[at + 1..next.min(limit).max(at + 1) + 7];
        for (between, bytes) in (at + 1..).zip(passed.windows(8)) {
            let bytes = bytes
                .first_chunk()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let spread = bytes.wrapping_mul(SPREAD);
            if !is_sampled(spread) {
                continue;
            }
            let from = self.far.replace(spread << 4, between);
            if from > 0 && eight(self.content, from) == bytes {
                // It is found there again.
                self.far.replace(spread << 4, from);
                return between;
            }
        }
        next
    }
}

/// How many bytes are equal from two positions on, the second of which is before `end`.
#[inline(always)]
fn common_len(content: &[u8], mut from: usize, mut at: usize, end: usize) -> usize {
    let start = at;
    while at + 8 <= end {
        let differing = eight(content, from) ^ eight(content, at);
        if differing != 0 {
            return at - start + (differing.trailing_zeros() / 8) as usize;
        }
        from += 8;
        at += 8;
    }
    while at < end && content[from] == content[at] {
        from += 1;
        at += 1;
    }
    at - start
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Puts content together from its sequences, and says how many bytes are literals.
    fn literals_of(content: &[u8], cuts: &[usize]) -> usize {
        let (mut made, mut literals) = (Vec::new(), 0);
        let mut block_start = 0;
        for sequence in find(content, cuts) {
            let (literal_len, len) = (sequence.litLength as usize, sequence.matchLength as usize);
            made.extend_from_slice(&content[made.len()..made.len() + literal_len]);
            literals += literal_len;
            if len > 0 {
                assert!(len >= REPEATED_LEN && sequence.offset > 0);
            } else {
                assert!((1..=BLOCK_LEN_MAX).contains(&(made.len() - block_start)));
                block_start = made.len();
            }
            for _ in 0..len {
                made.push(made[made.len() - sequence.offset as usize]);
            }
        }
        assert!(made == content);
        literals
    }

    /// Bytes that have no match, of `bits` bits each.
    fn noise(len: usize, bits: u32, mut state: u32) -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> (32 - bits)) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn what_comes_again_is_found_at_any_distance() {
        let (row, between) = (noise(300, 8, 1), noise(3 << 20, 8, 2));
        let content = [&row[..], &between, &row].concat();
        let literals = literals_of(&content, &[]);
        assert!(literals <= row.len() + between.len() + 64, "{literals}");
    }

    #[test]
    fn bytes_of_one_bit_are_cheaper_than_short_matches() {
        let content = noise(100_000, 1, 3);
        let matches = find(&content, &[]).len();
        assert!(matches < 100, "{matches}");
    }

    #[test]
    fn equal_bytes_are_one_match() {
        let content = vec![7; 200_000];
        assert!(literals_of(&content, &[]) < 64);
        assert!(find(&content, &[]).len() < 8);
    }

    #[test]
    fn content_of_few_bytes_is_literals() {
        for len in 0..40 {
            let content = vec![1; len];
            literals_of(&content, &[]);
            literals_of(&content, &[len / 2, len]);
        }
        assert!(find(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_content_is_made_of_its_sequences(
            parts in prop::collection::vec((1_u32..9, 1_usize..5000, 0_u32..4), 1..20),
            cuts in prop::collection::vec(0_usize..50_000, 0..8),
        ) {
            let parts = parts.into_iter().map(|(bits, len, seed)| noise(len, bits, seed));
            let content = parts.collect::<Vec<_>>().concat();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= content.len()).collect();
            cuts.sort_unstable();
            literals_of(&content, &cuts);
        }
    }
}
