//! Which timeline a restore follows when nobody says so.
//!
//! PostgreSQL's `latest` is the highest number in the archive, whoever made it: a copy of the
//! cluster that was promoted for an hour wins over the production that it was copied from. Here
//! the timeline that was **born last** by the target's moment is followed, and only if nothing
//! else was alive when it was born. Alive is a timeline with a commit or a backup of its own
//! after that. Two that were alive at the same time are two clusters, and which of them is meant
//! is not ours to guess. One that was promoted several times since the two parted was born by the first of them.
//!
//! The clocks of two servers may be hours apart, so the store's clock, which is one, has a say too: a timeline
//! was alive as well if its last commit is later than the moment at which the first file of the other one was stored.

mod life;
mod put_away;

use std::sync::Arc;

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

pub(crate) use self::life::Life;
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::remembered_times;
use crate::archived::stored_times::StoredTimes;
use crate::archived::timelines::Timelines;
use crate::archived::wal_times::SegmentTimes;
use crate::backups::backup_record::{BackupRecord, Moment};
use crate::error::ArchiveError;
use crate::error::other_branch::{OtherBranch, PutAway};
use crate::packs::is_damage;

/// How many segments are searched for the beginning of a timeline; an expiry keeps them.
pub(crate) const BEGINNING_SEGMENTS: usize = 2;

/// How many segments before a fork are searched for a time.
const SEGMENTS_SEARCHED: usize = 64;

/// What a backup says of branches.
pub(crate) trait BranchBackup {
    /// Where it ended.
    fn stop(&self) -> Moment;
    /// Whether it is worth nothing without a segment.
    fn requires(&self, segment: SegmentName) -> bool;
}

impl BranchBackup for BackupRecord {
    fn stop(&self) -> Moment {
        self.stop
    }

    fn requires(&self, segment: SegmentName) -> bool {
        let mut ranges = self.required_wal.iter();
        ranges.any(|range| range.first_segment <= segment && segment <= range.last_segment)
    }
}

/// Everything that tells one branch from another.
pub(crate) struct Branches<'a, B> {
    pub(crate) repository: &'a Repository,
    pub(crate) timelines: &'a Timelines,
    pub(crate) wal: &'a ArchivedWal,
    pub(crate) backups: &'a [B],
    pub(crate) stored: &'a StoredTimes,
}

/// The timeline to follow.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) timeline: TimelineId,
    /// How it is put away, should it be the one that was abandoned.
    pub(crate) put_away: PutAway,
    /// When it was born, if it was born by leaving another.
    pub(crate) born: Option<Timestamp>,
    /// Timelines that were alive when it was born: two clusters wrote at the same time.
    pub(crate) competing: Vec<OtherBranch>,
    /// Timelines that descend from it, of which only the history is archived: what it has after they parted may be an
    /// older server's.
    pub(crate) begun: Vec<OtherBranch>,
    /// Timelines with commits that it lacks, which had ended when it was born.
    pub(crate) superseded: Vec<OtherBranch>,
}

impl Choice {
    /// A timeline that was asked for, and no other.
    pub(crate) fn told(timeline: TimelineId) -> Choice {
        Choice {
            timeline,
            put_away: PutAway::ALONE,
            born: None,
            competing: Vec::new(),
            begun: Vec::new(),
            superseded: Vec::new(),
        }
    }
}

impl<B: BranchBackup> Branches<'_, B> {
    /// Chooses among `candidates`; with a moment, among those that were born by then. Nothing
    /// where no candidate has WAL or a backup.
    pub(crate) async fn choose(
        &self,
        candidates: &[TimelineId],
        moment: Option<Timestamp>,
    ) -> Result<Option<Choice>, ArchiveError> {
        let mut born = Vec::new();
        for &timeline in candidates {
            if !self.has_content(timeline) {
                continue;
            }
            let birth = self.birth(timeline).await?;
            if moment.is_none_or(|moment| birth.is_none_or(|birth| birth <= moment)) {
                born.push((birth, timeline));
            }
        }
        let begun = self.begun(candidates, &born, moment).await?;
        let youngest = youngest(self.timelines, &born);
        let after = youngest.and_then(|(_, youngest)| self.last_after(youngest, &begun));
        // Where nothing says which of those without WAL went on, the others are beside the last one.
        let last = after.or(begun.last().copied().filter(|_| youngest.is_none()));
        let (birth, newest) = match (last, youngest) {
            (Some(last), _) => (None, last),
            (None, Some(youngest)) => youngest,
            (None, None) => return Ok(None),
        };
        let beside = begun.iter().filter(|&&other| other != newest);
        let mut choice = Choice {
            put_away: self.put_away(newest, None)?,
            born: birth,
            competing: beside
                .filter_map(|&other| self.beside(newest, other))
                .collect(),
            ..Choice::told(newest)
        };
        for &(_, timeline) in born.iter().filter(|(_, timeline)| *timeline != newest) {
            self.compare(timeline, &mut choice).await?;
        }
        Ok(Some(choice))
    }

    /// The last of those that descend from a timeline.
    fn last_after(&self, timeline: TimelineId, begun: &[TimelineId]) -> Option<TimelineId> {
        let mut newest_first = begun.iter().rev().copied();
        newest_first.find(|&begun| self.timelines.left_at(timeline, begun).is_some())
    }

    /// The same among those that have WAL or a backup.
    pub(crate) async fn choose_with_wal(
        &self,
        candidates: &[TimelineId],
    ) -> Result<Option<Choice>, ArchiveError> {
        let with_wal: Vec<TimelineId> = self.with_content(candidates).collect();
        self.choose(&with_wal, None).await
    }

    /// Adds the timelines to a choice with WAL that have begun and have no WAL yet.
    pub(crate) async fn add_begun(
        &self,
        candidates: &[TimelineId],
        choice: &mut Choice,
    ) -> Result<(), ArchiveError> {
        let mut born = Vec::new();
        for timeline in self.with_content(candidates) {
            born.push((self.birth(timeline).await?, timeline));
        }
        for begun in self.begun(candidates, &born, None).await? {
            let mut other = Choice::told(begun);
            self.compare(choice.timeline, &mut other).await?;
            let descends = self.last_after(choice.timeline, &[begun]).is_some();
            let beside = self.beside(choice.timeline, begun);
            match descends && other.competing.is_empty() {
                true => choice.begun.extend(beside),
                false => choice.competing.extend(beside),
            }
        }
        Ok(())
    }

    fn with_content<'c>(
        &'c self,
        candidates: &'c [TimelineId],
    ) -> impl Iterator<Item = TimelineId> + 'c {
        let candidates = candidates.iter().copied();
        candidates.filter(|&timeline| self.has_content(timeline))
    }

    /// Adds another timeline with WAL or a backup to a choice, if it was alive after they parted. It competes if it still
    /// was after the other one's first own timeline was born.
    async fn compare(&self, timeline: TimelineId, choice: &mut Choice) -> Result<(), ArchiveError> {
        let newest = choice.timeline;
        let first = self.timelines.first_apart(newest, timeline);
        let birth = self.birth(first).await?;
        let common = self.timelines.common(timeline, newest);
        let parted_at = common.map(|(_, at)| at).unwrap_or_default();
        let (life, written) = self.life_with_segment(timeline, parted_at, birth).await?;
        let last = match life {
            Life::Until(time) => Some(time),
            Life::Over | Life::Unknown => None,
        };
        let is_parent = common.is_some_and(|(last_common, _)| last_common == timeline);
        let needed_by_child = match is_parent {
            true => self.needed_by_child(parted_at, newest)?,
            false => None,
        };
        let put_away = match (needed_by_child, is_parent) {
            (Some(own), _) => PutAway::After(own),
            (None, true) => self.put_away(timeline, Some(self.own_from(timeline, parted_at)?))?,
            (None, false) => self.put_away(timeline, None)?,
        };
        let branch = OtherBranch {
            timeline,
            parted_at,
            put_away,
            is_begun: false,
            last,
        };
        let had_ended = match (life, birth) {
            (Life::Over, _) => return Ok(()),
            (Life::Until(last), Some(birth)) if last < birth => {
                !self
                    .went_on((&branch, last, written), (first, birth))
                    .await?
            }
            // Its beginning is not there any more to tell. Where no backup leads, nobody can go; but it went on.
            (Life::Until(last), None) => {
                !self.is_reached(timeline) && self.last_backup_of(newest) > Some(last)
            }
            _ => false,
        };
        match had_ended {
            true => choice.superseded.push(branch),
            false => choice.competing.push(branch),
        }
        Ok(())
    }

    /// Timelines of which only the history is archived, and which no other one has left: their first segments are not
    /// full yet, or they were given up. Which of the two, the archive does not say.
    async fn begun(
        &self,
        candidates: &[TimelineId],
        born: &[(Option<Timestamp>, TimelineId)],
        moment: Option<Timestamp>,
    ) -> Result<Vec<TimelineId>, ArchiveError> {
        let mut begun = Vec::new();
        for &timeline in candidates {
            if self.has_content(timeline) || self.timelines.history(timeline).is_none() {
                continue;
            }
            let is_begun = match moment {
                Some(moment) => self.parted_before(timeline, moment).await?,
                None => true,
            };
            if is_begun {
                begun.push(timeline);
            }
        }
        let all = begun
            .iter()
            .chain(born.iter().map(|(_, timeline)| timeline));
        let all: Vec<TimelineId> = all.copied().collect();
        begun.retain(|&timeline| {
            let mut others = all.iter();
            !others.any(|&other| self.timelines.left_at(timeline, other).is_some())
        });
        // What was written to one that was left within its first segment is in the segment of the one that left it.
        let mut begun: Vec<TimelineId> = begun
            .into_iter()
            .map(|timeline| self.last_with_content(timeline, candidates))
            .collect();
        begun.sort_unstable();
        begun.dedup();
        Ok(begun)
    }

    /// The timeline with WAL that has most of one without, if there is any; otherwise that one.
    fn last_with_content(&self, timeline: TimelineId, candidates: &[TimelineId]) -> TimelineId {
        let with_wal = self.with_content(candidates);
        let left_at = |other| self.timelines.left_at(timeline, other);
        let descendants = with_wal.filter_map(|other| Some((left_at(other)?, other)));
        descendants.max().map_or(timeline, |(_, last)| last)
    }

    /// Whether a timeline without WAL had left its parent by a moment, as far as is known: the last time in the WAL before
    /// that is older.
    async fn parted_before(
        &self,
        timeline: TimelineId,
        moment: Timestamp,
    ) -> Result<bool, ArchiveError> {
        let Some((parent, switch)) = self.timelines.beginning(timeline) else {
            return Ok(true);
        };
        let way = self.wal.way(self.timelines, parent);
        let last = self.wal.number_at(Lsn(switch.0.saturating_sub(1)));
        for number in (0..=last).rev().take(SEGMENTS_SEARCHED) {
            let segment = way.segment(number)?;
            if !self.wal.missing(&[segment])?.is_empty() {
                continue;
            }
            let times = readable(self.times(segment).await)?;
            let before = times.and_then(|times| times.last_before(switch));
            if let Some(before) = before {
                return Ok(before < moment);
            }
        }
        Ok(true)
    }

    /// Whether a recovery can come to a timeline.
    fn is_reached(&self, timeline: TimelineId) -> bool {
        let mut stops = self.backups.iter().map(BranchBackup::stop);
        stops.any(|stop| self.timelines.passes(timeline, stop.timeline, stop.lsn))
    }

    /// When the last backup ended from which a recovery can come to a timeline.
    fn last_backup_of(&self, timeline: TimelineId) -> Option<Timestamp> {
        let stops = self.backups.iter().map(BranchBackup::stop);
        let leading = stops.filter(|stop| self.timelines.passes(timeline, stop.timeline, stop.lsn));
        leading.map(|stop| stop.time).max()
    }

    /// What a segment says of time.
    async fn times(&self, segment: SegmentName) -> Result<Arc<SegmentTimes>, ArchiveError> {
        let stored = self.stored.latest_of(segment);
        remembered_times::times(self.repository, segment, stored).await
    }

    /// A timeline that has no WAL yet, beside another one.
    fn beside(&self, timeline: TimelineId, begun: TimelineId) -> Option<OtherBranch> {
        let (_, parted_at) = self.timelines.common(timeline, begun)?;
        Some(OtherBranch {
            timeline: begun,
            parted_at,
            put_away: self.put_away(begun, None).ok()?,
            is_begun: !self.has_content(begun),
            last: None,
        })
    }

    fn has_content(&self, timeline: TimelineId) -> bool {
        self.wal.numbers_from(timeline, 0).next().is_some()
            || self
                .backups
                .iter()
                .any(|backup| backup.stop().timeline == timeline)
    }

    /// When a timeline left its parent, by its own first record. `None` for one without a parent,
    /// and where its beginning cannot be read: it then counts as there from the start.
    pub(crate) async fn birth(
        &self,
        timeline: TimelineId,
    ) -> Result<Option<Timestamp>, ArchiveError> {
        let Some((_, switch)) = self.timelines.beginning(timeline) else {
            return Ok(None);
        };
        let first = self.wal.number_at(switch);
        let own = self.wal.numbers_from(timeline, first);
        let mut segments = Vec::new();
        for number in own.take(BEGINNING_SEGMENTS) {
            segments.push(self.wal.name(timeline, number)?);
        }
        // What was left within its first segment has that in a copy of its descendant.
        let copies = self.timelines.known().find(|&other| {
            self.timelines.left_at(timeline, other).is_some() && self.wal.has(other, first)
        });
        if let Some(descendant) = copies.filter(|_| segments.is_empty()) {
            segments.push(self.wal.name(descendant, first)?);
        }
        for segment in segments {
            let Some(times) = readable(self.times(segment).await)? else {
                return Ok(None);
            };
            if let Some(beginning) = times.beginning(timeline) {
                return Ok(beginning.time());
            }
        }
        Ok(None)
    }
}

/// The timeline that was born last. Whatever its clock said, a child is younger than its parents.
fn youngest(
    timelines: &Timelines,
    born: &[(Option<Timestamp>, TimelineId)],
) -> Option<(Option<Timestamp>, TimelineId)> {
    let age = |&&(birth, timeline): &&(Option<Timestamp>, TimelineId)| {
        let parents = born.iter().filter(|(_, other)| {
            let common = timelines.common(*other, timeline);
            common.is_some_and(|(last_common, _)| last_common == *other)
        });
        let of_parents = parents.filter_map(|(birth, _)| *birth).max();
        (birth.max(of_parents), timeline)
    };
    born.iter().max_by_key(age).copied()
}

/// What a segment says; nothing for one that is damaged, which `verify` reports.
pub(crate) fn readable<T>(read: Result<T, ArchiveError>) -> Result<Option<T>, ArchiveError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_damage(&error) => {
            tracing::warn!("{error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_younger_than_its_parents_whatever_the_clock_said() {
        let mut timelines = Timelines::default();
        for (timeline, history) in [
            (2, "1\t0/500\tx\n"),
            (3, "1\t0/500\tx\n2\t0/900\tx\n"),
            (4, "1\t0/700\tx\n"),
        ] {
            timelines.insert(TimelineId(timeline), history.as_bytes());
        }
        let youngest_of = |births: &[(u32, i64)]| {
            let born: Vec<_> = births
                .iter()
                .map(|&(timeline, second)| {
                    let birth =
                        (second > 0).then(|| Timestamp::from_second(second).expect("a time"));
                    (birth, TimelineId(timeline))
                })
                .collect();
            youngest(&timelines, &born).map(|(_, timeline)| timeline.0)
        };
        assert_eq!(youngest_of(&[]), None);
        assert_eq!(youngest_of(&[(1, 0), (2, 50), (3, 60)]), Some(3));
        // The second was born by a clock that was ahead, the fourth is no child of it.
        assert_eq!(youngest_of(&[(1, 0), (2, 90), (3, 60)]), Some(3));
        assert_eq!(youngest_of(&[(1, 0), (2, 90), (3, 60), (4, 70)]), Some(3));
        assert_eq!(youngest_of(&[(1, 0), (2, 50), (3, 60), (4, 70)]), Some(4));
    }
}
