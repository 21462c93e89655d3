//! The timelines in a repository: which descends from which, and where.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{Repository, WalEntry};

use crate::coding;
use crate::error::{ArchiveError, LostHistories};
use crate::read_each::read_each;

/// The timeline that initdb makes; the only one without a history.
pub(crate) const FIRST_TIMELINE: TimelineId = TimelineId(1);

/// The histories that a repository holds.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    histories: BTreeMap<TimelineId, TimelineHistory>,
    /// Why others could not be read.
    unreadable: BTreeMap<TimelineId, ArchiveError>,
}

impl Timelines {
    /// Reads the histories that a listing of the WAL shows.
    pub(crate) async fn read(repository: &Repository, listing: &[WalEntry]) -> Timelines {
        let mut timelines = Timelines::default();
        let named = listing.iter().filter_map(|entry| match entry.name.parse() {
            Ok(WalFileName::History(timeline)) => Some((entry, timeline)),
            _ => None,
        });
        let read = async |(entry, timeline): (&WalEntry, TimelineId)| {
            let read = read_object(repository, &entry.name, timeline).await;
            (timeline, read)
        };
        for (timeline, read) in read_each(named, read).await {
            match read {
                Ok(Some(history)) => {
                    timelines.histories.insert(timeline, history);
                }
                Ok(None) => {}
                Err(error) => {
                    timelines.unreadable.insert(timeline, error);
                }
            }
        }
        timelines
    }

    #[cfg(test)]
    pub(crate) fn insert(&mut self, timeline: TimelineId, content: &[u8]) {
        let history = TimelineHistory::read(timeline, content).expect("a history");
        self.histories.insert(timeline, history);
    }

    /// The timelines whose history ought to be in the archive and is not, or cannot be read:
    /// those with WAL, and those of which a descendant has a part. Timeline 1 has none.
    ///
    /// A recovery takes the first number without a history for its own new timeline, so that a
    /// lost history lets two branches into one timeline. It looks above its own number: what is below the
    /// first timeline with WAL was before the archive.
    pub(crate) fn without_history(
        &self,
        with_wal: impl Iterator<Item = TimelineId>,
    ) -> Vec<TimelineId> {
        let histories = self.histories.values();
        let named = histories.flat_map(|history| history.parts().map(|(timeline, _)| timeline));
        let with_wal: BTreeSet<TimelineId> = with_wal.collect();
        let first = with_wal.first().copied();
        let named = named.filter(|named| first.is_some_and(|first| first < *named));
        let unreadable = self.unreadable.keys().copied();
        let named: BTreeSet<TimelineId> = named.chain(unreadable).collect();
        let needed = with_wal.union(&named).copied();
        let lost = |timeline: &TimelineId| {
            *timeline > FIRST_TIMELINE && !self.histories.contains_key(timeline)
        };
        needed.filter(lost).collect()
    }

    /// Says of timelines without a history by what that is known.
    pub(crate) fn history_lost(
        &self,
        timelines: Vec<TimelineId>,
        with_wal: impl Iterator<Item = TimelineId>,
    ) -> ArchiveError {
        let with_wal: BTreeSet<TimelineId> = with_wal.collect();
        let first = timelines.first().and_then(|first| self.unreadable(*first));
        let damage = first.map(ToString::to_string);
        let mut lost = LostHistories::default();
        for timeline in timelines {
            let comes_from =
                |history: &TimelineHistory| history.parts().any(|(part, _)| part == timeline);
            let mut later = self.histories.iter();
            match later.find(|(_, history)| comes_from(history)) {
                _ if with_wal.contains(&timeline) => lost.with_wal.push(timeline),
                Some((by, _)) => lost.named.push((timeline, *by)),
                None => lost.others.push(timeline),
            }
        }
        ArchiveError::HistoryLost { lost, damage }
    }

    /// Why a history that is there cannot be read.
    pub(crate) fn unreadable(&self, timeline: TimelineId) -> Option<&ArchiveError> {
        self.unreadable.get(&timeline)
    }

    /// The first failure to read a history that says nothing of the history itself: the store's.
    pub(crate) fn take_failure(&mut self) -> Option<ArchiveError> {
        let is_damage = |error: &ArchiveError| {
            matches!(
                error,
                ArchiveError::Damaged { .. } | ArchiveError::Undecodable { .. }
            )
        };
        let mut failed = self
            .unreadable
            .iter()
            .filter(|(_, error)| !is_damage(error));
        let timeline = *failed.next()?.0;
        self.unreadable.remove(&timeline)
    }

    /// The newest timeline whose history is there and cannot be read.
    pub(crate) fn last_unreadable(&self) -> Option<(TimelineId, &ArchiveError)> {
        let (&timeline, error) = self.unreadable.last_key_value()?;
        Some((timeline, error))
    }

    /// The timelines that have a history, oldest number first.
    pub(crate) fn known(&self) -> impl Iterator<Item = TimelineId> + '_ {
        self.histories.keys().copied()
    }

    /// Where a timeline began: the one that it left, and where.
    pub(crate) fn beginning(&self, timeline: TimelineId) -> Option<(TimelineId, Lsn)> {
        let history = self.histories.get(&timeline)?;
        let switch = history.ancestors.last()?.switch;
        let parent = history.timeline_at(Lsn(switch.0.saturating_sub(1)));
        Some((parent, switch))
    }

    /// Up to where two timelines are the same: their last common timeline, and the position at
    /// which the first of them leaves it. Nothing where they have none in common.
    pub(crate) fn common(&self, one: TimelineId, other: TimelineId) -> Option<(TimelineId, Lsn)> {
        let (one, other) = (self.legs(one), self.legs(other));
        let mut common = None;
        for (a, b) in one.iter().zip(&other) {
            if a.0 != b.0 {
                break;
            }
            common = Some((a.0, a.1.min(b.1)));
            if a.1 != b.1 {
                break;
            }
        }
        common
    }

    /// The first timeline on the way to one after it has parted from another.
    pub(crate) fn first_apart(&self, one: TimelineId, other: TimelineId) -> TimelineId {
        let mut way = self.legs(one).into_iter().map(|(timeline, _)| timeline);
        if let Some((common, _)) = self.common(one, other) {
            way.find(|timeline| *timeline == common);
        }
        way.next().unwrap_or(one)
    }

    /// Where a timeline is left on the way to a descendant of it; nothing for others.
    pub(crate) fn left_at(&self, timeline: TimelineId, descendant: TimelineId) -> Option<Lsn> {
        let history = self.histories.get(&descendant)?;
        let is_on_way = history.contains(timeline) && self.agree(history, timeline);
        is_on_way.then(|| history.switch_of(timeline))?
    }

    /// Whether the ancestor that a history names is the archive's timeline of that number.
    fn agree(&self, history: &TimelineHistory, ancestor: TimelineId) -> bool {
        let own = self.histories.get(&ancestor);
        own.is_none_or(|own| agree(own, history))
    }

    /// Whether the archive's WAL of a timeline is on the way to another one that names it.
    pub(crate) fn is_on_way(&self, timeline: TimelineId, goal: TimelineId) -> bool {
        let history = self.histories.get(&goal).filter(|_| timeline != goal);
        history.is_none_or(|history| self.agree(history, timeline))
    }

    /// The timelines on the way to one, each with where it is left; those of which nothing is on
    /// the way are left out.
    fn legs(&self, timeline: TimelineId) -> Vec<(TimelineId, Lsn)> {
        let history = self.histories.get(&timeline).into_iter();
        let parts = history.flat_map(|history| history.parts());
        parts.chain([(timeline, Lsn(u64::MAX))]).collect()
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

    /// The timeline with the highest number, if that is above this one: numbers below it may have been set aside.
    pub(crate) fn highest_from(&self, start: TimelineId) -> TimelineId {
        let highest = self.histories.keys().next_back().copied();
        highest.map_or(start, |highest| highest.max(start))
    }

    /// Whether a history on `timeline` passes the position on `ancestor`, or is still on it.
    pub(crate) fn passes(&self, timeline: TimelineId, ancestor: TimelineId, at: Lsn) -> bool {
        if timeline == ancestor {
            return true;
        }
        let history = self.histories.get(&timeline);
        history
            .filter(|history| self.agree(history, ancestor))
            .and_then(|history| history.switch_of(ancestor))
            .is_some_and(|switch| at <= switch)
    }

    /// Whether a recovery to a timeline from one of these positions, on their timelines, comes through the fork there.
    pub(crate) fn need_fork(
        &self,
        timeline: TimelineId,
        fork: Lsn,
        mut from: impl Iterator<Item = (TimelineId, Lsn)>,
    ) -> bool {
        from.any(|(of, at)| at <= fork && self.passes(timeline, of, at))
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

/// Whether a timeline is the one that a later history names. Two servers may have taken the same number, one of which has
/// archived nothing of it: what was before is not the same then.
pub(crate) fn agree(timeline: &TimelineHistory, later: &TimelineHistory) -> bool {
    let before = later.parts();
    timeline
        .parts()
        .eq(before.take_while(|(part, _)| *part != timeline.timeline))
}

/// The history of a timeline, if it is archived.
pub(crate) async fn read_archived(
    repository: &Repository,
    timeline: TimelineId,
) -> Result<Option<TimelineHistory>, ArchiveError> {
    match timeline {
        FIRST_TIMELINE => Ok(None),
        _ => {
            let name = WalFileName::History(timeline).to_string();
            read_object(repository, &name, timeline).await
        }
    }
}

/// The timelines of which a listing has WAL, whole segments or partial ones.
pub(crate) fn with_wal(listing: &[WalEntry]) -> impl Iterator<Item = TimelineId> + '_ {
    listing.iter().filter_map(|entry| match entry.name.parse() {
        Ok(WalFileName::Segment(segment) | WalFileName::Partial(segment)) => Some(segment.timeline),
        _ => None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn timelines(histories: &[(u32, &str)]) -> Timelines {
        let mut timelines = Timelines::default();
        for (timeline, text) in histories {
            timelines.insert(TimelineId(*timeline), text.as_bytes());
        }
        timelines
    }

    fn common(timelines: &Timelines, one: u32, other: u32) -> Option<(u32, u64)> {
        let common = timelines.common(TimelineId(one), TimelineId(other));
        common.map(|(timeline, at)| (timeline.0, at.0))
    }

    #[test]
    fn finds_up_to_where_timelines_are_the_same() {
        let timelines = timelines(&[
            (2, "1\t0/500\tx\n"),
            (3, "1\t0/500\tx\n2\t0/900\tx\n"),
            (4, "1\t0/300\tx\n"),
            (5, "1\t0/500\tx\n2\t0/700\tx\n"),
        ]);
        assert_eq!(common(&timelines, 1, 2), Some((1, 0x500)));
        assert_eq!(common(&timelines, 2, 3), Some((2, 0x900)));
        assert_eq!(common(&timelines, 3, 4), Some((1, 0x300)));
        assert_eq!(common(&timelines, 3, 5), Some((2, 0x700)));
        assert_eq!(common(&timelines, 4, 1), Some((1, 0x300)));
        assert_eq!(common(&timelines, 6, 2), None);
    }

    /// A recovery along timeline 2 that stopped before 2 began.
    #[test]
    fn leaves_a_timeline_out_that_was_followed_and_not_reached() {
        let timelines = timelines(&[(2, "1\t0/500\tx\n"), (3, "1\t0/500\tx\n2\t0/300\tx\n")]);
        assert_eq!(common(&timelines, 2, 3), Some((1, 0x300)));
        let began = timelines.beginning(TimelineId(3));
        assert_eq!(began, Some((TimelineId(1), Lsn(0x300))));
        let alone = self::timelines(&[(3, "1\t0/500\tx\n2\t0/300\tx\n")]);
        let with_wal = [1, 3].map(TimelineId).into_iter();
        assert_eq!(alone.without_history(with_wal), []);
    }

    /// Another server had taken the number 2 as well, and has archived nothing before it was promoted once more.
    #[test]
    fn a_number_alone_makes_no_ancestor() {
        let own = [(2, "1\t0/900\tx\n"), (3, "1\t0/500\tx\n2\t0/700\tx\n")];
        let timelines = timelines(&own);
        let [second, third] = [2, 3].map(TimelineId);
        assert_eq!(timelines.left_at(second, third), None);
        assert_eq!(timelines.left_at(TimelineId(1), third), Some(Lsn(0x500)));
        assert!(!timelines.passes(third, second, Lsn(0x600)));
        assert!(!timelines.is_on_way(second, third));
        assert_eq!(common(&timelines, 2, 3), Some((1, 0x500)));
        let timelines = self::timelines(&[(2, "1\t0/500\tx\n"), own[1]]);
        assert_eq!(timelines.left_at(second, third), Some(Lsn(0x700)));
        assert!(timelines.passes(third, second, Lsn(0x600)));
        assert!(timelines.is_on_way(second, third) && timelines.is_on_way(third, third));
    }

    #[test]
    fn finds_the_first_timeline_that_another_one_lacks() {
        let timelines = timelines(&[
            (2, "1\t0/500\tx\n"),
            (3, "1\t0/500\tx\n2\t0/900\tx\n"),
            (4, "1\t0/300\tx\n"),
        ]);
        let apart = |one, other| timelines.first_apart(TimelineId(one), TimelineId(other)).0;
        assert_eq!([apart(3, 1), apart(3, 2), apart(3, 4)], [2, 3, 2]);
        assert_eq!([apart(4, 3), apart(1, 3)], [4, 1]);
    }

    #[test]
    fn misses_the_history_of_what_has_wal_or_a_descendant() {
        let timelines = timelines(&[(4, "1\t0/500\tx\n3\t0/900\tx\n")]);
        let missing = |with_wal: &[u32]| -> Vec<u32> {
            let with_wal = with_wal.iter().copied().map(TimelineId);
            let missing = timelines.without_history(with_wal);
            missing.iter().map(|timeline| timeline.0).collect()
        };
        assert_eq!(missing(&[1, 2, 4]), [2, 3]);
        assert_eq!(missing(&[1, 4]), [3]);
        assert_eq!(missing(&[4]), [0; 0], "the archive begins with it");
        assert_eq!(missing(&[]), [0; 0]);
    }
}
