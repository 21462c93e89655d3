//! The repository itself: whose archive it is, and the few ways to touch an object.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};

use crate::RepoError;
use crate::layout::{FORMAT, MAX_SMALL_JSON_BYTES, REPOSITORY_JSON};

/// Which cluster an archive belongs to.
///
/// Both parts are needed: `pg_upgrade` keeps neither, a physical copy keeps both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterIdentity {
    /// The system identifier that initdb gave the cluster.
    pub system_id: u64,
    /// The server's major version.
    pub major: u32,
}

impl fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PostgreSQL {} with system identifier {}",
            self.major, self.system_id
        )
    }
}

/// What [`Repository::init`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// No repository: it was made.
    Created,
    /// The repository of the same cluster, left as it is.
    Existed,
}

/// `repository.json`, as in docs/format/repository.md.
#[derive(Serialize, Deserialize)]
struct RepositoryJson {
    format: u64,
    /// Decimal text, since readers of JSON lose digits of numbers beyond 2^53.
    system_identifier: String,
    major: u32,
    created: Timestamp,
}

/// The archive of one cluster, on any store.
#[derive(Clone, Debug)]
pub struct Repository {
    store: Arc<dyn ObjectStore>,
    cluster: ClusterIdentity,
    created: Timestamp,
}

impl Repository {
    /// Makes a repository for a cluster; success as well when it is there already
    /// and belongs to the same cluster.
    pub async fn init(
        store: Arc<dyn ObjectStore>,
        cluster: ClusterIdentity,
    ) -> Result<(Self, Initialised), RepoError> {
        let created = Timestamp::now();
        let json = encode_json(&RepositoryJson {
            format: FORMAT,
            system_identifier: cluster.system_id.to_string(),
            major: cluster.major,
            created,
        })?;
        let repository = Self {
            store,
            cluster,
            created,
        };
        match repository.create(REPOSITORY_JSON, json).await {
            Ok(()) => Ok((repository, Initialised::Created)),
            Err(RepoError::AlreadyExists { .. }) => {
                let existing = Self::open(repository.store).await?;
                existing.check_cluster(cluster)?;
                Ok((existing, Initialised::Existed))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a repository and checks that this build understands it.
    pub async fn open(store: Arc<dyn ObjectStore>) -> Result<Self, RepoError> {
        let json = read(store.as_ref(), REPOSITORY_JSON, MAX_SMALL_JSON_BYTES)
            .await?
            .ok_or_else(|| RepoError::NotARepository {
                location: store.to_string(),
            })?;
        check_format(REPOSITORY_JSON, &json)?;
        let corrupt = |detail: String| RepoError::Corrupt {
            key: REPOSITORY_JSON.to_owned(),
            detail,
        };
        let fields: RepositoryJson =
            serde_json::from_slice(&json).map_err(|error| corrupt(error.to_string()))?;
        let system_id = fields
            .system_identifier
            .parse::<u64>()
            .ok()
            .filter(|id| id.to_string() == fields.system_identifier)
            .ok_or_else(|| {
                corrupt(format!(
                    "system_identifier {:?} is not a decimal number of 64 bits",
                    fields.system_identifier
                ))
            })?;
        Ok(Self {
            store,
            cluster: ClusterIdentity {
                system_id,
                major: fields.major,
            },
            created: fields.created,
        })
    }

    /// Whose archive this is.
    pub fn cluster(&self) -> ClusterIdentity {
        self.cluster
    }

    /// Refuses a cluster that this is not the archive of, naming both.
    pub fn check_cluster(&self, cluster: ClusterIdentity) -> Result<(), RepoError> {
        if self.cluster == cluster {
            Ok(())
        } else {
            Err(RepoError::Mismatch {
                repository: self.cluster,
                cluster,
            })
        }
    }

    /// When the repository was initialised.
    pub fn created(&self) -> Timestamp {
        self.created
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

/// Reads the `format` alone, so that a newer repository is reported as newer whatever
/// else has changed in it.
pub(crate) fn check_format(key: &str, json: &[u8]) -> Result<(), RepoError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let found = match serde_json::from_slice::<Format>(json) {
        Ok(Format { format }) => format,
        Err(error) => {
            return Err(RepoError::Corrupt {
                key: key.to_owned(),
                detail: error.to_string(),
            });
        }
    };
    match found {
        FORMAT => Ok(()),
        0 => Err(RepoError::Corrupt {
            key: key.to_owned(),
            detail: "format 0 does not exist".to_owned(),
        }),
        _ => Err(RepoError::NewerFormat {
            found,
            supported: FORMAT,
        }),
    }
}

/// Writes a JSON object of ours, for people as well: indented, with a line end.
pub(crate) fn encode_json<T: Serialize>(value: &T) -> Result<Bytes, RepoError> {
    match serde_json::to_vec_pretty(value) {
        Ok(mut json) => {
            json.push(b'\n');
            Ok(json.into())
        }
        Err(error) => Err(RepoError::Corrupt {
            key: "a JSON object to be written".to_owned(),
            detail: error.to_string(),
        }),
    }
}
