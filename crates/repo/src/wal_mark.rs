//! The mark among a cluster's WAL, by which "not in the archive" is told from "the archive is not
//! there".
//!
//! A directory that was removed, or over which a file system is not mounted, holds nothing, and
//! nothing is what PostgreSQL takes for the end of the WAL. So a copy of the cluster's
//! record is put among its WAL, and only then the record, which says that there is a mark. It is looked
//! for when an object is not found, and when a directory would have to be made for a new one.
//!
//! Before a cluster's first segments are packed, the mark gets another name, which readers that know
//! of no packs do not find: to them the WAL is not there, and none of it has ended.

use object_store::ObjectStore;
use object_store::path::Path;

use crate::cluster::ClusterRecord;
use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, MAX_SMALL_JSON_BYTES};
use crate::repository::{self, Repository};

/// The mark among a cluster's WAL, as it was found: a store on another host takes its time for each answer, and this one
/// can be asked for before the record is there.
#[derive(Debug)]
pub struct WalMark(Result<Option<ClusterRecord>, RepoError>);

impl WalMark {
    /// Looks for the mark, under the name of the first days; it is moved to the other one, and never back.
    pub async fn find(store: &dyn ObjectStore, cluster: ClusterIdentity) -> WalMark {
        WalMark(find_mark(store, cluster).await)
    }
}

impl Repository {
    /// Refuses a repository whose WAL is not where it was put.
    ///
    /// A repository without marks says less: its WAL counts as lost when nothing is in its place
    /// although there is a backup, none of which was ever finished without WAL.
    pub async fn check_wal(&self) -> Result<(), RepoError> {
        let mark = WalMark::find(self.store().as_ref(), self.cluster()).await;
        self.check_wal_by(mark).await
    }

    /// The same by the mark as it was found.
    pub async fn check_wal_by(&self, mark: WalMark) -> Result<(), RepoError> {
        let record = self.record();
        let prefix = layout::wal_prefix(record.cluster);
        let missing = |detail: &str| {
            Err(RepoError::NotInPlace {
                place: format!("{}/{prefix}", self.store()),
                detail: detail.to_owned(),
            })
        };
        match mark.0 {
            Ok(Some(mark)) if is_of(&mark, record) => Ok(()),
            Ok(Some(_)) => missing("its cluster.json is of another repository"),
            // It is there, and so is what it stands for: its damage must not keep that back.
            Err(RepoError::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(None) if record.wal_marked => {
                missing("cluster.json or packed.json, of which walzip put one there, is gone")
            }
            Ok(None) if self.has_level(&prefix).await? => Ok(()),
            Ok(None) if self.list_backups().await?.is_empty() => Ok(()),
            Ok(None) => missing("there is no WAL, and there are backups"),
        }
    }

    /// What is wrong with a mark that is there.
    pub async fn check_wal_mark(&self) -> Result<(), RepoError> {
        let mark = WalMark::find(self.store().as_ref(), self.cluster()).await;
        mark.0.map(|_| ())
    }

    /// Puts the mark of the record to be written. One that is there, from an attempt that was
    /// killed, decides what the record says.
    pub(crate) async fn mark_wal(&mut self) -> Result<(), RepoError> {
        let key = layout::wal_mark_key(self.cluster());
        let packed = layout::packed_mark_key(self.cluster());
        if self.mark_at(&packed).await?.is_none() {
            match self.create(&key, self.record().write()?).await {
                Err(RepoError::AlreadyExists { .. }) => {}
                put => return put,
            }
        }
        let mark = find_mark(self.store().as_ref(), self.cluster()).await?;
        let Some(mark) = mark else {
            return Err(RepoError::Unavailable {
                key,
                source: "it disappeared".into(),
            });
        };
        if mark.cluster != self.cluster() {
            let detail = format!("it is of {}", mark.cluster);
            return Err(RepoError::Corrupt { key, detail });
        }
        self.set_created(mark.created);
        Ok(())
    }

    /// Gives the mark the name that stands for packs, so that older readers refuse this cluster's
    /// WAL. Both names are there in between, and never none.
    pub(crate) async fn mark_packed(&self) -> Result<(), RepoError> {
        self.check_wal().await?;
        if !self.record().wal_marked {
            return Err(RepoError::NotPackable {
                cluster: self.cluster(),
            });
        }
        let key = layout::packed_mark_key(self.cluster());
        match self.create(&key, self.record().write()?).await {
            Ok(()) | Err(RepoError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        match self.mark_at(&key).await? {
            Some(mark) if is_of(&mark, self.record()) => {}
            _ => {
                let detail = "it is not of this cluster".to_owned();
                return Err(RepoError::Corrupt { key, detail });
            }
        }
        let old = layout::wal_mark_key(self.cluster());
        self.remove(&old).await.map(drop)
    }

    async fn mark_at(&self, key: &str) -> Result<Option<ClusterRecord>, RepoError> {
        mark_at(self.store().as_ref(), key).await
    }

    /// Whether there is anything below a prefix.
    pub(crate) async fn has_level(&self, prefix: &str) -> Result<bool, RepoError> {
        let level = self
            .store()
            .list_with_delimiter(Some(&Path::from(prefix)))
            .await
            .map_err(|error| RepoError::from_store(prefix, error))?;
        Ok(!level.objects.is_empty() || !level.common_prefixes.is_empty())
    }
}

async fn find_mark(
    store: &dyn ObjectStore,
    cluster: ClusterIdentity,
) -> Result<Option<ClusterRecord>, RepoError> {
    match mark_at(store, &layout::wal_mark_key(cluster)).await? {
        Some(mark) => Ok(Some(mark)),
        None => mark_at(store, &layout::packed_mark_key(cluster)).await,
    }
}

async fn mark_at(store: &dyn ObjectStore, key: &str) -> Result<Option<ClusterRecord>, RepoError> {
    match repository::read(store, key, MAX_SMALL_JSON_BYTES).await? {
        Some(json) => ClusterRecord::read(key, &json).map(Some),
        None => Ok(None),
    }
}

fn is_of(mark: &ClusterRecord, record: &ClusterRecord) -> bool {
    (mark.cluster, mark.created) == (record.cluster, record.created)
}
