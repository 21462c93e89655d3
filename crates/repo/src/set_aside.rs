//! WAL objects of abandoned timelines: put aside, and put back.
//!
//! An object moves by being copied, compared and then removed, so that it is never absent from
//! both keys. Each step may be repeated, whatever became of it the first time.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::error::RepoError;
use crate::layout::{self, MAX_WAL_OBJECT_BYTES, WAL_SUFFIX};
use crate::names::aside_label::AsideLabel;
use crate::repository::Repository;
use crate::wal::WalEntry;
use crate::wal::WalListing;

impl Repository {
    /// The labels under which WAL of this cluster is set aside.
    pub async fn list_aside_labels(&self) -> Result<Vec<AsideLabel>, RepoError> {
        let prefix = layout::aside_prefix(self.cluster());
        let listing = self
            .store()
            .list_with_delimiter(Some(&Path::from(prefix.as_str())))
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?;
        let directories = listing.common_prefixes.iter();
        let labels: BTreeSet<AsideLabel> = directories
            .filter_map(|path| path.filename()?.parse().ok())
            .collect();
        let mut used = Vec::new();
        for label in labels {
            // A local disk keeps directories from which everything was removed.
            let listing = self.list_aside_objects(label).await?;
            if !listing.single.is_empty() || !listing.packs.is_empty() {
                used.push(label);
            }
        }
        Ok(used)
    }

    /// The objects of one file each that are set aside under a label, in the order of the names.
    pub async fn list_aside(&self, label: AsideLabel) -> Result<Vec<WalEntry>, RepoError> {
        let prefix = format!("{}/{label}", layout::aside_prefix(self.cluster()));
        let objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let objects: Vec<_> = objects
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?;
        let entry = |meta: &object_store::ObjectMeta| {
            let key = meta.location.as_ref();
            let name = key.rsplit('/').next()?.strip_suffix(WAL_SUFFIX)?;
            (layout::aside_key(self.cluster(), label, name).ok()? == key).then(|| WalEntry {
                name: name.to_owned(),
                size_bytes: meta.size,
                modified: meta.last_modified.into(),
                packed: None,
            })
        };
        let mut entries: Vec<WalEntry> = objects.iter().filter_map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// All that is set aside under a label.
    pub async fn list_aside_objects(&self, label: AsideLabel) -> Result<WalListing, RepoError> {
        Ok(WalListing {
            single: self.list_aside(label).await?,
            packs: self.packs_aside(label).list().await?,
        })
    }

    /// Gets an object that is set aside.
    pub async fn get_aside(
        &self,
        label: AsideLabel,
        name: &str,
    ) -> Result<Option<Bytes>, RepoError> {
        let key = layout::aside_key(self.cluster(), label, name)?;
        self.read(&key, MAX_WAL_OBJECT_BYTES).await
    }

    /// Copies a WAL object to what is set aside; the copy is durable and was compared.
    pub async fn copy_aside(&self, label: AsideLabel, name: &str) -> Result<(), RepoError> {
        let (wal, aside) = self.both_keys(label, name)?;
        self.copy(&wal, &aside).await
    }

    /// Copies an object that is set aside back to the WAL; the copy is durable and was compared.
    pub async fn copy_back(&self, label: AsideLabel, name: &str) -> Result<(), RepoError> {
        let (wal, aside) = self.both_keys(label, name)?;
        self.copy(&aside, &wal).await
    }

    /// Removes a WAL object of which a copy is set aside.
    pub async fn remove_copied_aside(
        &self,
        label: AsideLabel,
        name: &str,
    ) -> Result<(), RepoError> {
        let (wal, aside) = self.both_keys(label, name)?;
        self.remove_copied(&wal, &aside).await
    }

    /// Removes an object that was set aside and is in the WAL again.
    pub async fn remove_copied_back(&self, label: AsideLabel, name: &str) -> Result<(), RepoError> {
        let (wal, aside) = self.both_keys(label, name)?;
        self.remove_copied(&aside, &wal).await
    }

    fn both_keys(&self, label: AsideLabel, name: &str) -> Result<(String, String), RepoError> {
        let wal = layout::wal_key(self.cluster(), name)?;
        Ok((wal, layout::aside_key(self.cluster(), label, name)?))
    }

    async fn copy(&self, from: &str, to: &str) -> Result<(), RepoError> {
        let Some(object) = self.read(from, MAX_WAL_OBJECT_BYTES).await? else {
            return Err(RepoError::NotFound {
                key: from.to_owned(),
            });
        };
        match self.create(to, object.clone()).await {
            // An earlier attempt, whose answer was lost, or another object: the comparison tells.
            Ok(()) | Err(RepoError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        let copy = self.read(to, MAX_WAL_OBJECT_BYTES).await?;
        if copy != Some(object) {
            return Err(RepoError::AlreadyExists { key: to.to_owned() });
        }
        Ok(())
    }

    /// Compares again, since the name may have been given to another object after the original
    /// was removed by somebody else.
    async fn remove_copied(&self, original: &str, copy: &str) -> Result<(), RepoError> {
        let Some(object) = self.read(original, MAX_WAL_OBJECT_BYTES).await? else {
            return Ok(());
        };
        if self.read(copy, MAX_WAL_OBJECT_BYTES).await? != Some(object) {
            return Err(RepoError::AlreadyExists {
                key: original.to_owned(),
            });
        }
        match self.store().delete(&Path::from(original)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(RepoError::from_store(original, error)),
        }
    }
}
