//! What a model has put into a stream.

use super::kind::StreamKind;
use super::parts::Parts;

/// A stream of the encoder.
#[derive(Debug)]
pub struct Filled {
    /// What it holds.
    pub kind: StreamKind,
    /// Bytes of a row.
    pub width: usize,
    /// What was put into it.
    pub bytes: Parts,
}

/// Bytes of streams together.
pub fn total_len(streams: &[Filled]) -> usize {
    streams.iter().map(|stream| stream.bytes.len()).sum()
}

/// Bytes of the directory and of all streams before they are coded, or a few more.
pub fn content_len_at_most(streams: &[Filled]) -> usize {
    // For each stream its length, its width and its layout; for each kind its number and how many
    // streams it has.
    const ENTRY_LEN: usize = 10 + 2;
    let kinds_len = StreamKind::ALL.len() * (1 + 10);
    20 + kinds_len + streams.len() * ENTRY_LEN + total_len(streams)
}
