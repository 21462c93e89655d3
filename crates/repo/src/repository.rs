//! The repository itself: whose archive it is, and the few ways to touch an object.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::cluster::ClusterRecord;
use crate::cluster_identity::ClusterIdentity;
use crate::encryption;
use crate::error::RepoError;
use crate::error::encryption::SealError;
use crate::layout::{self, FIRST_CLUSTER, MAX_SMALL_JSON_BYTES, REPOSITORY_JSON};
use crate::local::IntoExistingDirectory;

/// What [`Repository::init`] and [`Repository::register`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// Nothing of the cluster: its record was made.
    Created,
    /// The record of the same cluster, left as it is.
    Existed,
}

/// The archive of one cluster, on any store.
///
/// A repository that was kept through upgrades has several: [`Repository::open`] gives the first
/// one's, [`Repository::of`] another's. Backups are listed whosever they are.
#[derive(Clone, Debug)]
pub struct Repository {
    store: Arc<dyn ObjectStore>,
    /// Which of the repository's clusters it is.
    number: u32,
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
        let mut repository = Self::part(store, FIRST_CLUSTER, ClusterRecord::new(cluster));
        repository.refuse_lost_first().await?;
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
        let part = self.of(cluster).await?;
        part.check_wal().await?;
        Ok((part, Initialised::Existed))
    }

    /// Opens a repository at its first cluster and checks that this build understands it.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<Self, RepoError> {
        match Self::read_part(&store, FIRST_CLUSTER).await? {
            Some(first) => Ok(first),
            None => Err(RepoError::NotARepository {
                location: store.to_string(),
            }),
        }
    }

    /// The part of the cluster with this number, as its record says; `None` without one.
    pub(crate) async fn read_part(
        store: &Arc<dyn ObjectStore>,
        number: u32,
    ) -> Result<Option<Self>, RepoError> {
        let key = layout::record_key(number);
        let json = match read(store.as_ref(), &key, MAX_SMALL_JSON_BYTES).await {
            Ok(Some(json)) => json,
            Ok(None) => return Ok(None),
            // The first thing that is read of a repository.
            Err(RepoError::Corrupt { key, detail })
                if number == FIRST_CLUSTER && detail == SealError::Plaintext.to_string() =>
            {
                return Err(RepoError::KeyFileForPlain { key });
            }
            Err(error) => return Err(error),
        };
        let record = ClusterRecord::read(&key, &json)?;
        Ok(Some(Self::part(Arc::clone(store), number, record)))
    }

    pub(crate) fn part(store: Arc<dyn ObjectStore>, number: u32, record: ClusterRecord) -> Self {
        Self {
            store,
            number,
            record,
        }
    }

    /// Whose archive this is.
    pub fn cluster(&self) -> ClusterIdentity {
        self.record.cluster
    }

    /// Which of the repository's clusters this is: 1 for the first, in the order of upgrades.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The key of the cluster's record.
    pub fn record_key(&self) -> String {
        layout::record_key(self.number)
    }

    /// When the cluster was registered: the first one, when the repository was initialised.
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
    pub(crate) async fn create(
        &self,
        key: &str,
        object: impl Into<PutPayload>,
    ) -> Result<(), RepoError> {
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
pub(crate) async fn read(
    store: &dyn ObjectStore,
    key: &str,
    limit_bytes: u64,
) -> Result<Option<Bytes>, RepoError> {
    let read = read_dated(store, key, limit_bytes).await?;
    Ok(read.map(|(object, _)| object))
}

/// The same, and when the store says it was made.
pub(crate) async fn read_dated(
    store: &dyn ObjectStore,
    key: &str,
    limit_bytes: u64,
) -> Result<Option<(Bytes, SystemTime)>, RepoError> {
    let found = match store.get(&Path::from(key)).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(RepoError::from_store(key, error)),
    };
    let (size_bytes, modified) = (found.meta.size, found.meta.last_modified.into());
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
    // No object that was decrypted begins so.
    if object.starts_with(&encryption::MAGIC) {
        return Err(RepoError::Encrypted {
            key: key.to_owned(),
        });
    }
    Ok(Some((object, modified)))
}
