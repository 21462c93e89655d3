//! Block numbers of references to a relation. Most refer to a recent block or to the next one.

use crate::optional_model::OptionalModel;
use crate::streams::coder::{Coder, LazyStream};
use crate::streams::kind::StreamKind;
use crate::streams::recency::to_front;

/// Maximum number of recent blocks.
const RECENT_MAX: usize = 32;
/// The rank that says "the block that was expected".
const EXPECTED: u8 = 253;
/// The rank that says "the block after the last one".
const NEXT: u8 = 254;
/// The rank that says "the block number follows".
const OTHER: u8 = 255;

/// The blocks of one relation to which records have referred recently.
#[derive(Debug, Default)]
pub struct BlockNumbers {
    /// The most recent first.
    recent: Vec<u32>,
    rank: LazyStream,
    number: LazyStream,
}

impl BlockNumbers {
    /// Codes the block number of a reference.
    pub fn code<C: Coder>(&mut self, coder: &mut C, number: u32) -> u32 {
        self.code_expected(coder, None, number)
    }

    /// The same where a block may be expected.
    pub fn code_expected<C: Coder>(
        &mut self,
        coder: &mut C,
        expected: Option<u32>,
        number: u32,
    ) -> u32 {
        let next = self.recent.first().map_or(0, |last| last.wrapping_add(1));
        let known = if C::ENCODING && expected == Some(number) {
            EXPECTED
        } else if C::ENCODING && coder.choices().uses(OptionalModel::RecentBlocks) {
            self.rank_of(number, next)
        } else {
            OTHER
        };
        let stream = self.rank.open(coder, StreamKind::BlockRank, 1);
        let rank = coder.u8(stream, known);
        let place = match rank {
            EXPECTED => {
                let mut recent = self.recent.iter();
                recent.position(|block| Some(*block) == expected)
            }
            _ => Some(rank.into()),
        };
        if let Some(number) = place.and_then(|place| to_front(&mut self.recent, place)) {
            return number;
        }
        let number = match (rank, expected) {
            (EXPECTED, Some(expected)) => expected,
            (NEXT, _) => next,
            (OTHER, _) => {
                let stream = self.number.open(coder, StreamKind::BlockNumber, 4);
                coder.u32(stream, number)
            }
            _ => {
                coder.fail();
                return 0;
            }
        };
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.insert(0, number);
        number
    }

    fn rank_of(&self, number: u32, next: u32) -> u8 {
        if number == next && !self.recent.contains(&number) {
            return NEXT;
        }
        let rank = (0..NEXT)
            .zip(&self.recent)
            .find(|(_, recent)| **recent == number);
        rank.map_or(OTHER, |(rank, _)| rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format_example;
    use crate::format_version::FormatVersion;
    use crate::streams::{StreamReader, StreamWriter};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(numbers in prop::collection::vec(prop_oneof![0u32..50, any::<u32>(), Just(u32::MAX)], 1..400)) {
            let mut coder = StreamWriter::default();
            let mut model = BlockNumbers::default();
            for number in &numbers {
                prop_assert_eq!(model.code(&mut coder, *number), *number);
            }
            let mut reader = StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
            let mut model = BlockNumbers::default();
            for number in &numbers {
                prop_assert_eq!(model.code(&mut reader, 0), *number);
            }
            prop_assert!(reader.exhausted() && !reader.failed());
        }
    }

    #[test]
    fn only_a_block_that_does_not_follow_is_given_by_its_number() {
        let mut coder = StreamWriter::default();
        let mut model = BlockNumbers::default();
        for number in [0, 1, 70, 1, 70, 2, 71, 0, 70] {
            model.code(&mut coder, number);
        }
        let mut reader =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        let numbers = reader.open(StreamKind::BlockNumber, 4);
        assert_eq!([reader.u32(numbers, 0), reader.u32(numbers, 0)], [70, 2]);
        assert_eq!(reader.u32(numbers, 0), 71);
        assert!(!reader.failed());
        reader.u8(numbers, 0);
        assert!(reader.failed());
    }

    #[test]
    fn refuses_a_rank_of_no_block() {
        let mut coder = StreamWriter::default();
        let stream = coder.open(StreamKind::BlockRank, 1);
        coder.u8(stream, 3);
        let mut reader =
            StreamReader::of_content(coder.into_content().bytes, FormatVersion::CURRENT).unwrap();
        BlockNumbers::default().code(&mut reader, 0);
        assert!(reader.failed());
    }

    #[test]
    fn decodes_the_example_of_the_specification() {
        let mut reader = format_example::reader("model/relations.md", "block numbers");
        let mut model = BlockNumbers::default();
        for number in [7, 8, 7, 100] {
            assert_eq!(model.code(&mut reader, 0), number);
        }
        assert!(reader.exhausted() && !reader.failed());
    }
}
