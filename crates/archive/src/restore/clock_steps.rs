//! Whether the clock went back in the WAL near a target time.
//!
//! A recovery to a time ends at the first transaction that ended later. Where the clock was set back, or a standby
//! was promoted whose clock was behind, transactions follow in the WAL that ended earlier: they would be left
//! out, without a word. Who restores has to say by position what is meant.
//!
//! Not all WAL is read for that: the segments around the place where the recovery would end, those in
//! which timelines were left, and all if they are few. Of packs it is the first segment: another one takes as long
//! as all before it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal::TimedRecord;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{Repository, WalListing};

use crate::archived_wal::Way;
use crate::backup_record::{BackupRecord, Moment};
use crate::branches::readable;
use crate::error::ArchiveError;
use crate::wal_end::shown;
use crate::wal_times::SegmentTimes;

/// Transactions that end at the same time are written in any order, some of them late.
const STEP_MIN: SignedDuration = SignedDuration::from_secs(2);

/// So many segments are all read.
const ALL_READ: usize = 8;

/// Nothing is known of what comes so long before.
const SEGMENTS_MAX: u64 = 1 << 22;

/// So many are read on each side of where the recovery would end.
const NEAR: usize = 2;

/// Refuses a target time for which transactions before it come after later ones. `last` is the number of
/// the last segment that a recovery from `from` can read.
pub(super) async fn check(
    (repository, deep): (&Repository, &BTreeSet<SegmentName>),
    way: &Way<'_>,
    (from, last): (Moment, u64),
    target: Timestamp,
) -> Result<(), ArchiveError> {
    let first = way.number_at(from.lsn);
    let mut seen = Seen::new(target);
    seen.add(from.lsn, from.time, false);
    for number in chosen((repository, deep), way, (first, last), target).await? {
        let times = read(repository, way, number).await?;
        for timed in times.timed.iter().filter(|timed| timed.lsn >= from.lsn) {
            if let TimedRecord::TransactionEnd { committed, .. } = timed.record
                && let Some(time) = timed.time()
            {
                seen.add(timed.lsn, time, committed);
            }
        }
    }
    seen.refuse()
}

/// From where on to look: from the end of the backup, or of an older one that ended later, by the clock.
pub(super) fn begin<'r>(
    backup: &BackupRecord,
    others: impl Iterator<Item = &'r BackupRecord>,
) -> Moment {
    let stop = backup.stop;
    let is_set_back =
        |other: &Moment| other.lsn < stop.lsn && other.time.duration_since(stop.time) >= STEP_MIN;
    let earlier = others.map(|other| other.stop).filter(is_set_back);
    earlier.min_by_key(|other| other.lsn).unwrap_or(stop)
}

/// The segments that only packs have, but for the first of each.
pub(super) fn deep_in_packs(wal: &WalListing) -> BTreeSet<SegmentName> {
    let mut deep: BTreeSet<SegmentName> = BTreeSet::new();
    for pack in &wal.packs {
        let later = pack.name.segments().skip(1);
        deep.extend(later.filter_map(|name| name.parse::<SegmentName>().ok()));
    }
    let single = wal.single.iter().map(|entry| entry.name.as_str());
    let first = wal.packs.iter().filter_map(|pack| pack.name.segment(0));
    for name in single.map(str::to_owned).chain(first) {
        if let Ok(name) = name.parse::<SegmentName>() {
            deep.remove(&name);
        }
    }
    deep
}

/// The segments that are read, in their order.
async fn chosen(
    (repository, deep): (&Repository, &BTreeSet<SegmentName>),
    way: &Way<'_>,
    (first, last): (u64, u64),
    target: Timestamp,
) -> Result<BTreeSet<u64>, ArchiveError> {
    let mut open = Vec::new();
    for number in first.max(last.saturating_sub(SEGMENTS_MAX))..=last {
        if !deep.contains(&way.segment(number)?) {
            open.push(number);
        }
    }
    let mut chosen = BTreeSet::new();
    if open.len() <= ALL_READ {
        chosen.extend(open);
    } else {
        // The first segment that has something later, if times only grow.
        let (mut low, mut high) = (0, open.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let number = open.get(middle).copied().unwrap_or(last);
            let times = read(repository, way, number).await?;
            match times.last().is_some_and(|time| time > target) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let near = open
            .iter()
            .skip(low.saturating_sub(NEAR))
            .take(2 * NEAR + 1);
        chosen.extend(near);
    }
    for switch in way.switches() {
        let number = way.number_at(switch);
        chosen.extend(number.saturating_sub(1)..=number + 1);
    }
    chosen.retain(|number| (first..=last).contains(number));
    Ok(chosen)
}

/// What a segment says; one that is damaged says nothing, and ends the recovery.
async fn read(
    repository: &Repository,
    way: &Way<'_>,
    number: u64,
) -> Result<SegmentTimes, ArchiveError> {
    let read = SegmentTimes::read(repository, way.segment(number)?).await;
    Ok(readable(read)?.unwrap_or_default())
}

/// Transactions, in the order of the WAL.
struct Seen {
    target: Timestamp,
    /// The first one that ended after the target: there the recovery ends.
    end: Option<(Lsn, Timestamp)>,
    /// The latest time that came so far.
    latest: Timestamp,
    /// The last commit up to the target that came after that.
    left_out: Option<(Lsn, Timestamp)>,
}

impl Seen {
    fn new(target: Timestamp) -> Seen {
        Seen {
            target,
            end: None,
            latest: Timestamp::MIN,
            left_out: None,
        }
    }

    fn add(&mut self, lsn: Lsn, time: Timestamp, committed: bool) {
        if time > self.target {
            self.end.get_or_insert((lsn, time));
        } else if committed && self.end.is_some() && self.latest.duration_since(time) >= STEP_MIN {
            self.left_out = Some((lsn, time));
        }
        self.latest = self.latest.max(time);
    }

    fn refuse(&self) -> Result<(), ArchiveError> {
        let (Some((end, later)), Some((left_out, earlier))) = (self.end, self.left_out) else {
            return Ok(());
        };
        Err(ArchiveError::Request(format!(
            "the clock went back in the WAL: {} at {end} comes before {} at {left_out}. A recovery to \
             this time ends at {end}, and leaves out what was committed up to the time after it. Say which \
             position is meant: --target-lsn {end} --target-exclusive to end there, --target-lsn \
             {left_out} to have the last commit up to the time that was found",
            shown(later),
            shown(earlier),
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits at seconds, in the order of the WAL, and whether a recovery to second 100 is refused.
    fn refused(seconds: &[i64]) -> bool {
        let time = |second| Timestamp::from_second(second).expect("a time");
        let mut seen = Seen::new(time(100));
        for (number, &second) in seconds.iter().enumerate() {
            seen.add(Lsn(number as u64), time(second), true);
        }
        seen.refuse().is_err()
    }

    #[test]
    fn only_what_would_be_left_out_is_refused() {
        assert!(!refused(&[98, 99, 100, 101, 102]));
        // Written late, not set back.
        assert!(!refused(&[99, 101, 100, 102]));
        assert!(refused(&[99, 103, 100, 104]));
        // The first later one counts, even if the others are older.
        assert!(refused(&[50, 4000, 51, 52]));
        // Set back before the target, or all after it.
        assert!(!refused(&[99, 60, 61, 101, 102]));
        assert!(!refused(&[99, 130, 110, 131]));
    }

    #[test]
    fn a_refusal_names_both_positions() {
        let time = |second| Timestamp::from_second(second).expect("a time");
        let mut seen = Seen::new(time(100));
        for (lsn, second) in [
            (0x200, 99),
            (0x300, 110),
            (0x400, 90),
            (0x500, 95),
            (0x600, 111),
        ] {
            seen.add(Lsn(lsn), time(second), true);
        }
        let said = seen.refuse().expect_err("refused").to_string();
        assert!(
            said.contains("--target-lsn 0/300 --target-exclusive"),
            "{said}"
        );
        assert!(said.contains("--target-lsn 0/500 "), "{said}");
    }
}
