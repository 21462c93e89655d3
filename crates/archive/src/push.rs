//! `push`: a WAL file into the archive, exactly once.
//!
//! PostgreSQL removes or recycles the file after success, so success means: an object under its
//! final name decodes to exactly these bytes, and is durable. An object is never overwritten.
//! Under a name that is taken, identical content is a success (an earlier attempt whose answer
//! was lost), different content is an error.

pub mod ahead;
pub(crate) mod archive_status;
mod continuity;
mod put_again;
pub(crate) mod unfinished_segment;
pub(crate) mod unwritten_segment;
mod waiting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures::future::{try_join, try_join3};
use tokio::sync::OnceCell;
use walzip_codec::Level;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal::{SegmentEdges, SegmentHeader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{PAGE_SIZE, TimelineId};
use walzip_repo::{ClusterIdentity, PutOutcome, Repository};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::branches::readable;
use crate::archived::comparing::{compare, compare_with, has_copy};
use crate::archived::later_beside::gone_on_with;
use crate::archived::own_history;
use crate::archived::settling;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines;
use crate::archived::wal_index;
use crate::archived::wal_times::SegmentTimes;
use crate::cluster;
use crate::error::ArchiveError;
use crate::packs::is_damage;
use crate::push::unwritten_segment::{left_as_parents, left_unwritten};
pub use crate::push::waiting::check_own;
use crate::spool::FileFacts;
use crate::wal::content::{self, ContentError};

/// How to push.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// How hard the codec tries.
    pub level: Level,
    /// Decode what was encoded and compare before anything is stored. Leaving it out trusts the
    /// codec with the only copy.
    pub verify: bool,
    /// The data directory that the file is from. A history or a backup history does not say
    /// whose it is: the control file does, when it exists.
    pub data_directory: Option<PathBuf>,
    /// The cluster that the file is from, where the caller knows it.
    pub cluster: Option<ClusterIdentity>,
    /// The segment before it, from the same directory, was pushed into the same repository before:
    /// whether it continues that is not asked again.
    pub is_next: bool,
}

impl Default for PushOptions {
    fn default() -> Self {
        PushOptions {
            level: Level::default(),
            verify: true,
            data_directory: None,
            cluster: None,
            is_next: false,
        }
    }
}

/// What a successful push found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The file is in the archive now.
    Stored,
    /// The identical file was in the archive already, or one with all that a server would replay of it.
    AlreadyStored,
    /// The file has nothing of the segment whose name it has, and the server has gone on with a later timeline.
    NothingThere,
}

/// A successful push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The name in the archive.
    pub name: String,
    /// Whether it was new.
    pub outcome: PushOutcome,
    /// The size of the file.
    pub original_bytes: u64,
    /// The size of its object.
    pub stored_bytes: u64,
}

/// Archives a WAL segment, a partial segment, a timeline history or a backup history.
pub async fn push(
    repository: &Repository,
    path: &Path,
    options: &PushOptions,
) -> Result<Pushed, ArchiveError> {
    let file = WalFile::open(path).await?;
    file.push(repository, options).await
}

/// A file that is pushed, to one repository or to several.
pub struct WalFile {
    path: PathBuf,
    name: WalFileName,
    file: StableFile,
    /// Its objects: repositories that have the same level get the same one.
    objects: Mutex<BTreeMap<Level, Arc<OnceCell<Bytes>>>>,
}

impl WalFile {
    /// Opens it.
    pub async fn open(path: &Path) -> Result<WalFile, ArchiveError> {
        let name = wal_file_name(path)?;
        if let WalFileName::Segment(segment) = name {
            unfinished_segment::refuse(path, segment)?;
        }
        let beginning_len = match name {
            WalFileName::Segment(_) | WalFileName::Partial(_) => PAGE_SIZE as u64,
            WalFileName::History(_) | WalFileName::BackupHistory { .. } => u64::MAX,
        };
        Ok(WalFile {
            path: path.to_owned(),
            name,
            file: StableFile::open(path, beginning_len).await?,
            objects: Mutex::default(),
        })
    }

    /// What was unpacked from a file at this path.
    pub(crate) fn unpacked(path: &Path, name: WalFileName, content: Vec<u8>) -> WalFile {
        WalFile {
            path: path.to_owned(),
            name,
            file: StableFile::unpacked(path, content),
            objects: Mutex::default(),
        }
    }

    /// Archives it in a repository.
    pub async fn push(
        &self,
        repository: &Repository,
        options: &PushOptions,
    ) -> Result<Pushed, ArchiveError> {
        let (name, path, file) = (&self.name, &self.path, &self.file);
        let part = owner(repository, name, file.beginning(), path, options).await?;
        if let WalFileName::Segment(segment) | WalFileName::Partial(segment) = name {
            if let Err(error) = self.check_content(&part) {
                let later = match name {
                    WalFileName::Segment(_) => left_unwritten(path, *segment, part.cluster()).await,
                    _ => None,
                };
                return self.nothing_there(later.ok_or(error)?);
            }
            let here = (&**path, *segment);
            if let Some(found) = left_as_parents(&part, here, file).await? {
                let named = segment.timeline;
                let error = ContentError::Timeline { named, found };
                let error = || ArchiveError::invalid_file(path, error, part.cluster());
                let size = u32::try_from(file.len()).unwrap_or(u32::MAX);
                return self.nothing_there(gone_on_with(path, *segment, size).ok_or_else(error)?);
            }
            let timeline = segment.timeline;
            // It is encoded meanwhile.
            let history = archive_history(&part, path, timeline, options);
            let continuity = self.check_continuity(&part, options);
            try_join3(history, continuity, self.prepare(options)).await?;
        }
        self.archive_in_doubt(&part, options).await
    }

    /// That a file has nothing of its segment is no reason to refuse it where the server has gone on with a later timeline.
    fn nothing_there(&self, later: TimelineId) -> Result<Pushed, ArchiveError> {
        tracing::warn!(
            "{} is not archived: the file was made for later, nothing was written into it under this name, and this \
             server has gone on with timeline {later}",
            self.name
        );
        Ok(Pushed {
            name: self.name.to_string(),
            outcome: PushOutcome::NothingThere,
            original_bytes: self.file.len() as u64,
            stored_bytes: 0,
        })
    }

    /// The same for a history whose timeline only lacks its beginning in the archive: the server that has it would
    /// never get rid of it.
    pub(crate) async fn archive_in_doubt(
        &self,
        part: &Repository,
        options: &PushOptions,
    ) -> Result<Pushed, ArchiveError> {
        self.check_in_doubt(part).await?;
        self.store(part, options).await
    }

    /// Fails where that would fail for what it says.
    pub(crate) async fn check_in_doubt(&self, part: &Repository) -> Result<(), ArchiveError> {
        self.check_content(part)?;
        self.check_first_segment(part).await?;
        match self.check_history(part).await {
            Err(ArchiveError::HistoryConflict {
                name,
                says,
                found,
                is_gap: true,
            }) => {
                tracing::warn!(
                    "{name} fits what is archived, as far as that can be told: its timeline begins at {says}, and in the \
                     archive {found}. Push the segments between, as far as a server has them; a restore needs a backup \
                     after them"
                );
                Ok(())
            }
            checked => checked,
        }
    }

    /// Archives it in the part of a repository that it belongs to.
    pub(crate) async fn archive(
        &self,
        part: &Repository,
        options: &PushOptions,
    ) -> Result<Pushed, ArchiveError> {
        self.check_content(part)?;
        self.check_history(part).await?;
        self.store(part, options).await
    }

    /// Stores it, unless it is there.
    pub(crate) async fn store(
        &self,
        part: &Repository,
        options: &PushOptions,
    ) -> Result<Pushed, ArchiveError> {
        let name = self.name.to_string();
        let looked = Instant::now();
        // Packs are looked for while it is encoded.
        let packs = async {
            let found = part.packs().with(&name).await;
            found.map_err(ArchiveError::from)
        };
        let (object, packs) = try_join(self.object(&name, options), packs).await?;
        let pushed = |outcome, stored_bytes| Pushed {
            name: name.clone(),
            outcome,
            original_bytes: self.file.len() as u64,
            stored_bytes,
        };
        let object_len = object.len() as u64;
        if packs.is_empty() {
            match part.put_wal(&name, object.clone()).await {
                Ok(PutOutcome::Created) => {
                    settling::check_put(part, &name, &self.file, looked).await?;
                    return Ok(pushed(PushOutcome::Stored, object_len));
                }
                Ok(PutOutcome::Exists) => {}
                Err(error) => {
                    let put = (&*name, &object);
                    settling::check_failed_put(part, put, &self.file, looked).await?;
                    return Err(error.into());
                }
            }
        }
        let stored_bytes = match compare(part, &name, &self.file).await {
            Ok(stored_bytes) => stored_bytes,
            Err(ArchiveError::Duplicate { .. }) if has_copy(part, &name, &self.file).await? => {
                tracing::warn!(
                    "{name} in the archive is that of another server, and stays: the first segment of the timeline that \
                     left it here has all of this one"
                );
                return Ok(pushed(PushOutcome::AlreadyStored, object_len));
            }
            Err(error) => {
                let put = (&*name, object);
                if put_again::store(part, put, (&self.file, &packs), error).await? {
                    return Ok(pushed(PushOutcome::Stored, object_len));
                }
                compare(part, &name, &self.file).await?
            }
        };
        // What is there may be this very put, whose answer was lost: it may contradict a pack too.
        let may_be_packed = !packs.is_empty() || settling::is_long_ago(looked);
        if may_be_packed && part.find_single(&name).await?.is_some() {
            let checked = settling::check_packed(part, &name, &self.file).await;
            // What cannot be read contradicts nothing.
            checked.or_else(|error| match is_damage(&error) {
                true => Ok(()),
                false => Err(error),
            })?;
        }
        Ok(pushed(PushOutcome::AlreadyStored, stored_bytes))
    }

    /// Fails unless what has its name already is the same.
    pub(crate) async fn compare(&self, part: &Repository) -> Result<(), ArchiveError> {
        self.check_content(part)?;
        let _: u64 = compare(part, &self.name.to_string(), &self.file).await?;
        Ok(())
    }

    /// Encodes and proves it, which can be done before it is its turn to be stored.
    pub async fn prepare(&self, options: &PushOptions) -> Result<(), ArchiveError> {
        self.object(&self.name.to_string(), options)
            .await
            .map(|_| ())
    }

    /// What tells it from every other file of its name; nothing of what was unpacked.
    pub fn facts(&self) -> Option<FileFacts> {
        let metadata = self.file.opened()?;
        let name = self.name.to_string();
        Some(FileFacts::new(&name, metadata, self.file.beginning()))
    }

    /// Refuses what does not belong into the part of a repository.
    fn check_content(&self, part: &Repository) -> Result<(), ArchiveError> {
        let (file, cluster) = (&self.file, part.cluster());
        content::check_beginning(&self.name, file.beginning(), file.len(), cluster)
            .map_err(|error| ArchiveError::invalid_file(&self.path, error, cluster))
    }

    /// Refuses a segment that does not continue what is archived before it. One that is archived itself is compared
    /// with that.
    async fn check_continuity(
        &self,
        part: &Repository,
        options: &PushOptions,
    ) -> Result<(), ArchiveError> {
        let (file, path) = ((&self.name, &self.file), &self.path);
        let checked = continuity::check(part, file, path, options.is_next).await;
        self.unless_archived(part, checked).await
    }

    /// The same for a history whose timeline begins in a segment beside it. What was unpacked has nothing beside it.
    async fn check_first_segment(&self, part: &Repository) -> Result<(), ArchiveError> {
        let (WalFileName::History(timeline), Some(_)) = (self.name, self.file.opened()) else {
            return Ok(());
        };
        let Ok(history) = TimelineHistory::read(timeline, self.file.beginning()) else {
            return Ok(());
        };
        let checked = continuity::check_history(part, &history, &self.path).await;
        self.unless_archived(part, checked).await
    }

    /// That something is archived which does not continue the archive is no reason to refuse it once more.
    async fn unless_archived(
        &self,
        part: &Repository,
        checked: Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        match checked {
            Err(error @ ArchiveError::NotContinued { .. }) => {
                match part.find_wal(&self.name.to_string()).await?.is_some() {
                    true => tracing::warn!("{error}"),
                    false => return Err(error),
                }
                Ok(())
            }
            checked => checked,
        }
    }

    /// The segment before it, and which one it is itself, if it is one.
    pub fn segment_before(&self) -> Option<[SegmentName; 2]> {
        let WalFileName::Segment(segment) = self.name else {
            return None;
        };
        let header = SegmentHeader::read(self.file.beginning()).ok()?;
        Some([segment.previous(header.segment_size).ok()??, segment])
    }

    /// How it begins and ends, if it is a whole segment.
    pub(crate) async fn edges(&self) -> Result<Option<SegmentEdges>, ArchiveError> {
        self.file.edges().await
    }

    /// What is archived already admits no other history: the comparison tells.
    async fn check_history(&self, part: &Repository) -> Result<(), ArchiveError> {
        let name = self.name.to_string();
        let WalFileName::History(timeline) = self.name else {
            return Ok(());
        };
        if part.find_wal(&name).await?.is_some() {
            return Ok(());
        }
        match TimelineHistory::read(timeline, self.file.beginning()) {
            Ok(history) => {
                check_ancestors(part, &history).await?;
                check_history(part, &history).await
            }
            Err(error) => {
                tracing::warn!("{name} is archived as it is, and not understood: {error}");
                Ok(())
            }
        }
    }

    /// The object of this level, which is encoded once.
    async fn object(&self, name: &str, options: &PushOptions) -> Result<Bytes, ArchiveError> {
        let cell = {
            let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(objects.entry(options.level).or_default())
        };
        let encode = || self.file.encode(name, options.level, options.verify);
        cell.get_or_try_init(encode).await.cloned()
    }
}

/// The part of the repository that a file belongs to. A segment says whose it is; of other files,
/// the data directory that they are from does.
async fn owner(
    repository: &Repository,
    name: &WalFileName,
    original: &[u8],
    path: &Path,
    options: &PushOptions,
) -> Result<Repository, ArchiveError> {
    if let WalFileName::Segment(_) | WalFileName::Partial(_) = name {
        return match content::cluster_of_segment(original) {
            Some(found) => cluster::part_of(repository, found, || path.display().to_string()).await,
            // It is none, and will be refused as that.
            None => Ok(repository.clone()),
        };
    }
    if let Some(found) = options.cluster {
        return cluster::part_of(repository, found, || name.to_string()).await;
    }
    if let Some(data_directory) = &options.data_directory
        && let Some(part) = cluster::part_of_data_directory(repository, data_directory).await?
    {
        return Ok(part);
    }
    if repository.is_sole().await? {
        return Ok(repository.clone());
    }
    Err(ArchiveError::Request(format!(
        "whose {name} is cannot be told, and the repository has several clusters: push it from \
         the cluster's own pg_wal"
    )))
}

/// Archives the history that lies beside a segment, unless it is archived. Where another one is, the segment is
/// of another timeline of the same number: of a restored copy that was promoted before it archived.
async fn archive_history(
    part: &Repository,
    segment: &Path,
    timeline: TimelineId,
    options: &PushOptions,
) -> Result<(), ArchiveError> {
    let Some(path) = own_history::left_beside(segment, timeline) else {
        return Ok(());
    };
    let shown = path.display();
    let file = WalFile::open(&path).await?;
    let name = file.name.to_string();
    let compared = match part.get_wal(&name).await {
        Ok(Some(object)) => {
            let stored = StoredWal::Single(object);
            Some(compare_with(part, stored, &name, &file.file).await)
        }
        Ok(None) => None,
        Err(error) => Some(Err(error.into())),
    };
    match compared {
        None => {}
        Some(Ok(_)) => return Ok(()),
        Some(Err(error @ ArchiveError::Duplicate { .. })) => return Err(error),
        // What cannot be read contradicts nothing.
        Some(Err(error)) => {
            tracing::warn!("{name} in the repository cannot be compared with {shown}: {error}");
            return Ok(());
        }
    }
    match file.archive_in_doubt(part, options).await {
        Ok(_) => tracing::warn!("{shown} was not archived yet, and is now"),
        // It contradicts WAL that is archived. The segment may be archived all the same.
        Err(error @ ArchiveError::HistoryConflict { .. }) => tracing::warn!("{error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Refuses a history that names a timeline which is another server's in the archive: it would pass for a descendant of
/// that one. The newest of them that the archive knows tells.
async fn check_ancestors(
    repository: &Repository,
    history: &TimelineHistory,
) -> Result<(), ArchiveError> {
    let parts: Vec<TimelineId> = history.parts().map(|(ancestor, _)| ancestor).collect();
    for &ancestor in parts.iter().rev() {
        let archived = match timelines::read_archived(repository, ancestor).await {
            Ok(Some(archived)) => archived,
            Ok(None) => continue,
            // What cannot be read contradicts nothing.
            Err(error) if is_damage(&error) => {
                tracing::warn!("{error}");
                continue;
            }
            Err(error) => return Err(error),
        };
        return match timelines::agree(&archived, history) {
            true => Ok(()),
            false => Err(ArchiveError::AncestorConflict {
                name: WalFileName::History(history.timeline).to_string(),
                ancestor,
            }),
        };
    }
    Ok(())
}

/// Refuses a history that is not the one of the WAL that the archive has of its timeline: where
/// an archive has lost a history, another cluster may come to the same number.
async fn check_history(
    repository: &Repository,
    history: &TimelineHistory,
) -> Result<(), ArchiveError> {
    let timeline = history.timeline;
    let survey = repository.survey_wal().await?;
    if !survey.timelines.contains(&timeline.0) {
        return Ok(());
    }
    let listing = repository.list_wal().await?;
    let segment_size = wal_index::segment_size(repository, &listing).await?;
    let segment_size = segment_size.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE);
    let wal = ArchivedWal::of(&listing, segment_size);
    let Some(first) = wal.numbers_from(timeline, 0).next() else {
        return Ok(());
    };
    let Some(switch) = history.ancestors.last().map(|parent| parent.switch) else {
        return Ok(());
    };
    let conflict = |found: String, is_gap: bool| ArchiveError::HistoryConflict {
        name: WalFileName::History(timeline).to_string(),
        says: switch,
        found,
        is_gap,
    };
    let segment = wal.name(timeline, first)?;
    let expected = wal.number_at(switch);
    if first < expected {
        return Err(conflict(format!("with {segment}"), false));
    }
    // What cannot be read contradicts nothing.
    let Some(times) = readable(SegmentTimes::read(repository, segment).await)? else {
        return Ok(());
    };
    match times.beginning(timeline) {
        Some(beginning) if beginning.is_right_after(switch) => Ok(()),
        Some(beginning) => Err(conflict(format!("at {}", beginning.lsn), false)),
        None => {
            let found = format!("with {segment}, in which nothing says so");
            Err(conflict(found, first > expected))
        }
    }
}

fn wal_file_name(path: &Path) -> Result<WalFileName, ArchiveError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(name.parse::<WalFileName>()?)
}
