//! What an expiry removes while a verification runs is no damage.

use std::collections::BTreeSet;

use walzip_repo::{BackupLabel, Repository};

use super::{Finding, Part};
use crate::error::ArchiveError;

/// Leaves out what was found wrong with backups that are not listed any more, and with WAL that is not, unless a backup
/// that is listed needs it to be restored. A hole after a backup, the next verification finds.
pub(super) async fn without_expired(
    repository: &Repository,
    (parts, listed): (&[Part], &[BackupLabel]),
    needed: &BTreeSet<String>,
    mut findings: Vec<Finding>,
) -> Result<Vec<Finding>, ArchiveError> {
    if findings.is_empty() {
        return Ok(findings);
    }
    let left = repository.list_backups().await?;
    let gone = listed.iter().filter(|label| !left.contains(label));
    let mut gone: BTreeSet<String> = gone.map(ToString::to_string).collect();
    for part in parts {
        let left = part.repository.list_wal_objects().await?;
        let packs: BTreeSet<_> = left.packs.iter().map(|pack| &pack.name).collect();
        let packs = part.packs.iter().filter(|pack| !packs.contains(&pack.name));
        gone.extend(packs.map(|pack| part.object(&pack.name.to_string())));
        let left = left.entries();
        let left: BTreeSet<&str> = left.iter().map(|entry| entry.name.as_str()).collect();
        let wal = part.listing.iter().map(|entry| entry.name.as_str());
        let wal = wal.filter(|name| !left.contains(name) && !needed.contains(*name));
        gone.extend(wal.map(|name| part.object(name)));
    }
    findings.retain(|finding| !gone.contains(&finding.object));
    Ok(findings)
}
