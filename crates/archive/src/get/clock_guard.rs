//! Keeps a recovery to a time from ending too early.
//!
//! PostgreSQL ends it at the first transaction that ended after the target time. Where the clock was ahead for a
//! moment, that may be long before the others: what was committed from there up to the target would be left
//! out, without a word. `restore` does not read all WAL before a target. So it says where the recovery is
//! expected to end, and a segment before that is handed over only where nothing in it ended later.
//!
//! A record that lies on the border of two segments is not seen, and less than two seconds are no difference: many
//! transactions end at once, and are written in any order.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal::{SegmentHeader, TimedRecord};
use walzip_pgformat::wal_file_name::SegmentName;

use crate::archived::wal_times::{SegmentTimes, Timed};
use crate::cluster::replay_start::start_of_replay;
use crate::error::ArchiveError;
use crate::wal::expected_end::ExpectedEnd;
use crate::wal::wal_end::shown;

/// Transactions that end at the same time are written in any order, some of them late.
pub(crate) const STEP_MIN: SignedDuration = SignedDuration::from_secs(2);

/// Looks at a segment on its way to a recovery.
pub(crate) struct ClockGuard {
    target: Timestamp,
    end: Lsn,
    /// Otherwise it is where the segment begins in which the recovery ends.
    end_is_known: bool,
    segment: SegmentName,
    content: Vec<u8>,
}

impl ClockGuard {
    /// Takes the first page. Nothing where the recovery may end in this segment, or has gone on from it.
    pub(crate) fn begin(
        expected: ExpectedEnd,
        segment: SegmentName,
        first_page: &[u8],
    ) -> Option<ClockGuard> {
        let target = expected.time?;
        let size = SegmentHeader::read(first_page).ok()?.segment_size;
        let is_before = segment.range(size).ok()?.end <= expected.lsn;
        is_before.then(|| ClockGuard {
            target,
            end: expected.lsn,
            end_is_known: !expected.lsn.0.is_multiple_of(u64::from(size)),
            segment,
            content: first_page.to_vec(),
        })
    }

    /// Takes what follows.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.content.extend_from_slice(bytes);
    }

    /// Refuses the segment if the recovery would end in it. What comes before the backup that is in the data
    /// directory is not replayed.
    pub(crate) fn finish(self, data_directory: Option<&Path>) -> Result<(), ArchiveError> {
        let times = SegmentTimes::of(&self.content);
        let ends = times.timed.iter().filter_map(|timed| {
            let is_end = matches!(timed.record, TimedRecord::TransactionEnd { .. });
            timed.time().filter(|_| is_end).map(|time| (timed, time))
        });
        let is_later = |time: Timestamp| STEP_MIN <= time.duration_since(self.target);
        let mut later = ends.filter(|(_, time)| is_later(*time)).peekable();
        if later.peek().is_none() {
            return Ok(());
        }
        let start = data_directory.and_then(start_of_replay).unwrap_or_default();
        match later.find(|(timed, _)| timed.lsn >= start) {
            Some((Timed { lsn, .. }, later)) => Err(self.refusal(*lsn, later)),
            None => Ok(()),
        }
    }

    fn refusal(&self, lsn: Lsn, later: Timestamp) -> ArchiveError {
        let (segment, end) = (self.segment, self.end);
        let (time, later) = (shown(self.target), shown(later));
        let (up_to, to_have_them) = match self.end_is_known {
            true => (
                end.to_string(),
                format!("--target-lsn {end} --target-exclusive"),
            ),
            false => (
                format!("some in the segment at {end}"),
                "--target-lsn with the position that pg_waldump shows of the last of them"
                    .to_owned(),
            ),
        };
        ArchiveError::Request(format!(
            "a recovery to {time} would end in {segment}: a transaction at {lsn} ended at {later}, by a clock that was \
             ahead. Others that ended up to {time} come after it, up to {up_to}. Restore again, from the same backup and \
             along the same timeline (recovery_target_timeline in postgresql.auto.conf), and say which position is \
             meant: {to_have_them} to have them, --target-lsn {lsn} --target-exclusive to end before it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::PAGE_SIZE;
    use walzip_pgformat::wal_file_name::WalFileName;
    use walzip_testing::samples;

    #[test]
    fn refuses_what_ends_a_recovery_before_it_is_expected_to() {
        let Some(sample) = samples::of_workload("oltp-mixed") else {
            return;
        };
        let content = sample.read();
        let name = sample.path.file_stem().and_then(|name| name.to_str());
        let Ok(WalFileName::Segment(segment)) = name.unwrap_or_default().parse() else {
            panic!("{name:?} is a segment");
        };
        let range = segment.range(content.len() as u32).expect("a range");
        let times = SegmentTimes::of(&content);
        let last = times.last_transaction(range.start).expect("transactions");
        let before_last = last.saturating_sub(STEP_MIN).expect("a time");
        let look = |time, lsn| {
            let (first_page, rest) = content.split_at(PAGE_SIZE);
            let time = Some(time);
            let expected = ExpectedEnd { lsn, time };
            let Some(mut guard) = ClockGuard::begin(expected, segment, first_page) else {
                return Ok(());
            };
            rest.chunks(100_000).for_each(|part| guard.feed(part));
            guard.finish(None)
        };
        assert!(look(last, range.end).is_ok(), "nothing ended later");
        let almost = before_last.saturating_add(SignedDuration::from_micros(1));
        assert!(look(almost.expect("a time"), range.end).is_ok());
        let known = Lsn(range.end.0 + 40);
        for (expected, way_out) in [
            (
                known,
                format!("--target-lsn {known} --target-exclusive to have them"),
            ),
            (
                range.end,
                format!("up to some in the segment at {}", range.end),
            ),
        ] {
            let refused = look(before_last, expected).expect_err("the last one ended later");
            let said = refused.to_string();
            assert!(said.contains(&way_out), "{said}");
        }
        // It is expected to end in this segment.
        let within = Lsn(range.end.0 - 1);
        assert!(look(before_last, within).is_ok());
    }
}
