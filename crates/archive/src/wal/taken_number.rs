//! The history that stands for a number which no timeline is to have again.
//!
//! A server takes the first number of which the archive has no history (`findNewestTimeLine`), and asks for the history
//! of each number up to its timeline's own (`restoreTimeLineHistoryFiles`, src/backend/access/transam/timeline.c, 13 to
//! 18). Where a timeline was set aside, its number is below others, and missing: a server that is promoted would take it
//! again, and one that looks for the newest timeline would look no further. So it is given a history of comments
//! alone. The number is taken then, and nobody can follow it: it has no ancestors.

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::WalSurvey;

const HISTORY: &[u8] =
    b"# walzip: the archive has no history of this timeline, and has one of a later timeline.\n\
    # The number is not free. Nobody can follow this timeline.\n";

/// The content of such a history.
pub(crate) fn history() -> &'static [u8] {
    HISTORY
}

/// Whether a history is one. It is archived nowhere.
pub(crate) fn is_history(content: &[u8]) -> bool {
    content == HISTORY
}

/// Whether a timeline without a history has a number below one that has.
pub(crate) fn is_taken(timeline: TimelineId, survey: &WalSurvey) -> bool {
    let histories = survey.histories.iter();
    let mut numbers = histories.filter_map(|entry| match entry.name.parse() {
        Ok(WalFileName::History(timeline)) => Some(timeline),
        _ => None,
    });
    numbers.any(|other| other > timeline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;
    use walzip_pgformat::timeline_history::TimelineHistory;
    use walzip_repo::WalEntry;

    #[test]
    fn a_number_is_taken_below_the_last_one_that_has_a_history() {
        let history = |name: &str| WalEntry {
            name: name.to_owned(),
            size_bytes: 100,
            modified: SystemTime::UNIX_EPOCH,
            packed: None,
        };
        let survey = WalSurvey {
            histories: vec![history("00000002.history"), history("00000005.history")],
            ..WalSurvey::default()
        };
        let taken = |number| is_taken(TimelineId(number), &survey);
        assert!(taken(3) && taken(4));
        assert!(!taken(5) && !taken(6));
        assert!(!is_taken(TimelineId(2), &WalSurvey::default()));
    }

    /// As PostgreSQL reads it.
    #[test]
    fn its_history_has_no_ancestors() {
        let read = TimelineHistory::read(TimelineId(3), history()).expect("a history");
        assert_eq!(read.ancestors, []);
        assert!(is_history(history()) && !is_history(b""));
    }
}
