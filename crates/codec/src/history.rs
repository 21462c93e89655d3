//! Segments that are encoded one after the other: each may be told from those before it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use walzip_pgformat::wal::SegmentHeader;

use crate::container::Claims;
use crate::encoder::{self, encode_verified};
use crate::error::{DecodeToError, EncodeError};
use crate::level::Level;
use crate::level_policy;
use crate::member;
use crate::model::History;
use crate::optional_model::{ModelSet, OptionalModel};
use crate::streams::coder::{Choices, Proof};

/// Encodes segments in the order of their WAL. What it makes of one is decoded by a
/// [`HistoryDecoder`] that has decoded all before it.
#[derive(Debug)]
pub struct HistoryEncoder {
    level: Level,
    without: ModelSet,
    history: History,
}

impl HistoryEncoder {
    /// Knows of no WAL yet.
    pub fn new(level: Level) -> HistoryEncoder {
        HistoryEncoder {
            level,
            without: ModelSet::default(),
            history: History::default(),
        }
    }

    /// Encodes without one of the models: what the model earns. See [`crate::encode_without`].
    pub fn without(self, model: OptionalModel) -> HistoryEncoder {
        HistoryEncoder {
            without: self.without.with(model),
            ..self
        }
    }

    /// Encodes the next segment as a file. What cannot be told from the segments before it is encoded, and proven,
    /// without them, and those after it too.
    ///
    /// The proof of the others is the caller's: all files have to be decoded in their order, and compared. A segment
    /// that does not come back is encoded by [`HistoryEncoder::encode_alone`].
    pub fn encode(&mut self, segment: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let mut history = std::mem::take(&mut self.history);
        // Nothing that a panic could leave half done is used again.
        let encoded = catch_unwind(AssertUnwindSafe(|| {
            self.encode_after(&mut history, segment)
        }));
        match encoded {
            Ok(Ok(Some(file))) => {
                self.history = history;
                Ok(file)
            }
            _ => {
                drop(history);
                self.encode_alone(segment)
            }
        }
    }

    /// Encodes the next segment as a file that needs none before it, and proves that it decodes to the same bytes.
    pub fn encode_alone(&mut self, segment: &[u8]) -> Result<Vec<u8>, EncodeError> {
        self.history = History::default();
        encode_verified(segment, self.level)
    }

    /// The parts of a segment as members; `None` where it is none, or has bytes behind it.
    fn encode_after(
        &self,
        history: &mut History,
        segment: &[u8],
    ) -> Result<Option<Vec<u8>>, EncodeError> {
        let (level, choices) = (self.level, level_policy::choices(self.level));
        let choices = Choices {
            proof: Proof::Each,
            without: choices.without.and(self.without),
            ..choices
        };
        let is_segment = SegmentHeader::read(segment)
            .is_ok_and(|header| header.segment_size as usize == segment.len());
        if !is_segment {
            return Ok(None);
        }
        let mut file = Vec::new();
        for (header, part) in encoder::parts(segment) {
            let member = member::encode_part_after(history, part.into(), &header, level, choices)?;
            let Some(member) = member else {
                return Ok(None);
            };
            file.extend_from_slice(&member);
        }
        Ok(Some(file))
    }
}

/// Decodes segments in the order in which they were encoded.
#[derive(Clone, Debug, Default)]
pub struct HistoryDecoder {
    history: History,
}

impl HistoryDecoder {
    /// Knows of no WAL yet.
    pub fn new() -> HistoryDecoder {
        HistoryDecoder::default()
    }

    /// Decodes the next file into an output. Where this fails, what was written is worth nothing,
    /// and the decoder is not to be used any more.
    pub fn decode(&mut self, file: &[u8], output: &mut dyn Write) -> Result<(), DecodeToError> {
        member::total_len(file)?;
        let mut rest = file;
        while !rest.is_empty() {
            let history = Some(&mut self.history);
            let len = member::decode_member_after(rest, output, Claims::Bounded, history)?;
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(())
    }

    /// Goes past the next file, which takes less time than decoding it: nobody has its bytes, and
    /// they are not compared with their hash. Where this fails, the decoder is not to be used any
    /// more.
    pub fn pass(&mut self, file: &[u8]) -> Result<(), DecodeToError> {
        member::total_len(file)?;
        let mut rest = file;
        while !rest.is_empty() {
            let len = member::pass_member(rest, Claims::Bounded, &mut self.history)?;
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(())
    }

    /// BLAKE3 of the pages that are known and of what was learned. The order in which pages are looked at, if
    /// there are too many, is not in it.
    pub fn history_hash(&self) -> [u8; 32] {
        *self.history.hash().as_bytes()
    }
}
