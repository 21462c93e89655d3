//! Removing what is not wanted any more: backups, what is left of others, WAL.
//!
//! A backup ceases to exist when its `backup.json` is removed, before any of its data. Until all
//! of its data is gone its label stays claimed. Each removal is durable when it returns, also
//! where there was nothing to remove: an earlier process may have been killed before it was sure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::json::encode_json;
use crate::layout::{
    self, BACKUP_EXPIRING, BACKUP_JSON, BACKUP_PREFIX, BACKUP_STARTED, FORMAT, MAX_SMALL_JSON_BYTES,
};
use crate::names::aside_label::AsideLabel;
use crate::names::backup_label::BackupLabel;
use crate::repository::Repository;

/// An object below a label, whatever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelObject {
    /// Its size.
    pub size_bytes: u64,
    /// When the store says it was made.
    pub modified: SystemTime,
}

/// `expiring`, as in docs/format/repository.md.
#[derive(Serialize, Deserialize)]
struct ExpiringJson {
    format: u64,
    expiring: Timestamp,
    cluster: Option<String>,
}

/// Removes every object below a key, whatever it is, and the directories that they were in; adds up
/// their sizes. For those who made all of it themselves.
pub async fn remove_below(store: &dyn ObjectStore, key: &str) -> Result<u64, RepoError> {
    let failed = |error| RepoError::from_store(key, error);
    let below = Path::from(key);
    let found: Vec<_> = store
        .list(Some(&below))
        .try_collect()
        .await
        .map_err(failed)?;
    let mut bytes = 0;
    let mut directories = BTreeSet::new();
    for object in found {
        match store.delete(&object.location).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => bytes += object.size,
            Err(error) => return Err(failed(error)),
        }
        let mut path = object.location.as_ref();
        while let Some((parent, _)) = path.rsplit_once('/') {
            if !parent.starts_with(below.as_ref()) {
                break;
            }
            directories.insert(parent.to_owned());
            path = parent;
        }
    }
    // What is in a directory comes after it. Buckets have none.
    for directory in directories.into_iter().rev() {
        let _gone = store.delete(&Path::from(directory)).await;
    }
    Ok(bytes)
}

impl Repository {
    /// Everything below each label, `started` and `backup.json` included, in one listing.
    pub async fn list_labels_with_objects(
        &self,
    ) -> Result<BTreeMap<BackupLabel, BTreeMap<String, LabelObject>>, RepoError> {
        let found: Vec<_> = self
            .store()
            .list(Some(&Path::from(BACKUP_PREFIX)))
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(BACKUP_PREFIX, error))?;
        let mut labels: BTreeMap<BackupLabel, BTreeMap<String, LabelObject>> = BTreeMap::new();
        for meta in found {
            let key = meta.location.as_ref();
            let below = key.strip_prefix(BACKUP_PREFIX).unwrap_or_default();
            let parts = below
                .strip_prefix('/')
                .and_then(|rest| rest.split_once('/'));
            let Some((label, name)) = parts else { continue };
            let Ok(label) = label.parse() else { continue };
            let object = LabelObject {
                size_bytes: meta.size,
                modified: meta.last_modified.into(),
            };
            labels
                .entry(label)
                .or_default()
                .insert(name.to_owned(), object);
        }
        Ok(labels)
    }

    /// Says that a backup is being expired, so that nothing begins to need it.
    pub async fn mark_expiring(
        &self,
        label: &BackupLabel,
        cluster: Option<ClusterIdentity>,
    ) -> Result<(), RepoError> {
        let json = encode_json(&ExpiringJson {
            format: FORMAT,
            expiring: Timestamp::now(),
            cluster: cluster.map(ClusterIdentity::name),
        })?;
        let key = layout::backup_key(label, BACKUP_EXPIRING);
        let mut put = self.create(&key, json).await;
        // On a full disk, an object without content often finds a place. The mark is what counts.
        if let Err(RepoError::NoSpace { .. }) = put {
            put = self.create(&key, Bytes::new()).await;
        }
        match put {
            Err(RepoError::AlreadyExists { .. }) => Ok(()),
            put => put,
        }
    }

    /// Whose backup it was that is being expired, where that is said.
    pub async fn read_expiring(
        &self,
        label: &BackupLabel,
    ) -> Result<Option<ClusterIdentity>, RepoError> {
        let key = layout::backup_key(label, BACKUP_EXPIRING);
        let json = match self.read(&key, MAX_SMALL_JSON_BYTES).await {
            Err(RepoError::Corrupt { .. }) => None,
            read => read?,
        };
        let expiring = json.and_then(|json| serde_json::from_slice(&json).ok());
        let cluster = expiring.and_then(|expiring: ExpiringJson| expiring.cluster);
        Ok(cluster.and_then(|name| name.parse().ok()))
    }

    /// Takes back what [`Repository::mark_expiring`] said.
    pub async fn unmark_expiring(&self, label: &BackupLabel) -> Result<(), RepoError> {
        let key = layout::backup_key(label, BACKUP_EXPIRING);
        self.remove(&key).await.map(drop)
    }

    /// Whether a backup can be begun to be needed: it is finished, and nobody is expiring it.
    pub async fn stays(&self, label: &BackupLabel) -> Result<bool, RepoError> {
        Ok(self.has_backup_key(label, BACKUP_JSON).await?
            && !self.has_backup_key(label, BACKUP_EXPIRING).await?)
    }

    /// Removes the description of a backup, with which it ceases to exist.
    pub async fn remove_backup_json(&self, label: &BackupLabel) -> Result<(), RepoError> {
        let key = layout::backup_key(label, BACKUP_JSON);
        self.remove(&key).await.map(drop)
    }

    /// Removes what is below a label of which there is no `backup.json`, all but `started` and
    /// `expiring`.
    pub async fn remove_backup_objects(
        &self,
        label: &BackupLabel,
        names: impl IntoIterator<Item = String>,
    ) -> Result<(), RepoError> {
        let is_kept = |name: &String| name == BACKUP_STARTED || name == BACKUP_EXPIRING;
        let names = names.into_iter().filter(|name| !is_kept(name));
        let prefix = layout::backup_prefix(label.as_str());
        self.remove_all(names.map(|name| format!("{prefix}/{name}")))
            .await
    }

    /// Gives a label free, of which nothing else is left.
    pub async fn remove_backup_claim(&self, label: &BackupLabel) -> Result<(), RepoError> {
        let prefix = layout::backup_prefix(label.as_str());
        // Stores that have directories keep those of attempts when nothing is in them.
        let path = Path::from(prefix.as_str());
        let listing = self.store().list_with_delimiter(Some(&path)).await;
        let listing = listing.map_err(|error| RepoError::from_store(&prefix, error))?;
        for directory in listing.common_prefixes {
            self.remove(directory.as_ref()).await?;
        }
        for reserved in [BACKUP_STARTED, BACKUP_EXPIRING] {
            self.remove(&layout::backup_key(label, reserved)).await?;
        }
        self.remove(&prefix).await.map(drop)
    }

    /// Removes WAL objects of this cluster, roughly in this order.
    pub async fn remove_wal(&self, names: &[String]) -> Result<(), RepoError> {
        let keys = names
            .iter()
            .map(|name| layout::wal_key(self.cluster(), name));
        let keys: Vec<String> = keys.collect::<Result<_, _>>()?;
        self.remove_all(keys).await
    }

    /// Removes objects of this cluster that are set aside.
    pub async fn remove_aside(&self, label: AsideLabel, names: &[String]) -> Result<(), RepoError> {
        let keys = names
            .iter()
            .map(|name| layout::aside_key(self.cluster(), label, name));
        let keys: Vec<String> = keys.collect::<Result<_, _>>()?;
        self.remove_all(keys).await
    }

    /// Removes an object, or an empty directory of a store that has directories; whether it was
    /// there, as far as the store says.
    pub(crate) async fn remove(&self, key: &str) -> Result<bool, RepoError> {
        match self.store().delete(&Path::from(key)).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(RepoError::from_store(key, error)),
        }
    }

    /// Removes objects, some at a time where the store can. The first failure ends it.
    async fn remove_all(&self, keys: impl IntoIterator<Item = String>) -> Result<(), RepoError> {
        let keys: Vec<_> = keys.into_iter().map(|key| Ok(Path::from(key))).collect();
        let locations = futures::stream::iter(keys).boxed();
        let mut removed = self.store().delete_stream(locations);
        while let Some(outcome) = removed.next().await {
            match outcome {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(RepoError::from_store("an object to be removed", error)),
            }
        }
        Ok(())
    }
}
