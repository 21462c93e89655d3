//! Reads the segments at the end of the archived WAL, on the way to a timeline.

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

use crate::archived::archived_wal::{Reach, Way};
use crate::archived::branches::readable;
use crate::archived::packed_times::PackedTimes;
use crate::archived::wal_times::SegmentTimes;
use crate::backups::backup_record::Moment;
use crate::error::ArchiveError;
use crate::wal::wal_end::WalEnd;

/// How many segments at the end are searched for the last transaction.
const SEGMENTS_SEARCHED: usize = 64;

/// Reads where the WAL ends; nothing before the end of the backup counts.
pub(crate) async fn read(
    (repository, packed): (&Repository, &PackedTimes),
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
    let mut segments = Backwards::new((repository, packed), way, reach, from);
    for _ in 0..SEGMENTS_SEARCHED {
        let Some((timeline, name, said)) = segments.next().await? else {
            break;
        };
        if end.segment.is_none() {
            end.timeline = timeline.0;
            end.segment = Some(name);
        }
        if let Some(last) = said.last_record.filter(|last| *last > end.last_record) {
            end.last_record = last;
        }
        end.last_transaction = said.latest_end;
        if end.last_transaction.is_some() {
            break;
        }
    }
    Ok(end)
}

/// Whether a transaction ended after this time. A recovery to a time stops at the first such, and
/// fails where there is none.
pub(super) async fn has_transaction_after(
    (repository, packed): (&Repository, &PackedTimes),
    way: &Way<'_>,
    reach: &Reach,
    from: Moment,
    time: Timestamp,
) -> Result<bool, ArchiveError> {
    let mut segments = Backwards::new((repository, packed), way, reach, from);
    while let Some((_, _, said)) = segments.next().await? {
        if said.latest_end.is_some_and(|last| last > time) {
            return Ok(true);
        }
        // What comes before is older still.
        if said.earliest.is_some_and(|first| first <= time) {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The segments from the end of the WAL back to the end of a backup. A damaged one is passed
/// over: the server stops at it, and says so.
struct Backwards<'a> {
    repository: &'a Repository,
    packed: &'a PackedTimes,
    way: &'a Way<'a>,
    next: Option<u64>,
    from: Lsn,
}

/// What a segment says, as far as it counts.
struct Said {
    /// Where the last whole record begins.
    last_record: Option<Lsn>,
    /// The latest end of a transaction.
    latest_end: Option<Timestamp>,
    /// The earliest time at which something was written; of a segment in a pack, the earliest end of a transaction.
    earliest: Option<Timestamp>,
}

impl<'a> Backwards<'a> {
    fn new(
        (repository, packed): (&'a Repository, &'a PackedTimes),
        way: &'a Way<'a>,
        reach: &Reach,
        from: Moment,
    ) -> Backwards<'a> {
        Backwards {
            repository,
            packed,
            way,
            next: reach.last_number,
            from: from.lsn,
        }
    }

    async fn next(&mut self) -> Result<Option<(TimelineId, String, Said)>, ArchiveError> {
        let first = self.way.number_at(self.from);
        while let Some(number) = self.next.filter(|&number| number >= first) {
            self.next = number.checked_sub(1);
            let segment = self.way.segment(number)?;
            if let Some(said) = readable(self.said(segment, number > first).await)? {
                return Ok(Some((segment.timeline, segment.to_string(), said)));
            }
        }
        Ok(None)
    }

    /// What a segment says. A pack does not say it of a part of one.
    async fn said(&self, segment: SegmentName, counts_whole: bool) -> Result<Said, ArchiveError> {
        if counts_whole && let Some(brief) = self.packed.get_whole(self.repository, segment).await?
        {
            return Ok(Said {
                last_record: brief.last_record,
                latest_end: brief.ends.map(|ends| ends.latest),
                earliest: brief.ends.map(|ends| ends.earliest),
            });
        }
        let times = SegmentTimes::read(self.repository, segment).await?;
        Ok(Said {
            last_record: times.last_record,
            latest_end: times.last_transaction(self.from),
            earliest: times.earliest_written(),
        })
    }
}
