//! A repository on another store: copied, or brought up to date.
//!
//! Objects are copied as they are, in an order that keeps the rules of
//! `docs/format/repository.md` on the new store as well: a backup exists there when all of its
//! objects do, and until everything has come there is no repository. Whoever is interrupted begins
//! again, and what is there is passed over.

mod since;
mod sorted;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};

use crate::backup::whole;
use crate::error::RepoError;
use crate::layout::PART_BYTES;
use crate::layout::{
    self, ASIDE_PREFIX, BACKUP_PREFIX, CLUSTER_JSON, MAX_SMALL_JSON_BYTES, MAX_WAL_OBJECT_BYTES,
    PACKED_JSON, REPOSITORY_JSON, WAL_PREFIX,
};
use crate::local::content;
use crate::names::pack_name::PackName;
use crate::repository::Repository;
use sorted::{Backup, HISTORY_SUFFIX, Sorted};

/// An object that is there is compared if it is not longer.
const COMPARED_BYTES_MAX: u64 = 64 << 10;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyRepositoryOptions {
    /// Objects that are on their way at once.
    pub parallel: usize,
    /// Compare what was there before by its content too, not by its size alone.
    pub compare: bool,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// It begins. There are so many bytes to do, or fewer where something cannot be copied.
    Begin(u64),
    /// So many bytes more are done.
    Done(u64),
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedRepository {
    /// Objects that were put.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were there before.
    pub there: u64,
    /// Keys under which something else is there. It was left alone.
    pub conflicts: Vec<String>,
    /// Files that were not copied, since one before them on their timeline is in conflict.
    pub behind_conflicts: u64,
    /// Objects that the source cannot give, and why.
    pub damaged: Vec<(String, String)>,
    /// Finished backups that did not come whole.
    pub incomplete: Vec<String>,
    /// Backups that are not finished in the source.
    pub left_out: Vec<String>,
    /// Objects that walzip does not know.
    pub unknown: u64,
}

/// Copies a repository to a store that has none, or an earlier copy of it. Each object is read back
/// and compared. `progress` is told how far it has come.
pub async fn copy_repository(
    from: &Repository,
    to: &dyn ObjectStore,
    options: CopyRepositoryOptions,
    progress: &(dyn Fn(CopyStep) + Sync),
) -> Result<CopiedRepository, RepoError> {
    refuse_another(from, to).await?;
    let there = list(to).await?.into_iter();
    let there = there.map(|meta| (meta.location.to_string(), meta.size));
    // Backups first: what one needs of the WAL was there before it.
    let store = from.store().as_ref();
    let backups = list_below(store, Some(BACKUP_PREFIX)).await?;
    let others = list(store).await?.into_iter();
    let others = others.filter(|meta| !meta.location.as_ref().starts_with(BACKUP_PREFIX));
    let all: Vec<ObjectMeta> = backups.into_iter().chain(others).collect();
    let copying = Copying {
        from: store,
        to,
        there: there.collect(),
        options,
        progress,
        gone: Mutex::default(),
    };
    let sorted = Sorted::of(all);
    progress(CopyStep::Begin(sorted.size()));
    copying.refuse_other_records(&sorted).await?;
    let mut copied = CopiedRepository {
        unknown: sorted.unknown,
        ..CopiedRepository::default()
    };
    // Marks come before records, and records before the WAL that they are of.
    copying.all(&sorted.marks, &mut copied).await?;
    copying.retire_marks(&sorted.marks).await?;
    for objects in [&sorted.records, &sorted.histories] {
        copying.all(objects, &mut copied).await?;
    }
    if !copied.conflicts.is_empty() {
        // Under another history, the WAL of its timeline and of all after it is another branch's.
        return Ok(copied);
    }
    let (wal, behind) = copying.before_conflicts(&sorted.wal);
    copied.behind_conflicts = behind;
    copying.all(&wal, &mut copied).await?;
    copying.moved_since(&sorted, &mut copied).await?;
    for (label, backup) in &sorted.backups {
        if backup.json.is_empty() {
            copied.left_out.push(label.clone());
        } else if !copying.backup(backup, &mut copied).await? {
            copied.incomplete.push(label.clone());
        }
    }
    if copied.conflicts.is_empty() {
        copying.all(&sorted.first_record, &mut copied).await?;
    }
    Ok(copied)
}

/// Another repository must not be mixed with this one, even of the same cluster: their objects may
/// have the same keys.
async fn refuse_another(from: &Repository, to: &dyn ObjectStore) -> Result<(), RepoError> {
    let key = Path::from(REPOSITORY_JSON);
    let read = |error| RepoError::from_store(REPOSITORY_JSON, error);
    let found = match to.get(&key).await {
        Ok(found) if found.meta.size > MAX_SMALL_JSON_BYTES => {
            return Err(RepoError::AnotherRepository {
                location: to.to_string(),
            });
        }
        Ok(found) => found.bytes().await.map_err(read)?,
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(read(error)),
    };
    let own = from.open_object(REPOSITORY_JSON).await?;
    match own.bytes().await.map_err(read)? == found {
        true => Ok(()),
        false => Err(RepoError::AnotherRepository {
            location: to.to_string(),
        }),
    }
}

async fn list(store: &dyn ObjectStore) -> Result<Vec<ObjectMeta>, RepoError> {
    list_below(store, None).await
}

async fn list_below(
    store: &dyn ObjectStore,
    prefix: Option<&str>,
) -> Result<Vec<ObjectMeta>, RepoError> {
    let listed = store.list(prefix.map(Path::from).as_ref());
    let listed = listed.try_collect().await;
    listed.map_err(|error| RepoError::from_store(prefix.unwrap_or_default(), error))
}

/// A timeline of a cluster, in use or set aside, as keys have it.
type TimelineOfKeys<'k> = (&'k str, &'k str);

/// Whose a segment or a pack is, and its last segment.
fn last_segment(meta: &ObjectMeta) -> Option<(TimelineOfKeys<'_>, String)> {
    let (prefix, file) = meta.location.as_ref().rsplit_once('/')?;
    let (prefix, directory) = prefix.rsplit_once('/')?;
    let timeline = directory.get(..8).filter(|_| directory.len() == 16)?;
    let last = match file.parse::<PackName>() {
        Ok(pack) => pack.segments().last()?,
        // What belongs to a segment has its name before its own.
        Err(_) => file.get(..24)?.to_owned(),
    };
    let of_packs = prefix.strip_suffix(layout::PACK_PREFIX);
    let cluster = of_packs.map_or(prefix, |prefix| prefix.trim_end_matches('/'));
    Some(((cluster, timeline), last))
}

/// What became of an object.
enum Outcome {
    Put(u64),
    There,
    Conflict(String),
    Damaged(String, String),
    /// It is not in the source any more.
    Gone,
}

struct Copying<'c> {
    from: &'c dyn ObjectStore,
    to: &'c dyn ObjectStore,
    /// What the new store had at the beginning, with sizes.
    there: HashMap<String, u64>,
    options: CopyRepositoryOptions,
    progress: &'c (dyn Fn(CopyStep) + Sync),
    /// What was listed, and was not in the source any more.
    gone: Mutex<HashSet<Path>>,
}

impl Copying<'_> {
    /// Copies objects in any order. Returns whether all of them are there then.
    async fn all(
        &self,
        objects: &[ObjectMeta],
        copied: &mut CopiedRepository,
    ) -> Result<bool, RepoError> {
        self.each(objects, self.options.compare, copied).await
    }

    /// The same, where what is there is compared by its content, or not.
    async fn each(
        &self,
        objects: &[ObjectMeta],
        compare: bool,
        copied: &mut CopiedRepository,
    ) -> Result<bool, RepoError> {
        let outcomes = futures::stream::iter(objects)
            .map(|meta| self.one(meta, compare))
            .buffer_unordered(self.options.parallel.max(1));
        let mut outcomes = std::pin::pin!(outcomes);
        let mut are_there = true;
        while let Some(outcome) = outcomes.try_next().await? {
            match outcome {
                Outcome::Put(bytes) => {
                    copied.objects += 1;
                    copied.bytes += bytes;
                }
                Outcome::There => copied.there += 1,
                Outcome::Conflict(key) => {
                    copied.conflicts.push(key);
                    are_there = false;
                }
                Outcome::Damaged(key, detail) => {
                    copied.damaged.push((key, detail));
                    are_there = false;
                }
                Outcome::Gone => are_there = false,
            }
        }
        Ok(are_there)
    }

    /// What comes before segments under whose names something else is there, as far as sizes tell, and these themselves;
    /// and how many come after them on the same timeline. Together they would be the WAL of no server.
    fn before_conflicts(&self, wal: &[ObjectMeta]) -> (Vec<ObjectMeta>, u64) {
        let mut conflicts: HashMap<TimelineOfKeys<'_>, String> = HashMap::new();
        let is_other = |meta: &&ObjectMeta| {
            let key = meta.location.as_ref();
            let belongs_to_segment = key.ends_with(".partial.wz") || key.ends_with(".backup.wz");
            let there = self.there.get(key);
            !belongs_to_segment && there.is_some_and(|size| *size != meta.size)
        };
        for (timeline, segment) in wal.iter().filter(is_other).filter_map(last_segment) {
            let first = conflicts.entry(timeline).or_insert_with(|| segment.clone());
            if segment < *first {
                *first = segment;
            }
        }
        let is_before = |meta: &&ObjectMeta| {
            let of = last_segment(meta);
            let before = of.and_then(|(timeline, last)| Some(last <= *conflicts.get(&timeline)?));
            before.unwrap_or(true)
        };
        let before: Vec<ObjectMeta> = wal.iter().filter(is_before).cloned().collect();
        let behind = (wal.len() - before.len()) as u64;
        (before, behind)
    }

    /// Copies a backup, so that it exists when all of it does.
    async fn backup(
        &self,
        backup: &Backup,
        copied: &mut CopiedRepository,
    ) -> Result<bool, RepoError> {
        // Of a copy that was interrupted, nobody has said yet that its objects are whole.
        let is_there = |meta: &ObjectMeta| self.there.contains_key(meta.location.as_ref());
        let compare = self.options.compare || !backup.json.iter().any(is_there);
        for objects in [&backup.started, &backup.data, &backup.json] {
            if !self.each(objects, compare, copied).await? {
                return Ok(false);
            }
        }
        // A pin may have been renewed since an earlier copy: that it is pinned is what counts.
        if !backup.pin.iter().any(is_there) {
            self.all(&backup.pin, copied).await?;
            return Ok(true);
        }
        for pin in &backup.pin {
            (self.progress)(CopyStep::Done(pin.size));
        }
        Ok(true)
    }

    /// Where the source has packs, an earlier copy may still have the mark by which readers go that
    /// know of none.
    async fn retire_marks(&self, marks: &[ObjectMeta]) -> Result<(), RepoError> {
        for meta in marks {
            let key = meta.location.as_ref();
            let Some(prefix) = key.strip_suffix(PACKED_JSON) else {
                continue;
            };
            match self
                .to
                .delete(&Path::from(format!("{prefix}{CLUSTER_JSON}")))
                .await
            {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(RepoError::from_store(key, error)),
            }
        }
        Ok(())
    }

    /// Marks and records of another repository of the same cluster have the same keys and lengths.
    async fn refuse_other_records(&self, sorted: &Sorted) -> Result<(), RepoError> {
        for meta in sorted.marks.iter().chain(&sorted.records) {
            let is_there = self.there.contains_key(meta.location.as_ref());
            if is_there && self.is_equal(&meta.location).await? == Some(false) {
                return Err(RepoError::AnotherRepository {
                    location: self.to.to_string(),
                });
            }
        }
        Ok(())
    }

    async fn one(&self, meta: &ObjectMeta, compare: bool) -> Result<Outcome, RepoError> {
        let key = meta.location.as_ref();
        let outcome = match self.there.get(key) {
            Some(&size) if size != meta.size => Ok(Outcome::Conflict(key.to_owned())),
            Some(_) if !compare && !is_compared(meta) => Ok(Outcome::There),
            Some(_) => self
                .is_equal(&meta.location)
                .await
                .map(|equal| match equal {
                    Some(true) => Outcome::There,
                    Some(false) => Outcome::Conflict(key.to_owned()),
                    None => Outcome::Gone,
                }),
            None => self.put(meta).await,
        };
        (self.progress)(CopyStep::Done(meta.size));
        match outcome {
            Err(RepoError::Corrupt { key, detail }) => Ok(Outcome::Damaged(key, detail)),
            Ok(Outcome::Gone) => {
                self.gone().insert(meta.location.clone());
                Ok(Outcome::Gone)
            }
            outcome => outcome,
        }
    }

    fn gone(&self) -> MutexGuard<'_, HashSet<Path>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_gone(&self) -> HashSet<Path> {
        std::mem::take(&mut self.gone())
    }

    async fn put(&self, meta: &ObjectMeta) -> Result<Outcome, RepoError> {
        let key = meta.location.as_ref();
        let Some(found) = open(self.from, &meta.location).await? else {
            return Ok(Outcome::Gone);
        };
        let is_data = key.starts_with(BACKUP_PREFIX);
        if is_data && found.meta.size > PART_BYTES as u64 {
            let hash = self.put_in_parts(key, found).await?;
            let stored = self.hash_of(self.to, &meta.location).await?;
            return match stored == Some(hash) {
                true => Ok(Outcome::Put(meta.size)),
                false => Err(self.take_back(meta).await),
            };
        }
        let content = read_whole(key, found).await?;
        let options = PutOptions::from(PutMode::Create);
        let put = self
            .to
            .put_opts(&meta.location, content.clone().into(), options);
        let is_new = match put.await {
            Ok(_) => true,
            Err(object_store::Error::AlreadyExists { .. }) => false,
            Err(error) => return Err(RepoError::from_put(key, error)),
        };
        let stored = match open(self.to, &meta.location).await? {
            Some(stored) => read_whole(key, stored).await?,
            None => return Err(differs(key)),
        };
        match (stored == content, is_new) {
            (true, true) => Ok(Outcome::Put(meta.size)),
            (true, false) => Ok(Outcome::There),
            (false, true) => Err(self.take_back(meta).await),
            (false, false) => Ok(Outcome::Conflict(key.to_owned())),
        }
    }

    /// Removes what was put and is not what is there: the next copy would take it for an object that came
    /// before. Returns that failure.
    async fn take_back(&self, meta: &ObjectMeta) -> RepoError {
        let key = meta.location.as_ref();
        match self.to.delete(&meta.location).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => differs(key),
            Err(error) => RepoError::from_store(key, error),
        }
    }

    /// Puts a long object as it is read; returns the hash of what was read.
    async fn put_in_parts(&self, key: &str, found: GetResult) -> Result<blake3::Hash, RepoError> {
        let upload = self.to.put_multipart(&Path::from(key)).await;
        let mut upload = upload.map_err(|error| RepoError::from_put(key, error))?;
        match send_parts(key, found, upload.as_mut()).await {
            Ok(hash) => Ok(hash),
            Err(error) => {
                // What could not be removed of the parts is debris that no reader sees.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    /// Whether both stores have the same object; nothing if one has none.
    async fn is_equal(&self, key: &Path) -> Result<Option<bool>, RepoError> {
        let source = self.hash_of(self.from, key).await?;
        let copy = self.hash_of(self.to, key).await?;
        Ok(source.zip(copy).map(|(source, copy)| source == copy))
    }

    async fn hash_of(
        &self,
        store: &dyn ObjectStore,
        key: &Path,
    ) -> Result<Option<blake3::Hash>, RepoError> {
        let Some(found) = open(store, key).await? else {
            return Ok(None);
        };
        let mut content = pieces(key.as_ref(), found);
        let mut hasher = blake3::Hasher::new();
        while let Some(piece) = content.try_next().await? {
            hasher.update(&piece);
        }
        Ok(Some(hasher.finalize()))
    }
}

/// Whether what is there is compared by its content too: what is short, and no segment of which there
/// may be very many. Two histories of one timeline often have the same length.
fn is_compared(meta: &ObjectMeta) -> bool {
    let key = meta.location.as_ref();
    let is_wal = key.starts_with(WAL_PREFIX) || key.starts_with(ASIDE_PREFIX);
    meta.size <= COMPARED_BYTES_MAX && (!is_wal || key.ends_with(HISTORY_SUFFIX))
}

async fn send_parts(
    key: &str,
    found: GetResult,
    upload: &mut dyn MultipartUpload,
) -> Result<blake3::Hash, RepoError> {
    let put = |error| RepoError::from_put(key, error);
    let mut content = pieces(key, found);
    let mut hasher = blake3::Hasher::new();
    let mut part: Vec<Bytes> = Vec::new();
    let mut room = PART_BYTES;
    while let Some(mut piece) = content.try_next().await? {
        hasher.update(&piece);
        while !piece.is_empty() {
            let fits = piece.split_to(room.min(piece.len()));
            room -= fits.len();
            part.push(fits);
            if room == 0 {
                let full = std::mem::take(&mut part).into_iter().collect();
                upload.put_part(full).await.map_err(put)?;
                room = PART_BYTES;
            }
        }
    }
    if !part.is_empty() {
        upload
            .put_part(part.into_iter().collect())
            .await
            .map_err(put)?;
    }
    upload.complete().await.map_err(put)?;
    Ok(hasher.finalize())
}

/// What was put is not what is there.
fn differs(key: &str) -> RepoError {
    RepoError::Corrupt {
        key: key.to_owned(),
        detail: "the copy is not what was put".to_owned(),
    }
}

async fn open(store: &dyn ObjectStore, key: &Path) -> Result<Option<GetResult>, RepoError> {
    match store.get(key).await {
        Ok(found) => Ok(Some(found)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(RepoError::from_store(key.as_ref(), error)),
    }
}

fn pieces(
    key: &str,
    found: GetResult,
) -> futures::stream::BoxStream<'static, Result<Bytes, RepoError>> {
    let size_bytes = found.meta.size;
    whole(key.to_owned(), size_bytes, content(found))
}

async fn read_whole(key: &str, found: GetResult) -> Result<Bytes, RepoError> {
    if found.meta.size > MAX_WAL_OBJECT_BYTES {
        return Err(RepoError::Corrupt {
            key: key.to_owned(),
            detail: format!("it has {} bytes", found.meta.size),
        });
    }
    let all: Vec<Bytes> = pieces(key, found).try_collect().await?;
    match <[Bytes; 1]>::try_from(all) {
        Ok([one]) => Ok(one),
        Err(several) => Ok(several.concat().into()),
    }
}
