//! The repository itself: whose archive it is, and the few ways to touch an object.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::cluster::ClusterRecord;
use crate::layout::{MAX_SMALL_JSON_BYTES, REPOSITORY_JSON};
use crate::{ClusterIdentity, IntoExistingDirectory, RepoError};

/// What [`Repository::init`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// No repository: it was made.
    Created,
    /// The repository of the same cluster, left as it is.
    Existed,
}

/// The archive of one cluster, on any store.
#[derive(Clone, Debug)]
pub struct Repository {
    store: Arc<dyn ObjectStore>,
    record: ClusterRecord,
}

impl Repository {
    /// Makes a repository for a cluster; success as well when it is there already
    /// and belongs to the same cluster.
    pub async fn init(
        store: Arc<dyn ObjectStore>,
        cluster: ClusterIdentity,
    ) -> Result<(Self, Initialised), RepoError> {
        match Self::open(Arc::clone(&store)).await {
            Ok(existing) => return existing.confirm_init(cluster).await,
            Err(RepoError::NotARepository { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut repository = Self {
            store,
            record: ClusterRecord::new(cluster),
        };
        repository.mark_wal().await?;
        match repository
            .create(REPOSITORY_JSON, repository.record.write()?)
            .await
        {
            Ok(()) => Ok((repository, Initialised::Created)),
            Err(RepoError::AlreadyExists { .. }) => {
                let existing = Self::open(repository.store).await?;
                existing.confirm_init(cluster).await
            }
            Err(error) => Err(error),
        }
    }

    async fn confirm_init(
        self,
        cluster: ClusterIdentity,
    ) -> Result<(Self, Initialised), RepoError> {
        self.check_cluster(cluster)?;
        self.check_wal().await?;
        Ok((self, Initialised::Existed))
    }

    /// Opens a repository and checks that this build understands it.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<Self, RepoError> {
        let json = read(store.as_ref(), REPOSITORY_JSON, MAX_SMALL_JSON_BYTES)
            .await?
            .ok_or_else(|| RepoError::NotARepository {
                location: store.to_string(),
            })?;
        let record = ClusterRecord::read(REPOSITORY_JSON, &json)?;
        Ok(Self { store, record })
    }

    /// Whose archive this is.
    pub fn cluster(&self) -> ClusterIdentity {
        self.record.cluster
    }

    /// Refuses a cluster that this is not the archive of, naming both.
    pub fn check_cluster(&self, cluster: ClusterIdentity) -> Result<(), RepoError> {
        if self.cluster() == cluster {
            Ok(())
        } else {
            Err(RepoError::Mismatch {
                repository: self.cluster(),
                cluster,
            })
        }
    }

    /// When the repository was initialised.
    pub fn created(&self) -> Timestamp {
        self.record.created
    }

    pub(crate) fn record(&self) -> &ClusterRecord {
        &self.record
    }

    pub(crate) fn set_created(&mut self, created: Timestamp) {
        self.record.created = created;
    }

    /// The store below, which describes itself when printed.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Puts a whole object that must not exist yet.
    pub(crate) async fn create(&self, key: &str, object: Bytes) -> Result<(), RepoError> {
        let options = PutOptions::from(PutMode::Create);
        match self
            .store
            .put_opts(&Path::from(key), object.into(), options)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(RepoError::from_put(key, error)),
        }
    }

    /// The same on a store with directories, but only into one that exists; `None` when it
    /// would have to be made.
    pub(crate) async fn create_in_directory(
        &self,
        key: &str,
        object: Bytes,
    ) -> Result<Option<()>, RepoError> {
        let mut options = PutOptions::from(PutMode::Create);
        options.extensions.insert(IntoExistingDirectory);
        match self
            .store
            .put_opts(&Path::from(key), object.into(), options)
            .await
        {
            Ok(_) => Ok(Some(())),
            Err(object_store::Error::Precondition { .. }) => Ok(None),
            Err(error) => Err(RepoError::from_put(key, error)),
        }
    }

    /// Reads a whole object of at most `limit_bytes`; `None` when it does not exist.
    pub(crate) async fn read(
        &self,
        key: &str,
        limit_bytes: u64,
    ) -> Result<Option<Bytes>, RepoError> {
        read(self.store.as_ref(), key, limit_bytes).await
    }

    /// Begins to read an object.
    pub(crate) async fn open_object(&self, key: &str) -> Result<GetResult, RepoError> {
        self.store
            .get(&Path::from(key))
            .await
            .map_err(|error| RepoError::from_store(key, error))
    }
}

/// Reads a whole object, after its size was checked and against its size.
async fn read(
    store: &dyn ObjectStore,
    key: &str,
    limit_bytes: u64,
) -> Result<Option<Bytes>, RepoError> {
    let found = match store.get(&Path::from(key)).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(RepoError::from_store(key, error)),
    };
    let size_bytes = found.meta.size;
    if size_bytes > limit_bytes {
        return Err(RepoError::Corrupt {
            key: key.to_owned(),
            detail: format!("it has {size_bytes} bytes, at most {limit_bytes} are possible"),
        });
    }
    let object = found
        .bytes()
        .await
        .map_err(|error| RepoError::from_store(key, error))?;
    if object.len() as u64 != size_bytes {
        return Err(RepoError::Corrupt {
            key: key.to_owned(),
            detail: format!("{} of {size_bytes} bytes could be read", object.len()),
        });
    }
    Ok(Some(object))
}
