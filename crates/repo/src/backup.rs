//! Base backups: many objects under one label, which exist together or not at all.
//!
//! `started` claims the label, data objects follow, and `backup.json` is put last.
//! Until then readers see no backup, and a label without it is an attempt that died
//! or still runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use jiff::{Timestamp, ToSpan};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use crate::claim::{self, StartedJson};
use crate::error::RepoError;
use crate::json::encode_json;
use crate::layout::{
    self, BACKUP_EXPIRING, BACKUP_JSON, BACKUP_PREFIX, BACKUP_STARTED, MAX_BACKUP_JSON_BYTES,
    PART_BYTES,
};
use crate::local::content;
use crate::names::backup_label::BackupLabel;
use crate::names::backup_label::BackupType;
use crate::pin::Pin;
use crate::repository::Repository;

/// How many parts are on their way at once; one more is being filled.
const PARTS_IN_FLIGHT: usize = 2;
/// The most parts that every store accepts for one object (S3's limit).
const MAX_PARTS: u64 = 10_000;
/// The most bytes that one backup object can hold, on any store.
pub const MAX_OBJECT_BYTES: u64 = MAX_PARTS * PART_BYTES as u64;
/// How many following seconds are tried when a label is taken.
const LABEL_ATTEMPTS: i64 = 60;
/// How many labels a listing asks for at a time. A bucket answers each in tens of milliseconds.
const LABELS_AT_ONCE: usize = 16;

/// What a label is.
enum LabelState {
    /// Its `backup.json` is there.
    Finished,
    /// An attempt that died or still runs.
    Unfinished,
    /// A local disk keeps a directory whose removal was interrupted.
    Empty,
}

impl Repository {
    /// Claims a label for a full backup that begins now.
    pub async fn start_backup(&self) -> Result<BackupWriter, RepoError> {
        self.start_backup_at(Timestamp::now()).await
    }

    /// Claims the first free label of a full backup from this moment on.
    pub async fn start_backup_at(&self, started: Timestamp) -> Result<BackupWriter, RepoError> {
        self.start_backup_of(BackupType::Full, started, Vec::new())
            .await
    }

    /// Claims the first free label of a type from this moment on. The backups with these labels
    /// are kept as long as the new one may need them.
    pub async fn start_backup_of(
        &self,
        backup_type: BackupType,
        started: Timestamp,
        references: Vec<String>,
    ) -> Result<BackupWriter, RepoError> {
        let json = encode_json(&StartedJson::new(started, references))?;
        let mut attempt = 0;
        loop {
            let second = started.saturating_add(attempt.seconds()).unwrap_or(started);
            let label = BackupLabel::new(backup_type, second);
            // Labels of one second would not sort by the time at which the backups began.
            if attempt < LABEL_ATTEMPTS && self.is_taken(&label).await? {
                attempt += 1;
                continue;
            }
            let key = layout::backup_key(&label, BACKUP_STARTED);
            match self.create(&key, json.clone()).await {
                Ok(()) => {
                    return Ok(BackupWriter {
                        repository: self.clone(),
                        label,
                        attempt: 1,
                        objects: Arc::default(),
                    });
                }
                Err(RepoError::AlreadyExists { .. }) if attempt < LABEL_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a backup of another type has claimed the second of a label, or one with the label
    /// is not quite removed.
    async fn is_taken(&self, label: &BackupLabel) -> Result<bool, RepoError> {
        for sibling in label.siblings() {
            if self.has_backup_key(&sibling, BACKUP_STARTED).await? {
                return Ok(true);
            }
        }
        self.has_backup_key(label, BACKUP_EXPIRING).await
    }

    pub(crate) async fn has_backup_key(
        &self,
        label: &BackupLabel,
        reserved: &str,
    ) -> Result<bool, RepoError> {
        let key = layout::backup_key(label, reserved);
        match self.store().head(&Path::from(key.as_str())).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(RepoError::from_store(&key, error)),
        }
    }

    /// Lists the finished backups, oldest first.
    pub async fn list_backups(&self) -> Result<Vec<BackupLabel>, RepoError> {
        let (finished, _) = self.list_labels().await?;
        Ok(finished)
    }

    /// Lists the labels that are claimed without a finished backup, oldest first:
    /// attempts that still run, or that died and can be removed.
    pub async fn list_unfinished_backups(&self) -> Result<Vec<BackupLabel>, RepoError> {
        let (_, unfinished) = self.list_labels().await?;
        Ok(unfinished)
    }

    pub(crate) async fn list_labels(
        &self,
    ) -> Result<(Vec<BackupLabel>, Vec<BackupLabel>), RepoError> {
        let prefix = Path::from(BACKUP_PREFIX);
        let listing = self
            .store()
            .list_with_delimiter(Some(&prefix))
            .await
            .map_err(|error| RepoError::from_store(BACKUP_PREFIX, error))?;
        let labels: BTreeSet<BackupLabel> = listing
            .common_prefixes
            .iter()
            .filter_map(|path| path.filename()?.parse().ok())
            .collect();
        let states = futures::stream::iter(labels)
            .map(|label| async move { self.state_of(&label).await.map(|state| (state, label)) })
            .buffered(LABELS_AT_ONCE);
        let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
        for (state, label) in states.try_collect::<Vec<_>>().await? {
            match state {
                LabelState::Finished => finished.push(label),
                LabelState::Unfinished => unfinished.push(label),
                LabelState::Empty => {}
            }
        }
        Ok((finished, unfinished))
    }

    async fn state_of(&self, label: &BackupLabel) -> Result<LabelState, RepoError> {
        if self.backup_is_finished(label).await? {
            return Ok(LabelState::Finished);
        }
        let prefix = layout::backup_prefix(label.as_str());
        Ok(if self.has_level(&prefix).await? {
            LabelState::Unfinished
        } else {
            LabelState::Empty
        })
    }

    async fn backup_is_finished(&self, label: &BackupLabel) -> Result<bool, RepoError> {
        let key = backup_json_key(label);
        match self.store().head(&Path::from(key.as_str())).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => match RepoError::from_store(&key, error) {
                // What it is instead of a file, its reader will say.
                RepoError::Corrupt { .. } => Ok(true),
                error => Err(error),
            },
        }
    }

    /// Reads the `backup.json` of a finished backup.
    pub async fn read_backup_json(&self, label: &BackupLabel) -> Result<Bytes, RepoError> {
        let key = backup_json_key(label);
        self.read(&key, MAX_BACKUP_JSON_BYTES)
            .await?
            .ok_or(RepoError::NotFound { key })
    }

    /// Opens a data object of a backup for reading from its start to its end.
    ///
    /// A stream that ends without an error has delivered the whole object.
    pub async fn open_backup_object(
        &self,
        label: &BackupLabel,
        name: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, RepoError>>, RepoError> {
        let key = layout::backup_object_key(label.as_str(), name)?;
        let object = self.open_object(&key).await?;
        let size_bytes = object.meta.size;
        Ok(whole(key, size_bytes, content(object)))
    }

    /// Reads a part of a data object of a backup, all of it or none.
    pub async fn read_backup_range(
        &self,
        label: &BackupLabel,
        name: &str,
        range: Range<u64>,
    ) -> Result<Bytes, RepoError> {
        let key = layout::backup_object_key(label.as_str(), name)?;
        let end = range.end;
        let wanted_bytes = end.saturating_sub(range.start);
        let path = Path::from(key.as_str());
        match self.store().get_range(&path, range).await {
            Ok(bytes) if bytes.len() as u64 == wanted_bytes => Ok(bytes),
            Ok(bytes) => Err(RepoError::Corrupt {
                key,
                detail: format!("{} of {wanted_bytes} bytes could be read", bytes.len()),
            }),
            Err(error) => match self.store().head(&path).await {
                // Not a failure of the store that could pass.
                Ok(found) if found.size < end => Err(RepoError::Corrupt {
                    key,
                    detail: format!("it has {} bytes, {end} are needed", found.size),
                }),
                _ => Err(RepoError::from_store(&key, error)),
            },
        }
    }

    /// Lists the data objects of a backup, finished or not, with their sizes.
    pub async fn list_backup_objects(
        &self,
        label: &BackupLabel,
    ) -> Result<BTreeMap<String, u64>, RepoError> {
        let objects = self.backup_objects(label).await?.into_iter();
        Ok(objects.map(|(name, meta)| (name, meta.size)).collect())
    }

    async fn backup_objects(
        &self,
        label: &BackupLabel,
    ) -> Result<BTreeMap<String, ObjectMeta>, RepoError> {
        let prefix = layout::backup_prefix(label.as_str());
        let of_label = prefix.clone() + "/";
        let found: Vec<_> = self
            .store()
            .list(Some(&Path::from(prefix.as_str())))
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?;
        Ok(found
            .into_iter()
            .filter_map(|meta| {
                let name = meta.location.as_ref().strip_prefix(&of_label)?.to_owned();
                let key = layout::backup_object_key(label.as_str(), &name).ok()?;
                (key == meta.location.as_ref()).then_some((name, meta))
            })
            .collect())
    }

    /// When the newest object of a backup was made, its description included. A pin is none of
    /// its objects.
    pub async fn backup_modified(
        &self,
        label: &BackupLabel,
    ) -> Result<Option<SystemTime>, RepoError> {
        let described = self.store().head(&Path::from(backup_json_key(label))).await;
        let described = match described {
            Ok(meta) => Some(meta),
            Err(object_store::Error::NotFound { .. }) => None,
            Err(error) => return Err(RepoError::from_store(&backup_json_key(label), error)),
        };
        let objects = self.backup_objects(label).await?.into_values();
        let times = objects.chain(described).map(|meta| meta.last_modified);
        Ok(times.max().map(SystemTime::from))
    }
}

fn backup_json_key(label: &BackupLabel) -> String {
    layout::backup_key(label, BACKUP_JSON)
}

/// Passes a stream on, and turns an early end into an error.
pub(crate) fn whole(
    key: String,
    size_bytes: u64,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes, RepoError>> {
    let state = Some((key, stream, 0_u64));
    futures::stream::try_unfold(state, move |state| async move {
        let Some((key, mut stream, read_bytes)) = state else {
            return Ok(None);
        };
        match stream.next().await {
            Some(Ok(bytes)) => {
                let read_bytes = read_bytes + bytes.len() as u64;
                Ok(Some((bytes, Some((key, stream, read_bytes)))))
            }
            Some(Err(error)) => Err(RepoError::from_store(&key, error)),
            None if read_bytes == size_bytes => Ok(None),
            None => Err(RepoError::Corrupt {
                key,
                detail: format!("{read_bytes} of {size_bytes} bytes could be read"),
            }),
        }
    })
    .boxed()
}

/// The objects of a backup being written: the size of each complete one, nothing for
/// one that is open or was given up.
pub(crate) type Objects = Arc<Mutex<BTreeMap<String, Option<u64>>>>;

/// A backup being written. Dropping it leaves an unfinished backup.
#[derive(Debug)]
pub struct BackupWriter {
    pub(crate) repository: Repository,
    pub(crate) label: BackupLabel,
    /// Which attempt it is, from 1 on.
    pub(crate) attempt: u32,
    pub(crate) objects: Objects,
}

impl BackupWriter {
    /// The label that this backup claimed.
    pub fn label(&self) -> &BackupLabel {
        &self.label
    }

    /// Keeps the backup from being expired, from its first moment on.
    pub async fn pin(&self, pin: &Pin) -> Result<(), RepoError> {
        self.repository.pin(&self.label, pin).await
    }

    /// Which attempt it is, from 1 on.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The name of an object of this attempt.
    pub fn name(&self, name: &str) -> String {
        claim::object_name(self.attempt, name)
    }

    /// Lets go of the label. Nothing but the claim may have been put, and not by a second attempt.
    pub async fn give_up(self) -> Result<(), RepoError> {
        self.repository.remove_backup_claim(&self.label).await
    }

    /// Begins a data object, of one of the names that the attempt has. Several may be written at the
    /// same time.
    pub async fn create_object(&self, name: &str) -> Result<BackupObject, RepoError> {
        let key = layout::backup_object_key(self.label.as_str(), name)?;
        {
            let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
            if objects.contains_key(name) {
                return Err(RepoError::AlreadyExists { key });
            }
            objects.insert(name.to_owned(), None);
        }
        let upload = self
            .repository
            .store()
            .put_multipart(&Path::from(key.as_str()))
            .await
            .map_err(|error| RepoError::from_put(&key, error))?;
        Ok(BackupObject {
            key,
            name: name.to_owned(),
            upload,
            part: Vec::new(),
            part_bytes: 0,
            in_flight: JoinSet::new(),
            written_bytes: 0,
            has_lost_a_part: false,
            objects: Arc::clone(&self.objects),
        })
    }

    /// Makes the backup exist: checks that every object begun is in the repository
    /// with the size it was written with, then puts `backup.json`.
    pub async fn finish(self, backup_json: Bytes) -> Result<BackupLabel, RepoError> {
        self.check_objects().await?;
        let key = backup_json_key(&self.label);
        match self.repository.create(&key, backup_json.clone()).await {
            Ok(()) => Ok(self.label),
            Err(RepoError::AlreadyExists { key }) => {
                // Unless another attempt was faster, this is our own put whose answer was lost.
                let found = self.repository.read_backup_json(&self.label).await?;
                if found == backup_json {
                    Ok(self.label)
                } else {
                    Err(RepoError::AlreadyExists { key })
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn check_objects(&self) -> Result<(), RepoError> {
        let written = self
            .objects
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let stored = self.repository.list_backup_objects(&self.label).await?;
        for (name, size_bytes) in written {
            let detail = match (size_bytes, stored.get(&name)) {
                (None, _) => format!("{name} was begun and never finished"),
                (Some(_), None) => format!("{name} is not in the repository"),
                (Some(wrote), Some(has)) if wrote != *has => {
                    format!("{name} has {has} bytes in the repository, {wrote} were written")
                }
                (Some(_), Some(_)) => continue,
            };
            return Err(RepoError::IncompleteBackup {
                label: self.label.to_string(),
                detail,
            });
        }
        Ok(())
    }
}

/// A data object being written, in parts of [`PART_BYTES`], so that memory is bounded
/// whatever its length.
///
/// It exists in the repository when [`BackupObject::finish`] has succeeded, and not at
/// all when it is dropped before.
pub struct BackupObject {
    key: String,
    name: String,
    upload: Box<dyn MultipartUpload>,
    /// The pieces of the part that is being filled.
    part: Vec<Bytes>,
    part_bytes: usize,
    /// Tasks, so that parts are stored while the next ones are made.
    in_flight: JoinSet<object_store::Result<()>>,
    written_bytes: u64,
    /// Set for good: what is stored after a failure has a hole.
    has_lost_a_part: bool,
    objects: Objects,
}

impl fmt::Debug for BackupObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupObject")
            .field("key", &self.key)
            .field("written_bytes", &self.written_bytes)
            .finish_non_exhaustive()
    }
}

impl BackupObject {
    /// Appends bytes; returns when no more than a bounded number of parts is waiting
    /// to be stored. After an error the object cannot be finished any more.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> Result<(), RepoError> {
        let mut bytes = bytes.into();
        let end = self.written_bytes.saturating_add(bytes.len() as u64);
        if end > MAX_OBJECT_BYTES {
            return Err(RepoError::ObjectTooLarge {
                key: self.key.clone(),
                limit_bytes: MAX_OBJECT_BYTES,
            });
        }
        self.written_bytes = end;
        while !bytes.is_empty() {
            let room = PART_BYTES - self.part_bytes;
            let fits = bytes.split_to(room.min(bytes.len()));
            self.part_bytes += fits.len();
            self.part.push(fits);
            if self.part_bytes == PART_BYTES {
                self.send_part().await?;
            }
        }
        Ok(())
    }

    /// Stores what is left and makes the object exist, durably. Returns its size.
    pub async fn finish(mut self) -> Result<u64, RepoError> {
        if let Err(error) = self.complete().await {
            // The error that counts is the first one; what could not be removed of the
            // parts is debris that no reader sees.
            let _ = self.upload.abort().await;
            return Err(error);
        }
        self.objects
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.name, Some(self.written_bytes));
        Ok(self.written_bytes)
    }

    async fn complete(&mut self) -> Result<(), RepoError> {
        if self.has_lost_a_part {
            return Err(RepoError::Unavailable {
                key: self.key.clone(),
                source: "a part of it could not be stored before".into(),
            });
        }
        if !self.part.is_empty() {
            self.send_part().await?;
        }
        self.wait_for_parts(0).await?;
        match self.upload.complete().await {
            Ok(_) => Ok(()),
            Err(error) => Err(RepoError::from_put(&self.key, error)),
        }
    }

    async fn send_part(&mut self) -> Result<(), RepoError> {
        self.wait_for_parts(PARTS_IN_FLIGHT - 1).await?;
        let part: PutPayload = std::mem::take(&mut self.part).into_iter().collect();
        self.part_bytes = 0;
        self.in_flight.spawn(self.upload.put_part(part));
        Ok(())
    }

    async fn wait_for_parts(&mut self, at_most: usize) -> Result<(), RepoError> {
        while self.in_flight.len() > at_most {
            let part = match self.in_flight.join_next().await {
                Some(Ok(part)) => part,
                Some(Err(error)) => Err(error.into()),
                None => break,
            };
            if let Err(error) = part {
                self.has_lost_a_part = true;
                return Err(RepoError::from_put(&self.key, error));
            }
        }
        Ok(())
    }
}
