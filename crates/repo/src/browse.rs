//! The objects of a store by their keys, whatever they mean: for who looks after a repository.

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Serialize;

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, BACKUP_PREFIX, KEYS_PREFIX, REPOSITORY_JSON, WAL_PREFIX};
use crate::local::content;
use crate::names::backup_label::BackupLabel;
use crate::names::pack_name::PackName;

/// What lies at a place of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Listed {
    /// The key; that of a prefix ends with a slash.
    pub key: String,
    /// The size of an object; nothing for a prefix.
    pub size_bytes: Option<u64>,
    /// When the store says it was made.
    pub modified: Option<jiff::Timestamp>,
}

/// Reads a key or a prefix as a person writes it.
fn path(key: &str) -> Result<Path, RepoError> {
    Path::parse(key).map_err(|_| RepoError::InvalidName {
        what: "an object",
        name: key.to_owned(),
        detail: "a key has parts with slashes between them, none of which is empty, . or ..",
    })
}

/// What is at a prefix: all objects below it, or one level of them and of prefixes. A key lists
/// its object.
pub async fn list(
    store: &dyn ObjectStore,
    prefix: &str,
    recurses: bool,
) -> Result<Vec<Listed>, RepoError> {
    let path = path(prefix.trim_end_matches('/'))?;
    if !path.as_ref().is_empty()
        && let Some(object) = head(store, &path).await?
    {
        return Ok(vec![object]);
    }
    let failed = |error| RepoError::from_store(prefix, error);
    let mut found: Vec<Listed> = if recurses {
        let objects = store.list(Some(&path)).map_ok(of_object);
        objects.try_collect().await.map_err(failed)?
    } else {
        let level = store
            .list_with_delimiter(Some(&path))
            .await
            .map_err(failed)?;
        let prefixes = level.common_prefixes.iter().map(|prefix| Listed {
            key: format!("{prefix}/"),
            size_bytes: None,
            modified: None,
        });
        let objects = level.objects.iter().cloned().map(of_object);
        prefixes.chain(objects).collect()
    };
    found.sort();
    Ok(found)
}

fn of_object(meta: object_store::ObjectMeta) -> Listed {
    let modified = std::time::SystemTime::from(meta.last_modified);
    Listed {
        key: meta.location.to_string(),
        size_bytes: Some(meta.size),
        modified: modified.try_into().ok(),
    }
}

async fn head(store: &dyn ObjectStore, path: &Path) -> Result<Option<Listed>, RepoError> {
    match store.head(path).await {
        Ok(meta) => Ok(Some(of_object(meta))),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => match RepoError::from_store(path.as_ref(), error) {
            // A directory of a local disk, and no object.
            RepoError::Corrupt { .. } => Ok(None),
            error => Err(error),
        },
    }
}

/// The object with a key.
pub async fn find(store: &dyn ObjectStore, key: &str) -> Result<Listed, RepoError> {
    let key_of = path(key)?;
    head(store, &key_of)
        .await?
        .ok_or_else(|| RepoError::NotFound {
            key: key.to_owned(),
        })
}

/// An object that is read from its beginning to its end.
pub struct Reader {
    key: String,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
}

impl Reader {
    /// What follows; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RepoError> {
        let next = self.stream.try_next().await;
        next.map_err(|error| RepoError::from_store(&self.key, error))
    }
}

/// Opens the object with a key for reading.
pub async fn read(store: &dyn ObjectStore, key: &str) -> Result<Reader, RepoError> {
    let found = store.get(&path(key)?).await;
    let found = found.map_err(|error| RepoError::from_store(key, error))?;
    Ok(Reader {
        key: key.to_owned(),
        stream: content(found),
    })
}

/// Removes the object with a key, durably.
pub async fn remove(store: &dyn ObjectStore, key: &str) -> Result<(), RepoError> {
    find(store, key).await?;
    let removed = store.delete(&path(key)?).await;
    removed.map_err(|error| RepoError::from_store(key, error))
}

/// What a key says of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The record of a cluster, or the mark among its WAL.
    Record,
    /// A file of a cluster's WAL, by its name.
    Wal(ClusterIdentity, String),
    /// A pack of a cluster's WAL.
    Pack(ClusterIdentity, PackName),
    /// An object of a backup.
    Backup(BackupLabel),
    /// A key of the repository's encryption.
    EncryptionKey,
    /// Something that was set aside, or that is none of the repository's.
    Other,
}

/// Tells objects apart that matter in different ways.
pub fn meaning(key: &str) -> Meaning {
    let mut parts = key.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if key == REPOSITORY_JSON || layout::record_number(key).is_some() {
        return Meaning::Record;
    }
    if first == KEYS_PREFIX {
        return Meaning::EncryptionKey;
    }
    if first == WAL_PREFIX
        && let Some(cluster) = second.and_then(|name| name.parse().ok())
    {
        if key == layout::wal_mark_key(cluster) || key == layout::packed_mark_key(cluster) {
            return Meaning::Record;
        }
        if let Some(name) = layout::pack_name(cluster, key) {
            return Meaning::Pack(cluster, name);
        }
        if let Some(name) = layout::wal_name(cluster, key) {
            return Meaning::Wal(cluster, name.to_owned());
        }
    }
    match second.and_then(|label| label.parse().ok()) {
        Some(label) if first == BACKUP_PREFIX => Meaning::Backup(label),
        _ => Meaning::Other,
    }
}
