//! Under which label something is set aside.

use std::collections::BTreeSet;

use walzip_pgformat::TimelineId;
use walzip_repo::{AsideLabel, PackName, Repository, WalEntry, WalListing};

use super::is_back;
use crate::error::ArchiveError;

/// The first label that is free, or that an interrupted attempt to move the same has used.
pub(super) async fn choose_label(
    repository: &Repository,
    timeline: TimelineId,
    (entries, packs): (&[WalEntry], &[PackName]),
) -> Result<AsideLabel, ArchiveError> {
    let mut label = AsideLabel::first(timeline.0);
    loop {
        let there = repository.list_aside_objects(label).await?;
        if there == WalListing::default() {
            return Ok(label);
        }
        let names: BTreeSet<&str> = there
            .single
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let mut common = false;
        let mut differ = has_in_another_form(&there, (entries, packs));
        for pack in packs.iter().filter(|pack| is_among(pack, &there)) {
            let is_same = is_back(repository, label, pack).await?;
            (common, differ) = (common | is_same, differ | !is_same);
        }
        for entry in entries.iter().filter(|e| names.contains(e.name.as_str())) {
            let aside = repository.get_aside(label, &entry.name).await?;
            let is_same = repository.get_wal(&entry.name).await? == aside;
            (common, differ) = (common | is_same, differ | !is_same);
            if differ {
                break;
            }
        }
        if common && !differ {
            return Ok(label);
        }
        label = label.next();
    }
}

/// Whether something that moves has a segment that is aside already, but in another pack, or in a pack here and not
/// there. It may be of another branch, and under one label no two of those may be.
fn has_in_another_form(there: &WalListing, (entries, packs): (&[WalEntry], &[PackName])) -> bool {
    // A segment that was in a pack and an object at once moves as both.
    let other = there
        .packs
        .iter()
        .filter(|pack| !packs.contains(&pack.name));
    let in_packs: BTreeSet<String> = other.flat_map(|pack| pack.name.segments()).collect();
    let single: BTreeSet<&str> = there.single.iter().map(|entry| &*entry.name).collect();
    let others = packs.iter().filter(|pack| !is_among(pack, there));
    let mut of_others = others.flat_map(PackName::segments);
    entries.iter().any(|entry| in_packs.contains(&entry.name))
        || of_others.any(|name| in_packs.contains(&name) || single.contains(&*name))
}

fn is_among(pack: &PackName, there: &WalListing) -> bool {
    there.packs.iter().any(|of| of.name == *pack)
}
