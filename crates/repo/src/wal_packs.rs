//! Packs of WAL: objects that hold consecutive segments of one timeline.
//!
//! The key of a pack says which segments it has, so that a listing is enough to know what is
//! archived. All of them lie in one directory of segments: who looks for a segment lists the packs
//! of its directory, a handful of keys.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, MAX_PACK_BYTES};
use crate::names::aside_label::AsideLabel;
use crate::names::pack_name::PackName;
use crate::names::wal_name;
use crate::put_outcome::PutOutcome;
use crate::repository::Repository;

/// A pack of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalPack {
    /// What its key says.
    pub name: PackName,
    /// The size of the object.
    pub size_bytes: u64,
    /// When the store says it was made.
    pub modified: SystemTime,
}

impl WalPack {
    /// Whether an object of a segment's own that was put at this time came after the pack: it is none of those from
    /// which the pack was made. Some stores tell times to the second. In a copy of a repository, objects have the times
    /// of the copy, and the name of the pack still says when the newest of its segments was archived.
    pub fn precedes(&self, put: SystemTime) -> bool {
        seconds(put) >= seconds(self.modified) || put > self.name.archived()
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// The packs of one cluster's WAL.
#[derive(Clone, Debug)]
pub struct WalPacks {
    store: Arc<dyn ObjectStore>,
    prefix: String,
}

impl WalPacks {
    /// Those of a cluster that is known, whether a repository was opened or not.
    pub fn of(store: &Arc<dyn ObjectStore>, cluster: ClusterIdentity) -> WalPacks {
        WalPacks {
            store: Arc::clone(store),
            prefix: layout::pack_prefix(cluster),
        }
    }

    fn key(&self, name: &PackName) -> String {
        layout::pack_key(&self.prefix, name)
    }

    /// All packs, in the order of their names.
    pub async fn list(&self) -> Result<Vec<WalPack>, RepoError> {
        self.list_below(&self.prefix).await
    }

    /// The packs that have a segment, by what their keys say.
    pub async fn with(&self, segment: &str) -> Result<Vec<WalPack>, RepoError> {
        let mut packs = self.beside(segment).await?;
        packs.retain(|pack| pack.name.index_of(segment).is_some());
        Ok(packs)
    }

    /// The packs among which one is that has a segment, if there is any: those of its directory.
    pub async fn beside(&self, segment: &str) -> Result<Vec<WalPack>, RepoError> {
        let is_segment = wal_name::is_segment(segment);
        let Some(directory) = wal_name::wal_directory(segment).filter(|_| is_segment) else {
            return Ok(Vec::new());
        };
        self.list_below(&format!("{}/{directory}", self.prefix))
            .await
    }

    /// The packs that have a segment of this one, and this one itself if it is there.
    pub async fn overlapping(&self, name: &PackName) -> Result<Vec<WalPack>, RepoError> {
        let directory = format!("{}/{}", self.prefix, name.directory());
        let mut packs = self.list_below(&directory).await?;
        packs.retain(|pack| pack.name.overlaps(name));
        Ok(packs)
    }

    async fn list_below(&self, prefix: &str) -> Result<Vec<WalPack>, RepoError> {
        let objects = self.store.list(Some(&Path::from(prefix)));
        let objects: Vec<ObjectMeta> = objects
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(prefix, error))?;
        let pack = |meta: ObjectMeta| {
            let name: PackName = meta.location.filename()?.parse().ok()?;
            (self.key(&name) == meta.location.as_ref()).then(|| WalPack {
                name,
                size_bytes: meta.size,
                modified: meta.last_modified.into(),
            })
        };
        let mut packs: Vec<WalPack> = objects.into_iter().filter_map(pack).collect();
        packs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(packs)
    }

    /// Reads a part of a pack, all of it or none; nothing where the pack is not there.
    pub async fn read_range(
        &self,
        name: &PackName,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, RepoError> {
        let key = self.key(name);
        let wanted = range.end.saturating_sub(range.start);
        let path = Path::from(key.as_str());
        let short = |detail: String| RepoError::Corrupt {
            key: key.clone(),
            detail,
        };
        match self.store.get_range(&path, range.clone()).await {
            Ok(bytes) if bytes.len() as u64 == wanted => Ok(Some(bytes)),
            Ok(bytes) => Err(short(format!(
                "{} of {wanted} bytes could be read",
                bytes.len()
            ))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => match self.store.head(&path).await {
                // Not a failure of the store that could pass.
                Ok(found) if found.size < range.end => Err(short(format!(
                    "it has {} bytes, {} are needed",
                    found.size, range.end
                ))),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                _ => Err(RepoError::from_store(&key, error)),
            },
        }
    }

    /// Reads a whole pack; nothing where it is not there.
    pub async fn read(&self, name: &PackName) -> Result<Option<Bytes>, RepoError> {
        let limit = MAX_PACK_BYTES as u64;
        crate::repository::read(self.store.as_ref(), &self.key(name), limit).await
    }
}

impl Repository {
    /// The packs of this cluster's WAL.
    pub fn packs(&self) -> WalPacks {
        WalPacks::of(self.store(), self.cluster())
    }

    /// The packs that were set aside under a label.
    pub fn packs_aside(&self, label: AsideLabel) -> WalPacks {
        WalPacks {
            store: Arc::clone(self.store()),
            prefix: layout::aside_pack_prefix(self.cluster(), label),
        }
    }

    /// Puts a pack unless there is one of its name. Older walzips, which know of no packs, find
    /// this cluster's WAL out of its place from before then on.
    pub async fn put_pack(
        &self,
        name: &PackName,
        object: impl Into<PutPayload>,
    ) -> Result<PutOutcome, RepoError> {
        let object = object.into();
        if object.content_length() > MAX_PACK_BYTES {
            return Err(RepoError::ObjectTooLarge {
                key: self.packs().key(name),
                limit_bytes: MAX_PACK_BYTES as u64,
            });
        }
        self.mark_packed().await?;
        match self.create(&self.packs().key(name), object).await {
            Ok(()) => Ok(PutOutcome::Created),
            Err(RepoError::AlreadyExists { .. }) => Ok(PutOutcome::Exists),
            Err(error) => Err(error),
        }
    }

    /// Removes a pack, durably.
    pub async fn remove_pack(&self, name: &PackName) -> Result<(), RepoError> {
        self.remove(&self.packs().key(name)).await.map(drop)
    }

    /// Removes a pack that is set aside, durably.
    pub async fn remove_pack_aside(
        &self,
        label: AsideLabel,
        name: &PackName,
    ) -> Result<(), RepoError> {
        let key = self.packs_aside(label).key(name);
        self.remove(&key).await.map(drop)
    }

    /// Copies a pack to what is set aside, or back; the copy is durable and was compared.
    pub async fn copy_pack(
        &self,
        from: &WalPacks,
        to: &WalPacks,
        name: &PackName,
    ) -> Result<(), RepoError> {
        self.mark_packed().await?;
        let Some(object) = from.read(name).await? else {
            return Err(RepoError::NotFound {
                key: from.key(name),
            });
        };
        let key = to.key(name);
        match self.create(&key, object.clone()).await {
            // An earlier attempt, whose answer was lost, or another object: the comparison tells.
            Ok(()) | Err(RepoError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        match to.read(name).await? == Some(object) {
            true => Ok(()),
            false => Err(RepoError::AlreadyExists { key }),
        }
    }

    /// Removes a pack of which there is a copy, after both were compared again.
    pub async fn remove_copied_pack(
        &self,
        original: &WalPacks,
        copy: &WalPacks,
        name: &PackName,
    ) -> Result<(), RepoError> {
        let Some(object) = original.read(name).await? else {
            return Ok(());
        };
        let key = original.key(name);
        match copy.read(name).await? == Some(object) {
            true => self.remove(&key).await.map(drop),
            false => Err(RepoError::AlreadyExists { key }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_object_that_was_packed_is_older_than_its_pack() {
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let pack = |archived, modified| WalPack {
            name: PackName::new("000000010000000000000009", 2, archived).expect("a name"),
            size_bytes: 100,
            modified,
        };
        let made = pack(at(5_500), at(90_000));
        for (put, is_late) in [
            (5_500, false),
            (4_000, false),
            (89_999, true),
            (90_000, true),
        ] {
            assert_eq!(made.precedes(at(put)), is_late, "{put}");
        }
        // The clock was set back before the pack was made.
        let early = pack(at(500_000), at(90_700));
        for (put, is_late) in [(89_900, false), (90_100, true), (91_000, true)] {
            assert_eq!(early.precedes(at(put)), is_late, "{put}");
        }
    }
}
