//! Whether a segment has what other timelines have of it, which leave one another within it.
//!
//! Two standbys that are promoted at the end of one timeline have the same history, byte for byte. Where one of them archives
//! its timeline 2, and the other one is promoted once more before it archives, the history of timeline 3 names a timeline 2
//! that is not the archive's. The copy of it in the first segment of timeline 3 shows that.

use std::fs;
use std::path::{Path, PathBuf};

use futures::stream::{self, StreamExt, TryStreamExt};
use walzip_pgformat::TimelineId;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use super::{Pushed, in_repository, tolerate};
use crate::archived::neighbours::before_branch;
use crate::archived::shared_segment::{SharedSegment, difference};
use crate::archived::timelines::{self, FIRST_TIMELINE};
use crate::error::ArchiveError;

/// How many histories are asked for at a time.
const READ_AT_A_TIME: usize = 8;

impl Pushed<'_> {
    /// Refuses the first segment of a timeline where the archive has another one of the timeline that was left in it.
    pub(super) async fn check_parents(
        &self,
        history: Option<&TimelineHistory>,
    ) -> Result<(), ArchiveError> {
        let Some(history) = history else {
            return Ok(());
        };
        for shared in SharedSegment::all(self.segment, self.size, history) {
            for of_parent in shared.of_parent() {
                let compared = self.compare_parent(shared, of_parent, history).await;
                tolerate(&self.name, compared)?;
            }
        }
        Ok(())
    }

    async fn compare_parent(
        &self,
        shared: SharedSegment,
        of_parent: WalFileName,
        history: &TimelineHistory,
    ) -> Result<(), ArchiveError> {
        let (name, own) = (of_parent.to_string(), (self.file, shared.end));
        let Some(at) = difference(self.part, &name, own).await? else {
            return Ok(());
        };
        let parent = self.archived_history(shared.parent).await?;
        // The archive's timeline of that number is another one, as the histories say. A restore asks which is meant.
        if parent.is_some_and(|parent| !timelines::agree(&parent, history)) {
            return Ok(());
        }
        Err(ArchiveError::NotContinued {
            segment: self.name.clone(),
            before: in_repository(name),
            why: shared.why(at),
        })
    }

    /// Refuses a segment that a later timeline has left, of which the archive has the first segment, where that has another
    /// copy of it, or does not continue it.
    pub(super) async fn check_children(
        &self,
        history: Option<&TimelineHistory>,
    ) -> Result<(), ArchiveError> {
        let later = self.later_timelines().await?;
        if later.is_empty() {
            return Ok(());
        }
        let own = match history {
            None if self.segment.timeline > FIRST_TIMELINE => {
                self.archived_history(self.segment.timeline).await?
            }
            known => known.cloned(),
        };
        let read = later
            .into_iter()
            .map(|timeline| self.archived_history(timeline));
        let read = stream::iter(read).buffered(READ_AT_A_TIME);
        let later: Vec<Option<TimelineHistory>> = read.try_collect().await?;
        for later in later.into_iter().flatten() {
            if own.as_ref().is_none_or(|own| timelines::agree(own, &later)) {
                self.check_child(&later).await?;
            }
        }
        Ok(())
    }

    /// The timelines with higher numbers of which the archive has the history.
    async fn later_timelines(&self) -> Result<Vec<TimelineId>, ArchiveError> {
        let histories = match self.part.list_histories().await {
            Ok(histories) => histories,
            Err(error) => return tolerate(&self.name, Err(error.into())).map(|()| Vec::new()),
        };
        let named = histories
            .iter()
            .filter_map(|entry| match entry.name.parse() {
                Ok(WalFileName::History(timeline)) => Some(timeline),
                _ => None,
            });
        Ok(named
            .filter(|timeline| *timeline > self.segment.timeline)
            .collect())
    }

    async fn check_child(&self, later: &TimelineHistory) -> Result<(), ArchiveError> {
        let of_later = |segment: SegmentName| SegmentName {
            timeline: later.timeline,
            ..segment
        };
        let first = of_later(self.segment);
        let own = self.segment.timeline;
        let mut shared = SharedSegment::all(first, self.size, later).into_iter();
        if let Some(shared) = shared.find(|shared| shared.parent == own) {
            tolerate(&self.name, self.compare_child(shared).await)?;
        }
        let Some(next) = self.segment.next(self.size).ok().map(of_later) else {
            return Ok(());
        };
        // One that was left in this segment has none before its first one in the next.
        match before_branch(next, self.size, later) {
            Some(before) if before == self.segment => self.check_after(Some(next)).await,
            _ => Ok(()),
        }
    }

    async fn compare_child(&self, shared: SharedSegment) -> Result<(), ArchiveError> {
        let (name, own) = (shared.first.to_string(), (self.file, shared.end));
        match difference(self.part, &name, own).await? {
            None => Ok(()),
            Some(at) => Err(ArchiveError::NotContinued {
                segment: in_repository(name),
                before: self.name.clone(),
                why: shared.why(at),
            }),
        }
    }
}

/// The first segment of a timeline in the directory of its history. Those after it were made of it, or for later use.
pub(super) fn first_beside(history: &Path, timeline: TimelineId) -> Option<(SegmentName, PathBuf)> {
    let directory = history.parent()?;
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let entries = fs::read_dir(directory).ok()?;
    let segments = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        match path.file_name()?.to_str()?.parse() {
            Ok(WalFileName::Segment(segment)) if segment.timeline == timeline => {
                Some((segment, path))
            }
            _ => None,
        }
    });
    segments.min_by_key(|(segment, _)| *segment)
}
