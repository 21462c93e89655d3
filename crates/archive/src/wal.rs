//! What WAL says of itself, wherever it is: whose it is, where it ends, and its times.

pub(crate) mod content;
pub(crate) mod expected_end;
pub(crate) mod replayed;
pub(crate) mod segment_times;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod text;
pub(crate) mod times_in_brief;
pub(crate) mod wal_end;
