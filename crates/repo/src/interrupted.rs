//! Backups that were interrupted, and go on under their labels.
//!
//! The objects of the second attempt are named `2/…`, and so on: no attempt ever writes what another
//! one has. Whoever puts `backup.json` first has the label.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::backup::BackupWriter;
use crate::claim::{StartedJson, claim_key, object_name};
use crate::error::RepoError;
use crate::json::encode_json;
use crate::layout::{
    self, BACKUP_EXPIRING, BACKUP_JSON, BACKUP_PINNED, BACKUP_STARTED, MAX_BACKUP_JSON_BYTES,
    MAX_STARTED_JSON_BYTES,
};
use crate::names::backup_label::BackupLabel;
use crate::names::backup_label::BackupType;
use crate::removal::LabelObject;
use crate::repository::Repository;

/// An attempt that has put nothing for so long was interrupted, wherever it ran.
const INTERRUPTED_AGE: Duration = Duration::from_secs(60 * 60);
/// More attempts are not made under one label.
const ATTEMPTS_MAX: u32 = 99;

/// A full backup that was interrupted.
#[derive(Clone, Debug)]
pub struct Interrupted {
    /// Its label.
    pub label: BackupLabel,
    /// How many attempts there were.
    pub attempts: u32,
    /// The objects of all of them, and their sizes.
    pub objects: BTreeMap<String, u64>,
}

impl Repository {
    /// The backups that one which is not finished may refer to; nothing where it does not say.
    pub async fn read_claimed_references(
        &self,
        label: &BackupLabel,
    ) -> Result<Option<Vec<String>>, RepoError> {
        let started = self.read_started(label, 1).await?;
        Ok(started.and_then(|started| started.references))
    }

    /// What claims an attempt, if it is there and can be read.
    async fn read_started(
        &self,
        label: &BackupLabel,
        attempt: u32,
    ) -> Result<Option<StartedJson>, RepoError> {
        let key = claim_key(label, attempt);
        let json = match self.read(&key, MAX_STARTED_JSON_BYTES).await {
            Err(RepoError::Corrupt { .. }) => None,
            read => read?,
        };
        Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
    }

    /// The newest of all backups, if it is a full one that was interrupted, and nobody expires it.
    pub async fn interrupted_backup(&self) -> Result<Option<Interrupted>, RepoError> {
        let (finished, mut unfinished) = self.list_labels().await?;
        let newest = unfinished.pop().filter(|newest| {
            newest.backup_type() == BackupType::Full
                && finished.last().is_none_or(|other| other < newest)
        });
        let Some(label) = newest else {
            return Ok(None);
        };
        let objects = self.list_backup_objects(&label).await?;
        let claims = (2..=ATTEMPTS_MAX)
            .take_while(|&attempt| objects.contains_key(&object_name(attempt, BACKUP_STARTED)));
        let attempts = 1 + claims.count() as u32;
        let is_free = attempts < ATTEMPTS_MAX
            && !self.has_backup_key(&label, BACKUP_EXPIRING).await?
            // Whose reason that was is not known any more.
            && !self.has_backup_key(&label, BACKUP_PINNED).await?
            && self.were_interrupted(&label, attempts).await?;
        Ok(is_free.then_some(Interrupted {
            label,
            attempts,
            objects,
        }))
    }

    /// Whether an unfinished backup that an expiry has marked may have been continued before that:
    /// its newest attempt is not the first, and is not known to have ended.
    pub async fn may_go_on(
        &self,
        label: &BackupLabel,
        objects: &BTreeMap<String, LabelObject>,
    ) -> Result<bool, RepoError> {
        let is_claimed =
            |attempt: &u32| objects.contains_key(&object_name(*attempt, BACKUP_STARTED));
        let Some(newest) = (2..=ATTEMPTS_MAX).take_while(is_claimed).last() else {
            return Ok(false);
        };
        // Only a mark of a finished backup names its cluster.
        if self.read_expiring(label).await?.is_some() {
            return Ok(false);
        }
        let started = self.read_started(label, newest).await?;
        Ok(started.and_then(|started| started.runs()) != Some(false))
    }

    /// Whether no attempt runs any more: its process has ended, or nobody knows and it has put nothing
    /// for long.
    async fn were_interrupted(
        &self,
        label: &BackupLabel,
        attempts: u32,
    ) -> Result<bool, RepoError> {
        let mut all_have_ended = true;
        for attempt in 1..=attempts {
            let started = self.read_started(label, attempt).await?;
            match started.and_then(|started| started.runs()) {
                Some(true) => return Ok(false),
                Some(false) => {}
                None => all_have_ended = false,
            }
        }
        if all_have_ended {
            return Ok(true);
        }
        let modified = self.backup_modified(label).await?;
        let age = modified.and_then(|last| SystemTime::now().duration_since(last).ok());
        Ok(age.is_some_and(|age| age >= INTERRUPTED_AGE))
    }

    /// Claims the next attempt at a backup that was interrupted; `None` if somebody else has, or if
    /// it is finished or being expired by now.
    pub async fn continue_backup(
        &self,
        interrupted: &Interrupted,
    ) -> Result<Option<BackupWriter>, RepoError> {
        let Interrupted {
            label, attempts, ..
        } = interrupted;
        let attempt = attempts + 1;
        let json = encode_json(&StartedJson::new(Timestamp::now(), Vec::new()))?;
        let key = claim_key(label, attempt);
        match self.create(&key, json).await {
            Ok(()) => {}
            Err(RepoError::AlreadyExists { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        // An expiry that marks the label from now on sees the claim before it removes anything
        // ([`Repository::may_go_on`]).
        for reserved in [BACKUP_EXPIRING, BACKUP_JSON] {
            if self.has_backup_key(label, reserved).await? {
                self.remove(&key).await?;
                return Ok(None);
            }
        }
        Ok(Some(BackupWriter {
            repository: self.clone(),
            label: label.clone(),
            attempt,
            objects: Arc::new(Mutex::default()),
        }))
    }

    /// Reads a small object of a backup that is not finished, whole.
    pub async fn read_backup_object(
        &self,
        label: &BackupLabel,
        name: &str,
    ) -> Result<Option<bytes::Bytes>, RepoError> {
        let key = layout::backup_object_key(label.as_str(), name)?;
        self.read(&key, MAX_BACKUP_JSON_BYTES).await
    }
}

impl BackupWriter {
    /// Takes an object of an earlier attempt into the backup: it has to be there with this size at
    /// the end.
    pub fn keep(&self, name: &str, size_bytes: u64) {
        let mut objects = self
            .objects
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        objects.insert(name.to_owned(), Some(size_bytes));
    }
}
