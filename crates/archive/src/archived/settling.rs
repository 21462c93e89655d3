//! What was packed leaves its own objects, when it is certain that it is in the pack.
//!
//! Also a put of a segment beside a pack of the same segment. A segment that is pushed again must
//! be compared with what is archived of it. A put finds an object that is there, and a look before it
//! a pack that is there. Between look and put the object may have moved into a pack: so who packs
//! lets a pack settle before anything is removed, which takes longer than a put usually does.

use std::time::Instant;

use bytes::Bytes;
use walzip_codec::Header;
use walzip_repo::{DatedWal, PackName, Repository, WalPack};

use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::archived::wal_object;
use crate::error::ArchiveError;
use crate::packs::format::Member;
use crate::packs::reading::{PackReader, damaged, gone, is_damage};
use crate::packs::sequence::Before;
use crate::packs::settled::SETTLED;
pub(crate) use crate::packs::settled::is_long_ago;

/// A pack of which every segment was decoded and compared, and that the store has.
pub(crate) struct ProvenPack {
    pack: WalPack,
    /// Since when it has been there for certain.
    since: Instant,
    /// The segments that are objects of their own, too, and the same.
    single: Vec<String>,
    /// Of how many of them objects are in memory at a time.
    removed_at_once: usize,
}

async fn open(part: &Repository, pack: &WalPack) -> Result<PackReader, ArchiveError> {
    let reader = PackReader::open(&part.packs(), pack).await?;
    reader.ok_or_else(|| gone(&pack.name))
}

/// Reads a pack from the store, decodes it, and compares every segment with its own object, as far as there is
/// one.
pub(crate) async fn prove(
    part: &Repository,
    pack: &WalPack,
    since: Instant,
) -> Result<ProvenPack, ArchiveError> {
    let reader = open(part, pack).await?;
    let mut single = Vec::new();
    reader
        .decode_all(async |member, decoded| {
            let name = &member.name;
            wal_object::prove_beginning(name, &decoded?.beginning, part.cluster())?;
            if compare(part, pack, member).await? {
                single.push(name.clone());
            }
            Ok(())
        })
        .await?;
    Ok(ProvenPack {
        pack: pack.clone(),
        since,
        single,
        removed_at_once: removed_at_once(reader.segment_size()),
    })
}

/// What is known of a pack that was proven before it was put.
pub(crate) struct OwnPack {
    /// BLAKE3 of its index, which has the hash of each segment as it is stored.
    pub(crate) index_hash: [u8; 32],
    /// BLAKE3 of the object from which each segment was packed.
    pub(crate) objects: Vec<[u8; 32]>,
}

/// Reads a pack from the store that was proven before it was put: it has to be the same, byte for byte. A segment's own
/// object is the one from which it was packed, or is decoded and compared.
pub(crate) async fn read_back(
    part: &Repository,
    pack: &WalPack,
    since: Instant,
    own: &OwnPack,
) -> Result<ProvenPack, ArchiveError> {
    let reader = open(part, pack).await?;
    if reader.hash() != own.index_hash {
        return Err(damaged(
            &pack.name,
            "it is not the pack that was put".to_owned(),
        ));
    }
    reader.check_all().await?;
    let mut single = Vec::new();
    for (member, packed_from) in reader.members().iter().zip(&own.objects) {
        let Some(found) = part.get_dated_wal(&member.name).await? else {
            continue;
        };
        if blake3::hash(&found.object) != *packed_from {
            compare_dated(part, pack, member, found).await?;
        }
        single.push(member.name.clone());
    }
    Ok(ProvenPack {
        pack: pack.clone(),
        since,
        single,
        removed_at_once: removed_at_once(reader.segment_size()),
    })
}

/// Whether a segment of a pack is an object of its own; fails if that is not the same. The segment was decoded, and is
/// what the pack's index says.
pub(crate) async fn compare(
    part: &Repository,
    pack: &WalPack,
    member: &Member,
) -> Result<bool, ArchiveError> {
    match part.get_dated_wal(&member.name).await? {
        Some(single) => compare_dated(part, pack, member, single)
            .await
            .map(|()| true),
        None => Ok(false),
    }
}

/// The same of an object that was read. One that came after the pack was put late: the pack was compared with what had
/// the name before.
async fn compare_dated(
    part: &Repository,
    pack: &WalPack,
    member: &Member,
    single: DatedWal,
) -> Result<(), ArchiveError> {
    match compare_object(&pack.name, member, single.object).await {
        Err(error) if is_damage(&error) && pack.precedes(single.modified) => {
            Err(ArchiveError::PutLate {
                key: part.wal_key(&member.name)?,
                name: member.name.clone(),
                pack: pack.name.to_string(),
            })
        }
        compared => compared,
    }
}

/// Fails if another repository has an object of a segment's own that is not the same as in a pack.
pub(crate) async fn compare_elsewhere(
    part: &Repository,
    pack: &PackName,
    member: &Member,
) -> Result<(), ArchiveError> {
    match part.get_wal(&member.name).await? {
        Some(object) => compare_object(pack, member, object).await,
        None => Ok(()),
    }
}

/// Fails if an object is not the same as a segment of a pack.
async fn compare_object(
    pack: &PackName,
    member: &Member,
    object: Bytes,
) -> Result<(), ArchiveError> {
    let name = &member.name;
    // A long segment has several members, each with a hash of its own.
    let header = Header::read(&object).ok();
    let of_all = header.filter(|header| header.original_len == member.original_len);
    let says_other = of_all.is_some_and(|header| header.original_hash != member.original_hash);
    let found = StoredWal::Single(object).content_hash(name).await?;
    match says_other || *found.as_bytes() != member.original_hash {
        true => Err(damaged(
            pack,
            format!("its {name} is not the {name} that is an object of its own"),
        )),
        false => Ok(()),
    }
}

impl ProvenPack {
    /// Whether it has been there for long enough.
    pub(crate) fn has_settled(&self) -> bool {
        self.single.is_empty() || self.since.elapsed() >= SETTLED
    }

    /// Removes the segments' own objects, some at a time, the lowest positions first.
    pub(crate) async fn settle(self, part: &Repository) -> Result<(), ArchiveError> {
        if self.single.is_empty() {
            return Ok(());
        }
        tokio::time::sleep_until((self.since + SETTLED).into()).await;
        for names in self.single.chunks(self.removed_at_once) {
            if !remove(part, &self.pack, names).await? {
                break;
            }
        }
        Ok(())
    }
}

/// So many bytes of segments are removed after each look at the pack: their objects are in memory meanwhile.
const REMOVED_BYTES: u64 = 256 << 20;

fn removed_at_once(segment_size: u64) -> usize {
    let count = REMOVED_BYTES / segment_size.max(1);
    usize::try_from(count).unwrap_or(usize::MAX).clamp(1, 16)
}

async fn is_there(part: &Repository, pack: &WalPack) -> Result<bool, ArchiveError> {
    Ok(part.packs().overlapping(&pack.name).await?.contains(pack))
}

/// Whether a pack has a copy that is set aside: it is going to move, and what stays of it has objects of its own.
async fn is_aside(part: &Repository, pack: &WalPack) -> Result<bool, ArchiveError> {
    for label in part.list_aside_labels().await? {
        if label.timeline() == pack.name.timeline()
            && let aside = part.packs_aside(label).overlapping(&pack.name).await?
            && aside.iter().any(|of| of.name == pack.name)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes segments' own objects, which are in a pack; not where the pack has expired, was set aside, or is about to
/// be. Where the pack was set aside meanwhile, the objects may be what was to stay of it: they are put back, but for
/// those that were set aside themselves. Where it has expired, so have they. Says whether the pack is still there, and may
/// be gone on with.
async fn remove(part: &Repository, pack: &WalPack, names: &[String]) -> Result<bool, ArchiveError> {
    let mut objects = Vec::new();
    for name in names {
        objects.extend(part.get_wal(name).await?.map(|object| (name, object)));
    }
    if !stays_for_now(part, pack).await? {
        return Ok(false);
    }
    let removed = part.remove_wal(names).await;
    let there = is_there(part, pack).await;
    if let Ok(true) = there {
        removed?;
        return Ok(true);
    }
    if let Ok(false) = there
        && let Ok(false) = is_aside(part, pack).await
    {
        let name = &pack.name;
        tracing::warn!(
            "pack {name} went while it settled, and is not set aside: it has expired, and its segments are not put back"
        );
        removed?;
        return Ok(false);
    }
    // One that cannot be put back keeps none of the others from it.
    let mut failed = removed.err().map(ArchiveError::from).or(there.err());
    for (name, object) in objects {
        if !matches!(was_set_aside(part, pack, name, &object).await, Ok(true))
            && let Err(error) = part.put_wal(name, object).await
        {
            failed.get_or_insert(error.into());
        }
    }
    failed.map_or(Ok(false), Err)
}

/// How often is looked for a pack, where looking takes too long.
const LOOKS: usize = 3;

/// Whether a pack is there, and nothing says that it is about to be set aside. A store may take long to answer, or a
/// machine stand still: then what was seen is worth nothing.
async fn stays_for_now(part: &Repository, pack: &WalPack) -> Result<bool, ArchiveError> {
    for _ in 0..LOOKS {
        let looked = Instant::now();
        if !is_there(part, pack).await? || is_aside(part, pack).await? {
            return Ok(false);
        }
        if !is_long_ago(looked) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this object is a copy of one that was set aside from the pack's timeline.
async fn was_set_aside(
    part: &Repository,
    pack: &WalPack,
    name: &str,
    object: &Bytes,
) -> Result<bool, ArchiveError> {
    for label in part.list_aside_labels().await? {
        if label.timeline() == pack.name.timeline()
            && part.get_aside(label, name).await?.as_ref() == Some(object)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// After a file was put: where no pack was found at `looked`, and too long ago, looks again. What
/// contradicts a pack is removed.
pub(crate) async fn check_put(
    repository: &Repository,
    name: &str,
    file: &StableFile,
    looked: Instant,
) -> Result<(), ArchiveError> {
    if !is_long_ago(looked) {
        return Ok(());
    }
    let checked = check_packed(repository, name, file).await;
    if let Err(ArchiveError::Duplicate { .. }) = checked {
        repository.remove_wal(&[name.to_owned()]).await?;
    }
    checked
}

/// After a put that failed, and may have taken effect all the same: where no pack was found at `looked`, and too long ago,
/// looks again. What contradicts a pack is removed if it is this very object. What is put later still, readers know by
/// its time.
pub(crate) async fn check_failed_put(
    repository: &Repository,
    (name, object): (&str, &Bytes),
    file: &StableFile,
    looked: Instant,
) -> Result<(), ArchiveError> {
    if !is_long_ago(looked) {
        return Ok(());
    }
    let checked = check_packed(repository, name, file).await;
    if let Err(ArchiveError::Duplicate { .. }) = checked
        && repository.get_wal(name).await?.as_ref() == Some(object)
    {
        repository.remove_wal(&[name.to_owned()]).await?;
    }
    checked
}

/// Fails where packs have another file of this name: a push that was put too late may have been killed before
/// it looked.
pub(crate) async fn check_packed(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<(), ArchiveError> {
    let packs = repository.packs();
    let Some(packed) = StoredWal::get_packed(&packs, name, Before::Passed).await? else {
        return Ok(());
    };
    match file.is_in(name, packed).await? {
        true => Ok(()),
        false => Err(ArchiveError::Duplicate {
            name: name.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::pack;
    use crate::packs::format::{ENTRY_LEN, TRAILER_LEN};
    use crate::packs::testing::{archive, name, options, segment};
    use crate::wal::times_in_brief::TimesInBrief;
    use walzip_repo::PutOutcome;

    /// A put that took so long that the segment it should have found is in a pack by now.
    #[tokio::test(start_paused = true)]
    async fn what_was_put_too_late_is_compared_with_the_pack() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), 1..3).await;
        let path = directory.path().join(name(1));
        let object = repository.get_wal(&name(1)).await.expect("read");
        pack(&repository, &options()).await.expect("packed");
        let long_ago = Instant::now()
            .checked_sub(SETTLED)
            .expect("a machine that has run for some seconds");
        for (byte, looked, is_refused) in [
            (0, long_ago, false),
            (7, Instant::now(), false),
            (7, long_ago, true),
        ] {
            std::fs::write(&path, segment(1, byte)).expect("a file");
            let file = StableFile::open(&path, 8192).await.expect("a file");
            let object = object.clone().expect("there");
            let put = repository.put_wal(&name(1), object).await;
            assert_eq!(put.expect("put"), PutOutcome::Created);
            let checked = check_put(&repository, &name(1), &file, looked).await;
            assert_eq!(checked.is_err(), is_refused);
            if byte == 7 && !is_refused {
                // The next push of the same does not take it for stored.
                let checked = check_packed(&repository, &name(1), &file).await;
                assert!(matches!(checked, Err(ArchiveError::Duplicate { .. })));
            }
            let left = repository.find_single(&name(1)).await.expect("asked");
            assert_eq!(left.is_none(), is_refused);
            repository.remove_wal(&[name(1)]).await.expect("removed");
        }
    }

    /// A put that failed, and whose object came all the same. The original's own object stays.
    #[tokio::test(start_paused = true)]
    async fn what_a_failed_put_has_left_is_compared_with_the_pack() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), 0x51..0x53).await;
        let path = directory.path().join(name(0x51));
        let own = repository.get_wal(&name(0x51)).await.expect("read");
        let own = own.expect("there");
        pack(&repository, &options()).await.expect("packed");
        std::fs::write(&path, segment(0x51, 7)).expect("a file");
        let file = StableFile::open(&path, 8192).await.expect("a file");
        let encoded = file.encode(&name(0x51), Default::default(), true).await;
        let stray = encoded.expect("encoded");
        let long_ago = Instant::now()
            .checked_sub(SETTLED)
            .expect("a machine that has run for some seconds");
        for (object, looked, is_left) in [
            (&stray, Instant::now(), true),
            (&stray, long_ago, false),
            (&own, long_ago, true),
        ] {
            let put = repository.put_wal(&name(0x51), object.clone()).await;
            assert_eq!(put.expect("put"), PutOutcome::Created);
            let segment_name = name(0x51);
            let failed = (&*segment_name, &stray);
            let checked = check_failed_put(&repository, failed, &file, looked).await;
            assert_eq!(checked.is_err(), looked == long_ago);
            let left = repository.find_single(&name(0x51)).await.expect("asked");
            assert_eq!(left.is_some(), is_left);
            repository.remove_wal(&[name(0x51)]).await.expect("removed");
        }
    }

    /// What expires beside it is not archived again.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_put_back_of_a_pack_that_has_expired() {
        use std::sync::Arc;
        use walzip_repo::testing::{Faults, FaultyStore};
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), 1..3).await;
        let object = repository.get_wal(&name(1)).await.expect("read");
        pack(&repository, &options()).await.expect("packed");
        let there = repository.packs().list().await.expect("listed").remove(0);
        // The open, the object, looks for the pack and for labels, and the removal: then the pack is gone.
        for (call, is_expired) in [(6, true), (100, false)] {
            let object = object.clone().expect("there");
            let put = repository.put_wal(&name(1), object).await;
            assert_eq!(put.expect("put"), PutOutcome::Created);
            let faults = Faults {
                find_nothing_at_call: Some(call),
                ..Faults::default()
            };
            let faulty = FaultyStore::new(Arc::clone(repository.store()), faults);
            let beside = Repository::open(Arc::new(faulty)).await.expect("opened");
            let is_there = remove(&beside, &there, &[name(1)]).await.expect("removed");
            assert_eq!(is_there, !is_expired);
            let left = repository.find_single(&name(1)).await.expect("asked");
            assert!(left.is_none());
        }
    }

    /// A restore believes what the index says of times: it is compared with the records.
    #[tokio::test(start_paused = true)]
    async fn an_index_that_says_other_times_proves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), 1..3).await;
        pack(&repository, &options()).await.expect("packed");
        let there = repository.packs().list().await.expect("listed").remove(0);
        let proven = prove(&repository, &there, Instant::now()).await;
        assert!(proven.is_ok());
        let bytes = repository.packs().read(&there.name).await;
        let mut bytes = bytes.expect("read").expect("there").to_vec();
        let trailer = bytes.len() - TRAILER_LEN;
        let index = trailer - 2 * ENTRY_LEN;
        // Of the first segment, where the last record begins.
        let at = index + ENTRY_LEN - TimesInBrief::LEN;
        bytes[at..at + 8].copy_from_slice(&(0x10_0028_u64).to_le_bytes());
        let hash = blake3::hash(&bytes[index..trailer + 16]);
        bytes[trailer + 16..trailer + 48].copy_from_slice(hash.as_bytes());
        repository.remove_pack(&there.name).await.expect("removed");
        let put = repository.put_pack(&there.name, bytes).await;
        assert_eq!(put.expect("put"), PutOutcome::Created);
        let proven = prove(&repository, &there, Instant::now()).await;
        let Err(error) = proven else {
            panic!("it says what is not so")
        };
        assert!(error.to_string().contains("other times"), "{error}");
    }
}
