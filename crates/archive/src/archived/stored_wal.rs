//! A WAL file of the archive, as an object of its own or in a pack.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::join;
use object_store::ObjectStore;
use walzip_codec::{DecodeToError, Header};
use walzip_repo::{ClusterIdentity, RepoError, Repository, WalPack, WalPacks};

use crate::coding::decoding;
use crate::coding::{self, Proof, off_the_runtime};
use crate::error::ArchiveError;
use crate::packs::settled::is_long_ago;
use crate::packs::{Before, PackReader, ReadySegment, Undecoded, is_damage};

/// What the archive has under a name.
///
/// A segment of a pack keeps the process's one decoder of packs until it is decoded or dropped: who
/// needs two files decodes one after the other.
#[derive(Debug)]
pub(crate) enum StoredWal {
    /// An object of its own.
    Single(Bytes),
    /// A segment of a pack.
    Packed {
        segment: Box<ReadySegment>,
        /// An object of its own that came after the pack: it counts where the pack cannot be decoded.
        beside: Option<Bytes>,
    },
}

impl StoredWal {
    /// Gets a file; nothing where the archive is there and does not have it.
    pub(crate) async fn get(
        repository: &Repository,
        name: &str,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        let (store, cluster) = (repository.store(), repository.cluster());
        let found = StoredWal::get_unopened(store, cluster, name).await?;
        if found.is_none() {
            repository.check_wal().await?;
        }
        Ok(found)
    }

    /// The same for a cluster that is known. What is not found says nothing.
    ///
    /// A pack is made of what was archived, and its segments' own objects go after that. An object that came after the
    /// pack was put late: what the pack has was acknowledged first, and counts.
    pub(crate) async fn get_unopened(
        store: &Arc<dyn ObjectStore>,
        cluster: ClusterIdentity,
        name: &str,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        let all = WalPacks::of(store, cluster);
        StoredWal::get_among((store, cluster), name, all.with(name)).await
    }

    /// The same for who lists the packs that have it, and begins to do so now.
    pub(crate) async fn get_among(
        (store, cluster): (&Arc<dyn ObjectStore>, ClusterIdentity),
        name: &str,
        listed: impl Future<Output = Result<Vec<WalPack>, RepoError>>,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        let all = WalPacks::of(store, cluster);
        let asked = Instant::now();
        let single = Repository::get_wal_unopened(store, cluster, name);
        let (single, mut packs) = join(single, listed).await;
        let Some(single) = single? else {
            // What was packed since may have left its object already.
            if is_long_ago(asked) {
                packs = all.with(name).await;
            }
            return StoredWal::get_left((store, cluster), (&all, packs?), name).await;
        };
        if is_long_ago(asked) {
            packs = all.with(name).await;
        }
        let mut packs = match packs {
            // Who may read, and not list, can take nothing from packs.
            Err(RepoError::Permission { .. }) => Vec::new(),
            packs => packs?,
        };
        packs.retain(|pack| pack.precedes(single.modified));
        match packed((&all, packs), name, Before::Passed).await {
            Ok(Packed::Found(segment)) => Ok(Some(StoredWal::Packed {
                segment,
                beside: Some(single.object),
            })),
            Err(error) if !is_damage(&error) => Err(error),
            other => {
                if let Err(error) = other {
                    warn_of_late(&error);
                }
                Ok(Some(StoredWal::Single(single.object)))
            }
        }
    }

    /// Gets what has no object of its own.
    async fn get_left(
        (store, cluster): (&Arc<dyn ObjectStore>, ClusterIdentity),
        packs: (&WalPacks, Vec<WalPack>),
        name: &str,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        match packed(packs, name, Before::Passed).await? {
            Packed::Found(segment) => Ok(Some(StoredWal::packed(segment))),
            Packed::Nowhere => Ok(None),
            Packed::Gone => {
                let single = Repository::get_wal_unopened(store, cluster, name).await?;
                Ok(single.map(|single| StoredWal::Single(single.object)))
            }
        }
    }

    fn packed(segment: Box<ReadySegment>) -> StoredWal {
        StoredWal::Packed {
            segment,
            beside: None,
        }
    }

    /// What counts, and what counts where that cannot be decoded.
    pub(crate) fn split(self) -> (StoredWal, Option<StoredWal>) {
        match self {
            StoredWal::Packed {
                segment,
                beside: Some(object),
            } => (StoredWal::packed(segment), Some(StoredWal::Single(object))),
            other => (other, None),
        }
    }

    /// Gets a segment from a pack, whether it is an object of its own or not.
    pub(crate) async fn get_packed(
        packs: &WalPacks,
        name: &str,
        before: Before,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        let with = packs.with(name).await?;
        match packed((packs, with), name, before).await? {
            Packed::Found(segment) => Ok(Some(StoredWal::packed(segment))),
            Packed::Gone | Packed::Nowhere => Ok(None),
        }
    }

    /// Gets a file that was listed.
    pub(crate) async fn get_listed(
        repository: &Repository,
        name: &str,
    ) -> Result<StoredWal, ArchiveError> {
        let found = StoredWal::get(repository, name).await?;
        found.ok_or_else(|| ArchiveError::Damaged {
            object: name.to_owned(),
            reason: "it disappeared after it was listed".to_owned(),
        })
    }

    /// Its size as it is stored.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self {
            StoredWal::Single(object) => object.len() as u64,
            StoredWal::Packed { segment, .. } => segment.stored_bytes(),
        }
    }

    /// How many segments follow it in its pack, if it is in one.
    pub(crate) fn following(&self) -> Option<usize> {
        match self {
            StoredWal::Single(_) => None,
            StoredWal::Packed { segment, .. } => Some(segment.following()),
        }
    }

    /// Decodes it; refuses what lies under another file's name.
    pub(crate) fn decode_to(self, name: &str, output: &mut dyn Write) -> Result<(), Undecoded> {
        match self {
            StoredWal::Single(object) => {
                coding::check_name(name, &object).map_err(Undecoded::damaged)?;
                let decoded = walzip_codec::decode_to(&object, output);
                decoded.map_err(|error| undecoded(name, error))
            }
            StoredWal::Packed { segment, .. } => segment.decode_to(output),
        }
    }

    /// The same for one that somebody waits for: an object of its own is hashed and written on
    /// another thread.
    pub(crate) fn deliver_to(
        self,
        name: &str,
        output: &mut (dyn Write + Send),
    ) -> Result<(), Undecoded> {
        match self {
            StoredWal::Single(object) => {
                coding::check_name(name, &object).map_err(Undecoded::damaged)?;
                let decoded = decoding::decode_to(&object, output);
                decoded.map_err(|error| undecoded(name, error))
            }
            StoredWal::Packed { segment, .. } => segment.decode_to(output),
        }
    }

    /// Decodes it into memory.
    pub(crate) async fn content(self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        self.decode(name).await
    }

    /// Decodes it, and keeps what proves it, and how it begins and ends.
    pub(crate) async fn proof(self, name: &str) -> Result<Proof, ArchiveError> {
        self.decode(name).await
    }

    /// BLAKE3 of its content, all of which is decoded.
    pub(crate) async fn content_hash(self, name: &str) -> Result<blake3::Hash, ArchiveError> {
        let hasher: blake3::Hasher = self.decode(name).await?;
        Ok(hasher.finalize())
    }

    /// Decodes what counts.
    async fn decode<W>(self, name: &str) -> Result<W, ArchiveError>
    where
        W: Write + Send + Default + 'static,
    {
        let (counts, beside) = self.split();
        match (counts.decode_alone(name).await, beside) {
            (Err(error), Some(beside)) if is_damage(&error) => {
                warn_of_late(&error);
                beside.decode_alone(name).await
            }
            (decoded, _) => decoded,
        }
    }

    async fn decode_alone<W>(self, name: &str) -> Result<W, ArchiveError>
    where
        W: Write + Send + Default + 'static,
    {
        let name = name.to_owned();
        off_the_runtime(move || {
            let mut output = W::default();
            let decoded = self.decode_to(&name, &mut output);
            decoded.map_err(|failed| failed.into_archive(&name))?;
            Ok(output)
        })
        .await
    }
}

/// Says that an object counts that came after a pack.
pub(crate) fn warn_of_late(error: &ArchiveError) {
    tracing::warn!("{error}; the segment's own object is taken, which came after the pack");
}

fn undecoded(name: &str, error: DecodeToError) -> Undecoded {
    match error {
        DecodeToError::Decode(source) => Undecoded::damaged(coding::undecodable(name, source)),
        DecodeToError::Write(error) => Undecoded::Write(error),
    }
}

/// What the packs say of a segment.
enum Packed {
    Found(Box<ReadySegment>),
    /// There was a pack, and it is not there any more.
    Gone,
    Nowhere,
}

/// A segment of packs that have it, from the first one that can give it.
async fn packed(
    (packs, with): (&WalPacks, Vec<WalPack>),
    name: &str,
    before: Before,
) -> Result<Packed, ArchiveError> {
    let (mut failed, mut was_there) = (None, false);
    for pack in with {
        let Some(index) = pack.name.index_of(name) else {
            continue;
        };
        let opened = match PackReader::open(packs, &pack).await {
            Ok(Some(reader)) => prepare(reader, index, before).await.map(Some),
            other => other.map(|_| None),
        };
        match opened {
            Ok(Some(segment)) => return Ok(Packed::Found(Box::new(segment))),
            // Its timeline was set aside, or it expired.
            Ok(None) | Err(ArchiveError::PackGone(_)) => was_there = true,
            Err(error) if is_damage(&error) => failed = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (failed, was_there) {
        (Some(error), _) => Err(error),
        (None, true) => Ok(Packed::Gone),
        (None, false) => Ok(Packed::Nowhere),
    }
}

/// A segment before which everything was decoded. What cannot be passed may be decoded still: a pack was
/// proven by decoding it.
async fn prepare(
    reader: PackReader,
    index: usize,
    before: Before,
) -> Result<ReadySegment, ArchiveError> {
    let pack = reader.clone();
    match ReadySegment::prepare(reader, index, before).await {
        Err(error @ ArchiveError::PackGone(_)) => Err(error),
        Err(error) if is_damage(&error) && before == Before::Passed => {
            ReadySegment::prepare(pack, index, Before::Decoded).await
        }
        other => other,
    }
}

/// BLAKE3 of a segment before it was encoded, as the index of its pack says; nothing where no pack has it. Nothing is
/// decoded.
pub(crate) async fn hash_in_pack(
    packs: &WalPacks,
    name: &str,
) -> Result<Option<blake3::Hash>, ArchiveError> {
    for pack in packs.with(name).await? {
        let Some(index) = pack.name.index_of(name) else {
            continue;
        };
        match PackReader::open(packs, &pack).await {
            Ok(Some(reader)) => match reader.original_hash(index) {
                Some(hash) => return Ok(Some(hash.into())),
                None => continue,
            },
            Ok(None) => {}
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The size of the segments that a file is one of, as its header or its pack says.
pub(crate) async fn segment_size(
    repository: &Repository,
    name: &str,
) -> Result<Option<u32>, ArchiveError> {
    if let Some(object) = repository.get_wal(name).await? {
        let header = Header::read(&object).ok();
        return Ok(header.and_then(|header| Some(header.identity?.segment_size)));
    }
    let packs = repository.packs();
    for pack in packs.with(name).await? {
        match PackReader::open(&packs, &pack).await {
            Ok(Some(reader)) => return Ok(u32::try_from(reader.segment_size()).ok()),
            Err(error) if !is_damage(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use walzip_repo::LocalStore;
    use walzip_repo::testing::{Faults, FaultyStore};

    use super::*;
    use crate::pack::pack;
    use crate::packs::testing::{archive, archive_in, name, options};

    /// Otherwise its segments would count as not archived, which ends a recovery.
    #[tokio::test(start_paused = true)]
    async fn a_pack_that_is_no_file_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        let store = Arc::new(LocalStore::new(&root));
        let repository = archive_in(store, directory.path(), 1..3).await;
        pack(&repository, &options()).await.expect("packed");
        let there = repository.packs().list().await.expect("listed").remove(0);
        let cluster = root.join("wal").join(repository.cluster().name());
        let packs = cluster.join("pack/0000000100000000");
        let pack = packs.join(there.name.to_string());
        std::fs::rename(&pack, directory.path().join("moved")).expect("moved");
        let missing = StoredWal::get(&repository, &name(1)).await;
        assert!(missing.expect("asked").is_none());
        for make in [
            |at| std::os::unix::fs::symlink("../moved", at),
            |at| std::fs::create_dir(at),
        ] as [fn(std::path::PathBuf) -> std::io::Result<()>; 2]
        {
            make(pack.clone()).expect("made");
            let got = StoredWal::get(&repository, &name(1)).await;
            let error = got.map(drop).expect_err("no file").to_string();
            assert!(error.contains("it is a "), "{error}");
            let listed = repository.list_wal().await.expect("listed");
            assert_eq!(listed.len(), 2);
            let _ = std::fs::remove_file(&pack).or_else(|_| std::fs::remove_dir(&pack));
        }
    }

    /// It has its object again by then, or has expired. Neither is damage.
    #[tokio::test(start_paused = true)]
    async fn a_pack_that_goes_while_it_is_read_is_not_damaged() {
        let directory = tempfile::tempdir().expect("a directory");
        // No other test has these in memory.
        let repository = archive(directory.path(), 0x31..0x33).await;
        pack(&repository, &options()).await.expect("packed");
        // Its object, the packs, the index; then the segment.
        for (call, is_there) in [(4, false), (100, true)] {
            let faults = Faults {
                find_nothing_at_call: Some(call),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(repository.store()), faults);
            let store: Arc<dyn ObjectStore> = Arc::new(faulty);
            let got = StoredWal::get_unopened(&store, repository.cluster(), &name(0x31)).await;
            assert_eq!(got.expect("no damage").is_some(), is_there);
        }
    }
}
