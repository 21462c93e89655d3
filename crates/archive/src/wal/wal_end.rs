//! Where the archived WAL ends, or what comes before a hole in it.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use walzip_pgformat::Lsn;

use crate::wal::text;

/// The end of the archived WAL, or of what comes before a hole in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WalEnd {
    /// The timeline of the last segment.
    pub timeline: u32,
    /// The last segment; none where the WAL ends with a backup.
    pub segment: Option<String>,
    /// Where the last record begins that can be replayed: the last possible target position.
    #[serde(with = "text")]
    pub last_record: Lsn,
    /// When the last transaction ended, as far as the last segments show it.
    pub last_transaction: Option<Timestamp>,
}

impl fmt::Display for WalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on timeline {}", self.last_record, self.timeline)?;
        match self.last_transaction {
            Some(time) => write!(f, ", last transaction at {}", shown(time)),
            None => Ok(()),
        }
    }
}

/// A time as PostgreSQL writes it.
pub fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S.%6f+00").to_string()
}
