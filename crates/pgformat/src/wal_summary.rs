//! WAL summaries: which blocks of which relations the records of a range of WAL have changed.
//!
//! A server from 17 on with `summarize_wal` writes them below `pg_wal/summaries`, one file from one
//! checkpoint's redo position to the next (postmaster/walsummarizer.c). The bytes are those of a block
//! reference table (common/blkreftable.c), the same in 17 and 18, in the machine's byte order:
//!
//! - 4 bytes, `0x652B137B`;
//! - for each fork of a relation six numbers of 4 bytes: the OIDs of its tablespace and database, its
//!   file number, the number of the fork, its limit block, and how many chunks of 65,536 blocks follow;
//!   then for each chunk how many numbers of 2 bytes it has, and after these sizes the numbers: either
//!   the changed blocks, counted from the chunk's first, or, if there are 4,096, a bit for each block,
//!   the lowest first;
//! - 24 bytes of zeros;
//! - 4 bytes, CRC-32C of all before.
//!
//! The limit block is the smallest length that the fork has had. What it has from there on is new.
//! A fork without a file number stands for all of its database in its tablespace.

use std::fmt;

use crate::relation_file::Fork;
use crate::units::{Lsn, TimelineId};

const MAGIC: u32 = 0x652B_137B;
/// Numbers before the chunks of a fork.
const ENTRY_LEN: usize = 24;
const CRC_LEN: usize = 4;
/// Blocks of a chunk, and how many numbers it has where they are bits.
const CHUNK_BLOCKS: u32 = 1 << 16;
const BITMAP_NUMBERS: usize = 4096;

/// The name of a summary's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalSummaryName {
    /// The timeline of the WAL.
    pub timeline: TimelineId,
    /// Where the WAL begins.
    pub start: Lsn,
    /// Where it ends.
    pub end: Lsn,
}

impl fmt::Display for WalSummaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WalSummaryName {
            timeline,
            start,
            end,
        } = self;
        write!(
            f,
            "{:08X}{:016X}{:016X}.summary",
            timeline.0, start.0, end.0
        )
    }
}

impl WalSummaryName {
    /// Reads a name; nothing if it is that of something else.
    pub fn read(name: &str) -> Option<WalSummaryName> {
        let digits = name.strip_suffix(".summary")?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
        if digits.len() != 40 || !digits.bytes().all(is_digit) {
            return None;
        }
        let number = |from, to| u64::from_str_radix(digits.get(from..to)?, 16).ok();
        Some(WalSummaryName {
            timeline: TimelineId(number(0, 8)? as u32),
            start: Lsn(number(8, 24)?),
            end: Lsn(number(24, 40)?),
        })
    }
}

/// What of a fork the WAL has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFork {
    /// The OID of the tablespace.
    pub tablespace: u32,
    /// The OID of the database, 0 for what all databases share.
    pub database: u32,
    /// The number of its files, or 0 for all of the database in the tablespace.
    pub relation: u32,
    /// The fork.
    pub fork: Fork,
    /// The blocks from this one on are new, whether they are among `blocks` or not.
    pub limit_block: u32,
    /// The blocks that records name, in no order.
    pub blocks: Vec<u32>,
}

/// Why a summary cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalSummaryError {
    /// It does not begin as one.
    #[error("it is no WAL summary")]
    Magic,
    /// Its CRC is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its numbers contradict one another.
    #[error("it is damaged")]
    Content,
}

/// Reads a summary, and hands on each fork.
pub fn read(content: &[u8], mut take: impl FnMut(ChangedFork)) -> Result<(), WalSummaryError> {
    if content.first_chunk() != Some(&MAGIC.to_le_bytes()) {
        return Err(WalSummaryError::Magic);
    }
    let (body, crc) = content
        .split_last_chunk::<CRC_LEN>()
        .ok_or(WalSummaryError::Content)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(WalSummaryError::Checksum);
    }
    let mut rest = body.get(MAGIC.to_le_bytes().len()..).unwrap_or_default();
    loop {
        match next_fork(&mut rest).ok_or(WalSummaryError::Content)? {
            Some(fork) => take(fork),
            None if rest.is_empty() => return Ok(()),
            None => return Err(WalSummaryError::Content),
        }
    }
}

/// The next fork, or that none follows.
fn next_fork(rest: &mut &[u8]) -> Option<Option<ChangedFork>> {
    let entry = rest.split_off(..ENTRY_LEN)?;
    let (numbers, _) = entry.as_chunks::<4>();
    let &[tablespace, database, relation, fork, limit_block, chunks] = numbers else {
        return None;
    };
    let [tablespace, database, relation, fork, limit_block, chunks] =
        [tablespace, database, relation, fork, limit_block, chunks].map(u32::from_le_bytes);
    if entry.iter().all(|&byte| byte == 0) {
        return Some(None);
    }
    let fork = match fork {
        0 => Fork::Main,
        1 => Fork::FreeSpaceMap,
        2 => Fork::VisibilityMap,
        3 => Fork::Init,
        _ => return None,
    };
    let sizes = rest.split_off(..2usize.checked_mul(usize::try_from(chunks).ok()?)?)?;
    let mut blocks = Vec::new();
    for (chunk, size) in (0u32..).zip(sizes.as_chunks::<2>().0) {
        let first = chunk.checked_mul(CHUNK_BLOCKS)?;
        let size = usize::from(u16::from_le_bytes(*size));
        let numbers = rest.split_off(..2 * size)?.as_chunks::<2>().0;
        let numbers = numbers.iter().copied().map(u16::from_le_bytes);
        match size {
            ..BITMAP_NUMBERS => blocks.extend(numbers.map(|number| first + u32::from(number))),
            BITMAP_NUMBERS => {
                let bits =
                    numbers.flat_map(|number| (0..16).map(move |bit| number >> bit & 1 == 1));
                let set = (first..).zip(bits).filter(|(_, is_set)| *is_set);
                blocks.extend(set.map(|(block, _)| block));
            }
            _ => return None,
        }
    }
    Some(Some(ChangedFork {
        tablespace,
        database,
        relation,
        fork,
        limit_block,
        blocks,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(forks: &[([u32; 5], &[&[u16]])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        for (numbers, chunks) in forks {
            let numbers = numbers.iter().copied().chain([chunks.len() as u32]);
            numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
            let sizes = chunks.iter().map(|chunk| chunk.len() as u16);
            sizes.for_each(|size| bytes.extend(size.to_le_bytes()));
            let numbers = chunks.iter().copied().flatten();
            numbers.for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        bytes.extend([0; ENTRY_LEN]);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    fn forks(summary: &[u8]) -> Result<Vec<ChangedFork>, WalSummaryError> {
        let mut forks = Vec::new();
        read(summary, |fork| forks.push(fork))?;
        Ok(forks)
    }

    #[test]
    fn names_say_which_wal_it_is() {
        let name = WalSummaryName::read("0000000300000001765D28000000000A03000028.summary");
        let expected = WalSummaryName {
            timeline: TimelineId(3),
            start: Lsn(0x1_765D_2800),
            end: Lsn(0xA_0300_0028),
        };
        assert_eq!(name, Some(expected));
        let written = expected.to_string();
        assert_eq!(written, "0000000300000001765D28000000000A03000028.summary");
        for other in [
            "temp.summary",
            "0000000300000001765D28000000000A03000028",
            "0000000300000001765d28000000000A03000028.summary",
            "+000000300000001765D28000000000A03000028.summary",
        ] {
            assert_eq!(WalSummaryName::read(other), None, "{other}");
        }
    }

    #[test]
    fn blocks_stand_as_numbers_or_as_bits() {
        let mut bits = vec![0; BITMAP_NUMBERS];
        (bits[0], bits[4095]) = (0b101, 1 << 15);
        let chunks: [&[u16]; 3] = [&[7, 3], &[], &bits];
        let no_limit = u32::MAX;
        let read = forks(&summary(&[
            ([1663, 5, 0, 0, 0], &[]),
            ([1663, 5, 16384, 0, no_limit], &chunks),
            ([1664, 0, 1262, 2, 1], &[&[0]]),
        ]));
        let fork =
            |[tablespace, database, relation, limit_block]: [u32; 4], fork, blocks: &[u32]| {
                ChangedFork {
                    tablespace,
                    database,
                    relation,
                    fork,
                    limit_block,
                    blocks: blocks.to_vec(),
                }
            };
        let third = 2 * CHUNK_BLOCKS;
        let blocks = [7, 3, third, third + 2, third + 65_535];
        let expected = vec![
            fork([1663, 5, 0, 0], Fork::Main, &[]),
            fork([1663, 5, 16384, no_limit], Fork::Main, &blocks),
            fork([1664, 0, 1262, 1], Fork::VisibilityMap, &[0]),
        ];
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn damage_is_found() {
        let whole = summary(&[([1663, 5, 16384, 0, 9], &[&[1, 2, 3]])]);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(forks(&damaged).is_err(), "byte {at}");
            assert!(forks(&whole[..at]).is_err(), "{at} bytes");
        }
        let with_crc = |body: &[u8]| [body, &crc32c::crc32c(body).to_le_bytes()].concat();
        let body = &whole[..whole.len() - CRC_LEN];
        // What a server would not have written, with a right CRC.
        let content = Err(WalSummaryError::Content);
        assert_eq!(forks(&with_crc(&[body, &[0]].concat())), content);
        assert_eq!(forks(&with_crc(&body[..body.len() - 1])), content);
        assert_eq!(forks(&summary(&[([1663, 5, 1, 4, 0], &[])])), content);
        let mut chunks = body.to_vec();
        chunks[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(forks(&with_crc(&chunks)), content);
    }
}
