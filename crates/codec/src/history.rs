//! Segments that are encoded one after the other: each may be told from those before it.

use std::io::Write;

use crate::encoder::encode_verified;
use crate::error::{DecodeToError, EncodeError};
use crate::level::Level;
use crate::member::decode_to;

/// Encodes segments in the order of their WAL. What it makes of one is decoded by a
/// [`HistoryDecoder`] that has decoded all before it.
#[derive(Debug)]
pub struct HistoryEncoder {
    level: Level,
}

impl HistoryEncoder {
    /// Knows of no WAL yet.
    pub fn new(level: Level) -> HistoryEncoder {
        HistoryEncoder { level }
    }

    /// Encodes the next segment as a file, and proves that it decodes to the same bytes.
    pub fn encode(&mut self, segment: &[u8]) -> Result<Vec<u8>, EncodeError> {
        encode_verified(segment, self.level)
    }
}

/// Decodes segments in the order in which they were encoded.
#[derive(Debug, Default)]
pub struct HistoryDecoder {}

impl HistoryDecoder {
    /// Knows of no WAL yet.
    pub fn new() -> HistoryDecoder {
        HistoryDecoder::default()
    }

    /// Decodes the next file into an output. Where this fails, what was written is worth nothing,
    /// and the decoder is not to be used any more.
    pub fn decode(&mut self, file: &[u8], output: &mut dyn Write) -> Result<(), DecodeToError> {
        decode_to(file, output)
    }
}
