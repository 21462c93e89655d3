//! How fast a repository grows.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::WalEntry;

use crate::backups::backup_record::BackupRecord;

/// The longest time that is looked at: a week has all days of the week.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Nothing is said of a repository that is younger.
const SHORTEST: SignedDuration = SignedDuration::from_hours(1);

const DAY_SECONDS: u128 = 24 * 60 * 60;

/// What was stored lately, for each day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Since when: seven days ago, or when the oldest WAL was stored.
    pub since: Timestamp,
    /// WAL as it was archived.
    pub wal_original_bytes_per_day: u64,
    /// WAL as it is stored.
    pub wal_stored_bytes_per_day: u64,
    /// Backups as they are stored.
    pub backup_stored_bytes_per_day: u64,
}

impl Growth {
    /// Reckons by the times at which objects were stored.
    pub(crate) fn of(
        listing: &[WalEntry],
        backups: &[BackupRecord],
        segment_size_bytes: u32,
        now: Timestamp,
    ) -> Option<Growth> {
        let time = |entry: &WalEntry| Timestamp::try_from(entry.modified).ok();
        let oldest = listing.iter().filter_map(time).min()?;
        let since = oldest.max(now.checked_sub(LONGEST).ok()?);
        let span = now.duration_since(since);
        if span < SHORTEST {
            return None;
        }
        let seconds = u128::from(span.unsigned_abs().as_secs());
        let a_day = |bytes: u64| {
            let bytes = u128::from(bytes) * DAY_SECONDS / seconds;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let recent = listing.iter().filter(|entry| time(entry) >= Some(since));
        let (mut original, mut stored) = (0, 0);
        for entry in recent {
            stored += entry.size_bytes;
            let is_segment = matches!(entry.name.parse(), Ok(WalFileName::Segment(_)));
            original += u64::from(segment_size_bytes) * u64::from(is_segment);
        }
        let backups = backups.iter().filter(|backup| backup.stop.time >= since);
        Some(Growth {
            since,
            wal_original_bytes_per_day: a_day(original),
            wal_stored_bytes_per_day: a_day(stored),
            backup_stored_bytes_per_day: a_day(backups.map(BackupRecord::stored_bytes).sum()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn entry(hours_ago: i64, now: Timestamp) -> WalEntry {
        let modified = now - SignedDuration::from_hours(hours_ago);
        WalEntry {
            name: "000000010000000000000001".to_owned(),
            size_bytes: 10,
            modified: SystemTime::from(modified),
            packed: None,
        }
    }

    #[test]
    fn is_that_of_the_last_week_or_of_all_the_time_that_there_is() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        let of = |hours: &[i64]| {
            let listing: Vec<WalEntry> = hours.iter().map(|&hours| entry(hours, now)).collect();
            Growth::of(&listing, &[], 100, now).map(|growth| {
                let hours = now.duration_since(growth.since).as_hours();
                let stored = growth.wal_stored_bytes_per_day;
                (hours, growth.wal_original_bytes_per_day, stored)
            })
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0]), None);
        assert_eq!(of(&[12, 6, 0]), Some((12, 600, 60)));
        assert_eq!(of(&[500, 400, 168, 24, 1]), Some((168, 42, 4)));
        // A clock that was put back.
        assert_eq!(of(&[-5, 12]), Some((12, 400, 40)));
    }
}
