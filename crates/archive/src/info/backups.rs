//! What `info` says of a finished backup.

use serde::Serialize;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{BackupType, Pin, WalEntry};

use crate::backups::backup_objects::{AllObjects, DamagedObject};
use crate::backups::backup_record::{BackupRecord, DatabaseRecord, Moment};
use crate::error::ArchiveError;
use crate::server::tablespace_record::TablespaceRecord;

/// A backup, and the segments that it needs.
pub(super) type Described = (BackupRecord, Vec<SegmentName>);

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupInfo {
    /// Its label.
    pub label: String,
    /// Its type.
    #[serde(rename = "type")]
    pub backup_type: BackupType,
    /// The backup that it was compared with.
    pub prior: Option<String>,
    /// The backups without which it cannot be restored.
    pub references: Vec<String>,
    /// Those of them that are not in the repository any more, or cannot be read. A backup with any
    /// cannot be restored.
    pub missing_references: Vec<String>,
    /// The server's version.
    pub server_version: String,
    /// Whether the server was a standby.
    pub from_standby: bool,
    /// Where recovery starts.
    pub start: Moment,
    /// The earliest moment to which it can be restored.
    pub stop: Moment,
    /// The first segment that it needs.
    pub first_segment: Option<String>,
    /// The last segment that it needs.
    pub last_segment: Option<String>,
    /// The size of the cluster.
    pub original_bytes: u64,
    /// The size in the repository, WAL and what it refers to not counted.
    pub stored_bytes: u64,
    /// The tablespaces other than the data directory.
    pub tablespaces: Vec<TablespaceRecord>,
    /// The databases, as far as the backup names them.
    pub databases: Vec<DatabaseRecord>,
    /// Whether no page had a wrong checksum when it was taken, as far as checksums tell.
    pub checksums_verified: bool,
    /// Since when it is pinned, and why, if it is: it is not expired.
    pub pinned: Option<Pin>,
    /// Required segments that are not in the repository any more. A backup with any cannot be
    /// restored.
    pub missing_segments: Vec<String>,
    /// Objects that a restore of it reads, its own and those of the backups that it refers to, that
    /// are missing or have other sizes. A backup with any cannot be restored.
    pub damaged_objects: Vec<DamagedObject>,
}

impl BackupInfo {
    /// Whether the backup can be restored, as far as names and sizes show.
    pub fn is_whole(&self) -> bool {
        self.is_stored() && self.missing_segments.is_empty()
    }

    /// Whether all files of the backup are there, its own and those in backups that it refers to, of
    /// which no WAL is needed.
    pub(super) fn is_stored(&self) -> bool {
        self.missing_references.is_empty() && self.damaged_objects.is_empty()
    }
}

/// The backups that one refers to and that are not among those of its cluster.
fn missing_references(record: &BackupRecord, own: &[BackupRecord]) -> Vec<String> {
    let is_missing = |label: &&String| !own.iter().any(|other| other.label == **label);
    record
        .references
        .iter()
        .filter(is_missing)
        .cloned()
        .collect()
}

/// The objects that a restore of a backup reads and that are not as they were written.
fn damaged_objects(
    record: &BackupRecord,
    own: &[BackupRecord],
    objects: &AllObjects,
) -> Result<Vec<DamagedObject>, ArchiveError> {
    let is_needed = |other: &&BackupRecord| {
        other.label == record.label || record.references.contains(&other.label)
    };
    let mut damaged = Vec::new();
    for needed in own.iter().filter(is_needed) {
        damaged.extend(objects.damaged(needed, needed.restored_objects())?);
    }
    Ok(damaged)
}

/// Describes a backup; whether it is pinned is not known yet.
pub(super) fn backup_info(
    (record, required): &Described,
    listing: &[WalEntry],
    own: &[BackupRecord],
    objects: &AllObjects,
) -> Result<BackupInfo, ArchiveError> {
    let is_archived = |name: &String| {
        listing
            .binary_search_by(|entry| entry.name.as_str().cmp(name))
            .is_ok()
    };
    let names: Vec<String> = required.iter().map(ToString::to_string).collect();
    Ok(BackupInfo {
        original_bytes: record.original_bytes(),
        stored_bytes: record.stored_bytes(),
        label: record.label.clone(),
        backup_type: record.backup_type(),
        prior: record.prior.clone(),
        references: record.references.clone(),
        missing_references: missing_references(record, own),
        server_version: record.server_version.clone(),
        from_standby: record.from_standby,
        start: record.start,
        stop: record.stop,
        first_segment: names.first().cloned(),
        last_segment: names.last().cloned(),
        tablespaces: record.tablespaces.clone(),
        databases: record.databases.clone(),
        checksums_verified: record.checksums_verified,
        pinned: None,
        missing_segments: names
            .into_iter()
            .filter(|name| !is_archived(name))
            .collect(),
        damaged_objects: damaged_objects(record, own, objects)?,
    })
}
