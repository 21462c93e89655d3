//! `sync`: what a repository lacks of the WAL that another one of the same cluster has.
//!
//! A repository that could not be reached, or that joined later, has holes. What fills them is
//! proven by decoding before it is put, and nothing is ever replaced. Three things are left alone:
//! WAL that is older than what the repository keeps, which was expired; timelines that were set
//! aside in it; and timelines that are not the same in both, which are told.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use futures::StreamExt;
use serde::Serialize;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{RepoError, Repository, WalEntry};

use crate::backup_record::ListedBackup;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::{coding, pins, wal_index, wal_object};

/// How to bring a repository up to date.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// How many objects are on their way at once.
    pub parallel: usize,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

/// What came of it, for one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Synced {
    /// The cluster, as `15-7575000000000000001`.
    pub cluster: String,
    /// WAL files that were put.
    pub wal_files: u64,
    /// Their bytes as they are stored.
    pub stored_bytes: u64,
    /// Files that are older than what the repository keeps.
    pub older: u64,
    /// What could not be brought over, and why.
    pub problems: Vec<Problem>,
}

/// Something that could not be brought over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The WAL file's name.
    pub name: String,
    /// What is wrong.
    pub detail: String,
}

/// Brings `to` what it lacks of the WAL in `from`: of each cluster that both have.
pub async fn sync(
    from: &Repository,
    to: &Repository,
    options: &SyncOptions,
) -> Result<Vec<Synced>, ArchiveError> {
    let (sources, targets) = (from.read_clusters().await?, to.read_clusters().await?);
    let mut all = Vec::new();
    for to in &targets.parts {
        let same = |from: &&Repository| from.cluster() == to.cluster();
        if let Some(from) = sources.parts.iter().find(same) {
            all.push(sync_cluster(from, to, options).await?);
        }
    }
    match all.is_empty() {
        false => Ok(all),
        true => Err(ArchiveError::Request(
            "the repositories have no cluster in common".to_owned(),
        )),
    }
}

async fn sync_cluster(
    from: &Repository,
    to: &Repository,
    options: &SyncOptions,
) -> Result<Synced, ArchiveError> {
    let mut missing = Missing::find(from, to).await?;
    let bytes = missing.all().map(|entry| entry.size_bytes).sum();
    options.progress.begin(Phase::Synchronizing, bytes);
    let mut synced = Synced {
        cluster: to.cluster().name(),
        wal_files: 0,
        stored_bytes: 0,
        older: missing.older,
        problems: std::mem::take(&mut missing.problems),
    };
    // A timeline's segments are of no use without its history.
    for entries in [&missing.histories, &missing.others] {
        let copies = entries.iter().map(|entry| copy(from, to, &entry.name));
        let mut copies = futures::stream::iter(copies).buffered(options.parallel.max(1));
        let mut entries = entries.iter();
        while let (Some(copied), Some(entry)) = (copies.next().await, entries.next()) {
            options.progress.add(entry.size_bytes);
            match copied {
                Ok(()) => {
                    synced.wal_files += 1;
                    synced.stored_bytes += entry.size_bytes;
                }
                Err(error) if is_of_one_file(&error) => synced.problems.push(Problem {
                    name: entry.name.clone(),
                    detail: error.to_string(),
                }),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(synced)
}

/// What one repository has and the other one lacks.
#[derive(Default)]
struct Missing {
    histories: Vec<WalEntry>,
    /// Oldest first.
    others: Vec<WalEntry>,
    older: u64,
    problems: Vec<Problem>,
}

impl Missing {
    async fn find(from: &Repository, to: &Repository) -> Result<Missing, ArchiveError> {
        let (source, target) = (from.list_wal().await?, to.list_wal().await?);
        let segment_size = match wal_index::segment_size(from, &source).await? {
            Some(size) => size,
            None => wal_index::DEFAULT_SEGMENT_SIZE,
        };
        let kept_from = kept_from(to, &target, segment_size).await?;
        let mut missing = Missing::default();
        let refused = missing.refuse_timelines(from, to, &source, &target).await?;
        let there: HashSet<&str> = target.iter().map(|entry| entry.name.as_str()).collect();
        let lacked = source
            .into_iter()
            .filter(|entry| !there.contains(entry.name.as_str()));
        let mut others: BTreeMap<(u64, String), WalEntry> = BTreeMap::new();
        for entry in lacked {
            let Ok(name) = entry.name.parse::<WalFileName>() else {
                continue;
            };
            if refused.contains(&name.timeline()) {
                continue;
            }
            match number(&name, segment_size) {
                None => missing.histories.push(entry),
                Some(number) if number < kept_from => missing.older += 1,
                Some(number) => {
                    others.insert((number, entry.name.clone()), entry);
                }
            }
        }
        missing.others = others.into_values().collect();
        Ok(missing)
    }

    fn all(&self) -> impl Iterator<Item = &WalEntry> {
        self.histories.iter().chain(&self.others)
    }

    /// The timelines of which nothing is brought over: WAL of two branches under one number would
    /// be mixed.
    async fn refuse_timelines(
        &mut self,
        from: &Repository,
        to: &Repository,
        source: &[WalEntry],
        target: &[WalEntry],
    ) -> Result<BTreeSet<TimelineId>, ArchiveError> {
        let mut refused = BTreeSet::new();
        let aside = timelines_aside(to).await?;
        let (ours, theirs) = (newest_of_each(target), newest_of_each(source));
        for (&timeline, of) in &theirs {
            let of_target = ours.get(&timeline);
            let history = WalFileName::History(timeline).to_string();
            if aside.contains(&timeline) && of_target.is_none() {
                self.refuse(
                    &history,
                    "this timeline was set aside in the repository: set it aside in the other one \
                     too, or put it back",
                );
                refused.insert(timeline);
                continue;
            }
            let Some(of_target) = of_target else { continue };
            let common = of.iter().rev().find(|name| of_target.contains(*name));
            let has_history = of.contains(history.as_str()) && of_target.contains(history.as_str());
            let compared = common.copied().into_iter();
            for name in compared.chain(has_history.then_some(history.as_str())) {
                if !is_same(from, to, name).await? {
                    self.refuse(
                        name,
                        "the repositories have different content under this name: nothing of its \
                         timeline is brought over",
                    );
                    refused.insert(timeline);
                    break;
                }
            }
        }
        Ok(refused)
    }

    fn refuse(&mut self, name: &str, why: &str) {
        self.problems.push(Problem {
            name: name.to_owned(),
            detail: why.to_owned(),
        });
    }
}

/// The number of the segment that a file is, or begins in; none of a history.
fn number(name: &WalFileName, segment_size: u32) -> Option<u64> {
    match *name {
        WalFileName::Segment(segment) | WalFileName::Partial(segment) => {
            segment.number(segment_size).ok()
        }
        WalFileName::BackupHistory { segment, .. } => segment.number(segment_size).ok(),
        WalFileName::History(_) => None,
    }
}

/// From where on a repository keeps its WAL: from the start of the oldest backup that a retention
/// keeps. Without a backup, from the oldest WAL that it has.
async fn kept_from(
    to: &Repository,
    listing: &[WalEntry],
    segment_size: u32,
) -> Result<u64, ArchiveError> {
    let mut oldest = None;
    for ListedBackup { label, read } in ListedBackup::all(to).await? {
        let Ok(record) = read else { continue };
        if record.cluster() != Some(to.cluster()) || pins::of(to, &label).await?.is_some() {
            continue;
        }
        let number = record.start.lsn.0 / u64::from(record.segment_size_bytes);
        oldest = Some(oldest.map_or(number, |oldest: u64| oldest.min(number)));
    }
    if let Some(oldest) = oldest {
        return Ok(oldest);
    }
    let names = listing.iter().filter_map(|entry| entry.name.parse().ok());
    let numbers = names.filter_map(|name| number(&name, segment_size));
    Ok(numbers.min().unwrap_or(0))
}

async fn timelines_aside(repository: &Repository) -> Result<BTreeSet<TimelineId>, ArchiveError> {
    let mut timelines = BTreeSet::new();
    for label in repository.list_aside_labels().await? {
        let listing = repository.list_aside(label).await?;
        let names = listing.iter().filter_map(|entry| entry.name.parse().ok());
        timelines.extend(names.map(|name: WalFileName| name.timeline()));
    }
    Ok(timelines)
}

/// The whole segments of each timeline, and its history.
fn newest_of_each(listing: &[WalEntry]) -> BTreeMap<TimelineId, BTreeSet<&str>> {
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

/// Whether both have the same content under a name, however it was encoded.
async fn is_same(from: &Repository, to: &Repository, name: &str) -> Result<bool, ArchiveError> {
    let objects = (from.get_wal(name).await?, to.get_wal(name).await?);
    let (Some(one), Some(other)) = objects else {
        // Removed meanwhile: there is nothing to compare.
        return Ok(true);
    };
    if one == other {
        return Ok(true);
    }
    Ok(content_hash(name, one).await? == content_hash(name, other).await?)
}

async fn content_hash(name: &str, object: Bytes) -> Result<blake3::Hash, ArchiveError> {
    let content = coding::decode(name, object).await?;
    Ok(coding::off_the_runtime(move || blake3::hash(&content)).await)
}

/// Whether the other files may be copied all the same.
fn is_of_one_file(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Repository(error) => matches!(error, RepoError::Corrupt { .. }),
        _ => true,
    }
}

async fn copy(from: &Repository, to: &Repository, name: &str) -> Result<(), ArchiveError> {
    let object = wal_object::get(from, name).await?;
    wal_object::prove(name, object.clone(), from.cluster()).await?;
    // Somebody may have put it meanwhile, who has compared it.
    to.put_wal(name, object).await?;
    Ok(())
}
