//! WAL files, timeline histories and backup history files: small whole objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tokio::time::Instant;

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, MAX_WAL_OBJECT_BYTES, PACK_SETTLED_SECONDS};
use crate::names::pack_name::PackName;
use crate::names::wal_name;
use crate::put_outcome::PutOutcome;
use crate::repository;
use crate::repository::Repository;
use crate::wal_packs::WalPack;

/// A listing that took so long may have come to the objects before those of a pack that is split were put, and to the
/// packs after that had gone. Half of the time that lies between.
const SPLIT_AFTER: Duration = Duration::from_secs(PACK_SETTLED_SECONDS / 2);

/// One WAL file of the repository, as an object of its own or in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalEntry {
    /// The name under which PostgreSQL archived the file.
    pub name: String,
    /// The size of the object as it is stored; of a segment in a pack, its share.
    pub size_bytes: u64,
    /// When it was archived, as the store says; of a segment in a pack, when the newest one in it
    /// was.
    pub modified: SystemTime,
    /// When the pack was made in which it is, if it is no object of its own.
    pub packed: Option<SystemTime>,
}

impl WalEntry {
    fn of_object(name: &str, meta: &ObjectMeta) -> WalEntry {
        WalEntry {
            name: name.to_owned(),
            size_bytes: meta.size,
            modified: meta.last_modified.into(),
            packed: None,
        }
    }

    fn in_pack(pack: &WalPack, index: usize, name: String) -> WalEntry {
        let count = pack.name.count().max(1) as u64;
        let rest = if index == 0 {
            pack.size_bytes % count
        } else {
            0
        };
        WalEntry {
            name,
            size_bytes: pack.size_bytes / count + rest,
            modified: pack.name.archived(),
            packed: Some(pack.modified),
        }
    }
}

/// A WAL object that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedWal {
    /// The object.
    pub object: Bytes,
    /// When the store says it was put.
    pub modified: SystemTime,
}

/// All WAL of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalListing {
    /// The objects that hold one file each, in the order of their names.
    pub single: Vec<WalEntry>,
    /// The packs, in the order of their names.
    pub packs: Vec<WalPack>,
}

impl WalListing {
    /// Adds what another listing of the objects has found.
    fn add_single(&mut self, others: Vec<WalEntry>) {
        self.single.extend(others);
        self.single.sort_by(|a, b| a.name.cmp(&b.name));
        self.single.dedup_by(|later, kept| later.name == kept.name);
    }

    /// Each file once, in the order of the names. What is in a pack and an object of its own as
    /// well counts as that object.
    pub fn entries(&self) -> Vec<WalEntry> {
        let packed = self.packs.iter().flat_map(|pack| {
            let segments = pack.name.segments().enumerate();
            segments.map(|(index, name)| WalEntry::in_pack(pack, index, name))
        });
        let mut entries: Vec<WalEntry> = self.single.iter().cloned().chain(packed).collect();
        // A stable order keeps the object of its own before what is packed.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|later, kept| later.name == kept.name);
        entries
    }
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
        let put = if wal_name::wal_directory(name).is_some() {
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
    ) -> Result<Option<DatedWal>, RepoError> {
        let key = layout::wal_key(cluster, name)?;
        let read = repository::read_dated(store.as_ref(), &key, MAX_WAL_OBJECT_BYTES).await?;
        Ok(read.map(|(object, modified)| DatedWal { object, modified }))
    }

    /// Gets a WAL object; `None` when there is none under the name, and the archive is there
    /// that would have it. The file may be in a pack.
    pub async fn get_wal(&self, name: &str) -> Result<Option<Bytes>, RepoError> {
        let found = self.get_dated_wal(name).await?;
        Ok(found.map(|found| found.object))
    }

    /// The same, and when it was put.
    pub async fn get_dated_wal(&self, name: &str) -> Result<Option<DatedWal>, RepoError> {
        let found = Self::get_wal_unopened(self.store(), self.cluster(), name).await?;
        if found.is_none() {
            self.check_wal().await?;
        }
        Ok(found)
    }

    /// The key of a WAL object of this cluster, for who is to be told of it.
    pub fn wal_key(&self, name: &str) -> Result<String, RepoError> {
        layout::wal_key(self.cluster(), name)
    }

    /// Says what is known about a WAL file without reading it, and without asking whether
    /// the archive is there when it is not.
    pub async fn find_wal(&self, name: &str) -> Result<Option<WalEntry>, RepoError> {
        if let Some(found) = self.find_single(name).await? {
            return Ok(Some(found));
        }
        // A segment is in a pack before its object is removed.
        let packs = self.packs().with(name).await?;
        let packed = packs.first().and_then(|pack| {
            let index = pack.name.index_of(name)?;
            Some(WalEntry::in_pack(pack, index, name.to_owned()))
        });
        // And it has its object again before a pack goes that is split.
        match packed.is_some() || !wal_name::is_segment(name) {
            true => Ok(packed),
            false => self.find_single(name).await,
        }
    }

    /// The same of an object of its own.
    pub async fn find_single(&self, name: &str) -> Result<Option<WalEntry>, RepoError> {
        use object_store::ObjectStoreExt;
        let key = layout::wal_key(self.cluster(), name)?;
        match self.store().head(&Path::from(key.as_str())).await {
            Ok(meta) => Ok(Some(WalEntry::of_object(name, &meta))),
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
            if let Some(timeline) = wal_name::wal_directory_timeline(name)
                && !survey.timelines.contains(&timeline)
                && (survey.has_history(timeline) || self.has_objects(directory).await?)
            {
                survey.timelines.insert(timeline);
            }
        }
        self.survey_packs(&listing.common_prefixes, &mut survey)
            .await?;
        Ok(survey)
    }

    /// The files that are named after no segment, which are histories, in one request. Where the archive is not there,
    /// there are none.
    pub async fn list_histories(&self) -> Result<Vec<WalEntry>, RepoError> {
        let prefix = layout::wal_prefix(self.cluster());
        let path = Path::from(prefix.as_str());
        let listing = self.store().list_with_delimiter(Some(&path)).await;
        let listing = listing.map_err(|error| RepoError::from_store(&prefix, error))?;
        Ok(self.wal_entries(listing.objects))
    }

    /// Adds the timelines of packs. What has left the directories of segments is in one by now.
    async fn survey_packs(
        &self,
        directories: &[Path],
        survey: &mut WalSurvey,
    ) -> Result<(), RepoError> {
        let prefix = Path::from(layout::pack_prefix(self.cluster()));
        if !directories.contains(&prefix) {
            return Ok(());
        }
        let listing = self.store().list_with_delimiter(Some(&prefix)).await;
        let listing = listing.map_err(|error| RepoError::from_store(prefix.as_ref(), error))?;
        for directory in &listing.common_prefixes {
            let timeline =
                wal_name::wal_directory_timeline(directory.filename().unwrap_or_default());
            if let Some(timeline) = timeline
                && !survey.timelines.contains(&timeline)
                && (survey.has_history(timeline) || self.has_objects(directory).await?)
            {
                survey.timelines.insert(timeline);
            }
        }
        Ok(())
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
            Some(WalEntry::of_object(name, meta))
        };
        let mut entries: Vec<WalEntry> = objects.iter().filter_map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Lists this cluster's WAL files in the order of their names, packed or not.
    ///
    /// Objects under keys that [`Repository::put_wal`] would not have made are not
    /// part of the archive and are passed over.
    pub async fn list_wal(&self) -> Result<Vec<WalEntry>, RepoError> {
        Ok(self.list_wal_objects().await?.entries())
    }

    /// Lists this cluster's WAL as the objects that hold it.
    pub async fn list_wal_objects(&self) -> Result<WalListing, RepoError> {
        self.check_wal().await?;
        let begun = Instant::now();
        let single = self.list_single().await?;
        // Packs after them: a segment that was not among the objects any more is in a pack by now.
        let mut listing = WalListing {
            single,
            packs: self.packs().list().await?,
        };
        if begun.elapsed() >= SPLIT_AFTER && self.has_packs_aside().await? {
            listing.add_single(self.list_single().await?);
        }
        Ok(listing)
    }

    async fn list_single(&self) -> Result<Vec<WalEntry>, RepoError> {
        let prefix = layout::wal_prefix(self.cluster());
        let objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let objects = objects.try_collect().await;
        let objects = objects.map_err(|error| RepoError::from_store(&prefix, error))?;
        Ok(self.wal_entries(objects))
    }

    /// Whether a pack was set aside, or is about to be: what stays of it has objects of its own.
    async fn has_packs_aside(&self) -> Result<bool, RepoError> {
        let prefix = layout::aside_prefix(self.cluster());
        let objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let objects: Vec<ObjectMeta> = objects
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(&prefix, error))?;
        let is_pack = |meta: &ObjectMeta| {
            let name = meta.location.filename();
            name.is_some_and(|name| name.parse::<PackName>().is_ok())
        };
        Ok(objects.iter().any(is_pack))
    }
}
