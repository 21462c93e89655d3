//! What is lacking and lies in packs.

use std::collections::{BTreeMap, HashSet};

use walzip_pgformat::wal::SegmentEdges;
use walzip_repo::{PutOutcome, Repository, WalEntry, WalPack};

use super::problem::{Problem, is_of_one_file};
use super::putting::put;
use super::{SyncOptions, Synced};
use crate::archived::neighbours::Neighbours;
use crate::archived::settling;
use crate::archived::stored_wal::StoredWal;
use crate::archived::wal_object;
use crate::error::ArchiveError;
use crate::packs::{Before, PackReader};

/// Copies the packs that have what is lacking, each whole. Of one that has something else that is not to come, the
/// segments that are lacking become objects of their own.
pub(super) async fn copy_packs(
    from: &Repository,
    to: &Repository,
    (lacking, away): (&[WalEntry], &HashSet<String>),
    (options, synced, neighbours): (&SyncOptions, &mut Synced, &mut Neighbours),
) -> Result<(), ArchiveError> {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in lacking.iter().filter(|entry| entry.packed.is_some()) {
        names.insert(&entry.name, entry.size_bytes);
    }
    if names.is_empty() {
        return Ok(());
    }
    for pack in from.packs().list().await? {
        let segments = pack.name.segments();
        let (files, sizes): (Vec<String>, Vec<u64>) = segments
            .filter_map(|name| names.remove_entry(name.as_str()))
            .map(|(name, size)| (name.to_owned(), size))
            .unzip();
        if files.is_empty() {
            continue;
        }
        if pack.name.segments().any(|name| away.contains(&name)) {
            copy_segments(from, to, &files, (synced, neighbours)).await?;
        } else {
            match copy_pack(from, to, &pack, neighbours).await {
                Ok(()) => synced.add(files, pack.size_bytes),
                Err(error) if is_of_one_file(&error) => {
                    synced.problems.push(Problem::of_pack(&pack, files, error));
                }
                Err(error) => return Err(error),
            }
        }
        options.progress.add(sizes.iter().sum());
    }
    for name in names.into_keys() {
        let why = "its pack disappeared after it was listed";
        synced.problems.push(Problem::of_file(name, why));
    }
    Ok(())
}

/// Copies a pack of which every segment can be decoded, and none is something else in the target.
async fn copy_pack(
    from: &Repository,
    to: &Repository,
    pack: &WalPack,
    neighbours: &mut Neighbours,
) -> Result<(), ArchiveError> {
    let gone = || ArchiveError::Damaged {
        object: format!("pack {}", pack.name),
        reason: "it disappeared after it was listed".to_owned(),
    };
    let reader = PackReader::open(&from.packs(), pack).await?;
    let reader = reader.ok_or_else(gone)?;
    reader
        .decode_all(async |member, decoded| {
            let (name, decoded) = (&member.name, decoded?);
            wal_object::prove_beginning(name, &decoded.beginning, from.cluster())?;
            settling::compare_elsewhere(to, &pack.name, member).await?;
            neighbours.add(name, decoded.edges);
            Ok(())
        })
        .await?;
    let object = from.packs().read(&pack.name).await?.ok_or_else(gone)?;
    let put = to.put_pack(&pack.name, object.clone()).await?;
    if to.packs().read(&pack.name).await? == Some(object) {
        return Ok(());
    }
    // Where it stayed, the next run would take it for what is lacked.
    if put == PutOutcome::Created {
        to.remove_pack(&pack.name).await?;
    }
    Err(ArchiveError::Damaged {
        object: format!("pack {}", pack.name),
        reason: "the copy is not what was put".to_owned(),
    })
}

/// Brings segments out of a pack, each as an object of its own.
async fn copy_segments(
    from: &Repository,
    to: &Repository,
    names: &[String],
    (synced, neighbours): (&mut Synced, &mut Neighbours),
) -> Result<(), ArchiveError> {
    for name in names {
        match copy_segment(from, to, name).await {
            Ok((edges, stored_bytes)) => {
                neighbours.add(name, edges);
                synced.add([name.clone()], stored_bytes);
            }
            Err(error) if is_of_one_file(&error) => {
                synced.problems.push(Problem::of_file(name, error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn copy_segment(
    from: &Repository,
    to: &Repository,
    name: &str,
) -> Result<(Option<SegmentEdges>, u64), ArchiveError> {
    let packed = StoredWal::get_packed(&from.packs(), name, Before::Passed).await?;
    let packed = packed.ok_or_else(|| ArchiveError::Damaged {
        object: name.to_owned(),
        reason: "its pack disappeared after it was listed".to_owned(),
    })?;
    let object = wal_object::encode(name, packed.content(name).await?).await?;
    let stored = StoredWal::Single(object.clone());
    let proven = wal_object::prove(name, stored, from.cluster()).await?;
    let stored_bytes = object.len() as u64;
    put(to, name, object).await?;
    Ok((proven.edges, stored_bytes))
}
