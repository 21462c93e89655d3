//! The history of the timeline that a segment is on, which has to be archived with it.
//!
//! PostgreSQL hands a history to `archive_command` once, when a server is promoted. It never does if the
//! server does not archive then, as one that `restore` has just made, or if the repository is newer than the
//! timeline. Without the history nothing of the timeline could be restored.

use std::path::{Path, PathBuf};

use walzip_pgformat::TimelineId;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::Repository;

use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::FIRST_TIMELINE;
use crate::error::{ArchiveError, LostHistories};

/// The history of a timeline that lies beside a segment.
pub(crate) fn left_beside(segment: &Path, timeline: TimelineId) -> Option<PathBuf> {
    if timeline <= FIRST_TIMELINE {
        return None;
    }
    let name = WalFileName::History(timeline).to_string();
    Some(segment.with_file_name(&name)).filter(|beside| beside.exists())
}

/// Fails if the history of a server's timeline is not archived: its WAL could not be restored.
pub(crate) async fn check(part: &Repository, timeline: TimelineId) -> Result<(), ArchiveError> {
    if timeline <= FIRST_TIMELINE {
        return Ok(());
    }
    let name = WalFileName::History(timeline).to_string();
    let damage = match StoredWal::get(part, &name).await? {
        None => None,
        Some(stored) => match stored.content(&name).await {
            Ok(content) => match TimelineHistory::read(timeline, &content) {
                Ok(_) => return Ok(()),
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error.to_string()),
        },
    };
    Err(ArchiveError::HistoryLost {
        lost: LostHistories {
            others: vec![timeline],
            ..LostHistories::default()
        },
        damage,
    })
}

/// The reason in a line of a history that was made of the WAL.
pub(crate) const REBUILT: &str = "rebuilt from the archived WAL";

/// Whether an archived history is a server's own one, but for the reasons in lines that were made of
/// the WAL. A timeline that was followed and not reached has a line in the server's own; of the WAL nobody sees it.
pub(crate) fn is_rebuilt_of(timeline: TimelineId, archived: &[u8], own: &[u8]) -> bool {
    let (Ok(archived), Ok(own)) = (
        TimelineHistory::read(timeline, archived),
        TimelineHistory::read(timeline, own),
    ) else {
        return false;
    };
    let mut lines = archived.ancestors.iter();
    lines.clone().any(|line| line.reason == REBUILT)
        && archived.parts().eq(own.parts())
        && lines.all(|line| line.reason == REBUILT || own.ancestors.contains(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_were_made_of_the_wal_may_have_another_reason() {
        let own = b"1\t0/A00028\tno recovery target specified\n\n2\t0/B00028\tbefore x\n";
        let is = |archived: &str| is_rebuilt_of(TimelineId(3), archived.as_bytes(), own);
        let of = |one: &str, two: &str| format!("1\t0/A00028\t{one}\n2\t{two}\n");
        let kept = "no recovery target specified";
        let rebuilt = format!("0/B00028\t{REBUILT}");
        assert!(is(&of(kept, &rebuilt)));
        assert!(is(&of(REBUILT, &rebuilt)));
        assert!(!is(&of("another reason", &rebuilt)));
        assert!(!is(&of(kept, "0/B00028\tbefore y")));
        assert!(!is(&of(kept, &format!("0/B00030\t{REBUILT}"))));
        assert!(!is(&format!("1\t0/A00028\t{REBUILT}\n")));
        assert!(!is("no history"));
    }

    /// A recovery along timeline 2 that ended before that began, and what was promoted after it.
    #[test]
    fn a_timeline_that_was_not_reached_is_in_no_rebuilt_history() {
        let third = "1\t0/E000A0\tx\n\n2\t0/E00000\tafter LSN 0/D00210\n";
        let fourth = format!("{third}\n3\t0/15002E0\ty\n");
        let of_third = format!("1\t0/E00000\t{REBUILT}\n");
        let is = |timeline, archived: &str, own: &str| {
            is_rebuilt_of(TimelineId(timeline), archived.as_bytes(), own.as_bytes())
        };
        assert!(is(3, &of_third, third));
        assert!(is(
            4,
            &format!("{of_third}3\t0/15002E0\t{REBUILT}\n"),
            &fourth
        ));
        assert!(is(4, &format!("{third}3\t0/15002E0\t{REBUILT}\n"), &fourth));
        assert!(!is(
            4,
            &format!("{of_third}3\t0/15002E8\t{REBUILT}\n"),
            &fourth
        ));
        assert!(!is(3, &format!("1\t0/E000A0\t{REBUILT}\n"), third));
        assert!(!is(3, "1\t0/E00000\tx\n", third));
    }
}
