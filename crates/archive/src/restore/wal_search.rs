//! Where in the archived WAL a recovery would stop at a transaction or a restore point.
//!
//! PostgreSQL finds these targets only by replaying. Which backup serves one can be known only
//! by reading the WAL before.

use futures::StreamExt;
use jiff::Timestamp;
use walzip_pgformat::Lsn;
use walzip_pgformat::wal::{Records, TimedRecord};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::Repository;

use crate::archived::wal_times::{read_segment, timestamp};
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::is_damage;

/// How many segments are got and decoded at the same time.
const AT_ONCE: usize = 2;

/// A target that is only known by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The end of a transaction. WAL has the lower half of its number.
    Transaction(u32),
    /// A restore point.
    RestorePoint(Vec<u8>),
}

/// Where the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where its record begins.
    pub(crate) lsn: Lsn,
    /// When it was written.
    pub(crate) time: Option<Timestamp>,
}

/// Finds every record of the target in consecutive segments, in their order.
pub(crate) async fn search(
    repository: &Repository,
    segments: Vec<SegmentName>,
    wanted: &Wanted,
) -> Result<Vec<Found>, ArchiveError> {
    let read = segments
        .into_iter()
        .map(|segment| read_segment(repository, segment));
    let mut contents = futures::stream::iter(read).buffered(AT_ONCE);
    let mut searched = Searched {
        wanted: wanted.clone(),
        found: Vec::new(),
        records: Records::default(),
    };
    while let Some(content) = contents.next().await {
        let content = match content {
            Ok(content) => content,
            Err(error) => return Err(searched.cut_off(error)),
        };
        searched = off_the_runtime(move || {
            searched.read(&content);
            searched
        })
        .await;
    }
    Ok(searched.found)
}

struct Searched {
    wanted: Wanted,
    found: Vec<Found>,
    records: Records,
}

impl Searched {
    fn read(&mut self, segment: &[u8]) {
        let mut records = std::mem::take(&mut self.records);
        // What cannot be read has no target: recovery ends there.
        let _ = records.read(segment, |record| {
            let major = record.version.major;
            let timed = TimedRecord::read(record.bytes, record.layout, major);
            self.look_at(record.lsn, timed);
        });
        self.records = records;
    }

    /// A segment cannot be read. What was found before it can be named, if it is what was meant.
    fn cut_off(&self, error: ArchiveError) -> ArchiveError {
        match self.found.first() {
            Some(Found { lsn, .. }) if is_damage(&error) => ArchiveError::Request(format!(
                "the target is at {lsn}, and whether it is there once more after that cannot be told, \
                 since {error}: --target-lsn {lsn} names the one that was found"
            )),
            _ => error,
        }
    }

    fn look_at(&mut self, lsn: Lsn, record: Option<TimedRecord>) {
        let Some(record) = record else {
            return;
        };
        let is_wanted = match (&self.wanted, &record) {
            (Wanted::Transaction(wanted), TimedRecord::TransactionEnd { xid, .. }) => wanted == xid,
            (Wanted::RestorePoint(wanted), TimedRecord::RestorePoint { name, .. }) => {
                wanted == name
            }
            _ => false,
        };
        if is_wanted {
            let time = record.time().and_then(timestamp);
            self.found.push(Found { lsn, time });
        }
    }
}
