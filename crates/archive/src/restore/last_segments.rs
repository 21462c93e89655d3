//! Reads the segments at the end of the archived WAL, on the way to a timeline.

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_repo::Repository;

use crate::archived_wal::{Reach, Way};
use crate::backup_record::Moment;
use crate::branches::readable;
use crate::error::ArchiveError;
use crate::wal_end::WalEnd;
use crate::wal_times::SegmentTimes;

/// How many segments at the end are searched for the last transaction.
const SEGMENTS_SEARCHED: usize = 64;

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
