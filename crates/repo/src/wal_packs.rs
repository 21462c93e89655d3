//! Packs of WAL: objects that hold consecutive segments of one timeline.
//!
//! The key of a pack says which segments it has, so that a listing is enough to know what is
//! archived. All of them lie in one directory of segments: who looks for a segment lists the packs
//! of its directory, a handful of keys.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};

use crate::cluster::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, MAX_PACK_BYTES, MAX_PACK_SEGMENTS};
use crate::repository::Repository;
use crate::set_aside::AsideLabel;
use crate::wal::PutOutcome;

/// Characters of a segment's name, and of the part of it that names its directory.
const NAME_CHARS: usize = 24;
const DIRECTORY_CHARS: usize = 16;

/// What the key of a pack says: its segments, and when the newest of them was archived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackName {
    /// Sixteen upper-case hexadecimal digits.
    directory: String,
    first: u32,
    count: u16,
    archived_seconds: u64,
}

impl PackName {
    /// The name of a pack of `count` segments from this one on.
    pub fn new(first: &str, count: usize, archived: SystemTime) -> Result<PackName, RepoError> {
        let since = archived.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        // Never earlier than it was.
        let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
        format!("{first}-{count}-{seconds}").parse()
    }

    /// How many segments it has.
    pub fn count(&self) -> usize {
        self.count.into()
    }

    /// When the newest of its segments was archived, or a moment later.
    pub fn archived(&self) -> SystemTime {
        // What has no such moment is no name.
        moment(self.archived_seconds).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The timeline of its segments.
    pub fn timeline(&self) -> u32 {
        let timeline = self.directory.get(..8).unwrap_or_default();
        u32::from_str_radix(timeline, 16).unwrap_or_default()
    }

    /// The name of a segment of it.
    pub fn segment(&self, index: usize) -> Option<String> {
        let index = u32::try_from(index).ok()?;
        let number = self.first.checked_add(index)?;
        (index < u32::from(self.count)).then(|| format!("{}{number:08X}", self.directory))
    }

    /// The names of its segments, in their order.
    pub fn segments(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count()).filter_map(|index| self.segment(index))
    }

    /// Which of its segments has this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let digits = name.strip_prefix(&self.directory)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        let index = number.checked_sub(self.first)? as usize;
        // One way to write it.
        (self.segment(index)? == name).then_some(index)
    }

    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// Whether both have a segment.
    fn overlaps(&self, other: &PackName) -> bool {
        let end = |name: &PackName| u64::from(name.first) + u64::from(name.count);
        self.directory == other.directory
            && u64::from(self.first) < end(other)
            && u64::from(other.first) < end(self)
    }
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PackName {
            directory,
            first,
            count,
            archived_seconds,
        } = self;
        write!(f, "{directory}{first:08X}-{count}-{archived_seconds}")
    }
}

impl FromStr for PackName {
    type Err = RepoError;

    /// Reads a name, which is written in one way only.
    fn from_str(text: &str) -> Result<PackName, RepoError> {
        let parsed = parse(text).filter(|name| name.to_string() == text);
        parsed.ok_or_else(|| RepoError::InvalidName {
            what: "a pack of WAL",
            name: text.to_owned(),
            detail: "it has the form 000000010000000000000040-64-1764072000",
        })
    }
}

fn moment(seconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn parse(text: &str) -> Option<PackName> {
    let mut parts = text.split('-');
    let (first, count, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if first.len() != NAME_CHARS || layout::wal_directory(first).is_none() {
        return None;
    }
    let (directory, first) = first.split_at_checked(DIRECTORY_CHARS)?;
    let name = PackName {
        directory: directory.to_owned(),
        first: u32::from_str_radix(first, 16).ok()?,
        count: count.parse().ok()?,
        archived_seconds: seconds.parse().ok()?,
    };
    moment(name.archived_seconds)?;
    let is_possible = (1..=MAX_PACK_SEGMENTS).contains(&name.count())
        && name.first.checked_add(u32::from(name.count) - 1).is_some();
    is_possible.then_some(name)
}

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
        let is_segment = segment.len() == NAME_CHARS;
        let Some(directory) = layout::wal_directory(segment).filter(|_| is_segment) else {
            return Ok(Vec::new());
        };
        let mut packs = self
            .list_below(&format!("{}/{directory}", self.prefix))
            .await?;
        packs.retain(|pack| pack.name.index_of(segment).is_some());
        Ok(packs)
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
    use super::*;

    #[test]
    fn a_pack_is_named_in_one_way_only() {
        for text in [
            "000000010000000000000040-64-1764072000",
            "000000010000000000000000-256-1764072000",
            "0000000AFFFFFFFF000000FF-1-0",
        ] {
            let name: PackName = text.parse().expect("a name");
            assert_eq!(name.to_string(), text);
        }
        for text in [
            "",
            "000000010000000000000040",
            "000000010000000000000040-64",
            "000000010000000000000040-0-1",
            "000000010000000000000040-257-1",
            "000000010000000000000040-064-1",
            "000000010000000000000040-+4-1",
            "000000010000000000000040-64-1-1",
            "00000001000000000000004a-64-1",
            "000000010000000000000040.partial-64-1",
            "000000010000000000000040-64-18446744073709551615",
            "0000000100000000FFFFFFFF-2-1",
        ] {
            assert!(text.parse::<PackName>().is_err(), "{text}");
        }
    }

    #[test]
    fn packs_overlap_that_have_a_segment_in_common() {
        let name = |text: &str| text.parse::<PackName>().expect("a name");
        let pack = name("000000010000000000000040-64-1");
        for (other, overlaps) in [
            ("000000010000000000000040-64-2", true),
            ("000000010000000000000020-33-1", true),
            ("000000010000000000000020-32-1", false),
            ("00000001000000000000007F-2-1", true),
            ("000000010000000000000080-2-1", false),
            ("000000010000000000000050-1-1", true),
            ("000000020000000000000040-64-1", false),
        ] {
            assert_eq!(pack.overlaps(&name(other)), overlaps, "{other}");
            assert_eq!(name(other).overlaps(&pack), overlaps, "{other}");
        }
    }

    #[test]
    fn names_its_segments() {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        let name = PackName::new("0000000200000001000000FE", 2, moment).expect("a name");
        let segments: Vec<String> = name.segments().collect();
        assert_eq!(
            segments,
            ["0000000200000001000000FE", "0000000200000001000000FF"]
        );
        assert_eq!(name.index_of("0000000200000001000000FF"), Some(1));
        assert_eq!(name.index_of("000000020000000100000100"), None);
        assert_eq!(name.index_of("0000000100000001000000FE"), None);
        assert_eq!(name.timeline(), 2);
        assert_eq!(
            name.archived(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(2)
        );
    }
}
