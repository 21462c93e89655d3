//! Where the archived WAL ends on the way to a timeline.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

use crate::archived_wal::{Reach, Way};
use crate::backup_record::Moment;
use crate::branches::readable;
use crate::error::ArchiveError;
use crate::text;
use crate::wal_times::SegmentTimes;

/// How many segments at the end are searched for the last transaction.
const SEGMENTS_SEARCHED: usize = 64;

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

/// Reads where the WAL ends; nothing before the end of the backup counts.
pub(crate) async fn read(
    repository: &Repository,
    way: &Way<'_>,
    reach: &Reach,
    from: Moment,
) -> Result<WalEnd, ArchiveError> {
    let mut end = WalEnd {
        timeline: from.timeline.0,
        segment: None,
        last_record: from.lsn,
        last_transaction: None,
    };
    let mut segments = Backwards::new(repository, way, reach, from)?;
    for _ in 0..SEGMENTS_SEARCHED {
        let Some((timeline, name, times)) = segments.next().await? else {
            break;
        };
        if end.segment.is_none() {
            end.timeline = timeline.0;
            end.segment = Some(name);
        }
        if let Some(last) = times.last_record.filter(|last| *last > end.last_record) {
            end.last_record = last;
        }
        end.last_transaction = times.last_transaction(from.lsn);
        if end.last_transaction.is_some() {
            break;
        }
    }
    Ok(end)
}

/// Whether a transaction ended after this time. A recovery to a time stops at the first such, and
/// fails where there is none.
pub(super) async fn has_transaction_after(
    repository: &Repository,
    way: &Way<'_>,
    reach: &Reach,
    from: Moment,
    time: Timestamp,
) -> Result<bool, ArchiveError> {
    let mut segments = Backwards::new(repository, way, reach, from)?;
    while let Some((_, _, times)) = segments.next().await? {
        if let Some(last) = times.last_transaction(from.lsn)
            && last > time
        {
            return Ok(true);
        }
        // What comes before is older still.
        if times.earliest_written().is_some_and(|first| first <= time) {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The segments from the end of the WAL back to the end of a backup. A damaged one is passed
/// over: the server stops at it, and says so.
struct Backwards<'a> {
    repository: &'a Repository,
    way: &'a Way<'a>,
    next: Option<u64>,
    first: u64,
}

impl<'a> Backwards<'a> {
    fn new(
        repository: &'a Repository,
        way: &'a Way<'a>,
        reach: &Reach,
        from: Moment,
    ) -> Result<Backwards<'a>, ArchiveError> {
        Ok(Backwards {
            repository,
            way,
            next: reach.last_number,
            first: way.number_at(from.lsn),
        })
    }

    async fn next(&mut self) -> Result<Option<(TimelineId, String, SegmentTimes)>, ArchiveError> {
        while let Some(number) = self.next.filter(|&number| number >= self.first) {
            self.next = number.checked_sub(1);
            let segment = self.way.segment(number)?;
            if let Some(times) = readable(SegmentTimes::read(self.repository, segment).await)? {
                return Ok(Some((segment.timeline, segment.to_string(), times)));
            }
        }
        Ok(None)
    }
}
