//! The encoder's choice of the streams that are mixed: those that gain most for the time, within a
//! budget of time.

use super::stream_model::noise_len;
use crate::streams::directory::Extent;

/// Budget for each `BUDGET_LEN` bytes of the original, in units of about a nanosecond.
const BUDGET: u64 = 3_800_000_000;
const BUDGET_LEN: usize = 16 << 20;
/// Estimated cost of each byte of a stream, which is at least guessed, in the same units.
const GUESSED_COST: u64 = 100;
/// Estimated cost of each byte that remains after packing with zstd, except for noise.
const PACKED_COST: u64 = 1600;

struct Candidate {
    number: usize,
    /// Length as packed by zstd, without noise.
    hard_len: usize,
    cost: u64,
    /// Length as packed by zstd, divided by the cost.
    gain: u64,
}

/// An estimate for the streams of a member, made by packing them with zstd at a low level.
pub struct Outlook {
    /// For each stream, whether it should be mixed.
    pub mixed: Vec<bool>,
    /// Length of all streams as packed.
    pub packed_len: usize,
    /// The same without noise.
    pub hard_len: usize,
    /// The part of `hard_len` of streams that should not be mixed.
    pub hard_len_unmixed: usize,
}

/// The outlook for the streams of `content`. `packed` is the length of each as packed by zstd at a
/// low level, `original_len` the length of the original.
pub fn outlook(
    content: &[u8],
    extents: &[Extent],
    packed: &[usize],
    original_len: usize,
) -> Outlook {
    let budget = original_len.div_ceil(BUDGET_LEN) as u64 * BUDGET;
    let candidate = |(number, (extent, &packed)): (usize, (&Extent, &usize))| {
        // zstd cannot pack noise either, and mixing spends little time on it.
        let hard_len = packed.saturating_sub(noise_len(content, extent));
        let cost = extent.len() as u64 * GUESSED_COST + hard_len as u64 * PACKED_COST;
        Candidate {
            number,
            hard_len,
            cost,
            gain: ((packed as u64) << 20) / cost.max(1),
        }
    };
    let pairs = extents.iter().zip(packed).enumerate();
    let mut candidates: Vec<Candidate> = pairs.map(candidate).collect();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.gain));
    let hard_len = candidates.iter().map(|candidate| candidate.hard_len).sum();
    let mut outlook = Outlook {
        mixed: vec![false; extents.len()],
        packed_len: packed.iter().sum(),
        hard_len,
        hard_len_unmixed: hard_len,
    };
    let mut spent = 0;
    for candidate in candidates {
        if spent + candidate.cost <= budget
            && let Some(mixed) = outlook.mixed.get_mut(candidate.number)
        {
            *mixed = true;
            spent += candidate.cost;
            outlook.hard_len_unmixed -= candidate.hard_len;
        }
    }
    outlook
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::streams::kind::StreamKind;
    use crate::streams::layout::Layout;

    fn extents(lens: &[usize]) -> Vec<Extent> {
        let mut start = 0;
        let extent = |&len: &usize| {
            start += len;
            Extent {
                kind: StreamKind::Text,
                width: 1,
                layout: Layout::Rows,
                block_rows: usize::MAX,
                start: start - len,
                end: start,
            }
        };
        lens.iter().map(extent).collect()
    }

    #[test]
    fn what_takes_too_long_is_left_to_zstd() {
        let content = vec![0; 8_000_000];
        let extents = extents(&[6_000_000, 2_000_000]);
        let packed = [4_000_000, 400];
        let of_16_mib = outlook(&content, &extents, &packed, 16 << 20);
        assert_eq!(of_16_mib.mixed, [false, true]);
        assert_eq!(of_16_mib.hard_len, 4_000_400);
        assert_eq!(of_16_mib.hard_len_unmixed, 4_000_000);
        let of_64_mib = outlook(&content, &extents, &packed, 64 << 20);
        assert_eq!(of_64_mib.mixed, [true, true]);
        assert_eq!(of_64_mib.hard_len_unmixed, 0);
    }
}
