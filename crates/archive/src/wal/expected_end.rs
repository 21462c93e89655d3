//! What a restore says to the recovery that follows it.

use std::fmt;

use jiff::Timestamp;
use walzip_pgformat::Lsn;

use crate::wal::wal_end::shown;

/// Where a recovery is expected to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedEnd {
    /// The last record, or the first transaction that ended after the target time: where only the index of a pack was
    /// read, where the segment begins that has it.
    pub lsn: Lsn,
    /// The target time, if it goes to one.
    pub time: Option<Timestamp>,
}

/// The options of `archive-get` that say so.
impl fmt::Display for ExpectedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(time) = self.time {
            write!(f, "--target-time \"{}\" ", shown(time))?;
        }
        write!(f, "--expected-end {}", self.lsn)
    }
}
