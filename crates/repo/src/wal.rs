//! WAL files, timeline histories and backup history files: small whole objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::layout::{self, MAX_WAL_OBJECT_BYTES};
use crate::{ClusterIdentity, RepoError, Repository, repository};

/// What a put found under the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// Nothing: the object is there now, and durable.
    Created,
    /// An object, which was left as it is and is durable. It may be the work of an
    /// earlier attempt whose answer was lost, so the caller compares the content
    /// before it calls this a success or an error.
    Exists,
}

/// One WAL object of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalEntry {
    /// The name under which PostgreSQL archived the file.
    pub name: String,
    /// The size of the object as it is stored.
    pub size_bytes: u64,
    /// When the store says it was made.
    pub modified: SystemTime,
}

/// What an archive has of each timeline, at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalSurvey {
    /// The timelines with segments, whole or partial.
    pub timelines: BTreeSet<u32>,
    /// The files that are named after no segment: histories.
    pub histories: Vec<WalEntry>,
}

impl WalSurvey {
    fn has_history(&self, timeline: u32) -> bool {
        let name = format!("{timeline:08X}.history");
        timeline == 1 || self.histories.iter().any(|entry| entry.name == name)
    }
}

impl Repository {
    /// Puts a WAL object unless the name is taken.
    ///
    /// Into an empty directory over which a file system is not mounted, an object would be put
    /// where nobody finds it later. Such a directory has none for the segment either, and a
    /// history needs none: both are reasons to look for the mark before.
    pub async fn put_wal(&self, name: &str, object: Bytes) -> Result<PutOutcome, RepoError> {
        let key = layout::wal_key(self.cluster(), name)?;
        let put = if layout::wal_directory(name).is_some() {
            self.create_in_directory(&key, object.clone()).await
        } else {
            Ok(None)
        };
        let put = match put {
            Ok(None) => {
                self.check_wal().await?;
                self.create(&key, object).await
            }
            Ok(Some(())) => Ok(()),
            Err(error) => Err(error),
        };
        match put {
            Ok(()) => Ok(PutOutcome::Created),
            Err(RepoError::AlreadyExists { .. }) => Ok(PutOutcome::Exists),
            Err(error) => Err(error),
        }
    }

    /// Gets a WAL object of a cluster that is known already, in one request; `None` when there is
    /// none under the name.
    ///
    /// No record is read. The key names the cluster, so that what is found is no other's; what is
    /// not found says nothing before the repository is opened and its WAL is checked.
    pub async fn get_wal_unopened(
        store: &Arc<dyn ObjectStore>,
        cluster: ClusterIdentity,
        name: &str,
    ) -> Result<Option<Bytes>, RepoError> {
        let key = layout::wal_key(cluster, name)?;
        repository::read(store.as_ref(), &key, MAX_WAL_OBJECT_BYTES).await
    }

    /// Gets a WAL object; `None` when there is none under the name, and the archive is there
    /// that would have it.
    pub async fn get_wal(&self, name: &str) -> Result<Option<Bytes>, RepoError> {
        let key = layout::wal_key(self.cluster(), name)?;
        let found = self.read(&key, MAX_WAL_OBJECT_BYTES).await?;
        if found.is_none() {
            self.check_wal().await?;
        }
        Ok(found)
    }

    /// Says what is known about a WAL object without reading it, and without asking whether
    /// the archive is there when it is not.
    pub async fn find_wal(&self, name: &str) -> Result<Option<WalEntry>, RepoError> {
        use object_store::ObjectStoreExt;
        let key = layout::wal_key(self.cluster(), name)?;
        match self.store().head(&Path::from(key.as_str())).await {
            Ok(meta) => Ok(Some(WalEntry {
                name: name.to_owned(),
                size_bytes: meta.size,
                modified: meta.last_modified.into(),
            })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(RepoError::from_store(&key, error)),
        }
    }

    /// Looks at the timelines without listing their segments: one request, whatever the size of
    /// the archive.
    pub async fn survey_wal(&self) -> Result<WalSurvey, RepoError> {
        let prefix = layout::wal_prefix(self.cluster());
        let listing = self
            .store()
            .list_with_delimiter(Some(&Path::from(prefix.as_str())))
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?;
        let mut survey = WalSurvey {
            timelines: BTreeSet::new(),
            histories: self.wal_entries(listing.objects),
        };
        for directory in &listing.common_prefixes {
            let name = directory.filename().unwrap_or_default();
            if let Some(timeline) = layout::wal_directory_timeline(name)
                && !survey.timelines.contains(&timeline)
                && (survey.has_history(timeline) || self.has_objects(directory).await?)
            {
                survey.timelines.insert(timeline);
            }
        }
        Ok(survey)
    }

    /// A local disk keeps directories from which everything was removed. That matters where a
    /// history is missing.
    async fn has_objects(&self, prefix: &Path) -> Result<bool, RepoError> {
        let listing = self.store().list_with_delimiter(Some(prefix)).await;
        let listing = listing.map_err(|error| RepoError::from_store(prefix.as_ref(), error))?;
        Ok(!listing.objects.is_empty())
    }

    /// What these objects are, where they are WAL, in the order of their names.
    fn wal_entries(&self, objects: Vec<ObjectMeta>) -> Vec<WalEntry> {
        let entry = |meta: &ObjectMeta| {
            let name = layout::wal_name(self.cluster(), meta.location.as_ref())?;
            Some(WalEntry {
                name: name.to_owned(),
                size_bytes: meta.size,
                modified: meta.last_modified.into(),
            })
        };
        let mut entries: Vec<WalEntry> = objects.iter().filter_map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Lists this cluster's WAL objects in the order of their names.
    ///
    /// Objects under keys that [`Repository::put_wal`] would not have made are not
    /// part of the archive and are passed over.
    pub async fn list_wal(&self) -> Result<Vec<WalEntry>, RepoError> {
        self.check_wal().await?;
        let prefix = layout::wal_prefix(self.cluster());
        let objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let objects = objects.try_collect().await;
        Ok(self.wal_entries(objects.map_err(|error| RepoError::from_store(&prefix, error))?))
    }
}
