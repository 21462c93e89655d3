//! WAL that only the data directory has, and that a restore would remove with it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, PAGE_SIZE, TimelineId};
use walzip_repo::{AsideLabel, Repository, WalEntry};

use super::local_segment::LocalSegment;
use super::wal_files::{WalFile, files_of};
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::{self, StoredWal};
use crate::archived::timelines::Timelines;
use crate::cluster;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::{Before, is_damage};
use crate::pins::FollowedBackups;
use crate::wal::wal_end::WalEnd;

/// What a file is worth that a restore would remove.
enum Worth {
    /// It has nothing, or nothing that is not stored.
    Nothing,
    /// It is WAL that the archive lacks.
    Lost,
    /// It would fill a hole that is before the newest segments. An expiry may have made the hole.
    InHole(SegmentName, u32),
}

/// The WAL files of a data directory that are not in the archive and would be missed there, as
/// paths that `archive-push` takes.
pub(super) async fn find(
    repository: &Repository,
    data: &Path,
) -> Result<Vec<PathBuf>, ArchiveError> {
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let stored = Stored::read(repository).await?;
    let histories = stored.histories(&files).await?;
    let (mut found, mut in_holes) = (Vec::new(), Vec::new());
    for file in files {
        let name = file.name.to_string();
        let worth = match file.name {
            _ if file.is_ready => match stored.archived.contains(&name) {
                true => lost_if(!is_same(repository, &name, &file.path).await?),
                false => Worth::Lost,
            },
            WalFileName::Segment(name) => stored.worth(&file, name, &histories.others).await?,
            WalFileName::History(timeline) => lost_if(histories.lost.contains(&timeline)),
            // A copy of it begins the next timeline; and where a backup began says nothing of data.
            WalFileName::Partial(_) | WalFileName::BackupHistory { .. } => Worth::Nothing,
        };
        match worth {
            Worth::Nothing => {}
            Worth::Lost => found.push(file.path),
            Worth::InHole(name, size) => in_holes.push((file.path, name, size)),
        }
    }
    if !in_holes.is_empty() {
        found.extend(stored.wanted(in_holes).await?);
        found.sort();
    }
    Ok(found)
}

fn lost_if(is_lost: bool) -> Worth {
    match is_lost {
        true => Worth::Lost,
        false => Worth::Nothing,
    }
}

/// The timelines of histories in `pg_wal`.
#[derive(Default)]
struct Histories {
    /// Those under whose numbers another server has archived: a server that does not archive notes nothing of that, and
    /// its files have the same names.
    others: BTreeSet<TimelineId>,
    /// Those whose history is neither archived nor set aside.
    lost: BTreeSet<TimelineId>,
}

/// What the repository has.
struct Stored<'r> {
    repository: &'r Repository,
    listing: Vec<WalEntry>,
    archived: HashSet<String>,
    /// Under which labels a name is set aside.
    aside: BTreeMap<String, Vec<AsideLabel>>,
    timelines: Timelines,
}

impl<'r> Stored<'r> {
    async fn read(repository: &'r Repository) -> Result<Stored<'r>, ArchiveError> {
        let listing = repository.list_wal().await?;
        let mut aside: BTreeMap<String, Vec<AsideLabel>> = BTreeMap::new();
        for label in repository.list_aside_labels().await? {
            for entry in repository.list_aside_objects(label).await?.entries() {
                aside.entry(entry.name).or_default().push(label);
            }
        }
        Ok(Stored {
            repository,
            archived: listing.iter().map(|entry| entry.name.clone()).collect(),
            aside,
            timelines: Timelines::read(repository, &listing).await,
            listing,
        })
    }

    fn labels(&self, name: &str) -> &[AsideLabel] {
        self.aside.get(name).map_or(&[], Vec::as_slice)
    }

    /// Compares the histories in `pg_wal`.
    async fn histories(&self, files: &[WalFile]) -> Result<Histories, ArchiveError> {
        let mut histories = Histories::default();
        for WalFile { name, path, .. } in files {
            let (WalFileName::History(timeline), name) = (*name, name.to_string()) else {
                continue;
            };
            let own = fs::read(path).map_err(|error| ArchiveError::file("read", path, error))?;
            let is_own =
                |stored: &[u8]| own == stored || own_history::is_rebuilt_of(timeline, stored, &own);
            if self.archived.contains(&name)
                && let Some(stored) = StoredWal::get(self.repository, &name).await?
            {
                if is_own(&stored.content(&name).await?) {
                    continue;
                }
                histories.others.insert(timeline);
            }
            let mut is_lost = true;
            for &label in self.labels(&name) {
                is_lost &= match self.repository.get_aside(label, &name).await? {
                    Some(object) => match StoredWal::Single(object).content(&name).await {
                        Ok(stored) => !is_own(&stored),
                        Err(error) if is_damage(&error) => true,
                        Err(error) => return Err(error),
                    },
                    None => true,
                };
            }
            if is_lost {
                histories.lost.insert(timeline);
            }
        }
        Ok(histories)
    }

    /// What a segment is worth that does not wait to be archived. Servers without `archive_mode` note nothing, and no
    /// server notes the segment that it writes. What was noted as archived is compared where another server has
    /// archived under the number of its timeline.
    async fn worth(
        &self,
        file: &WalFile,
        name: SegmentName,
        others: &BTreeSet<TimelineId>,
    ) -> Result<Worth, ArchiveError> {
        let text = name.to_string();
        let is_archived = self.archived.contains(&text);
        if is_archived && file.is_done && !others.contains(&name.timeline) {
            return Ok(Worth::Nothing);
        }
        let (path, cluster) = (file.path.clone(), self.repository.cluster());
        let opened = off_the_runtime(move || LocalSegment::open(&path, name, cluster)).await?;
        let Some(segment) = opened.map(Arc::new) else {
            return Ok(Worth::Nothing);
        };
        if !has_changes(&segment, Lsn::default()).await? {
            return Ok(Worth::Nothing);
        }
        let mut from = self.stored_until(&segment, &text).await?;
        if is_archived {
            return Ok(lost_if(has_changes(&segment, from).await?));
        }
        let wal = ArchivedWal::of(&self.listing, segment.size_bytes());
        let number = name.number(segment.size_bytes())?;
        from = from.max(self.copied_until(&wal, name.timeline, number));
        if !has_changes(&segment, from).await? {
            return Ok(Worth::Nothing);
        }
        // What is older than the archive was never meant to be in it, or has expired: before the newest segments
        // that follow one another, a pinned backup may have some of its own.
        let numbers: Vec<u64> = wal.numbers_from(name.timeline, 0).collect();
        let pairs = numbers.windows(2).rev();
        let mut breaks = pairs
            .filter(|pair| pair[0] + 1 != pair[1])
            .map(|pair| pair[1]);
        let first = breaks.next().or(numbers.first().copied());
        let is_behind = match first {
            Some(first) => number > first,
            None => !self.is_left_behind(&wal, name.timeline, number),
        };
        Ok(match is_behind {
            true => Worth::Lost,
            false => Worth::InHole(name, segment.size_bytes()),
        })
    }

    /// Up to where the archive, or what was set aside, has what a segment has.
    async fn stored_until(
        &self,
        segment: &Arc<LocalSegment>,
        name: &str,
    ) -> Result<Lsn, ArchiveError> {
        let archived = self.archived.contains(name).then_some(None);
        let aside = self.labels(name).iter().copied().map(Some);
        let mut until = segment.start();
        for label in archived.into_iter().chain(aside) {
            match same_until(self.repository, label, (segment, name)).await {
                Ok(same) => until = until.max(same),
                // Then the file in the directory is the one that is whole.
                Err(error) if is_damage(&error) => {
                    tracing::warn!("what is stored of {name} is not compared: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(until)
    }

    /// Whether a timeline with WAL left this one in the segment, or later: what is not archived of this one has expired,
    /// or is in a hole.
    fn is_left_behind(&self, wal: &ArchivedWal, timeline: TimelineId, number: u64) -> bool {
        self.timelines.known().any(|other| {
            let left_at = self.timelines.left_at(timeline, other);
            left_at.is_some_and(|at| wal.number_at(at) >= number)
                && wal.numbers_from(other, 0).next().is_some()
        })
    }

    /// Up to where a timeline that left this one in the segment has a copy of it.
    fn copied_until(&self, wal: &ArchivedWal, timeline: TimelineId, number: u64) -> Lsn {
        let switch = |child| {
            let (parent, switch) = self.timelines.beginning(child)?;
            let is_copied = parent == timeline
                && wal.number_at(switch) == number
                && wal.numbers_from(child, number).next() == Some(number);
            is_copied.then_some(switch)
        };
        let switches = self.timelines.known().filter_map(switch);
        switches.max().unwrap_or_default()
    }

    /// Those of the segments in holes that a recovery from a backup asks for. A hole that an expiry has made is behind
    /// a backup that stays for a pin alone, or before all.
    async fn wanted(
        &self,
        in_holes: Vec<(PathBuf, SegmentName, u32)>,
    ) -> Result<Vec<PathBuf>, ArchiveError> {
        let backups = FollowedBackups::read(self.repository, &self.listing, false).await?;
        let passes = |timeline, of, at| self.timelines.passes(timeline, of, at);
        let is_wanted = |name: SegmentName, size: u32| {
            let end = name.range(size).map_or(Lsn::default(), |range| range.end);
            backups.records.iter().any(|backup| {
                end > backup.start.lsn
                    && (passes(name.timeline, backup.stop.timeline, backup.stop.lsn)
                        || passes(name.timeline, backup.start.timeline, backup.start.lsn))
            })
        };
        let wanted = in_holes
            .into_iter()
            .filter(|(_, name, size)| is_wanted(*name, *size));
        Ok(wanted.map(|(path, ..)| path).collect())
    }
}

async fn has_changes(segment: &Arc<LocalSegment>, from: Lsn) -> Result<bool, ArchiveError> {
    let segment = Arc::clone(segment);
    off_the_runtime(move || segment.has_changes(from)).await
}

/// Up to where the archive has what a segment has, or what was set aside under a label.
async fn same_until(
    repository: &Repository,
    label: Option<AsideLabel>,
    (segment, name): (&Arc<LocalSegment>, &str),
) -> Result<Lsn, ArchiveError> {
    let (single, packs) = match label {
        None => (repository.get_wal(name).await?, repository.packs()),
        Some(label) => (
            repository.get_aside(label, name).await?,
            repository.packs_aside(label),
        ),
    };
    let segment = Arc::clone(segment);
    let stored = match single {
        Some(object) => Some(StoredWal::Single(object)),
        None => {
            if let Some(hash) = stored_wal::hash_in_pack(&packs, name).await? {
                let local = Arc::clone(&segment);
                if off_the_runtime(move || local.hash()).await? == hash {
                    return Ok(segment.end());
                }
            }
            StoredWal::get_packed(&packs, name, Before::Passed).await?
        }
    };
    let Some(stored) = stored else {
        return Ok(segment.start());
    };
    let name = name.to_owned();
    off_the_runtime(move || segment.same_until(&name, stored)).await
}

/// Refuses a data directory that has come further than the archived WAL leads, where the WAL between them is not in
/// `pg_wal` either: it was written while nobody archived. A server that was shut down has come to its last checkpoint.
pub(super) async fn refuse_ahead(data: &Path, end: &WalEnd) -> Result<(), ArchiveError> {
    let control_file = cluster::read_control_file(data).await?;
    let at = control_file.checkpoint.max(control_file.min_recovery);
    let size = control_file.segment_size_bytes;
    // A standby has come to the end of a record, and where that is the end of a segment, no byte of the next.
    let number_of = |position: Lsn| position.0.saturating_sub(1) / u64::from(size);
    let archived = end
        .segment
        .as_ref()
        .and_then(|name| name.parse::<SegmentName>().ok());
    let last = archived.and_then(|segment| segment.number(size).ok());
    let last = last.unwrap_or(number_of(end.last_record));
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let there: BTreeSet<u64> = files
        .iter()
        .filter_map(|file| match file.name {
            WalFileName::Segment(name) => name.number(size).ok(),
            _ => None,
        })
        .collect();
    // Between the two there may be any number of segments: the first and the last tell.
    let until = number_of(at);
    let is_nowhere = |number: u64| !there.contains(&number);
    match until > last && (is_nowhere(last + 1) || is_nowhere(until)) {
        true => Err(ArchiveError::DirectoryAhead {
            path: data.to_owned(),
            at,
            end: Box::new(end.clone()),
        }),
        false => Ok(()),
    }
}

/// Whether the archive has exactly this file.
async fn is_same(repository: &Repository, name: &str, path: &Path) -> Result<bool, ArchiveError> {
    let file = StableFile::open(path, PAGE_SIZE as u64).await?;
    match StoredWal::get(repository, name).await? {
        Some(stored) => file.is_in(name, stored).await,
        None => Ok(false),
    }
}
