//! WAL files, timeline histories and backup history files: small whole objects.

use std::time::SystemTime;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;

use crate::layout::{self, MAX_WAL_OBJECT_BYTES};
use crate::{RepoError, Repository};

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

impl Repository {
    /// Puts a WAL object unless the name is taken.
    ///
    /// Into an empty directory over which a file system is not mounted, an object would be put
    /// where nobody finds it later. Such a place has no directory for the segment either, and a
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

    /// Lists this cluster's WAL objects in the order of their names.
    ///
    /// Objects under keys that [`Repository::put_wal`] would not have made are not
    /// part of the archive and are passed over.
    pub async fn list_wal(&self) -> Result<Vec<WalEntry>, RepoError> {
        self.check_wal().await?;
        let prefix = layout::wal_prefix(self.cluster());
        let mut objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let mut entries = Vec::new();
        while let Some(meta) = objects
            .try_next()
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?
        {
            if let Some(name) = layout::wal_name(self.cluster(), meta.location.as_ref()) {
                entries.push(WalEntry {
                    name: name.to_owned(),
                    size_bytes: meta.size,
                    modified: meta.last_modified.into(),
                });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}
