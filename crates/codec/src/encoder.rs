//! What cuts an input into members, encodes them and proves them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::{Input, PAGE_SIZE};

use crate::container::MemberKind;
use crate::error::EncodeError;
use crate::level::Level;
use crate::level_policy::{self, choices_alone};
use crate::limits::MEMBER_LEN_MAX;
use crate::member;
use crate::proof;
use crate::run_both::{RunBoth, run_in_turn};
use crate::streams::coder::{Choices, Proof};

/// Bytes of a segment that go into one member: more go into parts, each into a member.
const PART_LEN: usize = 64 << 20;
/// Bytes of input that are no WAL segment and go into one member. Four
/// times as many save 0.1 % to 1 % (docs/decisions/2026-11-23-memory-of-any-input.md).
const FOREIGN_MEMBER_LEN: usize = 16 << 20;

/// Encodes an input of any length, a member at a time.
#[derive(Clone, Debug)]
pub struct Encoder {
    level: Level,
    proves: bool,
    part_len: usize,
    run_both: RunBoth,
    /// What the next bytes are, where they are a part of a segment that was begun.
    next_part: Option<SegmentHeader>,
}

impl Encoder {
    /// Encodes at a level. With `proves`, each member is decoded again and compared.
    pub fn new(level: Level, proves: bool) -> Encoder {
        Encoder {
            level,
            proves,
            part_len: PART_LEN,
            run_both: run_in_turn,
            next_part: None,
        }
    }

    /// The same with other parts: bytes of each, a multiple of 8192. A decoder takes any.
    pub fn with_part_len(self, part_len: usize) -> Encoder {
        Encoder { part_len, ..self }
    }

    /// The same with another way to run both halves of a proof.
    pub fn with_both(self, run_both: RunBoth) -> Encoder {
        Encoder { run_both, ..self }
    }

    /// Bytes of input that the next member takes, as long as there are so many. The input goes
    /// on with these bytes: a page of it, or all there is.
    pub fn member_len(&self, next_bytes: &[u8]) -> usize {
        match self.part(next_bytes) {
            Some(header) => self.part_len.min(left_of_segment(&header)),
            None => FOREIGN_MEMBER_LEN,
        }
    }

    fn part(&self, next_bytes: &[u8]) -> Option<SegmentHeader> {
        let begun = || SegmentHeader::read(next_bytes).ok();
        self.next_part.or_else(begun)
    }

    /// Encodes the next member, of [`Encoder::member_len`] bytes, or of the last ones. What the
    /// model should fail at, even by a panic, is carried without it: the header then has no
    /// identity.
    pub fn encode<'i>(&mut self, input: impl Into<Input<'i>>) -> Result<Vec<u8>, EncodeError> {
        let input = input.into();
        let mut beginning = Vec::new();
        input.append(0, input.len().min(PAGE_SIZE), &mut beginning)?;
        let part = self.part(&beginning);
        let (proves, level, run_both) = (self.proves, self.level, self.run_both);
        let without_model = || without_model(input, level, proves);
        let with_model = |header, kind| match proves {
            true => proven_with_model(input, header, kind, level, run_both),
            false => member::encode_part(input, header, kind, level, choices_alone(level)),
        };
        // What cannot be told from its own pages may still be told without them.
        let told_simply = |header| match level_policy::kind_alone(level) {
            MemberKind::Wal => without_model(),
            _ => or_do_without(|| with_model(header, MemberKind::Wal), without_model),
        };
        let member = match &part {
            None => without_model(),
            Some(header) => or_do_without(
                || with_model(header, level_policy::kind_alone(level)),
                || told_simply(header),
            ),
        }?;
        self.next_part = part
            .filter(|header| input.len() < left_of_segment(header))
            .map(|header| header.of_part(input.len() as u32));
        Ok(member)
    }

    fn encode_all(mut self, input: &[u8]) -> Result<Vec<u8>, EncodeError> {
        if input.len() > MEMBER_LEN_MAX {
            return Err(EncodeError::TooLong {
                len: input.len(),
                max: MEMBER_LEN_MAX,
            });
        }
        let mut rest = input;
        let mut file = self.encode_first(&mut rest)?;
        while !rest.is_empty() {
            file.extend_from_slice(&self.encode_first(&mut rest)?);
        }
        Ok(file)
    }

    fn encode_first(&mut self, rest: &mut &[u8]) -> Result<Vec<u8>, EncodeError> {
        let (member, behind) = rest
            .split_at_checked(self.member_len(rest))
            .unwrap_or((rest, &[]));
        *rest = behind;
        self.encode(member)
    }
}

fn left_of_segment(header: &SegmentHeader) -> usize {
    (header.segment_size - header.offset_in_segment()) as usize
}

/// The parts of a segment, as an [`Encoder`] takes them; none of what is no segment.
pub fn parts(input: &[u8]) -> impl Iterator<Item = (SegmentHeader, &[u8])> {
    let header = SegmentHeader::read(input).ok();
    let header = header.filter(|header| input.len() <= header.segment_size as usize);
    let parts = input.chunks(PART_LEN).enumerate();
    parts.map_while(move |(number, part)| {
        let offset = u32::try_from(number * PART_LEN).ok()?;
        Some((header?.of_part(offset), part))
    })
}

/// Encodes an input that [`decode`](crate::decode) gives back at once. The result is not proven:
/// see [`encode_verified`].
pub fn encode(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    Encoder::new(level, false).encode_all(input)
}

/// As [`encode`], and proves that the result decodes to the same bytes.
pub fn encode_verified(input: &[u8], level: Level) -> Result<Vec<u8>, EncodeError> {
    Encoder::new(level, true).encode_all(input)
}

fn proven_with_model(
    input: Input<'_>,
    header: &SegmentHeader,
    kind: MemberKind,
    level: Level,
    run_both: RunBoth,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let proven_with = |proof| {
        let choices = Choices {
            proof,
            ..choices_alone(level)
        };
        proof::encode_part(input, header, kind, (level, choices), run_both)
    };
    match proven_with(Proof::Later) {
        // Something was taken for granted wrongly.
        Err(EncodeError::NotProven) => {
            proven_with(Proof::LaterByOther).or_else(|_| proven_with(Proof::Each))
        }
        done => done,
    }
}

/// One foreign member, proven if that is wanted.
pub fn without_model(input: Input<'_>, level: Level, proves: bool) -> Result<Vec<u8>, EncodeError> {
    let member = member::encode_foreign(input, level)?;
    match proves {
        true => proof::of_file(input, member),
        false => Ok(member),
    }
}

/// What a model makes, or what is made without it where that fails or where the format cannot say
/// it.
pub fn or_do_without(
    with_model: impl FnOnce() -> Result<Option<Vec<u8>>, EncodeError>,
    without_model: impl FnOnce() -> Result<Vec<u8>, EncodeError>,
) -> Result<Vec<u8>, EncodeError> {
    // Nothing that a panic could leave half done is used again.
    match catch_unwind(AssertUnwindSafe(with_model)) {
        Ok(Ok(Some(file))) => Ok(file),
        _ => without_model(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::container::Header;
    use crate::member::decode;

    /// What the model does wrong must not keep a segment from being archived.
    #[test]
    fn what_the_model_fails_at_is_carried_without_it() {
        let input = b"some bytes, some bytes".as_slice();
        let read = Input::Bytes(input);
        let other = encode(b"other bytes", Level::MIN).unwrap();
        type Failure = fn(Vec<u8>) -> Result<Vec<u8>, EncodeError>;
        let failures: [Failure; 4] = [
            |_| panic!("on purpose"),
            |_| Err(EncodeError::Zstd("on purpose")),
            |_| Ok(b"no member".to_vec()),
            Ok,
        ];
        for failure in failures {
            let file = or_do_without(
                || proof::of_file(read, failure(other.clone())?).map(Some),
                || without_model(read, Level::MIN, true),
            )
            .unwrap();
            assert_eq!(decode(&file).unwrap(), input);
            assert_eq!(Header::read(&file).unwrap().identity, None);
        }
    }

    #[test]
    fn members_that_claim_more_than_a_segment_are_refused() {
        let file = encode(&vec![0; 64 << 20], Level::MIN).unwrap();
        assert!(decode(&file).is_ok());
        assert!(decode(&file.repeat(17)).is_err());
    }
}
