//! What a server says about its archiving: its settings, its last success and its last failure.

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;

use crate::server::replication::{Connection, ServerError};

const QUERY: &str = "\
    SELECT (SELECT setting FROM pg_settings WHERE name = 'archive_mode'), \
           (SELECT setting FROM pg_settings WHERE name = 'archive_command'), \
           (SELECT setting FROM pg_settings WHERE name = 'archive_library'), \
           last_archived_wal, (extract(epoch FROM last_archived_time) * 1000000)::bigint, \
           last_failed_wal, (extract(epoch FROM last_failed_time) * 1000000)::bigint \
    FROM pg_stat_archiver";

/// Files that PostgreSQL has not archived yet. Only some roles may count them.
const WAITING: &str = "\
    SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'";

/// A server's archiver, as it was when it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archiver {
    /// `archive_mode`: `off`, `on` or `always`.
    pub mode: String,
    /// `archive_command`, which may be empty.
    pub command: String,
    /// `archive_library`, which archives instead where it is set; servers before 15 have none.
    pub library: String,
    /// The last success.
    pub archived: Option<Attempt>,
    /// The last failure.
    pub failed: Option<Attempt>,
    /// How many files wait to be archived, if the role may know.
    pub waiting: Option<u64>,
}

/// A file that PostgreSQL archived or failed to archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file's name.
    pub wal: String,
    /// When it ended, by the server's clock.
    pub time: Timestamp,
}

impl Archiver {
    /// Asks the server.
    pub(crate) async fn ask(sql: &mut Connection) -> Result<Archiver, ServerError> {
        let row = sql.query(QUERY).await?.pop().unwrap_or_default();
        let text = |at: usize| row.get(at).cloned().flatten();
        let attempt = |at: usize| {
            let micros = text(at + 1)?.parse().ok()?;
            let time = Timestamp::from_microsecond(micros).ok()?;
            Some(Attempt {
                wal: text(at)?,
                time,
            })
        };
        // A role that may not know is no reason to know nothing.
        let waiting = sql.query_value(WAITING).await.ok();
        Ok(Archiver {
            mode: text(0).unwrap_or_default(),
            command: text(1).unwrap_or_default(),
            library: text(2).unwrap_or_default(),
            archived: attempt(3),
            failed: attempt(5),
            waiting: waiting.and_then(|count| count.parse().ok()),
        })
    }

    /// Whether a segment waits to be archived. Only some roles may know.
    pub(crate) async fn waits(
        sql: &mut Connection,
        segment: &SegmentName,
    ) -> Result<bool, ServerError> {
        let query = format!(
            "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name = '{segment}.ready'"
        );
        Ok(sql.query_value(&query).await? != "0")
    }

    /// Whether its server archives by itself.
    pub fn archives(&self) -> bool {
        self.mode != "off" && !self.has_no_command()
    }

    /// Whether nothing is set that would archive.
    pub fn has_no_command(&self) -> bool {
        self.command.is_empty() && self.library.is_empty()
    }

    /// The last failure, if nothing was archived since, or if it is later than a moment of
    /// interest.
    pub fn current_failure(&self, since: Option<Timestamp>) -> Option<&Attempt> {
        let failed = self.failed.as_ref()?;
        let is_last = self
            .archived
            .as_ref()
            .is_none_or(|archived| failed.time > archived.time);
        let is_recent = since.is_some_and(|since| failed.time > since);
        (is_last || is_recent).then_some(failed)
    }

    /// The last failure, if PostgreSQL has archived something since: it says nothing of now.
    pub fn past_failure(&self) -> Option<&Attempt> {
        let failed = self.failed.as_ref()?;
        let archived = self.archived.as_ref()?;
        (failed.time <= archived.time).then_some(failed)
    }

    /// Whether PostgreSQL has been told that this segment is archived. It takes the segments of
    /// a timeline in their order.
    pub(crate) fn reports(&self, segment: &SegmentName) -> bool {
        let segment = segment.to_string();
        self.archived.as_ref().is_some_and(|archived| {
            archived.wal.len() == segment.len()
                && archived.wal.get(..8) == segment.get(..8)
                && archived.wal >= segment
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(second: i64) -> Option<Attempt> {
        let time = Timestamp::from_second(second).expect("in range");
        let wal = "000000010000000000000005".to_owned();
        Some(Attempt { wal, time })
    }

    fn archiver(archived: Option<Attempt>, failed: Option<Attempt>) -> Archiver {
        Archiver {
            archived,
            failed,
            ..Archiver::default()
        }
    }

    #[test]
    fn a_failure_before_the_last_success_is_past_unless_it_is_recent() {
        let at = |second| Some(Timestamp::from_second(second).expect("in range"));
        let never = archiver(attempt(5), None);
        assert_eq!(
            (never.current_failure(at(0)), never.past_failure()),
            (None, None)
        );
        let past = archiver(attempt(5), attempt(3));
        assert_eq!(past.current_failure(None), None);
        assert_eq!(past.current_failure(at(4)), None);
        assert_eq!(past.current_failure(at(2)), past.failed.as_ref());
        assert_eq!(past.past_failure(), past.failed.as_ref());
        let now = archiver(attempt(5), attempt(6));
        assert_eq!(now.current_failure(None), now.failed.as_ref());
        assert_eq!(now.past_failure(), None);
        let first = archiver(None, attempt(6));
        assert_eq!(first.current_failure(None), first.failed.as_ref());
    }

    #[test]
    fn a_segment_is_reported_with_it_or_a_later_one_of_its_timeline() {
        let segment = |name: &str| match name.parse() {
            Ok(walzip_pgformat::wal_file_name::WalFileName::Segment(segment)) => segment,
            other => panic!("{other:?}"),
        };
        let archiver = archiver(attempt(5), None);
        assert!(archiver.reports(&segment("000000010000000000000005")));
        assert!(archiver.reports(&segment("000000010000000000000004")));
        assert!(!archiver.reports(&segment("000000010000000000000006")));
        assert!(!archiver.reports(&segment("000000020000000000000004")));
        let mut history = archiver;
        history.archived = attempt(5).map(|attempt| Attempt {
            wal: "00000002.history".to_owned(),
            ..attempt
        });
        assert!(!history.reports(&segment("000000010000000000000004")));
    }
}
