//! Two repositories of one cluster, beside each other.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{AsideLabel, Repository, WalEntry};

use super::problem::{Problem, is_of_one_file};
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::{self, Timelines};
use crate::archived::wal_index;
use crate::error::ArchiveError;

/// The number of the segment that a file is, or begins in; none of a history.
pub(super) fn number(name: &WalFileName, segment_size: u32) -> Option<u64> {
    match *name {
        WalFileName::Segment(segment) | WalFileName::Partial(segment) => {
            segment.number(segment_size).ok()
        }
        WalFileName::BackupHistory { segment, .. } => segment.number(segment_size).ok(),
        WalFileName::History(_) => None,
    }
}

/// What is in both repositories.
pub(super) struct Both<'r> {
    pub(super) from: &'r Repository,
    pub(super) to: &'r Repository,
    pub(super) source: Vec<WalEntry>,
    pub(super) target: Vec<WalEntry>,
    /// Under which labels a name is set aside in the target.
    pub(super) aside: BTreeMap<String, Vec<AsideLabel>>,
    pub(super) histories: Timelines,
    pub(super) segment_size: u32,
}

impl<'r> Both<'r> {
    pub(super) async fn read(
        from: &'r Repository,
        to: &'r Repository,
    ) -> Result<Both<'r>, ArchiveError> {
        let (source, target) = (from.list_wal().await?, to.list_wal().await?);
        let segment_size = match wal_index::segment_size(from, &source).await? {
            Some(size) => size,
            None => wal_index::DEFAULT_SEGMENT_SIZE,
        };
        let mut histories = Timelines::read(from, &source).await;
        if let Some(failure) = histories.take_failure() {
            return Err(failure);
        }
        let mut aside: BTreeMap<String, Vec<AsideLabel>> = BTreeMap::new();
        for label in to.list_aside_labels().await? {
            for entry in to.list_aside_objects(label).await?.entries() {
                aside.entry(entry.name).or_default().push(label);
            }
        }
        Ok(Both {
            from,
            to,
            source,
            target,
            aside,
            histories,
            segment_size,
        })
    }

    /// The timelines of which nothing is brought over, and what descends from them. `away` are those of which the
    /// target has set aside the same.
    pub(super) async fn refused(
        &self,
        away: &BTreeSet<TimelineId>,
        problems: &mut Vec<Problem>,
    ) -> Result<BTreeSet<TimelineId>, ArchiveError> {
        let (ours, theirs) = (of_each(&self.target), of_each(&self.source));
        let mut refused = BTreeSet::new();
        for (&timeline, of_source) in &theirs {
            let problem = match ours.get(&timeline) {
                None if away.contains(&timeline) => Some(Problem::new(
                    WalFileName::History(timeline),
                    "this timeline was set aside in the repository: set it aside in the other one \
                     too, or put it back",
                )),
                None => None,
                Some(of_target) => self.difference(timeline, of_source, of_target).await?,
            };
            if let Some(problem) = problem {
                problems.push(problem);
                refused.insert(timeline);
            }
        }
        // Without its history, a timeline's WAL keeps every restore back.
        let lost = self
            .histories
            .without_history(timelines::with_wal(&self.source));
        for timeline in lost {
            let history = WalFileName::History(timeline);
            let name = history.to_string();
            if !self.target.iter().any(|entry| entry.name == name) && refused.insert(timeline) {
                problems.push(Problem::new(
                    history,
                    "it is missing or damaged: nothing of its timeline is brought over",
                ));
            }
        }
        for timeline in self.histories.known() {
            let ancestors = self.histories.history(timeline).into_iter();
            let ancestors = ancestors.flat_map(|history| history.parts());
            let is_refused = |timeline: &TimelineId| refused.contains(timeline);
            let mut ancestors = ancestors.map(|(ancestor, _)| ancestor).filter(is_refused);
            if let (Some(ancestor), false) = (ancestors.next(), refused.contains(&timeline)) {
                problems.push(Problem::new(
                    WalFileName::History(timeline),
                    format_args!("it descends from timeline {ancestor}, which is not brought over"),
                ));
                refused.insert(timeline);
            }
        }
        Ok(refused)
    }

    /// Why a timeline is not the same in both: by its history, by the newest segment that both have, and by those
    /// beside what is lacked.
    async fn difference(
        &self,
        timeline: TimelineId,
        of_source: &BTreeSet<&str>,
        of_target: &BTreeSet<&str>,
    ) -> Result<Option<Problem>, ArchiveError> {
        let history = WalFileName::History(timeline).to_string();
        let is_common = |name: &&str| of_target.contains(name);
        let segments: Vec<&str> = of_source
            .iter()
            .copied()
            .filter(|name| *name != history)
            .collect();
        let newest = segments.iter().copied().rfind(is_common);
        let beside = segments.windows(2).filter_map(|pair| match pair {
            [one, other] if is_common(one) != is_common(other) => {
                Some(if is_common(one) { *one } else { *other })
            }
            _ => None,
        });
        let of_timeline = of_source.get(history.as_str()).copied().filter(is_common);
        let compared: BTreeSet<&str> = beside.chain(newest).chain(of_timeline).collect();
        for name in compared {
            match self.is_same(name).await {
                Ok(true) => {}
                Ok(false) => {
                    return Ok(Some(Problem::new(
                        name,
                        "the repositories have different content under this name: nothing of its \
                         timeline is brought over",
                    )));
                }
                Err(error) if is_of_one_file(&error) => {
                    return Ok(Some(Problem::new(
                        name,
                        format_args!("nothing of its timeline is brought over: {error}"),
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether both have the same content under a name, however it was encoded.
    async fn is_same(&self, name: &str) -> Result<bool, ArchiveError> {
        // Removed meanwhile: there is nothing to compare.
        let Some(one) = StoredWal::get(self.from, name).await? else {
            return Ok(true);
        };
        // There is one decoder of packs: what is in one is decoded before anything else is asked for.
        let StoredWal::Single(object) = one else {
            let one = one.content_hash(name).await?;
            let other = content_hash(self.to, name).await?;
            return Ok(other.is_none_or(|other| one == other));
        };
        let Some(other) = StoredWal::get(self.to, name).await? else {
            return Ok(true);
        };
        if matches!(&other, StoredWal::Single(other) if *other == object) {
            return Ok(true);
        }
        let other = other.content_hash(name).await?;
        Ok(StoredWal::Single(object).content_hash(name).await? == other)
    }
}

/// The whole segments of each timeline, and its history.
pub(super) fn of_each(listing: &[WalEntry]) -> BTreeMap<TimelineId, BTreeSet<&str>> {
    let mut timelines: BTreeMap<TimelineId, BTreeSet<&str>> = BTreeMap::new();
    for entry in listing {
        let name = entry.name.parse();
        if let Ok(name @ (WalFileName::Segment(_) | WalFileName::History(_))) = name {
            let of_timeline = timelines.entry(name.timeline()).or_default();
            of_timeline.insert(entry.name.as_str());
        }
    }
    timelines
}

/// BLAKE3 of what is archived under a name, all of which is decoded.
pub(super) async fn content_hash(
    repository: &Repository,
    name: &str,
) -> Result<Option<blake3::Hash>, ArchiveError> {
    match StoredWal::get(repository, name).await? {
        Some(stored) => stored.content_hash(name).await.map(Some),
        None => Ok(None),
    }
}
