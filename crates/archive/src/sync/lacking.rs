//! What is to be brought to a repository.
//!
//! Not everything that it lacks: what an expiry has removed would be removed again, and a dead branch
//! that it has removed would be taken for the newest one. WAL of two branches under one number would
//! be mixed. And what was set aside in the repository has to stay away.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{AsideLabel, Repository, WalEntry};

use super::aside::Aside;
use super::problem::{Problem, is_of_one_file};
use crate::backup_record::{BackupRecord, ListedBackup};
use crate::error::ArchiveError;
use crate::stored_wal::StoredWal;
use crate::timelines::{self, Timelines};
use crate::{pins, wal_index};

/// What one repository has and the other one lacks.
#[derive(Default)]
pub(super) struct Lacking {
    pub(super) histories: Vec<WalEntry>,
    /// Oldest first.
    pub(super) others: Vec<WalEntry>,
    pub(super) not_retained: u64,
    pub(super) problems: Vec<Problem>,
}

impl Lacking {
    pub(super) async fn find(
        from: &Repository,
        to: &Repository,
        with_pinned: bool,
    ) -> Result<Lacking, ArchiveError> {
        let both = Both::read(from, to).await?;
        let mut lacking = Lacking::default();
        let refused = both.refused(&mut lacking.problems).await?;
        let retained = Retained::read(&both, with_pinned).await?;
        let there: HashSet<&str> = both
            .target
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let aside = Aside::compare(&both, (&there, &refused), &mut lacking.problems).await?;
        let mut others: BTreeMap<(u64, &str), &WalEntry> = BTreeMap::new();
        let is_there = |entry: &&WalEntry| there.contains(entry.name.as_str());
        for entry in both.source.iter().filter(|entry| !is_there(entry)) {
            let Ok(name) = entry.name.parse::<WalFileName>() else {
                continue;
            };
            let number = number(&name, both.segment_size);
            if refused.contains(&name.timeline()) || aside.keeps_away(entry, &name, number) {
                continue;
            }
            match number {
                None => lacking.histories.push(entry.clone()),
                Some(number) if retained.has(&both, entry, name.timeline(), number) => {
                    others.insert((number, &entry.name), entry);
                }
                Some(_) => lacking.not_retained += 1,
            }
        }
        lacking.others = others.into_values().cloned().collect();
        Ok(lacking)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &WalEntry> {
        self.histories.iter().chain(&self.others)
    }
}

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
    target: Vec<WalEntry>,
    /// What is set aside in the target, by name.
    pub(super) aside: BTreeMap<String, AsideLabel>,
    histories: Timelines,
    pub(super) segment_size: u32,
}

impl<'r> Both<'r> {
    async fn read(from: &'r Repository, to: &'r Repository) -> Result<Both<'r>, ArchiveError> {
        let (source, target) = (from.list_wal().await?, to.list_wal().await?);
        let segment_size = match wal_index::segment_size(from, &source).await? {
            Some(size) => size,
            None => wal_index::DEFAULT_SEGMENT_SIZE,
        };
        let mut histories = Timelines::read(from, &source).await;
        if let Some(failure) = histories.take_failure() {
            return Err(failure);
        }
        let mut aside = BTreeMap::new();
        for label in to.list_aside_labels().await? {
            let listing = to.list_aside_objects(label).await?.entries();
            aside.extend(listing.into_iter().map(|entry| (entry.name, label)));
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

    /// The timelines of which nothing is brought over, and what descends from them.
    async fn refused(
        &self,
        problems: &mut Vec<Problem>,
    ) -> Result<BTreeSet<TimelineId>, ArchiveError> {
        let (ours, theirs) = (of_each(&self.target), of_each(&self.source));
        let names = self.aside.keys().filter_map(|name| name.parse().ok());
        let aside: BTreeSet<TimelineId> = names.map(|name: WalFileName| name.timeline()).collect();
        let mut refused = BTreeSet::new();
        for (&timeline, of_source) in &theirs {
            let problem = match ours.get(&timeline) {
                None if aside.contains(&timeline) => Some(Problem::new(
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
            let ancestors = ancestors.flat_map(|history| &history.ancestors);
            let is_refused = |timeline: &TimelineId| refused.contains(timeline);
            let mut ancestors = ancestors
                .map(|ancestor| ancestor.timeline)
                .filter(is_refused);
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

    /// Why a timeline is not the same in both: by its history, and by the newest segment that both
    /// have.
    async fn difference(
        &self,
        timeline: TimelineId,
        of_source: &BTreeSet<&str>,
        of_target: &BTreeSet<&str>,
    ) -> Result<Option<Problem>, ArchiveError> {
        let history = WalFileName::History(timeline).to_string();
        let common = of_source.intersection(of_target).copied();
        let newest = common.clone().filter(|name| *name != history).last();
        for name in newest
            .into_iter()
            .chain(common.filter(|name| *name == history))
        {
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
        let objects = (self.from.get_wal(name).await?, self.to.get_wal(name).await?);
        if let (Some(one), Some(other)) = objects
            && one == other
        {
            return Ok(true);
        }
        let one = content_hash(self.from, name).await?;
        let other = content_hash(self.to, name).await?;
        // Removed meanwhile: there is nothing to compare.
        Ok(one.zip(other).is_none_or(|(one, other)| one == other))
    }
}

/// The whole segments of each timeline, and its history.
fn of_each(listing: &[WalEntry]) -> BTreeMap<TimelineId, BTreeSet<&str>> {
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

pub(super) async fn content_hash(
    repository: &Repository,
    name: &str,
) -> Result<Option<blake3::Hash>, ArchiveError> {
    match StoredWal::get(repository, name).await? {
        Some(stored) => stored.content_hash(name).await.map(Some),
        None => Ok(None),
    }
}

/// What an expiry would leave in the target, by the rules of [`expire`](crate::expire).
enum Retained {
    /// There is no backup: what is not older than the oldest WAL.
    From(u64),
    /// What a backup can be replayed through, and what was archived after the oldest of them began.
    Backups(Vec<BackupRecord>),
}

impl Retained {
    async fn read(both: &Both<'_>, with_pinned: bool) -> Result<Retained, ArchiveError> {
        let mut backups = Vec::new();
        let mut is_readable = true;
        // What those need that count, and those that do not. They need older ones.
        let (mut needed, mut needed_by_pins) = (HashSet::new(), HashSet::new());
        for ListedBackup { label, read } in ListedBackup::all(both.to).await?.into_iter().rev() {
            let Ok(record) = read else {
                is_readable = false;
                continue;
            };
            if record.cluster() != Some(both.to.cluster()) {
                continue;
            }
            let is_needed = with_pinned || needed.contains(label.as_str());
            let is_for_pins = !is_needed
                && (needed_by_pins.contains(label.as_str())
                    || pins::of(both.to, &label).await?.is_some());
            let counts = !is_for_pins || both.is_followed(&record)?;
            let of_these = match counts {
                true => &mut needed,
                false => &mut needed_by_pins,
            };
            of_these.extend(record.references.iter().cloned());
            if counts {
                backups.push(record);
            }
        }
        if is_readable && !backups.is_empty() {
            return Ok(Retained::Backups(backups));
        }
        let names = both
            .target
            .iter()
            .filter_map(|entry| entry.name.parse().ok());
        let numbers = names.filter_map(|name| number(&name, both.segment_size));
        Ok(Retained::From(numbers.min().unwrap_or(0)))
    }

    fn has(&self, both: &Both<'_>, entry: &WalEntry, timeline: TimelineId, number: u64) -> bool {
        let backups = match self {
            Retained::From(first) => return number >= *first,
            Retained::Backups(backups) => backups,
        };
        let archived = Timestamp::try_from(entry.modified).unwrap_or(Timestamp::MAX);
        let oldest = backups.iter().map(|backup| backup.start.time).min();
        let is_recent = oldest.is_some_and(|oldest| archived >= oldest);
        let passes = |of, at| both.histories.passes(timeline, of, at);
        let follows =
            |backup: &&BackupRecord| number >= backup.start.lsn.0 / u64::from(both.segment_size);
        let reaches = |backup: &BackupRecord| {
            passes(backup.stop.timeline, backup.stop.lsn)
                || passes(backup.start.timeline, backup.start.lsn)
        };
        let mut followed = backups.iter().filter(follows).peekable();
        followed.peek().is_some() && (is_recent || followed.any(reaches))
    }
}

impl Both<'_> {
    /// Whether the target has the segment after those that a backup needs. An expiry that keeps the
    /// backup for a pin alone, its own or that of one that needs it, removes it.
    fn is_followed(&self, record: &BackupRecord) -> Result<bool, ArchiveError> {
        let required = record.required_segments()?;
        let Some(last) = required.last() else {
            return Ok(true);
        };
        let next = last.number(self.segment_size)? + 1;
        let size = self.segment_size;
        let is_next = |entry: &WalEntry| match entry.name.parse() {
            Ok(WalFileName::Segment(segment)) => segment.number(size) == Ok(next),
            _ => false,
        };
        Ok(self.target.iter().any(is_next))
    }
}
