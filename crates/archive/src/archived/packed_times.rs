//! What packs say of the times of their segments, without decoding them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Mutex;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{PackName, Repository, WalListing, WalPack};

use crate::error::ArchiveError;
use crate::packs::{PackReader, is_damage};
use crate::wal::times_in_brief::TimesInBrief;

/// The segments that only packs have.
#[derive(Debug, Default)]
pub(crate) struct PackedTimes {
    packs: BTreeMap<SegmentName, (Arc<WalPack>, usize)>,
    /// Indexes that were read; nothing for one that cannot be.
    read: Mutex<BTreeMap<PackName, Option<Arc<PackReader>>>>,
}

impl PackedTimes {
    /// Of a listing. Nothing is read yet.
    pub(crate) fn of(wal: &WalListing) -> PackedTimes {
        let single: BTreeSet<&str> = wal.single.iter().map(|entry| entry.name.as_str()).collect();
        let mut packs = BTreeMap::new();
        for pack in &wal.packs {
            let pack = Arc::new(pack.clone());
            for (index, name) in pack.name.segments().enumerate() {
                if !single.contains(name.as_str())
                    && let Ok(segment) = name.parse::<SegmentName>()
                {
                    packs.entry(segment).or_insert((Arc::clone(&pack), index));
                }
            }
        }
        PackedTimes {
            packs,
            read: Mutex::default(),
        }
    }

    /// The segments that take as long to decode as others before them.
    pub(crate) fn deep(&self) -> impl Iterator<Item = SegmentName> + '_ {
        let deep = self.packs.iter().filter(|(_, (_, index))| *index > 0);
        deep.map(|(segment, _)| *segment)
    }

    /// What a segment says of time, if its pack says so. A pack that cannot be read says nothing: who decodes the
    /// segment hears why.
    pub(crate) async fn get(
        &self,
        repository: &Repository,
        segment: SegmentName,
    ) -> Result<Option<TimesInBrief>, ArchiveError> {
        let found = self.find(repository, segment).await?;
        Ok(found.and_then(|(reader, index)| reader.times(index)))
    }

    /// The same of a segment whose own bytes are as they were stored; fails if they are not.
    pub(crate) async fn get_whole(
        &self,
        repository: &Repository,
        segment: SegmentName,
    ) -> Result<Option<TimesInBrief>, ArchiveError> {
        let Some((reader, index)) = self.find(repository, segment).await? else {
            return Ok(None);
        };
        let times = reader.times(index);
        if times.is_some() {
            reader.check(index).await?;
        }
        Ok(times)
    }

    async fn find(
        &self,
        repository: &Repository,
        segment: SegmentName,
    ) -> Result<Option<(Arc<PackReader>, usize)>, ArchiveError> {
        let Some((pack, index)) = self.packs.get(&segment) else {
            return Ok(None);
        };
        let mut read = self.read.lock().await;
        if !read.contains_key(&pack.name) {
            let reader = match PackReader::open(&repository.packs(), pack).await {
                Ok(reader) => reader,
                Err(error) if is_damage(&error) => None,
                Err(error) => return Err(error),
            };
            read.insert(pack.name.clone(), reader.map(Arc::new));
        }
        let reader = read.get(&pack.name).cloned().flatten();
        Ok(reader.map(|reader| (reader, *index)))
    }
}
