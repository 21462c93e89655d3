//! The timelines in a repository: which descends from which, and where.

use std::collections::BTreeMap;

use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{Repository, WalEntry};

use crate::coding;
use crate::error::ArchiveError;

/// The histories that a repository holds.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    histories: BTreeMap<TimelineId, TimelineHistory>,
    /// Why others could not be read. They are passed over: most restores do not need them, and
    /// PostgreSQL stops at one that it asks for.
    pub(crate) unreadable: Vec<ArchiveError>,
}

impl Timelines {
    /// Reads the histories that a listing of the WAL shows.
    pub(crate) async fn read(repository: &Repository, listing: &[WalEntry]) -> Timelines {
        let mut timelines = Timelines::default();
        for entry in listing {
            let Ok(WalFileName::History(timeline)) = entry.name.parse() else {
                continue;
            };
            match read_object(repository, &entry.name, timeline).await {
                Ok(Some(history)) => {
                    timelines.histories.insert(timeline, history);
                }
                Ok(None) => {}
                Err(error) => timelines.unreadable.push(error),
            }
        }
        timelines
    }

    /// The timeline that PostgreSQL calls `latest` when it starts from this one: it asks for the
    /// history of each following number until there is none (`findNewestTimeLine`).
    pub(crate) fn newest_from(&self, start: TimelineId) -> TimelineId {
        let following = (start.0..u32::MAX).map(|id| TimelineId(id + 1));
        following
            .take_while(|id| self.histories.contains_key(id))
            .last()
            .unwrap_or(start)
    }

    /// Whether a history on `timeline` passes the position on `ancestor`, or is still on it.
    pub(crate) fn passes(&self, timeline: TimelineId, ancestor: TimelineId, at: Lsn) -> bool {
        if timeline == ancestor {
            return true;
        }
        let history = self.histories.get(&timeline);
        history
            .and_then(|history| history.switch_of(ancestor))
            .is_some_and(|switch| at <= switch)
    }

    /// The timelines that pass this position on `ancestor`, and `ancestor` itself.
    pub(crate) fn descendants(&self, ancestor: TimelineId, at: Lsn) -> Vec<TimelineId> {
        let known = self
            .histories
            .keys()
            .copied()
            .filter(|&timeline| timeline != ancestor);
        let passing = known.filter(|&timeline| self.passes(timeline, ancestor, at));
        std::iter::once(ancestor).chain(passing).collect()
    }

    pub(crate) fn history(&self, timeline: TimelineId) -> Option<&TimelineHistory> {
        self.histories.get(&timeline)
    }
}

async fn read_object(
    repository: &Repository,
    name: &str,
    timeline: TimelineId,
) -> Result<Option<TimelineHistory>, ArchiveError> {
    let Some(object) = repository.get_wal(name).await? else {
        return Ok(None);
    };
    let content = coding::decode(name, object).await?;
    read_history(name, timeline, &content).map(Some)
}

/// Reads what an archived history says.
pub(crate) fn read_history(
    name: &str,
    timeline: TimelineId,
    content: &[u8],
) -> Result<TimelineHistory, ArchiveError> {
    TimelineHistory::read(timeline, content).map_err(|error| ArchiveError::Damaged {
        object: name.to_owned(),
        reason: error.to_string(),
    })
}
