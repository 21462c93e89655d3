//! WAL that only the data directory has, and that a restore would remove with it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, PAGE_SIZE, TimelineId};
use walzip_repo::{AsideLabel, Repository, WalEntry};

use super::left_behind::{OwnWal, forks_of};
use super::local_segment::{LocalSegment, Opened, has_changes, needed_of_rest, same_until};
use super::wal_files::{WalFile, files_of, strays_in};
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::comparing::{compare_with, has_copy};
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::Timelines;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::is_damage;
use crate::pins::FollowedBackups;
use crate::push::unwritten_segment::{left_as_parents, left_unwritten};

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
    let (directory, cluster) = (data.to_owned(), repository.cluster());
    let (files, strays) = off_the_runtime(move || {
        let files = files_of(&directory.join("pg_wal"))?;
        Ok::<_, ArchiveError>((files, strays_in(&directory, cluster)))
    })
    .await?;
    let stored = Stored::read(repository).await?;
    let histories = stored.histories(&files).await?;
    let mut own = OwnWal::new(&files, &histories.same, repository.cluster());
    let (mut found, mut in_holes) = (Vec::new(), Vec::new());
    for file in files.iter().chain(&strays) {
        let name = file.name.to_string();
        let worth = match file.name {
            WalFileName::Segment(name) if is_left_unwritten(file, name, repository).await? => {
                Worth::Nothing
            }
            _ if file.is_ready => match stored.archived.contains(&name) {
                true => lost_if(!is_same(repository, &name, &file.path).await?),
                false => Worth::Lost,
            },
            WalFileName::Segment(name) | WalFileName::Partial(name) => {
                stored
                    .worth(file, name, &histories.others, &mut own)
                    .await?
            }
            WalFileName::History(timeline) => lost_if(histories.lost.contains(&timeline)),
            // Where a backup began says nothing of data.
            WalFileName::BackupHistory { .. } => Worth::Nothing,
        };
        match worth {
            Worth::Nothing => {}
            Worth::Lost => found.push(file.path.clone()),
            Worth::InHole(name, size) => in_holes.push((file.path.clone(), name, size)),
        }
    }
    if !in_holes.is_empty() {
        found.extend(stored.wanted(in_holes).await?);
        found.sort();
    }
    Ok(found)
}

/// Whether a push would find that there is nothing to archive.
async fn is_left_unwritten(
    file: &WalFile,
    name: SegmentName,
    repository: &Repository,
) -> Result<bool, ArchiveError> {
    let path = &file.path;
    if left_unwritten(path, name, repository.cluster())
        .await
        .is_some()
    {
        return Ok(true);
    }
    let opened = StableFile::open(path, PAGE_SIZE as u64).await?;
    let parents = left_as_parents(repository, (path, name), &opened).await?;
    Ok(parents.is_some())
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
    /// Those whose history is the archive's.
    same: BTreeSet<TimelineId>,
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
                    histories.same.insert(timeline);
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
    /// server notes the segment that it writes. What was noted as archived (`.done`) is compared with the archive's all the
    /// same: a server that was a standby, or was started as one, has noted each segment that it began to receive, also where
    /// its own WAL follows behind what it was sent, and also where it took for archived what the archive has of another server
    /// (XLogArchiveForceDone in replication/walreceiver.c, 13 to 18). The note alone does not say which it is.
    async fn worth(
        &self,
        file: &WalFile,
        name: SegmentName,
        others: &BTreeSet<TimelineId>,
        own: &mut OwnWal<'_>,
    ) -> Result<Worth, ArchiveError> {
        // What a partial segment has may be archived as the whole one, too.
        let texts = BTreeSet::from([file.name.to_string(), name.to_string()]);
        let (path, cluster) = (file.path.clone(), self.repository.cluster());
        let opened = off_the_runtime(move || LocalSegment::open(&path, name, cluster)).await?;
        let segment = match opened {
            Opened::Segment(segment) => Arc::new(segment),
            Opened::CutOff(segment) => return self.worth_of_cut_off(segment, &texts).await,
            Opened::Unwritten => return Ok(Worth::Nothing),
            Opened::Other => return Ok(Worth::Lost),
        };
        let needed = needed_of_rest(&segment).await?;
        let needed = needed.unwrap_or_else(|| segment.end());
        if needed <= segment.start() && !has_changes(&segment, Lsn::default()).await? {
            return Ok(Worth::Nothing);
        }
        let mut from = segment.start();
        for text in &texts {
            from = from.max(self.stored_until(&segment, text).await?);
        }
        let wal = ArchivedWal::of(&self.listing, segment.size_bytes());
        if has_changes(&segment, from).await? {
            from = from.max(self.copied_until(&wal, &segment, name).await?);
        }
        let is_known = from >= needed;
        if is_known && !has_changes(&segment, from).await? {
            return Ok(Worth::Nothing);
        }
        if texts.iter().any(|text| self.archived.contains(text)) {
            return Ok(Worth::Lost);
        }
        // Positions on a timeline of another server say nothing of what may have expired of this one's.
        let is_others = others.contains(&name.timeline);
        let may_have_expired = is_known
            && !is_others
            && self
                .may_have_expired(&wal, (file, name, &segment), own)
                .await?;
        Ok(match may_have_expired {
            true => Worth::InHole(name, segment.size_bytes()),
            false => Worth::Lost,
        })
    }

    /// What a file is worth whose end is missing: nothing, if all that is left of it is stored.
    async fn worth_of_cut_off(
        &self,
        segment: LocalSegment,
        texts: &BTreeSet<String>,
    ) -> Result<Worth, ArchiveError> {
        let segment = Arc::new(segment);
        let mut until = segment.start();
        for text in texts {
            until = until.max(self.stored_until(&segment, text).await?);
        }
        Ok(lost_if(until < segment.end()))
    }

    /// Whether a segment that nothing stored has may have gone from the archive by an expiry.
    async fn may_have_expired(
        &self,
        wal: &ArchivedWal,
        (file, name, segment): (&WalFile, SegmentName, &Arc<LocalSegment>),
        own: &mut OwnWal<'_>,
    ) -> Result<bool, ArchiveError> {
        // What is older than the archive was never meant to be in it, or has expired: before the newest segments
        // that follow one another, a pinned backup may have some of its own.
        let numbers: Vec<u64> = wal.numbers_from(name.timeline, 0).collect();
        let pairs = numbers.windows(2).rev();
        let mut breaks = pairs
            .filter(|pair| pair[0] + 1 != pair[1])
            .map(|pair| pair[1]);
        let first = breaks.next().or(numbers.first().copied());
        let number = name.number(segment.size_bytes())?;
        if first.is_some_and(|first| number <= first) {
            return Ok(true);
        }
        // What is newer than a pinned backup has gone with the timeline, if it was archived.
        if first.is_some() && !file.is_done {
            return Ok(false);
        }
        let forks = forks_of(&self.timelines, wal, name.timeline);
        own.is_left_behind(segment, name.timeline, forks).await
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
            until = until.max(self.same_in(label, segment, name).await?);
        }
        Ok(until)
    }

    /// Up to where timelines that left this one in the segment have the same in their own copies of it. A server copies
    /// every byte before the fork. A copy of the server that went on by itself has others there.
    async fn copied_until(
        &self,
        wal: &ArchivedWal,
        segment: &Arc<LocalSegment>,
        name: SegmentName,
    ) -> Result<Lsn, ArchiveError> {
        let number = name.number(segment.size_bytes())?;
        let mut until = segment.start();
        for fork in forks_of(&self.timelines, wal, name.timeline) {
            let is_within = segment.start() < fork.at && fork.at < segment.end();
            if is_within && wal.has(fork.child, number) {
                let copy = wal.name(fork.child, number)?.to_string();
                let same = self.same_in(None, segment, &copy).await?;
                until = until.max(same.min(fork.at));
            }
        }
        Ok(until)
    }

    /// Up to where what is stored under a name, in the archive or under a label, has what a segment has.
    async fn same_in(
        &self,
        label: Option<AsideLabel>,
        segment: &Arc<LocalSegment>,
        name: &str,
    ) -> Result<Lsn, ArchiveError> {
        match same_until(self.repository, label, (segment, name)).await {
            // Then the file in the directory is the one that is whole.
            Err(error) if is_damage(&error) => {
                tracing::warn!("what is stored of {name} is not compared: {error}");
                Ok(segment.start())
            }
            same => same,
        }
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

/// Whether a push would find this file archived.
async fn is_same(repository: &Repository, name: &str, path: &Path) -> Result<bool, ArchiveError> {
    let file = StableFile::open(path, PAGE_SIZE as u64).await?;
    let Some(stored) = StoredWal::get(repository, name).await? else {
        return Ok(false);
    };
    match compare_with(repository, stored, name, &file).await {
        Ok(_) => Ok(true),
        Err(ArchiveError::Duplicate { .. }) => has_copy(repository, name, &file).await,
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
